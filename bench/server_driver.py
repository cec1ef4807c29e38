"""The programs that are measured, each in a process of its own: started, told what to do, weighed, and ended.

There is no event loop here, so that what the driver itself does is short and always the same.
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
    """A program at work; made by `running`. `told` is what it said when it was ready."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:  # noqa: TID251 - see `start`
        self.process = process
        self.told: Mapping[str, Any] = {}
        self._kept = b""

    def ask(self, **task: object) -> Mapping[str, Any]:
        """Have it do something and return what it says when that is done."""
        self.tell(**task)
        return self.hear()

    def tell(self, **task: object) -> None:
        """Have it do something; what it says when that is done is to be heard later."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(task).encode() + b"\n")
        self.process.stdin.flush()

    def hear(self) -> Mapping[str, Any]:
        """Wait for the next thing that it says.

        Raises:
            RuntimeError: It has ended instead, or says nothing.
        """
        said: Mapping[str, Any] = json.loads(self.next_line())
        return said

    def next_line(self) -> bytes:
        """Wait for the next line that it says, whatever it is."""
        assert self.process.stdout is not None
        descriptor, until = self.process.stdout.fileno(), time.monotonic() + PATIENCE_S
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        while b"\n" not in self._kept:
            if not waiting.poll(max(0.0, until - time.monotonic()) * 1000):
                raise RuntimeError(f"the measured program has said nothing for {PATIENCE_S:.0f} s")
            piece = os.read(descriptor, 65_536)
            if not piece:
                raise RuntimeError("the measured program has ended early; what it said is above")
            self._kept += piece
        line, _, self._kept = self._kept.partition(b"\n")
        return line

    @property
    def cpu_s(self) -> float:
        """What all its threads have used of the processor so far, to the nanosecond (see `clock_getcpuclockid`)."""
        return time.clock_gettime((~self.process.pid << 3) | 2)

    @property
    def memory_kib(self) -> float:
        """What it alone holds of the machine's memory; what the system keeps for its sockets is not in this."""
        rollup = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text(encoding="ascii")
        sizes = {line.split(":")[0]: line.split()[1] for line in rollup.splitlines()[1:]}
        return float(sizes["Private_Clean"]) + float(sizes["Private_Dirty"])

    def end(self) -> None:
        """End it by giving it nothing more to do, or by force."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):  # it has ended before
            self.process.stdin.close()
        self.process.stdout.close()
        try:
            self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def running(*command: str) -> Generator[Program]:
    """Run a program of Python, given as its arguments, for the length of the block; it is there when that begins."""
    program = start(*command)
    try:
        program.told = program.hear()
        yield program
    finally:
        program.end()


def start(*command: str, stderr: int | None = None) -> Program:
    """Start a program of Python; whoever does has to end it. What it complains of is shown, or goes to `stderr`."""
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
    """Raise `NotMeasured` where the memory of another process cannot be read."""
    if not Path("/proc/self/smaps_rollup").exists():
        raise NotMeasured("this system does not tell how much memory a process alone holds")


def check_there_is(*modules: str) -> None:
    """Raise `NotMeasured` unless all of these can be imported."""
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise NotMeasured(f"{', '.join(missing)} is not installed")


def make_room_for(descriptors: int) -> None:
    """Let this process, and those that it starts, have so many files open at once.

    Raises:
        NotMeasured: The system does not allow it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < descriptors:
        if hard != resource.RLIM_INFINITY and hard < descriptors:
            raise NotMeasured(f"{descriptors} files have to be open at once, and the system allows {hard}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, hard))


def idle(seconds: float) -> None:
    """Do nothing for a while."""
    select.select([], [], [], seconds)


def p99(samples: Sequence[float]) -> float:
    """Return what all but one in a hundred are below."""
    return sorted(samples)[max(0, -(-len(samples) * 99 // 100) - 1)]
