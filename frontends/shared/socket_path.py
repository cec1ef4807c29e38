"""The path of a home's socket, and a short name for it, because the system accepts only short names."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import session_core as sc

MAX_SOCKET_PATH: Final = 107 if sys.platform.startswith("linux") else 103
"""The longest path in a socket address in bytes, without the zero at its end."""
_DESCRIPTORS: Final = Path("/proc/self/fd")


def socket_path_of_home(home: Path) -> Path:
    """Return the socket of a home; its server binds it, and its clients connect to it."""
    return home / "run" / "service.sock"


def run_folder(home: Path) -> Path:
    """Return the folder for one run of a service: its socket, its lock, its token. Blocks briefly.

    Raises:
        StoreUnusable: It is a link: a program that can change its target could impersonate the service.
    """
    folder = socket_path_of_home(home).parent
    if folder.is_symlink():
        raise sc.StoreUnusable(f"{str(folder)!r} is a link; a service needs a folder of its own there: remove the link")
    return folder


def prepare_run_folder(home: Path) -> Path:
    """Create that folder and the home, or check the existing ones, and make them private; blocks briefly.

    Raises:
        StoreUnusable: One of them cannot be created, is not ours, or cannot be made private.
    """
    sc.setup.prepare_home(home)
    return sc.setup.prepare_home(run_folder(home))


@contextmanager
def short_socket_name(path: Path) -> Generator[str]:
    """Yield a name of this socket that the system accepts, to bind or connect within the block.

    A path that is too long is named through its opened folder. Nothing persistent depends on that name.

    Raises:
        OSError: The folder cannot be opened.
        Unavailable: The path is too long, and this system has no names for opened folders.
    """
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH:
        yield str(path)
        return
    if not _DESCRIPTORS.is_dir() or len(os.fsencode(path.name)) > MAX_SOCKET_PATH // 2:
        raise sc.Unavailable(
            f"the path of the socket has more than {MAX_SOCKET_PATH} bytes, which this system does not accept; "
            "choose a home with a shorter path"
        )
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield str(_DESCRIPTORS / str(folder) / path.name)
    finally:
        os.close(folder)
