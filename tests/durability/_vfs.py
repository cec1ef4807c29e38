"""SQLite's door to a file system written in Python: the C structures, the callbacks and the registration.

`import sqlite3` loads the SQLite library, and ctypes reaches the very same library, so that a file system ("VFS" in
SQLite's words) registered here is found by `sqlite3.connect("file:name?vfs=...", uri=True)`. All volumes share one set
of callbacks; registering another volume costs one small structure. Locks and the memory that connections share are the
same for every volume and are here; what else files do is in `_faulty_disk`. A mistake in a volume cannot travel as an
exception through C: SQLite gets an I/O error and the exception waits in `mistakes`.
"""

import ctypes
import functools
import itertools
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from contextlib import contextmanager
from ctypes import CFUNCTYPE, c_char_p, c_int, c_int64, c_void_p
from typing import Any, Protocol

OK, BUSY, IO_ERROR, NOT_FOUND, FULL, CANNOT_OPEN = 0, 5, 10, 12, 13, 14
READ_FAILED = IO_ERROR | 1 << 8
SHORT_READ = IO_ERROR | 2 << 8
WRITE_FAILED = IO_ERROR | 3 << 8
SYNC_FAILED = IO_ERROR | 4 << 8
TRUNCATE_FAILED = IO_ERROR | 6 << 8
DELETE_FAILED = IO_ERROR | 10 << 8
NOTHING_TO_DELETE = IO_ERROR | 23 << 8

OPEN_CREATE, OPEN_DELETE_ON_CLOSE, OPEN_EXCLUSIVE = 4, 8, 16
NO_LOCK, SHARED, RESERVED, PENDING, EXCLUSIVE = range(5)

_SHM_UNLOCK, _SHM_SHARED = 1, 4
_ACCESS_EXISTS = 0
# What SQLite's own file system claims on Linux: overwriting some bytes never harms their neighbours. Nothing more.
_POWERSAFE_OVERWRITE = 0x1000
_SECTOR_SIZE = 4096
_LONGEST_NAME = 512
_SLOTS = 8
_EXCLUSIVELY = -1


