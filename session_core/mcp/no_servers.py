"""The stand-in for MCP servers when none are configured, so nothing of the client has to be imported."""

from collections.abc import Mapping
from typing import NoReturn

import trio

from session_core.errors import NotFound
from session_core.mcp.content import McpPrompt, McpResource, PromptMessage, ResourceText, ServerState, ServerStatus
from session_core.tools.base import Tool


class NoServers:
    """The methods of `McpServers` for an empty set of servers."""

    def statuses(self) -> tuple[ServerStatus, ...]:
        """Return nothing."""
        return ()

    def status(self, server: str) -> ServerStatus:
        """Raise `NotFound`."""
        _not_found(server)

    def diagnostics(self, server: str) -> tuple[str, ...]:
        """Raise `NotFound`."""
        _not_found(server)

    def tools(self) -> tuple[Tool, ...]:
        """Return nothing."""
        return ()

    def reconnect(self, server: str) -> None:
        """Raise `NotFound`."""
        _not_found(server)

    async def wait_for_state(self, server: str, *states: ServerState) -> ServerStatus:
        """Raise `NotFound`."""
        await trio.lowlevel.checkpoint()
        _not_found(server)

    async def wait_until_settled(self) -> None:
        """Return at once."""
        await trio.lowlevel.checkpoint()

    async def list_resources(self, server: str | None = None) -> tuple[McpResource, ...]:
        """Return nothing; raises `NotFound` if a server is named."""
        return await _no_listing(server)

    async def read_resource(self, server: str, uri: str) -> ResourceText:
        """Raise `NotFound`."""
        await trio.lowlevel.checkpoint()
        _not_found(server)

    async def list_prompts(self, server: str | None = None) -> tuple[McpPrompt, ...]:
        """Return nothing; raises `NotFound` if a server is named."""
        return await _no_listing(server)

    async def get_prompt(
        self, server: str, name: str, arguments: Mapping[str, str] | None = None
    ) -> tuple[PromptMessage, ...]:
        """Raise `NotFound`."""
        await trio.lowlevel.checkpoint()
        _not_found(server)


async def _no_listing(server: str | None) -> tuple[()]:
    await trio.lowlevel.checkpoint()
    if server is not None:
        _not_found(server)
    return ()


def _not_found(server: str) -> NoReturn:
    raise NotFound(f"there is no MCP server called {server[:100]!r}; servers: none", field="server")
