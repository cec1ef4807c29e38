"""One folder among many that sessions work in: what its files say, and what runs for its sessions alone."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs
import trio

from session_core.assembly.folders.files import FolderFiles
from session_core.assembly.folders.mcp_servers import NO_SERVERS, OpenServers
from session_core.config.rules import PermissionRule
from session_core.config.values import Config
from session_core.config.watch import ConfigWatcher
from session_core.providers.base import Provider
from session_core.providers.catalogue import ModelInfo
from session_core.tools.base import Tool

if TYPE_CHECKING:
    from session_core.assembly.folders.extension_hosts import HostedFolder
    from session_core.mcp.client import McpServers


@attrs.define(eq=False, kw_only=True)
class OpenFolder:
    """One folder; see `FolderSettings`. It is known once it has a watcher."""

    path: str
    files: FolderFiles
    watcher: ConfigWatcher | None = None
    rules: tuple[PermissionRule, ...] = ()
    opened: OpenServers | None = None
    hosted: "HostedFolder | None" = None
    """Its own extensions, if it has any that may run."""
    holds: int = 0
    """Those who need it to stay."""
    working: int = 0
    """Those of them that need its servers."""
    names: dict[str, None] = attrs.field(factory=dict)
    """The working directories that have led here, those used last come last."""
    reported_remarks: tuple[str, ...] = ()
    """The remarks that were told last."""
    lock: trio.Lock = attrs.field(factory=trio.Lock)
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)

    @property
    def config(self) -> Config:
        """The configuration in force."""
        assert self.watcher is not None
        return self.watcher.current

    @property
    def servers(self) -> "McpServers":
        """Its MCP servers, if a turn has been there."""
        return self.opened.servers if self.opened is not None else NO_SERVERS

    def tools(self) -> tuple[Tool, ...]:
        """Return the tools of its MCP servers, as they are known now."""
        return self.servers.tools()

    @property
    def providers(self) -> Mapping[str, Provider]:
        """The models that its own extensions bring."""
        return self.hosted.host.models.providers if self.hosted is not None else {}

    @property
    def infos(self) -> Mapping[str, ModelInfo]:
        """What is known of these models."""
        return self.hosted.host.models.infos if self.hosted is not None else {}
