"""Find the files that a command may have changed.

A command names no files, so the whole folder is recorded before it runs: size and time of every file that is not
ignored, and the content of small text files. Afterwards the differences are recorded as if a tool had made them. In
between, the snapshot is in a file, `tree-*.jsonl`, so it survives the death of this process; the next access to the
session then records the differences, without claiming to know the state in which the command itself left the files.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import attrs

from session_core.checkpoints import manifest
from session_core.checkpoints.file_state import PERMISSIONS, read_file_state
from session_core.checkpoints.values import MISSING, CheckpointLimits, FileState
from session_core.errors import StoreUnusable
from session_core.ids import TurnId
from session_core.sandbox.file_values import OutsideWorkspace
from session_core.sandbox.ignore import IGNORE_FILES, IgnoreRules
from session_core.sandbox.workspace import Workspace

_CLOCK_BLUR_NS: Final = 2_000_000_000
"""Some file systems have a time resolution of two seconds: a file that young may change and keep its time."""
_TEXT_BEGINS: Final = 8_192
_UNKNOWN_NEW: Final = FileState(
    kind="not_saved", why="the ignore rules changed in this turn, so it is not known whether the file is new"
)

Keep = Callable[[bytes], str]
Clock = Callable[[], float]


@attrs.frozen(kw_only=True)
class TreeIndex:
    """The files of a folder before a command, or before the first of several that run side by side.

    Attributes:
        root: The folder.
        turn_id: The turn to which changes since then belong.
        settled: Whether all commands have ended and their changes are recorded.
        complete: Whether every file that is not ignored is included, so any other file is new.
        taken_ns: When it was taken; younger files are compared by content.
        times: When each file was last written.
    """

    root: str
    turn_id: TurnId
    settled: bool
    complete: bool
    taken_ns: int
    files: dict[str, FileState]
    times: dict[str, int]

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield the index in its stored form."""
        header = attrs.asdict(self, filter=lambda field, _: field.name not in {"files", "times"})
        yield {"line": "tree", **header, "files": len(self.files)}
        for path, state in self.files.items():
            yield {"line": "file", "path": path, "state": attrs.asdict(state), "at": self.times[path]}


@attrs.frozen(kw_only=True)
class FolderChange:
    """A file that differs: its states before and now."""

    path: str
    before: FileState
    after: FileState


def read_index(path: Path) -> TreeIndex | None:
    """Read the index; None if it is missing or damaged in any way, because half an index would claim too much."""
    try:
        header, *rest = list(manifest.read_lines(path))
        if header is None or header["line"] != "tree" or len(rest) != header["files"]:
            return None
        files: dict[str, FileState] = {}
        times: dict[str, int] = {}
        for fields in rest:
            if fields is None:
                return None
            files[str(fields["path"])] = manifest.parse_state(fields["state"])
            times[str(fields["path"])] = int(fields["at"])
        return TreeIndex(
            root=str(header["root"]),
            turn_id=TurnId(str(header["turn_id"])),
            settled=header["settled"] is True,
            complete=header["complete"] is True,
            taken_ns=int(header["taken_ns"]),
            files=files,
            times=times,
        )
    except (OSError, StoreUnusable, ValueError, KeyError, TypeError):
        return None


class FolderWalker:
    """One walk through a folder, within its bounds; `why` says what was left out."""

    def __init__(
        self, workspace: Workspace, ignore: IgnoreRules | None, limits: CheckpointLimits, clock: Clock
    ) -> None:
        self._workspace = workspace
        self._ignore = ignore
        self._limits = limits
        self._clock = clock
        self._end = clock() + limits.tree_seconds
        self.why = ""

    def files(self) -> Iterator[str]:
        """Yield the files that are not ignored, until a bound is reached."""
        entries = files = 0
        limit = self._limits.tree_entries
        try:
            for path, entry in self._workspace.walk(".", ignore=self._ignore, limit=limit):
                entries += 1
                if self.is_out_of_time():
                    return
                if entry.kind == "file":
                    files += 1
                    if files > self._limits.tree_files:
                        self.why = f"only {self._limits.tree_files:,} files are remembered"
                        return
                    # If the whole disk is accessible, paths are absolute, but tools record files relative to the root.
                    yield path.removeprefix(self._workspace.root.rstrip("/") + "/")
        except OSError as error:
            self.why = f"a folder could not be read: {error.strerror or error}"
        if entries >= limit:
            self.why = f"only the first {limit:,} names are examined"

    def is_out_of_time(self) -> bool:
        """Return whether the command has been delayed for long enough."""
        if self._clock() < self._end:
            return False
        self.why = f"looking at the files took longer than {self._limits.tree_seconds:g} s"
        return True


