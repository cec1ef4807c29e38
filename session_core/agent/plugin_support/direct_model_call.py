"""Model calls of a protocol outside the conversation: paid for by the turn, counted by purpose.

Rules:
1. Each question has a key. The same key with the same request is answered and paid for once per turn. The same key with
   another request is refused: a protocol that reuses a key by mistake should find out.
2. The usage of a question counts against the limits of the turn like everything else, even if it fails. Questions run
   one after the other: no two of them spend the same remainder.
3. Their number per turn is bounded, as their answers are kept until it ends.
"""

import hashlib
import logging

import attrs
import trio

from session_core import limits
from session_core.agent.budget import CallNeeds, LimitReached, estimate_needs, reserve_share
from session_core.agent.model_call import AnswerUnusable, Models, ask_for_text, clean_error, record_usage
from session_core.errors import Conflict, InvalidInput
from session_core.foreign_faults import FOREIGN_FAULTS, must_propagate
from session_core.protocols.contexts import DirectAnswer, DirectFailed, DirectRequest, TooManyQuestions
from session_core.protocols.frames import is_label
from session_core.providers.base import ModelFailed, ModelRequest, Provider
from session_core.session.turn_handle import TurnHandle
from session_core.vocabulary.messages import Usage
from session_core.wire.codec import encode

log = logging.getLogger(__name__)


@attrs.define(eq=False)
class _DirectQuestion:
    fingerprint: bytes
    answer: DirectAnswer | None = None


class DirectCompletions:
    """The questions of one turn."""

    def __init__(self, handle: TurnHandle, models: Models) -> None:
        self._handle = handle
        self._models = models
        self._questions: dict[str, _DirectQuestion] = {}
        self._question_count = 0
        self._answer_chars = 0
        self._lock = trio.Lock()

    async def complete(self, request: DirectRequest, source: str, key: str) -> DirectAnswer:
        """Ask; see `BeforeCallContext.complete`.

        Cancellation: the usage so far is counted, and the key is free again.
        """
        for name, text in (("source", source), ("key", key)):
            if not is_label(text):
                raise InvalidInput(f"{name} must have 1 to {limits.MAX_NAME_CHARS} valid characters", field=name)
        fingerprint = _fingerprint(request, source)
        known = self._questions.get(key)
        if known is not None:
            if known.fingerprint != fingerprint:
                raise Conflict(f"the key {key!r} belongs to another question of this turn", field="key")
            if known.answer is None:
                raise Conflict(f"the question {key!r} is being asked right now", field="key")
            return known.answer
        if self._question_count >= limits.MAX_DIRECT_COMPLETIONS:
            raise TooManyQuestions(f"a turn asks at most {limits.MAX_DIRECT_COMPLETIONS} direct questions")
        if self._answer_chars >= limits.MAX_DIRECT_CHARS:
            raise TooManyQuestions(f"the answers of this turn have more than {limits.MAX_DIRECT_CHARS:,} characters")
        self._question_count += 1
        question = self._questions[key] = _DirectQuestion(fingerprint)
        try:
            question.answer = answer = await self._ask(request, source)
            self._answer_chars += len(answer.text)
        finally:
            if question.answer is None:
                del self._questions[key]
        return answer

    async def _ask(self, request: DirectRequest, source: str) -> DirectAnswer:
        handle = self._handle
        model = request.model or handle.state.settings.model
        models = self._models.with_folder_models(handle.state.settings.cwd)
        provider = models.providers.get(model)
        if provider is None:
            raise DirectFailed(f"there is no model called {model!r} here")
        model_request = ModelRequest(
            model=model,
            messages=request.messages,
            tools=(),
            system=request.system,
            thinking=request.thinking,
            max_output_tokens=request.max_output_tokens,
        )
        needs = estimate_needs(model_request, models.infos.get(model), whole=False)
        async with self._lock, reserve_share(handle, needs) as share:
            if isinstance(share, LimitReached):
                raise DirectFailed(share.reason)
            most = [each for each in (model_request.max_output_tokens, share.max_output_tokens) if each is not None]
            model_request = attrs.evolve(model_request, max_output_tokens=min(most, default=None))
            return await self._stream(provider, models, model_request, needs, source)

    async def _stream(
        self, provider: Provider, models: Models, request: ModelRequest, needs: CallNeeds, source: str
    ) -> DirectAnswer:
        used = Usage()

        def count(usage: Usage) -> None:
            nonlocal used
            used = models.add_cost(request.model, usage)
            record_usage(self._handle, models, request.model, source, used)

        try:
            answer = await ask_for_text(provider, request, needs, count)
        except AnswerUnusable as fault:
            raise DirectFailed(str(fault)) from fault
        except FOREIGN_FAULTS as fault:
            if must_propagate(fault):
                raise
            log.exception("a provider failed because of a bug")
            raise DirectFailed(clean_error(f"{type(fault).__name__}: {fault}")) from fault
        if isinstance(answer, ModelFailed):
            raise DirectFailed(clean_error(f"{answer.kind}: {answer.message}"))
        return DirectAnswer(text=answer, model=request.model, usage=used)


def _fingerprint(request: DirectRequest, source: str) -> bytes:
    encoded_messages = b"".join(encode(message) for message in request.messages)
    rest = repr((source, request.system, request.model, request.thinking, request.max_output_tokens)).encode()
    return hashlib.sha256(encoded_messages + rest).digest()
