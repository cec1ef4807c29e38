"""Where a running service has its lock, its socket and its log."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs

import session_core as sc
from frontends.contract.socket_place import socket_of
from frontends.stored.home import to_type

LOG_FOLDER: Final = "logs"
LOG_NAME: Final = "service.log"
_OPEN: Final = "open"


@attrs.frozen(kw_only=True)
class Listening:
    """A service that lets clients in: where, and what people should know about it."""

    pid: int
    socket: Path
    address: str | None = None
    remarks: tuple[str, ...] = ()


def run_folder(home: Path) -> Path:
    """Return the folder of what belongs to one run of a service: its socket and its lock."""
    return socket_of(home).parent


def log_file(home: Path) -> Path:
    """Return the file that a service writes its log to."""
    return home / LOG_FOLDER / LOG_NAME


def service_process(home: Path) -> sc.Holder | None:
    """Tell which process is the service of this home, also while it still starts or already ends; blocks briefly.

    Raises:
        StoreUnusable: It cannot be known, for instance because the home belongs to somebody else.
    """
    folder = run_folder(home)
    return sc.lock_holder(folder) if folder.is_dir() else None


@contextmanager
def being_open(home: Path) -> Generator[None]:
    """Leave word for the length of the block that this process lets clients in; it begins after the socket is made.

    With it, a service whose socket somebody has deleted is told from one that still starts or already ends.
    """
    word = run_folder(home) / _OPEN
    descriptor = sc.private_open(word, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        os.write(descriptor, str(os.getpid()).encode())
    finally:
        os.close(descriptor)
    try:
        yield
    finally:
        word.unlink(missing_ok=True)


def cut_off(home: Path, holder: sc.Holder) -> sc.Disconnected | None:
    """Say that nobody can reach a service any more, if it lets clients in at a socket that is gone; blocks briefly."""
    try:
        if socket_of(home).exists() or (run_folder(home) / _OPEN).read_bytes()[:32] != str(holder.pid).encode():
            return None
    except OSError:  # it still starts, or already ends
        return None
    end, start = to_type(home, "shutdown", ""), to_type(home, "serve", "")
    return sc.Disconnected(
        f"the service of this home is {holder}, and cannot be reached: its socket was deleted; to end it: {end}, and "
        f"to start another: {start}"
    )


def other_release(home: Path, error: sc.ProtocolError) -> sc.Conflict:
    """Say what to do about a service that is not of this release."""
    end = to_type(home, "shutdown", "")
    return sc.Conflict(f"{error.message} (to end it, and have one of this release started when one is needed: {end})")


def other_holder(home: Path) -> sc.Holder | None:
    """Tell which process uses this home, whether it is a service or not; blocks briefly.

    Raises:
        StoreUnusable: It cannot be known.
    """
    return sc.lock_holder(home) if home.is_dir() else None