def take_index(
    workspace: Workspace,
    walker: FolderWalker,
    limits: CheckpointLimits,
    *,
    turn_id: TurnId,
    now_ns: int,
    known: TreeIndex | None,
    room: int,
    keep: Keep,
) -> tuple[TreeIndex, int]:
    """Record a folder before a command, store its texts, and return the index and how many bytes it needs."""
    files: dict[str, FileState] = {}
    times: dict[str, int] = {}
    spent = 0
    for path in walker.files():
        try:
            if (status := workspace.stat(path)) is None or status.kind != "file":
                continue
            state = FileState(kind="not_saved", size=status.size, mode=status.mode & PERMISSIONS)
            data: bytes | None = None
            if status.size > limits.tree_file_bytes:
                why = f"before a command, files are kept up to {limits.tree_file_bytes:,} bytes; it has {status.size:,}"
                state = attrs.evolve(state, kind="too_large", mtime_ns=status.mtime_ns, why=why)
            elif known and _untouched(known, path, status.size, status.mode, status.mtime_ns):
                state = known.files[path]
            else:
                state, data = read_file_state(workspace, path, limit=limits.tree_file_bytes)
        except (OutsideWorkspace, OSError):
            continue
        if state.kind == "missing":
            continue
        if data is not None and b"\0" in data[:_TEXT_BEGINS]:
            state = attrs.evolve(state, kind="not_saved", why="it is not a text file, and a command changed it")
        elif state.kind == "content":
            spent += state.size
            if spent > room:
                walker.why = f"only {room:,} bytes are kept"
                break
            if data is not None:
                keep(data)
        files[path] = state
        times[path] = status.mtime_ns
    index = TreeIndex(
        root=workspace.root,
        turn_id=turn_id,
        settled=False,
        complete=not walker.why,
        taken_ns=now_ns,
        files=files,
        times=times,
    )
    return index, min(spent, room)


def changes_since(
    index: TreeIndex, workspace: Workspace, walker: FolderWalker, limits: CheckpointLimits
) -> list[FolderChange]:
    """Compare a folder with its index; the walker says whether all of it was seen."""
    found = [change for path in index.files if (change := find_change(index, path, workspace, limits)) is not None]
    if not index.complete:
        return found
    for path in walker.files():
        if path in index.files:
            continue
        try:
            status = workspace.stat(path)
            # An older file is not new: it was ignored until now, or was moved here.
            if status is None or status.mtime_ns < index.taken_ns - _CLOCK_BLUR_NS:
                continue
            after, _ = read_file_state(workspace, path, limit=limits.file_bytes)
        except (OutsideWorkspace, OSError):
            continue
        found.append(FolderChange(path=path, before=MISSING, after=after))
    return _mark_uncertain_new_files(found)


def changes_between(
    earlier: TreeIndex, later: TreeIndex, workspace: Workspace, limits: CheckpointLimits
) -> list[FolderChange]:
    """Compare two states of a folder; files missing in the later one are looked up."""
    found: list[FolderChange] = []
    for path, before in earlier.files.items():
        after = later.files.get(path)
        if after is None:
            if (change := find_change(earlier, path, workspace, limits)) is not None:
                found.append(change)
        elif not before.same_as(after):
            found.append(FolderChange(path=path, before=before, after=after))
    if not earlier.complete:
        return found
    youngest_old = earlier.taken_ns - _CLOCK_BLUR_NS
    found += [
        FolderChange(path=path, before=MISSING, after=after)
        for path, after in later.files.items()
        if path not in earlier.files and later.times[path] >= youngest_old
    ]
    return _mark_uncertain_new_files(found)


def _mark_uncertain_new_files(found: list[FolderChange]) -> list[FolderChange]:
    """Mark new files as uncertain if the ignore rules changed: such a file may be old."""
    if not any(each.path.rpartition("/")[2] in IGNORE_FILES for each in found):
        return found
    return [
        attrs.evolve(each, before=_UNKNOWN_NEW)
        if each.before.kind == "missing" and each.path.rpartition("/")[2] not in IGNORE_FILES
        else each
        for each in found
    ]


def find_change(index: TreeIndex, path: str, workspace: Workspace, limits: CheckpointLimits) -> FolderChange | None:
    """Compare the current state of one file in the index with its recorded state."""
    before = index.files[path]
    try:
        status = workspace.stat(path)
        if status is not None and _untouched(index, path, status.size, status.mode, status.mtime_ns):
            return None
        after, _ = read_file_state(workspace, path, limit=limits.file_bytes)
    except OutsideWorkspace as error:
        after = FileState(kind="not_saved", why=str(error))
    except OSError as error:
        after = FileState(kind="not_saved", why=f"it cannot be read: {error.strerror or error}")
    return None if before.same_as(after) else FolderChange(path=path, before=before, after=after)


def _untouched(index: TreeIndex, path: str, size: int, mode: int, mtime_ns: int) -> bool:
    known = index.files.get(path)
    return (
        known is not None
        and (known.size, known.mode, index.times[path]) == (size, mode & PERMISSIONS, mtime_ns)
        # A file without a hash can only be compared by its time.
        and (known.sha256 is None or mtime_ns < index.taken_ns - _CLOCK_BLUR_NS)
    )
