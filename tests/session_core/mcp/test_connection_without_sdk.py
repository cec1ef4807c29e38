"""What happens to servers when the optional package that speaks MCP is not installed."""

import pytest
import trio

from session_core.mcp import connection
from session_core.mcp.client import open_mcp_servers
from session_core.mcp.config import StdioServer


async def test_a_missing_package_fails_the_server_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package a server has failed, says what to install, and whoever opened it goes on."""

    async def missing() -> None:
        await trio.lowlevel.checkpoint()
        raise ModuleNotFoundError("No module named 'mcp'")

    monkeypatch.setattr(connection, "load_sdk", missing)
    server = StdioServer(name="time", origin="user", command="false", args=(), cwd="/")
    async with open_mcp_servers((server,)) as servers:
        with trio.fail_after(300):
            await servers.wait_until_settled()
        assert ("failed", connection.WITHOUT_SDK) == (servers.status("time").state, servers.status("time").reason)
        assert () == servers.tools()
