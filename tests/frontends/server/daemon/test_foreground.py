"""The service itself, run in this process: its start, its end by itself, and what it leaves behind."""

import os
import signal
from pathlib import Path

import pytest
import trio

import session_core as sc
from frontends.client import open_client
from frontends.server import home_service
from frontends.server.daemon.command import ServeRequest
from frontends.server.daemon.foreground import serve_home
from frontends.server.daemon.runtime_paths import Listening, find_holder, log_file, service_process
from frontends.server.server import Server
from frontends.shared import wait_for_home
from frontends.shared.socket_path import socket_path_of_home


async def test_it_ends_itself_when_nobody_needs_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With nobody there and nothing to do it ends after a while, and leaves neither locks nor a socket."""
    heard: list[Listening] = []
    asked, end_when_idle = trio.Event(), Server.end_when_idle

    async def end_when_asked_and_idle(server: Server) -> None:
        await asked.wait()  # however long connecting takes
        await end_when_idle(server)

    monkeypatch.setattr(Server, "end_when_idle", end_when_asked_and_idle)

    async def ready(listening: Listening) -> None:
        heard.append(listening)
        async with open_client(home) as client:
            status = await client.status()
            assert (os.getpid(), 50) == (status.pid, status.idle_ms)
        assert service_process(home) is not None
        asked.set()

    with trio.fail_after(300):
        await serve_home(ServeRequest(home=home, idle_s=0.05), ready)
    assert [Listening(pid=os.getpid(), socket=socket_path_of_home(home))] == heard
    assert not await trio.Path(socket_path_of_home(home)).exists()
    assert service_process(home) is None is find_holder(home)
    assert "ending with 0 connections" in await trio.Path(log_file(home)).read_text()


async def test_a_signal_ends_it_and_tells_its_clients(home: Path) -> None:
    """A turn that runs when the end is asked for is interrupted and says so, and clients hear why they are left."""
    async with trio.open_nursery() as nursery:
        ready = trio.Event()

        async def announce(_: Listening) -> None:
            ready.set()

        nursery.start_soon(serve_home, ServeRequest(home=home), announce)
        await ready.wait()
        async with open_client(home) as client:
            created = await client.create_session(name="cut short")
            await client.send_user_message(created.session_id, "count to 1000 slowly")
            before = client.state
            os.kill(os.getpid(), signal.SIGTERM)
            lost = await client.state_change(before)
    reader = sc.SqliteReader(home)
    async with reader.open_reader():
        (summary,) = await reader.list_sessions()
    assert ("lost", "the server has ended the connection: the service was asked to end") == (lost.phase, lost.reason)
    assert "interrupted" == summary.activity.name


async def test_a_signal_during_the_start_ends_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for the end before anybody is let in gets it, and nothing is left locked."""

    def interrupted_store(home: Path) -> sc.SqliteStore:
        os.kill(os.getpid(), signal.SIGINT)
        return sc.SqliteStore(home)

    async def unexpected(_: Listening) -> None:
        raise AssertionError("nobody is let in")

    monkeypatch.setattr(home_service, "WaitingStore", interrupted_store)
    with trio.fail_after(300):
        await serve_home(ServeRequest(home=home), unexpected)
    assert service_process(home) is None is find_holder(home)


async def test_a_failure_is_logged_and_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What keeps it from starting is raised as it is, is in the log, and gives the home free."""
    monkeypatch.setattr(wait_for_home, "MAX_WAIT_S", 0.0)

    async def unexpected(_: Listening) -> None:
        raise AssertionError("nobody is let in")

    lock = sc.setup.HomeLock.acquire(sc.setup.prepare_home(home))
    try:
        with trio.fail_after(300), pytest.raises(sc.StoreInUse, match=f"process {os.getpid()}"):
            await serve_home(ServeRequest(home=home), unexpected)
    finally:
        lock.release()
    assert service_process(home) is None
    assert "the service failed" in await trio.Path(log_file(home)).read_text()
