"""The home directory: its location, and the privacy of it and its files.

All of this blocks: call it in a worker thread.
"""

import errno
import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from session_core.errors import StoreUnusable
from session_core.storage.ownership import (
    OwnershipFault,
    describe_user,
    find_exposed_parent,
    find_fault,
    others_may_write,
    refuse_fault,
)

HOME_VARIABLE: Final = "SESSION_CORE_HOME"

_ELSEWHERE: Final = f"or choose another folder with {HOME_VARIABLE}"
_NO_LOCKS: Final = f"its file system cannot lock files; choose a folder on a local disk with {HOME_VARIABLE}"
_FORBIDDEN: Final = f"permission is denied; check the owner and the mode of it and its parents, {_ELSEWHERE}"
_REASONS: Final = {
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
    errno.EROFS: f"its file system is read-only; make it writable, {_ELSEWHERE}",
    errno.ENOSPC: f"the disk is full; free some space, {_ELSEWHERE}",
    errno.EDQUOT: f"your disk quota is used up; free some space, {_ELSEWHERE}",
    errno.ENOENT: f"a parent folder is missing; create it, {_ELSEWHERE}",
    errno.ENOTDIR: f"a file is where a folder should be; move it away, {_ELSEWHERE}",
    errno.EISDIR: "a folder is where a file should be; move it away",
    errno.ELOOP: "there is a link where a file or folder is expected, or links form a loop; remove the link",
    errno.ENXIO: "it is not an ordinary file; move it away",
    errno.ENOLCK: _NO_LOCKS,
    errno.EOPNOTSUPP: _NO_LOCKS,
}


def default_home() -> Path:
    """Return the directory that the user has set, or else the standard data directory of this system.

    Raises:
        StoreUnusable: The user's setting is not an absolute path.
    """
    # An empty value counts as not set, as with the XDG variables.
    if chosen := os.environ.get(HOME_VARIABLE):
        with suppress(RuntimeError):  # "~somebody" of an unknown user stays as it is, and is not absolute
            path = Path(chosen).expanduser()
            if path.is_absolute():
                return path
        raise StoreUnusable(f"{HOME_VARIABLE} is {chosen!r}, which is not an absolute path; start it with / or ~")
    import platformdirs

    path = platformdirs.user_data_path("session-core")
    if not path.is_absolute():
        raise StoreUnusable(f"you have no home directory; set {HOME_VARIABLE} to the folder for the data")
    return path


def prepare_home(home: Path) -> Path:
    """Create or check the directory, keep other users out of it, and return its absolute path.

    A symbolic link in its place is followed if we or root made it, because people do keep data on another disk; its
    target is checked like any home. The target must exist: a directory created beneath an unmounted disk would look as
    if all sessions were lost.

    A directory that others could write is closed only while it is empty. What is in it could be theirs, and would be
    obeyed from then on: that is for its owner to look at.

    Raises:
        StoreUnusable: It cannot be created, is not a directory, is not ours, or cannot be made private; or others could
            have put something into it, or could exchange it.
    """
    try:
        place = _follow_own_link(home.absolute())
        _make_directories(place)
        status = place.lstat()
        _check_place(home, place, status)
        if status.st_mode & 0o077:
            _make_private(place, status)
    except (OSError, ValueError, RuntimeError) as error:
        raise store_unusable_error(f"the home {str(home)!r} cannot be used", error) from error
    return place


def refuse_exposed_home(home: Path) -> None:
    """Refuse a home that `prepare_home` would refuse because of other users; change nothing. A missing one is fine.

    For whatever only reads: what others could have written is not to be believed either.

    Raises:
        StoreUnusable: As `prepare_home`.
    """
    try:
        place = _follow_own_link(home.absolute())
        status = place.lstat()
        _check_place(home, place, status)
        if status.st_mode & 0o077:
            _refuse_common_folder(place, status)
        if others_may_write(status) and os.listdir(place):  # noqa: PTH208
            raise StoreUnusable(str(_describe_open_home(place, status)))
    except FileNotFoundError:
        return
    except (OSError, ValueError, RuntimeError) as error:
        raise store_unusable_error(f"the home {str(home)!r} cannot be used", error) from error


