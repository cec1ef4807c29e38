"""Set things aside: rename them out of a folder that hostile programs may still be changing, and restore links.

Nothing is deleted, also not with its session, and no link is followed. Each step starts from a descriptor of the folder
and goes down by names, so nothing outside the folder is touched, whatever is swapped for whatever meanwhile.
"""

import errno
import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from session_core.sandbox.openat import FOLDER_ONLY, open_beneath

_ASIDE_FOLDER: Final = "set-aside"
"""Beside the folder of all outputs: what a session has moved outlives it."""
DISARMED_HEAD: Final = "HEAD.set-aside"
_MAX_NAME: Final = 50
"""A letter may take four bytes, and a name has at most 255."""


class SetAside(NamedTuple):
    """Where something is now, and whether it was a repository whose `HEAD` has got another name, `DISARMED_HEAD`."""

    path: str
    is_disarmed: bool


def aside_folder(outputs: str) -> str:
    """Return where a session keeps what is set aside, by its folder of outputs: `outputs/ID` gives `set-aside/ID`."""
    folder, session = os.path.split(outputs.rstrip("/"))
    return os.path.join(os.path.dirname(folder), _ASIDE_FOLDER, session)


def set_aside(root: str, path: str, outputs: str | None) -> SetAside | None:
    """Rename what is at `path`, beneath `root`, and return where it is now; None if it is gone.

    It goes into the `aside_folder` of the session with these outputs, or where that is on another disk or missing, gets
    another name in its place.

    Raises:
        OSError: It cannot be renamed.
    """
    try:
        with _open_parent(root, path) as (folder, name):
            return _move(folder, name, path, aside_folder(outputs) if outputs is not None else None)
    except (FileNotFoundError, NotADirectoryError):
        return None


def restore_link(root: str, path: str, text: str) -> bool:
    """Make a link again that was removed; return false if the folder around it is gone.

    Raises:
        OSError: It cannot be made.
    """
    try:
        with _open_parent(root, path) as (folder, name):
            with _granting_rights(folder):
                os.symlink(text, name, dir_fd=folder)
            return True
    except (FileNotFoundError, NotADirectoryError):
        return False


@contextmanager
def _open_parent(root: str, path: str) -> Generator[tuple[int, str]]:
    relative = os.path.relpath(path, root)
    above, name = os.path.split(relative)
    if not name or name == os.pardir or relative.startswith(os.pardir + "/"):
        raise OSError(errno.EXDEV, "it is not in the folder", path)
    start = os.open(root, FOLDER_ONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        folder = open_beneath(start, above, FOLDER_ONLY, follow=False)
    finally:
        os.close(start)
    try:
        yield folder, name
    finally:
        os.close(folder)


def _move(folder: int, name: str, path: str, aside: str | None) -> SetAside:
    mark = secrets.token_hex(4)
    if aside is not None:
        new = f"{name.lstrip('.')[:_MAX_NAME] or 'unnamed'}-{mark}"
        try:
            opened = _open_aside(aside)
        except OSError:
            opened = None
        if opened is not None:
            try:
                _rename(folder, name, new, opened)
                return SetAside(os.path.join(aside, new), _disarm(opened, new))
            except OSError as error:
                if error.errno not in {errno.EXDEV, errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM}:
                    raise
            finally:
                os.close(opened)
    new = f"{name[:_MAX_NAME]}.set-aside-{mark}"
    _rename(folder, name, new, folder)
    return SetAside(os.path.join(os.path.dirname(path), new), _disarm(folder, new))


def _disarm(folder: int, name: str) -> bool:
    """Keep git from taking a set aside folder for a repository when somebody enters it to look; return if it would."""
    with suppress(OSError):
        inside = os.open(name, FOLDER_ONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.rename("HEAD", DISARMED_HEAD, src_dir_fd=inside, dst_dir_fd=inside)
        finally:
            os.close(inside)
        return True
    return False


def _open_aside(aside: str) -> int:
    for folder in (os.path.dirname(aside), aside):
        os.makedirs(folder, mode=0o700, exist_ok=True)
    return os.open(aside, FOLDER_ONLY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _rename(folder: int, name: str, new: str, to: int) -> None:
    try:
        os.rename(name, new, src_dir_fd=folder, dst_dir_fd=to)
    except PermissionError:
        # Who took the right to write from a folder meant to keep it here.
        with _granting_rights(folder):
            if to != folder:
                _grant_rights_to(folder, name)
            os.rename(name, new, src_dir_fd=folder, dst_dir_fd=to)


@contextmanager
def _granting_rights(folder: int) -> Generator[None]:
    """Let us change this folder within the block."""
    before = stat.S_IMODE(os.fstat(folder).st_mode)
    missing = before & stat.S_IRWXU != stat.S_IRWXU
    if missing:
        with suppress(OSError):
            os.chmod(f"/proc/self/fd/{folder}", before | stat.S_IRWXU)
    try:
        yield
    finally:
        if missing:
            with suppress(OSError):
                os.chmod(f"/proc/self/fd/{folder}", before)


def _grant_rights_to(folder: int, name: str) -> None:
    """Let us move a folder to another one, for which it must be writable itself."""
    with suppress(OSError):
        descriptor = os.open(name, FOLDER_ONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.chmod(f"/proc/self/fd/{descriptor}", stat.S_IMODE(os.fstat(descriptor).st_mode) | stat.S_IRWXU)
        finally:
            os.close(descriptor)
