"""Builds blocks from messages, calls and outcomes. Pure functions; `blocks` caches the results."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import attrs

import session_core as sc
from frontends.terminal.transcript.block_values import (
    AnswerBlock,
    Block,
    RemarkBlock,
    SummaryBlock,
    ThinkingBlock,
    ToolBlock,
    UserMessageBlock,
)

_CUT_SHORT: Final = {
    "stopped": "stopped here",
    "failed": "the model failed here",
    "interrupted": "the service ended here",
    "max_tokens": "the answer reached its length limit",
}
_RAN: Final = re.compile(
    r"I have run this command myself(?: \((?P<how>\w+)\))?:\n\n\$ (?P<line>.*?)\n\n(?P<output>.*)", re.DOTALL
)
_ENDED: Final = {"error": "failed", "denied": "not allowed", "cancelled": "stopped", "interrupted": "the service ended"}
_FAILED: Final = {
    "interrupted": "The service ended in the middle of this turn",
    "limit_reached": "A limit was reached",
    "failed": "This turn failed",
}


@attrs.frozen(kw_only=True)
class CallTime:
    """When a call began, and when it ended if that was observed."""

    started_at: int
    ended_at: int | None = None


MakeTool = Callable[[str, sc.ToolCallPart], ToolBlock]


def build_message_blocks(message: sc.Message, branches: tuple[sc.MessageId, ...], tool: MakeTool) -> Iterator[Block]:
    """Yield the blocks of a message; tool results are shown with their calls."""
    match message.role:
        case "user":
            yield _build_user_block(message, branches)
        case "summary":
            yield SummaryBlock(key=message.message_id, message_id=message.message_id, text=message.text)
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
            return AnswerBlock(key=key, message_id=message.message_id, text=part.text, source=message.source)
        case sc.ThinkingPart() if part.text.strip():
            return ThinkingBlock(key=key, text=part.text)
        case sc.ToolCallPart():
            return tool(key, part)
        case sc.InterruptedPart():
            return RemarkBlock(key=key, text=_CUT_SHORT[part.reason], level="warn")
        case _:
            return None


def _build_user_block(message: sc.Message, branches: tuple[sc.MessageId, ...]) -> UserMessageBlock:
    text = message.text
    ran = _RAN.fullmatch(text) if message.source is None else None
    return UserMessageBlock(
        key=message.message_id,
        message_id=message.message_id,
        text=text if ran is None else ran["output"],
        created_at=message.created_at,
        images=sum(isinstance(part, sc.ImagePart) for part in message.parts),
        files=tuple(part.name for part in message.parts if isinstance(part, sc.FilePart)),
        source=message.source,
        command=None if ran is None else ran["line"],
        ended="" if ran is None or ran["how"] is None else _ENDED.get(ran["how"], ran["how"]),
        branches=max(1, len(branches)),
        branch=branches.index(message.message_id) + 1 if message.message_id in branches else 1,
    )


def is_shell_line(message: sc.Message) -> bool:
    """Return whether a message holds the result of a shell line that the user ran."""
    return shell_line_of(message) is not None


def shell_line_of(message: sc.Message) -> str | None:
    """Return the shell line of a message that holds the result of one."""
    ran = _RAN.fullmatch(message.text) if message.source is None else None
    return None if ran is None else ran["line"]


def find_siblings(messages: Iterable[sc.Message]) -> dict[sc.MessageId | None, tuple[sc.MessageId, ...]]:
    """Return groups of messages with the same parent, keyed by that parent; single messages are left out."""
    said: dict[sc.MessageId | None, list[sc.MessageId]] = {}
    for message in messages:
        if message.role == "user":
            here = said.setdefault(message.parent_id, [])
            if message.message_id not in here:  # a message may be both in the window and older
                here.append(message.message_id)
    return {parent: tuple(each) for parent, each in said.items() if len(each) > 1}


def tool_block(
    key: str,
    call: sc.ToolCallPart | sc.LiveTool,
    result: sc.ToolResultPart | None,
    live: sc.LiveTool | None,
    time: CallTime | None,
    *,
    asked: bool,
) -> ToolBlock:
    """Return a call in its current state."""
    if result is None and live is not None:
        result = live.result
    child = live.child_id if live is not None else None
    session_id = result.details.get("session_id") if result is not None and result.details is not None else None
    if child is None and result is not None and result.name == "task" and isinstance(session_id, str):
        child = sc.SessionId(session_id)
    took = time.ended_at - time.started_at if time is not None and time.ended_at is not None else None
    return ToolBlock(
        key=key,
        call_id=call.call_id,
        name=call.name,
        arguments=call.arguments,
        live=live,
        result=result,
        asked=asked,
        took_ms=None if took is None or result is None else max(0, took),
        child_id=child,
    )


def growing_block(key: str, message_id: sc.MessageId, part: sc.PartialPart, text: str, *, growing: bool) -> Block:
    """Return a part that is still being streamed, or was until a moment ago."""
    match part.kind:
        case "thinking":
            return ThinkingBlock(key=key, text=text, growing=growing)
        case "tool_call":
            return ToolBlock(key=key, call_id=None, name=part.tool_name or "", writing=text)
        case "text" | "code":
            return AnswerBlock(key=key, message_id=message_id, text=text, growing=growing)


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
