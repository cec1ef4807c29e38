"""One protected thing on the disk: what it is, and whether it is still the same."""

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Final, Literal

import attrs

from session_core.sandbox.protected_paths import is_git_name
from session_core.sandbox.protected_targets import read_git_pointers, read_start

CODE_MEMBERS: Final = ("config", "config.worktree", "hooks", "commondir", "worktrees", "modules")
"""The members of a bare repository from which git runs code, or which say where it finds them."""
_MAX_STAMPED: Final = 64
_MAX_STAMPED_BYTES: Final = 1_000_000

ItemKind = Literal["folder", "file", "link", "other"]


@attrs.frozen
class ProtectedItem:
    """Something protected as it was found.

    Attributes:
        path: Where it is; no folder on the way is a link.
        kind: What it is.
        identity: Its device and number.
        link: The text of a link.
        stamp: Changes with its content; only for what no mount keeps unchanged.
        leads_to: The identity of what a link or a `.git` file leads to, if that exists.
    """

    path: str
    kind: ItemKind
    identity: tuple[int, int]
    link: str | None = None
    stamp: str | None = attrs.field(default=None, eq=False)
    leads_to: tuple[int, int] | None = attrs.field(default=None, eq=False)

    @property
    def can_move(self) -> bool:
        """Whether it stays what it is when a folder around it is renamed; what names other paths may not."""
        return self.kind == "folder" or (self.kind == "file" and not is_git_name(os.path.basename(self.path)))

    def is_moved_to(self, now: "ProtectedItem") -> bool:
        """Return whether this is the same at another place: what names other paths must still lead to the same."""
        if self.kind != now.kind or self.identity != now.identity or self.link != now.link:
            return False
        return self.can_move or (self.leads_to is not None and self.leads_to == now.leads_to)


def look_at(path: str) -> ProtectedItem | None:
    """Return what is at a path now, if anything is."""
    try:
        found = os.lstat(path)
        link = os.readlink(path) if stat.S_ISLNK(found.st_mode) else None
    except (OSError, ValueError):
        return None
    kind: ItemKind = (
        "link"
        if link is not None
        else "folder"
        if stat.S_ISDIR(found.st_mode)
        else "file"
        if stat.S_ISREG(found.st_mode)
        else "other"
    )
    # Whoever has another name of a file can change it behind the mount.
    stamp = _digest(path) if kind == "file" and found.st_nlink > 1 else None
    return ProtectedItem(path, kind, (found.st_dev, found.st_ino), link, stamp, _follow(path, kind))


def _follow(path: str, kind: ItemKind) -> tuple[int, int] | None:
    target = path
    if kind == "file" and is_git_name(os.path.basename(path)):
        target = next(iter(read_git_pointers(path)), path)
    elif kind != "link":
        return None
    try:
        found = os.stat(target)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def is_unchanged(before: ProtectedItem, now: ProtectedItem) -> bool:
    """Return whether what is at a path now is what was there."""
    if before.kind != now.kind or before.link != now.link:
        return False
    if before.kind == "link":
        return True
    if before.identity != now.identity:
        return False
    return before.stamp is None or before.stamp == stamp_content(now)


def stamp_content(item: ProtectedItem) -> str:
    """Return a text that changes when something in it that runs code changes; for what no mount keeps unchanged."""
    if item.kind != "folder":
        return _digest(item.path)
    # Git itself rewrites other files of its folder all the time, such as the index.
    names: Sequence[str] = CODE_MEMBERS
    with suppress(OSError):
        if not is_git_name(os.path.basename(item.path)):
            names = sorted(os.listdir(item.path))
        places = [os.path.join(item.path, name) for name in names]
        places += [os.path.join(item.path, "hooks", name) for name in sorted(_list(os.path.join(item.path, "hooks")))]
        return " ".join(_digest(place) for place in places[:_MAX_STAMPED])
    return ""


def _list(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _digest(path: str) -> str:
    """Return what identifies the content of a file; of anything else, whether it is there."""
    try:
        return sha256(read_start(path, _MAX_STAMPED_BYTES, follow=False)).hexdigest()
    except OSError as error:
        return str(error.errno)
