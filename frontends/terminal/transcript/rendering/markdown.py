"""Markdown as rows: one passage at a time, from the tokens of markdown-it.

Rules:
1. Entities and escapes are resolved only by parsing, so every text is made inert again after it.
2. Nothing is clickable: a link's address is shown after its text, where people can see it.
3. Nesting and lengths are bounded; anything beyond is shown as source text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

import attrs
from rich.style import Style
from textual.strip import Strip

from frontends.terminal.look.sanitised_text import sanitise_line, sanitise_text
from frontends.terminal.look.styles import Look
from frontends.terminal.transcript.rendering.code import highlight_fenced
from frontends.terminal.transcript.rendering.lines import BLANK, Span, Spans, cut_spans, spans_width, strip_of, wrap
from frontends.terminal.transcript.rendering.tables import table

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MOST_CHARS: Final = 20_000
"""A longer passage is shown as source text: parsing would take too long."""
_MOST_LINE_CHARS: Final = 8_000
_MOST_BRACKETS: Final = 300
"""The most opening brackets in a passage: searching for the end of each is slow."""
_MOST_BARS: Final = 4_000
_NESTING: Final = 24
_DEEPEST: Final = _NESTING - 2
_MOST_DEPTH: Final = 8
"""The deepest nesting of lists and quotes that is indented."""
_CODE_INDENT: Final = "  "
_CELL_END: Final = re.compile(r"(?<!\\)\|")
_TASK: Final = re.compile(r"\[([ xX])\] ")


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # the first frame needs no Markdown

    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _NESTING})
    # A link definition would vanish, and as passages are parsed apart, it could not help the others anyway.
    return parser.enable(["table", "strikethrough"]).disable("reference")


def markdown(text: str, width: int, look: Look) -> list[Strip]:
    """Draw a passage of Markdown in rows of at most `width` cells, without blank rows at its ends."""
    text = sanitise_text(text)
    if _is_too_much(text):
        return draw_plain_lines(text, width, look.text)
    tokens = _parser().parse(text)
    # Deeper nesting is not among the tokens, and neither are cells beyond the last column.
    if any(token.level >= _DEEPEST for token in tokens) or _has_more_cells(tokens, text.split("\n")):
        return draw_plain_lines(text, width, look.text)
    page = _MarkdownPage(width=width, look=look)
    page.draw(tokens)
    return page.rows


def _is_too_much(text: str) -> bool:
    if len(text) > MOST_CHARS or text.count("[") > _MOST_BRACKETS or text.count("|") > _MOST_BARS:
        return True
    return len(text) > _MOST_LINE_CHARS and max(map(len, text.split("\n"))) > _MOST_LINE_CHARS


def _has_more_cells(tokens: Sequence[Token], lines: Sequence[str]) -> bool:
    columns = 0
    for token in tokens:
        if token.type == "table_open":
            columns = 0
        elif token.type == "th_open":
            columns += 1
        elif token.type == "tr_open" and token.map is not None and columns:
            inner = lines[token.map[0]].strip(" >").removeprefix("|")
            if len(_CELL_END.findall(inner.removesuffix("|"))) >= columns:
                return True
    return False


def draw_plain_lines(text: str, width: int, style: Style, *, words: bool = True) -> list[Strip]:
    """Draw an inert text line by line."""
    return [row for line in text.split("\n") for row in wrap([(line, style)], width, words=words)]


def code_rows(lines: Sequence[Spans], width: int) -> list[Strip]:
    """Draw lines of code, slightly indented."""
    first = [(_CODE_INDENT, Style.null())]
    return [row for line in lines for row in wrap(line, width, first=first, words=False)]


@attrs.define
class _Level:
    """A list item or a quote: the prefix of its rows; `mark` is for its first row only."""

    mark: list[Span]
    rest: list[Span]
    used: bool = False


@attrs.define
class _MarkdownPage:
    """Draws tokens one after another; nesting is a stack, not recursion."""

    width: int
    look: Look
    rows: list[Strip] = attrs.field(factory=list)
    _levels: list[_Level] = attrs.field(factory=list)
    _counters: list[int | None] = attrs.field(factory=list)
    _gap: bool = False
    _heading: str | None = None
    _table: list[list[Spans]] | None = None
    _right: list[int] = attrs.field(factory=list)

    def draw(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            kind = token.type
            if kind == "inline":
                self._inline(token)
            elif kind in {"fence", "code_block"}:
                self._code(token)
            elif kind == "hr":
                self._rule()
            elif kind.endswith("_open"):
                self._open(kind.removesuffix("_open"), token)
            elif kind.endswith("_close"):
                self._close(kind.removesuffix("_close"))

    # --- containers ---------------------------------------------------------------------------------------------------

    def _open(self, kind: str, token: Token) -> None:
        look = self.look
        match kind:
            case "blockquote":
                bar = (f"{look.glyph('bar')} ", look.dim)
                self._make_gap()
                self._levels.append(_Level(mark=[bar], rest=[bar]))
            case "bullet_list":
                self._begin_list(None)
            case "ordered_list":
                start = token.attrGet("start")
                self._begin_list(int(start) if start is not None else 1)
            case "list_item":
                self._begin_item()
            case "heading":
                self._heading = token.tag
            case "table":
                self._table, self._right = [], []
            case "th":
                if self._table and token.attrGet("style") == "text-align:right":
                    self._right.append(len(self._table[-1]))
            case "tr":
                if self._table is not None:
                    self._table.append([])
            case _:
                pass

    def _close(self, kind: str) -> None:
        match kind:
            case "blockquote" | "list_item":
                level = self._levels.pop()
                if kind == "list_item" and not level.used:
                    self._levels.append(level)
                    self._put([])
                    self._levels.pop()
            case "bullet_list" | "ordered_list":
                self._counters.pop()
            case "heading":
                self._heading = None
            case "table":
                rows, self._table = self._table or [[]], None
                self._put_block(table(rows[0], rows[1:], self._room, self.look, right=self._right))
            case _:
                return
        self._gap = kind != "list_item"

    def _begin_list(self, start: int | None) -> None:
        if not self._counters:
            self._make_gap()
        self._counters.append(start)
        self._gap = False

    def _begin_item(self) -> None:
        count = self._counters[-1]
        if count is None:
            mark = f"{self.look.glyph('bullet')} "
        else:
            mark = f"{count}. "
            self._counters[-1] = count + 1
        self._levels.append(_Level(mark=[(mark, self.look.dim)], rest=[(" " * len(mark), Style.null())]))
        self._gap = False

    # --- leaves -------------------------------------------------------------------------------------------------------

    def _inline(self, token: Token) -> None:
        base = self._base_style()
        lines = _spans_of(token.children or (), base, self.look)
        if self._table is not None:
            if self._table:
                self._table[-1].append([span for line in lines for span in (*line, (" ", base))][:-1])
            return
        self._make_gap()
        if self._levels and (task := _TASK.match(lines[0][0][0] if lines[0] else "")) is not None:
            text, style = lines[0][0]
            box = self.look.glyph("unchecked" if task[1] == " " else "checked")
            lines[0][0] = (f"{box} {text[task.end() :]}", style)
        for line in lines:
            self._put(line)
        self._gap = True

    def _base_style(self) -> Style:
        match self._heading:
            case None:
                return self.look.text
            case "h1":
                return self.look.heading + Style(underline=True)
            case "h2":
                return self.look.heading
            case _:
                return self.look.text + self.look.strong

    def _code(self, token: Token) -> None:
        lines = highlight_fenced(token.content.removesuffix("\n"), token.info, self.look)
        self._put_block(code_rows(lines, self._room))

    def _rule(self) -> None:
        self._put_block([strip_of([(self.look.glyph("line") * self._room, self.look.dim)])])

    # --- rows ---------------------------------------------------------------------------------------------------------

    @property
    def _room(self) -> int:
        return max(2, self.width - spans_width(self._prefix(take=False)))

    def _prefix(self, *, take: bool) -> list[Span]:
        """Return the prefix of the next row; the mark of a list item is used once."""
        prefix: list[Span] = []
        for level in self._levels[:_MOST_DEPTH]:
            prefix += level.rest if level.used else level.mark
            if take:
                level.used = True
        return prefix if spans_width(prefix) <= self.width // 2 else cut_spans(prefix, self.width // 2, more="")

    def _put(self, line: Spans) -> None:
        first = self._prefix(take=True)
        self.rows += wrap(line, self.width, first=first, rest=self._prefix(take=False))

    def _put_block(self, strips: list[Strip]) -> None:
        self._make_gap()
        for strip in strips:
            prefix = self._prefix(take=True)
            self.rows.append(Strip.join([strip_of(prefix), strip]) if prefix else strip)
        self._gap = True

    def _make_gap(self) -> None:
        if self._gap and self.rows:
            prefix = self._prefix(take=False)
            quoted = any(text.strip() for text, _ in prefix) and all(level.used for level in self._levels)
            self.rows.append(strip_of(prefix) if quoted else BLANK)
        self._gap = False


def _spans_of(tokens: Sequence[Token], base: Style, look: Look) -> list[list[Span]]:
    """Return the lines of a paragraph; line breaks of the source are kept."""
    lines: list[list[Span]] = [[]]
    styles, addresses = [base], list[str]()
    for token in tokens:
        match token.type:
            case "text":
                lines[-1].append((_flat(token.content), styles[-1]))
            case "code_inline":
                ticks = "`" if look.code_theme is None else ""  # without colours the marks stay
                lines[-1].append((f"{ticks}{_flat(token.content)}{ticks}", styles[-1] + look.code))
            case "softbreak" | "hardbreak":
                lines.append([])
            case "strong_open":
                styles.append(styles[-1] + look.strong)
            case "em_open":
                styles.append(styles[-1] + look.emphasis)
            case "s_open":
                styles.append(styles[-1] + look.struck)
            case "link_open":
                addresses.append(str(token.attrGet("href") or ""))
                styles.append(styles[-1] + look.accent)
            case "link_close":
                styles.pop()
                address = sanitise_line(addresses.pop())
                if address and address != "".join(text for text, _ in lines[-1])[-len(address) :]:
                    lines[-1].append((f" ({address})", look.dim))
            case "image":
                lines[-1].append((f"[image: {sanitise_line(token.content)}]", look.accent))
                lines[-1].append((f" ({sanitise_line(str(token.attrGet('src') or ''))})", look.dim))
            case kind if kind.endswith("_close"):
                styles.pop()
            case _:
                lines[-1].append((_flat(token.content), styles[-1]))
    return lines


def _flat(text: str) -> str:
    return sanitise_text(text).replace("\n", " ")
