"""The configuration of an extension host, and the interface it reports to."""

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
"""Returns whether an extension takes part in a session; never blocks."""


def participates_everywhere(_name: str, _session_id: SessionId) -> bool:
    """Let every extension take part in every session."""
    return True


@attrs.frozen(kw_only=True)
class HostConfig:
    """What extensions are told about their surroundings, and where their logs go.

    Attributes:
        folder: The folder the agent works in.
        trusted: Whether a person trusts it.
        mode: The kind of frontend.
        flags: Values of flags, by name. Every extension gets all of them, because none has declared its own yet.
        session_id: The session, if there is only one.
        logs: The folder of their logs.
        serves: The only folder whose sessions they serve; None if they serve all.
        pace: The timeouts of their processes.
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
        """Return the params of a greeting: the enabled capabilities, and the kinds of UI that a client can handle."""
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
    """Gets every change of extensions; must not block."""

    def extension_changed(self, info: ExtensionInfo) -> None:
        """Handle a new extension, or a change of its state or registrations."""
        ...

    def extension_removed(self, name: str) -> None:
        """Handle the removal of an extension."""
        ...
