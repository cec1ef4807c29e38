"""Live calls that a protocol makes itself: cells of code, and child sessions.

A cell becomes a message to the model when it has ended. What comes of a child session is for the protocol alone.
"""

from typing import TYPE_CHECKING, Final

from session_core.ids import CallId, MessageId, TurnId, new_id
from session_core.vocabulary import events as ev
from session_core.vocabulary.messages import LiveTool, Message, TextPart

if TYPE_CHECKING:
    from session_core.session.state import SessionState

CELL: Final = "cell"
"""The name of a running cell among the live calls."""
CHILD: Final = "task"
"""The name of a child session among them: that of the tool with which a model starts one."""

_OUTPUT_HEADER: Final = "[Output of the cell]"
_NOTHING: Final = "(no output)"


def is_cell_output(message: Message, protocol: str) -> bool:
    """Return whether a message is the result of a cell."""
    return message.role == "user" and message.source == protocol and message.text.startswith(_OUTPUT_HEADER)


def find_open_cell(state: "SessionState") -> LiveTool | None:
    """Return the cell that is not yet part of the conversation."""
    return next(
        (tool for tool in state.tools if tool.name == CELL and tool.call_id not in _collect_head_call_ids(state)), None
    )


def find_child_call(state: "SessionState") -> LiveTool | None:
    """Return a child session of the protocol itself that it has not heard from yet."""
    called = _collect_head_call_ids(state)
    inner = inner_calls(state) if find_open_cell(state) is not None else ()
    return next(
        (tool for tool in state.tools if tool.name == CHILD and tool.call_id not in called and tool not in inner), None
    )


def inner_calls(state: "SessionState") -> tuple[LiveTool, ...]:
    """Return the calls made by the open cell."""
    called, cell = (
        _collect_head_call_ids(state),
        find_open_cell(state),
    )  # a tool may have the same name as a cell, but starts after it
    return tuple(tool for tool in state.tools if tool is not cell and tool.call_id not in called)


def _collect_head_call_ids(state: "SessionState") -> set[CallId]:
    head = state.find_message(state.head) if state.head is not None else None
    return {call.call_id for call in head.tool_calls} if head is not None else set()


def build_cell_message(state: "SessionState", cell: LiveTool, turn_id: TurnId | None, now: int) -> ev.MessageAdded:
    """Return the event that appends the outcome of a cell to the conversation; the cell must have its result."""
    result = cell.result
    text = result.text if result is not None else ""
    message = Message(
        message_id=MessageId(new_id("msg")),
        parent_id=state.head,
        role="user",
        parts=(TextPart(text=f"{_OUTPUT_HEADER}\n{text or _NOTHING}"), *(result.images if result is not None else ())),
        created_at=now,
        turn_id=turn_id,
        source=state.protocol.name,
    )
    return ev.MessageAdded(
        message=message,
        ended_call_id=cell.call_id,
        ended_calls=tuple(tool.call_id for tool in inner_calls(state)),
    )
