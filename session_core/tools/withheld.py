"""Files that a tool comes across and skips because of a rule about their paths."""

import posixpath
from collections import Counter
from contextlib import suppress

import attrs

from session_core.sandbox.file_values import FolderEntry
from session_core.sandbox.workspace import Workspace
from session_core.tools.base import ToolFailed, WithholdReason, WithholdRule, withhold_nothing
from session_core.tools.text_files import format_count, named_paths

_WHY: dict[WithholdReason, str] = {
    "deny": "denied by a rule",
    "ask": "a rule wants them to be asked for; name the one you need",
}


@attrs.frozen(kw_only=True)
class WithheldFilter:
    """Decides which files beneath a folder must not be shown, and counts them.

    Attributes:
        workspace: Where the folder is.
        names: The folder as written, and with links resolved.
        withheld: The rules.
    """

    workspace: Workspace
    names: tuple[str, ...]
    withheld: WithholdRule
    _counts: Counter[WithholdReason] = attrs.field(init=False, factory=Counter)

    @classmethod
    def for_folder(cls, workspace: Workspace, path: str, withheld: WithholdRule) -> "WithheldFilter":
        """Create the filter for this folder."""
        names = () if withheld is withhold_nothing else named_paths(workspace, path)
        return cls(workspace=workspace, names=names, withheld=withheld)

    def is_withheld(self, inside: str, entry: FolderEntry) -> bool:
        """Return whether an entry must be left out, and count it if so; the path is relative to the folder."""
        if self.withheld is withhold_nothing:
            return False
        paths = [posixpath.normpath(posixpath.join(name, inside)) for name in self.names]
        if entry.kind == "link":  # a rule may be about its target
            with suppress(ToolFailed):
                paths += named_paths(self.workspace, paths[0])
        why = self.withheld(tuple(dict.fromkeys(paths)))
        if why is None:
            return False
        self._counts[why] += 1
        return True

    def remarks(self, noun: str = "file") -> list[str]:
        """Describe how many files were left out, and why."""
        return [f"{format_count(self._counts[why], noun)} not shown: {_WHY[why]}" for why in _WHY if self._counts[why]]
