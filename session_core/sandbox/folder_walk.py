"""Walk through the folders beneath an open one."""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from session_core.sandbox.file_values import FolderEntry, Location, list_folder
from session_core.sandbox.ignore import IgnoreRules
from session_core.sandbox.openat import descriptor_path, open_beneath

_MAX_DEPTH: Final = 200
"""People do not create deeper folders, and each level keeps a list in memory."""
_LEFT_OUT: Final = frozenset({".git"})


def is_beneath(path: str, places: Iterable[str]) -> bool:
    """Return whether a path is one of these or lies in one; all of them absolute and without links."""
    return any(path == place or path.startswith(place.rstrip("/") + "/") for place in places)


def walk_folder(
    folder: int, root: int, location: Location, ignore: IgnoreRules | None, hidden: Sequence[str] = ()
) -> Iterator[tuple[str, FolderEntry]]:
    """Walk through everything beneath `folder`, depth first and by name; yields paths as people see them.

    `root` is the folder that the location starts from: ignore files between the two count as well. Skips `hidden`
    places.
    """
    if ignore is not None:
        ignore = ignore.with_rules_above(root, location.relative)
    prefix = "" if location.display_path == "." else location.display_path
    start = descriptor_path(folder) or "" if hidden else ""
    left_out = frozenset(os.path.relpath(place, start) for place in hidden if is_beneath(place, (start,)))
    yield from _walk(folder, "", prefix, location.relative, ignore, left_out=left_out)


def _walk(
    start: int, path: str, display_path: str, relative: str, ignore: IgnoreRules | None, *, left_out: frozenset[str]
) -> Iterator[tuple[str, FolderEntry]]:
    try:
        entries, ignore = _list_with_rules(start, path, relative, ignore)
    except OSError:  # removed, not accessible, or swapped for a link
        return
    for entry in entries:
        below = os.path.join(path, entry.name)
        if entry.name in _LEFT_OUT or below in left_out:
            continue
        inside = os.path.join(relative, entry.name)
        if ignore is not None and ignore.ignores(inside, is_folder=entry.kind == "folder"):
            continue
        name = os.path.join(display_path, entry.name)
        yield name, entry
        if entry.kind == "folder" and path.count("/") < _MAX_DEPTH:
            yield from _walk(start, below, name, inside, ignore, left_out=left_out)


def _list_with_rules(
    start: int, path: str, relative: str, ignore: IgnoreRules | None
) -> tuple[list[FolderEntry], IgnoreRules | None]:
    folder = open_beneath(start, path, os.O_RDONLY | os.O_DIRECTORY, follow=False)
    try:
        entries = list_folder(folder)
        if ignore is not None:
            ignore = ignore.with_files_of(folder, relative, {entry.name for entry in entries})
        return entries, ignore
    finally:
        os.close(folder)
