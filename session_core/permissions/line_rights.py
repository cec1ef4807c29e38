"""The rights beyond the sandbox that a shell line of a person wants: named before the command, or known of git's.

A model names them as arguments of its call. People type `+network curl example.org`, and for commands of git that
cannot work without them not even that. Either way they are asked as for a call of a model.
"""

import re
from typing import Final

import attrs

from session_core.errors import InvalidInput
from session_core.permissions.command_lines import parse_command_line
from session_core.vocabulary.sessions import ExtraRight

RIGHT_PREFIX: Final = "+"
LINE_RIGHTS: Final[tuple[ExtraRight, ...]] = ("network", "protected", "sockets")
"""What a line can ask for; running without a sandbox is a setting of the session."""
_PREFIX: Final = re.compile(r"\+(?P<names>[a-z]+(?:,[a-z]+)*)(?:\s+|\Z)(?P<command>[\s\S]*)")

_GIT_CHANGES: Final = frozenset(
    "add am bisect checkout cherry-pick clone commit fetch gc init merge mv pull push rebase reset restore revert rm "  # noqa: SIM905
    "stash switch".split()
)
"""Commands of git that change `.git` whatever follows them, except for those below."""
_GIT_ONLY_READS: Final = frozenset({("stash", "list"), ("stash", "show"), ("bisect", "log"), ("bisect", "view")})
_GIT_ONLINE: Final = frozenset({"clone", "fetch", "ls-remote", "pull", "push"})
_GIT_VALUED: Final = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env"})


@attrs.frozen
class PersonLine:
    """A line: its command, and the rights named before it."""

    command: str
    named: frozenset[ExtraRight] = frozenset()

    @property
    def rights(self) -> frozenset[ExtraRight]:
        """The rights that it wants."""
        return self.named | _find_rights_of_git(self.command)


def read_person_line(line: str) -> PersonLine:
    """Read a line as a person has typed it.

    Raises:
        InvalidInput: The prefix names something else than rights, or nothing follows it.
    """
    line = line.strip()
    named: frozenset[ExtraRight] = frozenset()
    if (found := _PREFIX.fullmatch(line)) is not None:
        names = found["names"].split(",")
        known = ", ".join(f"{RIGHT_PREFIX}{each}" for each in LINE_RIGHTS)
        if unknown := [name for name in names if name not in LINE_RIGHTS]:
            raise InvalidInput(f"a line cannot ask for {unknown[0]!r}; it can ask for: {known}", field="line")
        line = found["command"]
        if not line:
            raise InvalidInput(f"there is no command after {RIGHT_PREFIX}{found['names']}", field="line")
        named = frozenset(right for right in LINE_RIGHTS if right in names)
    return PersonLine(line, named)


def _find_rights_of_git(line: str) -> frozenset[ExtraRight]:
    rights: set[ExtraRight] = set()
    for command in parse_command_line(line).commands:
        words = command.text.split(" ")
        if words[0] != "git":
            continue
        place = 1
        while place < len(words) and words[place].startswith("-"):
            place += 2 if words[place] in _GIT_VALUED else 1
        name, after, *_ = (*words[place : place + 2], "", "")
        if name in _GIT_CHANGES and (name, after) not in _GIT_ONLY_READS:
            rights.add("protected")
        if name in _GIT_ONLINE:
            rights.add("network")
    return frozenset(rights)
