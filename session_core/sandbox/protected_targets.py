"""Where protected things lead: through links, and through git's own pointers to other files and folders."""

import os
import re
from collections import deque
from collections.abc import Iterator
from typing import Final

from session_core.sandbox.protected_paths import GIT_NAME

_MAX_LINKS: Final = 40
"""As many as Linux follows in one path."""
_MAX_POINTER_BYTES: Final = 4_096
_MAX_CONFIG_BYTES: Final = 65_536
_CONFIG_PATHS: Final = re.compile(rb'^\s*(hookspath|path)\s*=\s*"?([^"\r\n]+?)"?\s*$', re.IGNORECASE | re.MULTILINE)
"""A folder of hooks, and files that a section `include` names."""


def trace_links(path: str) -> tuple[tuple[str, ...], str]:
    """Return the links on the way along an absolute path, and the path without links, whether or not it exists.

    Each link is named by a path without links, except for itself.
    """
    links: list[str] = []
    place = "/"
    rest = deque(path.split("/"))
    while rest:
        name = rest.popleft()
        if name in {"", "."}:
            continue
        if name == "..":
            place = os.path.dirname(place)
            continue
        here = os.path.join(place, name)
        try:
            text = os.readlink(here) if len(links) < _MAX_LINKS else None
        except (OSError, ValueError):
            text = None
        if text is None:
            place = here
            continue
        links.append(here)
        if text.startswith("/"):
            place = "/"
        rest.extendleft(reversed(text.split("/")))
    return tuple(links), place


def find_git_targets(place: str, *, bare: bool = False) -> Iterator[str]:
    """Return what a repository names elsewhere: its folder, the common one of its worktrees, hooks and more settings.

    Args:
        place: The `.git` of a working tree, a file or a folder; without links.
        bare: `place` is a repository without a working tree.
    """
    folder = place
    if (pointed := _read_pointer(place, b"gitdir:")) is not None:
        folder = os.path.join(os.path.dirname(place), pointed)
        yield folder
    common = folder
    if (named := _read_pointer(os.path.join(folder, "commondir"), b"")) is not None:
        common = os.path.join(folder, named)
        yield common
    top = place if bare else os.path.dirname(place)
    for name in ("config", "config.worktree"):
        for key, value in _CONFIG_PATHS.findall(_read_start(os.path.join(common, name), _MAX_CONFIG_BYTES)):
            path = os.path.expanduser(os.fsdecode(value))
            if "\0" not in path:
                yield os.path.join(top if key.lower() == b"hookspath" else common, path)


def read_git_pointers(git: str) -> tuple[str, ...]:
    """Return the folder that a `.git` file names, and the one with the repository that this one names, if any."""
    if (pointed := _read_pointer(git, b"gitdir:")) is None:
        return ()
    folder = os.path.realpath(os.path.join(os.path.dirname(git), pointed))
    named = _read_pointer(os.path.join(folder, "commondir"), b"")
    return (folder,) if named is None else (folder, os.path.realpath(os.path.join(folder, named)))


def resolve_link_targets(folder: str, path: str) -> Iterator[str]:
    """Return the real locations of a folder's protected path, if links or git's own pointers lead elsewhere."""
    place = os.path.join(folder, path.rstrip("/"))
    real = os.path.realpath(place)
    if real != place:
        yield real
    if os.path.basename(place) == GIT_NAME:
        yield from map(os.path.realpath, find_git_targets(real))


def _read_pointer(file: str, start: bytes) -> str | None:
    data = _read_start(file, _MAX_POINTER_BYTES)
    if not data.startswith(start) or b"\0" in data:
        return None
    return os.fsdecode(data[len(start) :].split(b"\n")[0].strip()) or None


def _read_start(file: str, length: int) -> bytes:
    try:
        return read_start(file, length)
    except (OSError, ValueError):  # a folder, as usual
        return b""


def read_start(file: str, length: int, *, follow: bool = True) -> bytes:
    """Read the beginning of a file that a hostile program may have put there: it is never waited for.

    Raises:
        OSError: It cannot be read; without `follow`, also if it is a link.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    descriptor = os.open(file, flags if follow else flags | os.O_NOFOLLOW)
    try:
        return os.read(descriptor, length)
    finally:
        os.close(descriptor)
