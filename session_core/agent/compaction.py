"""Compaction: a summary replaces a long conversation. It is a message; the full history stays in the tree."""

from collections.abc import Awaitable, Callable

import attrs

from session_core import limits
from session_core.agent.budget import LimitReached, estimate_needs, reserve_share
from session_core.agent.context import (
    CHARS_PER_TOKEN,
    message_cost,
    render_without_tools,
    replace_images,
    shorten_to_fit,
)
from session_core.agent.hooks import Hooks, ask_before_compaction
from session_core.agent.model_call import AnswerUnusable, Models, ask_for_text
from session_core.agent.streamed_answer import replace_surrogates
from session_core.ids import MessageId, new_id
from session_core.providers.base import ModelFailed, ModelRequest
from session_core.session.turn_handle import TurnHandle
from session_core.vocabulary import events as ev
from session_core.vocabulary.messages import Message, TextPart, Usage

Compactor = Callable[[tuple[Message, ...]], Awaitable[str]]
"""Turns a conversation into a summary."""

INSTRUCTION = """\
Write a summary of this conversation that will take its place: whoever goes on working knows nothing else. Say, under \
short headings: what the user wants, in their own words where the wording matters; what has been decided and why; what \
has been done, with the names of files, functions and commands; what was found out and must not be looked up again; \
what is open and what comes next. Leave out greetings and detours. Do not use tools."""


MAX_REPEATED_CHARS = 20_000
"""How much of the message being answered is repeated after a summary."""


COMPACT_AT = 0.8
"""How full a model's context may get before the conversation is compacted."""


class SummaryFailed(Exception):
    """No summary could be made; the message says why."""


@attrs.frozen(kw_only=True)
class Summary:
    """A summary, its author, and its usage."""

    text: str
    model: str
    usage: Usage = Usage()


@attrs.frozen(kw_only=True)
class CompactionPolicy:
    """When a service compacts conversations, and how: with its own compactor, or else with the session's model."""

    models: Models
    hooks: Hooks
    compactor: Compactor | None = None
    compact_at: float = COMPACT_AT

    def is_full(self, handle: TurnHandle) -> bool:
        """Return whether a conversation fills its model's context so far that it should be compacted."""
        info = self._models_of(handle).infos.get(handle.state.settings.model)
        return info is not None and handle.state.context_tokens >= self.compact_at * info.context_tokens

    async def summarise(self, handle: TurnHandle, *, automatic: bool) -> Summary:
        """Summarise a session's conversation within the limits of its turn, and count the usage.

        The caller puts the summary in place.

        Raises:
            SummaryFailed: No summary could be made.
        """
        blocked = await ask_before_compaction(self.hooks, handle.state.session_id, automatic=automatic)
        if blocked is not None:
            raise SummaryFailed(f"an extension refused it: {blocked.reason}")
        models, model = self._models_of(handle), handle.state.settings.model
        conversation = await handle.conversation()
        if self.compactor is not None:
            return _build_summary(await self.compactor(conversation), model, Usage())
        if handle.state.turn is None:
            return await _summarise_and_count(handle, models, conversation, None)
        request = ModelRequest(model=model, messages=conversation)
        async with reserve_share(handle, estimate_needs(request, models.infos.get(model), whole=True)) as share:
            if isinstance(share, LimitReached):
                raise SummaryFailed(share.reason)
            return await _summarise_and_count(handle, models, conversation, share.max_output_tokens)

    def _models_of(self, handle: TurnHandle) -> Models:
        return self.models.with_folder_models(handle.state.settings.cwd)


async def _summarise_and_count(
    handle: TurnHandle, models: Models, conversation: tuple[Message, ...], max_output_tokens: int | None
) -> Summary:
    """Summarise a conversation, and count the usage of all attempts, including cancelled ones."""
    model, used = handle.state.settings.model, Usage()

    def count(usage: Usage) -> None:
        nonlocal used
        used = used.plus(models.add_cost(model, usage))

    try:
        text = await _summarise(models, model, conversation, max_output_tokens, count)
        return _build_summary(text, model, used)
    finally:
        if used.tokens or used.cost_micros:
            handle.record(ev.UsageRecorded(model=model, source="compaction", usage=used))


async def _summarise(
    models: Models,
    model: str,
    conversation: tuple[Message, ...],
    max_output_tokens: int | None,
    count: Callable[[Usage], None],
) -> str:
    provider, info = models.providers.get(model), models.infos.get(model)
    if provider is None:
        raise SummaryFailed(f"refused: there is no model called {model!r} here")
    room = sum(map(message_cost, conversation)) if info is None else info.context_tokens * CHARS_PER_TOKEN * 3 // 4
    messages = shorten_to_fit(conversation, room)
    while True:
        # Tool calls as text: model APIs refuse conversations with tool calls when no tools are offered.
        request = ModelRequest(
            model=model,
            messages=(*render_without_tools(replace_images(messages)), _instruction_message(messages)),
            max_output_tokens=max_output_tokens,
        )
        try:
            answer = await ask_for_text(provider, request, estimate_needs(request, info, whole=False), count)
        except AnswerUnusable as fault:
            raise SummaryFailed(str(fault)) from fault
        if not isinstance(answer, ModelFailed):
            return answer
        room //= 2
        shorter = shorten_to_fit(messages, room)
        if answer.kind != "context_too_long" or shorter == messages:
            raise SummaryFailed(f"{answer.kind}: {answer.message}")
        messages = shorter


def _build_summary(text: str, model: str, usage: Usage) -> Summary:
    cleaned = replace_surrogates(text).strip()
    if not cleaned:
        raise SummaryFailed("the summary is empty")
    return Summary(text=cleaned[: limits.MAX_TEXT_CHARS], model=model, usage=usage)


def _instruction_message(conversation: tuple[Message, ...]) -> Message:
    return Message(
        message_id=MessageId(new_id("msg")),
        parent_id=conversation[-1].message_id if conversation else None,
        role="user",
        parts=(TextPart(text=INSTRUCTION),),
        created_at=conversation[-1].created_at if conversation else 0,
    )


def build_summary_message(
    summary: Summary, parent_id: MessageId | None, now: int, *, pending_prompt: str = ""
) -> Message:
    """Build the message that replaces the conversation; `pending_prompt` is what the turn still has to answer."""
    repeated = (
        f"\n\nThe newest message of the user, word for word:\n{pending_prompt[:MAX_REPEATED_CHARS]}"
        if pending_prompt
        else ""
    )
    return Message(
        message_id=MessageId(new_id("msg")),
        parent_id=parent_id,
        role="summary",
        parts=(TextPart(text=summary.text + repeated),),
        created_at=now,
    )
