"""The home's own listener: a unix socket that only programs of the same user can reach."""

import logging
import os
import socket
import stat
import struct
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import trio

import session_core as sc
from frontends.server.connection import serve_connection
from frontends.server.server import Server
from frontends.shared.socket_path import short_socket_name

log = logging.getLogger(__name__)

_BACKLOG: Final = 1_024
_CREDENTIALS: Final = struct.Struct("3i")  # pid, uid, gid


async def serve_unix(
    server: Server, path: Path, *, task_status: trio.TaskStatus[Path] = trio.TASK_STATUS_IGNORED
) -> None:
    """Accept clients at this path until cancelled.

    The caller holds the lock of the home, so an existing socket was left by a process that is gone.

    Raises:
        StoreUnusable: The socket cannot be created.
    """
    with _listening(path) as listening:
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))

        async def welcome(stream: trio.SocketStream) -> None:
            if not _is_ours(stream.socket):
                log.warning("a program of another user tried to connect and was refused")
                return
            await serve_connection(server, stream, stream)

        task_status.started(path)
        await trio.serve_listeners(welcome, [listener])


@contextmanager
def _listening(path: Path) -> Generator[socket.socket]:
    """Listen on a socket at this path for the length of the block."""
    folder = sc.setup.prepare_home(path.parent)
    place = folder / path.name
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(place.lstat().st_mode):
            raise sc.StoreUnusable(f"{str(place)!r} is not a socket; move it away")
        place.unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        before = os.umask(0o177)
        try:
            with short_socket_name(place) as name:
                listening.bind(name)
        except OSError as error:
            raise sc.StoreUnusable(f"the socket {str(place)!r} cannot be created: {error.strerror}") from error
        finally:
            os.umask(before)
        made = place.lstat()
        listening.listen(_BACKLOG)
        listening.setblocking(False)
        try:
            yield listening
        finally:
            with suppress(FileNotFoundError):
                if os.path.samestat(place.lstat(), made):  # not one that another process has put there since
                    place.unlink()


def _is_ours(connected: trio.socket.SocketType) -> bool:
    """Return whether the peer runs as this user; if the system cannot tell, the folder's permissions decide."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(raw)
    return bool(uid == os.geteuid())
