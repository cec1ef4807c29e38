"""A disk in memory that loses power and fails on purpose, under the sqlite3 module.

    with FaultyDisk() as disk:
        with closing(disk.connect("main.db")) as connection: ...
        with disk.lose_power(Random(7)) as after, closing(after.connect("main.db")) as connection: ...

What survives a loss of power. Each file has durable bytes, those of its last sync, and the operations since (writes and
truncations). Of these a random subset survives, in any order; a write may be torn: only a prefix of it survives. Bytes
outside of a write are never harmed.

Names are lost too. There is one directory. Creating or deleting a file is durable only after the directory was synced,
and that happens with a delete that asks for it, and with the first sync of a file whose name is not yet durable (so
SQLite's own file system treats new journals). Until then each name, independently, may come back in any state it had
since: the older file, none, or the newer one. Memory shared between connections (the index of a write-ahead log) and
locks never survive.

What can fail. `fail` makes the k-th call that changes the disk fail: "create", "write", "sync", "truncate", "delete",
and "read" on request. A failed call changes nothing, except that a short write leaves half of its bytes.
`failed_sync_forgets` models a kernel that drops what it could not write: those operations are seen by readers, but no
later sync makes them durable. `fsync_lies` models a disk that says "synced" and is not.

Any number of connections in any threads of this process may use a disk; several processes cannot.
"""

import functools
import sqlite3
import threading
from collections.abc import Mapping
from contextlib import ExitStack, closing
from random import Random
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import quote

import attrs

from tests.durability import _vfs
from tests.durability._vfs import DiskError, OpenFile, Sharing

__all__ = ["Fault", "FaultKind", "FaultyDisk", "Survives", "available"]

FaultKind = Literal["EIO", "ENOSPC", "short_write"]
Call = Literal["create", "write", "sync", "truncate", "delete", "read"]
Survives = Literal["nothing", "some", "everything", "any"]
Operation = tuple[int, bytes | None]
"""A write of these bytes at this offset; without bytes, a truncation to this size."""

_SECTOR = 512
_FAILURES: dict[Call, int] = {
    "create": _vfs.CANNOT_OPEN,
    "write": _vfs.WRITE_FAILED,
    "sync": _vfs.SYNC_FAILED,
    "truncate": _vfs.TRUNCATE_FAILED,
    "delete": _vfs.DELETE_FAILED,
    "read": _vfs.READ_FAILED,
}


@attrs.define(kw_only=True, eq=False)
class Fault:
    """An order to fail; `fired` counts how often it did."""

    kind: FaultKind
    at: int
    sticky: bool
    reads: bool
    seen: int = 0
    fired: int = 0

    def strikes(self) -> bool:
        """Count one call, and say whether it fails."""
        self.seen += 1
        struck = self.seen == self.at or (self.sticky and self.seen > self.at)
        self.fired += struck
        return struck


class _File:
    """What a name stands for; it lives on without a name as long as it is open."""

    __slots__ = ("durable", "name", "pending", "present", "sharing")

    def __init__(self, name: str | None, content: bytes = b"") -> None:
        self.name = name
        self.present = bytearray(content)
        self.durable = bytearray(content)
        self.pending: list[Operation] = []
        self.sharing = Sharing()

    def change(self, operation: Operation) -> None:
        _apply(self.present, operation)
        self.pending.append(operation)

    def make_durable(self) -> None:
        for operation in self.pending:
            _apply(self.durable, operation)
        self.pending.clear()

    def after_power_loss(self, random: Random, survives: Survives) -> bytes:
        operations = self.pending
        if survives == "nothing":
            operations = []
        elif survives == "some":
            share = random.random()
            operations = [_maybe_torn(operation, random) for operation in operations if random.random() < share]
            if random.random() < 0.5:
                random.shuffle(operations)
        content = bytearray(self.durable)
        for operation in operations:
            _apply(content, operation)
        return bytes(content)


