"""The MCP servers of folders: opened when work begins there, shared by folders that name exactly the same ones."""

import logging
from typing import TYPE_CHECKING

import attrs
import trio

from session_core.foreign_faults import FOREIGN_FAULTS, must_propagate
from session_core.limits import FOLDER_SERVERS_WAIT_MS
from session_core.mcp.config import ServerConfig
from session_core.tools.base import Tool

if TYPE_CHECKING:
    from session_core.mcp.client import McpServers
    from session_core.mcp.content import ServerStatus

log = logging.getLogger(__name__)


@attrs.define(eq=False, kw_only=True)
class OpenServers:
    """A set of servers, and how many folders use it."""

    configs: tuple[ServerConfig, ...] = ()
    servers: "McpServers | None" = None
    """None until they are opened: without servers nothing of their client is imported."""
    users: int = 0
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    waited_for: bool = False
    closed: bool = False

    def tools(self) -> tuple[Tool, ...]:
        """Return their tools, as they are known now."""
        return self.servers.tools() if self.servers is not None else ()

    def statuses(self) -> tuple["ServerStatus", ...]:
        """Return the status of every server."""
        return self.servers.statuses() if self.servers is not None else ()

    async def wait_until_known(self) -> None:
        """Wait once, and not for long, until each server has reported its tools or failed.

        Cancellation: the next caller waits instead.
        """
        if self.servers is not None and not self.waited_for:
            with trio.move_on_after(FOLDER_SERVERS_WAIT_MS / 1000):
                await self.servers.wait_until_settled()
            self.waited_for = True


class ServerPool:
    """All open servers, in a nursery that outlives them."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._open: list[OpenServers] = []
        self._opening = trio.Lock()

    async def take(self, configs: tuple[ServerConfig, ...]) -> OpenServers:
        """Return these servers, opened if needed; call `give_back` when they are no longer needed.

        Cancellation: they are not taken.
        """
        async with self._opening:
            known = next((each for each in self._open if each.configs == configs), None)
            if known is None:
                known = OpenServers(configs=configs)
                if configs:
                    await self._nursery.start(self._hold_open, known)
                    self._open.append(known)
            known.users += 1
            return known

    def give_back(self, taken: OpenServers) -> None:
        """Release the servers; the last release closes them in the background."""
        taken.users -= 1
        if not taken.users:
            taken.scope.cancel(reason="no folder needs these MCP servers any more")
            if taken in self._open:
                self._open.remove(taken)

    async def _hold_open(
        self, opened: OpenServers, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        from session_core.mcp.client import open_mcp_servers

        try:
            with opened.scope:
                async with open_mcp_servers(opened.configs) as opened.servers:
                    task_status.started()
                    await trio.sleep_forever()
        except FOREIGN_FAULTS as bug:
            if must_propagate(bug):
                raise
            log.exception("MCP servers were lost; they are opened again when they are needed")
        finally:
            opened.closed = True
            if opened in self._open:
                self._open.remove(opened)
