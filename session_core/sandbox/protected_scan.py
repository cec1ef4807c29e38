"""Find everything protected in some folders, at any depth, and what it leads to.

A walk looks into every folder once. After that it only asks the system whether a folder has changed since, by its
change time, which no program can set; about all of them at once (`folder_states`).
"""

import os
import stat
import time
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import compress
from typing import Final

import attrs

from session_core.sandbox.folder_states import FolderStates
from session_core.sandbox.folder_walk import is_beneath
from session_core.sandbox.openat import FOLDER_ONLY, open_beneath
from session_core.sandbox.protected_items import CODE_MEMBERS, ProtectedItem, look_at, stamp_content
from session_core.sandbox.protected_paths import (
    PACKAGE_FOLDERS,
    fold_member,
    home_guards,
    is_bare_repository,
    is_git_name,
    is_protected_name,
)
from session_core.sandbox.protected_targets import find_git_targets, read_start, trace_links

MAX_FOLDERS: Final = 50_000
"""Larger trees hold data rather than source; a walk through so many takes a second or two."""
MAX_PLAN_S: Final = 2.0
"""How long a walk may delay a command. What it has seen is remembered, so the next one gets further."""
MAX_MOUNTS: Final = 1_500
"""Bubblewrap accepts nine thousand arguments, a mount needs three, and sockets are hidden by mounts too."""
_MORE_TIME_S: Final = 8.0
"""Added for a folder whose end was reached before: it is no matter of a busy machine if this is not enough."""
_MAX_TREES: Final = 8
"""So many folders are remembered, as many as people work in at a time."""
_MAX_COMPLETE: Final = 64
"""Of so many folders it is remembered what was found in them; it is less than what `_MAX_TREES` bounds."""
_SETTLED_NS: Final = 2_000_000_000
"""A folder that changed more recently than this may change again within the resolution of its time stamp."""
_HEAD_BYTES: Final = 64


