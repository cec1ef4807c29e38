"""Ask the system about many folders at once, to learn which of them have not changed.

`os.stat` makes some twenty Python values of each answer. Here the answers go to one piece of memory, and what counts in
them is compared as whole columns of numbers. Where the system has no `statx`, no folder counts as unchanged.
"""

import ctypes
import functools
import os
import struct
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Final

_CHUNK: Final = 512
"""So many folders are asked about before a look at the clock; their answers take 128 KiB."""
_ANSWER_BYTES: Final = 256
_NO_FOLLOW: Final = 0x100
_WANTED: Final = 0x80 | 0x100
"""The change time and the number; the device is always there."""
_PLACES: Final = tuple(place // 8 for place in (32, 96, 104, 136))
"""Where an answer has the number, the seconds and nanoseconds of the change time, and the device: eight bytes each."""


class FolderStates:
    """The states of some folders, as they were just before somebody looked into them."""

    def __init__(self, folders: Sequence[tuple[str, int, int, int]]) -> None:
        """Take each folder's path, relative to another folder, its device, number, and change time in nanoseconds."""
        self._paths = [os.fsencode(path) for path, *_ in folders]
        self._columns = tuple(zip(*(_as_numbers(*state) for _, *state in folders), strict=True))

    def find_unchanged(self, opened: int, deadline: float) -> list[bool]:
        """Return of each folder, beneath an open one, whether it is surely as it was; of no more after the deadline."""
        ask = _find_statx()
        unchanged: list[bool] = []
        if ask is None:
            return unchanged
        try:
            answers = _unused.pop()
        except IndexError:
            answers = _Answers()
        for start in range(0, len(self._paths), _CHUNK):
            if time.monotonic() > deadline:
                break
            part = slice(start, start + _CHUNK)
            paths = self._paths[part]
            now = answers.ask_about(paths, opened, ask)
            before = [column[part] for column in self._columns]
            if now == before:
                unchanged += [True] * len(paths)
            else:
                unchanged += map(tuple.__eq__, zip(*now, strict=True), zip(*before, strict=True))
        _unused.append(answers)
        return unchanged


def _as_numbers(disk: int, number: int, changed_ns: int) -> tuple[int, int, int, int]:
    seconds, nanoseconds = divmod(changed_ns, 1_000_000_000)
    return (
        number,
        seconds & 0xFFFF_FFFF_FFFF_FFFF,
        _join(nanoseconds, 0),
        _join(os.major(disk), os.minor(disk)),
    )


def _join(first: int, second: int) -> int:
    """Return the number of eight bytes that two of four bytes make in memory."""
    return int.from_bytes(struct.pack("=II", first, second), sys.byteorder)


class _Answers:
    """Memory for answers of the system, for one thread at a time."""

    def __init__(self) -> None:
        size = _CHUNK * _ANSWER_BYTES
        self._memory = bytearray(size)
        self._zeros = bytes(size)
        self._numbers = memoryview(self._memory).cast("Q")
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._pointers = [ctypes.c_void_p(start + place) for place in range(0, size, _ANSWER_BYTES)]

    def ask_about(self, paths: Sequence[bytes], opened: int, ask: Callable[..., int]) -> list[tuple[int, ...]]:
        """Return the columns of numbers; zeros for what cannot be asked about, which no folder has for its number."""
        self._memory[:] = self._zeros
        asked = map(ask, repeat(opened), paths, repeat(_NO_FOLLOW), repeat(_WANTED), self._pointers)
        deque(asked, maxlen=0)
        step = _ANSWER_BYTES // 8
        return [tuple(self._numbers[place : len(paths) * step : step]) for place in _PLACES]


_unused: Final = deque[_Answers]()


@functools.cache
def _find_statx() -> Callable[..., int] | None:
    """Return the function of the C library. The types of its arguments are not declared, as checking them is slow."""
    if sys.platform != "linux":
        return None
    function: Callable[..., int] | None = getattr(ctypes.CDLL(None), "statx", None)
    return function
