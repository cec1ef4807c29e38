"""One call to a model of an extension: what it streams is told at once, its result completes it.

Whatever goes wrong is a `ModelFailed`. Whoever stops listening stops the call, and the extension is told. An answer
that stays silent for too long, takes too long in all, or is too long fails.
"""

from collections import deque
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Self

import attrs
import trio

from session_core import limits
from session_core.errors import InvalidInput
from session_core.ids import SessionId, new_id
from session_core.own_errors import OwnError
from session_core.providers.base import ModelFailed, ModelFinished, ModelRequest, ProviderEvent
from session_core.providers.failures import failed
from session_core.rpc.failures import RpcFailed
from session_core.sep.host.calls.contexts import Contexts
from session_core.sep.host.models.answer import AnswerDecoder
from session_core.sep.host.models.credentials import Credentials
from session_core.sep.host.models.failures import failed_by_extension
from session_core.sep.host.models.logins import Asked, LoginFailed, Logins
from session_core.sep.host.models.request import complete_params, tool_names
from session_core.sep.host.registrations import ProviderRegistration


@attrs.frozen(kw_only=True)
class Patience:
    """How long an answer may take, in seconds: without a word, in all, and for its result once the model is done."""

    silence: float = limits.EXTENSION_ANSWER_MS / 1000
    total: float = limits.EXTENSION_ANSWER_TOTAL_MS / 1000
    last_word: float = 5


class Answer:
    """One answer on its way: pieces come in without waiting, and are read at the reader's pace.

    What waits is bounded, as the decoder ends an answer that is too long.
    """

    def __init__(self, request: ModelRequest, patience: Patience) -> None:
        self.decoder = AnswerDecoder(tool_names(request))
        self.waiting_for = trio.CancelScope()
        self._patience = patience
        self._ends_at = trio.current_time() + patience.total
        self._waiting: deque[ProviderEvent] = deque()
        self._more = trio.Event()
        self._ended = False
        self.be_patient()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ProviderEvent:
        await trio.lowlevel.checkpoint()
        while not self._waiting:
            if self._ended:
                raise StopAsyncIteration
            self._more = trio.Event()
            await self._more.wait()
        return self._waiting.popleft()

    def be_patient(self) -> None:
        """Wait for the next word from now on."""
        seconds = self._patience.last_word if self.decoder.done else self._patience.silence
        self.waiting_for.deadline = min(trio.current_time() + seconds, self._ends_at)

    def take_delta(self, event: object) -> None:
        if not self.decoder.done:
            self.put(self.decoder.delta(event))
            self.be_patient()
        if self.decoder.ended:
            self.waiting_for.cancel(reason="the answer is too long")

    def put(self, events: list[ProviderEvent]) -> None:
        if not self._ended:
            self._waiting.extend(events)
            self._ended = bool(events) and isinstance(events[-1], ModelFinished | ModelFailed)
            self._more.set()

    def give_up_waiting(self) -> None:
        """Say that nothing has come for too long; an answer whose model was done is as good as whole."""
        if self.decoder.done:
            self.put(self.decoder.finish())
        elif trio.current_time() >= self._ends_at:
            self.put(
                self.decoder.fail(failed("network", f"The answer took more than {self._patience.total:g} seconds"))
            )
        else:
            sentence = f"The extension sent nothing new for {self._patience.silence:g} seconds"
            self.put(self.decoder.fail(failed("network", sentence)))

    def close(self) -> None:
        self._waiting.clear()
        self._ended = True
        self._more.set()


class Streams:
    """The answers that are on their way, by the ids that extensions name with each piece."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[str, Answer]] = {}

    @contextmanager
    def listening(self, extension: str, request_id: str, answer: Answer) -> Generator[None]:
        """Hand the pieces of an answer on for the length of the block."""
        self._open[request_id] = (extension, answer)
        try:
            yield
        finally:
            del self._open[request_id]

    def delta(self, extension: str, request_id: str, event: object) -> None:
        """Take in a piece; one for an answer that is over, or of somebody else, is passed over."""
        owner, answer = self._open.get(request_id, ("", None))
        if answer is not None and owner == extension:
            answer.take_delta(event)

    def __len__(self) -> int:
        return len(self._open)


@attrs.frozen(kw_only=True, eq=False)
class ExtensionProvider:
    """Answers from one model of an extension."""

    extension: Asked
    registration: ProviderRegistration
    model_id: str
    contexts: Contexts
    logins: Logins
    streams: Streams
    patience: Patience

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[ProviderEvent]]:
        """Ask the model; leaving at any moment tells the extension that nobody listens any more."""
        request_id = new_id("answer")
        answer = Answer(request, self.patience)
        own = OwnError()
        with own.unwrapped(), self.streams.listening(self.extension.name, request_id, answer):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._ask, request, request_id, answer)
                try:
                    with own.noted():
                        yield answer
                finally:
                    answer.close()
                    nursery.cancel_scope.cancel(reason="nobody listens any more")

    async def _ask(self, request: ModelRequest, request_id: str, answer: Answer) -> None:
        session_id = None if request.cache_key is None else SessionId(request.cache_key)
        with answer.waiting_for:
            try:
                credentials = await self._credentials(session_id)
                failure = await self._ask_with(credentials, request, session_id, request_id, answer)
                if self._may_renew(failure, credentials, answer):
                    assert credentials is not None
                    credentials = await self.logins.renew(
                        self.extension, self.registration.name, session_id, credentials
                    )
                    failure = await self._ask_with(credentials, request, session_id, request_id, answer)
            except LoginFailed as error:
                failure = failed("auth", error.message)
            if failure is not None:
                answer.put(answer.decoder.fail(failure))
            return
        answer.give_up_waiting()

    async def _ask_with(
        self,
        credentials: Credentials | None,
        request: ModelRequest,
        session_id: SessionId | None,
        request_id: str,
        answer: Answer,
    ) -> ModelFailed | None:
        extension, provider = self.extension, self.registration.name
        secrets = () if credentials is None else credentials.secrets
        with self.contexts.dispatch(extension.name, extension.generation, session_id) as context:
            params = complete_params(
                request, request_id=request_id, provider=provider, model=self.model_id, context=context.wire
            )
            if credentials is not None:
                params["credentials"] = credentials.wire()
            try:
                result = await extension.request("provider/complete", params, timeout=None)
            except RpcFailed as error:
                return failed_by_extension(
                    error, name=extension.name, state=extension.state, problem=extension.problem, secrets=secrets
                )
            except InvalidInput as error:
                return failed("context_too_long", "The conversation does not fit into one message", error.message)
        answer.put(answer.decoder.result(result))
        return None

    async def _credentials(self, session_id: SessionId | None) -> Credentials | None:
        if not self.registration.oauth:
            return None
        return await self.logins.fresh(self.extension, self.registration.name, session_id)

    @staticmethod
    def _may_renew(failure: ModelFailed | None, credentials: Credentials | None, answer: Answer) -> bool:
        if failure is None or failure.kind != "auth" or credentials is None or credentials.refresh_token is None:
            return False
        return not answer.decoder.begun
