"""Permission rules for single tools, paths and commands.

The strictest matching rule decides: deny before ask before allow. So adding a deny or ask rule can only make a
configuration stricter, and the order of rules does not matter.

In path patterns, `*` matches anything but a slash, `**` anything, `?` one character; in tool and command patterns, `*`
matches anything. In doubt, a deny or ask rule matches, and an allow rule does not:

- A path pattern without a slash matches names in any folder. Denying a folder denies everything in it. A path pattern
  allows a call that touches several files only if it matches all of them.
- Denying `rm *` also denies `cd x && rm -r y`, `'r'm y` and `timeout 5 bash -c "rm y"`: each command of a line is
  checked, without its quotes, also behind programs that are known to start others (`wrapper_programs`). Where the shell
  language may hide such a command, as in `$x y`, a person is asked, and also where a program runs commands of its own
  (`opaque_programs`): `make`, `bash build.sh`, `awk '{system("rm y")}'`. A rule that allows such a program by name
  (`make *`) allows what it runs. What programs do by themselves (`./build`, `python build.py`) is not seen.
- Allowing `git log *` does not allow `git log; rm -r y`: a star never matches characters with which a shell starts
  something else, nor a command that the program before it would start. Unknown syntax is not allowed.

The rules read commands as text. They stop honest mistakes of models; everything else is confined by the sandbox.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, Literal, overload

import attrs

from session_core.permissions.command_lines import CommandLine, parse_command_line
from session_core.permissions.globs import match_gaps, matches_path
from session_core.vocabulary.tools import all_names_of

RuleDecision = Literal["allow", "ask", "deny"]
STRICT_FIRST: Final[tuple[RuleDecision, ...]] = ("deny", "ask", "allow")

_RISKY: Final = frozenset(";&|<>$`\\\n\r(){}!#")
_SEPARATORS: Final = re.compile(r"[;&|\n\r(){}`<>]|\$\(")
_BEFORE_COMMANDS: Final = re.compile(r"(?:(?:sudo|command|exec|time|nohup|env|then|do|else|\w+=\S*) )+")


@attrs.frozen(kw_only=True)
class PermissionRule:
    """One rule; all its patterns must match.

    Attributes:
        decision: Let the call run, ask a person, or refuse it.
        tool: The tool's name, or one that it had before.
        path: The files it touches, relative to the folder of the session, or from / if they lie elsewhere.
        command: The command line, for tools that run one.
    """

    decision: RuleDecision
    tool: str | None = None
    path: str | None = None
    command: str | None = None


class LiveRules(Sequence[PermissionRule]):
    """Rules that can be replaced while in use: the current rules decide about each call."""

    def __init__(self, rules: Iterable[PermissionRule] = ()) -> None:
        self._rules = tuple(rules)

    def replace(self, rules: Iterable[PermissionRule]) -> None:
        """Replace all rules atomically."""
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
        return iter(self._rules)  # the current rules, even if they are replaced during the iteration


def decide(
    rules: Iterable[PermissionRule], *, tool: str, paths: Sequence[str] = (), command: str | None = None
) -> RuleDecision | None:
    """Return the decision of the rules, in any order, about a call, or None if none of them matches.

    If it is uncertain whether a rule forbids a command, the decision is to ask.
    """
    matching: set[RuleDecision] = set()
    uncertain: list[PermissionRule] = []
    names_programs = False
    for rule in rules:
        if matches_call(rule, tool=tool, paths=paths, command=command):
            matching.add(rule.decision)
            names_programs = names_programs or (rule.decision == "allow" and rule.command is not None)
        elif rule.decision != "allow":
            uncertain.append(rule)
    if any(_could_match(rule, tool, paths, command, trusts_opaque=names_programs) for rule in uncertain):
        matching.add("ask")
    return next((decision for decision in STRICT_FIRST if decision in matching), None)


def matches_call(rule: PermissionRule, *, tool: str, paths: Sequence[str] = (), command: str | None = None) -> bool:
    """Return whether a rule matches this call."""
    if not _matches_apart_from_command(rule, tool, paths):
        return False
    if rule.command is None:
        return True
    return command is not None and _matches_command(rule.command, command, careful=rule.decision != "allow")


def matches_tool(pattern: str, tool: str) -> bool:
    """Return whether a pattern matches a tool, by its present name or by one that it had before."""
    return any(match_gaps(pattern, name) is not None for name in all_names_of(tool))


def _matches_apart_from_command(rule: PermissionRule, tool: str, paths: Sequence[str]) -> bool:
    if rule.tool is not None and not matches_tool(rule.tool, tool):
        return False
    return rule.path is None or _matches_paths(rule.path, paths, careful=rule.decision != "allow")


def _could_match(
    rule: PermissionRule, tool: str, paths: Sequence[str], command: str | None, *, trusts_opaque: bool
) -> bool:
    """Return whether a rule could match this call, judging by the text of its command."""
    if rule.command is None or command is None or not _matches_apart_from_command(rule, tool, paths):
        return False
    line = parse_command_line(command)
    if line.unseen or not line.whole or (line.opaque and not trusts_opaque):
        return True
    certain = " ".join(rule.command.split()).partition("*")[0]
    return any(
        each.known is not None
        and (each.known.startswith(certain) or certain.startswith(each.known))
        and not (each.only_names and not certain)  # only a file name could complete the match
        for each in line.commands
    )


def _matches_paths(pattern: str, paths: Sequence[str], *, careful: bool) -> bool:
    wanted = pattern.removeprefix("./")
    wanted = wanted.rstrip("/") or wanted
    if careful:
        return any(_matches_loosely(wanted, posixpath.normpath(path)) for path in paths)
    return bool(paths) and all(_matches_strictly(wanted, path) for path in paths)


def _matches_loosely(wanted: str, path: str) -> bool:
    if "/" in wanted:
        return matches_path(wanted, path, or_beneath=True)
    return any(matches_path(wanted, part, or_beneath=False) for part in path.split("/"))


def _matches_strictly(wanted: str, path: str) -> bool:
    # A path with `..` in it names a certain file only after its links are resolved.
    if ".." in path.split("/"):
        return False
    cleaned = posixpath.normpath(path)
    return matches_path(wanted, cleaned if "/" in wanted else posixpath.basename(cleaned), or_beneath=False)


def _matches_command(pattern: str, command: str, *, careful: bool) -> bool:
    if not careful:
        gaps = match_gaps(pattern.strip(), command.strip())
        if gaps is None or _RISKY & set("".join(gaps)):
            return False
        line = parse_command_line(command)
        return line.whole and _programs_are_spelled_out(pattern.strip(), line)
    wanted = " ".join(pattern.split())
    # `rm *` also matches a bare `rm`.
    forms = (wanted, wanted.removesuffix(" *"))
    return any(match_gaps(form, part) is not None for part in _split_command(command) for form in forms)


def _programs_are_spelled_out(pattern: str, line: CommandLine) -> bool:
    """Return whether the pattern itself names the started programs, rather than matching them with a star."""
    certain, star, _ = pattern.partition("*")
    if not star or (not certain and not line.has_nested_commands):
        return True
    spelled = parse_command_line(certain).programs
    if len(spelled) != len(line.programs):
        return False
    *first, last = line.programs or ("",)
    return [*first] == list(spelled[:-1]) and last.startswith(spelled[-1] if spelled else "")


@lru_cache(maxsize=64)
def _split_command(command: str) -> tuple[str, ...]:
    """Return the command line, each command in it, and each piece between shell operators, even quoted ones."""
    found = dict.fromkeys((" ".join(command.split()), *(each.text for each in parse_command_line(command).commands)))
    for piece in dict.fromkeys(_SEPARATORS.split(command)):
        plain = " ".join(piece.split())
        bare = _BEFORE_COMMANDS.sub("", plain, count=1) if _BEFORE_COMMANDS.match(plain) else plain
        name, blank, rest = bare.partition(" ")
        found |= {bare: None, posixpath.basename(name.strip("\\\"'")) + blank + rest: None}
    return tuple(found)
