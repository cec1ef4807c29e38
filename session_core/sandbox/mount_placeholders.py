"""Stand-ins: placeholders on the disk for missing protected paths while a confined program runs.

They must exist because a mount needs a mount point. In a project they are folders, because git ignores empty ones; in a
home directory they are files, because a shell that starts in the meantime complains about a folder.

A stand-in has a modification time that nothing else has; putting something into it changes that time. So the next run
recognises and removes a stand-in that a killed process has left. A lock on each stand-in stops other runs, including
those of other processes, from removing it, which would remove the mount too.
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
    # A login shell reads only the first of these that exists, so each one sources the next.
    ".bash_profile": "[ -r ~/.bash_login ] && . ~/.bash_login\n",
    ".bash_login": "[ -r ~/.profile ] && . ~/.profile\n",
}
_MAX_TEXT: Final = 100


class CannotConfine(WorkspaceRefused):
    """No sandbox can enforce this policy; the message says why."""


class HasMissing(Protocol):
    """The part of a plan that is about stand-ins."""

    @property
    def missing(self) -> tuple[str, ...]:
        """The paths that need a folder as stand-in."""
        ...

    @property
    def missing_files(self) -> tuple[str, ...]:
        """The paths that need a file as stand-in."""
        ...


@contextmanager
def hold_places(plan: HasMissing) -> Generator[None]:
    """Create the stand-ins for missing protected paths, and remove them when no run needs them any more."""
    with ExitStack() as held:
        for path in plan.missing:
            held.callback(_release_stand_in, path, _hold_stand_in(path, folder=True))
        for path in plan.missing_files:
            held.callback(_release_stand_in, path, _hold_stand_in(path, folder=False))
        yield


def held_stand_ins() -> tuple[str, ...]:
    """Return the stand-ins that runs of this process need now."""
    with _lock:
        return tuple(_held)


def clear_leftovers(paths: Iterable[str]) -> None:
    """Remove the stand-ins among these paths that no run needs any more, as after a crash."""
    for path in paths:
        with suppress(OSError):
            if is_stand_in(os.lstat(path)):
                _remove_unless_held(path, os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC))


def is_stand_in(found: os.stat_result) -> bool:
    """Return whether this is a stand-in, of this process or another, and not something that people have made."""
    small = stat.S_ISDIR(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_size <= _MAX_TEXT)
    return small and found.st_mtime_ns == _MARK_NS and found.st_uid == os.geteuid()


_held: Counter[str] = Counter()
_lock: Final = threading.Lock()


def _hold_stand_in(path: str, *, folder: bool) -> int:
    """Ensure that there is something at this path that no run removes; return the descriptor that holds the lock."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | (os.O_DIRECTORY if folder else 0)
    for _ in range(_TRIES):
        with suppress(FileExistsError):
            _create_stand_in(path, folder=folder)
        try:
            descriptor = os.open(path, flags)
        except FileNotFoundError:  # removed just now
            continue
        except OSError:
            break
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        if _is_same_file(path, descriptor):
            with _lock:
                _held[path] += 1
            return descriptor
        os.close(descriptor)  # the locked one was removed while we waited for the lock
    raise CannotConfine(f"{path!r} is protected and has just been created; try again")


def _create_stand_in(path: str, *, folder: bool) -> None:
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


def _release_stand_in(path: str, descriptor: int) -> None:
    with _lock:
        _held[path] -= 1
        if not _held[path]:
            del _held[path]
    _remove_unless_held(path, descriptor)


def _remove_unless_held(path: str, descriptor: int) -> None:
    """Remove a stand-in unless another run holds it; closes the descriptor."""
    try:
        with suppress(OSError):  # another run holds it, or something was put into it
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found = os.fstat(descriptor)
            if is_stand_in(found) and _is_same_file(path, descriptor):
                if stat.S_ISDIR(found.st_mode):
                    os.rmdir(path)
                elif stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
                    os.unlink(path)
    finally:
        os.close(descriptor)
