"""Files that a tool which visits many must leave out, because of rules about those files.

A call is judged by the paths that it names: a search of a folder names only the folder, and would bypass rules about
files in it. So the tool asks about each file, and leaves out those that would be refused, or would need approval, if
the call had named them. Example: with a rule that denies `.env`, a search of the folder skips that file.
"""

import posixpath
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from session_core.permissions.rules import STRICT_FIRST, PermissionRule, RuleDecision, decide, matches_call
from session_core.tools.base import ExclusionReason, PathFilter, exclude_nothing

_MAX_CACHED: Final = 10_000


def build_path_filter(rules: Iterable[PermissionRule], tool: str, named: Sequence[str]) -> PathFilter:
    """Return the filter that the current rules imply for files that a call of this tool did not name.

    Args:
        rules: The rules.
        tool: The tool's name.
        named: The paths that the call names. Rules that match those have already judged the call as a whole.
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
        return exclude_nothing
    by_name = [rule for rule in about_files if "/" not in _pattern(rule)]
    by_path = [rule for rule in about_files if "/" in _pattern(rule)]

    # There are many files, few folders, and even fewer rules that look at more than the last name of a path.
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

    def find_exclusion_reason(paths: tuple[str, ...]) -> ExclusionReason | None:
        found = {decide_path(path) for path in paths}
        return "deny" if "deny" in found else "ask" if "ask" in found else None

    return find_exclusion_reason


def _pattern(rule: PermissionRule) -> str:
    """Return the pattern as rules read it, where a slash means that it matches more than a name."""
    assert rule.path is not None
    wanted = rule.path.removeprefix("./")
    return wanted.rstrip("/") or wanted
