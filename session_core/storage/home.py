"""The home directory: its location, and its privacy.

All of this blocks: call it in a worker thread.
"""

import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from session_core.errors import StoreUnusable
from session_core.storage.ownership import OwnershipFault, find_exposed_parent, find_fault, others_may_write
from session_core.storage.private_files import ELSEWHERE, HOME_VARIABLE, check_owner, store_unusable_error


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


def _follow_own_link(place: Path) -> Path:
    if not place.is_symlink():
        return place
    if place.lstat().st_uid not in {0, os.geteuid()}:
        raise StoreUnusable(f"the home {str(place)!r} is a link that another user made; remove it, {ELSEWHERE}")
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


def _check_place(home: Path, place: Path, status: os.stat_result) -> None:
    """Refuse a home that is no directory, is not ours, or could be exchanged by others."""
    if not stat.S_ISDIR(status.st_mode):
        raise StoreUnusable(f"the home {str(place)!r} is not a folder; move it away, {ELSEWHERE}")
    check_owner("the home", place, status)
    if (fault := find_exposed_parent(home.absolute()) or find_exposed_parent(place.resolve())) is not None:
        raise StoreUnusable(f"the home cannot be used: {fault}, {ELSEWHERE}")


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
        check_owner("the home", place, os.fstat(descriptor))
        if exposed := others_may_write(status):
            _refuse_content(place, descriptor)
        os.fchmod(descriptor, status.st_mode & 0o700)
        if exposed and os.listdir(descriptor):  # noqa: PTH208 - put there just before it was closed
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode))  # so that the next run refuses it too
            _refuse_content(place, descriptor)
        if os.fstat(descriptor).st_mode & 0o077:  # some file systems ignore modes
            raise StoreUnusable(f"the home {str(place)!r} stays open to other users whatever its mode; {ELSEWHERE[3:]}")
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
