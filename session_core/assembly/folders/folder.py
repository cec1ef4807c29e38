"""One folder that sessions work in: its settings, and what runs only for its sessions."""

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs
import trio

from session_core.agent.folder_settings import SessionDefaults
from session_core.assembly.folders.files import FolderFiles
from session_core.assembly.folders.mcp_servers import OpenServers
from session_core.config.settings import BY_KEY
from session_core.config.tool_names import is_disabled
from session_core.config.values import Config
from session_core.config.watch import ConfigWatcher
from session_core.permissions.rules import PermissionRule
from session_core.providers.base import Provider
from session_core.providers.catalogue import ModelInfo
from session_core.tools.base import Tool

if TYPE_CHECKING:
    from session_core.assembly.folders.extension_hosts import HostedFolder
    from session_core.sep.host.catalogue.discovery import DiscoveredExtension

T = TypeVar("T")
_LIMITS: Final = {
    "limits.steps": "steps",
    "limits.tokens": "tokens",
    "limits.cost": "cost_micros",
    "limits.seconds": "time_ms",
}
"""Settings and their fields of `TurnLimits`."""
_SANDBOX: Final = {key: key.removeprefix("sandbox.") for key in BY_KEY if key.startswith("sandbox.")}


def adopt_settings(usual: SessionDefaults, config: Config, keys: Container[str]) -> SessionDefaults:
    """Return the defaults with the values of these settings; a project only makes them stricter.

    All other values stay: they may come from the code that opened the service.
    """

    def choose(key: str, now: T, new: T) -> T:
        is_stricter = BY_KEY[key].is_stricter if config.source(key).layer == "project" else None
        return new if key in keys and (is_stricter is None or is_stricter(now, new)) else now

    def choose_fields(fields: Mapping[str, str], now: object, new: object) -> dict[str, Any]:
        return {field: choose(key, getattr(now, field), getattr(new, field)) for key, field in fields.items()}

    return SessionDefaults(
        permission_mode=choose("permission_mode", usual.permission_mode, config.permission_mode),
        thinking=choose("thinking", usual.thinking, config.thinking),
        sandbox=attrs.evolve(usual.sandbox, **choose_fields(_SANDBOX, usual.sandbox, config.sandbox)),
        limits=attrs.evolve(usual.limits, **choose_fields(_LIMITS, usual.limits, config.limits)),
    )


@attrs.define(eq=False, kw_only=True)
class OpenFolder:
    """One folder; see `FolderSettings`. It counts as loaded once it has a watcher."""

    path: str
    files: FolderFiles
    watcher: ConfigWatcher | None = None
    rules: tuple[PermissionRule, ...] = ()
    servers: OpenServers = attrs.field(factory=OpenServers)
    """Its MCP servers, once work has begun there."""
    hosted: "HostedFolder | None" = None
    """Its own extensions, if it has any that may run."""
    holds: int = 0
    """How many holders need it to stay open."""
    working: int = 0
    """How many of them need its servers."""
    names: dict[str, None] = attrs.field(factory=dict)
    """The working directories that resolve to this folder, most recently used last."""
    reported_remarks: tuple[str, ...] = ()
    """The remarks that were reported last."""
    lock: trio.Lock = attrs.field(factory=trio.Lock)
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)

    @property
    def config(self) -> Config:
        """The configuration in force."""
        assert self.watcher is not None
        return self.watcher.current

    def tools(self) -> tuple[Tool, ...]:
        """Return the tools of its MCP servers, as they are known now."""
        return self.servers.tools()

    def has_disabled(self, tool: str) -> bool:
        """Return whether a tool is disabled for its sessions."""
        return is_disabled(self.config, tool)

    def defaults_of_sessions(self, usual: SessionDefaults) -> SessionDefaults:
        """Return the defaults of new sessions in this folder, given those of the service."""
        stated = {key for key, source in self.config.sources.items() if source.layer == "project"}
        return adopt_settings(usual, self.config, stated)

    @property
    def may_run(self) -> tuple["DiscoveredExtension", ...]:
        """Its own extensions that may run."""
        return self.files.may_run if self.config.extensions else ()

    @property
    def providers(self) -> Mapping[str, Provider]:
        """The models that its own extensions provide."""
        return self.hosted.host.models.providers if self.hosted is not None else {}

    @property
    def infos(self) -> Mapping[str, ModelInfo]:
        """Known facts about these models."""
        return self.hosted.host.models.infos if self.hosted is not None else {}
