"""All MCP servers together: `open_mcp_servers`, and what they offer."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

import trio

from session_core.error_capture import ErrorCapture
from session_core.errors import InvalidInput, NotFound
from session_core.limits import MAX_TOOL_OUTPUT_CHARS
from session_core.mcp.config import ServerConfig
from session_core.mcp.connection import Connection, ConnectionTiming
from session_core.mcp.content import (
    MAX_DESCRIPTION_CHARS,
    McpPrompt,
    McpResource,
    PromptArgument,
    PromptMessage,
    RemoteTool,
    ResourceText,
    ServerState,
    ServerStatus,
)
from session_core.mcp.results import cut, render_content, render_resource
from session_core.mcp.sdk_calls import fetch_all_pages
from session_core.mcp.tools import ListResources, McpTool, ReadResource, build_tools
from session_core.mcp.transport import McpFailed
from session_core.tools.base import Tool

if TYPE_CHECKING:
    import mcp_types as types
    from mcp import ClientSession

T = TypeVar("T")


@asynccontextmanager
async def open_mcp_servers(
    configs: Iterable[ServerConfig],
    *,
    pace: ConnectionTiming | None = None,
    on_change: Callable[[ServerStatus], None] | None = None,
) -> AsyncGenerator["McpServers"]:
    """Connect to all servers in the background; does not wait for any of them.

    Args:
        configs: The servers, each with its own name; disabled ones are listed but not connected.
        pace: Timeouts and retries.
        on_change: Called on every change of a server, including its tools; must neither block nor raise.

    Raises:
        InvalidInput: Two servers have the same name.

    Cancellation: all connections are closed and all processes have ended before this returns.
    """
    connections: dict[str, Connection] = {}
    for config in configs:
        if config.name in connections:
            raise InvalidInput(f"there are two MCP servers called {config.name!r}", field="configs")
        connections[config.name] = Connection(config, pace or ConnectionTiming(), on_change or _ignore)
    own = ErrorCapture()
    with own.reraise():
        async with trio.open_nursery() as nursery:
            for connection in connections.values():
                nursery.start_soon(connection.run)  # noqa: ASYNC113  the caller is not to wait for them
            try:
                with own.capture():
                    yield McpServers(connections)
            finally:
                nursery.cancel_scope.cancel(reason="the MCP servers are being closed")


def _ignore(_status: ServerStatus) -> None:
    pass


class McpServers:
    """The servers and what they offer; all methods can be called from any task."""

    def __init__(self, connections: Mapping[str, Connection]) -> None:
        self._connections = connections
        self._made: dict[str, tuple[tuple[RemoteTool, ...], tuple[McpTool, ...]]] = {}

    def statuses(self) -> tuple[ServerStatus, ...]:
        """Return the status of every server."""
        return tuple(connection.status for connection in self._connections.values())

    def status(self, server: str) -> ServerStatus:
        """Return the status of one server; raises `NotFound`."""
        return self._connection(server).status

    def diagnostics(self, server: str) -> tuple[str, ...]:
        """Return the last lines that a server wrote besides its messages; raises `NotFound`."""
        return self._connection(server).diagnostics.lines()

    def tools(self) -> tuple[Tool, ...]:
        """Return the currently known tools of all servers, and the resource tools if there are any resources."""
        found: list[Tool] = [tool for connection in self._connections.values() for tool in self._tools_of(connection)]
        if any(connection.offers_resources for connection in self._connections.values()):
            found += [ListResources(self.list_resources), ReadResource(self.read_resource)]
        return tuple(found)

    def reconnect(self, server: str) -> None:
        """Retry a failed server at once, even one that was given up; raises `NotFound`."""
        self._connection(server).connect_now()

    async def wait_for_state(self, server: str, *states: ServerState) -> ServerStatus:
        """Wait until a server is in one of these states; raises `NotFound`."""
        return await self._connection(server).wait_for_status(lambda status: status.state in states)

    async def wait_until_settled(self) -> None:
        """Wait until no server is being connected, for callers that need all tools from the start."""
        for connection in self._connections.values():
            await connection.wait_for_status(lambda status: status.state != "connecting")

    async def list_resources(self, server: str | None = None) -> tuple[McpResource, ...]:
        """Return the resources of one server, or of all that are ready.

        Raises:
            NotFound: There is no such server.
            McpFailed: The named server could not be asked; without a name, such servers are skipped.
        """
        return await self._gather(server, _list_server_resources, lambda offers: offers.resources is not None)

    async def read_resource(self, server: str, uri: str) -> ResourceText:
        """Read a resource; raises `NotFound` or `McpFailed`."""

        async def ask(session: "ClientSession") -> "types.ReadResourceResult":
            return await session.read_resource(uri)

        return render_resource((await self._connection(server).request(ask)).contents)

    async def list_prompts(self, server: str | None = None) -> tuple[McpPrompt, ...]:
        """Return the prompts of one server, or of all that are ready; raises as `list_resources` does."""
        return await self._gather(server, _list_server_prompts, lambda offers: offers.prompts is not None)

    async def get_prompt(
        self, server: str, name: str, arguments: Mapping[str, str] | None = None
    ) -> tuple[PromptMessage, ...]:
        """Return the messages of a prompt; raises `NotFound` or `McpFailed`."""

        async def ask(session: "ClientSession") -> "types.GetPromptResult":
            return await session.get_prompt(name, dict(arguments or {}))

        result = await self._connection(server).request(ask)
        found, room = [], 2 * MAX_TOOL_OUTPUT_CHARS
        for message in result.messages:
            rendered = render_content([message.content])
            room -= len(rendered.text) + 1
            if room < 0:
                raise McpFailed(f"the prompt {name[:100]!r} of the MCP server {server!r} is too long")
            found.append(PromptMessage(role=message.role, text=rendered.text, images=rendered.images))
        return tuple(found)

    def _connection(self, server: str) -> Connection:
        connection = self._connections.get(server)
        if connection is None:
            known = ", ".join(self._connections) or "none"
            raise NotFound(f"there is no MCP server called {server[:100]!r}; servers: {known}", field="server")
        return connection

    def _tools_of(self, connection: Connection) -> tuple[McpTool, ...]:
        name = connection.config.name
        made_for, made = self._made.get(name, ((), ()))
        if made_for is not connection.tools:
            made = build_tools(connection)
            self._made[name] = (connection.tools, made)
        return made

    async def _gather(
        self,
        server: str | None,
        ask: Callable[[str, "ClientSession"], Awaitable[tuple[T, ...]]],
        offered: Callable[["types.ServerCapabilities"], bool],
    ) -> tuple[T, ...]:
        if server is not None:
            return await _request_if_offered(self._connection(server), ask, offered)
        ready = [each for each in self._connections.values() if each.status.state == "ready"]
        answers: dict[str, tuple[T, ...]] = {}

        async def collect(connection: Connection) -> None:
            try:
                answers[connection.config.name] = await _request_if_offered(connection, ask, offered)
            except McpFailed as error:
                connection.diagnostics.note(error.message)

        async with trio.open_nursery() as nursery:
            for connection in ready:
                nursery.start_soon(collect, connection)
        return tuple(item for connection in ready for item in answers.get(connection.config.name, ()))


async def _request_if_offered(
    connection: Connection,
    ask: Callable[[str, "ClientSession"], Awaitable[tuple[T, ...]]],
    offered: Callable[["types.ServerCapabilities"], bool],
) -> tuple[T, ...]:
    async def ask_if_offered(session: "ClientSession") -> tuple[T, ...]:
        capabilities = session.server_capabilities
        if capabilities is None or not offered(capabilities):
            return ()
        return await ask(connection.config.name, session)

    return await connection.request(ask_if_offered)


async def _list_server_resources(server: str, session: "ClientSession") -> tuple[McpResource, ...]:
    listed = await fetch_all_pages(
        lambda page_params: session.list_resources(params=page_params), lambda page: page.resources
    )
    return tuple(
        McpResource(
            server=server,
            uri=each.uri,
            name=cut(each.name, MAX_DESCRIPTION_CHARS),
            description=cut(each.description or "", MAX_DESCRIPTION_CHARS),
            media_type=each.mime_type or "",
        )
        for each in listed
    )


async def _list_server_prompts(server: str, session: "ClientSession") -> tuple[McpPrompt, ...]:
    listed = await fetch_all_pages(
        lambda page_params: session.list_prompts(params=page_params), lambda page: page.prompts
    )
    return tuple(
        McpPrompt(
            server=server,
            name=each.name,
            description=cut(each.description or "", MAX_DESCRIPTION_CHARS),
            arguments=tuple(
                PromptArgument(
                    name=argument.name,
                    description=cut(argument.description or "", MAX_DESCRIPTION_CHARS),
                    required=bool(argument.required),
                )
                for argument in each.arguments or ()
            ),
        )
        for each in listed
    )
