"""Fuzzy search for paths by some of their letters.

A path matches a query if it holds the letters of the query in order: `sct` matches `session_core/tools`. The best
matches have the letters side by side, at the starts of words, and in the name rather than in the folders; among equals,
the shorter path comes first. A query without capitals ignores case.

Rating a path takes some microseconds, so if very many match, only the most promising are rated.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from heapq import nsmallest
from itertools import compress, islice
from typing import Final

MOST_RATED: Final = 1_500
"""How many paths of each kind are rated for one query."""
_STARTS_WORD: Final = frozenset("/_-. ")
_LETTER, _ADJOINING, _WORD_START, _IN_NAME = 10, 12, 12, 4
_WHOLE_NAME, _NAME_START = 60, 25


class PathIndex:
    """Paths prepared for many searches; folders end with a slash."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = sorted(paths, key=lambda path: (len(path), path))
        self._folded = [_fold_case(path) for path in self._paths]
        self._names = [_name_of(path) for path in self._folded]

    def __len__(self) -> int:
        return len(self._paths)

    def best(self, query: str, limit: int) -> tuple[list[str], bool]:
        """Return the best paths for a query, best first, and whether more match."""
        if not query:
            first = nsmallest(limit, self._paths, key=lambda path: (path.rstrip("/").count("/"), path.casefold()))
            return first, len(self._paths) > limit
        exact = query != query.lower()
        texts = self._paths if exact else self._folded
        places = _find_candidates(texts, query, lambda: [_name_of(path) for path in texts] if exact else self._names)
        rated = ((-rate(self._paths[index], texts[index], query), index) for index in places)
        chosen = nsmallest(limit, rated)
        return [self._paths[index] for _, index in chosen], len(places) > limit


def _find_candidates(texts: Sequence[str], query: str, names: Callable[[], Sequence[str]]) -> list[int]:
    """Return the indexes of matching paths: all of them, or the most promising if there are very many."""
    fits = _subsequence(query)
    places = list(islice(compress(range(len(texts)), map(fits.match, texts)), MOST_RATED + 1))
    if len(places) <= MOST_RATED:
        return places
    # The shortest paths are in; a longer path may still have a better name.
    chosen = dict.fromkeys(places)
    begins = (name.startswith(query) for name in names())
    for found in (begins, map(fits.match, names())):
        chosen.update(dict.fromkeys(islice(compress(range(len(texts)), found), MOST_RATED)))
    return list(chosen)


def _subsequence(query: str) -> "re.Pattern[str]":
    """Return a pattern for texts that hold these letters in this order; it never backtracks."""
    return re.compile("".join(rf"[^{re.escape(each)}]*+{re.escape(each)}" for each in query))


def _name_of(path: str) -> str:
    return path[path.rfind("/", 0, len(path) - 1) + 1 :]


def _fold_case(path: str) -> str:
    """Return a path in lower case; unchanged if its length would change, so positions are the same in both."""
    small = path.lower()
    return small if len(small) == len(path) else path


def rate(path: str, text: str, query: str) -> int:
    """Return the score of a matching path; `text` is the path in the case used for the comparison."""
    name_at = text.rfind("/", 0, len(text) - 1) + 1
    name = text[name_at:].removesuffix("/")
    rating = max(
        _rate_positions(path, name_at, places)
        for places in (
            _find_contiguous(text, query, name_at),
            _find_word_starts(path, text, query, name_at),
            _find_compact(text, query, name_at) or _find_compact(text, query, 0),
        )
        if places is not None
    )
    if name.startswith(query):
        rating += _WHOLE_NAME if len(name) == len(query) or name.rpartition(".")[0] == query else _NAME_START
    return rating - len(path) // 8


def _find_contiguous(text: str, query: str, name_at: int) -> Sequence[int] | None:
    """Return the positions of the query as one piece: in the name, if possible at a word start, else anywhere."""
    found = first = text.find(query, name_at)
    while found > 0 and text[found - 1] not in _STARTS_WORD:
        found = text.find(query, found + 1)
    position = found if found >= 0 else first if first >= 0 else text.rfind(query)
    return range(position, position + len(query)) if position >= 0 else None


def _find_word_starts(path: str, text: str, query: str, start: int) -> list[int] | None:
    """Return the positions of the letters if each of them can begin a word."""
    position, places = start - 1, list[int]()
    for letter in query:
        position = text.find(letter, position + 1)
        while position > 0 and not _is_word_start(path, position):
            position = text.find(letter, position + 1)
        if position < 0:
            return None
        places.append(position)
    return places


def _is_word_start(path: str, position: int) -> bool:
    return (
        position == 0
        or path[position - 1] in _STARTS_WORD
        or (path[position].isupper() and path[position - 1].islower())
    )


def _find_compact(text: str, query: str, start: int) -> list[int] | None:
    """Return positions of the letters that lie close together: find the first possible end, and search backwards."""
    position = start - 1
    for letter in query:
        position = text.find(letter, position + 1)
        if position < 0:
            return None
    position += 1
    places: list[int] = []
    for letter in reversed(query):
        position = text.rfind(letter, 0, position)
        places.append(position)
    places.reverse()
    return places


def _rate_positions(path: str, name_at: int, places: Sequence[int]) -> int:
    rating, before = 0, -2
    for position in places:
        rating += _LETTER + (_IN_NAME if position >= name_at else 0)
        if position == before + 1:
            rating += _ADJOINING
        elif before >= 0:
            rating -= min(position - before, 6)
        if _is_word_start(path, position):
            rating += _WORD_START
        before = position
    return rating
