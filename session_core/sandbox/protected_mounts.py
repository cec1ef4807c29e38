"""Determine how a sandbox keeps protected paths unchanged, whether or not they exist."""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from session_core.sandbox.folder_walk import is_beneath
from session_core.sandbox.mount_placeholders import CannotConfine, clear_leftovers, is_stand_in
from session_core.sandbox.protected_paths import HOME_PROTECTED, PROTECTED, home_guards, resolve_link_targets

_MAX_BESIDE: Final = 1_000
"""How many folders beside a link are made writable one by one."""


class ProtectedMounts:
    """The protected paths inside some writable folders, grouped by how the sandbox protects them.

    Attributes:
        present: Existing paths, which are mounted read-only.
        missing: Missing paths; a folder stands in for each.
        missing_files: Missing paths; a file stands in for each.
    """

    def __init__(self, roots: Sequence[str]) -> None:
        self.present: set[str] = set()
        self.missing: set[str] = set()
        self.missing_files: set[str] = set()
        self._roots = roots
        self._above: set[str] = set()
        self._frozen: set[str] = set()

    def add_projects(self, protected: Sequence[str]) -> None:
        """Guard these paths beneath each of the folders.

        Raises:
            CannotConfine: One of the paths is a link, which could be replaced.
        """
        for root in self._roots:
            for path in protected:
                self._add(root, path, folder=True)
                for place in resolve_link_targets(root, path):
                    self._add_place(place)

    def add_homes(self, homes: Iterable[str]) -> None:
        """Guard the start files of home directories that lie in one of the folders.

        These files are often links. Nothing can be mounted on a link, so the folder around it becomes read-only
        instead, and its subfolders are made writable again.
        """
        for home, path in home_guards(self._roots, homes):
            root = next(root for root in self._roots if is_beneath(os.path.join(home, path.rstrip("/")), (root,)))
            relative = os.path.relpath(os.path.join(home, path), root)
            self._add(root, relative, folder=path.endswith("/"), links=True)
            for place in resolve_link_targets(home, path):
                self._add_place(place)
        # A path that is missing in a read-only folder stays missing.
        self.missing = {path for path in self.missing if os.path.dirname(path) not in self._frozen}
        self.missing_files = {path for path in self.missing_files if os.path.dirname(path) not in self._frozen}

    def add_missing(self, places: Iterable[str]) -> None:
        """Guard places that would be hidden if they existed."""
        for place in places:
            self._add_place(place)

    def pinned(self) -> tuple[str, ...]:
        """Return the folders that must not be renamed, because something protected lies in them."""
        return tuple(sorted(self._above - self.present - self.missing))

    def folders_beside_links(self) -> tuple[str, ...]:
        """Return the folders that stay writable although the folder around them is read-only.

        Raises:
            CannotConfine: There are too many of them.
        """
        found = [path for folder in sorted(self._frozen) for path in _list_folders(folder) if path not in self._frozen]
        if len(found) > _MAX_BESIDE:
            raise CannotConfine(f"protected files are links, and there are more than {_MAX_BESIDE} folders beside them")
        return tuple(path for path in found if path not in self._roots)

    def _add_place(self, place: str) -> None:
        for root in self._roots:
            if place == root:
                self.present.add(root)
            elif is_beneath(place, (root,)):
                self._add(root, os.path.relpath(place, root), folder=True, links=True)

    def _add(self, root: str, path: str, *, folder: bool, links: bool = False) -> None:
        place = root
        names = [name for name in os.path.normpath(path).split("/") if name not in {"", "."}]
        for number, name in enumerate(names, start=1):
            place, around = os.path.join(place, name), place
            last = number == len(names)
            try:
                found = os.lstat(place)
            except FileNotFoundError:
                (self.missing if folder or not last else self.missing_files).add(place)
                return
            if stat.S_ISLNK(found.st_mode):
                if not links:
                    raise CannotConfine(f"{place!r} is protected, but it is a link, which a program could replace")
                self._frozen.add(around)
                self.present.add(around)
                return
            if last:
                self._add_present(place, found)
            elif is_stand_in(found):
                (self.missing if stat.S_ISDIR(found.st_mode) else self.missing_files).add(place)
                return
            elif stat.S_ISDIR(found.st_mode):
                self._above.add(place)
            else:
                self.present.add(place)
                return

    def _add_present(self, place: str, found: os.stat_result) -> None:
        # A path that may be another run's stand-in must not vanish before this run ends.
        if stat.S_ISDIR(found.st_mode) and not os.listdir(place):
            self.missing.add(place)
        elif is_stand_in(found):
            self.missing_files.add(place)
        else:
            self.present.add(place)


def _list_folders(folder: str) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))


def clear_stand_ins(root: str, homes: Iterable[str] = ()) -> None:
    """Remove the stand-ins that killed runs have left in a folder; never anything that people have made."""
    real = os.path.realpath(root)
    clear_leftovers(
        path
        for folder, paths in _iterate_protected_paths(real, homes)
        for path in _iterate_stand_in_paths(folder, paths)
    )


def _iterate_protected_paths(root: str, homes: Iterable[str]) -> Iterator[tuple[str, Sequence[str]]]:
    yield root, PROTECTED
    for home in homes:
        if is_beneath(home := os.path.realpath(home), (root,)):
            yield home, HOME_PROTECTED


def _iterate_stand_in_paths(folder: str, paths: Iterable[str]) -> Iterator[str]:
    """Yield each path, and each folder on the way to it, which may be its stand-in; the deepest first."""
    for path in paths:
        names = path.rstrip("/").split("/")
        for count in range(len(names), 0, -1):
            yield os.path.join(folder, *names[:count])
