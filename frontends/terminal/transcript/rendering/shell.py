"""The output of commands: the last lines, during the run and after it, without colours and control sequences."""

from __future__ import annotations

from typing import Final

from textual.strip import Strip

import session_core as sc
from frontends.shared.conversation.tool_calls import split_ending
from frontends.terminal.look.sanitised_text import sanitise_text
from frontends.terminal.look.styles import Look
from frontends.terminal.transcript.rendering.lines import WHOLE_CHARS, cut_row, excerpt_rows, omission

SHORT: Final = 6
"""Lines of collapsed output; the last ones are the most telling."""
WHILE_RUNNING: Final = 5
_LIVE_LINES: Final = 200
_LIVE_CHARS: Final = 16_000
_MOST_LINES: Final = 2_500
_LONG_ROWS: Final = 60
_NOTHING: Final = "(no output)"


def apply_overprinting(text: str) -> str:
    """Return what a terminal would show of overwritten lines, such as progress bars."""
    if "\r" not in text:
        return text
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)


def live_rows(output: str, width: int, look: Look, *, expanded: bool) -> list[Strip]:
    """Draw the last lines of a command that is running."""
    return _last_rows(output, _LIVE_LINES if expanded else WHILE_RUNNING, width, look)


def output_rows(result: sc.ToolResultPart, width: int, look: Look, *, expanded: bool) -> list[Strip]:
    """Draw the output of a command; its header shows how it ended."""
    text, _ = split_ending(result.text)
    if text.strip() in {"", _NOTHING}:
        return []
    if not expanded:
        return _last_rows(text, SHORT, width, look)
    unseen, text = max(0, len(text) - WHOLE_CHARS), text[-WHOLE_CHARS:]
    half = _MOST_LINES // 2
    text = apply_overprinting(text)
    rows = excerpt_rows(text, width, look, look.text, head=half, tail=half, words=False, most=_LONG_ROWS)
    return [*omission(unseen, look, width, noun="character", where=" above"), *rows]


def _last_rows(output: str, wanted: int, width: int, look: Look) -> list[Strip]:
    """Draw the last lines of an output, and how many are above them; only they are processed."""
    output = output.rstrip("\n")
    text = sanitise_text(apply_overprinting(output[-_LIVE_CHARS:]))
    if not text.strip():
        return []
    lines = text.split("\n")[-wanted:]
    hidden = output.count("\n") + 1 - len(lines)
    return [*omission(hidden, look, width, where=" above"), *(cut_row([(line, look.dim)], width) for line in lines)]


def command_rows(command: str, width: int, look: Look) -> list[Strip]:
    """Draw a whole command line, verbatim."""
    margins = ("$ ", look.dim), ("  ", look.dim)
    return excerpt_rows(
        command, width, look, look.text, head=_MOST_LINES, margins=margins, words=False, most=_LONG_ROWS
    )
