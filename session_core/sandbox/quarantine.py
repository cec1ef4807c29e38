"""Set things aside: rename them out of a folder that hostile programs may still be changing, and restore links.

Nothing is deleted, also not with its session, and no link is followed. Each step starts from a descriptor of the folder
and goes down by names, so nothing outside the folder is touched, whatever is swapped for whatever meanwhile.
"""

import errno
import math
import os
import secrets
import stat
import time
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from typing import Final, NamedTuple

from session_core.sandbox.openat import FOLDER_ONLY, open_beneath

_ASIDE_FOLDER: Final = "set-aside"
"""Beside the folder of all outputs: what a session has moved outlives it."""
DISARMED_HEAD: Final = "HEAD.set-aside"
MAX_FOLDERS: Final = 20_000
"""So many folders of one thing are searched for repositories; they also bound the paths in memory."""
_MAX_NAME: Final = 50
"""A letter may take four bytes, and a name has at most 255."""


class SetAside(NamedTuple):
    """Where something is now, what was renamed in it so that git takes nothing there for a repository, and the rest.

    `disarmed` has the new names, relative to `path`; `unseen` says why not all could be looked at, if so.
    """

    path: str
    disarmed: tuple[str, ...] = ()
    unseen: str | None = None


def aside_folder(outputs: str) -> str:
    """Return where a session keeps what is set aside, by its folder of outputs: `outputs/ID` gives `set-aside/ID`."""
    folder, session = os.path.split(outputs.rstrip("/"))
    return os.path.join(os.path.dirname(folder), _ASIDE_FOLDER, session)


def set_aside(root: str, path: str, outputs: str | None, *, deadline: float = math.inf) -> SetAside | None:
    """Rename what is at `path`, beneath `root`, and return where it is now; None if it is gone.

    Repositories in it are looked for until the deadline, in the time of `time.monotonic`.

    It goes into the `aside_folder` of the session with these outputs, or where that is on another disk or missing, gets
    another name in its place.

    Raises:
        OSError: It cannot be renamed.
    """
    try:
        with _open_parent(root, path) as (folder, name):
            return _move(folder, name, path, aside_folder(outputs) if outputs is not None else None, deadline)
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


def _move(folder: int, name: str, path: str, aside: str | None, deadline: float) -> SetAside:
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
                return SetAside(os.path.join(aside, new), *_disarm(opened, new, deadline))
            except OSError as error:
                if error.errno not in {errno.EXDEV, errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM}:
                    raise
            finally:
                os.close(opened)
    new = f"{name[:_MAX_NAME]}.set-aside-{mark}"
    _rename(folder, name, new, folder)
    return SetAside(os.path.join(os.path.dirname(path), new), *_disarm(folder, new, deadline))


def _disarm(folder: int, name: str, deadline: float) -> tuple[tuple[str, ...], str | None]:
    """Keep git from taking a set aside folder, or one in it, for a repository when somebody enters it to look."""
    renamed: list[str] = []
    try:
        start = os.open(name, FOLDER_ONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        return (), _describe_unseen(error)
    unseen: str | None = None
    pending, seen = [""], 0
    try:
        while pending:
            if time.monotonic() > deadline:
                unseen = "reading it takes too long"
                break
            path = pending.pop()
            seen += 1
            try:
                with closing(_disarm_one(start, path, renamed)) as folders:
                    for below in folders:
                        if seen + len(pending) >= MAX_FOLDERS:
                            unseen = f"it has more than {MAX_FOLDERS:,} folders"
                            break
                        pending.append(below)
            except OSError as error:
                unseen = _describe_unseen(error) or unseen
    finally:
        os.close(start)
    return tuple(renamed), unseen


def _describe_unseen(error: OSError) -> str | None:
    has_gone = error.errno in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}  # or it is no folder, or none any more
    return None if has_gone else f"{error.strerror or error}"


def _disarm_one(start: int, path: str, renamed: list[str]) -> Generator[str]:
    """Disarm one folder beneath another, and yield those in it."""
    folder = open_beneath(start, path, FOLDER_ONLY, follow=False)
    try:
        mode = stat.S_IMODE(os.fstat(folder).st_mode)
        if mode & (stat.S_IRUSR | stat.S_IXUSR) != stat.S_IRUSR | stat.S_IXUSR:
            with suppress(OSError):
                os.chmod(f"/proc/self/fd/{folder}", mode | stat.S_IRWXU)
        # A `.git` that is no folder leads to a repository; in the uppermost folder, any HEAD counts.
        pointer = _kind_of(folder, ".git")
        if pointer is not None and not stat.S_ISDIR(pointer):
            renamed.append(os.path.join(path, _disable(folder, ".git")))
        if _kind_of(folder, "HEAD") is not None and (not path or _has_parts_of_repository(folder)):
            renamed.append(os.path.join(path, _disable(folder, "HEAD")))
        listing = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        try:
            with os.scandir(listing) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        yield os.path.join(path, entry.name)
        finally:
            os.close(listing)
    finally:
        os.close(folder)


def _has_parts_of_repository(folder: int) -> bool:
    is_worktree = _kind_of(folder, "commondir") is not None
    return is_worktree or all(_kind_of(folder, each) is not None for each in ("objects", "refs"))


def _kind_of(folder: int, name: str) -> int | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None


def _disable(folder: int, name: str) -> str:
    """Rename something in a folder, so that git does not find it, and return its new name."""
    new = f"{name}.set-aside"
    if _kind_of(folder, new) is not None:
        new += f"-{secrets.token_hex(4)}"
    with _granting_rights(folder):
        os.rename(name, new, src_dir_fd=folder, dst_dir_fd=folder)
    return new


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
