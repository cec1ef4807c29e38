"""Permission rules: what people have said about single tools, paths and commands.

The strictest rule that fits decides: deny before ask before allow. So adding a rule that denies or asks can only make a
configuration stricter, whatever stands before it, and the order of rules means nothing.

In patterns for paths, `*` stands for anything but a slash, `**` for anything, `?` for one character; in those for tools
and commands, `*` stands for anything. In doubt a rule that denies or asks fits, and one that allows does not:

- A path pattern without a slash is about names in any folder. To deny a folder is to deny what is in it. A call that
  touches several files is allowed by a path only if the pattern fits all of them.
- To deny `rm *` is also to deny `cd x && rm -r y`: each part of a command line is looked at. To allow `git log *` is
  not to allow `git log; rm -r y`: a star never stands for characters by which a shell starts something else.

This reads commands as text. It keeps honest models from slips; the sandbox is what keeps the others in.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, overload

import attrs

from session_core.config.globs import fits_path, gaps_of

RuleDecision = Literal["allow", "ask", "deny"]
STRICT_FIRST: Final[tuple[RuleDecision, ...]] = ("deny", "ask", "allow")

_RISKY: Final = frozenset(";&|<>$`\\\n\r(){}!#")
_SEPARATORS: Final = re.compile(r"[;&|\n\r(){}`<>]|\$\(")
_BEFORE_COMMANDS: Final = re.compile(r"(?:(?:sudo|command|exec|time|nohup|env|then|do|else|\w+=\S*) )+")


@attrs.frozen(kw_only=True)
class PermissionRule:
    """One rule; every pattern that it has must fit.

    Attributes:
        decision: Let the call run, ask a person, or refuse it.
        tool: The tool's name.
        path: The files it touches, relative to the folder of the session, or from / if they lie elsewhere.
        command: The command line, for tools that run one.
    """

    decision: RuleDecision
    tool: str | None = None
    path: str | None = None
    command: str | None = None


class LiveRules(Sequence[PermissionRule]):
    """Rules that can be replaced while others hold on to them: each call is decided by what they are then."""

    def __init__(self, rules: Iterable[PermissionRule] = ()) -> None:
        self._rules = tuple(rules)

    def replace(self, rules: Iterable[PermissionRule]) -> None:
        """Let other rules take their place, all in one step."""
        self._rules = tuple(rules)

    @overload
    def __getitem__(self, index: int) -> PermissionRule: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[PermissionRule, ...]: ...
    def __getitem__(self, index: int | slice) -> PermissionRule | tuple[PermissionRule, ...]:
        return self._rules[index]

    def __len__(self) -> int:
        return len(self._rules)

    def __iter__(self) -> Iterator[PermissionRule]:
        return iter(self._rules)  # the rules of this moment, even if they are replaced on the way


def decide(
    rules: Iterable[PermissionRule], *, tool: str, paths: Sequence[str] = (), command: str | None = None
) -> RuleDecision | None:
    """Return what the rules, in any order, say about a call, or None when none of them fits."""
    fitting = {rule.decision for rule in rules if fits(rule, tool=tool, paths=paths, command=command)}
    return next((decision for decision in STRICT_FIRST if decision in fitting), None)


def fits(rule: PermissionRule, *, tool: str, paths: Sequence[str] = (), command: str | None = None) -> bool:
    """Tell whether a rule is about this call."""
    careful = rule.decision != "allow"
    if rule.tool is not None and gaps_of(rule.tool, tool) is None:
        return False
    if rule.path is not None and not _fits_paths(rule.path, paths, careful=careful):
        return False
    if rule.command is None:
        return True
    return command is not None and _fits_command(rule.command, command, careful=careful)


def _fits_paths(pattern: str, paths: Sequence[str], *, careful: bool) -> bool:
    wanted = pattern.removeprefix("./")
    wanted = wanted.rstrip("/") or wanted
    if careful:
        return any(_fits_carefully(wanted, posixpath.normpath(path)) for path in paths)
    return bool(paths) and all(_fits_plainly(wanted, path) for path in paths)


def _fits_carefully(wanted: str, path: str) -> bool:
    if "/" in wanted:
        return fits_path(wanted, path, or_beneath=True)
    return any(fits_path(wanted, part, or_beneath=False) for part in path.split("/"))


def _fits_plainly(wanted: str, path: str) -> bool:
    # A path with a way back up in it names a file only when somebody has followed its links.
    if ".." in path.split("/"):
        return False
    cleaned = posixpath.normpath(path)
    return fits_path(wanted, cleaned if "/" in wanted else posixpath.basename(cleaned), or_beneath=False)


def _fits_command(pattern: str, command: str, *, careful: bool) -> bool:
    if not careful:
        gaps = gaps_of(pattern.strip(), command.strip())
        return gaps is not None and not _RISKY & set("".join(gaps))
    wanted = " ".join(pattern.split())
    # `rm *` is about a bare `rm` too.
    forms = (wanted, wanted.removesuffix(" *"))
    return any(gaps_of(form, part) is not None for part in _parts(command) for form in forms)


def _parts(command: str) -> Iterator[str]:
    """The command line, and each command in it, also without what only changes how it is run."""
    for piece in (command, *_SEPARATORS.split(command)):
        plain = " ".join(piece.split())
        yield plain
        bare = _BEFORE_COMMANDS.sub("", plain, count=1) if _BEFORE_COMMANDS.match(plain) else plain
        yield bare
        name, blank, rest = bare.partition(" ")
        yield posixpath.basename(name.strip("\\\"'")) + blank + rest