@attrs.frozen(kw_only=True)
class ProtectedState:
    """What is protected in some folders at one moment.

    Attributes:
        roots: The folders; none lies in another.
        items: Everything that is protected, by its path.
        targets: The part of it that others lead to, or that is protected by its place; its name may say nothing.
        missing: Places that are protected although nothing is there yet.
        members: Folders with some members of a repository in them, and these members.
        bare: Bare repositories, and their identities.
        unreadable: Folders that could not be read, and their state.
        incomplete: Why not everything was seen; None if it was.
        unvisited: Folders that were not seen, nor what lies in them.
        cut_short: Whether a bound ended the walk before it came to installed packages, in a folder whose end an earlier
            walk had reached.
        chosen, left_out: As for `find_protected`.
        by_name: Whether names were looked for.
    """

    roots: tuple[str, ...] = ()
    items: Mapping[str, ProtectedItem] = attrs.field(factory=dict)
    targets: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    members: Mapping[str, frozenset[str]] = attrs.field(factory=dict)
    bare: Mapping[str, tuple[int, int]] = attrs.field(factory=dict)
    unreadable: Mapping[str, tuple[int, int, int]] = attrs.field(factory=dict)
    incomplete: str | None = None
    unvisited: frozenset[str] = frozenset()
    cut_short: bool = False
    chosen: frozenset[str] = frozenset()
    left_out: frozenset[str] = frozenset()
    by_name: bool = True

    def mounts(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return what to mount read-only, and the folders around it that must not be renamed."""
        chosen: list[str] = []
        around: set[str] = set()
        # What is protected by its place first: a new name elsewhere is found after the run, a new place is not.
        for item in sorted(self.items.values(), key=lambda item: (item.path not in self.targets, item.path.count("/"))):
            if len(chosen) >= MAX_MOUNTS:
                break
            if item.kind not in {"folder", "file"}:
                continue
            chosen.append(item.path)
            if item.path in self.targets:
                around.update(_folders_around(item.path, self.roots))
        for place in self.missing:
            around.update(folder for folder in _folders_around(place, self.roots) if os.path.isdir(folder))
        return tuple(sorted(chosen)), tuple(sorted(around - set(chosen)))


def find_protected(
    roots: Iterable[str],
    *,
    chosen: Collection[str] = (),
    homes: Iterable[str] = (),
    left_out: Collection[str] = (),
    by_name: bool = True,
    follow: bool = True,
    missing: Iterable[str] = (),
    seconds: float = MAX_PLAN_S,
    open_closed: Mapping[str, tuple[int, int, int]] | None = None,
) -> ProtectedState:
    """Look through folders.

    Args:
        roots: The folders, without links.
        chosen: Further folders that a person chose; none of them is protected by its own name.
        homes: Home directories, whose start files are protected.
        left_out: Folders to stay out of, since nobody can write there.
        by_name: Look for protected names, repositories and start files; otherwise only for `missing`.
        follow: Add what the things found lead to.
        missing: Further places where nothing may appear.
        seconds: How long it may take.
        open_closed: Make folders readable that cannot be read, unless they were in this very state before.
    """
    all_roots = tuple(dict.fromkeys(roots))
    tops = tuple(
        root for root in all_roots if not any(root != each and is_beneath(root, (each,)) for each in all_roots)
    )
    scan = _ProtectedScan(tops, frozenset((*all_roots, *chosen)), frozenset(left_out), open_closed)
    if by_name:
        deadline = time.monotonic() + seconds
        for top in tops:
            with suppress(FileNotFoundError, NotADirectoryError):
                scan.walk(top, deadline + _MORE_TIME_S if follow and top in _complete else deadline, remember=follow)
        if follow:
            scan.follow_all(homes, all_roots)
    for place in missing:
        scan.add_place(place)
    return attrs.evolve(scan.state(), by_name=by_name)


def _folders_around(place: str, roots: Sequence[str]) -> Iterator[str]:
    folder = os.path.dirname(place)
    while len(folder) > 1 and folder not in roots and is_beneath(folder, roots):
        yield folder
        folder = os.path.dirname(folder)


# --- walking ----------------------------------------------------------------------------------------------------------


_Waiting = tuple[str, str, bool]
"""A folder to look into: its path, its path relative to the root, and whether it lies among packages."""


class _FolderLook:
    """What is of interest in one folder, and the state of the folder just before that was seen."""

    __slots__ = ("changed_ns", "disk", "folders", "members", "number", "protected")

    def __init__(self, path: str, relative: str, opened: int) -> None:
        """Read the folder of this path, which is already open.

        Raises:
            PermissionError: The entries of the folder cannot be inspected.
        """
        found = os.stat(os.curdir, dir_fd=opened)
        self.disk, self.number, self.changed_ns = found.st_dev, found.st_ino, found.st_ctime_ns
        folders: list[_Waiting] = []
        above = path.rstrip("/")
        start = "" if relative == os.curdir else f"{relative}/"
        protected: list[str] = []
        members: list[str] = []
        with os.scandir(opened) as entries:
            for entry in entries:
                name = entry.name
                if is_protected_name(name):
                    protected.append(name)
                    continue
                if (member := fold_member(name)) is not None:
                    members.append(member)
                if entry.is_dir(follow_symlinks=False):
                    folders.append((f"{above}/{name}", f"{start}{name}", name in PACKAGE_FOLDERS))
        self.folders = folders
        self.protected = tuple(protected)
        self.members = tuple(members)


def _read_folder(path: str, relative: str, root: int) -> _FolderLook:
    """Read a folder; if another is put in its place meanwhile, the result is still about the one that was read."""
    opened = os.open(relative, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
    try:
        return _FolderLook(path, relative, opened)
    finally:
        os.close(opened)


class _FinishedWalk:
    """A walk from a root that reached its end and found no folder that had just changed."""

    def __init__(self, seen: Sequence[tuple[_Waiting, _FolderLook]], around: tuple[frozenset[str], ...]) -> None:
        """Take the folders in their order, and what else decided which ones they are."""
        self.looks = [(waiting[0], look) for waiting, look in seen]
        self.states = FolderStates([(each[1], look.disk, look.number, look.changed_ns) for each, look in seen])
        self.of_interest = [(waiting, look) for waiting, look in seen if look.protected or look.members]
        self.around = around


class _KnownTree:
    """What is remembered of a root: what was seen in its folders, and the latest walk that was finished."""

    def __init__(self) -> None:
        self.looks: dict[str, _FolderLook] = {}
        self.finished: _FinishedWalk | None = None


_trees: "OrderedDict[str, _KnownTree]" = OrderedDict()
"""By root."""
_complete: "OrderedDict[str, frozenset[str]]" = OrderedDict()
"""What the latest walk to plan a run found that reached the end, by root."""


@attrs.frozen
class _Root:
    """Where a walk begins: the folder's path, its descriptor, and which folders beneath it to stay out of."""

    top: str
    opened: int
    left_out: frozenset[str]


class _ProtectedScan:
    """One search through some folders."""

    def __init__(
        self,
        tops: tuple[str, ...],
        chosen: frozenset[str],
        left_out: frozenset[str],
        open_closed: Mapping[str, tuple[int, int, int]] | None,
    ) -> None:
        self._tops = tops
        self._chosen = chosen
        self._left_out = left_out
        self._open_closed = open_closed
        self._items: dict[str, ProtectedItem] = {}
        self._targets: set[str] = set()
        self._missing: set[str] = set()
        self._members: dict[str, frozenset[str]] = {}
        self._bare: dict[str, tuple[int, int]] = {}
        self._unreadable: dict[str, tuple[int, int, int]] = {}
        self._incomplete: str | None = None
        self._unvisited: set[str] = set()
        self._is_cut = False
        self._cut_short = False

    def state(self) -> ProtectedState:
        state = ProtectedState(
            roots=self._tops,
            items=self._items,
            targets=frozenset(self._targets),
            missing=frozenset(self._missing),
            members=self._members,
            bare=self._bare,
            unreadable=self._unreadable,
            incomplete=self._incomplete,
            unvisited=frozenset(self._unvisited),
            cut_short=self._cut_short,
            chosen=self._chosen,
            left_out=self._left_out,
        )
        if len(self._items) > MAX_MOUNTS:
            mounted = frozenset(state.mounts()[0])
            for path, item in self._items.items():
                if path not in mounted and item.kind in {"folder", "file"}:
                    self._items[path] = attrs.evolve(item, stamp=stamp_content(item))
        return state

    def walk(self, top: str, deadline: float, *, remember: bool) -> None:
        """Look through a folder, the uppermost levels first: what people open lies there; installed packages last."""
        unvisited, self._is_cut = len(self._unvisited), False
        tree = _trees.setdefault(top, _KnownTree())
        # Relative to a descriptor, the system walks shorter paths.
        opened = os.open(top, FOLDER_ONLY | os.O_CLOEXEC)
        try:
            count = self._walk_again(top, opened, tree, deadline)
        finally:
            os.close(opened)
        if len(self._unvisited) > unvisited:
            self._add_known(top)
        elif remember:
            self._remember(top)
        if len(tree.looks) > 2 * count + 1_000:  # most of them are gone
            tree.looks.clear()
        with suppress(KeyError):
            _trees.move_to_end(top)
            while len(_trees) > _MAX_TREES:
                _trees.popitem(last=False)

    def _remember(self, top: str) -> None:
        _complete[top] = frozenset(path for path in self._items if is_beneath(path, (top,)))
        with suppress(KeyError):
            _complete.move_to_end(top)
            while len(_complete) > _MAX_COMPLETE:
                _complete.popitem(last=False)

    def _add_known(self, top: str) -> None:
        """Add what an earlier walk found, as a program could make so many folders that this one does not get there."""
        known = _complete.get(top)
        self._cut_short = self._cut_short or (known is not None and self._is_cut)
        for path in known or ():
            folder = os.path.dirname(path)
            if path in self._items or path in self._chosen or is_beneath(path, self._left_out):
                continue
            if os.path.realpath(folder) == folder and (item := look_at(path)) is not None:
                self._items[path] = item

    def _walk_again(self, top: str, opened: int, tree: _KnownTree, deadline: float) -> int:
        """Return how many folders were seen; those that have not changed since the latest walk are not looked into."""
        left_out = frozenset(path for path in self._left_out if is_beneath(path, (top,)))
        around, before = (left_out, self._chosen), tree.finished
        unchanged: dict[str, _FolderLook] = {}
        if before is not None:
            now = time.monotonic()
            same = before.states.find_unchanged(opened, now + (deadline - now) / 2)
            if before.around == around and len(before.looks) <= MAX_FOLDERS and sum(same) == len(before.looks):
                for waiting, look in before.of_interest:
                    self._add_look(waiting, look, [])
                return len(before.looks)
            unchanged = dict(compress(before.looks, same))
        count, seen = self._walk_levels(_Root(top, opened, left_out), tree.looks, unchanged, deadline)
        if len(seen) == count:
            tree.finished = _FinishedWalk(seen, around)
        return count

    def _walk_levels(
        self, root: _Root, looks: dict[str, _FolderLook], unchanged: Mapping[str, _FolderLook], deadline: float
    ) -> tuple[int, list[tuple[_Waiting, _FolderLook]]]:
        """Return how many folders were seen, and those that can be known again."""
        get_status, opened, left_out = os.stat, root.opened, root.left_out
        settled_ns = time.time_ns() - _SETTLED_NS
        seen: list[tuple[_Waiting, _FolderLook]] = []
        level = [(root.top, ".", False)]
        packages: list[_Waiting] = []
        count = 0
        while level or packages:
            if not level:
                level, packages = packages, []
            below: list[_Waiting] = []
            for number, waiting in enumerate(level):
                path, relative, package = waiting
                count += 1
                if count > MAX_FOLDERS or (count % 256 == 0 and time.monotonic() > deadline):
                    many = f"it has more than {MAX_FOLDERS:,} folders"
                    self._incomplete = many if count > MAX_FOLDERS else "reading it takes too long"
                    self._unvisited.update(each for each, _, _ in (*level[number:], *below, *packages))
                    self._is_cut = not package  # whoever installs very many packages can go on working
                    below.clear()
                    packages.clear()
                    break
                look = unchanged.get(path)
                try:
                    if look is None:
                        found = (
                            get_status(relative, dir_fd=opened, follow_symlinks=False)
                            if count > 1
                            else os.fstat(opened)  # of the root itself, also if nobody may enter it
                        )
                        look = looks.get(path)
                        if look is None or not (
                            look.changed_ns == found.st_ctime_ns
                            and look.number == found.st_ino
                            and look.disk == found.st_dev
                        ):
                            looks.pop(path, None)
                            if (look := self._look_into(path, relative, opened, found)) is None:
                                continue
                            if look.changed_ns < settled_ns:
                                looks[path] = look
                except (FileNotFoundError, NotADirectoryError):  # removed just now
                    continue
                except OSError as error:
                    self._incomplete = f"{path[:200]!r} cannot be read: {error.strerror or error}"
                    self._unvisited.add(path)
                    continue
                if look.changed_ns < settled_ns:
                    seen.append((waiting, look))
                if package:
                    below += [(each, name, True) for each, name, _ in look.folders if each not in left_out]
                elif left_out:
                    below += [each for each in look.folders if each[0] not in left_out]
                else:
                    below += look.folders
                if look.protected or look.members:
                    self._add_look(waiting, look, below)
            level = [each for each in below if not each[2]]
            packages += [each for each in below if each[2]]
        return count, seen

    def _add_look(self, waiting: _Waiting, look: _FolderLook, below: list[_Waiting]) -> None:
        path, relative, package = waiting
        if look.protected:
            self._add_named(path, relative, look.protected, below, package=package)
        if look.members:
            self._add_members(path, look.members, (look.disk, look.number))

    def _look_into(self, path: str, relative: str, opened: int, found: os.stat_result) -> _FolderLook | None:
        if not stat.S_ISDIR(found.st_mode):  # swapped for a link
            return None
        with suppress(PermissionError):
            return _read_folder(path, relative, opened)
        state = (found.st_dev, found.st_ino, found.st_ctime_ns)
        if self._open_closed is not None and self._open_closed.get(path) != state:
            # A program may have closed it to keep what it made there from being found.
            with suppress(OSError):
                is_root = relative == os.curdir
                closed = os.dup(opened) if is_root else open_beneath(opened, relative, FOLDER_ONLY, follow=False)
                try:
                    os.chmod(f"/proc/self/fd/{closed}", stat.S_IMODE(os.fstat(closed).st_mode) | stat.S_IRWXU)
                finally:
                    os.close(closed)
                return _read_folder(path, relative, opened)
            self._incomplete = f"{path[:200]!r} cannot be read"
        self._unreadable[path] = state
        return None

    def _add_named(
        self, folder: str, relative: str, names: Iterable[str], below: list[_Waiting], *, package: bool
    ) -> None:
        for name in names:
            path = os.path.join(folder, name)
            if path in self._chosen:
                below.append((path, os.path.join(relative, name), package))
            elif (not package or is_git_name(name)) and path not in self._left_out:
                if (item := look_at(path)) is not None:
                    self._items[path] = item
                    if package and item.kind == "folder":
                        continue
            elif package:
                below.append(
                    (path, os.path.join(relative, name), package)
                )  # a package's `.vscode` may hold a repository

    def _add_members(self, folder: str, names: Iterable[str], identity: tuple[int, int]) -> None:
        members = frozenset(names)
        self._members[folder] = members
        if not is_bare_repository(members) or not _is_head(os.path.join(folder, "HEAD")):
            return
        self._bare[folder] = identity
        for name in CODE_MEMBERS:
            path = os.path.join(folder, name)
            if (item := look_at(path)) is not None:
                self._items[path] = item
            elif name in {"config.worktree", "commondir", "hooks", "config"}:
                self._missing.add(path)

    # --- what they lead to --------------------------------------------------------------------------------------------

    def follow_all(self, homes: Iterable[str], roots: Sequence[str]) -> None:
        """Add what the things found lead to, and the start files of home directories."""
        for item in tuple(self._items.values()):
            place = item.path
            if item.kind == "link":
                place = self.add_place(item.path, by_name=True)
            if is_git_name(os.path.basename(item.path)):
                for target in find_git_targets(place):
                    self.add_place(target)
        for folder in self._bare:
            for target in find_git_targets(folder, bare=True):
                self.add_place(target)
        for home, path in home_guards(roots, homes):
            self.add_place(os.path.join(home, path.rstrip("/")))

    def add_place(self, path: str, *, by_name: bool = False) -> str:
        """Protect a place and the links on the way to it, as far as they lie in the folders; return the place."""
        links, place = trace_links(path)
        for link in links:
            if (not by_name or link != path) and is_beneath(link, self._tops) and (item := look_at(link)) is not None:
                self._items[link] = item
                self._targets.add(link)
        if not is_beneath(place, self._tops) or is_beneath(place, self._left_out):
            return place
        if place in self._items or any(folder in self._items for folder in _folders_around(place, self._tops)):
            return place  # it is protected already
        if place in self._chosen and place not in self._tops:
            return place
        if (item := look_at(place)) is not None:
            self._items[place] = item
            self._targets.add(place)
        else:
            self._missing.add(place)
        return place


def _is_head(path: str) -> bool:
    """Return whether git takes this for the head of a repository."""
    with suppress(OSError):
        if os.path.islink(path):
            return os.readlink(path).startswith("refs/")
        start = read_start(path, _HEAD_BYTES, follow=False).lstrip()
        return start.startswith(b"ref:") or (
            len(start) >= 40 and all(each in b"0123456789abcdef" for each in start[:40].lower())
        )
    return False
