"""The paths of a running service: its lock, its socket and its log."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs

import session_core as sc
from frontends.shared.home import format_command
from frontends.shared.sanitise import one_line
from frontends.shared.socket_path import run_folder as run_folder
from frontends.shared.socket_path import socket_path_of_home

LOG_FOLDER: Final = "logs"
LOG_NAME: Final = "service.log"
_OPEN: Final = "open"
_MOST_WORD: Final = 64


@attrs.frozen(kw_only=True)
class Listening:
    """A service that accepts clients: its addresses, also for other machines, and remarks for people."""

    pid: int
    socket: Path
    address: str | None = None
    open_to_others: str | None = None
    remarks: tuple[str, ...] = ()


def format_open_to_others(open_to_others: str) -> str:
    """Describe in one line that other machines can reach a service by HTTP, and how."""
    scheme, _, rest = open_to_others.partition("://")
    host, _, port = rest.rpartition(":")
    where = "on all addresses of this machine" if host in {"0.0.0.0", "[::]"} else f"on {host}"  # noqa: S104
    how = "encrypted" if scheme == "https" else "not encrypted by the service"
    return f"other machines can reach it by HTTP {where}, port {port}, {how}; each needs a token"


def log_file(home: Path) -> Path:
    """Return the file that a service writes its log to."""
    return home / LOG_FOLDER / LOG_NAME


def service_process(home: Path) -> sc.setup.LockHolder | None:
    """Return the process that is the service of this home, also while it is starting or ending; blocks briefly.

    Raises:
        StoreUnusable: It cannot be determined, for instance because the home belongs to another user.
    """
    folder = run_folder(home)
    return sc.setup.lock_holder(folder) if folder.is_dir() else None


@contextmanager
def announce_open(home: Path) -> Generator[None]:
    """Announce for the length of the block that this process accepts clients; enter it after creating the socket.

    It distinguishes a service whose socket was deleted from one that is starting or ending, and tells others its
    version without a connection.
    """
    word = run_folder(home) / _OPEN
    descriptor = sc.setup.private_open(word, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        os.write(descriptor, f"{os.getpid()} {sc.__version__}".encode())
    finally:
        os.close(descriptor)
    try:
        yield
    finally:
        word.unlink(missing_ok=True)


def find_cut_off(home: Path, holder: sc.setup.LockHolder) -> sc.Disconnected | None:
    """Return an error if a service is unreachable because its socket was deleted; blocks briefly."""
    if (
        read_service_version(home, holder) is None or socket_path_of_home(home).exists()
    ):  # it is still starting, or already ending
        return None
    end, start = format_command(home, "shutdown", ""), format_command(home, "serve", "")
    return sc.Disconnected(
        f"the service of this home is {holder}, and cannot be reached: its socket was deleted; to end it: {end}, and "
        f"to start another: {start}"
    )


def read_service_version(home: Path, holder: sc.setup.LockHolder) -> str | None:
    """Return the announced version of a service that accepts clients; blocks briefly."""
    try:
        word = (run_folder(home) / _OPEN).read_bytes()[:_MOST_WORD].decode("utf-8", "replace")
    except OSError:
        return None
    pid, _, version = word.partition(" ")
    return one_line(version) if pid == str(holder.pid) else None


def format_release_mismatch(home: Path, holder: sc.setup.LockHolder) -> str:
    """Describe that a service and this program are incompatible; blocks briefly."""
    version = read_service_version(home, holder)
    kind = f"of version {version}" if version else "of another version"
    return f"a service {kind} runs for this home, {holder}; this program, version {sc.__version__}, cannot talk to it"


def build_release_conflict(home: Path, error: sc.ProtocolError) -> sc.Conflict:
    """Return an error that says what to do about a service of another release; blocks briefly."""
    end = format_command(home, "shutdown", "")
    holder = service_process(home)
    which = f"{format_release_mismatch(home, holder)}: " if holder is not None else ""
    advice = f"to end it, so that one of this release starts when needed: {end}"
    return sc.Conflict(f"{which}{error.message} ({advice})")


def find_holder(home: Path) -> sc.setup.LockHolder | None:
    """Return the process that uses this home, whether it is a service or not; blocks briefly.

    Raises:
        StoreUnusable: It cannot be determined.
    """
    return sc.setup.lock_holder(home) if home.is_dir() else None
