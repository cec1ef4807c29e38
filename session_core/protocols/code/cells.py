"""Cells in a model's answer: where the first one opens, and what to run. Pure, and the one rule for all.

A cell is a fenced block whose language is Python. Its fence is a line of its own that begins with three or more
backticks, at the start of the line or up to three spaces in, and names `python`, `py` or `python3`. It ends with a line
of at least as many backticks and nothing else; shorter fences within are part of the code.

Decisions:
1. The first cell counts. Everything after its opening fence is only for the protocol: the code, and the text after it,
   which was written without knowing what the code would do.
2. Blocks of other languages, blocks without one, and blocks fenced with tildes are prose, and so is their content.
   A model that wants to show Python to people uses tildes.
3. In an answer without a cell, a block of another language is a `ForeignBlock`: the driver decides whether it was meant
   to run, as it knows whether prose may end the turn.
4. A Python fence after other words on its line, or inside another block of backticks that is no longer, is ambiguous:
   the cell is malformed, and nothing runs.
5. An answer that ends in the middle of an opening fence has begun a cell.
"""

import re
from typing import Final

import attrs

from session_core.protocols.prose import Span

LANGUAGE: Final = "python"

_MOST_TICKS: Final = 32
_HEAD_CHARS: Final = 80
"""How much of a line decides what it is."""
_LANGUAGE_CHARS: Final = 30

_TICKS: Final = rf"(?P<indent> {{0,3}})(?P<ticks>`{{3,{_MOST_TICKS}}})[ \t]{{0,8}}"
_OPENING: Final = re.compile(rf"{_TICKS}(?:python3|python|py)(?![A-Za-z0-9_+#.-])", re.IGNORECASE)
_OPENING_SO_FAR: Final = re.compile(rf"{_TICKS}(?:p(?:y(?:t(?:h(?:o(?:n3?)?)?)?)?)?)?", re.IGNORECASE)
_FENCE_SO_FAR: Final = re.compile(r" {0,3}`{0,2}")
_IN_A_LINE: Final = re.compile(
    r"[^\s`>][ \t]{0,8}`{3,32}[ \t]{0,8}(?:python3|python|py)[ \t]{0,8}\r?$", re.IGNORECASE | re.MULTILINE
)
"""A fence after other words on its line; a quoted one is a quotation."""
_MARKED: Final = re.compile(r"^[ `~]", re.MULTILINE)
_ANY_FENCE: Final = re.compile(r" {0,3}(?P<ticks>`{3,}|~{3,})(?P<info>.*)", re.DOTALL)


# --- what to run ------------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class FoundCell:
    """A cell to run; `more` means that others follow, which are not run."""

    code: str
    more: bool = False


@attrs.frozen(kw_only=True)
class NoCell:
    """Only prose."""


@attrs.frozen(kw_only=True)
class EmptyCell:
    """A cell without code."""


@attrs.frozen(kw_only=True)
class UnclosedCell:
    """A cell without a closing fence."""


@attrs.frozen(kw_only=True)
class MalformedCell:
    """Ambiguous fences, with nothing to run; `reason` is for the model."""

    reason: str


@attrs.frozen(kw_only=True)
class ForeignBlock:
    """No cell, but a block of another language; `language` may be empty."""

    language: str


CellFinding = FoundCell | NoCell | EmptyCell | UnclosedCell | MalformedCell | ForeignBlock


def find_cell(written: str) -> CellFinding:
    """Return what to run in a complete answer."""
    watch = OpeningWatch()
    code = "".join(words for kind, words in (*watch.feed(written), *watch.close()) if kind == "code")
    if watch.begun:
        return _read_cell(code)
    if watch.swallowed:
        return MalformedCell(reason="a Python fence stands inside another block that has not been closed")
    if _IN_A_LINE.search(written):
        return MalformedCell(reason="its fence does not stand on a line of its own")
    return NoCell() if watch.foreign is None else ForeignBlock(language=watch.foreign)


def _read_cell(written: str) -> CellFinding:
    first, _, body = written.partition("\n")
    opening = _OPENING.match(first)
    if opening is None:
        return UnclosedCell()
    if first[opening.end() :].strip():
        return MalformedCell(reason="there is text after the language on the line of the opening fence")
    fence = rf"^ {{0,3}}`{{{len(opening['ticks'])},}}"
    closing = re.search(rf"{fence}[ \t]*\r?$", body, re.MULTILINE)
    if closing is None:
        return UnclosedCell()
    code = body[: closing.start()]
    if re.search(rf"{fence}[ \t]*(?:python3|python|py)\b", code, re.MULTILINE | re.IGNORECASE):
        return MalformedCell(reason="a second Python fence stands inside the cell, whose own fence is no longer")
    code = _remove_indent(code.replace("\r\n", "\n"), len(opening["indent"]))
    if not code.strip():
        return EmptyCell()
    rest = OpeningWatch()
    rest.feed(body[closing.end() :])
    rest.close()
    return FoundCell(code=code, more=rest.begun)


