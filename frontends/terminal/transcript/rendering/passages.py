"""Cuts a growing Markdown text into passages that can be drawn separately and, once complete, never change.

Rules:
1. A passage ends where the next line cannot belong to it: after a blank line, at a heading, at a fence. A list is one
   passage, including everything indented beneath its items.
2. No passage is so long that redrawing it with every word would be noticeable: beyond a bound it ends at the next line.
3. A line is scanned once, when it is complete; deltas may cut the text anywhere.
"""

import re
from typing import Final, Literal

import attrs

Kind = Literal["prose", "list", "table", "code"]

_MOST_LINES: Final = 80
_MOST_CHARS: Final = 8_000
_MOST_TABLE_LINES: Final = 300
_MOST_CODE_LINES: Final = 1_000
_MOST_CODE_CHARS: Final = 40_000

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})([^\n]*)")
_INNER_FENCE: Final = re.compile(r"[ >]*(?:[-*+]|\d{1,9}[.)])? *(`{3,}|~{3,})([^\n]*)")
_ITEM: Final = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_HEADING: Final = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_ROW: Final = re.compile(r" {0,3}\|")


@attrs.define(eq=False)
class MarkdownPassage:
    """A part of a text.

    Attributes:
        info: For a `code` passage, the text after its fence; the passage text is then without the fences.
        lines: The approximate number of rows: its lines, and the blank one before it.
        gap: Whether a blank line precedes it.
    """

    kind: Kind
    text: str
    lines: int
    gap: bool
    info: str = ""


class PassageSplitter:
    """Splits a growing text; `whole` are the passages that will not change any more, `lines` is their length."""

    def __init__(self) -> None:
        self.whole: list[MarkdownPassage] = []
        self.lines = 0
        self._text = ""
        self._start = 0  # the start of the open passage
        self._scanned = 0  # the start of the first unscanned line
        self._kind: Kind = "prose"
        self._taken = 0  # lines in the open passage
        self._gap = False
        self._blank = False
        self._fence: str | None = None
        self._info = ""

    def grow(self, text: str) -> None:
        """Take the current text, which continues the previous one."""
        self._text = text
        while (end := text.find("\n", self._scanned)) >= 0:
            self._line(text[self._scanned : end], end + 1)
        if self._blank and self._taken and self._fence is None and text[self._scanned : self._scanned + 1].isalpha():
            self._end_at(self._scanned)  # however this line goes on, it begins a new paragraph
        # A line that never ends must not be redrawn whole again and again.
        while len(text) - max(self._start, self._scanned) > _MOST_CHARS:
            if self._start < self._scanned:
                self._end_at(self._scanned)
            self._end_at(self._start + _MOST_CHARS, forced=True)
            self._scanned = self._start

    @property
    def length(self) -> int:
        """The number of characters taken in."""
        return len(self._text)

    def is_continued_by(self, text: str) -> bool:
        """Return whether a text continues the one taken in."""
        return text.startswith(self._text)

    def open_passage(self) -> MarkdownPassage | None:
        """Return the passage that may still change, in its current form; None if it is empty."""
        text = self._text[self._start :]
        if not text.strip() and self._kind != "code":
            return None
        return self._passage(text, ended=False)

    # --- lines --------------------------------------------------------------------------------------------------------

    def _line(self, line: str, after: int) -> None:
        if self._fence is not None:
            self._in_fence(line, after)
        elif not line.strip():
            self._blank = True
            self._take(after)
        else:
            self._outside(line, after)

    def _in_fence(self, line: str, after: int) -> None:
        assert self._fence is not None
        mark = line.strip(" >")
        closes = len(mark) >= len(self._fence) and mark == self._fence[0] * len(mark)
        if closes:
            self._fence = None
        if self._kind != "code":
            self._take(after)
        elif closes:
            self._end_at(self._scanned)
            self._start = self._scanned = after
            self._kind = "prose"
        elif self._is_long(_MOST_CODE_LINES, _MOST_CODE_CHARS):
            self._end_at(self._scanned, forced=True, kind="code")
            self._take(after)
        else:
            self._take(after)

    def _outside(self, line: str, after: int) -> None:
        fence = _FENCE.match(line)
        in_list = self._kind == "list" and self._taken
        item = _ITEM.match(line) is not None
        # An indented fence within a list belongs to its item; any other one begins a code passage.
        if fence is not None and not (in_list and line.startswith(" ")) and _opens(fence):
            self._end_at(self._scanned)
            self._fence, self._info, self._kind = fence[1], fence[2].strip(), "code"
            self._start = self._scanned = after
            return
        is_heading = _HEADING.match(line) is not None
        if self._taken and self._ends_before(line, item=item, is_heading=is_heading):
            self._end_at(self._scanned)
        elif self._is_long(_MOST_TABLE_LINES if self._kind == "table" else _MOST_LINES, _MOST_CHARS):
            # A long list is cut only between items: a later line of an item means something else on its own.
            if item or self._kind != "list":
                self._end_at(self._scanned, forced=True)
        if not self._taken:
            self._kind = "list" if item else "table" if _ROW.match(line) else "prose"
        inner = _INNER_FENCE.match(line)
        if inner is not None and _opens(inner):
            self._fence = inner[1]
        self._take(after)
        if is_heading:
            self._end_at(self._scanned)

    def _ends_before(self, line: str, *, item: bool, is_heading: bool) -> bool:
        if is_heading and not line.startswith(" "):
            return True
        if self._kind == "list":
            return self._blank and not item and not line.startswith((" ", "\t"))
        if self._kind == "prose" and _ROW.match(line):
            return False  # part of the paragraph unless a blank line precedes it
        return self._blank and not line.startswith(("    ", "\t"))

    def _take(self, after: int) -> None:
        self._taken += 1
        if self._text[self._scanned : after].strip():
            self._blank = False
        self._scanned = after

    def _is_long(self, lines: int, chars: int) -> bool:
        return self._taken >= lines or self._scanned - self._start >= chars

    def _end_at(self, end: int, *, forced: bool = False, kind: Kind = "prose") -> None:
        text = self._text[self._start : end]
        if text.strip() or self._kind == "code":
            self.whole.append(self._passage(text, ended=True))
            self.lines += self.whole[-1].lines
            self._gap = not forced
        self._start, self._taken, self._blank, self._kind = end, 0, False, kind

    def _passage(self, text: str, *, ended: bool) -> MarkdownPassage:
        if self._kind == "code" and not ended:
            text = _without_closing(text, self._fence or "`")
        return MarkdownPassage(
            kind=self._kind,
            text=text.removesuffix("\n") if self._kind == "code" else text.strip("\n"),
            lines=text.strip("\n").count("\n") + 1 + self._gap,
            gap=self._gap,
            info=self._info if self._kind == "code" else "",
        )


def _opens(fence: re.Match[str]) -> bool:
    return not (fence[1][0] == "`" and "`" in fence[2])


def _without_closing(code: str, fence: str) -> str:
    """Drop a last line that looks like the beginning of the closing fence."""
    before, newline, last = code.rpartition("\n")
    return before + newline if last.strip() and not last.strip(" ").strip(fence[0]) else code