def private_open(path: Path, flags: int, *, obeyed: bool = False) -> int:
    """Open a regular file that only we may read, creating it with mode 0600 if `flags` say so; links are refused.

    Args:
        path: The file.
        flags: Those of `os.open`.
        obeyed: Whether what it says is obeyed: then a file that others could have written is refused.

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
            _check_owner("the file", path, status)
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
        _check_owner("the file", path, status)
        refuse_fault(path, status)
        if stat.S_IMODE(status.st_mode) & 0o077:
            path.chmod(status.st_mode & 0o700)
    except FileNotFoundError:
        os.close(private_open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))
    except OSError as error:
        raise store_unusable_error(f"the file {str(path)!r} cannot be used", error) from error


def _follow_own_link(place: Path) -> Path:
    if not place.is_symlink():
        return place
    if place.lstat().st_uid not in {0, os.geteuid()}:
        raise StoreUnusable(f"the home {str(place)!r} is a link that another user made; remove it, {_ELSEWHERE}")
    try:
        return place.resolve(strict=True)
    except FileNotFoundError:
        there = str(place.readlink())
        raise StoreUnusable(
            f"the home {str(place)!r} links to {there!r}, which is missing; mount or create it, or remove the link"
        ) from None


def _make_directories(place: Path) -> None:
    missing: list[Path] = []
    while not os.path.lexists(place):
        missing.append(place)
        place = place.parent
    for each in reversed(missing):
        with suppress(FileExistsError):  # another process was faster
            each.mkdir(mode=0o700)
            if stat.S_IMODE(each.lstat().st_mode) & 0o777 != 0o700:  # the umask removed our own rights too
                each.chmod(0o700)


def _check_owner(what: str, path: Path, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise StoreUnusable(
            f"{what} {str(path)!r} belongs to {describe_user(status.st_uid)}, but you are "
            f"{describe_user(os.geteuid())}; run this as its owner, {_ELSEWHERE}"
        )


def _check_place(home: Path, place: Path, status: os.stat_result) -> None:
    """Refuse a home that is no directory, is not ours, or could be exchanged by others."""
    if not stat.S_ISDIR(status.st_mode):
        raise StoreUnusable(f"the home {str(place)!r} is not a folder; move it away, {_ELSEWHERE}")
    _check_owner("the home", place, status)
    if (fault := find_exposed_parent(home.absolute()) or find_exposed_parent(place.resolve())) is not None:
        raise StoreUnusable(f"the home cannot be used: {fault}, {_ELSEWHERE}")


def _refuse_common_folder(place: Path, status: os.stat_result) -> None:
    user = Path(os.path.expanduser("~")).resolve()  # noqa: PTH111 - unlike Path.home, it never fails
    # Closing /tmp, / or the user's own directory to others would break many other things.
    if status.st_mode & stat.S_ISVTX or place.resolve() in {user, *user.parents}:
        raise StoreUnusable(
            f"the home {str(place)!r} contains more than sessions and is open to other users; choose a folder for"
            f" sessions alone, such as {str(place / 'session-core')!r}, with {HOME_VARIABLE}"
        )


def _make_private(place: Path, status: os.stat_result) -> None:
    _refuse_common_folder(place, status)
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _check_owner("the home", place, os.fstat(descriptor))
        if exposed := others_may_write(status):
            _refuse_content(place, descriptor)
        os.fchmod(descriptor, status.st_mode & 0o700)
        if exposed and os.listdir(descriptor):  # noqa: PTH208 - put there just before it was closed
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode))  # so that the next run refuses it too
            _refuse_content(place, descriptor)
        if os.fstat(descriptor).st_mode & 0o077:  # some file systems ignore modes
            raise StoreUnusable(
                f"the home {str(place)!r} stays open to other users whatever its mode; {_ELSEWHERE[3:]}"
            )
    finally:
        os.close(descriptor)


def find_home_faults(home: Path) -> Iterator[OwnershipFault]:
    """Yield what others could have changed about an existing home: its place, the directory, the files in it.

    Raises:
        OSError: It cannot be examined.
    """
    place = home.resolve()
    if (fault := find_exposed_parent(place)) is not None:
        yield fault
    status = place.stat()
    with os.scandir(place) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    if others_may_write(status) and found:
        yield _describe_open_home(place, status)
    for entry in found:
        with suppress(FileNotFoundError):
            if (fault := find_fault(entry.path, entry.stat(follow_symlinks=False))) is not None:
                yield fault


def _describe_open_home(place: Path, status: os.stat_result) -> OwnershipFault:
    quoted, mode = shlex.quote(str(place)), stat.S_IMODE(status.st_mode)
    return OwnershipFault(
        what=f"other users may write the home {str(place)!r} (mode {mode:03o}), so what is in it could be theirs",
        remedy=f"list what is not yours: find {quoted} ! -user {os.geteuid()}; look at the rest, above all at "
        f"config.toml and mcp.json; then run: chmod -R go-w {quoted}",
    )


def _refuse_content(place: Path, descriptor: int) -> None:
    if os.listdir(descriptor):
        raise StoreUnusable(str(_describe_open_home(place, os.fstat(descriptor))))


def store_unusable_error(what: str, error: Exception) -> StoreUnusable:
    """Return an error that says why the system refused something, and what helps."""
    number = error.errno if isinstance(error, OSError) else None
    why = str(error) if number is None else _REASONS.get(number, os.strerror(number))
    return StoreUnusable(f"{what}: {why}")
