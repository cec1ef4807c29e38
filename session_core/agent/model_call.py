"""One model call: with retries, a conversation shortened to fit the context, and its usage counted.

Rules:
1. A call with a retryable failure is repeated after a wait; its streamed text is withdrawn first, so no text ever
   appears twice.
2. If a model finds a conversation too long, the call is repeated with a shortened one. Even before that, old tool
   results are cut to fit the known context of the model.
3. Settings are read again for each call: a change takes effect at the next one.
4. A wait that a provider asks for is honoured, however long, unless it exceeds all patience: then the call fails at
   once and says when to try again.
5. The usage of every call is counted, even if it failed, was cancelled or said nothing; if the provider did not report
   the usage of a call that had begun to answer, it is estimated.
"""

import random
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime

import attrs
import trio

from session_core import limits
from session_core.agent.budget import (
    CallNeeds,
    LimitReached,
    estimate_needs,
    estimate_usage,
    reserve_share,
    unfinished_usage,
)
from session_core.agent.context import CHARS_PER_TOKEN, message_cost, replace_images, shorten_to_fit
from session_core.agent.folder_settings import NO_FOLDER_FILES, FolderSettingsSource
from session_core.agent.hooks import Hooks, run_context_hook, run_request_hook
from session_core.agent.joined_mapping import JoinedMapping
from session_core.agent.streamed_answer import AnswerInProgress, replace_surrogates
from session_core.ids import CallId, MessageId, new_id
from session_core.protocols.contexts import FinishNow, RefuseTurn, SwitchTo
from session_core.protocols.prose import ProseProjector
from session_core.providers.base import (
    RETRYABLE,
    ModelFailed,
    ModelFinished,
    ModelRequest,
    Provider,
    TextChunk,
    ThinkingChunk,
    ToolCallChunk,
    ToolCallOpened,
)
from session_core.providers.catalogue import ModelInfo, cost_micros
from session_core.session.turn_handle import TurnHandle
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import InterruptedPart, Message, Usage
from session_core.vocabulary.tools import ToolSpec

FIRST_RETRY_MS = 500
LONGEST_RETRY_MS = 60_000


@attrs.frozen(kw_only=True)
class ModelAnswer:
    """A complete answer, recorded in the conversation."""

    message: Message
    finished: ModelFinished
    unreadable: frozenset[CallId] = frozenset()


@attrs.frozen(kw_only=True)
class Models:
    """The models of a service: the provider and known facts for each name; `folders` may have others."""

    providers: Mapping[str, Provider]
    infos: Mapping[str, ModelInfo] = attrs.field(factory=dict)
    folders: FolderSettingsSource = NO_FOLDER_FILES

    def with_folder_models(self, cwd: str) -> "Models":
        """Return the models of sessions that work in a folder, as currently known."""
        folder = self.folders.get_known(cwd)
        if folder is None or not folder.providers:
            return self
        return Models(
            providers=JoinedMapping(self.providers, folder.providers), infos=JoinedMapping(self.infos, folder.infos)
        )

    def add_cost(self, model: str, usage: Usage) -> Usage:
        """Add the cost of a call, if the price is known; the cost of an estimate is marked as an estimate."""
        info = self.infos.get(model)
        return usage if info is None or usage.cost_micros else attrs.evolve(usage, cost_micros=cost_micros(info, usage))


@attrs.frozen(kw_only=True)
class ModelCall:
    """The parameters of one call."""

    handle: TurnHandle
    models: Models
    hooks: Hooks
    system: str
    tools: tuple[ToolSpec, ...] = ()
    output_schema: JsonObject | None = None
    prose: ProseProjector | None = None
    before: "AskBeforeCall | None" = None


@attrs.frozen(kw_only=True)
class CallDiversion:
    """The model is not asked: the protocol wants something else."""

    instead: SwitchTo | FinishNow | RefuseTurn


AskBeforeCall = Callable[[ModelRequest], Awaitable[ModelRequest | CallDiversion]]
"""The hook that runs last before each model call."""


async def ask_model(call: ModelCall) -> ModelAnswer | ModelFailed | LimitReached | CallDiversion:
    """Ask the session's model about its conversation; the answer is recorded as it streams in.

    Cancellation: the streamed text stays as an unfinished message, which the code that started the turn closes.
    """
    handle, attempt, shortened = call.handle, 1, 1
    while True:
        answer = await _ask_once(call, shortened)
        if not isinstance(answer, ModelFailed):
            return answer
        if answer.kind == "context_too_long" and await _can_shorten(call, shortened):
            shortened *= 2
            withdraw_partial(handle, answer.kind)
            continue
        retries = limits.MAX_RETRIES if answer.most_retries is None else answer.most_retries
        if answer.kind not in RETRYABLE or attempt > retries:
            return _record_failure(handle, answer, attempt)
        if answer.retry_after_ms is not None and answer.retry_after_ms > _patience_ms(handle):
            return _record_failure(handle, _explain_retry_time(answer, answer.retry_after_ms, handle.now()), attempt)
        await _wait_to_retry(handle, answer, attempt)
        attempt += 1


