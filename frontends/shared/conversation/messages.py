"""What there is to say about a message besides its text. Pure functions; foreign text is clean."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import attrs

import session_core as sc
from frontends.shared.conversation.tool_calls import ENDINGS, describe_image
from frontends.shared.figures import format_count
from frontends.shared.sanitise import one_line

_NAME_CHARS: Final = 200
_CUT_SHORT: Final[Mapping[str, str]] = {
    "stopped": "stopped here",
    "failed": "the model failed here",
    "interrupted": "the service ended here",
    "max_tokens": "the answer reached its length limit",
}
_RAN: Final = re.compile(
    r"I have run this command myself(?: \((?P<how>\w+)\))?:\n\n\$ (?P<line>.*?)\n\n(?P<output>.*)", re.DOTALL
)


@attrs.frozen(kw_only=True)
class ShellLineResult:
    """A shell line that the user ran, its output, and how it ended if it failed."""

    line: str
    output: str
    ended: str = ""


def parse_shell_line(message: sc.Message) -> ShellLineResult | None:
    """Return the shell line whose result a message holds, if it holds one."""
    ran = _RAN.fullmatch(message.text) if message.source is None else None
    if ran is None:
        return None
    how = ran["how"]
    return ShellLineResult(line=ran["line"], output=ran["output"], ended="" if how is None else ENDINGS.get(how, how))


def describe_interruption(reason: str) -> str:
    """Describe why an answer ends in the middle."""
    return _CUT_SHORT.get(reason) or one_line(reason)


def describe_attachment(part: sc.ImagePart | sc.FilePart) -> str:
    """Describe an image or a file that is not shown."""
    if isinstance(part, sc.ImagePart):
        return describe_image(part)
    return f"(a file: {one_line(part.name, _NAME_CHARS)}, {format_count(len(part.text.splitlines()), 'line')})"


def speaker_of(message: sc.Message, protocol: str | None) -> str:
    """Return who speaks in a message; `protocol` is that of its session."""
    name = None if message.source is None else one_line(message.source, _NAME_CHARS)
    match message.role:
        case "user" if name is not None:
            return f"protocol {name} says" if message.source == protocol else f"{name} asks for you"
        case "user":
            return "you"
        case "summary":
            return "summary of the conversation so far" if name is None else "a new frame begins"
        case _:
            return one_line(message.model or "model") if name is None else f"{name} says"
