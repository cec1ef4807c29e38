"""What a host of extensions is told, and whom it tells."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Protocol

import attrs

from session_core._version import __version__
from session_core.ids import SessionId
from session_core.sep.host.process.process_session import ExtensionTimeouts
from session_core.sep.protocol.names import CAPABILITIES, PROTOCOL_VERSION, Capability, Mode, UiKind
from session_core.vocabulary.extensions import ExtensionInfo

ParticipationRule = Callable[[str, SessionId], bool]
"""Tells whether the extension of a name has a part in a session; never waits."""


def participates_everywhere(_name: str, _session_id: SessionId) -> bool:
    """Let every extension have a part in every session."""
    return True


@attrs.frozen(kw_only=True)
class HostSetting:
    """What extensions are told about where they are, and where their logs go.

    Attributes:
        folder: The folder the agent works in.
        trusted: Whether a person trusts it.
        mode: What kind of frontend there is.
        flags: Values of flags, by name; all of them go to everybody, as nobody has said yet which ones are theirs.
        session_id: The session it is all about, if there is only one.
        logs: The folder of their logs.
        serves: The folder whose sessions alone they serve; None when they serve all.
        pace: How long their processes may take for what they have to do.
    """

    folder: str
    trusted: bool = False
    mode: Mode = "headless"
    flags: Mapping[str, Any] = attrs.field(factory=dict)
    session_id: SessionId | None = None
    logs: Path | None = None
    serves: str | None = None
    pace: ExtensionTimeouts = attrs.field(factory=ExtensionTimeouts)

    def greeting(self, enabled: Collection[Capability], ui: Collection[UiKind]) -> dict[str, Any]:
        """Return what a process is greeted with: what it may use, and what those who watch can deal with."""
        return {
            "protocol_version": PROTOCOL_VERSION,
            "host": {"name": "session-core", "version": __version__},
            "workspace": {"root": self.folder, "trusted": self.trusted},
            "session": {"id": self.session_id} if self.session_id is not None else {},
            "mode": self.mode,
            "ui_capabilities": sorted(ui),
            "flags": dict(self.flags),
            "capabilities_enabled": {each: each in enabled for each in CAPABILITIES},
        }


class Watcher(Protocol):
    """Hears of everything that changes about extensions; must not wait."""

    def extension_changed(self, info: ExtensionInfo) -> None:
        """Hear that an extension is there, in another state, or brings something else."""
        ...

    def extension_removed(self, name: str) -> None:
        """Hear that an extension is gone."""
        ...
