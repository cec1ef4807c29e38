"""The processes inside a bubblewrap, seen from outside: whether any are left, and how to end them.

Everything inside lives in its own process namespace, whatever sessions and groups it creates. When the first process of
the namespace ends, the kernel ends all others. Bubblewrap tells us the id of that process, but does not wait for it:
bubblewrap itself may be gone while the inside is still ending.
"""

import json
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Final

import trio

from session_core.processes.process_table import descendants
from session_core.sandbox.bubblewrap import open_filter

_MAX_INFO_BYTES: Final = 4_096
"""The size of bubblewrap's report, a line of JSON."""


class Namespace:
    """The inside of one bubblewrap.

    Attributes:
        argv: The sandbox's command line, with the descriptors that bubblewrap reads and writes.
        inherited: These descriptors, which the child must inherit.
    """

    def __init__(
        self, argv: Sequence[str], bubblewrap: str, inside: Mapping[str, str], ours: ExitStack, theirs: ExitStack
    ) -> None:
        """Open the descriptors; `ours` closes those we need once the child runs, `theirs` those it needs until then.

        Raises:
            OSError: The system call filter cannot be opened, or too many files are open.
            ValueError: A variable contains a null character.
        """
        self._listening, reporting = open_pipe(ours, theirs)
        self.argv, filter_descriptor = open_filter(argv, bubblewrap)
        if filter_descriptor is not None:
            theirs.callback(os.close, filter_descriptor)
        options = ["--info-fd", str(reporting)]
        variables = _write_variables(inside, theirs) if inside else None
        if variables is not None:
            options += ["--args", str(variables)]
        place = self.argv.index(bubblewrap) + 1
        self.argv[place:place] = options
        self.inherited = tuple(each for each in (reporting, filter_descriptor, variables) if each is not None)
        self._reported = trio.Event()
        self._first: int | None = None
        self._handle: int | None = None
        self._closed = False

    def read_report(self) -> tuple[int, int] | None:
        """Return the id of the first process inside and a handle of it, once bubblewrap has started it, if ever.

        It blocks until then, in the thread that started bubblewrap; the result is for `note_report`.
        """
        report = b""
        try:
            while b"}" not in report and len(report) < _MAX_INFO_BYTES:
                if not (piece := os.read(self._listening, _MAX_INFO_BYTES)):
                    break
                report += piece
        finally:
            os.close(self._listening)
        with suppress(ValueError, KeyError, TypeError, OSError):
            first = int(json.loads(report)["child-pid"])
            return first, os.pidfd_open(first)
        return None

    def note_report(self, report: tuple[int, int] | None) -> None:
        """Take the result of `read_report`."""
        if report is not None:
            self._first, self._handle = report
        if self._closed:
            self.close()
        self._reported.set()

    async def ask_to_end(self) -> bool:
        """Send SIGTERM to everything inside except the first process, which belongs to bubblewrap.

        Without bubblewrap's report nothing inside can be ended or waited for, so this waits for it; it does not come
        only if bubblewrap hangs, so the caller sets a time limit.

        Returns:
            Whether anybody was asked: the report comes a moment before the program is there.
        """
        await self._reported.wait()
        inside = [] if self._first is None else await trio.to_thread.run_sync(descendants, self._first)
        for pid in inside:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGTERM)
        return bool(inside)

    async def end(self) -> None:
        """Kill the remaining processes and wait until the whole namespace is gone."""
        if self._handle is None:
            return
        with suppress(ProcessLookupError, PermissionError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        await trio.lowlevel.wait_readable(self._handle)

    def close(self) -> None:
        """Close the handle, now or when it comes."""
        self._closed = True
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)


def open_pipe(reader: ExitStack, writer: ExitStack) -> tuple[int, int]:
    """Open a pipe whose two ends are closed by these stacks."""
    reading, writing = os.pipe()
    reader.callback(os.close, reading)
    writer.callback(os.close, writing)
    return reading, writing


def _write_variables(variables: Mapping[str, str], opened: ExitStack) -> int:
    """Write variables as arguments that only bubblewrap reads; it sets them only inside the sandbox."""
    words = [word for name, value in variables.items() for word in ("--setenv", name, value)]
    if any("\0" in word for word in words):
        raise ValueError("embedded null byte")  # would end an argument and start another of its own choice
    descriptor = os.memfd_create("variables", os.MFD_CLOEXEC)
    opened.callback(os.close, descriptor)
    with open(descriptor, "wb", closefd=False) as written:
        written.write(b"".join(os.fsencode(word) + b"\0" for word in words))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