def _remove_indent(code: str, spaces: int) -> str:
    """Remove the indent that the lines share with their fence."""
    return re.sub(rf"^ {{1,{spaces}}}", "", code, flags=re.MULTILINE) if spaces else code


# --- where the first cell opens ---------------------------------------------------------------------------------------


class OpeningWatch:
    """Divides an answer, as it streams in, at the line where its first cell opens; a `ProseStream`.

    At most the start of one line is held back, while it could still become an opening fence.

    Attributes:
        begun: Whether a cell has begun; everything after that belongs to it.
        foreign: The language of the first block that is not Python; None if there is none.
        swallowed: Whether a Python fence stood in such a block, where it has no effect.
    """

    def __init__(self) -> None:
        self.begun = False
        self.foreign: str | None = None
        self.swallowed = False
        self._block: str | None = None
        """The fence of the block that the text is in."""
        self._held = ""
        self._holding = True
        self._head = ""
        self._ticks_after_head = self._words_after_head = False

    def feed(self, text: str) -> tuple[Span, ...]:
        """Add a piece; returns the known prose, and what belongs to a cell."""
        if self.begun:
            return _spans("", text)
        prose: list[str] = []
        place = 0
        while place < len(text):
            if self._head == "" and (plain := _plain_until(text, place)) > place:
                prose.append(text[place:plain])
                place = plain
                continue
            end = text.find("\n", place) + 1 or len(text)
            if self._read_on(text[place:end]):
                return _spans("".join(prose), self._release_held() + text[end:])
            if not self._holding:
                prose.append(self._release_held())
            if text[end - 1] == "\n":
                self._begin_line()
            place = end
        return _spans("".join(prose), "")

    def close(self) -> tuple[Span, ...]:
        """End the answer and return what was held back."""
        if not self.begun and self._holding:
            self.begun = bool(_opens_cell(self._head, ended=True) or _OPENING_SO_FAR.fullmatch(self._head))
        if not self.begun:
            self._end_line()
        held = self._release_held()
        return _spans("", held) if self.begun else _spans(held, "")

    def _read_on(self, piece: str) -> bool:
        """Add a piece of a line, or the rest of it; returns whether that opens a cell."""
        ended = piece.endswith("\n")
        line = piece[:-1] if ended else piece
        room = _HEAD_CHARS - len(self._head)
        self._head += line[:room]
        if len(line) > room:
            self._ticks_after_head |= "`" in line[room:]
            self._words_after_head |= not line[room:].isspace()
        self._held += piece
        if self._holding:
            opens = _opens_cell(self._head, ended=ended)
            self.begun = opens is True
            self._holding = opens is None
        if ended and not self.begun:
            self._end_line()
        return self.begun

    def _release_held(self) -> str:
        held, self._held = self._held, ""
        return held

    def _begin_line(self) -> None:
        self._head = ""
        self._ticks_after_head = self._words_after_head = False
        self._holding = self._block is None

    def _end_line(self) -> None:
        """Check whether the line opens or closes a block."""
        fence = _ANY_FENCE.match(self._head)
        if fence is None:
            return
        ticks, info = fence["ticks"], fence["info"].strip()
        blank = not info and not self._words_after_head
        if self._block is not None:
            if ticks.startswith(self._block) and blank:
                self._block = None
            elif ticks.startswith(self._block) and _opens_cell(self._head, ended=True):
                self.swallowed = True
        elif ticks[0] == "~":
            self._block = ticks
        elif "`" not in info and not self._ticks_after_head:
            self._block = ticks
            if self.foreign is None:
                self.foreign = (info.split() or [""])[0][:_LANGUAGE_CHARS]


def _spans(prose: str, code: str) -> tuple[Span, ...]:
    both: tuple[Span, ...] = (("text", prose), ("code", code))
    return tuple(span for span in both if span[1])


def _plain_until(text: str, place: int) -> int:
    """Return the end of the complete lines from here on that cannot be fences; a fast path, as most are not."""
    if text[place] in " `~":
        return place
    marked = _MARKED.search(text, place)
    return text.rfind("\n", place, len(text) if marked is None else marked.start()) + 1 or place


def _opens_cell(head: str, *, ended: bool) -> bool | None:
    """Return whether a line opens a cell; None while that is unknown."""
    opening = _OPENING.match(head)
    if opening is not None and (ended or opening.end() < len(head)):
        return True
    if not ended and (_FENCE_SO_FAR.fullmatch(head) or _OPENING_SO_FAR.fullmatch(head)):
        return None
    return False
