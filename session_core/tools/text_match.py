"""Find the place in a file that an edit means.

The first search is exact. Models often get invisible things wrong, so if nothing is found, the search becomes more
lenient step by step: typographic characters, blanks at line ends, indentation. A lenient match counts only if it is
unique, and text that the model did not mean to change stays as it is in the file.

A file whose lines all end with CR LF is handled as if they ended with LF and gets its line ends back.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import attrs

from session_core.tools.diffs import changed_spans, count_equal_ends, split_lines
from session_core.tools.similar_lines import describe_similar_lines

_LOOK_ALIKES: Final = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
        **dict.fromkeys("\u00a0\u2002\u2003\u2007\u2009\u202f", " "),
    }
)
"""Maps one character to one character, so positions are the same in both texts."""
_MOST_CANDIDATES: Final = 200
"""How many places with the right words and any indentation are examined; beyond that, hardly any match is unique."""
_MOST_CHARS: Final = 10_000_000
"""Bounds the result: replacing many places with long text, several times over, could grow without limit."""
_TAB_WIDTHS: Final = (4, 2, 8, 3)
_SHOWN_PLACES: Final = 8


class NoSinglePlace(Exception):
    """The text to be replaced was not found, or found more than once; the message says what would help."""


@attrs.frozen(kw_only=True)
class TextReplacement:
    """The text of a file after an edit; `overlooked` names the differences that the search ignored to find it."""

    text: str
    places: int = 1
    overlooked: str | None = None


def replace_text(text: str, old: str, new: str, *, replace_all: bool = False) -> TextReplacement:
    """Replace the only occurrence of `old`, or every occurrence.

    Raises:
        NoSinglePlace: There is no occurrence, or more than one without `replace_all`.
    """
    if not old:
        raise NoSinglePlace("old_text is empty; say which text to replace, or use write for a whole file")
    if old == new:
        raise NoSinglePlace("old_text and new_text are the same, so there is nothing to change")
    if not has_only_crlf(text) or "\r" in _to_lf(old):
        return _replace(text, old, new, replace_all=replace_all)
    done = _replace(_to_lf(text), _to_lf(old), _to_lf(new), replace_all=replace_all)
    return attrs.evolve(done, text=done.text.replace("\n", "\r\n"))


def has_only_crlf(text: str) -> bool:
    """Return whether there are line ends and all of them are CR LF."""
    return "\n" in text and text.count("\n") == text.count("\r\n")


def _to_lf(text: str) -> str:
    return text.replace("\r\n", "\n")


def _replace(text: str, old: str, new: str, *, replace_all: bool) -> TextReplacement:
    places = _find_places(text, old)
    if places and replace_all:
        count = text.count(old)
        if len(text) + count * (len(new) - len(old)) > _MOST_CHARS:
            raise NoSinglePlace(
                f"old_text occurs {count} times, and replacing all of them would make the file too large"
            )
        return TextReplacement(text=text.replace(old, new), places=count)
    if len(places) > 1:
        raise NoSinglePlace(_describe_ambiguity(text, places, "old_text occurs"))
    if places:
        return TextReplacement(text=_put_text(text, places[0], places[0] + len(old), new))
    return _replace_leniently(text, old, new)


def _find_places(text: str, old: str) -> list[int]:
    """Return where `old` begins, overlapping places included; at most one more than is ever shown."""
    found: list[int] = []
    place = text.find(old)
    while place >= 0 and len(found) <= _SHOWN_PLACES:
        found.append(place)
        place = text.find(old, place + 1)
    return found


def _put_text(text: str, start: int, stop: int, new: str) -> str:
    """Replace a part with new text, with line ends like those around it."""
    if text[start - 1 : start + 1] == "\r\n" and start > 0:
        start -= 1  # never cut within a CR LF
    return text[:start] + _with_ends(new, _line_end_near(text, start)) + text[stop:]


def _with_ends(text: str, end: str) -> str:
    return re.sub(r"(?<!\r)\n", "\r\n", text) if end == "\r\n" else text


def _line_end_near(text: str, place: int) -> str:
    after = text.find("\n", place)
    newline = after if after >= 0 else text.rfind("\n", 0, place)
    return "\r\n" if newline > 0 and text[newline - 1] == "\r" else "\n"


def _describe_ambiguity(text: str, places: Sequence[int], what: str) -> str:
    numbers = [text.count("\n", 0, place) + 1 for place in places]
    line_numbers = ", ".join(map(str, numbers[:_SHOWN_PLACES]))
    more = " and more" if len(numbers) > _SHOWN_PLACES else ""
    count = "many" if more else str(len(numbers))
    return (
        f"{what} {count} times, beginning in lines {line_numbers}{more}; "
        "include some lines around the one you mean, or set replace_all"
    )


# Lenient matches.


def _replace_leniently(text: str, old: str, new: str) -> TextReplacement:
    if not old.strip():
        raise NoSinglePlace("old_text contains only whitespace, which does not occur in the file exactly like this")
    typographic = _find_places(text.translate(_LOOK_ALIKES), old.translate(_LOOK_ALIKES))
    if len(typographic) > 1:
        raise NoSinglePlace(_describe_ambiguity(text, typographic, "ignoring typographic characters, old_text occurs"))
    if typographic:
        start = typographic[0]
        replacement = _keep_ends(text[start : start + len(old)], old, new)
        return TextReplacement(
            text=_put_text(text, start, start + len(old), replacement), overlooked="typographic characters"
        )
    page, given = _TextLines(text), _EditLines.from_texts(old, new)
    for overlooked, matches in (
        ("line ends", page.find_alike(given, _without_end)),
        ("line ends and typographic characters", page.find_alike(given, _plain)),
        ("indentation", page.find_shifted(given)),
    ):
        if len(matches) > 1:
            raise NoSinglePlace(
                _describe_ambiguity(
                    text, [page.starts[match.line] for match in matches], f"ignoring {overlooked}, old_text occurs"
                )
            )
        if matches:
            return TextReplacement(text=page.put(given, matches[0]), overlooked=overlooked)
    raise NoSinglePlace(describe_similar_lines(page.lines, given.old))


def _keep_ends(found: str, old: str, new: str) -> str:
    """Keep what `new` and `old` share at the beginning and end as it was found in the file."""
    head, tail = count_equal_ends(old, new)
    return found[:head] + new[head : len(new) - tail] + found[len(found) - tail :]


def _without_end(line: str) -> str:
    return line.rstrip(" \t\r\n")


def _plain(line: str) -> str:
    return line.translate(_LOOK_ALIKES).rstrip(" \t\r\n")


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


@attrs.frozen
class _EditLines:
    """The lines of an edit, and whether its last line includes the line end."""

    old: list[str]
    new: list[str]
    with_end: bool

    @classmethod
    def from_texts(cls, old: str, new: str) -> "_EditLines":
        with_end = old.endswith("\n")
        lines = [line.rstrip("\r\n") for line in split_lines(new)]
        if new.endswith("\n") and not with_end:
            lines.append("")  # one more line end means one more line
        return cls([line.rstrip("\r\n") for line in split_lines(old)], lines, with_end)


@attrs.frozen
class _Shift:
    """How the indentation in the file differs from the given one: by a constant, or tabs instead of blanks."""

    added: str = ""
    removed: str = ""
    tab_width: int = 0
    expands: bool = False

    def apply(self, indentation: str) -> str:
        if self.expands:
            return indentation.replace("\t", " " * self.tab_width)
        if self.tab_width:
            return indentation.replace(" " * self.tab_width, "\t")
        if self.removed:
            return indentation.removeprefix(self.removed) if indentation.startswith(self.removed) else ""
        return self.added + indentation

    def matches(self, given: str, found: str) -> bool:
        return given.startswith(self.removed) and self.apply(given) == found

    def move(self, line: str) -> str:
        body = line.lstrip(" \t")
        return self.apply(_indentation(line)) + body if body else line


_View = Callable[[str], str]
"""Reduces a line to the part that is compared."""


@attrs.frozen
class _Match:
    line: int
    shift: _Shift = _Shift()


class _TextLines:
    """The lines of a file."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = split_lines(text)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))

    def find_alike(self, given: _EditLines, view: _View) -> list[_Match]:
        """Return where the lines are equal under `view`; stops at two, which already means ambiguous."""
        return [_Match(line) for line, _ in zip(self._runs(given, view), range(_SHOWN_PLACES + 1), strict=False)]

    def find_shifted(self, given: _EditLines) -> list[_Match]:
        """Return where the lines are equal except for one uniform change of indentation."""
        found: list[_Match] = []
        runs = self._runs(given, lambda line: _plain(line).lstrip(" \t"))
        for line, _ in zip(runs, range(_MOST_CANDIDATES), strict=False):
            shift = _shift_between(given.old, self.lines[line : line + len(given.old)])
            if shift is not None:
                found.append(_Match(line, shift))
        return found

    def _runs(self, given: _EditLines, view: _View) -> Iterator[int]:
        # Map each line to one character: searching for a run of lines becomes a text search, which is always fast.
        alphabet: dict[str, str] = {}
        for line in given.old:
            alphabet.setdefault(view(line), chr(len(alphabet) + 1))
        needle = "".join(alphabet[view(line)] for line in given.old)
        hay = "".join(alphabet.get(view(line), "\0") for line in self.lines)
        place = hay.find(needle)
        while place >= 0:
            yield place
            place = hay.find(needle, place + 1)

    def put(self, given: _EditLines, match: _Match) -> str:
        """Replace the lines found; lines that the edit repeats stay as they are in the file."""
        first, count = match.line, len(given.old)
        found = self.lines[first : first + count]
        start, stop = self.starts[first], self.starts[first + count]
        end = _line_end_near(self.text, start)
        pieces: list[str] = []
        place = 0
        for a, b, c, d in changed_spans(given.old, given.new):
            pieces += found[place:a]
            pieces += [match.shift.move(line) + end for line in given.new[c:d]]
            place = b
        pieces += found[place:]
        body = "".join(pieces)
        body = body.removesuffix(_end_of(body))
        last_end = _end_of(found[-1]) if pieces or not given.with_end else ""
        return self.text[:start] + body + last_end + self.text[stop:]


def _end_of(line: str) -> str:
    return "\r\n" if line.endswith("\r\n") else "\n" if line.endswith("\n") else ""


def _shift_between(given: Sequence[str], found: Sequence[str]) -> _Shift | None:
    pairs = [(_indentation(a), _indentation(b)) for a, b in zip(given, found, strict=True) if a.strip()]
    for shift in _possible_shifts(*pairs[0]):
        if all(shift.matches(a, b) for a, b in pairs):
            return shift
    return None


def _possible_shifts(given: str, found: str) -> Iterator[_Shift]:
    if found.endswith(given):
        yield _Shift(added=found[: len(found) - len(given)])
    if given.endswith(found) and given != found:
        yield _Shift(removed=given[: len(given) - len(found)])
    for width in _TAB_WIDTHS:
        yield _Shift(tab_width=width)
        yield _Shift(tab_width=width, expands=True)
