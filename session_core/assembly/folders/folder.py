"""One folder among many that sessions work in: its settings, and what runs only for its sessions."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs
import trio

from session_core.assembly.folders.files import FolderFiles
from session_core.assembly.folders.mcp_servers import NO_SERVERS, OpenServers
from session_core.config.values import Config
from session_core.config.watch import ConfigWatcher
from session_core.permissions.rules import PermissionRule
from session_core.providers.base import Provider
from session_core.providers.catalogue import ModelInfo
from session_core.tools.base import Tool

if TYPE_CHECKING:
    from session_core.assembly.folders.extension_hosts import HostedFolder
    from session_core.mcp.client import McpServers


@attrs.define(eq=False, kw_only=True)
class OpenFolder:
    """One folder; see `FolderSettings`. It counts as loaded once it has a watcher."""

    path: str
    files: FolderFiles
    watcher: ConfigWatcher | None = None
    rules: tuple[PermissionRule, ...] = ()
    opened: OpenServers | None = None
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

    @property
    def servers(self) -> "McpServers":
        """Its MCP servers, if a turn has run there."""
        return self.opened.servers if self.opened is not None else NO_SERVERS

    def tools(self) -> tuple[Tool, ...]:
        """Return the tools of its MCP servers, as they are known now."""
        return self.servers.tools()

    @property
    def providers(self) -> Mapping[str, Provider]:
        """The models that its own extensions provide."""
        return self.hosted.host.models.providers if self.hosted is not None else {}

    @property
    def infos(self) -> Mapping[str, ModelInfo]:
        """Known facts about these models."""
        return self.hosted.host.models.infos if self.hosted is not None else {}
