"""`session-core mcp`: the servers as people see them, in the real program."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

import session_core as sc
from frontends.commands.run.embedded_service import about_servers
from frontends.commands.settings.servers import as_object, detail_lines, parse_server_name, server_lines
from frontends.shared.json_lines import find_line
from frontends.shared.style import Style
from tests.frontends._program import PATIENCE_S, ROOT, environment, patient_program, program
from tests.frontends.server.daemon._service import runs

SERVERS = ROOT / "tests" / "session_core" / "mcp"
PATIENT = patient_program("frontends.commands.settings.servers:PATIENCE_S")
"""On busy cores a server may take longer to start than people would wait for it."""


def write_text(home: Path, text: str) -> None:
    home.mkdir(exist_ok=True)
    (home / "mcp.json").write_text(text, encoding="utf-8")


def write(home: Path) -> None:
    rude = [str(SERVERS / "_rude_server.py")]
    servers = {
        "good": {"command": sys.executable, "args": rude},
        "bad": {"command": sys.executable, "args": [*rude, "die"]},
        "off": {"command": "no-such-program", "disabled": True},
        "wrong": {"comand": "x"},
    }
    write_text(home, json.dumps({"mcpServers": servers}))


async def test_good_and_bad_servers(home: Path) -> None:
    """Each server has a line with its state and tools, what failed says why, and a mistake in the file is named."""
    write(home)
    ended = await program("mcp", env={"COLUMNS": "200"}, command=PATIENT)
    rows = {line.split()[1]: line.split() for line in ended.out.splitlines()[1:4]}

    assert 1 == ended.code
    assert ("✓", "ready") == (rows["good"][0], rows["good"][2])
    assert int(rows["good"][3]) > 5
    assert ("✗", "failed", "-") == (rows["bad"][0], rows["bad"][2], rows["bad"][3])
    assert ("■", "disabled") == (rows["off"][0], rows["off"][2])
    assert "bad:\n" in ended.out
    assert "good:\n  mcp__good__* tick, huge, " in ended.out
    assert f"✗ {home / 'mcp.json'}, line 1: mcpServers.wrong: " in ended.err
    assert "Traceback" not in ended.out + ended.err


@pytest.mark.slow
async def test_a_file_that_is_no_json(home: Path) -> None:
    """A broken mcp.json is exit code 1, with the file and the line where it breaks."""
    write_text(home, '{"mcpServers": {\n  "a": {"command": "x",}\n}}')
    ended = await program("mcp")

    assert (1, "") == (ended.code, ended.out)
    assert ended.err.startswith(f"✗ {home / 'mcp.json'}, line 2: is not JSON: ")
    assert 1 == ended.err.count("mcp.json")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "text", "number"),
    [
        (("run", "count to 1"), "stopped before the turn began", signal.SIGTERM),
        pytest.param(("mcp", "--json"), "", signal.SIGINT, marks=pytest.mark.slow),
    ],
)
async def test_no_server_outlives_a_start_that_is_ended(
    home: Path, tmp_path: Path, arguments: tuple[str, ...], text: str, number: signal.Signals
) -> None:
    """Whoever ends the program while servers are being started ends the servers too, and no turn has begun."""
    pipe = tmp_path / "started"
    os.mkfifo(pipe)
    hang = f"echo $$ > {shlex.quote(str(pipe))}; exec sleep 1000"  # never answers
    write_text(home, json.dumps({"mcpServers": {"mute": {"command": "sh", "args": ["-c", hang]}}}))

    with trio.fail_after(PATIENCE_S):
        process = await trio.lowlevel.open_process(
            [*PATIENT, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env=environment(),
        )
        server = int(await trio.to_thread.run_sync(pipe.read_text, abandon_on_cancel=True))
        process.send_signal(number)
        assert process.stdout is not None
        said = b"".join([chunk async for chunk in process.stdout])
        code = await process.wait()
        while runs(server):  # noqa: ASYNC110 - it was killed, and on busy cores may not have noticed yet
            await trio.sleep(0.01)

    assert (128 + number, True) == (code, text in said.decode())


@pytest.mark.parametrize(
    ("field", "line"),
    [("mcpServers.a.command", 3), ("mcpServers.b.c", 4), ("mcpServers.a.args[1]", 3), ("mcpServers", 2), ("no", None)],
)
def test_the_line_of_a_field(field: str, line: int | None) -> None:
    """A field is found by its full name, its line being that of the field or of what is around it."""
    text = (
        '{\n"mcpServers": {"a": {"no": 1, "env": {"x\\"y": "{"},\n"command": 1, "args": [{"z": 2}, ""]},\n"b.c": {}}}'
    )

    assert line == find_line(text, field)


@pytest.mark.slow
async def test_no_servers(home: Path) -> None:
    """Without servers people are told where to list them, and nothing is written."""
    ended = await program("mcp")

    assert (0, f"No MCP servers; list yours in {home / 'mcp.json'}\n") == (ended.code, ended.out)
    assert not await trio.Path(home).exists()


def status(**changes: object) -> sc.setup.ServerStatus:
    values: dict[str, object] = {"name": "s\x1b[31m", "origin": "user", "state": "failed", "reason": "it\x1b[2J died"}
    return sc.setup.ServerStatus(**{**values, **changes})  # type: ignore[arg-type]


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
    assert (["left out"], ["boom"], []) == (found["notes"], found["output"], found["tools"])


def test_tools_for_scripts_and_people() -> None:
    """As JSON each tool is there with all details; for people the names stand together, harmless and in short lines."""
    specs = [
        sc.ToolSpec(name=f"mcp__a__do_{n}", description="does", parameters=sc.JsonObject({"type": "object"}))
        for n in range(20)
    ]
    found = json.loads(json.dumps(as_object(status(name="a"), [], specs), default=dict))
    lines = detail_lines(Style(), status(name="a", state="ready"), [], specs, width=60)

    assert {"name": "mcp__a__do_0", "description": "does", "parameters": {"type": "object"}} == found["tools"][0]
    assert ("a:", "  mcp__a__* do_0, do_1, ") == (lines[0], lines[1][:24])
    assert max(map(len, lines)) <= 60
    assert ("a", "a_b", None, None) == tuple(
        map(parse_server_name, ("mcp__a__b", "mcp__a_b__c__d", "mcp_list", "shell"))
    )