def _record_failure(handle: TurnHandle, failure: ModelFailed, attempt: int) -> ModelFailed:
    message = clean_error(failure.message)
    handle.record(ev.ModelCallFailed(kind=failure.kind, message=message, attempt=attempt, retry_at=None))
    return failure


_MOST_SHORTENED = 8  # how often a conversation is halved before the call gives up


async def _can_shorten(call: ModelCall, shortened: int) -> bool:
    """Return whether shortening further would change the request at all."""
    conversation = await call.handle.conversation()
    info = call.models.infos.get(call.handle.state.settings.model)
    chars = call.handle.conversation_chars
    more = _fit_conversation(conversation, info, shortened * 2, chars)
    return shortened < _MOST_SHORTENED and more != _fit_conversation(conversation, info, shortened, chars)


async def _ask_once(call: ModelCall, shortened: int) -> ModelAnswer | ModelFailed | LimitReached | CallDiversion:
    # An earlier stop costs no model call, and a tool that swallows its cancellation does not gain one.
    await trio.lowlevel.checkpoint_if_cancelled()
    handle = call.handle
    session_id = handle.state.session_id
    conversation = await run_context_hook(call.hooks, session_id, await handle.conversation())
    state = handle.state
    model = state.settings.model
    provider = call.models.providers.get(model)
    if provider is None:
        return ModelFailed(kind="refused", message=f"there is no model called {model!r} here")
    info = call.models.infos.get(model)
    messages = _fit_conversation(conversation, info, shortened, handle.conversation_chars)
    request = ModelRequest(
        model=model,
        messages=messages,
        tools=call.tools if info is None or info.tools else (),
        system=call.system,
        thinking=state.settings.thinking,
        output_schema=call.output_schema,
        cache_key=session_id,
    )
    request = await run_request_hook(call.hooks, session_id, request)
    if call.before is not None:
        decided = await call.before(request)
        if isinstance(decided, CallDiversion):
            return decided
        request = decided
        provider = call.models.providers.get(request.model, provider)
        info = call.models.infos.get(request.model)
    needs = estimate_needs(request, info, whole=request.messages is conversation)
    async with reserve_share(handle, needs) as share:
        if isinstance(share, LimitReached):
            return share
        longest = [each for each in (request.max_output_tokens, share.max_output_tokens) if each is not None]
        request = attrs.evolve(request, max_output_tokens=min(longest, default=None))
        return await _stream(call, provider, request, needs)


async def _stream(
    call: ModelCall, provider: Provider, request: ModelRequest, needs: CallNeeds
) -> ModelAnswer | ModelFailed:
    handle, model = call.handle, request.model
    answer = AnswerInProgress(
        message_id=MessageId(new_id("msg")),
        parent_id=handle.state.head,
        turn_id=handle.turn_id,
        model=model,
        prose=None if call.prose is None else call.prose.open(),
    )
    handle.record(
        ev.MessageStarted(
            message_id=answer.message_id, parent_id=handle.state.head, turn_id=handle.turn_id, model=model
        )
    )
    reported, finished = Usage(), False
    try:
        async with provider.stream(request) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, ModelFailed):
                    reported = chunk.usage
                    return chunk
                if isinstance(chunk, ModelFinished):
                    finished = True
                    for event in answer.flush_prose():
                        handle.record(event)
                    used = chunk.usage if chunk.usage.tokens else estimate_usage(needs, answer.size)
                    return _complete(call, answer, attrs.evolve(chunk, usage=call.models.add_cost(model, used)))
                if not answer.has_room_for(chunk):
                    return ModelFailed(kind="malformed", message="the model's answer does not end")
                for event in answer.add_chunk(chunk):
                    handle.record(event)
        return ModelFailed(kind="malformed", message="the model's answer ended early")
    finally:
        if not finished:
            record_usage(handle, call.models, model, "turn", unfinished_usage(needs, reported, answer.size))


