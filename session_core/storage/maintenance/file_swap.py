"""Replace the old store file by a new one; a crash at any moment leaves one of the two."""

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

import attrs
import msgspec

from session_core.storage.files import MARK_FILE, store_file, wal_path
from session_core.storage.home import prepare_home
from session_core.storage.maintenance.forensics.salvage import EventRow
from session_core.storage.private_files import private_open
from session_core.storage.records import decompress_payload
from session_core.vocabulary.events import SessionEvent
from session_core.wire.codec import encode_event

WORK_FOLDER = "rebuild"
"""Where a new file is written; worthless until it is complete."""
READY_FOLDER = "rebuilt"
"""Where the complete file is until it is swapped in."""


def time_stamp(home: Path) -> str:
    """Return a time stamp that no name in this home contains yet."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    names = "\n".join(path.name for path in home.iterdir())
    number = 1
    while f"-{stamp}" in names:
        number += 1
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime()) + f"-{number}"
    return stamp


def clear_work(home: Path) -> Path:
    """Finish an interrupted swap, remove the remains of others, and return a new work folder."""
    finish_swap(home)
    for folder in (WORK_FOLDER, READY_FOLDER):
        shutil.rmtree(home / folder, ignore_errors=True)
    return prepare_home(home / WORK_FOLDER)


def swap_store_in(home: Path, stamp: str, *, keep_old: bool, old_is: str = "damaged") -> Path | None:
    """Swap in the finished file from the work folder; return where the old one was kept.

    The old log moves with the old file, under its name, so the two can still be read together. The index of the log is
    dropped: SQLite recreates it.
    """
    work, ready = home / WORK_FOLDER, home / READY_FOLDER
    sync_file(store_file(work))
    sync_folder(work)
    work.rename(ready)
    _ensure_mark(home)  # first, because a home without file and mark looks like a new one
    sync_folder(home)
    path = store_file(home)
    aside = path.with_name(f"{path.name}.{old_is}-{stamp}")
    log = wal_path(path)
    moved_files: list[Path] = []
    if log.exists() and log.stat().st_size:
        _link_or_copy(log, wal_path(aside))
        moved_files.append(wal_path(aside))
    if path.exists() and path.stat().st_size:
        path.rename(aside)
        aside.chmod(0o600)
        moved_files.insert(0, aside)
    sync_folder(home)
    finish_swap(home)
    if keep_old:
        return moved_files[0] if moved_files else None
    for each in moved_files:
        each.unlink()
    return None


def finish_swap(home: Path) -> None:
    """Finish the swap after the new file is ready and the old one has been moved aside."""
    path, ready = store_file(home), home / READY_FOLDER
    if not store_file(ready).exists() or (path.exists() and path.stat().st_size):
        return
    for other in ("-wal", "-shm"):  # they belong to the old file, and would ruin the new one
        path.with_name(path.name + other).unlink(missing_ok=True)
    _ensure_mark(home)
    sync_folder(home)
    store_file(ready).rename(path)
    sync_folder(home)
    shutil.rmtree(ready, ignore_errors=True)


def _ensure_mark(home: Path) -> None:
    if not (home / MARK_FILE).exists():
        (home / READY_FOLDER / MARK_FILE).rename(home / MARK_FILE)


def _link_or_copy(path: Path, other: Path) -> None:
    try:
        os.link(path, other)
    except OSError:  # a file system without links
        shutil.copyfile(path, other)
    other.chmod(0o600)


def sync_file(path: Path) -> None:
    """Flush a file to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Flush the names in a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # some file systems cannot, and need not
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


@attrs.define(kw_only=True)
class SetAsideFile:
    """Readable events that no longer have a place, as JSON lines; the file is created with the first one."""

    path: Path
    lines: int = 0
    _descriptor: int | None = None

    def add(self, row: EventRow, event: SessionEvent | None) -> None:
        """Write an event, or its raw remains if it cannot be read."""
        if self._descriptor is None:
            self._descriptor = private_open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        line = msgspec.json.encode(
            {
                "session_id": row.session_id,
                "n": row.n,
                "complete": event is not None,
                "event": msgspec.Raw(encode_event(event) if event is not None else decompress_payload(row.payload)),
            }
        )
        data = memoryview(line + b"\n")
        while data:
            data = data[os.write(self._descriptor, data) :]
        self.lines += 1

    def close(self) -> None:
        """Flush it to the disk."""
        if self._descriptor is not None:
            os.fsync(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None

    def discard(self) -> None:
        """Remove it because nothing was changed."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            self.path.unlink()
