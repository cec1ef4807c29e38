"""Run a program together with everything it starts, so that stopping it leaves no process behind.

1. The child leads a session and process group of its own; signals go to the group, never to the child alone.
2. Its output is read until the very end, so that nobody in the group can hang on a full pipe while it is being ended.
3. The group is ended before `run_in_group` returns or lets `Cancelled` through. This takes `KILL_GRACE_MS` for SIGTERM
   and as much again for SIGKILL at the most.
4. A process that leaves the group by `setsid` is out of reach, but cannot make us wait: its pipe is closed.
"""

import codecs
import os
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs
import trio

from session_core.limits import KILL_GRACE_MS, MAX_TOOL_OUTPUT_CHARS
from session_core.tools.base import ToolFailed

_GRACE: Final = KILL_GRACE_MS / 1000
_LOOK_AGAIN: Final = 0.02
"""No system call waits for a whole group, so its end is found by looking this often."""
_PROC: Final = Path("/proc")
"""Where Linux tells about processes; elsewhere it is missing."""


@attrs.frozen(kw_only=True)
class ProcessOutcome:
    """How a program ended; `output` is the end of what it wrote, and a negative `exit_code` names a signal."""

    exit_code: int
    output: str
    truncated: bool


async def run_in_group(
    argv: Sequence[str],
    *,
    cwd: str,
    on_output: Callable[[str], None],
    env: Mapping[str, str] | None = None,
    output_limit: int = MAX_TOOL_OUTPUT_CHARS,
) -> ProcessOutcome:
    """Run a program to its end, without input and with stdout and stderr in one stream.

    What the program left running is given a moment to finish its output and is then ended too.

    Args:
        argv: The program and its arguments; no shell is involved.
        cwd: The folder it runs in.
        on_output: Gets the output piece by piece as it comes; must not wait.
        env: Its whole environment; ours when left out.
        output_limit: How many characters of the end of the output the outcome keeps.

    Raises:
        ToolFailed: The program could not be started.

    Cancellation: the whole group gets SIGTERM, after `KILL_GRACE_MS` SIGKILL, and is gone when `Cancelled` goes on.
        Output written after that moment is read and thrown away.
    """
    process = await _start(argv, cwd=cwd, env=env)
    output = _Output(on_output, output_limit)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_pump, process, output.feed)
            await process.wait()
            # What is left of the group may still be writing: a `tee` behind the program, say.
            nursery.cancel_scope.deadline = trio.current_time() + _GRACE
    finally:
        with trio.move_on_after(3 * _GRACE, shield=True):
            await _end_group(process)
    output.feed(b"", final=True)
    return ProcessOutcome(exit_code=await process.wait(), output=output.tail(), truncated=output.truncated)


async def _start(argv: Sequence[str], *, cwd: str, env: Mapping[str, str] | None) -> trio.Process:
    if not argv or not argv[0]:
        raise ToolFailed("there is no program to run: the command is empty")
    try:
        return await trio.lowlevel.open_process(
            list(argv),
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise ToolFailed(await _why_not_started(argv[0], cwd, error)) from error


async def _why_not_started(program: str, cwd: str, error: OSError | ValueError) -> str:
    if not isinstance(error, OSError):
        return f"cannot run {program!r}: {error}"
    # The error names the folder or the program, depending on the platform; so look at the folder itself.
    if isinstance(error, FileNotFoundError | NotADirectoryError) and not await trio.Path(cwd).is_dir():
        return f"cannot run {program!r}: the folder {cwd!r} does not exist"
    if isinstance(error, FileNotFoundError):
        return f"cannot run {program!r}: there is no such program"
    return f"cannot run {program!r} in {cwd!r}: {error.strerror}"


class _Output:
    """Bytes in, text out: decoded as it comes, with a bounded memory of its end."""

    def __init__(self, on_output: Callable[[str], None], limit: int) -> None:
        self._on_output = on_output
        self._limit = limit
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._pieces: deque[str] = deque()
        self._kept = 0
        self.truncated = False

    def feed(self, chunk: bytes | bytearray, *, final: bool = False) -> None:
        text = self._decoder.decode(chunk, final)
        if not text:
            return
        self._pieces.append(text)
        self._kept += len(text)
        self.truncated = self.truncated or self._kept > self._limit
        while self._pieces and self._kept - len(self._pieces[0]) >= self._limit:
            self._kept -= len(self._pieces.popleft())
        self._on_output(text)

    def tail(self) -> str:
        text = "".join(self._pieces)
        return text[max(0, len(text) - self._limit) :]


async def _pump(process: trio.Process, feed: Callable[[bytes | bytearray], None]) -> None:
    assert process.stdout is not None
    while chunk := await process.stdout.receive_some():
        feed(chunk)


async def _end_group(process: trio.Process) -> None:
    """Leave nothing of the group alive; takes two graces at the most."""
    assert process.stdout is not None
    async with process.stdout, trio.open_nursery() as nursery:
        nursery.start_soon(_pump, process, _throw_away)
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not _signal_group(process, number):
                break
            with trio.move_on_after(_GRACE):
                await _group_gone(process)
                break
        nursery.cancel_scope.cancel()


async def _group_gone(process: trio.Process) -> None:
    """Wait until the child is reaped and nothing else is alive in its group."""
    await process.wait()
    while _signal_group(process, 0) and await trio.to_thread.run_sync(_anyone_alive, process.pid):  # noqa: ASYNC110
        # Grandchildren are not ours, so nobody tells us of their end.
        await trio.sleep(_LOOK_AGAIN)


def _signal_group(process: trio.Process, number: int) -> bool:
    """Send a signal to the group and tell whether there was anyone to get it.

    A group keeps its number taken for as long as it has a member, and a freed number is given out again only after all
    others: nobody else can be hit within the moments in which this is called.
    """
    # PermissionError: macOS says so of a group that holds only a zombie; elsewhere it means that we are powerless.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
        return True
    return False


def _anyone_alive(group: int) -> bool:
    """Tell whether the group holds more than zombies, which in some containers nobody ever reaps."""
    if not _PROC.is_dir():
        return True
    return any(_alive_in(group, entry) for entry in _PROC.iterdir() if entry.name.isdigit())


def _alive_in(group: int, entry: Path) -> bool:
    try:
        status = (entry / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:  # it has ended meanwhile
        return False
    # "pid (name) state parent group ...", and a name may hold anything, brackets and blanks included
    state, _, its_group, *_ = status.rpartition(")")[2].split()
    return int(its_group) == group and state not in "ZX"


def _throw_away(chunk: bytes | bytearray) -> None:
    pass