def _fit_conversation(
    messages: tuple[Message, ...], info: ModelInfo | None, shortened: int, chars: int
) -> tuple[Message, ...]:
    """Make a conversation of so many characters fit; one that already fits is not scanned, however long it is."""
    if info is not None and not info.images:
        messages = replace_images(messages)
    if info is not None:
        room = max(info.context_tokens - info.max_output_tokens, info.context_tokens // 2) * CHARS_PER_TOKEN
        messages = messages if chars <= room else shorten_to_fit(messages, room)
    if shortened > 1:
        messages = shorten_to_fit(messages, sum(map(message_cost, messages)) // shortened)
    return messages


def _complete(call: ModelCall, answer: AnswerInProgress, finished: ModelFinished) -> ModelAnswer | ModelFailed:
    handle, cut = call.handle, finished.stop_reason == "max_tokens"
    message = answer.build_message(usage=finished.usage, now=handle.now(), cut=cut)
    if not message.parts:
        record_usage(handle, call.models, answer.model, "turn", finished.usage)
        return ModelFailed(kind="malformed", message="the model gave an empty answer")
    if cut:
        message = attrs.evolve(message, parts=(*message.parts, InterruptedPart(reason="max_tokens")))
    handle.record(ev.MessageCompleted(message=message))
    return ModelAnswer(message=message, finished=finished, unreadable=frozenset(answer.malformed))


def record_usage(handle: TurnHandle, models: Models, model: str, source: str, usage: Usage) -> None:
    """Count the usage of a call that leaves no answer in the conversation, by its purpose."""
    if usage.tokens or usage.cost_micros:
        handle.record(ev.UsageRecorded(model=model, source=source, usage=models.add_cost(model, usage)))


class AnswerUnusable(Exception):
    """The answer of a model broke off, or is too long; the message says which."""


async def ask_for_text(
    provider: Provider, request: ModelRequest, needs: CallNeeds, count: Callable[[Usage], None]
) -> str | ModelFailed:
    """Ask a model for text outside the conversation; `count` gets the usage, however the call ends.

    Raises:
        AnswerUnusable: The answer broke off, or is too long.
    """
    pieces: list[str] = []
    size, reported = 0, Usage()
    try:
        async with provider.stream(request) as chunks:
            async for chunk in chunks:
                match chunk:
                    case ModelFailed():
                        reported = chunk.usage
                        return chunk
                    case ModelFinished():
                        reported = chunk.usage if chunk.usage.tokens else estimate_usage(needs, size)
                        return "".join(pieces)
                    case TextChunk(text=text):
                        pieces.append(replace_surrogates(text))
                        size += len(text) or 1
                    case ThinkingChunk(text=text) | ToolCallChunk(text=text):
                        size += len(text) or 1  # it is paid for, but not kept
                    case ToolCallOpened():
                        size += 1
                if size > limits.MAX_ANSWER_CHARS:
                    raise AnswerUnusable("the model's answer exceeds the length limit")
        raise AnswerUnusable("the model's answer ended early")
    finally:
        count(unfinished_usage(needs, reported, size))


def withdraw_partial(handle: TurnHandle, reason: str) -> None:
    """Withdraw what a failed call had streamed."""
    if handle.state.partial is not None:
        handle.record(ev.MessageDiscarded(message_id=handle.state.partial.message_id, reason=reason))


async def _wait_to_retry(handle: TurnHandle, failure: ModelFailed, attempt: int) -> None:
    delay = retry_delay_ms(failure, attempt)
    withdraw_partial(handle, failure.kind)
    handle.record(
        ev.ModelCallFailed(
            kind=failure.kind, message=clean_error(failure.message), attempt=attempt, retry_at=handle.now() + delay
        )
    )
    await trio.sleep(delay / 1000)


def retry_delay_ms(failure: ModelFailed, attempt: int) -> int:
    """Return how long to wait: what the provider asked for, else exponential backoff with jitter."""
    if failure.retry_after_ms is not None:
        return min(max(0, failure.retry_after_ms), limits.MAX_RETRY_WAIT_MS)
    longest = min(FIRST_RETRY_MS * 2 ** (attempt - 1), LONGEST_RETRY_MS)
    return int(random.uniform(longest / 2, longest))  # noqa: S311 - jitter, not a secret


def _patience_ms(handle: TurnHandle) -> int:
    """Return how long a provider may make us wait: not beyond the turn's time limit, if it has one."""
    remaining_ms = handle.remaining_ms
    return limits.MAX_RETRY_WAIT_MS if remaining_ms is None else min(remaining_ms, limits.MAX_RETRY_WAIT_MS)


def _explain_retry_time(failure: ModelFailed, wait_ms: int, now: int) -> ModelFailed:
    """Add the time of the next possible try to a failure, if that is too far away to wait for."""
    retry_time = datetime.fromtimestamp((now + wait_ms) / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    message = f"{failure.message} It asks to wait {_format_duration(wait_ms)}, which is too long for this turn"
    return attrs.evolve(failure, message=f"{message}; try again at {retry_time}.")


def _format_duration(milliseconds: int) -> str:
    minutes = -(-milliseconds // 60_000)
    if minutes < 120:
        return f"{minutes} minutes" if minutes > 1 else f"{-(-milliseconds // 1_000)} seconds"
    return f"{-(-minutes // 60)} hours"


def clean_error(message: str) -> str:
    """Bound and clean an error message that comes from outside."""
    return replace_surrogates(message)[: limits.MAX_ERROR_CHARS]
