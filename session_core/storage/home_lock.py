"""The lock of a home, which ensures that one process at a time writes to it, and its holder.

The lock is `flock` on the file `lock`: the kernel drops it with the last descriptor, so a dead process blocks nobody.

1. The descriptor is closed on exec and in a forked child, so no child can keep the lock beyond its parent's end.
2. The file is never deleted, or two processes could each lock a file of that name; its text is only informational.
3. An observer takes a shared lock for a moment, so a holder can be told apart from an observer.

All of this blocks: call it in a worker thread.
"""

import fcntl
import json
import os
import sys
import threading
import time
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import attrs

from session_core.errors import StoreInUse, StoreUnusable
from session_core.ids import now_ms
from session_core.storage.private_files import private_open, store_unusable_error

LOCK_NAME: Final = "lock"

_OWN_COMMAND: Final = "session-core"
_MAX_HOLDER_BYTES: Final = 4_096
_MAX_PROGRAM_CHARS: Final = 60
_PATIENCE_S: Final = 2.0
"""An observer releases the lock within microseconds; if it is suspended at that moment, we must not wait for ever."""
_PAUSE_S: Final = 0.001


@attrs.frozen(kw_only=True)
class LockHolder:
    """The holder of the lock according to the lock file; a `pid` of 0 means that the file does not say who it is."""

    pid: int
    program: str
    since: int
    host: str

    def __str__(self) -> str:
        if not self.pid:
            return "another process"
        since = _local_time(self.since)
        # The date only matters if it is not today.
        since_text = f"{since:%H:%M}" if since.date() == _local_time(now_ms()).date() else f"{since:%Y-%m-%d %H:%M}"
        where = "" if self.host == os.uname().nodename else f" on {self.host}"
        return f"process {self.pid}{where} ({self.program}, since {since_text})"


_UNKNOWN: Final = LockHolder(pid=0, program="", since=0, host="")


class HomeLock:
    """The right to write to a home, until `release` or the end of this process; a forked child does not have it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @classmethod
    def acquire(cls, home: Path) -> "HomeLock":
        """Take the lock without waiting for its holder.

        Raises:
            StoreInUse: Somebody holds it, in another process or in this one.
            StoreUnusable: The lock file cannot be made, locked or written.
        """
        path = home / LOCK_NAME
        with _no_fork, ExitStack() as undo:
            descriptor = _lock(path)
            undo.callback(os.close, descriptor)
            try:
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, json.dumps(attrs.asdict(_describe_this_process())).encode(), 0)
            except OSError as error:
                raise store_unusable_error(f"the file {str(path)!r} cannot be written", error) from error
            lock = cls(descriptor)
            _held.add(lock)
            undo.pop_all()
            return lock

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        with _no_fork:
            descriptor, self._descriptor = self._descriptor, None
            if descriptor is None:
                return
            _held.discard(self)
            try:
                with suppress(OSError):
                    os.ftruncate(descriptor, 0)
                # Closing is not enough while a child is between fork and exec.
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            finally:
                os.close(descriptor)

    def _leave_to_parent(self) -> None:
        """Close our copy in a forked child, which keeps the parent's lock intact; unlocking would not."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def lock_holder(home: Path) -> LockHolder | None:
    """Return the current holder of the lock, by trying it; None if there is no home.

    Raises:
        StoreUnusable: The lock file cannot be opened or locked.
    """
    path = home / LOCK_NAME
    with _no_fork, ExitStack() as undo:
        try:
            descriptor = private_open(path, os.O_RDONLY)
        except StoreUnusable as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise
        undo.callback(os.close, descriptor)
        return None if _try_lock(descriptor, path, fcntl.LOCK_SH) else _read_holder(descriptor)


def _lock(path: Path) -> int:
    """Lock the file that finally has this name, and return its descriptor."""
    give_up_at = time.monotonic() + _PATIENCE_S
    while True:
        with ExitStack() as undo:
            descriptor = private_open(path, os.O_RDWR | os.O_CREAT)
            undo.callback(os.close, descriptor)
            locked = _try_lock(descriptor, path, fcntl.LOCK_EX)
            # A shared lock succeeds beside other observers, but not beside a holder.
            held = not locked and not _try_lock(descriptor, path, fcntl.LOCK_SH)
            if _still_has_name(descriptor, path):
                if locked:
                    undo.pop_all()
                    return descriptor
                if held:
                    raise StoreInUse(f"this home is in use by {_read_holder(descriptor)}; wait for it, or stop it")
        if time.monotonic() >= give_up_at:
            raise StoreInUse("another process keeps the lock of this home busy; try again")
        _pause()


def _try_lock(descriptor: int, path: Path, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise store_unusable_error(f"the file {str(path)!r} cannot be locked", error) from error
    return True


def _still_has_name(descriptor: int, path: Path) -> bool:
    """Return whether the open file still has this name: it may have been deleted or replaced meanwhile."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _pause() -> None:
    time.sleep(_PAUSE_S)  # noqa: TID251 - in a worker thread, and only while an observer is in the way


def _describe_this_process() -> LockHolder:
    return LockHolder(pid=os.getpid(), program=_describe_program(sys.argv), since=now_ms(), host=os.uname().nodename)


def _describe_program(argv: list[str]) -> str:
    """Return the name of a program for people, with the first argument of our own command, which is never a secret."""
    path = Path(argv[0] if argv else "")
    name = path.parent.name if path.name == "__main__.py" else path.name
    if name == _OWN_COMMAND and len(argv) > 1 and argv[1].replace("-", "").isalpha() and not argv[1].startswith("-"):
        name = f"{name} {argv[1]}"
    printable_name = "".join(letter for letter in name if letter.isprintable())[:_MAX_PROGRAM_CHARS]
    return "python" if printable_name in {"", "-c", "-m"} else printable_name


def _read_holder(descriptor: int) -> LockHolder:
    """Read the holder from the file; it may not have written it yet, and the file may hold anything."""
    try:
        said = json.loads(os.pread(descriptor, _MAX_HOLDER_BYTES, 0))
        holder = LockHolder(pid=said["pid"], program=said["program"], since=said["since"], host=said["host"])
        # A dead process left its name behind, and the current holder has not written its own yet.
        typed = [int, str, int, str] == [type(value) for value in attrs.astuple(holder)]
        believable = typed and holder.pid > 0 and str(holder).isprintable() and _may_be_alive(holder)
    except (OSError, ValueError, LookupError, TypeError, OverflowError, RecursionError):
        return _UNKNOWN
    return holder if believable else _UNKNOWN


def _may_be_alive(holder: LockHolder) -> bool:
    try:
        if holder.host == os.uname().nodename:
            os.kill(holder.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is alive, but belongs to another user
        pass
    return True


def _local_time(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, tz=UTC).astimezone()


_held: Final[set[HomeLock]] = set()
_no_fork: Final = threading.RLock()
"""Held while a descriptor is open that is not yet in `_held`, so a fork in another thread cannot copy it."""


def _after_fork_in_child() -> None:
    for lock in _held:
        lock._leave_to_parent()  # noqa: SLF001 - the other half of the class
    _held.clear()
    _no_fork.release()


os.register_at_fork(before=_no_fork.acquire, after_in_parent=_no_fork.release, after_in_child=_after_fork_in_child)
