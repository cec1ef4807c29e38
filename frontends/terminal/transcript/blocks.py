"""The blocks of a conversation on screen, and how messages, calls and outcomes become blocks.

Blocks are pure values; `block_builder` keeps those that have not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal

import attrs

import session_core as sc
from frontends.shared.conversation.messages import describe_interruption, parse_shell_line

_FAILED: Final = {
    "interrupted": "The service ended in the middle of this turn",
    "limit_reached": "A limit was reached",
    "failed": "This turn failed",
}


# --- values -----------------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class UserMessageBlock:
    """A message of the user, or one inserted on the user's side of the conversation.

    Attributes:
        source: The extension or protocol that inserted it.
        command: The shell line, if this is the result of one that the user ran; `text` is its output.
        ended: How that command ended, if it failed.
        branches: How many alternatives of this message there are; `branch` is the number of this one, from 1.
    """

    key: str
    message_id: sc.MessageId
    text: str
    created_at: int
    images: int = 0
    files: tuple[str, ...] = ()
    source: str | None = None
    command: str | None = None
    ended: str = ""
    branches: int = 1
    branch: int = 1


@attrs.frozen(kw_only=True)
class AnswerBlock:
    """A text of the model; while it is `growing`, more is to come."""

    key: str
    text: str
    growing: bool = False
    source: str | None = None


@attrs.frozen(kw_only=True)
class ThinkingBlock:
    """The model's reasoning."""

    key: str
    text: str
    growing: bool = False


@attrs.frozen(kw_only=True)
class ToolBlock:
    """A tool call from the first character of its arguments to its result.

    Attributes:
        writing: The JSON of its arguments, as far as it is written.
        live: Whether it is running, or its result is not part of the conversation yet.
        asked: Whether it waits for an approval.
        took_ms: How long it took, if that was observed.
        child_id: The child session that does or did the work.
    """

    key: str
    name: str
    arguments: sc.JsonObject | None = None
    writing: str | None = None
    live: sc.LiveTool | None = None
    result: sc.ToolResultPart | None = None
    asked: bool = False
    took_ms: int | None = None
    child_id: sc.SessionId | None = None


@attrs.frozen(kw_only=True)
class RemarkBlock:
    """A line about the conversation: an interruption, an outcome, a notice."""

    key: str
    text: str
    level: Literal["dim", "info", "warn", "error"] = "dim"


@attrs.frozen(kw_only=True)
class SummaryBlock:
    """A summary that replaces everything before it."""

    key: str
    text: str


@attrs.frozen(kw_only=True)
class EntryBlock:
    """An entry of an extension, shown by its template."""

    key: str
    entry: sc.extensions.ExtensionEntry
    template: sc.JsonObject


Block = UserMessageBlock | AnswerBlock | ThinkingBlock | ToolBlock | RemarkBlock | SummaryBlock | EntryBlock


# --- building ---------------------------------------------------------------------------------------------------------


MakeTool = Callable[[str, sc.ToolCallPart], ToolBlock]


def build_message_blocks(message: sc.Message, branches: tuple[sc.MessageId, ...], tool: MakeTool) -> Iterator[Block]:
    """Yield the blocks of a message; tool results are shown with their calls."""
    match message.role:
        case "user":
            yield _build_user_block(message, branches)
        case "summary":
            yield SummaryBlock(key=message.message_id, text=message.text)
        case "assistant":
            for index, part in enumerate(message.parts):
                block = _build_part_block(message, f"{message.message_id}/{index}", part, tool)
                if block is not None:
                    yield block
        case "tool":
            return


def _build_part_block(message: sc.Message, key: str, part: sc.Part, tool: MakeTool) -> Block | None:
    match part:
        case sc.TextPart() | sc.CodePart() if part.text.strip():
            return AnswerBlock(key=key, text=part.text, source=message.source)
        case sc.ThinkingPart() if part.text.strip():
            return ThinkingBlock(key=key, text=part.text)
        case sc.ToolCallPart():
            return tool(key, part)
        case sc.InterruptedPart():
            return RemarkBlock(key=key, text=describe_interruption(part.reason), level="warn")
        case _:
            return None


def _build_user_block(message: sc.Message, branches: tuple[sc.MessageId, ...]) -> UserMessageBlock:
    ran = parse_shell_line(message)
    return UserMessageBlock(
        key=message.message_id,
        message_id=message.message_id,
        text=message.text if ran is None else ran.output,
        created_at=message.created_at,
        images=sum(isinstance(part, sc.ImagePart) for part in message.parts),
        files=tuple(part.name for part in message.parts if isinstance(part, sc.FilePart)),
        source=message.source,
        command=None if ran is None else ran.line,
        ended="" if ran is None else ran.ended,
        branches=max(1, len(branches)),
        branch=branches.index(message.message_id) + 1 if message.message_id in branches else 1,
    )


def find_siblings(messages: Iterable[sc.Message]) -> dict[sc.MessageId | None, tuple[sc.MessageId, ...]]:
    """Return groups of messages with the same parent, keyed by that parent; single messages are left out."""
    said: dict[sc.MessageId | None, list[sc.MessageId]] = {}
    for message in messages:
        if message.role == "user":
            here = said.setdefault(message.parent_id, [])
            if message.message_id not in here:  # a message may be both in the window and older
                here.append(message.message_id)
    return {parent: tuple(each) for parent, each in said.items() if len(each) > 1}


def growing_block(key: str, part: sc.PartialPart, text: str, *, growing: bool) -> Block:
    """Return a part that is still being streamed, or was until a moment ago."""
    match part.kind:
        case "thinking":
            return ThinkingBlock(key=key, text=text, growing=growing)
        case "tool_call":
            return ToolBlock(key=key, name=part.tool_name or "", writing=text)
        case "text" | "code":
            return AnswerBlock(key=key, text=text, growing=growing)


def build_ending(state: sc.SessionState) -> RemarkBlock | None:
    """Return a remark on how the last turn ended, unless the conversation already shows it."""
    outcome = state.last_outcome
    if outcome is None or state.turn is not None or outcome.status == "completed":
        return None
    key = f"outcome/{outcome.turn_id}"
    last = state.find_message(state.head)
    is_reported = last is not None and last.is_interrupted
    if outcome.status == "stopped":
        return None if is_reported else RemarkBlock(key=key, text="Stopped.", level="warn")
    if outcome.status == "interrupted" and is_reported and not outcome.error:
        return None
    said = _FAILED[outcome.status]
    return RemarkBlock(key=key, text=f"{said}: {outcome.error}" if outcome.error else f"{said}.", level="error")
