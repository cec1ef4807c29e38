"""User messages, thinking, summaries and remarks."""

from collections.abc import Iterator, Mapping
from typing import Final

from textual.strip import Strip

from frontends.shared.figures import format_count
from frontends.terminal.look.sanitised_text import sanitise_line, sanitise_text
from frontends.terminal.look.styles import Glyph, Look
from frontends.terminal.transcript.blocks import RemarkBlock, SummaryBlock, ThinkingBlock, UserMessageBlock
from frontends.terminal.transcript.rendering.growing_markdown import Flow
from frontends.terminal.transcript.rendering.lines import (
    WHOLE_CHARS,
    Span,
    cut_spans,
    excerpt,
    indent_rows,
    indented_width,
    limit_rows,
    omission_remark,
    strip_of,
    wrap,
)
from frontends.terminal.transcript.rendering.shell import SHORT as SHORT_OUTPUT
from frontends.terminal.transcript.rendering.shell import apply_overprinting, split_ending

_SHORT_SAID: Final = 12
_SHORT_POSTED: Final = 4
_MOST_LINES: Final = 2_500
_LONG_ROWS: Final = 300
_SHORT_ROWS: Final = 6
_GROWING_ROWS: Final = 3
_GROWING_CHARS: Final = 4_000
_WHOLE_GROWING_CHARS: Final = 16_000
_WHOLE_CHARS: Final = 100_000


def user_message_rows(block: UserMessageBlock, width: int, look: Look, *, expanded: bool) -> list[Strip]:
    """Draw a user message: a mark on its left, and its attachments beneath it."""
    if block.source is not None or block.command is not None:
        return _posted_rows(block, width, look, expanded=expanded)
    mark: Span = ("> ", look.said)
    short = _MOST_LINES if expanded else _SHORT_SAID
    preview = excerpt(sanitise_text(block.text[:WHOLE_CHARS]), head=short, tail=0)
    rows: list[Strip] = []
    for number, line in enumerate(preview.head):
        first = [mark] if not number else [("  ", look.said)]
        rows += wrap([(line, look.said)], width, first=first, most=_LONG_ROWS if expanded else _SHORT_ROWS)
    if preview.left_out:
        rows.append(strip_of(cut_spans([("  ", look.dim), omission_remark(preview.left_out, look)], width)))
    rows += _unread_remark(block.text, width, look)
    rows += [
        strip_of(cut_spans([("  ", look.dim), (each, look.dim)], width)) for each in _attachment_lines(block, look)
    ]
    return limit_rows(rows, look, width) or [strip_of([mark])]


def _attachment_lines(block: UserMessageBlock, look: Look) -> Iterator[str]:
    if block.images:
        yield f"[{format_count(block.images, 'image')}]"
    for name in block.files[:10]:
        yield f"{look.glyph('file')} {sanitise_line(name, 200)}"
    if len(block.files) > 10:
        yield f"{look.glyph('more')} {format_count(len(block.files) - 10, 'more file')}"
    if block.branches > 1:
        yield f"{block.branch} of {block.branches} versions"


def _posted_rows(block: UserMessageBlock, width: int, look: Look, *, expanded: bool) -> list[Strip]:
    """Draw text that was not typed: the words of an extension or protocol, or the output of a command."""
    text = block.text
    if block.command is not None:
        text, code = split_ending(text)
        head: list[Span] = [("! ", look.said), (sanitise_line(block.command, 2_000), look.said)]
        head += [(f" {look.glyph('dot')} {how}", look.warn) for how in (sanitise_line(block.ended, 40), code) if how]
    else:
        head = [(f"{look.glyph('running')} ", look.accent), (sanitise_line(block.source or "", 60), look.accent)]
        head.append((" says", look.dim))
    short = SHORT_OUTPUT if block.command is not None else _SHORT_POSTED
    text = sanitise_text(apply_overprinting(text[:WHOLE_CHARS]))
    if expanded:
        preview = excerpt(text, head=_MOST_LINES, tail=0)
    else:
        preview = excerpt(text, head=0 if block.command is not None else short, tail=short if block.command else 0)
    rows = [strip_of(cut_spans(head, width))]
    more = (
        [strip_of(cut_spans([("  ", look.dim), omission_remark(preview.left_out, look)], width))]
        if preview.left_out
        else []
    )
    most = _LONG_ROWS if expanded else _SHORT_ROWS
    for group, after in ((preview.head, more), (preview.tail, [])):
        for line in group:
            rows += wrap([(line, look.dim)], width, first=[("  ", look.dim)], most=most)
        rows += after
    rows += _unread_remark(block.text, width, look)
    rows += [
        strip_of(cut_spans([("  ", look.dim), (each, look.dim)], width)) for each in _attachment_lines(block, look)
    ]
    return limit_rows(rows, look, width)