class DiskError(Exception):
    """A call that the disk refuses; `code` is what SQLite is told."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Sharing:
    """What all openings of one file have in common: locks, and the memory in which connections share an index."""

    __slots__ = ("guard", "mappers", "openings", "regions", "slots")

    def __init__(self) -> None:
        # Reentrant: a connection that is collected as garbage inside a call is closed there and then.
        self.guard = threading.RLock()
        self.openings: list[OpenFile] = []
        self.regions: list[ctypes.Array[ctypes.c_char]] = []
        self.mappers: set[OpenFile] = set()
        self.slots = [0] * _SLOTS


class OpenFile(ABC):
    """One opening of a file; methods may raise `DiskError`.

    The locks are here, and work within this process only. A bool says whether the lock was granted.
    """

    __slots__ = ("_exclusive", "_shared", "_sharing", "level")

    def __init__(self, sharing: Sharing) -> None:
        self.level = NO_LOCK
        self._sharing = sharing
        self._shared: set[int] = set()
        self._exclusive: set[int] = set()
        sharing.openings.append(self)

    @abstractmethod
    def read(self, size: int, offset: int) -> bytes: ...
    @abstractmethod
    def write(self, offset: int, data: bytes) -> None: ...
    @abstractmethod
    def truncate(self, size: int) -> None: ...
    @abstractmethod
    def sync(self) -> None: ...
    @abstractmethod
    def size(self) -> int: ...

    def close(self) -> None:
        """Give up every lock."""
        with self._sharing.guard:
            self.unmap_regions()
            self._sharing.openings.remove(self)

    def _level_of_others(self) -> int:
        return max((other.level for other in self._sharing.openings if other is not self), default=NO_LOCK)

    def lock(self, level: int) -> bool:
        """Raise the lock on the whole file: many may read beside one that is about to write, none beside a writer."""
        with self._sharing.guard:
            if self.level >= level:
                return True
            others = self._level_of_others()
            if level == SHARED:
                granted = others < PENDING
            elif others >= RESERVED:
                granted = False
            elif level == RESERVED:
                granted = True
            else:
                self.level = PENDING  # keeps new readers out while the present ones leave
                granted = others == NO_LOCK
            if granted:
                self.level = level
            return granted

    def unlock(self, level: int) -> None:
        """Lower the lock on the whole file."""
        with self._sharing.guard:
            self.level = min(self.level, level)

    def is_reserved(self) -> bool:
        """Whether anyone is about to write."""
        with self._sharing.guard:
            return max(self.level, self._level_of_others()) >= RESERVED

    def map_region(self, index: int, size: int, *, extend: bool) -> int:
        """The address of a piece of shared memory; 0 if there is none and none is wanted."""
        with self._sharing.guard:
            self._sharing.mappers.add(self)
            regions = self._sharing.regions
            while extend and len(regions) <= index:
                regions.append(ctypes.create_string_buffer(size))
            return ctypes.addressof(regions[index]) if index < len(regions) else 0

    def unmap_regions(self) -> None:
        """Leave the shared memory; the last one to leave frees it."""
        with self._sharing.guard:
            self.unlock_slots(range(_SLOTS))
            self._sharing.mappers.discard(self)
            if not self._sharing.mappers:
                self._sharing.regions.clear()

    def lock_slots(self, slots: range, *, shared: bool) -> bool:
        """Lock all of these slots of the shared memory or none."""
        with self._sharing.guard:
            mine = self._shared if shared else self._exclusive
            wanted = [slot for slot in slots if slot not in mine]
            held = self._sharing.slots
            if any(held[slot] == _EXCLUSIVELY if shared else held[slot] for slot in wanted):
                return False
            for slot in wanted:
                held[slot] = held[slot] + 1 if shared else _EXCLUSIVELY
            mine.update(wanted)
            return True

    def unlock_slots(self, slots: range) -> None:
        """Give up those of these slots that are held."""
        with self._sharing.guard:
            for slot in slots:
                if slot in self._shared:
                    self._shared.remove(slot)
                    self._sharing.slots[slot] -= 1
                elif slot in self._exclusive:
                    self._exclusive.remove(slot)
                    self._sharing.slots[slot] = 0


class Volume(Protocol):
    """A set of named files."""

    def open_file(self, name: str | None, flags: int) -> OpenFile: ...
    def delete(self, name: str, *, sync: bool) -> None: ...
    def size_of(self, name: str) -> int | None: ...
    def in_use(self) -> bool: ...


class _IoMethods(ctypes.Structure):
    _fields_ = (("iVersion", c_int), *((f"method{i}", c_void_p) for i in range(16)))


class _FileHead(ctypes.Structure):
    """All of an open file that SQLite sees; ours is found by the address of this."""

    _fields_ = (("pMethods", c_void_p),)


class _VfsHead(ctypes.Structure):
    """`sqlite3_vfs` up to version 2 of it."""

    _fields_ = (
        ("iVersion", c_int),
        ("szOsFile", c_int),
        ("mxPathname", c_int),
        ("pNext", c_void_p),
        ("zName", c_char_p),
        ("pAppData", c_void_p),
        *((name, c_void_p) for name in ("xOpen", "xDelete", "xAccess", "xFullPathname")),
        *((f"loading{i}", c_void_p) for i in range(4)),
        *((name, c_void_p) for name in ("xRandomness", "xSleep", "xCurrentTime", "xGetLastError", "xCurrentTimeInt64")),
    )


mistakes: list[BaseException] = []
_open_files: dict[int, OpenFile] = {}
_volumes: dict[int, Volume] = {}
_keep_alive: list[object] = []
_numbers = itertools.count(1)


def _callback(*argument_types: Any) -> Callable[[Callable[..., int | None]], int]:
    """Make a C function of a Python one, and give its address."""

    def decorate(call: Callable[..., int | None]) -> int:
        def answer(*arguments: Any) -> int:
            try:
                return call(*arguments) or OK
            except DiskError as refused:
                return refused.code
            except BaseException as mistake:  # noqa: ASYNC103, BLE001  nothing may escape into C
                mistakes.append(mistake)
                return IO_ERROR  # noqa: ASYNC104

        pointer = CFUNCTYPE(c_int, *argument_types)(answer)
        _keep_alive.append(pointer)
        return ctypes.cast(pointer, c_void_p).value or 0

    return decorate


@_callback(c_void_p)
def _close(file: int) -> None:
    _open_files.pop(file).close()


@_callback(c_void_p, c_void_p, c_int, c_int64)
def _read(file: int, buffer: int, size: int, offset: int) -> int:
    data = _open_files[file].read(size, offset)
    got = len(data)
    ctypes.memmove(buffer, data, got)
    if got == size:
        return OK
    ctypes.memset(buffer + got, 0, size - got)
    return SHORT_READ


@_callback(c_void_p, c_void_p, c_int, c_int64)
def _write(file: int, buffer: int, size: int, offset: int) -> None:
    _open_files[file].write(offset, ctypes.string_at(buffer, size))


@_callback(c_void_p, c_int64)
def _truncate(file: int, size: int) -> None:
    _open_files[file].truncate(size)


@_callback(c_void_p, c_int)
def _sync(file: int, flags: int) -> None:
    _open_files[file].sync()


@_callback(c_void_p, c_void_p)
def _file_size(file: int, result: int) -> None:
    c_int64.from_address(result).value = _open_files[file].size()


@_callback(c_void_p, c_int)
def _lock(file: int, level: int) -> int:
    return OK if _open_files[file].lock(level) else BUSY


@_callback(c_void_p, c_int)
def _unlock(file: int, level: int) -> None:
    _open_files[file].unlock(level)


@_callback(c_void_p, c_void_p)
def _check_reserved_lock(file: int, result: int) -> None:
    c_int.from_address(result).value = _open_files[file].is_reserved()


@_callback(c_void_p, c_int, c_void_p)
def _file_control(file: int, operation: int, argument: int | None) -> int:
    return NOT_FOUND


@_callback(c_void_p)
def _sector_size(file: int) -> int:
    return _SECTOR_SIZE


@_callback(c_void_p)
def _device_characteristics(file: int) -> int:
    return _POWERSAFE_OVERWRITE


@_callback(c_void_p, c_int, c_int, c_int, c_void_p)
def _shm_map(file: int, index: int, size: int, extend: int, result: int) -> None:
    c_void_p.from_address(result).value = _open_files[file].map_region(index, size, extend=bool(extend))


@_callback(c_void_p, c_int, c_int, c_int)
def _shm_lock(file: int, first: int, count: int, flags: int) -> int:
    slots = range(first, first + count)
    if flags & _SHM_UNLOCK:
        _open_files[file].unlock_slots(slots)
        return OK
    return OK if _open_files[file].lock_slots(slots, shared=bool(flags & _SHM_SHARED)) else BUSY


@_callback(c_void_p)
def _shm_barrier(file: int) -> None:
    """Nothing to do: taking Python's global lock to come here was a barrier."""


