"""Whether other users could have written a file: what steers this program is obeyed only if they could not.

Settings, servers, grants, skills and instructions decide what is run and where keys are sent. So each of them counts
only if it belongs to us, or to root, and nobody else may write it. The group that exists for one user alone, which many
systems give to every file of that user, is nobody else.

All of this blocks, but only briefly.
"""

import grp
import os
import pwd
import shlex
import stat
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

import attrs

from session_core.errors import StoreUnusable

_HIDDEN_OWNER: Final = 65_534
"""The owner that a shared disk or a container shows for users that it does not know."""
_MAX_ENTRIES: Final = 20_000


@attrs.frozen(kw_only=True)
class OwnershipFault:
    """Why others could have written a file or directory, and the command that puts it right."""

    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}"


class WritableByOthers(StoreUnusable):
    """A file is not obeyed because other users could have written it; the message names it and a remedy."""


def describe_user(uid: int) -> str:
    """Return a user as people know it."""
    if uid == _HIDDEN_OWNER:
        return f"a user that is not known here ({uid}: a shared disk or a container may hide the owner)"
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"


def others_may_write(status: os.stat_result) -> bool:
    """Return whether a mode lets other users write, or change what is in a directory."""
    return bool(status.st_mode & stat.S_IWOTH) or _group_may_write(status)


def _group_may_write(status: os.stat_result) -> bool:
    return bool(status.st_mode & stat.S_IWGRP) and not _is_own_group(os.geteuid(), status.st_gid)


@lru_cache(maxsize=64)
def _is_own_group(uid: int, gid: int) -> bool:
    """Return whether a group exists for this user alone: it has the user's name, and no other members."""
    try:
        user, group = pwd.getpwuid(uid), grp.getgrgid(gid)
    except KeyError:
        return False
    return gid == user.pw_gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def find_fault(path: Path | str, status: os.stat_result) -> OwnershipFault | None:
    """Return why an opened file, or a directory, could have been written by others; None if only we or root could.

    A link has no mode of its own, and in a sticky directory others can exchange only what is theirs.
    """
    quoted, us = shlex.quote(str(path)), os.geteuid()
    if status.st_uid not in {0, us}:
        return OwnershipFault(
            what=f"{str(path)!r} belongs to {describe_user(status.st_uid)}, and you are {describe_user(us)}",
            remedy=f"look at it, and if it is yours, run: chown {us} {quoted}",
        )
    kept_apart = stat.S_ISLNK(status.st_mode) or (stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX)
    if others_may_write(status) and not kept_apart:
        return OwnershipFault(
            what=f"other users may write {str(path)!r} (mode {stat.S_IMODE(status.st_mode):03o})",
            remedy=f"look at it, then run: chmod go-w {quoted}",
        )
    return None


def refuse_fault(path: Path | str, status: os.stat_result) -> None:
    """Refuse a file or directory that others could have written.

    Raises:
        WritableByOthers: They could.
    """
    if (fault := find_fault(path, status)) is not None:
        raise WritableByOthers(str(fault))


def refuse_writable_by_others(path: Path | str, *, beneath: Path | str) -> None:
    """Refuse a file that others could have written, or exchanged in a directory on the way to it.

    A file that is missing is not refused. Links are followed; where they lead is checked like a path of its own.

    Raises:
        WritableByOthers: They could.
        OSError: A directory on the way cannot be examined.
    """
    real, top = Path(os.path.realpath(path)), Path(os.path.realpath(beneath))
    way = [real, *real.parents]
    if real.is_relative_to(top):
        way = way[: way.index(top) + 1]
    else:
        way = way[:2]
    for each in reversed(way):
        try:
            refuse_fault(each, each.lstat())
        except FileNotFoundError:
            return


def find_fault_in_folder(folder: Path, *, without: str | None = None) -> OwnershipFault | None:
    """Return the first file or directory in a folder that others could have written, `without` one at its top.

    Raises:
        OSError: It cannot be searched, or holds too much.
    """
    if (fault := find_fault(folder, folder.stat())) is not None:
        return fault
    for path, status in _walk(folder, without):
        if (fault := find_fault(path, status)) is not None:
            return fault
    return None


def _walk(folder: Path, without: str | None) -> Iterator[tuple[str, os.stat_result]]:
    top = str(folder)
    waiting, count = [top], 0
    while waiting:
        place = waiting.pop()
        with os.scandir(place) as entries:
            for entry in entries:
                if place == top and entry.name == without:
                    continue
                count += 1
                if count > _MAX_ENTRIES:
                    raise OSError(f"it holds more than {_MAX_ENTRIES:,} files")
                status = entry.stat(follow_symlinks=False)
                yield entry.path, status
                if stat.S_ISDIR(status.st_mode):
                    waiting.append(entry.path)


def find_exposed_parent(place: Path) -> OwnershipFault | None:
    """Return the directory above in which other users could exchange this one; None if there is none.

    A sticky directory, such as /tmp, keeps them from that. So does one further up that they cannot enter.
    """
    group_may_enter = all_may_enter = True
    for above in reversed(place.parents):
        try:
            status = above.stat()
        except OSError:
            return None  # then it cannot be used either
        mode = status.st_mode
        by_all = mode & stat.S_IWOTH and all_may_enter
        by_group = _group_may_write(status) and status.st_gid != 0 and group_may_enter
        if (by_all or by_group) and not mode & stat.S_ISVTX:
            return OwnershipFault(
                what=f"other users could exchange {str(place)!r}, because they may write {str(above)!r} "
                f"(mode {stat.S_IMODE(mode):03o})",
                remedy=f"run: chmod go-w {shlex.quote(str(above))}",
            )
        group_may_enter = group_may_enter and bool(mode & (stat.S_IXGRP | stat.S_IXOTH))
        all_may_enter = all_may_enter and bool(mode & stat.S_IXOTH)
    return None
