"""What /proc says of processes that are not our children: their parents, their groups, and the marks they carry."""

import os
import select
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
"""Process information on Linux; missing on other systems."""
_SWEEPS: Final = 5  # while one is killed, it may start another
_DYING_SECONDS: Final = 1.0  # how long a killed process may take to leave the process table


def descendants(first: int) -> list[int]:
    """Return the descendants of this process, without itself."""
    parents: dict[int, int] = {}
    for entry in _entries():
        with suppress(OSError, ValueError, IndexError):
            parents[int(entry.name)] = int(_read_status(entry)[1])
    found = [first]
    for pid in found:  # grows during the loop
        found += [child for child, parent in parents.items() if parent == pid]
    return found[1:]


def is_group_alive(group: int) -> bool:
    """Return whether the group holds more than zombies, which are never reaped in some containers."""
    if not _PROC.is_dir():
        return True
    return any(_is_alive_in_group(group, entry) for entry in _entries())


def kill_marked(mark: bytes) -> None:
    """Kill every process with this variable, and what those start meanwhile, and wait until they are gone.

    Raises:
        OSError: Processes cannot be listed.
    """
    for _ in range(_SWEEPS):
        found = [entry for entry in _entries() if _carries(entry, mark)]
        if not found:
            return
        for entry in found:
            with suppress(OSError):
                handle = os.pidfd_open(int(entry.name))
                try:
                    if _carries(entry, mark):  # and not another process that got its number meanwhile
                        signal.pidfd_send_signal(handle, signal.SIGKILL)
                        select.select([handle], [], [], _DYING_SECONDS)
                finally:
                    os.close(handle)


def _entries() -> Iterator[Path]:
    return (entry for entry in _PROC.iterdir() if entry.name.isdigit())


def _read_status(entry: Path) -> list[str]:
    """Return state, parent, group and so on."""
    # "pid (name) state parent group ..."; the name may hold any characters, including brackets and blanks
    return (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def _is_alive_in_group(group: int, entry: Path) -> bool:
    try:
        state, _, its_group, *_ = _read_status(entry)
    except OSError:  # it has ended in the meantime
        return False
    return int(its_group) == group and state not in "ZX"


def _carries(entry: Path, mark: bytes) -> bool:
    try:
        return mark in (entry / "environ").read_bytes().split(b"\0")
    except OSError:  # it has ended meanwhile, or belongs to another user
        return False
