"""What people say, what a model thinks, summaries and remarks."""

from collections.abc import Iterator, Mapping
from typing import Final

from textual.strip import Strip

from frontends.console.style import counted
from frontends.terminal.blocks import RemarkBlock, SaidBlock, SummaryBlock, ThinkingBlock
from frontends.terminal.inert import inert, inert_line
from frontends.terminal.looks import Glyph, Look
from frontends.terminal.rendering.flow import Flow
from frontends.terminal.rendering.lines import (
    WHOLE_CHARS,
    Span,
    bounded,
    cut_spans,
    excerpt,
    left_out,
    room_within,
    set_in,
    strip_of,
    wrap,
)
from frontends.terminal.rendering.shell import SHORT as SHORT_OUTPUT
from frontends.terminal.rendering.shell import overprinted, without_ending

_SHORT_SAID: Final = 12
_SHORT_POSTED: Final = 4
_MOST_LINES: Final = 2_500
_LONG_ROWS: Final = 300
_SHORT_ROWS: Final = 6
_GROWING_ROWS: Final = 3
_GROWING_CHARS: Final = 4_000
_WHOLE_GROWING_CHARS: Final = 16_000
_WHOLE_CHARS: Final = 100_000


def said_rows(block: SaidBlock, width: int, look: Look, *, expanded: bool) -> list[Strip]:
    """Draw what a person has said: a mark at its left, and what came along beneath it."""
    if block.source is not None or block.command is not None:
        return _posted_rows(block, width, look, expanded=expanded)
    mark: Span = ("> ", look.said)
    short = _MOST_LINES if expanded else _SHORT_SAID
    shown = excerpt(inert(block.text[:WHOLE_CHARS]), head=short, tail=0)
    rows: list[Strip] = []
    for number, line in enumerate(shown.head):
        first = [mark] if not number else [("  ", look.said)]
        rows += wrap([(line, look.said)], width, first=first, most=_LONG_ROWS if expanded else _SHORT_ROWS)
    if shown.left_out:
        rows.append(strip_of(cut_spans([("  ", look.dim), left_out(shown.left_out, look)], width)))
    rows += _unseen(block.text, width, look)
    rows += [strip_of(cut_spans([("  ", look.dim), (each, look.dim)], width)) for each in _beneath(block, look)]
    return bounded(rows, look, width) or [strip_of([mark])]


def _beneath(block: SaidBlock, look: Look) -> Iterator[str]:
    if block.pictures:
        yield f"[{counted(block.pictures, 'picture')}]"
    for name in block.files[:10]:
        yield f"{look.glyph('file')} {inert_line(name, 200)}"
    if len(block.files) > 10:
        yield f"{look.glyph('more')} {counted(len(block.files) - 10, 'more file')}"
    if block.branches > 1:
        yield f"{block.branch} of {block.branches} ways this was said"


def _posted_rows(block: SaidBlock, width: int, look: Look, *, expanded: bool) -> list[Strip]:
    """Draw what nobody typed as it stands: the words of an extension or protocol, or what a command has printed."""
    text = block.text
    if block.command is not None:
        text, code = without_ending(text)
        head: list[Span] = [("! ", look.said), (inert_line(block.command, 2_000), look.said)]
        head += [(f" {look.glyph('dot')} {how}", look.warn) for how in (inert_line(block.ended, 40), code) if how]
    else:
        head = [(f"{look.glyph('running')} ", look.accent), (inert_line(block.source or "", 60), look.accent)]
        head.append((" says", look.dim))
    short = SHORT_OUTPUT if block.command is not None else _SHORT_POSTED
    text = inert(overprinted(text[:WHOLE_CHARS]))
    if expanded:
        shown = excerpt(text, head=_MOST_LINES, tail=0)
    else:
        shown = excerpt(text, head=0 if block.command is not None else short, tail=short if block.command else 0)
    rows = [strip_of(cut_spans(head, width))]
    more = [strip_of(cut_spans([("  ", look.dim), left_out(shown.left_out, look)], width))] if shown.left_out else []
    most = _LONG_ROWS if expanded else _SHORT_ROWS
    for group, after in ((shown.head, more), (shown.tail, [])):
        for line in group:
            rows += wrap([(line, look.dim)], width, first=[("  ", look.dim)], most=most)
        rows += after
    rows += _unseen(block.text, width, look)
    rows += [strip_of(cut_spans([("  ", look.dim), (each, look.dim)], width)) for each in _beneath(block, look)]
    return bounded(rows, look, width)


def _unseen(text: str, width: int, look: Look) -> list[Strip]:
    """Say how much of an enormous text was not even looked at."""
    if len(text) <= WHOLE_CHARS:
        return []
    return [strip_of(cut_spans([("  ", look.dim), left_out(len(text) - WHOLE_CHARS, look, noun="character")], width))]


def thinking_rows(block: ThinkingBlock, width: int, look: Look, *, expanded: bool) -> list[Strip]:
    """Draw what a model thinks: its last lines while it grows, one line when it is done, or all of it."""
    mark: Span = (f"{look.glyph('thinking')} ", look.thinking)
    if not expanded and not block.growing:
        words = f"thought, {counted(len(block.text.split()), 'word')}"
        return [strip_of(cut_spans([mark, (words, look.thinking)], width))]
    if block.growing:
        text = block.text[-(_WHOLE_GROWING_CHARS if expanded else _GROWING_CHARS) :]
    else:
        text = block.text[:_WHOLE_CHARS]
    shown = excerpt(inert(text).strip(), head=1_000, tail=1_500)
    room = room_within(width)
    rows = [row for line in shown.head for row in wrap([(line, look.thinking)], room) if expanded or line.strip()]
    if shown.left_out:
        rows.append(strip_of(cut_spans([left_out(shown.left_out, look)], room)))
    rows += [row for line in shown.tail for row in wrap([(line, look.thinking)], room)]
    if not expanded:
        rows = rows[-_GROWING_ROWS:]
    rows = set_in(rows, width)
    head = strip_of(cut_spans([mark, ("thinking" if block.growing else "thought", look.thinking)], width))
    missing = len(block.text) - len(text)
    if expanded and missing:
        remark = left_out(missing, look, noun="character", where=" above" if block.growing else "")
        rows.insert(0 if block.growing else len(rows), strip_of(cut_spans([("  ", look.dim), remark], width)))
    return bounded([head, *rows], look, width)


def summary_rows(block: SummaryBlock, width: int, look: Look, *, expanded: bool) -> list[Strip]:
    """Draw what stands for everything before it."""
    rule = look.glyph("line") * 2
    words = f"{rule} the conversation until here was summed up for the model"
    if not expanded:
        words += f": {counted(block.text.count(chr(10)) + 1, 'line')}"
    head = strip_of(cut_spans([(words, look.dim)], width))
    return [head, *Flow(width, look).draw(block.text, growing=False)] if expanded else [head]


_REMARK_GLYPHS: Final[Mapping[str, Glyph]] = {"dim": "dot", "info": "running", "warn": "ended", "error": "failed"}


def remark_rows(block: RemarkBlock, width: int, look: Look) -> list[Strip]:
    """Draw a line about the conversation."""
    styles = {"dim": look.dim, "info": look.accent, "warn": look.warn, "error": look.error}
    glyph, style = look.glyph(_REMARK_GLYPHS[block.level]), styles[block.level]
    rows: list[Strip] = []
    for number, line in enumerate(inert(block.text[:_GROWING_CHARS]).strip().split("\n")):
        rows += wrap([(line, style)], width, first=[(f"{glyph} " if not number else "  ", style)])
    return rows
