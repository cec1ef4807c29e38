"""Patterns for paths: `*` and `?` within a name, `**` for any number of folders, `[a-z]`, and `{one,other}`.

A pattern without a slash matches names in any folder. Matching always takes at most pattern length times path length:
patterns come from a model.
"""

import fnmatch
import re
from collections.abc import Iterator
from typing import Final

from session_core.limits import MAX_PATH_CHARS
from session_core.sandbox.ignore import matches_with_gaps
from session_core.tools.base import ToolFailed

_MOST_ALTERNATIVES: Final = 100

_Part = re.Pattern[str] | None
"""One name of a path; None stands for any number of folders."""


class PathPattern:
    """A compiled pattern.

    Raises:
        ToolFailed: The pattern is invalid; the message names the argument.
    """

    def __init__(self, pattern: str, argument: str = "pattern") -> None:
        if not pattern or len(pattern) > MAX_PATH_CHARS:
            raise ToolFailed(f"the argument {argument!r} must be a pattern of 1 to {MAX_PATH_CHARS} characters")
        if pattern.startswith("/") or ".." in pattern.split("/"):
            raise ToolFailed(f"the argument {argument!r} must be a pattern for paths beneath the folder, without '..'")
        self._alternatives: list[list[_Part]] = []
        for each in _expand_braces(pattern):
            if len(self._alternatives) == _MOST_ALTERNATIVES:
                raise ToolFailed(f"the argument {argument!r} stands for more than {_MOST_ALTERNATIVES} patterns")
            self._alternatives.append(_compile(each))

    def matches(self, path: str) -> bool:
        """Return whether a path matches, given relative to the pattern's folder."""
        names = path.split("/")
        return any(matches_with_gaps(parts, names, None, _name_matches) for parts in self._alternatives)


def _expand_braces(pattern: str) -> Iterator[str]:
    """Expand braces into all alternatives; an unmatched brace is an ordinary character."""
    waiting = [pattern]
    while waiting:
        each = waiting.pop()
        inner = re.search(r"\{([^{}]*,[^{}]*)\}", each)
        if inner is None:
            yield each
        elif len(waiting) <= _MOST_ALTERNATIVES:
            choices = [each[: inner.start()] + choice + each[inner.end() :] for choice in inner[1].split(",")]
            waiting += reversed(choices)
        else:
            yield from [each] * (_MOST_ALTERNATIVES + 1)  # too many, which the caller reports


def _compile(pattern: str) -> list[_Part]:
    names = [name for name in pattern.split("/") if name not in {"", "."}]
    if "/" not in pattern.rstrip("/"):
        names = ["**", *names]
    # Two `**` in a row mean the same as one, and many would be slow.
    names = [name for place, name in enumerate(names) if name != "**" or names[place - 1 : place] != ["**"]]
    return [None if name == "**" else re.compile(fnmatch.translate(name)) for name in names]


def _name_matches(part: _Part, name: str) -> bool:
    return part is not None and part.match(name) is not None
