"""One call to an extension's model: pieces are emitted at once, and the result completes them.

Every error is a `ModelFailed`. A reader that stops listening stops the call, and the extension is told. An answer fails
if it is silent for too long, takes too long in total, or is too long.
"""

import json
import re
from collections import deque
from collections.abc import AsyncIterator, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, Self

import attrs
import trio

from session_core import limits
from session_core.error_capture import ErrorCapture
from session_core.errors import InvalidInput
from session_core.ids import SessionId, new_id
from session_core.providers.base import FailureKind, ModelFailed, ModelFinished, ModelRequest, ProviderEvent
from session_core.providers.failures import build_failure, classify_error, failure_from_status
from session_core.providers.secrets import Secret
from session_core.rpc.failures import CANCELLED, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RpcClosed, RpcFailed
from session_core.sep.host.calls.contexts import Contexts
from session_core.sep.host.extension import HostedExtension
from session_core.sep.host.models.answer import AnswerDecoder
from session_core.sep.host.models.credentials import StoredCredentials
from session_core.sep.host.models.logins import LoginFailed, ProviderLogins
from session_core.sep.host.models.request import complete_params, tool_names
from session_core.sep.host.registrations import ProviderRegistration
from session_core.sep.protocol.names import BLOCKED, CAPABILITY_DISABLED, CONTEXT_VIOLATION, NO_UI, NOT_TRUSTED

# --- why a model of an extension gave no answer, as a `ModelFailed` ---------------------------------------------------
# Extensions answer with an error of a few words, mostly passed on from elsewhere. An HTTP status or an error type is
# looked for in its `data`, then in its message, so that errors worth a retry get one.
_ON_ITS_WAY: Final = frozenset({"starting", "restarting", "reloading", "ready"})
_REFUSALS: Final = frozenset(
    {BLOCKED, NO_UI, NOT_TRUSTED, CONTEXT_VIOLATION, CAPABILITY_DISABLED, METHOD_NOT_FOUND, INVALID_PARAMS, CANCELLED}
)
_STATUS: Final = re.compile(
    r"(?:^|\b(?:http|status|code|error)\b\W{0,4}(?:code\W{0,3})?)\(?([45]\d\d)\b", re.IGNORECASE
)
_NETWORK: Final = re.compile(
    r"fetch failed|socket hang up|connection (?:refused|reset|error|closed|timed? ?out)|network error|timed? ?out"
    r"|ECONN(?:REFUSED|RESET|ABORTED)|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|EPIPE",
    re.IGNORECASE,
)
_BY_WORDS: Final[tuple[tuple[re.Pattern[str], FailureKind], ...]] = (
    (re.compile(r"rate.?limit|too many requests", re.IGNORECASE), "rate_limited"),
    (re.compile(r"overloaded|service unavailable|bad gateway", re.IGNORECASE), "overloaded"),
    (re.compile(r"unauthori[sz]ed|invalid.{0,20}(?:api.?key|token)|not logged in", re.IGNORECASE), "auth"),
    (_NETWORK, "network"),
)
_LONGEST_READ: Final = 4_000


def classify_failure(
    error: RpcFailed, *, name: str, state: str, problem: str | None, secrets: Iterable[Secret] = ()
) -> ModelFailed:
    """Classify the error of a call to an extension; `state` and `problem` are the extension's own."""
    hidden = tuple(secrets)
    if isinstance(error, RpcClosed):
        return build_failure("network", f"The extension {name} ended in the middle of the answer", secrets=hidden)
    if error.code == INTERNAL_ERROR and state not in {"ready", "reloading"}:
        return _not_running(name, state, problem, hidden)
    sentence = f"The extension {name} gave no answer"
    data = error.data if isinstance(error.data, dict) else {}
    if (status := _status(data)) is not None:
        return _by_status(status, data, error.message, hidden)
    names = [text.lower() for key in ("type", "code", "kind") if isinstance(text := data.get(key), str)]
    said = error.message[:_LONGEST_READ]
    if (kind := classify_error(names, said)) is not None:
        return build_failure(kind, sentence, said, secrets=hidden, retry_after_ms=_wait(data))
    if error.code in _REFUSALS:
        return build_failure("refused", sentence, said, secrets=hidden)
    if found := _STATUS.search(said):
        return _by_status(int(found[1]), data, said, hidden)
    for words, by_words in _BY_WORDS:
        if words.search(said):
            return build_failure(by_words, sentence, said, secrets=hidden, retry_after_ms=_wait(data))
    return build_failure("internal", sentence, said, secrets=hidden)


def _not_running(name: str, state: str, problem: str | None, secrets: tuple[Secret, ...]) -> ModelFailed:
    kind: FailureKind = "network" if state in _ON_ITS_WAY else "refused"
    return build_failure(kind, f"The extension {name} is not running", problem or "", secrets=secrets)


def _by_status(status: int, data: dict[str, Any], said: str, secrets: tuple[Secret, ...]) -> ModelFailed:
    body = json.dumps({"error": {"message": said[:_LONGEST_READ], "type": data.get("type"), "code": data.get("code")}})
    wait = _wait(data)
    headers = {} if wait is None else {"retry-after-ms": str(wait)}
    return failure_from_status(status, headers, body.encode(), secrets=secrets)


def _status(data: dict[str, Any]) -> int | None:
    for key in ("status", "status_code", "statusCode", "http_status"):
        status = data.get(key)
        if isinstance(status, int) and not isinstance(status, bool) and 400 <= status <= 599:
            return status
    return None


