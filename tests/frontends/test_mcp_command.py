"""`session-core mcp`: the servers as people see them, in the real program."""

import json
import sys
from pathlib import Path

import trio

import session_core as sc
from frontends.cli.agent import about_servers
from frontends.console.style import Style
from frontends.settings.servers import as_object, detail_lines, server_lines
from tests.frontends._program import ROOT, program

SERVERS = ROOT / "tests" / "session_core" / "mcp"


def write(home: Path) -> None:
    home.mkdir(exist_ok=True)
    rude = [str(SERVERS / "_rude_server.py")]
    servers = {
        "good": {"command": sys.executable, "args": rude},
        "bad": {"command": sys.executable, "args": [*rude, "die"]},
        "off": {"command": "no-such-program", "disabled": True},
        "wrong": {"comand": "x"},
    }
    (home / "mcp.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")


async def test_good_and_bad_servers(home: Path) -> None:
    """Each server has a line with its state and tools, what failed says why, and a mistake in the file is named."""
    write(home)
    ended = await program("mcp", env={"COLUMNS": "200"})
    rows = {line.split()[1]: line.split() for line in ended.out.splitlines()[1:4]}

    assert 1 == ended.code
    assert ("✓", "ready") == (rows["good"][0], rows["good"][2])
    assert int(rows["good"][3]) > 5
    assert ("✗", "failed", "-") == (rows["bad"][0], rows["bad"][2], rows["bad"][3])
    assert ("■", "disabled") == (rows["off"][0], rows["off"][2])
    assert "bad:\n" in ended.out
    assert "wrong" in ended.err
    assert "Traceback" not in ended.out + ended.err


async def test_no_servers(home: Path) -> None:
    """Without servers people are told where to list them, and nothing is written."""
    ended = await program("mcp")

    assert (0, f"No MCP servers; list yours in {home / 'mcp.json'}\n") == (ended.code, ended.out)
    assert not await trio.Path(home).exists()


def status(**changes: object) -> sc.ServerStatus:
    values: dict[str, object] = {"name": "s\x1b[31m", "origin": "user", "state": "failed", "reason": "it\x1b[2J died"}
    return sc.ServerStatus(**{**values, **changes})  # type: ignore[arg-type]


def test_servers_cannot_steer_the_terminal() -> None:
    """Names, reasons and output of servers are harmless on the screen."""
    style = Style()
    lines = [
        *server_lines(style, [status(), status(state="ready", notes=("left\x1b out",))], width=80),
        *detail_lines(style, status(), ["boom\x1b[31m"]),
    ]

    assert "\x1b" not in "".join(lines)
    assert ["s:", "  it died", "  | boom"] == lines[-3:]


def test_what_a_turn_is_told_of_servers() -> None:
    """Servers that failed or are not ready yet are told before a turn; the others are not."""
    told = about_servers([status(name="a"), status(name="b", state="connecting"), status(name="c", state="ready")])

    assert 2 == len(told)
    assert told[0].startswith("the MCP server 'a' cannot be used: ")
    assert told[1].startswith("the MCP server 'b' is not ready yet")


def test_servers_for_scripts() -> None:
    """As JSON a server has its state, its reason and what it said, unchanged."""
    found = as_object(status(name="a", notes=("left out",)), ["boom"])

    assert ("a", "failed", "it\x1b[2J died") == (found["name"], found["state"], found["reason"])
    assert (["left out"], ["boom"], 0) == (found["notes"], found["output"], found["tools"])
