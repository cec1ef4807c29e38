"""Which files a tool that comes across many of them must leave out, because rules are about those files.

A call is judged by the paths that it names: to search a folder is to name the folder. Rules about files in it would
be gone around that way. So the tool asks about each file, and leaves out those that would be refused, or would have to
be asked for, if the call had named them.
"""

import posixpath
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from session_core.config.rules import STRICT_FIRST, PermissionRule, RuleDecision, decide, fits
from session_core.tools.base import Withheld, Withholding, nothing_withheld

_MAX_KEPT: Final = 10_000


def withholding(rules: Iterable[PermissionRule], tool: str, named: Sequence[str]) -> Withholding:
    """Return what the rules of this moment say about files that a call of this tool did not name.

    Args:
        rules: The rules.
        tool: The tool's name.
        named: The paths that the call names. Rules that fit those have had their say about the call as a whole.
    """
    about_files = [
        rule
        for rule in rules
        if rule.path is not None
        and rule.command is None
        and rule.decision != "allow"
        and not fits(rule, tool=tool, paths=named)
    ]
    if not about_files:
        return nothing_withheld
    by_name = [rule for rule in about_files if "/" not in _pattern(rule)]
    by_path = [rule for rule in about_files if "/" in _pattern(rule)]

    # There are many files, few folders, and fewer rules that look at more than the last name of a path.
    @lru_cache(maxsize=_MAX_KEPT)
    def about_name(name: str) -> RuleDecision | None:
        return decide(by_name, tool=tool, paths=(name,))

    @lru_cache(maxsize=_MAX_KEPT)
    def about_folder(folder: str) -> RuleDecision | None:
        return about(folder) if folder not in {"", "/", "."} else None

    def about(path: str) -> RuleDecision | None:
        folder, name = posixpath.split(path)
        found = {about_folder(folder), about_name(name)}
        if by_path:
            found.add(decide(by_path, tool=tool, paths=(path,)))
        return next((decision for decision in STRICT_FIRST if decision in found), None)

    def withheld(paths: tuple[str, ...]) -> Withheld | None:
        found = {about(path) for path in paths}
        return "deny" if "deny" in found else "ask" if "ask" in found else None

    return withheld


def _pattern(rule: PermissionRule) -> str:
    """The pattern as rules read it, where a slash says that it is about more than a name."""
    assert rule.path is not None
    wanted = rule.path.removeprefix("./")
    return wanted.rstrip("/") or wanted
