"""Without servers there is nothing of the client: no module, no tool, and the same answers."""

import inspect
import sys
from pathlib import Path

import pytest
import trio

from session_core.errors import NotFound
from session_core.mcp.client import McpServers
from session_core.mcp.no_servers import NoServers

CODE = """
import sys, trio
from pathlib import Path
from session_core.assembly.setup import AgentEnvironment, open_setup

async def main():
    place = AgentEnvironment(home=Path(sys.argv[1]), folder=sys.argv[1], environ={}, is_persistent=False)
    async with open_setup(place, flags={"model": "demo"}) as setup:
        await setup.mcp.wait_until_settled()
    print(sorted(each for each in sys.modules if each in ("mcp", "session_core.mcp.client")))

trio.run(main)
"""


async def test_the_client_is_not_loaded(tmp_path: Path) -> None:
    """An agent without MCP servers never loads their client."""
    done = await trio.run_process([sys.executable, "-c", CODE, str(tmp_path)], capture_stdout=True)

    assert b"[]\n" == done.stdout


async def test_there_is_nothing() -> None:
    """No server, no tool; a server by its name is not found."""
    servers = NoServers()
    await servers.wait_until_settled()

    assert ((), (), (), ()) == (
        servers.statuses(),
        servers.tools(),
        await servers.list_resources(),
        await servers.list_prompts(),
    )
    for ask in (servers.status, servers.diagnostics, servers.reconnect):
        with pytest.raises(NotFound, match="no MCP server called 'x'"):
            ask("x")
    with pytest.raises(NotFound):
        await servers.list_resources("x")
    with pytest.raises(NotFound):
        await servers.wait_for_state("x", "ready")
    with pytest.raises(NotFound):
        await servers.read_resource("x", "y")
    with pytest.raises(NotFound):
        await servers.get_prompt("x", "y")


def test_it_stands_in_for_the_real_ones() -> None:
    """Every public method of the real servers is there, with the same parameters."""

    def methods(of: type) -> dict[str, inspect.Signature]:
        found = inspect.getmembers(of, inspect.isfunction)
        return {name: inspect.signature(each) for name, each in found if not name.startswith("_")}

    assert methods(McpServers) == methods(NoServers)
