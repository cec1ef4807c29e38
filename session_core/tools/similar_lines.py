"""For text that is not found: the most similar lines of the file, and how they differ from it."""

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final

from session_core.tools.diffs import changed_spans, count_equal_ends

_SHOWN_LINES: Final = 12
_SHOWN_LINE_CHARS: Final = 200
_COMPARED_LINES: Final = 3_000
"""How many lines of the file are compared letter by letter, which is slow."""
_ALIKE: Final = 0.6
_VOTES: Final = 4
"""How many places of a repeated line are considered: a closing bracket says little about the position."""


def describe_similar_lines(lines: Sequence[str], searched: Sequence[str]) -> str:
    """Describe that the text is missing, and show the most similar lines."""
    have = [line.rstrip() for line in lines]
    want = [line.rstrip() for line in searched]
    first = _find_best_window(have, want)
    if first is None:
        return "old_text is not in the file, and nothing in it is similar; read the file again"
    window = have[first : first + len(want)]
    comparison = _render_comparison(want[:_SHOWN_LINES], window[:_SHOWN_LINES], first)
    detail = _describe_first_difference(want, window, first)
    return "\n".join(
        [
            f"old_text is not in the file; like it is line {first + 1} on (- is what you gave, + is what is there):",
            *comparison,
            *([f"[{len(want) - _SHOWN_LINES} more lines are not shown]"] if len(want) > _SHOWN_LINES else []),
            *([detail] if detail else []),
        ]
    )


def _find_best_window(have: list[str], want: list[str]) -> int | None:
    """Return where most of the wanted lines are, ignoring indentation; else the line with the most similar letters."""
    places: dict[str, list[int]] = {}
    for index, line in enumerate(want):
        if body := line.strip():
            places.setdefault(body, []).append(index)
    votes = Counter[int]()
    for index, line in enumerate(have):
        votes.update(max(0, index - place) for place in places.get(line.strip(), ())[:_VOTES])
    if votes:
        return min(votes, key=lambda start: (-votes[start], start))
    return _find_most_similar_line(have, want)


def _find_most_similar_line(have: list[str], want: list[str]) -> int | None:
    place = max(range(len(want)), key=lambda index: len(want[index].strip()))
    target = want[place].strip()[:_SHOWN_LINE_CHARS]
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(target)
    best, most = None, _ALIKE
    for index, line in enumerate(have[:_COMPARED_LINES]):
        matcher.set_seq1(line.strip()[:_SHOWN_LINE_CHARS])
        if matcher.real_quick_ratio() > most and matcher.quick_ratio() > most and (ratio := matcher.ratio()) > most:
            best, most = index, ratio
    return None if best is None else max(0, best - place)


def _render_comparison(want: list[str], window: list[str], first: int) -> list[str]:
    rendered: list[str] = []
    place = 0
    for a, b, c, d in changed_spans(want, window):
        unchanged_start = c - (a - place)
        rendered += [
            _format_numbered(" ", first + unchanged_start + offset, window[unchanged_start + offset])
            for offset in range(a - place)
        ]
        rendered += [f"-       {_cut_line(line)}" for line in want[a:b]]
        rendered += [_format_numbered("+", first + index, window[index]) for index in range(c, d)]
        place = b
    unchanged_start = len(window) - (len(want) - place)
    return rendered + [
        _format_numbered(" ", first + index, window[index]) for index in range(unchanged_start, len(window))
    ]


def _format_numbered(mark: str, index: int, line: str) -> str:
    return f"{mark}{index + 1:>6} {_cut_line(line)}"


def _cut_line(line: str) -> str:
    return line if len(line) <= _SHOWN_LINE_CHARS else f"{line[:_SHOWN_LINE_CHARS]}..."


def _describe_first_difference(want: list[str], window: list[str], first: int) -> str | None:
    """Describe the first difference in the words, or else in the indentation."""
    pairs = list(enumerate(zip(want, window, strict=False), first + 1))
    for line, (given, there) in pairs:
        if given.strip() != there.strip():
            column, _ = count_equal_ends(given.strip(), there.strip())
            there, given = there.strip()[column : column + 40], given.strip()[column : column + 40]
            return f"line {line} has {there!r} where old_text has {given!r}"
    for line, (given, there) in pairs:
        if given != there:
            return f"line {line} is indented by {_describe_indent(there)}, in old_text by {_describe_indent(given)}"
    return None


def _describe_indent(line: str) -> str:
    indentation = line[: len(line) - len(line.lstrip())]
    tabs, blanks = indentation.count("\t"), indentation.count(" ")
    return " and ".join(
        [f"{count} {name}" for count, name in ((tabs, "tabs"), (blanks, "blanks")) if count] or ["nothing"]
    )
