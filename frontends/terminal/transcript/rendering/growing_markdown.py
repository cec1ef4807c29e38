"""Growing Markdown: complete passages are drawn once and kept, only the last one is redrawn.

Of an answer far too long for a screen, only the beginning and the end are drawn, with a remark on how much is missing.
"""

import re
from typing import Final

import attrs
from textual.strip import Strip

from frontends.terminal.look.styles import Look
from frontends.terminal.transcript.rendering.code import highlight, highlight_fenced, label_of
from frontends.terminal.transcript.rendering.lines import BLANK, HEAD_ROWS, MOST_ROWS, limit_rows, omission
from frontends.terminal.transcript.rendering.markdown import code_rows, markdown
from frontends.terminal.transcript.rendering.passages import MarkdownPassage, PassageSplitter

_UNDECIDED: Final = re.compile(r"(?:^|\n)[ \t]*(?:-{1,2}|=+|`{1,2}|~{1,2}|[*+]{1,2}|\d{1,9}[.)]?|#{1,6}|\|)[ \t]*$")
"""An ambiguous last line: drawn as it is, it could turn the line before it into a heading and back."""
_MOST_AT_ONCE: Final = 120_000
"""The most characters arriving at once that are all parsed."""
_PIECE: Final = 16
"""Lines of open code that are highlighted together."""


@attrs.define(eq=False)
class _OpenCode:
    """Code whose end is not known yet: pieces of whole lines are highlighted once, without their context."""

    rows: list[Strip] = attrs.field(factory=list)
    _done: int = 0
    _latest: tuple[str, list[Strip]] = ("", [])

    def draw(self, passage: MarkdownPassage, width: int, look: Look) -> list[Strip]:
        if not self._done and not self.rows and (label := label_of(passage.info)):
            self.rows += code_rows([[(label, look.dim)]], width)
        language = passage.info.partition(" ")[0]
        lines = passage.text[self._done :].split("\n")
        while len(lines) > _PIECE:
            piece = "\n".join(lines[:_PIECE])
            self.rows += code_rows(highlight(piece, language, look), width)
            self._done += len(piece) + 1
            lines = lines[_PIECE:]
        *whole, last = lines
        known = "\n".join(whole)
        if known != self._latest[0]:
            self._latest = (known, code_rows(highlight(known, language, look), width))
        before = self._latest[1] if whole else []
        return [*self.rows, *before, *code_rows(highlight(last, "", look), width)]


@attrs.define(eq=False)
class Flow:
    """Draws one text for one width and look, again and again as it grows."""

    width: int
    look: Look
    _passages: PassageSplitter = attrs.field(factory=PassageSplitter)
    _rows: dict[int, list[Strip]] = attrs.field(factory=dict)
    _code: tuple[int, _OpenCode] | None = None

    def draw(self, text: str, *, growing: bool) -> list[Strip]:
        """Return all rows; a text that does not continue the previous one starts over."""
        if not self._passages.is_continued_by(text):
            self._passages, self._rows, self._code = PassageSplitter(), {}, None
        if len(text) - self._passages.length > _MOST_AT_ONCE:
            return self._draw_ends(text)
        self._passages.grow(text)
        rows = self._draw_whole()
        last = self._passages.open_passage()
        if last is not None:
            drawn = self._draw_open(last, growing=growing)
            rows += [BLANK, *drawn] if last.gap and rows and drawn else drawn
        return limit_rows(rows, self.look, self.width)

    def _draw_ends(self, text: str) -> list[Strip]:
        """Draw the beginning and the end of a text that is too long to parse."""
        half = _MOST_AT_ONCE // 2
        head = "\n".join(text[:half].split("\n")[:HEAD_ROWS])
        tail = "\n".join(text[-half:].split("\n")[HEAD_ROWS - MOST_ROWS :])
        missing = len(text) - len(head) - len(tail)
        remark = omission(missing, self.look, self.width, noun="character", where=" are not shown")
        rows = [
            *Flow(self.width, self.look).draw(head, growing=False)[:HEAD_ROWS],
            *(BLANK, *remark, BLANK),
            *Flow(self.width, self.look).draw(tail, growing=False)[HEAD_ROWS - MOST_ROWS :],
        ]
        return limit_rows(rows, self.look, self.width)

    def _draw_whole(self) -> list[Strip]:
        """Draw the complete passages: all of them, or the first and the last ones."""
        whole = self._passages.whole
        if self._passages.lines <= MOST_ROWS:
            return self._join_rows(0, len(whole))
        first, count = 0, 0
        while first < len(whole) and count < HEAD_ROWS:
            count += whole[first].lines
            first += 1
        last, count = len(whole), 0
        while last > first and count < MOST_ROWS - HEAD_ROWS:
            last -= 1
            count += whole[last].lines
        if first == last:
            return self._join_rows(0, len(whole))
        for place in [each for each in self._rows if first <= each < last]:
            del self._rows[place]
        missing = sum(passage.lines for passage in whole[first:last])
        remark = omission(missing, self.look, self.width, where=" are not shown")
        return [*self._join_rows(0, first), BLANK, *remark, BLANK, *self._join_rows(last, len(whole))]

    def _join_rows(self, start: int, stop: int) -> list[Strip]:
        rows: list[Strip] = []
        for place in range(start, stop):
            passage = self._passages.whole[place]
            drawn = self._rows.get(place)
            if drawn is None:
                drawn = self._rows[place] = self._draw_passage(passage)
            if passage.gap and place and drawn:
                rows.append(BLANK)
            rows += drawn
        return rows

    def _draw_open(self, passage: MarkdownPassage, *, growing: bool) -> list[Strip]:
        if not growing:
            return self._draw_passage(passage)
        if passage.kind == "code":
            place = len(self._passages.whole)
            if self._code is None or self._code[0] != place:
                self._code = (place, _OpenCode())
            return self._code[1].draw(passage, self.width, self.look)
        settled = _UNDECIDED.sub("", passage.text)
        return markdown(settled, self.width, self.look) if settled.strip() else []

    def _draw_passage(self, passage: MarkdownPassage) -> list[Strip]:
        if passage.kind == "code":
            return code_rows(highlight_fenced(passage.text, passage.info, self.look), self.width)
        return markdown(passage.text, self.width, self.look)
