"""The values a workspace returns: files, folder listings and refusals."""

import os
import stat
from collections.abc import Iterator
from itertools import islice
from typing import Final, Literal

import attrs

Kind = Literal["file", "folder", "link", "other"]

MAX_LISTED: Final = 100_000
"""Names read per folder; the rest is skipped, because sorting takes memory for all of them."""


class WorkspaceRefused(Exception):
    """The workspace refused a request; the message says why and names the path, for the model and for people."""


class OutsideWorkspace(WorkspaceRefused):
    """The path leads out of the folders that tools may touch, or is invalid."""


class ProtectedPath(WorkspaceRefused):
    """A change of this path could run code outside the sandbox, so it needs approval first."""


class FileChanged(WorkspaceRefused):
    """The file is not the one that was read before."""


@attrs.frozen(kw_only=True)
class FileVersion:
    """Identifies one state of a file."""

    size: int
    mtime_ns: int


@attrs.frozen(kw_only=True)
class _FileState:
    """The state of a file when it was looked at."""

    size: int
    mode: int
    mtime_ns: int

    @property
    def version(self) -> FileVersion:
        """The state of the file, for a later `write`."""
        return FileVersion(size=self.size, mtime_ns=self.mtime_ns)


@attrs.frozen(kw_only=True)
class FileContent(_FileState):
    """The content read from a file; `size` is that of the whole file."""

    data: bytes
    truncated: bool


@attrs.frozen(kw_only=True)
class FileStatus(_FileState):
    """The kind and state of what is at a path."""

    kind: Kind


@attrs.frozen(kw_only=True)
class FolderEntry:
    """One name in a folder."""

    name: str
    kind: Kind
    size: int


@attrs.frozen(kw_only=True)
class Location:
    """Where a path leads: one of the workspace's roots, the path beneath it, and how to show it to people."""

    root: str
    relative: str
    display_path: str


def to_file_status(status: os.stat_result) -> FileStatus:
    """Convert a stat result."""
    return FileStatus(
        kind=_kind_of(status.st_mode),
        size=status.st_size,
        mode=stat.S_IMODE(status.st_mode),
        mtime_ns=status.st_mtime_ns,
    )


def read_up_to(descriptor: int, length: int) -> bytes:
    """Read up to `length` bytes, fewer only at the end of the file."""
    pieces: list[bytes] = []
    while length > 0 and (piece := os.read(descriptor, min(length, 1 << 20))):
        pieces.append(piece)
        length -= len(piece)
    return b"".join(pieces)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes, however few the system accepts at a time."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def list_folder(descriptor: int) -> list[FolderEntry]:
    """List an open folder, sorted by name; links are listed, not followed."""
    with os.scandir(descriptor) as found:
        return sorted(_yield_entries(found), key=lambda entry: entry.name)


def _yield_entries(found: Iterator["os.DirEntry[str]"]) -> Iterator[FolderEntry]:
    for entry in islice(found, MAX_LISTED):
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:  # removed in the meantime
            continue
        yield FolderEntry(name=entry.name, kind=_kind_of(status.st_mode), size=status.st_size)


def _kind_of(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"