def _apply(content: bytearray, operation: Operation) -> None:
    offset, data = operation
    if offset > len(content):
        content.extend(bytes(offset - len(content)))
    if data is None:
        del content[offset:]
    else:
        content[offset : offset + len(data)] = data


def _maybe_torn(operation: Operation, random: Random) -> Operation:
    offset, data = operation
    if data is None or random.random() < 0.7:
        return operation
    end = random.randrange(offset, offset + len(data) + 1)
    if random.random() < 0.5:
        end = max(offset, end // _SECTOR * _SECTOR)
    return offset, data[: end - offset]


class _Handle(OpenFile):
    """One opening of a file on a disk."""

    __slots__ = ("_disk", "_file", "_guard", "_temporary")

    def __init__(self, disk: "FaultyDisk", file: _File, *, temporary: bool) -> None:
        super().__init__(file.sharing)
        self._disk = disk
        self._file = file
        self._guard = disk._guard
        self._temporary = temporary

    def close(self) -> None:
        with self._guard:
            super().close()
            self._disk._closed(self._file, delete=self._temporary)

    def read(self, size: int, offset: int) -> bytes:
        with self._guard:
            self._disk._meet_fault("read")
            return bytes(self._file.present[offset : offset + size])

    def write(self, offset: int, data: bytes) -> None:
        with self._guard:
            try:
                self._disk._meet_fault("write")
            except _ShortWrite:
                self._file.change((offset, data[: len(data) // 2]))
                raise
            self._file.change((offset, data))

    def truncate(self, size: int) -> None:
        with self._guard:
            self._disk._meet_fault("truncate")
            self._file.change((size, None))

    def sync(self) -> None:
        with self._guard:
            try:
                self._disk._meet_fault("sync")
            except DiskError:
                if self._disk.failed_sync_forgets:
                    self._file.pending.clear()
                raise
            self._disk._synced(self._file)

    def size(self) -> int:
        return len(self._file.present)


class _ShortWrite(DiskError):
    """Half of the bytes are still to be written."""


class FaultyDisk:
    """A disk for `connect`, or for `sqlite3.connect(disk.uri(name), uri=True)`, within its `with` block.

    Attributes:
        calls: How many calls tried to change the disk so far; failed ones count.
        reads: The same for reads.
        fsync_lies: Say "synced" and make nothing durable.
        failed_sync_forgets: What a failed sync did not make durable, no later sync does.
    """

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        self.calls = 0
        self.reads = 0
        self.fsync_lies = False
        self.failed_sync_forgets = False
        self.vfs_name = ""
        # Reentrant: a connection that is collected as garbage inside a call is closed there and then.
        self._guard = threading.RLock()
        self._fault: Fault | None = None
        self._open_handles = 0
        self._names = {name: _File(name, content) for name, content in (files or {}).items()}
        self._durable_names = dict(self._names)
        self._unsynced_names: dict[str, list[_File | None]] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.vfs_name = self._stack.enter_context(_vfs.registered(self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        if _vfs.mistakes:
            raise _vfs.mistakes.pop()
        if error is None and self.in_use():
            raise AssertionError(f"{self._open_handles} files are still open: close every connection to the disk")

    def uri(self, name: str = "main.db") -> str:
        """What to give to `sqlite3.connect` together with `uri=True`."""
        return f"file:{quote(name)}?vfs={self.vfs_name}"

    def connect(self, name: str = "main.db", **options: Any) -> sqlite3.Connection:
        """Open a database on this disk."""
        connection: sqlite3.Connection = sqlite3.connect(self.uri(name), uri=True, **options)
        return connection

    @property
    def files(self) -> dict[str, bytes]:
        """The bytes of every file as a reader sees them now."""
        with self._guard:
            return {name: bytes(file.present) for name, file in self._names.items()}

    def fail(self, kind: FaultKind, *, at: int = 1, sticky: bool = False, reads: bool = False) -> Fault:
        """Let the call number `at` from now on fail, and with `sticky` all calls after it.

        A disk has at most one fault; a new one replaces it. With `reads`, reads are counted and fail too.
        """
        with self._guard:
            self._fault = Fault(kind=kind, at=at, sticky=sticky, reads=reads)
            return self._fault

    def heal(self) -> None:
        """No call fails any more."""
        with self._guard:
            self._fault = None

    def lose_power(self, random: Random, survives: Survives = "any") -> "FaultyDisk":
        """A new disk with what survives if the power goes now; this one stays as it is.

        Of the unsynced operations survive "nothing", "everything", or "some" by chance; "any" draws one of these.
        """
        if survives == "any":
            survives = random.choice(("nothing", "everything", "some", "some"))
        left: dict[str, bytes] = {}
        with self._guard:
            for name in sorted(self._durable_names.keys() | self._unsynced_names.keys()):
                states = [self._durable_names.get(name), *self._unsynced_names.get(name, ())]
                file = {"nothing": states[0], "everything": states[-1]}.get(survives, random.choice(states))
                if file is not None:
                    left[name] = file.after_power_loss(random, survives)
        return FaultyDisk(left)

    def open_file(self, name: str | None, flags: int) -> _Handle:
        """For SQLite: open a file, or without a name a temporary one."""
        with self._guard:
            file = None if name is None else self._names.get(name)
            if file is None:
                if not flags & _vfs.OPEN_CREATE:
                    raise DiskError(_vfs.CANNOT_OPEN)
                self._meet_fault("create")
                file = _File(name)
                if name is not None:
                    self._rename(name, file)
            elif flags & _vfs.OPEN_EXCLUSIVE:
                raise DiskError(_vfs.CANNOT_OPEN)
            self._open_handles += 1
            return _Handle(self, file, temporary=bool(flags & _vfs.OPEN_DELETE_ON_CLOSE))

    def delete(self, name: str, *, sync: bool) -> None:
        """For SQLite: take a name away; who has the file open keeps it."""
        with self._guard:
            self._meet_fault("delete")
            if name not in self._names:
                raise DiskError(_vfs.NOTHING_TO_DELETE)
            self._rename(name, None)
            if sync:
                self._sync_directory()

    def size_of(self, name: str) -> int | None:
        """For SQLite: the size of a file, if there is one of that name."""
        file = self._names.get(name)
        return None if file is None else len(file.present)

    def in_use(self) -> bool:
        """Whether any file is open."""
        return self._open_handles > 0

    def _rename(self, name: str, file: _File | None) -> None:
        if file is None:
            del self._names[name]
        else:
            self._names[name] = file
        self._unsynced_names.setdefault(name, []).append(file)

    def _sync_directory(self) -> None:
        if not self.fsync_lies:
            self._durable_names = dict(self._names)
            self._unsynced_names.clear()

    def _synced(self, file: _File) -> None:
        if self.fsync_lies:
            return
        file.make_durable()
        name = file.name
        if name is not None and self._names.get(name) is file and self._durable_names.get(name) is not file:
            self._sync_directory()

    def _closed(self, file: _File, *, delete: bool) -> None:
        self._open_handles -= 1
        if delete and file.name is not None and self._names.get(file.name) is file:
            self._rename(file.name, None)

    def _meet_fault(self, call: Call) -> None:
        reading = call == "read"
        if reading:
            self.reads += 1
        else:
            self.calls += 1
        fault = self._fault
        if fault is None or (reading and not fault.reads) or not fault.strikes():
            return
        if call == "write" and fault.kind != "EIO":  # SQLite's own file system calls a short write "full" as well
            raise (_ShortWrite if fault.kind == "short_write" else DiskError)(_vfs.FULL)
        raise DiskError(_FAILURES[call])


@functools.cache
def available() -> str | None:
    """None if SQLite can be given a disk here, else the reason why not."""
    try:
        with FaultyDisk() as disk, closing(disk.connect()):
            return None
    except (OSError, AttributeError) as problem:
        return f"ctypes does not reach the library of the sqlite3 module: {problem}"
    except sqlite3.OperationalError as problem:
        return f"sqlite3 does not see what ctypes registers: {problem}"
