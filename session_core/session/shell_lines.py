"""A command that a person has typed, as part of the conversation: the model of the next turn sees the result."""

import re
from typing import Final

from session_core.ids import MessageId, TurnId, new_id
from session_core.session.state import SessionState
from session_core.vocabulary import events as ev
from session_core.vocabulary.messages import LiveTool, Message, TextPart
from session_core.vocabulary.tools import SHELL, all_names_of

_COMMAND_HEADER: Final = "I have run this command myself"
_COMMAND_PATTERN: Final = re.compile(re.escape(_COMMAND_HEADER) + r"(?: \(\w+\))?:\n\n\$ (.*?)\n\n", re.DOTALL)


def build_shell_line_message(
    state: SessionState, tool: LiveTool, line: str, turn_id: TurnId | None, now: int
) -> ev.MessageAdded:
    """Return the event that appends a command and its outcome to the conversation."""
    result = tool.result
    came_out = tool.output if result is None else result.text
    how = "" if result is None or result.status == "success" else f" ({result.status})"
    ending = "" if result is not None else "\n[it was ended before it was done]"
    message = Message(
        message_id=MessageId(new_id("msg")),
        parent_id=state.head,
        role="user",
        parts=(TextPart(text=f"{_COMMAND_HEADER}{how}:\n\n$ {line}\n\n{came_out or '(no output)'}{ending}"),),
        created_at=now,
        turn_id=turn_id,
    )
    return ev.MessageAdded(message=message, ended_call_id=tool.call_id)


def as_typed_text(message: Message) -> str:
    """Return what a person typed to produce a message: its text, or `!` and the command (up to a blank line)."""
    ran = _COMMAND_PATTERN.match(message.text)
    return message.text if ran is None else f"!{ran[1]}"


def find_open_shell_line(state: SessionState) -> LiveTool | None:
    """Return the person's command that is not yet part of the conversation."""
    head = state.find_message(state.head) if state.head is not None else None
    called = {call.call_id for call in head.tool_calls} if head is not None else set()
    return next((tool for tool in state.tools if tool.call_id not in called and tool.name in all_names_of(SHELL)), None)


def get_typed_line(tool: LiveTool) -> str:
    """Return the command that was typed, without the rights that were asked for before it."""
    line = tool.arguments.get("command")
    return line if isinstance(line, str) else ""
