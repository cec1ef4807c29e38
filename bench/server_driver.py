"""Drives the measured programs, each in its own process: starts them, sends tasks, measures CPU and memory, ends them.

There is no event loop here, so the driver's own work is short and constant.
"""

import json
import os
import resource
import select
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.measure import NotMeasured

ROOT = Path(__file__).parent.parent
PATIENCE_S = 60.0
"""How long a program may take for anything; a round takes a fraction of this."""
_END_S = 10.0


class Program:
    """A running program; created by `running`. `told` is its first line, sent when it was ready."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:  # noqa: TID251 - see `start`
        self.process = process
        self.told: Mapping[str, Any] = {}
        self._kept = b""

    def ask(self, **task: object) -> Mapping[str, Any]:
        """Send a task and wait for its answer."""
        self.tell(**task)
        return self.hear()

    def tell(self, **task: object) -> None:
        """Send a task; read its answer later with `hear`."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(task).encode() + b"\n")
        self.process.stdin.flush()

    def hear(self) -> Mapping[str, Any]:
        """Wait for its next answer.

        Raises:
            RuntimeError: It has ended, or sends nothing in time.
        """
        said: Mapping[str, Any] = json.loads(self.next_line())
        return said

    def next_line(self) -> bytes:
        """Wait for the next line of its output."""
        assert self.process.stdout is not None
        descriptor, until = self.process.stdout.fileno(), time.monotonic() + PATIENCE_S
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        while b"\n" not in self._kept:
            if not waiting.poll(max(0.0, until - time.monotonic()) * 1000):
                raise RuntimeError(f"the measured program sent nothing for {PATIENCE_S:.0f} s")
            piece = os.read(descriptor, 65_536)
            if not piece:
                raise RuntimeError("the measured program ended early; its output is above")
            self._kept += piece
        line, _, self._kept = self._kept.partition(b"\n")
        return line

    @property
    def cpu_s(self) -> float:
        """The CPU time of all its threads so far, to the nanosecond (see `clock_getcpuclockid`)."""
        return time.clock_gettime((~self.process.pid << 3) | 2)

    @property
    def memory_kib(self) -> float:
        """Its private memory, without the kernel's socket buffers."""
        rollup = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text(encoding="ascii")
        sizes = {line.split(":")[0]: line.split()[1] for line in rollup.splitlines()[1:]}
        return float(sizes["Private_Clean"]) + float(sizes["Private_Dirty"])

    def end(self) -> None:
        """End it by closing its input, or by force."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):  # it has already ended
            self.process.stdin.close()
        self.process.stdout.close()
        try:
            self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def running(*command: str) -> Generator[Program]:
    """Run a Python program, given by its arguments, during the block; it is ready when the block starts."""
    program = start(*command)
    try:
        program.told = program.hear()
        yield program
    finally:
        program.end()


def start(*command: str, stderr: int | None = None) -> Program:
    """Start a Python program; the caller must end it. Its error output is shown, or goes to `stderr`."""
    check_there_is_proc()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SESSION_CORE_")}
    process = subprocess.Popen(  # noqa: TID251 - there is no event loop here that it could block
        [sys.executable, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        cwd=ROOT,
        env=environment,
    )
    return Program(process)


def check_there_is_proc() -> None:
    """Raise `NotMeasured` if the memory of another process cannot be read."""
    if not Path("/proc/self/smaps_rollup").exists():
        raise NotMeasured("this system does not report the private memory of a process")


def check_there_is(*modules: str) -> None:
    """Raise `NotMeasured` unless all of these can be imported."""
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise NotMeasured(f"{', '.join(missing)} is not installed")


def make_room_for(descriptors: int) -> None:
    """Raise the limit of open files for this process and its children.

    Raises:
        NotMeasured: The system does not allow it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < descriptors:
        if hard != resource.RLIM_INFINITY and hard < descriptors:
            raise NotMeasured(f"{descriptors} open files are needed, but the system allows {hard}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, hard))


def idle(seconds: float) -> None:
    """Sleep."""
    select.select([], [], [], seconds)


def p99(samples: Sequence[float]) -> float:
    """Return the 99th percentile."""
    return sorted(samples)[max(0, -(-len(samples) * 99 // 100) - 1)]