def _unread_remark(text: str, width: int, look: Look) -> list[Strip]:
    """Return a remark on how much of a huge text was not processed."""
    if len(text) <= WHOLE_CHARS:
        return []
    return [
        strip_of(cut_spans([("  ", look.dim), omission_remark(len(text) - WHOLE_CHARS, look, noun="character")], width))
    ]


def thinking_rows(block: ThinkingBlock, width: int, look: Look, *, expanded: bool) -> list[Strip]:
    """Draw thinking: its last lines while it grows, one line when it is done, or all of it."""
    mark: Span = (f"{look.glyph('thinking')} ", look.thinking)
    if not expanded and not block.growing:
        words = f"thought, {format_count(len(block.text.split()), 'word')}"
        return [strip_of(cut_spans([mark, (words, look.thinking)], width))]
    if block.growing:
        text = block.text[-(_WHOLE_GROWING_CHARS if expanded else _GROWING_CHARS) :]
    else:
        text = block.text[:_WHOLE_CHARS]
    preview = excerpt(sanitise_text(text).strip(), head=1_000, tail=1_500)
    room = indented_width(width)
    rows = [row for line in preview.head for row in wrap([(line, look.thinking)], room) if expanded or line.strip()]
    if preview.left_out:
        rows.append(strip_of(cut_spans([omission_remark(preview.left_out, look)], room)))
    rows += [row for line in preview.tail for row in wrap([(line, look.thinking)], room)]
    if not expanded:
        rows = rows[-_GROWING_ROWS:]
    rows = indent_rows(rows, width)
    head = strip_of(cut_spans([mark, ("thinking" if block.growing else "thought", look.thinking)], width))
    missing = len(block.text) - len(text)
    if expanded and missing:
        remark = omission_remark(missing, look, noun="character", where=" above" if block.growing else "")
        rows.insert(0 if block.growing else len(rows), strip_of(cut_spans([("  ", look.dim), remark], width)))
    return limit_rows([head, *rows], look, width)


def summary_rows(block: SummaryBlock, width: int, look: Look, *, expanded: bool) -> list[Strip]:
    """Draw a summary of everything before it."""
    rule = look.glyph("line") * 2
    words = f"{rule} the conversation so far was summarised for the model"
    if not expanded:
        words += f": {format_count(block.text.count(chr(10)) + 1, 'line')}"
    head = strip_of(cut_spans([(words, look.dim)], width))
    return [head, *Flow(width, look).draw(block.text, growing=False)] if expanded else [head]


_REMARK_GLYPHS: Final[Mapping[str, Glyph]] = {"dim": "dot", "info": "running", "warn": "ended", "error": "failed"}


def remark_rows(block: RemarkBlock, width: int, look: Look) -> list[Strip]:
    """Draw a line about the conversation."""
    styles = {"dim": look.dim, "info": look.accent, "warn": look.warn, "error": look.error}
    glyph, style = look.glyph(_REMARK_GLYPHS[block.level]), styles[block.level]
    rows: list[Strip] = []
    for number, line in enumerate(sanitise_text(block.text[:_GROWING_CHARS]).strip().split("\n")):
        rows += wrap([(line, style)], width, first=[(f"{glyph} " if not number else "  ", style)])
    return rows
