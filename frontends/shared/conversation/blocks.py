"""The blocks of a conversation, and how messages, calls and outcomes become blocks: what is said, in which order.

The terminal, `show` and the documents of an export draw the same blocks, each in its own way. They are pure values, and
foreign text in them is as it came: whoever draws a block cleans it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

import attrs

import session_core as sc
from frontends.shared.conversation.messages import describe_interruption, parse_shell_line
from frontends.shared.conversation.tool_calls import find_child, split_ending

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
        attachments: The images and files that came along.
        source: The extension or protocol that inserted it.
        command: The shell line, if this is the result of one that the user ran; `text` is its output.
        ended: How that command ended, if it failed.
        branches: How many alternatives of this message there are; `branch` is the number of this one, from 1.
    """

    key: str
    message_id: sc.MessageId
    text: str
    created_at: int
    attachments: tuple[sc.ImagePart | sc.FilePart, ...] = ()
    source: str | None = None
    command: str | None = None
    ended: str = ""
    branches: int = 1
    branch: int = 1


@attrs.frozen(kw_only=True)
class AnswerBlock:
    """A text of the model; while it is `growing`, more is to come. Only its protocol reads `code`."""

    key: str
    text: str
    code: bool = False
    growing: bool = False
    source: str | None = None


@attrs.frozen(kw_only=True)
class AttachmentBlock:
    """An image or a file that is part of an answer."""

    key: str
    attachment: sc.ImagePart | sc.FilePart


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
        arguments: What it was called with; None if that is not known (yet).
        writing: The JSON of its arguments, as far as it is written.
        live: Whether it is running, or its result is not part of the conversation yet.
        asked: Whether it waits for an approval.
        took_ms: How long it took, if that was observed.
        child_id: The child session that does or did the work.
    """

    key: str
    name: str
    call_id: sc.CallId | None = None
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


Block = (
    UserMessageBlock
    | AnswerBlock
    | AttachmentBlock
    | ThinkingBlock
    | ToolBlock
    | RemarkBlock
    | SummaryBlock
    | EntryBlock
)


# --- messages ---------------------------------------------------------------------------------------------------------

Calls = Mapping[sc.CallId, sc.ToolCallPart]
Results = Mapping[sc.CallId, sc.ToolResultPart]
NO_CALLS: Final[Calls] = {}


def build_conversation(
    messages: Sequence[sc.Message], calls: Calls = NO_CALLS
) -> Iterator[tuple[sc.Message, tuple[Block, ...]]]:
    """Yield messages, each with its blocks; `calls` are those of earlier messages, which are not shown themselves."""
    paired = pair_results(messages)
    for message in messages:
        yield message, tuple(build_message_blocks(message, paired.get(message.message_id, {}), calls=calls))


def pair_results(messages: Iterable[sc.Message]) -> dict[sc.MessageId, dict[sc.CallId, sc.ToolResultPart]]:
    """Return the results of each message's calls: they follow it, and a later message may reuse an id.

    A message that holds such results is a key too: these are shown with their calls, and its other results alone.
    """
    found: dict[sc.MessageId, dict[sc.CallId, sc.ToolResultPart]] = {}
    calling: sc.MessageId | None = None
    calls: set[sc.CallId] = set()
    for message in messages:
        if message.role == "assistant":
            calling, calls = message.message_id, {call.call_id for call in message.tool_calls}
        for part in message.parts:
            if calling is not None and isinstance(part, sc.ToolResultPart) and part.call_id in calls:
                found.setdefault(calling, {})[part.call_id] = part
                found.setdefault(message.message_id, {})[part.call_id] = part
    return found


def build_message_blocks(
    message: sc.Message, results: Results, *, branches: tuple[sc.MessageId, ...] = (), calls: Calls = NO_CALLS
) -> Iterator[Block]:
    """Yield the blocks of a message; `results` are shown with their calls, and any others as blocks of their own."""
    covered: tuple[type, ...] = ()
    if message.role == "user":
        yield _build_user_block(message, branches)
        covered = (sc.TextPart, sc.ImagePart, sc.FilePart)
    elif message.role == "summary":
        yield SummaryBlock(key=message.message_id, text=message.text)
        covered = (sc.TextPart,)
    for index, part in enumerate(message.parts):
        key = f"{message.message_id}/{index}"
        match part:
            case _ if isinstance(part, covered):
                pass
            case sc.TextPart(text=text) | sc.CodePart(text=text) if text.strip():
                yield AnswerBlock(key=key, text=text, code=isinstance(part, sc.CodePart), source=message.source)
            case sc.ThinkingPart(text=text) if text.strip():
                yield ThinkingBlock(key=key, text=text)
            case sc.ImagePart() | sc.FilePart():
                yield AttachmentBlock(key=key, attachment=part)
            case sc.ToolCallPart(call_id=call_id):
                yield _build_tool_block(key, part, results.get(call_id))
            case sc.ToolResultPart(call_id=call_id) if results.get(call_id) is not part:
                yield _build_tool_block(key, calls.get(call_id, part), part)
            case sc.InterruptedPart(reason=reason):
                yield RemarkBlock(key=key, text=describe_interruption(reason), level="warn")
            case _:
                pass


def _build_tool_block(
    key: str, call: sc.ToolCallPart | sc.ToolResultPart, result: sc.ToolResultPart | None
) -> ToolBlock:
    arguments = call.arguments if isinstance(call, sc.ToolCallPart) else None
    child_id = find_child(result) if result is not None and result.name == "task" else None
    return ToolBlock(
        key=key, name=call.name, call_id=call.call_id, arguments=arguments, result=result, child_id=child_id
    )


def _build_user_block(message: sc.Message, branches: tuple[sc.MessageId, ...]) -> UserMessageBlock:
    ran = parse_shell_line(message)
    return UserMessageBlock(
        key=message.message_id,
        message_id=message.message_id,
        text=message.text if ran is None else ran.output,
        created_at=message.created_at,
        attachments=tuple(part for part in message.parts if isinstance(part, sc.ImagePart | sc.FilePart)),
        source=message.source,
        command=None if ran is None else ran.line,
        ended="" if ran is None else ran.ended,
        branches=max(1, len(branches)),
        branch=branches.index(message.message_id) + 1 if message.message_id in branches else 1,
    )


def split_shell_output(block: UserMessageBlock) -> tuple[str, tuple[str, ...]]:
    """Return the output of the command that the user ran, and in words how that ended, if it failed."""
    output, code = split_ending(block.text)
    return output, tuple(how for how in (block.ended, code) if how)


def find_siblings(messages: Iterable[sc.Message]) -> dict[sc.MessageId | None, tuple[sc.MessageId, ...]]:
    """Return groups of messages with the same parent, keyed by that parent; single messages are left out."""
    said: dict[sc.MessageId | None, list[sc.MessageId]] = {}
    for message in messages:
        if message.role == "user":
            here = said.setdefault(message.parent_id, [])
            if message.message_id not in here:  # a message may be both in the window and older
                here.append(message.message_id)
    return {parent: tuple(each) for parent, each in said.items() if len(each) > 1}


# --- what is not over, and how it ended -------------------------------------------------------------------------------


def growing_block(key: str, part: sc.PartialPart, text: str, *, growing: bool) -> Block:
    """Return a part that is still being streamed, or was until a moment ago."""
    match part.kind:
        case "thinking":
            return ThinkingBlock(key=key, text=text, growing=growing)
        case "tool_call":
            return ToolBlock(key=key, name=part.tool_name or "", writing=text)
        case "text" | "code":
            return AnswerBlock(key=key, text=text, code=part.kind == "code", growing=growing)


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
