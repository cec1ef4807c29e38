"""Text differences: a unified diff for people, and how many lines were added and removed.

Comparing two files line by line can be very slow if lines repeat. So the common beginning and end are set aside first,
and a middle that would be expensive counts as replaced as a whole: the diff is longer, but correct.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from hashlib import sha256
from typing import Final

import attrs

MAX_DIFF_CHARS: Final = 32_000
"""Longer diffs are cut: nobody reads more before an approval."""
_CONTEXT: Final = 3
_MAX_COMPARED_LINES: Final = 10_000
_MAX_EQUAL_PAIRS: Final = 200_000
"""The cost of a comparison grows with the pairs of equal lines."""
_MAX_LINE_CHARS: Final = 1_000
_CUT_LINE: Final = "... [cut]"

Span = tuple[int, int, int, int]
"""Lines `a..b` of the old text become lines `c..d` of the new one."""


@attrs.frozen(kw_only=True)
class Difference:
    """How two versions of a file differ; `text` is a unified diff, cut if it is very long."""

    text: str
    added: int
    removed: int

    @property
    def counts(self) -> str:
        """The numbers of added and removed lines: `+3 -1`."""
        return f"+{self.added} -{self.removed}"


def difference(path: str, before: str | None, after: str) -> Difference:
    """Compare two versions of a file; `before` is None for a new file."""
    old, new = split_lines(before or ""), split_lines(after)
    spans = changed_spans(old, new)
    head = [f"--- {'/dev/null' if before is None else f'a/{path}'}", f"+++ b/{path}"]
    shows_ends = _line_ends(old) != _line_ends(new) or len(_line_ends(old)) > 1
    lines = [*head, *_format_hunks(old, new, spans, shows_ends=shows_ends)] if spans else []
    return Difference(
        text=_cut_diff(lines, after),
        added=sum(span[3] - span[2] for span in spans),
        removed=sum(span[1] - span[0] for span in spans),
    )


def split_lines(text: str) -> list[str]:
    """Split into lines with their ends, as editors count them: `splitlines` would split at unusual characters too."""
    *whole, last = text.split("\n")
    return [f"{line}\n" for line in whole] + ([last] if last else [])


def changed_spans(old: Sequence[str], new: Sequence[str]) -> list[Span]:
    """Return where two lists of lines differ, in order; everything between is equal."""
    head, tail = count_equal_ends(old, new)
    old_middle, new_middle = old[head : len(old) - tail], new[head : len(new) - tail]
    if not old_middle and not new_middle:
        return []
    if not old_middle or not new_middle or _is_expensive(old_middle, new_middle):
        return [(head, head + len(old_middle), head, head + len(new_middle))]
    matcher = SequenceMatcher(None, old_middle, new_middle, autojunk=False)
    return [(head + a, head + b, head + c, head + d) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]


def count_equal_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Return how many lines, or letters of a text, are the same at the beginning, and of the others at the end."""
    shorter = min(len(old), len(new))
    head = next((place for place in range(shorter) if old[place] != new[place]), shorter)
    tail = next((back for back in range(shorter - head) if old[-1 - back] != new[-1 - back]), shorter - head)
    return head, tail


def _is_expensive(old: Sequence[str], new: Sequence[str]) -> bool:
    if max(len(old), len(new)) > _MAX_COMPARED_LINES:
        return True
    in_new = Counter(new)
    return sum(in_new[line] for line in old) > _MAX_EQUAL_PAIRS


def _format_hunks(old: list[str], new: list[str], spans: list[Span], *, shows_ends: bool) -> Iterator[str]:
    for group in _group_spans(spans):
        start, stop = max(0, group[0][0] - _CONTEXT), min(len(old), group[-1][1] + _CONTEXT)
        new_start = group[0][2] - (group[0][0] - start)
        new_stop = group[-1][3] + (stop - group[-1][1])
        yield f"@@ -{_format_range(start, stop)} +{_format_range(new_start, new_stop)} @@"
        place = start
        for a, b, c, d in group:
            yield from (_format_line(" ", line, shows_ends=shows_ends) for line in old[place:a])
            yield from (_format_line("-", line, shows_ends=shows_ends) for line in old[a:b])
            yield from (_format_line("+", line, shows_ends=shows_ends) for line in new[c:d])
            place = b
        yield from (_format_line(" ", line, shows_ends=shows_ends) for line in old[place:stop])


def _group_spans(spans: list[Span]) -> Iterator[list[Span]]:
    """Group changes whose contexts touch."""
    group: list[Span] = []
    for span in spans:
        if group and span[0] - group[-1][1] > 2 * _CONTEXT:
            yield group
            group = []
        group.append(span)
    yield group


def _format_range(start: int, stop: int) -> str:
    length = stop - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _format_line(mark: str, line: str, *, shows_ends: bool) -> str:
    body = line.removesuffix("\n")
    if body.endswith("\r"):
        body = body[:-1] + ("\N{SYMBOL FOR CARRIAGE RETURN}" if shows_ends else "")
    if len(body) > _MAX_LINE_CHARS:
        body = body[:_MAX_LINE_CHARS] + _CUT_LINE
    end = "" if line.endswith("\n") else "\n\\ No newline at end of file"
    return f"{mark}{body}{end}"


def _line_ends(lines: list[str]) -> set[str]:
    return {"\r\n" if line.endswith("\r\n") else "\n" for line in lines if line.endswith("\n")}


def _cut_diff(lines: list[str], after: str) -> str:
    text = "\n".join(lines)
    if len(text) <= MAX_DIFF_CHARS and not any(_CUT_LINE in line for line in lines):
        return text
    # The checksum covers what is not shown: an approval of this diff approves exactly this text.
    remark = f"\n[the diff is cut; the new text has {len(after)} characters, SHA-256 {_digest(after)}]"
    return text[: MAX_DIFF_CHARS - len(remark)] + remark


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", errors="surrogatepass")).hexdigest()
