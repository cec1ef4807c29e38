"""The paths of a folder for completion: its files, and the folders that hold them.

Leaves out what the project ignores, folders of generated files, and places that tools do not touch without approval:
those with keys, and those whose change could run code (`sandbox`). Links are neither followed nor listed. ripgrep lists
the paths if it is installed; otherwise the workspace's own walk does, which takes ten times as long.
"""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import attrs
import trio

from session_core.limits import FIND_FILES_MS, MAX_FOUND_CHARS, MAX_FOUND_PATHS
from session_core.processes.child import Launch, ProcessNotStarted
from session_core.processes.run import run_in_group
from session_core.sandbox.folder_walk import is_beneath
from session_core.sandbox.home_directory import list_hidden_entries
from session_core.sandbox.ignore import IgnoreRules
from session_core.sandbox.protected_paths import home_guards, is_protected_name
from session_core.sandbox.secrets import hidden_places, home_folders
from session_core.sandbox.workspace import Workspace
from session_core.tools.list_files import end_if_cancelled, find_ripgrep

HEAVY: Final = ("node_modules", "__pycache__", ".venv", ".tox", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hg")
"""Folders that hold no files people wrote, whether or not the project ignores them."""
_LOOK_UP_EVERY: Final = 100
_MAX_WALKED: Final = 4 * MAX_FOUND_PATHS
_UNREADABLE: Final = "\ufffd"
"""Stands for undecodable bytes of a name; a path with it cannot be sent to clients."""


@attrs.frozen(kw_only=True)
class PathListing:
    """Paths relative to the folder, folders with a trailing slash; `cut` means that the list is incomplete."""

    paths: tuple[str, ...]
    cut: bool


async def paths_beneath(
    folder: str, hidden: Sequence[str] = (), *, ripgrep: bool = True, patience_ms: int = FIND_FILES_MS
) -> PathListing:
    """Collect the paths of a folder, as many as fit the time and the limit.

    Args:
        folder: An absolute path.
        hidden: Closed places besides those with keys.
        ripgrep: Whether ripgrep may list them.
        patience_ms: How long it may take.

    Raises:
        NotADirectoryError: There is no such folder.

    Cancellation: the program or the thread that lists them has ended when `Cancelled` propagates.
    """
    closed, program = await trio.to_thread.run_sync(_prepare_listing, folder, tuple(hidden), ripgrep)
    gathered = _PathCollector(closed)
    if program is None or not await _list_by_ripgrep(program, folder, gathered, patience_ms):
        gathered = _PathCollector(closed)
        deadline = time.monotonic() + patience_ms / 1000
        await trio.to_thread.run_sync(_list_by_walking, folder, hidden, gathered, deadline, abandon_on_cancel=False)
    return PathListing(paths=gathered.paths(), cut=gathered.full)


def _prepare_listing(folder: str, hidden: Sequence[str], ripgrep: bool) -> tuple["ClosedPlaces", str | None]:  # noqa: FBT001 - for a thread
    if not os.path.isdir(folder):  # noqa: PTH112 - a string that came from a session
        raise NotADirectoryError(folder)
    return ClosedPlaces.find_beneath(folder, hidden), find_ripgrep(folder) if ripgrep else None


class ClosedPlaces:
    """Places beneath a folder that are not shown, and everything with a protected name; case does not matter."""

    def __init__(self, places: Iterable[str]) -> None:
        self._places = frozenset(place.casefold() for place in places)
        self._heads = frozenset(place.partition("/")[0] for place in self._places)

    @classmethod
    def find_beneath(cls, folder: str, hidden: Sequence[str]) -> "ClosedPlaces":
        """Find the closed places beneath a folder on the disk."""
        root = os.path.realpath(folder)
        homes = tuple(dict.fromkeys(os.path.realpath(home) for home in home_folders()))
        places = [
            *hidden_places(),
            *map(os.path.realpath, hidden),
            *(place for home in homes if is_beneath(home, (root,)) for place in list_hidden_entries(home)),
            *(os.path.join(home, path.rstrip("/")) for home, path in home_guards((root,), homes)),  # noqa: PTH118
        ]
        inside = root.rstrip("/") + "/"
        beneath = [place.removeprefix(inside) for place in places if place.startswith(inside)]
        return cls(beneath)

    def contains(self, path: str) -> bool:
        """Return whether a relative path is one of these places, or lies in one."""
        names = path.casefold().split("/")
        if any(map(is_protected_name, names)):
            return True
        if names[0] not in self._heads:
            return False
        return any("/".join(names[:length]) in self._places for length in range(1, len(names) + 1))


class _PathCollector:
    """Collects files as they are found, up to a limit."""

    def __init__(self, closed: ClosedPlaces) -> None:
        self.full = False
        self._closed = closed
        self._files: list[str] = []
        self._chars = 0
        self._rest = ""

    @property
    def has_paths(self) -> bool:
        return bool(self._files)

    def add(self, path: str) -> None:
        if self.full or self._closed.contains(path) or not _can_be_sent(path):
            return
        self._chars += len(path)
        self.full = len(self._files) >= MAX_FOUND_PATHS or self._chars > MAX_FOUND_CHARS
        if not self.full:
            self._files.append(path)

    def feed(self, text: str) -> None:
        """Process a piece of ripgrep's output, cut anywhere: paths, each followed by a zero byte."""
        *whole, self._rest = (self._rest + text).split("\0")
        for path in whole:
            self.add(path.removeprefix("./"))

    def paths(self) -> tuple[str, ...]:
        return (*self._files, *sorted(_collect_folders(self._files)))


def _can_be_sent(path: str) -> bool:
    return bool(path) and (path.isascii() or not any(each == _UNREADABLE or _is_surrogate(each) for each in path))


def _is_surrogate(letter: str) -> bool:
    return "\ud800" <= letter <= "\udfff"


def _collect_folders(files: Iterable[str]) -> set[str]:
    found = set[str]()
    for file in files:
        slash = file.rfind("/")
        while slash > 0 and (folder := file[: slash + 1]) not in found:
            found.add(folder)
            slash = file.rfind("/", 0, slash)
    return found


async def _list_by_ripgrep(program: str, folder: str, gathered: _PathCollector, patience_ms: int) -> bool:
    """List the files; return false if the program cannot."""
    enough = trio.CancelScope()

    def take(text: str) -> None:
        gathered.feed(text)
        if gathered.full:
            enough.cancel(reason="there are more files than are looked through")

    env = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}
    try:
        with enough:
            outcome = await run_in_group(
                Launch(argv=_ripgrep_command(program), cwd=folder, env=env),
                on_output=take,
                on_error_output=lambda _text: None,
                output_limit=1_000,
                timeout_ms=patience_ms,
            )
            gathered.full = gathered.full or outcome.timed_out
            # 1: there are no files, 2: some folders cannot be read. Any output counts anyway.
            return outcome.timed_out or outcome.exit_code in {0, 1} or gathered.has_paths
    except ProcessNotStarted:
        return False
    return True