@_callback(c_void_p, c_int)
def _shm_unmap(file: int, delete: int) -> None:
    _open_files[file].unmap_regions()


_METHODS = _IoMethods(
    2,
    *(_close, _read, _write, _truncate, _sync, _file_size, _lock, _unlock, _check_reserved_lock),
    *(_file_control, _sector_size, _device_characteristics, _shm_map, _shm_lock, _shm_barrier, _shm_unmap),
)


@_callback(c_void_p, c_char_p, c_void_p, c_int, c_void_p)
def _open(vfs: int, name: bytes | None, file: int, flags: int, flags_result: int | None) -> None:
    head = _FileHead.from_address(file)
    head.pMethods = None
    _open_files[file] = _volumes[vfs].open_file(None if name is None else name.decode(), flags)
    head.pMethods = ctypes.addressof(_METHODS)
    if flags_result is not None:
        c_int.from_address(flags_result).value = flags


@_callback(c_void_p, c_char_p, c_int)
def _delete(vfs: int, name: bytes, sync: int) -> None:
    _volumes[vfs].delete(name.decode(), sync=bool(sync))


@_callback(c_void_p, c_char_p, c_int, c_void_p)
def _access(vfs: int, name: bytes, question: int, result: int) -> None:
    size = _volumes[vfs].size_of(name.decode())
    # As SQLite's own file system has it: an empty file counts as missing when the question is whether it exists.
    c_int.from_address(result).value = bool(size) if question == _ACCESS_EXISTS else size is not None


@_callback(c_void_p, c_char_p, c_int, c_void_p)
def _full_pathname(vfs: int, name: bytes, room: int, result: int) -> int:
    if len(name) >= room:
        return CANNOT_OPEN
    ctypes.memmove(result, name + b"\0", len(name) + 1)
    return OK


@functools.cache
def _library() -> ctypes.CDLL:
    """The SQLite that the sqlite3 module uses: looked up through the module itself, never by the library's name."""
    import _sqlite3

    library = ctypes.CDLL(getattr(_sqlite3, "__file__", None))
    library.sqlite3_vfs_find.argtypes = (c_char_p,)
    library.sqlite3_vfs_find.restype = ctypes.POINTER(_VfsHead)
    library.sqlite3_vfs_register.argtypes = (ctypes.POINTER(_VfsHead), c_int)
    library.sqlite3_vfs_unregister.argtypes = (ctypes.POINTER(_VfsHead),)
    return library


@contextmanager
def registered(volume: Volume) -> Generator[str]:
    """Make the volume known to SQLite; gives the name to put into `file:...?vfs=`."""
    library = _library()
    name = f"volume-{next(_numbers)}"
    head = _VfsHead.from_buffer_copy(
        library.sqlite3_vfs_find(None).contents
    )  # sleeping, clock and chance stay SQLite's
    head.iVersion = 2
    head.szOsFile = ctypes.sizeof(_FileHead)
    head.mxPathname = _LONGEST_NAME
    head.pNext = None
    head.zName = name.encode()
    head.pAppData = None
    head.xOpen, head.xDelete, head.xAccess, head.xFullPathname = _open, _delete, _access, _full_pathname
    address = ctypes.addressof(head)
    _volumes[address] = volume
    library.sqlite3_vfs_register(head, 0)
    try:
        yield name
    finally:
        library.sqlite3_vfs_unregister(head)
        if volume.in_use():
            _keep_alive.append(head)  # a connection that was left open goes on using it
        else:
            del _volumes[address]
