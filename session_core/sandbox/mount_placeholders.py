"""Stand-ins: what takes the place of missing protected paths on the disk while a confined program runs.

They have to be there, for nothing can be mounted on what is not. Folders in a project, because git does not see empty
ones; files in a home directory, because a shell that starts meanwhile complains about a folder.

A stand-in is told from what people make by its time of change, which is one that nothing else has: whoever puts
something into it changes that too. So a stand-in that a killed process has left is known as one, and goes away with the
next run. A lock on each keeps other runs, of other processes too, from taking it away: the mount would go with it.
"""

import fcntl
import os
import stat
import threading
from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager, suppress
from typing import Final, Protocol

from session_core.sandbox.file_values import WorkspaceRefused

_MARK_NS: Final = 981_173_106_123_456_789
"""A moment in 2001, to the nanosecond."""
_TRIES: Final = 100
_TEXTS: Final = {
    # A login shell reads only the first of these that is there: each hands on to the next.
    ".bash_profile": "[ -r ~/.bash_login ] && . ~/.bash_login\n",
    ".bash_login": "[ -r ~/.profile ] && . ~/.profile\n",
}
_MAX_TEXT: Final = 100


class CannotConfine(WorkspaceRefused):
    """No sandbox can keep what this policy promises; the message says why."""


class HasMissing(Protocol):
    """A plan, as far as it is about stand-ins."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Where folders have to stand in."""
        ...

    @property
    def missing_files(self) -> tuple[str, ...]:
        """Where files have to stand in."""
        ...


@contextmanager
def hold_places(plan: HasMissing) -> Generator[None]:
    """Make the stand-ins for missing protected paths, and take them away when no run needs them any more."""
    with ExitStack() as held:
        for path in plan.missing:
            held.callback(_give_up, path, _take(path, folder=True))
        for path in plan.missing_files:
            held.callback(_give_up, path, _take(path, folder=False))
        yield


def held_stand_ins() -> tuple[str, ...]:
    """Return the stand-ins that runs of this process need now."""
    with _lock:
        return tuple(_held)


def clear_leftovers(paths: Iterable[str]) -> None:
    """Take away those of these paths that are stand-ins which nobody needs any more, as after a crash."""
    for path in paths:
        with suppress(OSError):
            if is_stand_in(os.lstat(path)):
                _take_away(path, os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC))


def is_stand_in(found: os.stat_result) -> bool:
    """Tell whether this is a stand-in, of this process or another, and not something that people have made."""
    small = stat.S_ISDIR(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_size <= _MAX_TEXT)
    return small and found.st_mtime_ns == _MARK_NS and found.st_uid == os.geteuid()


_held: Counter[str] = Counter()
_lock: Final = threading.Lock()


def _take(path: str, *, folder: bool) -> int:
    """Have something at this path that nobody takes away, and return the descriptor with the lock on it."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | (os.O_DIRECTORY if folder else 0)
    for _ in range(_TRIES):
        with suppress(FileExistsError):
            _make(path, folder=folder)
        try:
            descriptor = os.open(path, flags)
        except FileNotFoundError:  # taken away just now
            continue
        except OSError:
            break
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        if _is_same_file(path, descriptor):
            with _lock:
                _held[path] += 1
            return descriptor
        os.close(descriptor)  # the lock is on one that was taken away while we waited for it
    raise CannotConfine(f"{path!r} is protected and was made just now; try again")


def _make(path: str, *, folder: bool) -> None:
    if folder:
        os.mkdir(path, 0o755)
        os.utime(path, ns=(_MARK_NS, _MARK_NS), follow_symlinks=False)
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        os.write(descriptor, _TEXTS.get(os.path.basename(path), "").encode())
        os.utime(descriptor, ns=(_MARK_NS, _MARK_NS))
    finally:
        os.close(descriptor)


def _is_same_file(path: str, descriptor: int) -> bool:
    try:
        there, here = os.lstat(path), os.fstat(descriptor)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


def _give_up(path: str, descriptor: int) -> None:
    with _lock:
        _held[path] -= 1
        if not _held[path]:
            del _held[path]
    _take_away(path, descriptor)


def _take_away(path: str, descriptor: int) -> None:
    """Remove a stand-in unless another run holds it; closes the descriptor."""
    try:
        with suppress(OSError):  # somebody holds it, or has put something into it
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found = os.fstat(descriptor)
            if is_stand_in(found) and _is_same_file(path, descriptor):
                if stat.S_ISDIR(found.st_mode):
                    os.rmdir(path)
                elif stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
                    os.unlink(path)
    finally:
        os.close(descriptor)
