"""Patterns for names, paths and command lines, in a time that grows with their lengths and no faster.

Regular expressions are unsuitable: with a few stars in a pattern, a long command can keep them busy for hours.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

_TOKENS: Final = re.compile(r"\*\*/|\*\*|\*|\?|[\s\S]")
_STARS: Final = re.compile(r"\*+")


def match_gaps(pattern: str, text: str) -> list[str] | None:
    """Return what the stars of a pattern match in a string, or None if it does not match; a star matches anything."""
    first, *rest = _STARS.split(pattern)
    if not rest:
        return [] if pattern == text else None
    *middle, last = rest
    if not text.startswith(first):
        return None
    position, gaps = len(first), []
    for piece in middle:
        found = text.find(piece, position)
        if found < 0:
            return None
        gaps.append(text[position:found])
        position = found + len(piece)
    if len(text) - len(last) < position or not text.endswith(last):
        return None
    gaps.append(text[position : len(text) - len(last)])
    return gaps


def matches_path(pattern: str, path: str, *, or_beneath: bool) -> bool:
    """Return whether a pattern matches a path: `*` and `?` stay within a folder, `**` does not.

    With `or_beneath`, it is enough to match a folder above the path.
    """
    tokens = _tokenize(pattern)
    states = _expand_states({0}, tokens)
    for number, character in enumerate(path):
        if or_beneath and character == "/" and number and len(tokens) in states:
            return True
        states = _expand_states({state for each in states for state in _next_states(each, character, tokens)}, tokens)
        if not states:
            return False
    return len(tokens) in states


@lru_cache(maxsize=1024)
def _tokenize(pattern: str) -> Sequence[str]:
    return tuple(_TOKENS.findall(pattern))


def _next_states(state: int, character: str, tokens: Sequence[str]) -> Iterator[int]:
    """Yield the states after a character; a negative state is inside the token `**/` before it."""
    if state < 0:
        yield state
        if character == "/":
            yield -state
        return
    if state == len(tokens):
        return
    wanted = tokens[state]
    if wanted == "**":
        yield state
    elif wanted == "**/":
        yield -(state + 1)
        if character == "/":
            yield state + 1
    elif wanted == "*":
        if character != "/":
            yield state
    elif wanted == "?":
        if character != "/":
            yield state + 1
    elif wanted == character:
        yield state + 1


def _expand_states(states: set[int], tokens: Sequence[str]) -> set[int]:
    """Add the states reached without a character: stars may match nothing."""
    reached = set(states)
    for state in states:
        reachable = state
        while 0 <= reachable < len(tokens) and tokens[reachable] in {"*", "**", "**/"}:
            reachable += 1
            reached.add(reachable)
    return reached
