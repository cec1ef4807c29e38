"""An extension in a process of its own: nothing that it prints or is sent breaks it, and it ends well."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

CHILD = Path(__file__).with_name("_child.py")
PATIENCE = 300
HELLO = {"protocol_version": 1, "host": {"name": "test", "version": "1"}, "mode": "headless"}
CLEANED = ["cleaned up plain", "cleaned up async"]


class Child:
    """A process, spoken to in bare lines."""

    def __init__(self, process: trio.Process, notes: Path) -> None:
        self.process = process
        self._notes = notes
        self._ids = 0
        self._unread = b""

    @property
    def notes(self) -> list[str]:
        return self._notes.read_text().splitlines() if self._notes.exists() else []

    async def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send_all(data)

    async def send(self, method: str, params: Any = None, *, number: int | None = None) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        await self.write(json.dumps(message if number is None else {**message, "id": number}).encode() + b"\n")

    async def receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        while b"\n" not in self._unread:
            data = await self.process.stdout.receive_some()
            assert data, "it has closed its stdout"
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        found = json.loads(line)
        assert isinstance(found, dict)
        return found

    async def ask(self, method: str, params: Any = None) -> dict[str, Any]:
        """Ask, and return the reply, which must be the next message."""
        self._ids += 1
        await self.send(method, params, number=self._ids)
        reply = await self.receive()
        assert reply["id"] == self._ids
        return reply

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return await self.ask("tool/execute", {"call_id": "c", "tool": tool, "arguments": arguments})


@asynccontextmanager
async def child(tmp_path: Path) -> AsyncGenerator[Child]:
    """Have one running; what it says on stderr is in a file."""
    notes = tmp_path / "notes"
    with (tmp_path / "stderr").open("wb") as stderr, trio.fail_after(PATIENCE):
        process = await trio.lowlevel.open_process(
            [sys.executable, str(CHILD), str(notes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        async with process.stdin, process.stdout:
            try:
                yield Child(process, notes)
            finally:
                if process.returncode is None:
                    process.kill()
                with trio.CancelScope(shield=True):
                    await process.wait()


async def test_a_whole_life(tmp_path: Path) -> None:
    """Prints go to stderr, faults and odd lines are survived, cancelled calls answer -32800, and it ends with 0."""
    async with child(tmp_path) as it:
        assert (await it.ask("tool/execute", {"tool": "say"}))["error"]["code"] == -32600
        assert (await it.ask("ping"))["result"] == {}
        assert (await it.ask("initialize", HELLO))["result"]["extension"] == {"name": "child", "version": "0.1.0"}
        assert (await it.ask("initialize", HELLO))["error"]["code"] == -32600
        assert (await it.ask("no/such"))["error"]["code"] == -32601

        assert (await it.call("say", text="stray words"))["result"]["content"] == "stray words ''"

        for number in range(2):
            await it.send("event", {"event": "turn_end", "seq": number, "payload": {}, "context": {}})
        odd = (b"null", b"5", b"[]", b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', b"words", b"\xff\xfe{", b"{}")
        await it.write(b"\n".join((*odd, b"", b"\r", b'{"id": 99, "result": {}}', b'{"id": 1, "error": 5}', b"")))
        assert (await it.ask("ping"))["result"] == {}
        await it.write(b'{"id": 70, "method": 5}\n')
        assert await it.receive() == {
            "jsonrpc": "2.0",
            "id": 70,
            "error": {"code": -32600, "message": "the method must be text"},
        }

        for tool, share in (("sleep", 0.1), ("block", 0.2)):
            params = {"call_id": "c", "tool": tool, "arguments": {}}
            await it.send("tool/execute", params, number=80)
            assert (await it.receive())["params"] == {"call_id": "c", "progress": share}
            await it.send("$/cancel", {"id": 80})
            reply = await it.receive()
            assert (reply["id"], reply["error"]["code"]) == (80, -32800)
        assert (await it.call("until_cancelled"))["result"]["content"] == "it has"

        assert (await it.ask("shutdown"))["result"] == {}
        assert await it.process.wait() == 0
        assert it.notes == ["observed 0", "observed 1", *CLEANED]
    said = (tmp_path / "stderr").read_text()
    assert said.count("stray words\n") == 5
    assert said.count("ValueError: an observer that fails") == 2
    assert "OSError: a broken cleanup" in said


async def test_a_line_without_measure(tmp_path: Path) -> None:
    """A line of a hundred megabytes is passed over, and its sender is told."""
    async with child(tmp_path) as it:
        await it.write(b'{"jsonrpc": "2.0", "id": 5, "method": "initialize", "params": {"x": "')
        for _ in range(100):
            await it.write(b"x" * 1_000_000)
        await it.write(b'"}}\n')
        refused = await it.receive()
        assert (refused["id"], refused["error"]["code"]) == (5, -32600)
        assert "too large" in refused["error"]["message"]
        assert (await it.ask("initialize", HELLO))["result"]["protocol_version"] == 1


async def test_the_host_goes_away(tmp_path: Path) -> None:
    """When its stdin ends it cleans up and ends well, also while a call runs."""
    async with child(tmp_path) as it:
        await it.ask("initialize", HELLO)
        await it.send("tool/execute", {"call_id": "c", "tool": "sleep", "arguments": {}}, number=80)
        await it.receive()
        assert it.process.stdin is not None
        await it.process.stdin.aclose()
        assert await it.process.wait() == 0
        assert it.notes == CLEANED


async def test_interrupted(tmp_path: Path) -> None:
    """Ctrl-C ends it as it ends other programs, and it cleans up before."""
    async with child(tmp_path) as it:
        await it.ask("initialize", HELLO)
        it.process.send_signal(signal.SIGINT)
        assert await it.process.wait() == 130
        assert it.notes == CLEANED


def test_on_a_terminal(tmp_path: Path) -> None:
    """Who starts it by hand is told what it is."""
    ours, theirs = os.openpty()
    try:
        done = subprocess.run(  # noqa: TID251 - there is no loop here
            [sys.executable, str(CHILD), str(tmp_path)],
            stdin=theirs,
            capture_output=True,
            check=False,
            timeout=PATIENCE,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"child is an extension: a host starts it" in done.stderr


HEAVY = (
    "agent",
    "service",
    "storage",
    "providers",
    "session",
    "tools",
    "mcp",
    "confine",
    "config",
    "upkeep",
    "testing",
)


def test_it_is_light() -> None:
    """Neither importing the SDK nor serving loads what belongs to hosts and services."""
    program = (
        "import sys; import session_core.sep.sdk; from session_core.sep.sdk import stdio, runtime; print(*sys.modules)"
    )
    done = subprocess.run(  # noqa: TID251 - there is no loop here
        [sys.executable, "-c", program], capture_output=True, check=True, text=True, timeout=PATIENCE
    )
    loaded = set(done.stdout.split())
    outside = {"cattrs", "sqlite3", "frontends", "pytest", "httpx", "httpx2", "jsonschema_rs", "asyncio", "hypothesis"}
    assert loaded & (outside | {f"session_core.{name}" for name in HEAVY}) == set()
    assert {each for each in loaded if each.startswith("session_core.sep.")} <= {
        "session_core.sep.protocol",
        "session_core.sep.protocol.service_api",
        "session_core.sep.protocol.names",
        *(each for each in loaded if each.startswith("session_core.sep.sdk") and "testing" not in each),
    }
