"""The processes inside a bubblewrap, seen from outside: whether any are left, and how to end them.

Everything inside lives in its own process namespace, whatever sessions and groups it creates. When the first process of
the namespace ends, the kernel ends all others. Bubblewrap tells us the id of that process, but does not wait for it:
bubblewrap itself may be gone while the inside is still ending.
"""

import json
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

from session_core.sandbox.bubblewrap import open_filter

_PROC: Final = Path("/proc")
_MAX_INFO_BYTES: Final = 4_096
"""The size of bubblewrap's report, a line of JSON."""


class Namespace:
    """The inside of one bubblewrap."""

    def __init__(self) -> None:
        listening, self._info_descriptor = os.pipe()
        self._listening = trio.lowlevel.FdStream(listening)
        self._open_descriptors = [self._info_descriptor]
        """Descriptors to close once the child has its copies."""
        self._report = bytearray()
        self._first: int | None = None
        self._handle: int | None = None

    def enter(self, argv: Sequence[str], bubblewrap: str) -> list[str]:
        """Return a sandbox's command line with the descriptors that bubblewrap needs: see `inherited_descriptors`.

        Raises:
            OSError: The system call filter cannot be opened.
        """
        words, filter_descriptor = open_filter(argv, bubblewrap)
        if filter_descriptor is not None:
            self._open_descriptors.append(filter_descriptor)
        place = words.index(bubblewrap) + 1
        words[place:place] = ["--info-fd", str(self._info_descriptor)]
        return words

    @property
    def inherited_descriptors(self) -> tuple[int, ...]:
        """The descriptors that the child must inherit."""
        return tuple(self._open_descriptors)

    def close_inherited(self) -> None:
        """Close them: bubblewrap has its own copies now, or never will."""
        while self._open_descriptors:
            os.close(self._open_descriptors.pop())

    async def read_first_pid(self) -> None:
        """Read the id of the first process inside from bubblewrap, which reports none if it could not start one.

        Cancellation: what was read of the report is kept; the next call continues with it.
        """
        while b"}" not in self._report and len(self._report) < _MAX_INFO_BYTES:
            piece = await self._listening.receive_some(_MAX_INFO_BYTES)
            if not piece:
                break
            self._report += piece
        with suppress(ValueError, KeyError, TypeError, OSError):
            first = int(json.loads(self._report)["child-pid"])
            self._handle = os.pidfd_open(first)
            self._first = first

    async def ask_to_end(self) -> None:
        """Send SIGTERM to everything inside except the first process, which belongs to bubblewrap.

        Without bubblewrap's report nothing inside can be ended or waited for, so this waits for it; it does not come
        only if bubblewrap hangs, so the caller sets a time limit.
        """
        if self._handle is None:
            await self.read_first_pid()
        if self._first is not None:
            for pid in await trio.to_thread.run_sync(descendants, self._first):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGTERM)

    async def end(self) -> None:
        """Kill the remaining processes and wait until the whole namespace is gone."""
        if self._handle is None:
            return
        with suppress(ProcessLookupError, PermissionError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        await trio.lowlevel.wait_readable(self._handle)

    def close(self) -> None:
        """Close all descriptors."""
        self.close_inherited()
        os_handle, self._handle = self._handle, None
        if os_handle is not None:
            os.close(os_handle)
        self._listening.close()


def descendants(first: int) -> list[int]:
    """Return the descendants of this process, without itself."""
    parents: dict[int, int] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                status = (entry / "stat").read_text(encoding="utf-8", errors="replace")
                parents[int(entry.name)] = int(status.rpartition(")")[2].split()[1])
    found = [first]
    for pid in found:  # grows during the loop
        found += [child for child, parent in parents.items() if parent == pid]
    return found[1:]
