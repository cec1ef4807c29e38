"""A well-behaved MCP server written with the SDK, as a program: over stdio, or over HTTP with the argument `http`.

Over HTTP it prints its port, and asks for the header `x-key: open sesame` when `locked` is given too.
"""

# ruff: noqa: T201  a program speaks by printing

import base64
import socket
import sys
from typing import Any

import anyio
import mcp_types as types
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n tiny").decode()

server = MCPServer("workshop", instructions="Ask for the count first.")


@server.tool(annotations=types.ToolAnnotations(read_only_hint=True))
async def count(to: int, ctx: Context[Any, Any]) -> str:
    """Count and report each number."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, f"at {number}")
    return f"counted to {to}"


@server.tool()
def picture() -> Any:
    """Return a picture, a picture of no known kind, sound, a link and two resources."""
    return types.CallToolResult(
        content=[
            types.TextContent(text="look"),
            types.ImageContent(data=PNG, mime_type="image/png"),
            types.ImageContent(data=PNG, mime_type="image/tiff"),
            types.AudioContent(data="AAAA", mime_type="audio/wav"),
            types.ResourceLink(uri="memo://first", name="first"),
            types.EmbeddedResource(resource=types.TextResourceContents(uri="memo://inner", text="inside")),
            types.EmbeddedResource(
                resource=types.BlobResourceContents(uri="memo://blob", blob="AAAA", mime_type="application/zip")
            ),
        ]
    )


@server.tool()
def numbers() -> Any:
    """Return nothing but structured content."""
    return types.CallToolResult(content=[], structured_content={"one": 1})


@server.tool()
async def grow(ctx: Context[Any, Any]) -> str:
    """Offer one more tool, and say so."""

    def grown() -> str:
        """Tell that it has grown."""
        return "taller"

    server.add_tool(grown)
    await ctx.session.send_tool_list_changed()
    return "grew"


@server.tool()
async def hang(ctx: Context[Any, Any]) -> str:
    """Never answer; tell on stderr when cancelled."""
    await ctx.report_progress(1, None, "hanging")
    try:
        await anyio.sleep_forever()
    finally:
        print("hang was cancelled", file=sys.stderr, flush=True)
    return "never"


@server.tool()
def fail() -> str:
    """Fail."""
    raise ToolError("out of glue")


@server.tool()
async def beg(ctx: Context[Any, Any]) -> str:
    """Ask the client for all that it does not give, and return the refusals."""
    message = types.SamplingMessage(role="user", content=types.TextContent(text="hi"))
    refusals = []
    for ask in (
        lambda: ctx.session.create_message([message], max_tokens=1),
        ctx.session.list_roots,
        lambda: ctx.session.elicit_form("name?", {"type": "object", "properties": {}}),
    ):
        try:
            await ask()
            refusals.append("granted")
        except Exception as error:  # noqa: BLE001  whatever it is, it goes back as text
            refusals.append(str(error))
    return "; ".join(refusals)


@server.resource("memo://first", description="The first memo")
def first_memo() -> str:
    """Return the memo."""
    return "buy glue"


@server.prompt()
def greet(name: str) -> str:
    """Greet someone."""
    return f"Say hello to {name}."


class Locked:
    """Lets in only those who know the word."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and dict(scope["headers"]).get(b"x-key") != b"open sesame":
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await self._app(scope, receive, send)


def serve_http(*, locked: bool, port: int) -> None:
    """Serve on loopback, at any free port if none is given."""
    import uvicorn

    app: Any = server.streamable_http_app(host="127.0.0.1")
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen()
        print(listener.getsockname()[1], flush=True)
        config = uvicorn.Config(Locked(app) if locked else app, log_level="error")
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    if "http" in sys.argv:
        ports = [int(word) for word in sys.argv if word.isdigit()]
        serve_http(locked="locked" in sys.argv, port=ports[0] if ports else 0)
    else:
        server.run()
