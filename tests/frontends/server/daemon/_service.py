"""Real services in processes of their own, started and ended for tests."""

import json
import os
import signal
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

import attrs
import trio

import session_core as sc
from frontends.client import open_client
from frontends.server.daemon.runtime_paths import log_file, run_folder, service_process
from frontends.shared.socket_path import short_socket_name, socket_path_of_home
from tests.frontends._program import PATIENCE_S, Ended, program

DEMO = {"SESSION_CORE_MODEL": "demo"}


@attrs.frozen
class Service:
    """A service that runs."""

    home: Path
    started: Ended

    @property
    def pid(self) -> int:
        """Its process."""
        holder = service_process(self.home)
        assert holder is not None, "it runs"
        return holder.pid

    @property
    def socket(self) -> Path:
        """Where it listens."""
        return socket_path_of_home(self.home)

    @property
    def log(self) -> Path:
        """Where it writes what goes on."""
        return log_file(self.home)


@contextmanager
def service_of(home: Path, *options: str) -> Generator[Service]:
    """Have a service started by the real command line, without an event loop; it is gone at the end."""

    async def start() -> Ended:
        return await program("serve", "--home", str(home), *options, env=DEMO)

    started = trio.run(start)
    try:
        assert 0 == started.code, started.err
        yield Service(home, started)
    finally:
        end_services(home)


def end_services(home: Path) -> None:
    """Kill whatever serves this home, and wait until it is gone."""
    holder = service_process(home)
    if holder is None:
        return
    process = os.pidfd_open(holder.pid)
    try:
        os.kill(holder.pid, signal.SIGKILL)
        trio.run(_gone, process)
    finally:
        os.close(process)


async def _gone(process: int) -> None:
    with trio.fail_after(PATIENCE_S):
        await trio.lowlevel.wait_readable(process)


async def kill(home: Path) -> None:
    """Kill a service, from within an event loop."""
    holder = service_process(home)
    assert holder is not None
    process = os.pidfd_open(holder.pid)
    try:
        os.kill(holder.pid, signal.SIGKILL)
        await _gone(process)
    finally:
        os.close(process)


def runs(pid: int) -> bool:
    """Tell whether a process runs; one that has ended may wait for ever for somebody who asks how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def begin(home: Path, name: str, prompt: str, *, to_its_end: bool = False) -> sc.SessionId:
    """Have a client make a session, say something, and leave, then or when it is done."""
    async with open_client(home, name="a test", kind="script", wait_s=PATIENCE_S) as client:
        created = await client.create_session(name=name, cwd=str(home.parent))
        await client.send_user_message(created.session_id, prompt)
        if to_its_end:
            await client.wait_for_turn(created.session_id)
        return created.session_id


def has_begun(home: Path, name: str, prompt: str) -> sc.SessionId:
    """The same, for tests that run no event loop."""
    return trio.run(begin, home, name, prompt)


def has_been(home: Path, name: str, prompt: str) -> sc.SessionId:
    """The same, to its end."""
    return trio.run(partial(begin, to_its_end=True), home, name, prompt)


# --- things that look like a service ----------------------------------------------------------------------------------


@contextmanager
def being_the_service(home: Path) -> Generator[None]:
    """Hold the lock that makes a process the service of a home, and do nothing else that a service does."""
    sc.setup.prepare_home(home)
    lock = sc.setup.HomeLock.acquire(sc.setup.prepare_home(run_folder(home)))
    try:
        yield
    finally:
        lock.release()


@asynccontextmanager
async def refusing(home: Path) -> AsyncGenerator[None]:
    """Answer whoever connects as a service of another release does."""
    refusal = sc.wire.ErrorInfo(code="protocol_error", message="this server speaks version 9 of the contract")

    async def refuse(stream: trio.SocketStream) -> None:
        async with stream:
            asked = json.loads(await stream.receive_some(10_000))
            error = {"code": -32000, "message": "no", "data": sc.wire.to_json(refusal)}
            await stream.send_all(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}).encode() + b"\n")

    with socket.socket(socket.AF_UNIX) as listening:
        with short_socket_name(socket_path_of_home(home)) as name:
            listening.bind(name)
        listening.listen()
        async with trio.open_nursery() as nursery:
            listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
            await nursery.start(trio.serve_listeners, refuse, [listener])
            yield
            nursery.cancel_scope.cancel()
