"""Find the service of a home, or start it: exactly one, however many frontends look for it at once.

Rules:
1. A process is the service of a home while it holds the lock of `<home>/run`. Its socket may not exist yet, or no
   longer: then we wait. If the socket is gone although the service accepts clients (`run/open`), it was deleted, which
   is reported. A socket without that lock was left by a killed process.
2. A process that finds no service takes the start lock, looks again, and keeps the lock until the new service accepts
   clients. All others wait for that. If a process dies, the system releases both locks, so no process waits forever.
"""

import fcntl
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import trio

import session_core as sc
from frontends.server.daemon.attached_client import talk_if_running
from frontends.server.daemon.background import start_in_background
from frontends.server.daemon.runtime_paths import find_holder, service_process
from frontends.shared.socket_path import prepare_run_folder, socket_path_of_home
from frontends.shared.wait_for_home import MAX_WAIT_S

_LOOK_EVERY_S: Final = 0.02
_RIGHT_TO_START: Final = "starting"


async def find_service(home: Path) -> Path | None:
    """Return the socket of a home's running service, or None if there is none; creates and starts nothing.

    Waits for a service that is still starting or about to end.

    Raises:
        Disconnected: The service does not answer, or its socket was deleted.
        Conflict: The service is of another release, and speaks another contract.
    """
    async with talk_if_running(home, role="observer") as talk:
        return None if talk is None else socket_path_of_home(home)


async def find_or_start(home: Path, *, arguments: Sequence[str] = ()) -> Path:
    """Return the socket of the service of a home, starting it in the background if there is none.

    `arguments` are options of `serve`, used if it starts one.

    Raises:
        StoreInUse: A program that is not a service uses the home; the message says which.
        NotStarted: The service cannot be started; the message says why.
        Disconnected: The service does not answer.
        Conflict: The service is of another release, and speaks another contract.
    """
    while True:
        found = await find_service(home)
        if found is not None:
            return found
        with _hold_start_right(await trio.to_thread.run_sync(_open_right, home)) as ours:
            if ours and await trio.to_thread.run_sync(service_process, home) is None:
                await _wait_until_unused(home)
                return (await start_in_background(home, arguments)).socket
        await trio.sleep(_LOOK_EVERY_S)


async def _wait_until_unused(home: Path) -> None:
    """Give a program that uses the home a moment to release it."""
    give_up_at = trio.current_time() + MAX_WAIT_S
    while (holder := await trio.to_thread.run_sync(find_holder, home)) is not None:
        if trio.current_time() >= give_up_at:
            raise sc.StoreInUse(f"this home is in use by {holder}, which is not a service; wait for it, or stop it")
        await trio.sleep(_LOOK_EVERY_S)


def _open_right(home: Path) -> int:
    return sc.setup.private_open(prepare_run_folder(home) / _RIGHT_TO_START, os.O_RDWR | os.O_CREAT)


@contextmanager
def _hold_start_right(descriptor: int) -> Generator[bool]:
    """Try to hold the start lock for the length of the block; closing the file releases it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        ours = True
    except BlockingIOError:
        ours = False
    try:
        yield ours
    finally:
        os.close(descriptor)
