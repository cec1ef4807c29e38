"""Landlock as a second layer: what a sandbox starts reaches no abstract socket and signals no process outside of it.

Namespaces and the system call filter forbid most of this already. Landlock also holds where a command shares the
network and may use unix sockets. A restriction binds one thread and everything it starts, for good, so it is put on a
thread of its own, which starts one program and then ends. It names no files: with such rules the kernel forbids mounts,
and bubblewrap has to mount (docs/decisions/0028).
"""

import ctypes
import functools
import os
import stat
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import trio

_CREATE: Final = 444
_RESTRICT: Final = 446
_ASK_VERSION: Final = 1
_SCOPES: Final = 0b11
"""Abstract unix sockets, and signals."""
_VERSION_WITH_SCOPES: Final = 6
_NO_NEW_PRIVILEGES: Final = 38


class _Rules(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


@functools.cache
def has_landlock_scopes() -> bool:
    """Return whether this kernel can confine sockets and signals."""
    return sys.platform == "linux" and _call(_CREATE, None, 0, _ASK_VERSION) >= _VERSION_WITH_SCOPES


def start_thread(live: Callable[[], None], *, name: str, bubblewrap: str | None) -> None:
    """Start a thread that starts a program; if that is bubblewrap, confine what it starts, where the kernel can."""
    if bubblewrap is None or not has_landlock_scopes():
        trio.lowlevel.start_thread_soon(live, lambda ended: ended.unwrap(), name=name)
        return

    def live_confined() -> None:
        # A program that gains rights by its file, as some systems install bubblewrap, could not do so any more.
        if not _gains_rights(bubblewrap):
            restrict_thread()
        live()

    # Trio would use its thread again, for something that must not be confined.
    threading.Thread(target=live_confined, name=name, daemon=True).start()


def restrict_thread() -> bool:
    """Confine this thread and everything that it starts from now on; return whether the kernel did."""
    rules = _Rules(0, 0, _SCOPES)
    ruleset = _call(_CREATE, ctypes.byref(rules), ctypes.sizeof(rules), 0)
    if ruleset < 0:
        return False
    try:
        _library().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        return _call(_RESTRICT, ctypes.c_int(ruleset), 0, 0) == 0
    finally:
        os.close(ruleset)


def _gains_rights(program: str) -> bool:
    with suppress(OSError):
        return bool(os.stat(program).st_mode & (stat.S_ISUID | stat.S_ISGID))
    return True


def _call(number: int, first: object, second: int, third: int) -> int:
    return int(_library().syscall(ctypes.c_long(number), first, ctypes.c_size_t(second), ctypes.c_uint32(third)))


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library