def _ripgrep_command(program: str) -> list[str]:
    command = [program, "--no-config", "--files", "--null", "--hidden", "--no-follow", "--no-messages"]
    # Same rules as the walk: git's ignore files count without a repository too, and none from outside the folder.
    command += ["--no-require-git", "--no-ignore-global", "--no-ignore-parent"]
    return [*command, *(f"--glob=!**/{name}/" for name in (".git", *HEAVY)), "./"]


def _list_by_walking(folder: str, hidden: Sequence[str], gathered: _PathCollector, deadline: float) -> None:
    """List the files in a worker thread."""
    workspace = Workspace(folder, read_only=True, hidden=hidden)
    ignore = IgnoreRules.load(workspace).with_lines("", "\n".join(f"{name}/" for name in HEAVY))
    for number, path in enumerate(_walk_files(workspace, ignore), 1):
        gathered.add(path)
        if number % _LOOK_UP_EVERY == 0:
            end_if_cancelled()
            gathered.full = gathered.full or time.monotonic() > deadline
        if gathered.full:
            return


def _walk_files(workspace: Workspace, ignore: IgnoreRules) -> Iterator[str]:
    """Yield the files, and an empty text for each skipped entry, so the caller can check the time."""
    for path, entry in workspace.walk(".", ignore=ignore, limit=_MAX_WALKED):
        yield path if entry.kind == "file" else ""
