"""User messages, thinking, summaries and remarks."""

from collections.abc import Mapping
from typing import Final

from textual.strip import Strip

from frontends.shared.conversation import blocks
from frontends.shared.conversation.messages import describe_attachment
from frontends.shared.figures import format_count
from frontends.terminal.look.sanitised_text import sanitise_line, sanitise_text
from frontends.terminal.look.styles import Glyph, Look
from frontends.terminal.transcript.rendering.growing_markdown import Flow
from frontends.terminal.transcript.rendering.lines import (
    WHOLE_CHARS,
    Span,
    cut_row,
    excerpt,
    excerpt_rows,
    indent_rows,
    indented_width,
    limit_rows,
    omission,
    strip_of,
    wrap,
)
from frontends.terminal.transcript.rendering.shell import SHORT as SHORT_OUTPUT
from frontends.terminal.transcript.rendering.shell import apply_overprinting

_SHORT_SAID: Final = 12
_SHORT_POSTED: Final = 4
_MOST_LINES: Final = 2_500
_LONG_ROWS: Final = 300
_SHORT_ROWS: Final = 6
_GROWING_ROWS: Final = 3
_GROWING_CHARS: Final = 4_000
_WHOLE_GROWING_CHARS: Final = 16_000
_WHOLE_CHARS: Final = 100_000


def user_message_rows(block: blocks.UserMessageBlock, width: int, look: Look, *, expanded: bool) -> list[Strip]:
    """Draw a user message: a mark on its left, and its attachments beneath it."""
    if block.source is not None or block.command is not None:
        return _posted_rows(block, width, look, expanded=expanded)
    margins = ("> ", look.said), ("  ", look.said)
    short = _MOST_LINES if expanded else _SHORT_SAID
    most = _LONG_ROWS if expanded else _SHORT_ROWS
    rows = excerpt_rows(block.text, width, look, look.said, head=short, margins=margins, most=most)
    return limit_rows(rows + _attachment_rows(block, width, look), look, width) or [strip_of([margins[0]])]


def _attachment_rows(block: blocks.UserMessageBlock, width: int, look: Look) -> list[Strip]:
    lines = [sanitise_line(describe_attachment(each)) for each in block.attachments[:10]]
    if len(block.attachments) > 10:
        lines.append(f"{look.glyph('more')} {format_count(len(block.attachments) - 10, 'more attachment')}")
    if block.branches > 1:
        lines.append(f"{block.branch} of {block.branches} versions")
    return [cut_row([("  ", look.dim), (line, look.dim)], width) for line in lines]


def _posted_rows(block: blocks.UserMessageBlock, width: int, look: Look, *, expanded: bool) -> list[Strip]:
    """Draw text that was not typed: the words of an extension or protocol, or the output of a command."""
    text = block.text
    if block.command is not None:
        text, ended = blocks.split_shell_output(block)
        head: list[Span] = [("! ", look.said), (sanitise_line(block.command, 2_000), look.said)]
        head += [(f" {look.glyph('dot')} {sanitise_line(how, 40)}", look.warn) for how in ended]
    else:
        head = [(f"{look.glyph('running')} ", look.accent), (sanitise_line(block.source or "", 60), look.accent)]
        head.append((" says", look.dim))
    margin, is_command = ("  ", look.dim), block.command is not None
    short = _MOST_LINES if expanded else SHORT_OUTPUT if is_command else _SHORT_POSTED
    from_end = is_command and not expanded
    rows = [cut_row(head, width)]
    rows += excerpt_rows(
        apply_overprinting(text[:WHOLE_CHARS]),
        width,
        look,
        look.dim,
        head=0 if from_end else short,
        tail=short if from_end else 0,
        margins=(margin, margin),
        most=_LONG_ROWS if expanded else _SHORT_ROWS,
    )
    rows += omission(len(block.text) - WHOLE_CHARS, look, width, noun="character", margin=[margin])
    return limit_rows(rows + _attachment_rows(block, width, look), look, width)


def thinking_rows(block: blocks.ThinkingBlock, width: int, look: Look, *, expanded: bool) -> list[Strip]:
    """Draw thinking: its last lines while it grows, one line when it is done, or all of it."""
    mark: Span = (f"{look.glyph('thinking')} ", look.thinking)
    if not expanded and not block.growing:
        words = f"thought, {format_count(len(block.text.split()), 'word')}"
        return [cut_row([mark, (words, look.thinking)], width)]
    if block.growing:
        text = block.text[-(_WHOLE_GROWING_CHARS if expanded else _GROWING_CHARS) :]
    else:
        text = block.text[:_WHOLE_CHARS]
    preview = excerpt(sanitise_text(text).strip(), head=1_000, tail=1_500)
    room = indented_width(width)
    rows = [row for line in preview.head for row in wrap([(line, look.thinking)], room) if expanded or line.strip()]
    rows += omission(preview.left_out, look, room)
    rows += [row for line in preview.tail for row in wrap([(line, look.thinking)], room)]
    if not expanded:
        rows = rows[-_GROWING_ROWS:]
    rows = indent_rows(rows, width)
    head = cut_row([mark, ("thinking" if block.growing else "thought", look.thinking)], width)
    missing = len(block.text) - len(text)
    if expanded:
        where = " above" if block.growing else ""
        remark = omission(missing, look, width, noun="character", where=where, margin=[("  ", look.dim)])
        rows = remark + rows if block.growing else rows + remark
    return limit_rows([head, *rows], look, width)


def summary_rows(block: blocks.SummaryBlock, width: int, look: Look, *, expanded: bool) -> list[Strip]:
    """Draw a summary of everything before it."""
    rule = look.glyph("line") * 2
    words = f"{rule} the conversation so far was summarised for the model"
    if not expanded:
        words += f": {format_count(block.text.count(chr(10)) + 1, 'line')}"
    head = cut_row([(words, look.dim)], width)
    return [head, *Flow(width, look).draw(block.text, growing=False)] if expanded else [head]


_REMARK_GLYPHS: Final[Mapping[str, Glyph]] = {"dim": "dot", "info": "running", "warn": "ended", "error": "failed"}


def remark_rows(block: blocks.RemarkBlock, width: int, look: Look) -> list[Strip]:
    """Draw a line about the conversation."""
    styles = {"dim": look.dim, "info": look.accent, "warn": look.warn, "error": look.error}
    glyph, style = look.glyph(_REMARK_GLYPHS[block.level]), styles[block.level]
    rows: list[Strip] = []
    for number, line in enumerate(sanitise_text(block.text[:_GROWING_CHARS]).strip().split("\n")):
        rows += wrap([(line, style)], width, first=[(f"{glyph} " if not number else "  ", style)])
    return rows
