"""What a host of extensions is told, and whom it tells."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import attrs

from session_core.ids import SessionId
from session_core.sep.life import Pace
from session_core.sep.names import Mode
from session_core.vocabulary.extensions import ExtensionInfo


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
        pace: How long their processes may take for what they have to do.
    """

    folder: str
    trusted: bool = False
    mode: Mode = "headless"
    flags: Mapping[str, Any] = attrs.field(factory=dict)
    session_id: SessionId | None = None
    logs: Path | None = None
    pace: Pace = attrs.field(factory=Pace)


class Watcher(Protocol):
    """Hears of everything that changes about extensions; must not wait."""

    def extension_changed(self, info: ExtensionInfo) -> None:
        """Hear that an extension is there, in another state, or brings something else."""
        ...

    def extension_removed(self, name: str) -> None:
        """Hear that an extension is gone."""
        ...
