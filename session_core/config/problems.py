"""The problems of a configuration: each is a value, and one error holds all of them."""

from collections.abc import Sequence
from typing import Final

import attrs

from session_core.errors import InvalidInput

MAX_PROBLEMS: Final = 50
"""A longer list would not help, and a file from another author could hold thousands."""


@attrs.frozen(kw_only=True)
class ConfigProblem:
    """One problem.

    Attributes:
        place: The file, the variable or the flag.
        line: The line in that file, if it is known.
        key: The setting, such as `limits.steps`; empty for a problem of the whole file.
        what: What is wrong and what to do, in one sentence that never repeats a key.
    """

    place: str
    line: int | None = None
    key: str = ""
    what: str

    @property
    def sentence(self) -> str:
        """The whole problem in one line."""
        where = self.place if self.line is None else f"{self.place}, line {self.line}"
        return f"{where}: {self.key}: {self.what}" if self.key and self.key != self.place else f"{where}: {self.what}"


class ConfigInvalid(InvalidInput):
    """The configuration cannot be used; `problems` lists what is wrong with it, up to a limit."""

    def __init__(self, problems: Sequence[ConfigProblem]) -> None:
        first, *rest = problems
        said = first.sentence if not rest else f"there are {len(problems)} problems in the configuration"
        super().__init__(said, field=first.key or None)
        listed = tuple(problems[:MAX_PROBLEMS])
        if left_out := len(problems) - len(listed):
            listed += (ConfigProblem(place=problems[-1].place, what=f"{left_out} more problems are not listed here"),)
        self.problems = listed

    @property
    def details(self) -> tuple[str, ...]:
        """One line per problem, if there are several."""
        return tuple(each.sentence for each in self.problems) if len(self.problems) > 1 else ()
