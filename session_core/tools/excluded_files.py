"""Files that a tool comes across and skips because of a rule about their paths."""

import posixpath
from collections import Counter
from contextlib import suppress

import attrs

from session_core.sandbox.file_values import FolderEntry
from session_core.sandbox.workspace import Workspace
from session_core.tools.base import ExclusionReason, PathFilter, ToolFailed, exclude_nothing
from session_core.tools.text_files import format_count, named_paths

_WHY: dict[ExclusionReason, str] = {
    "deny": "denied by a rule",
    "ask": "a rule requires approval for them; name the file you need",
}


@attrs.frozen(kw_only=True)
class FolderFilter:
    """Decides which files beneath a folder must not be shown, and counts them.

    Attributes:
        workspace: Where the folder is.
        names: The folder as written, and with links resolved.
        path_filter: The rules.
    """

    workspace: Workspace
    names: tuple[str, ...]
    path_filter: PathFilter
    _counts: Counter[ExclusionReason] = attrs.field(init=False, factory=Counter)

    @classmethod
    def for_folder(cls, workspace: Workspace, path: str, path_filter: PathFilter) -> "FolderFilter":
        """Create the filter for this folder."""
        names = () if path_filter is exclude_nothing else named_paths(workspace, path)
        return cls(workspace=workspace, names=names, path_filter=path_filter)

    def is_excluded(self, inside: str, entry: FolderEntry) -> bool:
        """Return whether an entry must be left out, and count it if so; the path is relative to the folder."""
        if self.path_filter is exclude_nothing:
            return False
        paths = [posixpath.normpath(posixpath.join(name, inside)) for name in self.names]
        if entry.kind == "link":  # a rule may be about its target
            with suppress(ToolFailed):
                paths += named_paths(self.workspace, paths[0])
        why = self.path_filter(tuple(dict.fromkeys(paths)))
        if why is None:
            return False
        self._counts[why] += 1
        return True

    def remarks(self, noun: str = "file") -> list[str]:
        """Describe how many files were left out, and why."""
        return [f"{format_count(self._counts[why], noun)} not shown: {_WHY[why]}" for why in _WHY if self._counts[why]]
