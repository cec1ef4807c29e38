"""Files that a tool comes across and leaves out, because a rule about their paths says so."""

import posixpath
from collections import Counter
from contextlib import suppress

import attrs

from session_core.sandbox.file_values import Entry
from session_core.sandbox.workspace import Workspace
from session_core.tools.base import ToolFailed, Withheld, Withholding, nothing_withheld
from session_core.tools.text_files import in_words, named_paths

_WHY: dict[Withheld, str] = {
    "deny": "denied by a rule",
    "ask": "a rule wants them to be asked for; name the one you need",
}


@attrs.frozen(kw_only=True)
class LeftOut:
    """Judges what lies beneath a folder, and counts what must not be shown.

    Attributes:
        workspace: Where the folder is.
        names: The folder as it is written, and as it is behind links.
        withheld: What the rules say.
    """

    workspace: Workspace
    names: tuple[str, ...]
    withheld: Withholding
    _counts: Counter[Withheld] = attrs.field(init=False, factory=Counter)

    @classmethod
    def beneath(cls, workspace: Workspace, path: str, withheld: Withholding) -> "LeftOut":
        """Judge what lies beneath this folder."""
        names = () if withheld is nothing_withheld else named_paths(workspace, path)
        return cls(workspace=workspace, names=names, withheld=withheld)

    def takes(self, inside: str, entry: Entry) -> bool:
        """Tell whether this must be left out, and count it; the path is relative to the folder."""
        if self.withheld is nothing_withheld:
            return False
        paths = [posixpath.normpath(posixpath.join(name, inside)) for name in self.names]
        if entry.kind == "link":  # its target is what somebody might have made a rule about
            with suppress(ToolFailed):
                paths += named_paths(self.workspace, paths[0])
        why = self.withheld(tuple(dict.fromkeys(paths)))
        if why is None:
            return False
        self._counts[why] += 1
        return True

    def remarks(self, noun: str = "file") -> list[str]:
        """Tell how many were left out, and why."""
        return [f"{in_words(self._counts[why], noun)} not shown: {_WHY[why]}" for why in _WHY if self._counts[why]]
