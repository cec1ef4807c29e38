"""The home's own door: a unix socket that only programs of the same user can reach."""

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
from frontends.server.admission import serve_all
from frontends.server.connection import serve_connection
from frontends.server.server import Server
from frontends.shared.socket_path import short_socket_name

log = logging.getLogger(__name__)

_BACKLOG: Final = 1_024
_CREDENTIALS: Final = struct.Struct("3i")  # pid, uid, gid


async def serve_unix(
    server: Server, path: Path, *, task_status: trio.TaskStatus[Path] = trio.TASK_STATUS_IGNORED
) -> None:
    """Let clients in at this path until cancelled.

    The caller holds the lock of the home: whatever socket is there was left by somebody who is gone.

    Raises:
        StoreUnusable: The socket cannot be made.
    """
    with _listening(path) as listening:
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))

        async def welcome(stream: trio.SocketStream) -> None:
            async with stream:
                if not _is_ours(stream.socket):
                    log.warning("a program of another user tried to connect, and was turned away")
                    return
                await serve_connection(server, stream, stream)

        async with trio.open_nursery() as nursery:
            await nursery.start(serve_all, listener, welcome)
            task_status.started(path)


@contextmanager
def _listening(path: Path) -> Generator[socket.socket]:
    """Have a socket at this path for the length of the block."""
    folder = sc.prepare_home(path.parent)
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
            raise sc.StoreUnusable(f"the socket {str(place)!r} cannot be made: {error.strerror}") from error
        finally:
            os.umask(before)
        made = place.lstat()
        listening.listen(_BACKLOG)
        listening.setblocking(False)
        try:
            yield listening
        finally:
            with suppress(FileNotFoundError):
                if os.path.samestat(place.lstat(), made):  # not one that somebody else has put there since
                    place.unlink()


def _is_ours(connected: trio.socket.SocketType) -> bool:
    """Tell whether the program at the other end runs as this user; where the system cannot tell, the folder decides."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(raw)
    return bool(uid == os.geteuid())
