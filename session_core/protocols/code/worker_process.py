"""The process that runs cells, seen from the service: started, addressed in JSON lines, interrupted, and ended.

1. No task of ours runs beside it: it is read and written only while a caller waits for it, so it can survive between
   two turns.
2. Its output is not trusted: lines are bounded and read by the strict parser. The end of its pipe, or a line that is
   not a frame, makes it unusable (`WorkerGone`).
3. A frame that could not be sent completely makes it unusable too.
"""

import importlib.resources
import json
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import trio

from session_core import limits
from session_core.errors import ProtocolError
from session_core.processes.child import Child, Launch, ProcessNotStarted, start_child
from session_core.vocabulary.tools import ToolSpec
from session_core.wire.strict_json import parse

PROGRAMS: Final = ("worker_state", "worker_wire", "worker")
"""The modules that run in the child, in the order in which they are joined."""
BOOT: Final = """\
import json, os, sys, types
text = b""
while not text.endswith(b"\\n"):
    piece = os.read(0, 1000000)
    if not piece:
        os._exit(0)
    text += piece
start = json.loads(text)
for name, source in start["programs"]:
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(source, "<" + name + ">", "exec"), module.__dict__)
module.main(start["bounds"])
"""
_HERE: Final = "session_core.protocols.code"
_MOST_LINE: Final = 2 * limits.MAX_CELL_VARIABLE_BYTES
"""The size of a variable or an image in base64, with its frame."""
_LONG_LINE: Final = 64 * 1024
"""Longer lines are parsed in a thread: other sessions should not wait for them."""
_CHUNK: Final = 65_536
_START_SECONDS: Final = 20
_MAX_LEFTOVER_CHUNKS: Final = 16
"""How many chunks are read after the end of a cell: more than a pipe holds."""


class WorkerGone(Exception):
    """The process sends nothing more; the message says why, as the end of a sentence."""


class Worker:
    """A running process, started by `start_worker`.

    Attributes:
        tools: The tools that it knows as functions.
        newest_size: How many bytes the newest frame from it had.
    """

    def __init__(self, child: Child) -> None:
        self._child = child
        self._sending = trio.Lock()
        self._buffer = bytearray()
        self._searched_bytes = 0
        self._torn = False
        self._ended = False
        self.tools: tuple[ToolSpec, ...] | None = None
        self.newest_size = 0

    @property
    def pid(self) -> int:
        """The id of its first process, which is bubblewrap's if there is a sandbox."""
        return self._child.pid

    @property
    def usable(self) -> bool:
        """Whether it runs, as far as is known, and no frame was left incomplete."""
        return not (self._torn or self._ended) and self._child.exit_code is None

    async def send(self, frame: Mapping[str, Any]) -> None:
        """Send a frame.

        Raises:
            WorkerGone: It does not listen any more.

        Cancellation: half a frame may have been sent, so the process cannot be used any more.
        """
        data = json.dumps(frame).encode() + b"\n"
        async with self._sending:
            self._torn = True
            try:
                await self._child.stdin.send_all(data)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise WorkerGone(await self.describe_end()) from error
            self._torn = False

    async def receive(self) -> dict[str, Any]:
        """Return the next frame.

        Raises:
            WorkerGone: Nothing more comes, or it is not a frame.

        Cancellation: nothing is lost.
        """
        while (end := self._buffer.find(b"\n", self._searched_bytes)) < 0:
            self._searched_bytes = len(self._buffer)
            if self._searched_bytes > _MOST_LINE:
                raise WorkerGone("it exceeded the size limit")
            try:
                piece = await self._child.stdout.receive_some(_CHUNK)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise WorkerGone("it was ended") from error
            if not piece:
                raise WorkerGone(await self.describe_end())
            self._buffer += piece
        line = bytes(self._buffer[:end])
        try:
            frame = parse(line) if len(line) <= _LONG_LINE else await _parse_apart(line)
        except ProtocolError as error:
            raise WorkerGone("it sent a malformed message") from error
        del self._buffer[: end + 1]
        self._searched_bytes = 0
        self.newest_size = end
        if not isinstance(frame, dict):
            raise WorkerGone("it sent a malformed message")
        return frame

    async def receive_printed(self) -> bytes | bytearray:
        """Return a piece of what cells print; empty at the end.

        Cancellation: nothing is lost.
        """
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            return await self._child.stderr.receive_some(_CHUNK)
        return b""

    def read_printed_now(self) -> bytes:
        """Return what was printed and not read yet, without waiting."""
        found: list[bytes] = []
        with suppress(OSError):
            for _ in range(_MAX_LEFTOVER_CHUNKS):
                if not (piece := os.read(self._child.stderr.fileno(), _CHUNK)):
                    break
                found.append(piece)
        return b"".join(found)

    async def interrupt(self) -> None:
        """Raise a `KeyboardInterrupt` in the cell."""
        await self._child.signal(signal.SIGINT)

    def kill(self) -> None:
        """Kill the process now; it may outlive this call, and `end` must still be called."""
        if self._child.exit_code is None:
            self._child.kill()

    async def describe_end(self) -> str:
        """Describe why nothing more comes."""
        with trio.move_on_after(limits.KILL_GRACE_MS / 1000):
            code = await self._child.wait()
            number = -code if code < 0 else code - 128
            with suppress(ValueError):
                return f"it was ended by {signal.Signals(number).name}"
            return f"it exited with status {code}"
        return "it has closed its pipes"

    async def end(self) -> None:
        """End the process and everything it started.

        Cancellation: continues until that is done, for at most two seconds.
        """
        if not self._ended:
            self._ended = True
            await self._child.end()


async def start_worker(launch: Launch, bounds: Mapping[str, int]) -> Worker:
    """Start a process that waits for its first cell.

    Raises:
        WorkerGone: It could not be started; its last output is part of the message.

    Cancellation: nothing is left of it.
    """
    try:
        worker = Worker(await start_child(launch))
    except ProcessNotStarted as error:
        raise WorkerGone(str(error)) from error
    try:
        with trio.move_on_after(_START_SECONDS):
            programs = await trio.to_thread.run_sync(_read_programs)
            await worker.send({"programs": programs, "bounds": dict(bounds)})
            await worker.receive()  # it is ready
            return worker
        raise WorkerGone(f"it did not start within {_START_SECONDS} seconds")
    except WorkerGone as gone:
        said = worker.read_printed_now().decode("utf-8", "replace").strip()[-500:]
        await worker.end()  # noqa: ASYNC120 - it is shielded
        raise WorkerGone(f"{gone} ({said})" if said else str(gone)) from gone
    except BaseException:
        await worker.end()  # noqa: ASYNC102 - it is shielded and bounded
        raise


def _read_programs() -> list[tuple[str, str]]:
    folder = importlib.resources.files(_HERE)
    return [(f"{_HERE}.{name}", folder.joinpath(f"{name}.py").read_text(encoding="utf-8")) for name in PROGRAMS]


async def _parse_apart(line: bytes) -> Any:
    return await trio.to_thread.run_sync(lambda: parse(line, max_bytes=_MOST_LINE))