def _wait(data: dict[str, Any]) -> int | None:
    for key, unit in (("retry_after_ms", 1), ("retry_after", 1000)):
        wait = data.get(key)
        if isinstance(wait, int | float) and not isinstance(wait, bool) and 0 <= wait <= 86_400_000:
            return int(wait * unit)
    return None


# --- stream -----------------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class AnswerTimeouts:
    """Timeouts of an answer in seconds: without a message, in total, and for the result once the model is done."""

    silence: float = limits.EXTENSION_ANSWER_MS / 1000
    total: float = limits.EXTENSION_ANSWER_TOTAL_MS / 1000
    last_word: float = 5


class ModelAnswerStream:
    """An answer in progress: pieces come in without blocking, and are read at the reader's pace.

    The buffer is bounded, because the decoder ends an answer that is too long.
    """

    def __init__(self, request: ModelRequest, patience: AnswerTimeouts) -> None:
        self.decoder = AnswerDecoder(tool_names(request))
        self.wait_scope = trio.CancelScope()
        self._patience = patience
        self._ends_at = trio.current_time() + patience.total
        self._waiting: deque[ProviderEvent] = deque()
        self._more = trio.Event()
        self._ended = False
        self.extend_deadline()

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

    def extend_deadline(self) -> None:
        """Restart the timeout for the next message."""
        seconds = self._patience.last_word if self.decoder.done else self._patience.silence
        self.wait_scope.deadline = min(trio.current_time() + seconds, self._ends_at)

    def take_delta(self, event: object) -> None:
        if not self.decoder.done:
            self.put(self.decoder.take_delta(event))
            self.extend_deadline()
        if self.decoder.ended:
            self.wait_scope.cancel(reason="the answer is too long")

    def put(self, events: list[ProviderEvent]) -> None:
        if not self._ended:
            self._waiting.extend(events)
            self._ended = bool(events) and isinstance(events[-1], ModelFinished | ModelFailed)
            self._more.set()

    def give_up_waiting(self) -> None:
        """End an answer that was silent for too long; if its model was done, it counts as complete."""
        if self.decoder.done:
            self.put(self.decoder.finish())
            return
        sentence = f"The extension sent nothing new for {self._patience.silence:g} seconds"
        if trio.current_time() >= self._ends_at:
            sentence = f"The answer took more than {self._patience.total:g} seconds"
        self.put(self.decoder.fail(build_failure("network", sentence)))

    def close(self) -> None:
        self._waiting.clear()
        self._ended = True
        self._more.set()


class AnswerStreams:
    """The answers in progress, by the request ids that come with each piece."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[str, ModelAnswerStream]] = {}

    @contextmanager
    def route_deltas(self, extension: str, request_id: str, answer: ModelAnswerStream) -> Generator[None]:
        """Route the pieces of an answer to it for the length of the block."""
        self._open[request_id] = (extension, answer)
        try:
            yield
        finally:
            del self._open[request_id]

    def delta(self, extension: str, request_id: str, event: object) -> None:
        """Handle a piece; ignores one for an answer that is over, or from another extension."""
        owner, answer = self._open.get(request_id, ("", None))
        if answer is not None and owner == extension:
            answer.take_delta(event)

    def __len__(self) -> int:
        return len(self._open)


@attrs.frozen(kw_only=True, eq=False)
class ExtensionProvider:
    """Answers from one model of an extension."""

    extension: HostedExtension
    registration: ProviderRegistration
    model_id: str
    contexts: Contexts
    logins: ProviderLogins
    streams: AnswerStreams
    patience: AnswerTimeouts

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[ProviderEvent]]:
        """Call the model; leaving at any moment tells the extension that the call was cancelled."""
        request_id = new_id("answer")
        answer = ModelAnswerStream(request, self.patience)
        own = ErrorCapture()
        with own.reraise(), self.streams.route_deltas(self.extension.name, request_id, answer):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._ask, request, request_id, answer)
                try:
                    with own.capture():
                        yield answer
                finally:
                    answer.close()
                    nursery.cancel_scope.cancel(reason="the reader has left")

    async def _ask(self, request: ModelRequest, request_id: str, answer: ModelAnswerStream) -> None:
        session_id = None if request.cache_key is None else SessionId(request.cache_key)
        with answer.wait_scope:
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
                failure = build_failure("auth", error.message)
            if failure is not None:
                answer.put(answer.decoder.fail(failure))
            return
        answer.give_up_waiting()

    async def _ask_with(
        self,
        credentials: StoredCredentials | None,
        request: ModelRequest,
        session_id: SessionId | None,
        request_id: str,
        answer: ModelAnswerStream,
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
                return classify_failure(
                    error, name=extension.name, state=extension.state, problem=extension.problem, secrets=secrets
                )
            except InvalidInput as error:
                return build_failure(
                    "context_too_long", "The conversation does not fit into one message", error.message
                )
        answer.put(answer.decoder.take_result(result))
        return None

    async def _credentials(self, session_id: SessionId | None) -> StoredCredentials | None:
        if not self.registration.oauth:
            return None
        return await self.logins.find_fresh(self.extension, self.registration.name, session_id)

    @staticmethod
    def _may_renew(
        failure: ModelFailed | None, credentials: StoredCredentials | None, answer: ModelAnswerStream
    ) -> bool:
        if failure is None or failure.kind != "auth" or credentials is None or credentials.refresh_token is None:
            return False
        return not answer.decoder.has_content
