"""Files that only we may read or write: the one way to open, read and replace them.

All of this blocks: call it in a worker thread.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from session_core.errors import StoreUnusable
from session_core.storage.ownership import describe_user, refuse_fault

HOME_VARIABLE: Final = "SESSION_CORE_HOME"
ELSEWHERE: Final = f"or choose another folder with {HOME_VARIABLE}"
_NO_LOCKS: Final = f"its file system cannot lock files; choose a folder on a local disk with {HOME_VARIABLE}"
_FORBIDDEN: Final = f"permission is denied; check the owner and the mode of it and its parents, {ELSEWHERE}"
_REASONS: Final = {
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
    errno.EROFS: f"its file system is read-only; make it writable, {ELSEWHERE}",
    errno.ENOSPC: f"the disk is full; free some space, {ELSEWHERE}",
    errno.EDQUOT: f"your disk quota is used up; free some space, {ELSEWHERE}",
    errno.ENOENT: f"a parent folder is missing; create it, {ELSEWHERE}",
    errno.ENOTDIR: f"a file is where a folder should be; move it away, {ELSEWHERE}",
    errno.EISDIR: "a folder is where a file should be; move it away",
    errno.ELOOP: "there is a link where a file or folder is expected, or links form a loop; remove the link",
    errno.ENXIO: "it is not an ordinary file; move it away",
    errno.ENOLCK: _NO_LOCKS,
    errno.EOPNOTSUPP: _NO_LOCKS,
}


def private_open(path: Path, flags: int, *, obeyed: bool = False) -> int:
    """Open a regular file that only we may read, creating it with mode 0600 if `flags` say so; links are refused.

    Args:
        path: The file.
        flags: Those of `os.open`.
        obeyed: Whether the program acts on its content; then a file that others could have written is refused.

    Raises:
        StoreUnusable: It cannot be opened, belongs to somebody else, or could have been written by others.
    """
    # O_TRUNC has to wait until the owner is known, and without O_NONBLOCK a pipe of that name would hang us.
    asked = flags & ~os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        with ExitStack() as undo:
            descriptor = os.open(path, asked, 0o600)
            undo.callback(os.close, descriptor)
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise StoreUnusable(f"the file {str(path)!r} is not an ordinary file; move it away")
            check_owner("the file", path, status)
            if obeyed:
                refuse_fault(path, status)
            # When the file is created, the umask may have removed our own rights.
            mode = 0o600 if flags & os.O_CREAT else status.st_mode & 0o700
            if stat.S_IMODE(status.st_mode) != mode:
                os.fchmod(descriptor, mode)
            if flags & os.O_TRUNC:
                os.ftruncate(descriptor, 0)
            os.set_blocking(descriptor, not flags & os.O_NONBLOCK)
            undo.pop_all()
            return descriptor
    except (OSError, ValueError) as error:
        raise store_unusable_error(f"the file {str(path)!r} cannot be opened", error) from error


def read_private(file: Path, most: int) -> bytes:
    """Read a whole small file of the home that only we could have written, and close it to other readers.

    Raises:
        ValueError: It has more than `most` bytes.
        StoreUnusable: It cannot be read, is not ours, or others could have written it.
    """
    with os.fdopen(private_open(file, os.O_RDONLY, obeyed=True), "rb") as opened:
        data = opened.read(most + 1)
    if len(data) > most:
        raise ValueError("it is too large")
    return data


def replace_private(file: Path, data: bytes) -> None:
    """Replace a file of the home atomically, once the new content is on disk.

    The caller holds a lock, so an existing file of the temporary name was left by a killed process.
    """
    temporary = file.with_suffix(".tmp")
    with os.fdopen(private_open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as opened:
        opened.write(data)
        opened.flush()
        os.fsync(opened.fileno())
    temporary.replace(file)
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def make_private_file(path: Path) -> None:
    """Ensure a regular file that only we may read, created with mode 0600 if needed, without opening an existing one.

    Closing any descriptor of a file releases all locks that this process holds on it, including SQLite's.

    Raises:
        StoreUnusable: It cannot be created, is not a regular file, belongs to somebody else, or could have been written
            by others.
    """
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise StoreUnusable(f"the file {str(path)!r} is not an ordinary file; move it away")
        check_owner("the file", path, status)
        refuse_fault(path, status)
        if stat.S_IMODE(status.st_mode) & 0o077:
            path.chmod(status.st_mode & 0o700)
    except FileNotFoundError:
        os.close(private_open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))
    except OSError as error:
        raise store_unusable_error(f"the file {str(path)!r} cannot be used", error) from error


@contextmanager
def hold_file_lock(file: Path) -> Generator[None]:
    """Hold the lock of a private file for the length of the block: one process changes it at a time.

    Raises:
        StoreUnusable: The lock file cannot be opened.
    """
    lock = private_open(file.with_suffix(".lock"), os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def check_owner(what: str, path: Path, status: os.stat_result) -> None:
    """Refuse a file or folder that is not ours.

    Raises:
        StoreUnusable: It belongs to somebody else.
    """
    if status.st_uid != os.geteuid():
        raise StoreUnusable(
            f"{what} {str(path)!r} belongs to {describe_user(status.st_uid)}, but you are "
            f"{describe_user(os.geteuid())}; run this as its owner, {ELSEWHERE}"
        )


def store_unusable_error(what: str, error: Exception) -> StoreUnusable:
    """Return an error that says why the system refused something, and what helps."""
    number = error.errno if isinstance(error, OSError) else None
    why = str(error) if number is None else _REASONS.get(number, os.strerror(number))
    return StoreUnusable(f"{what}: {why}")
