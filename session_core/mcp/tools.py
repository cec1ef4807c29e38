"""Tools of MCP servers as tools of the agent, and two tools for the resources of all servers."""

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import attrs

from session_core.errors import NotFound
from session_core.limits import MAX_PATH_CHARS, MAX_TOOL_OUTPUT_CHARS
from session_core.mcp.connection import Connection
from session_core.mcp.content import McpResource, RemoteTool, ResourceText
from session_core.mcp.names import tool_names
from session_core.mcp.results import cut, tool_output
from session_core.mcp.transport import McpFailed
from session_core.tools.base import ToolContext, ToolFailed, ToolOutput
from session_core.vocabulary.frozen import JsonObject, thaw_json
from session_core.vocabulary.tools import Effect, ToolSpec

if TYPE_CHECKING:
    import mcp_types as types
    from mcp import ClientSession

MAX_PROGRESS_CHARS: Final = 500


def build_tools(connection: Connection) -> tuple["McpTool", ...]:
    """Return the currently listed tools of a server."""
    names = tool_names(connection.config.name, (tool.name for tool in connection.tools))
    return tuple(
        McpTool(
            connection=connection,
            remote=tool,
            spec=ToolSpec(name=names[tool.name], description=tool.description, parameters=tool.parameters),
        )
        for tool in connection.tools
        if tool.name in names
    )


@attrs.frozen(kw_only=True, eq=False)
class McpTool:
    """A tool that a server runs."""

    connection: Connection
    remote: RemoteTool
    spec: ToolSpec

    @property
    def effects(self) -> frozenset[Effect]:
        """The effects of running it, according to its server."""
        return self.remote.effects

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Let the server run it; on cancellation the server is told to stop."""
        given = thaw_json(arguments)
        _refuse_half_characters(given)
        progress = _Progress(context.report)

        async def ask(session: "ClientSession") -> "types.CallToolResult":
            return await _call(session, self.remote.name, given, progress)

        try:
            result = await self.connection.request(ask)
        except McpFailed as error:
            raise ToolFailed(error.message) from error
        finally:
            progress.over = True
        return tool_output(self.connection.config.name, self.remote.name, result)


async def _call(
    session: "ClientSession", name: str, arguments: dict[str, Any], progress: "_Progress"
) -> "types.CallToolResult":
    import mcp_types as types
    from pydantic import TypeAdapter

    # Not `session.call_tool`: it would validate the answer in our event loop, against the server's own schema.
    adapter: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
        types.CallToolResult | types.InputRequiredResult
    )
    request = types.CallToolRequest(params=types.CallToolRequestParams(name=name, arguments=arguments))
    result = await session.send_request(request, adapter, progress_callback=progress)
    if isinstance(result, types.InputRequiredResult):
        raise McpFailed(f"the tool {name!r} asks the user for more, which is not supported here")
    return result


def _refuse_half_characters(arguments: dict[str, Any]) -> None:
    try:
        json.dumps(arguments, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ToolFailed("the arguments contain an unpaired surrogate, which cannot be encoded") from error


class _Progress:
    """Reports a call's progress; ignores what arrives out of order or after the end."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self.over = False
        self._report = report
        self._latest: float | None = None

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        if self.over or (self._latest is not None and progress <= self._latest):
            return
        self._latest = progress
        how_far = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
        self._report(f"{cut(message, MAX_PROGRESS_CHARS)} ({how_far})\n" if message else f"{how_far}\n")


_SERVER: Final = {"type": "string", "description": "The name of the MCP server."}
_READS: Final[frozenset[Effect]] = frozenset({"read", "network"})


class ListResources:
    """List the resources of MCP servers."""

    spec = ToolSpec(
        name="mcp_list_resources",
        description="List the resources of MCP servers: one per line, with server, address and name.",
        parameters=JsonObject({"type": "object", "properties": {"server": _SERVER}, "additionalProperties": False}),
    )
    effects = _READS

    def __init__(self, list_resources: Callable[[str | None], Awaitable[tuple[McpResource, ...]]]) -> None:
        self._list_resources = list_resources

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """List them; on cancellation the servers are told to stop."""
        _refuse_unknown(arguments, ("server",))
        server = _text_argument(arguments, "server") if "server" in arguments else None
        try:
            found = await self._list_resources(server)
        except (McpFailed, NotFound) as error:
            raise ToolFailed(error.message) from error
        lines = [" ".join(f"{each.server} {each.uri} {each.name} {each.description}".split()) for each in found]
        return ToolOutput(text=cut("\n".join(lines), MAX_TOOL_OUTPUT_CHARS) or "(no resources)")


class ReadResource:
    """Read a resource of an MCP server."""

    spec = ToolSpec(
        name="mcp_read_resource",
        description="Read a resource of an MCP server by its address.",
        parameters=JsonObject(
            {
                "type": "object",
                "properties": {
                    "server": _SERVER,
                    "uri": {"type": "string", "description": "The address, as listed by the server."},
                },
                "required": ["server", "uri"],
                "additionalProperties": False,
            }
        ),
    )
    effects = _READS

    def __init__(self, read_resource: Callable[[str, str], Awaitable[ResourceText]]) -> None:
        self._read_resource = read_resource

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Read it; on cancellation the server is told to stop."""
        _refuse_unknown(arguments, ("server", "uri"))
        server, uri = _text_argument(arguments, "server"), _text_argument(arguments, "uri")
        try:
            found = await self._read_resource(server, uri)
        except (McpFailed, NotFound) as error:
            raise ToolFailed(error.message) from error
        return ToolOutput(text=found.text or "(empty)", images=found.images)


def _refuse_unknown(arguments: JsonObject, known: tuple[str, ...]) -> None:
    for name in arguments:
        if name not in known:
            raise ToolFailed(f"there is no argument {name[:100]!r}; there is {', '.join(known)}")


def _text_argument(arguments: JsonObject, name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= MAX_PATH_CHARS or "\0" in value:
        raise ToolFailed(f"the argument {name!r} must be text of 1 to {MAX_PATH_CHARS:,} characters")
    _refuse_half_characters({name: value})
    return value
