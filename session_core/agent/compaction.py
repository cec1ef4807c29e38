"""Replacing a long conversation by a summary of it: the summary is a message; the full history stays in the tree."""

from collections.abc import Awaitable, Callable

import attrs

from session_core import limits
from session_core.agent.answer import clean_text
from session_core.agent.context import CHARS_PER_TOKEN, cost_of, fit, in_words, without_images
from session_core.agent.model_call import Models
from session_core.ids import MessageId, new_id
from session_core.providers.base import ModelFailed, ModelFinished, ModelRequest, TextChunk
from session_core.vocabulary.messages import Message, TextPart, Usage

Compactor = Callable[[tuple[Message, ...]], Awaitable[str]]
"""Turns a conversation into a summary of it."""

INSTRUCTION = """\
Write a summary of this conversation that will take its place: whoever goes on working knows nothing else. Say, under \
short headings: what the user wants, in their own words where the wording matters; what has been decided and why; what \
has been done, with the names of files, functions and commands; what was found out and must not be looked up again; \
what is open and what comes next. Leave out greetings and detours. Do not use tools."""


MAX_REPEATED_CHARS = 20_000
"""How much of the message being worked on is repeated after a summary."""


class SummaryFailed(Exception):
    """No summary could be made; the message says why."""


@attrs.frozen(kw_only=True)
class Summary:
    """A summary, who wrote it, and what that used."""

    text: str
    model: str
    usage: Usage = Usage()


async def summarise(
    models: Models, model: str, conversation: tuple[Message, ...], *, compactor: Compactor | None = None
) -> Summary:
    """Make a summary, by the given function or else by the model itself.

    Raises:
        SummaryFailed: The model could not be asked, or said nothing.
    """
    if compactor is not None:
        return _checked(await compactor(conversation), model, Usage())
    info = models.infos.get(model)
    room = sum(map(cost_of, conversation)) if info is None else info.context_tokens * CHARS_PER_TOKEN * 3 // 4
    messages = fit(conversation, room)
    while True:
        answer = await _ask(models, model, messages)
        if not isinstance(answer, ModelFailed):
            return answer
        room //= 2
        shorter = fit(messages, room)
        if answer.kind != "context_too_long" or shorter == messages:
            raise SummaryFailed(f"{answer.kind}: {answer.message}")
        messages = shorter


async def _ask(models: Models, model: str, messages: tuple[Message, ...]) -> Summary | ModelFailed:
    provider = models.providers.get(model)
    if provider is None:
        return ModelFailed(kind="refused", message=f"there is no model called {model!r} here")
    # In words, as interfaces refuse conversations with tool calls when no tools are offered.
    request = ModelRequest(model=model, messages=(*in_words(without_images(messages)), _instruction(messages)))
    pieces: list[str] = []
    size = 0
    async with provider.stream(request) as chunks:
        async for chunk in chunks:
            if isinstance(chunk, ModelFailed):
                return chunk
            if isinstance(chunk, TextChunk):
                pieces.append(chunk.text)
                size += len(chunk.text)
            if isinstance(chunk, ModelFinished):
                return _checked("".join(pieces), model, models.priced(model, chunk.usage))
            if size > limits.MAX_ANSWER_CHARS:
                return ModelFailed(kind="malformed", message="the summary does not end")
    return ModelFailed(kind="malformed", message="the summary ended without an end mark")


def _checked(text: str, model: str, usage: Usage) -> Summary:
    cleaned = clean_text(text).strip()
    if not cleaned:
        raise SummaryFailed("the summary is empty")
    return Summary(text=cleaned[: limits.MAX_TEXT_CHARS], model=model, usage=usage)


def _instruction(conversation: tuple[Message, ...]) -> Message:
    return Message(
        message_id=MessageId(new_id("msg")),
        parent_id=conversation[-1].message_id if conversation else None,
        role="user",
        parts=(TextPart(text=INSTRUCTION),),
        created_at=conversation[-1].created_at if conversation else 0,
    )


def summary_message(summary: Summary, parent_id: MessageId | None, now: int, *, asked: str = "") -> Message:
    """Make the message that takes the conversation's place; `asked` is what the running turn is still to answer."""
    repeated = f"\n\nThe newest message of the user, word for word:\n{asked[:MAX_REPEATED_CHARS]}" if asked else ""
    return Message(
        message_id=MessageId(new_id("msg")),
        parent_id=parent_id,
        role="summary",
        parts=(TextPart(text=summary.text + repeated),),
        created_at=now,
    )
