"""Which files a tool that comes across many of them must leave out, because rules are about those files.

A call is judged by the paths that it names: to search a folder is to name the folder. Rules about files in it would
be gone around that way. So the tool asks about each file, and leaves out those that would be refused, or would have to
be asked for, if the call had named them.
"""

import posixpath
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from session_core.config.rules import STRICT_FIRST, PermissionRule, RuleDecision, decide, matches_call
from session_core.tools.base import WithholdReason, WithholdRule, withhold_nothing

_MAX_CACHED: Final = 10_000


def build_withholding(rules: Iterable[PermissionRule], tool: str, named: Sequence[str]) -> WithholdRule:
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
        and not matches_call(rule, tool=tool, paths=named)
    ]
    if not about_files:
        return withhold_nothing
    by_name = [rule for rule in about_files if "/" not in _pattern(rule)]
    by_path = [rule for rule in about_files if "/" in _pattern(rule)]

    # There are many files, few folders, and fewer rules that look at more than the last name of a path.
    @lru_cache(maxsize=_MAX_CACHED)
    def decide_name(name: str) -> RuleDecision | None:
        return decide(by_name, tool=tool, paths=(name,))

    @lru_cache(maxsize=_MAX_CACHED)
    def decide_folder(folder: str) -> RuleDecision | None:
        return decide_path(folder) if folder not in {"", "/", "."} else None

    def decide_path(path: str) -> RuleDecision | None:
        folder, name = posixpath.split(path)
        found = {decide_folder(folder), decide_name(name)}
        if by_path:
            found.add(decide(by_path, tool=tool, paths=(path,)))
        return next((decision for decision in STRICT_FIRST if decision in found), None)

    def decide_withheld(paths: tuple[str, ...]) -> WithholdReason | None:
        found = {decide_path(path) for path in paths}
        return "deny" if "deny" in found else "ask" if "ask" in found else None

    return decide_withheld


def _pattern(rule: PermissionRule) -> str:
    """The pattern as rules read it, where a slash says that it is about more than a name."""
    assert rule.path is not None
    wanted = rule.path.removeprefix("./")
    return wanted.rstrip("/") or wanted
