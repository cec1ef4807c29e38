"""Where the terminal's service is."""

import threading
from pathlib import Path

import anyio
import pytest

import session_core as sc
from frontends.client import open_client
from frontends.terminal.backend import BackgroundService, EmbeddedService
from tests.frontends.terminal._asyncio import on_asyncio
from tests.frontends.terminal._idle import PATIENCE_S


def answers(socket: Path) -> bool:
    """Whether a service lets us in there."""
    found: list[bool] = []

    async def ask() -> None:
        async with open_client(address=socket, name="test", kind="terminal", wait_s=PATIENCE_S) as client:
            found.append(isinstance(await client.status(), sc.wire.ServiceStatus))

    on_asyncio(ask)
    return found == [True]


def test_an_embedded_service_lives_as_long_as_its_place(tmp_path: Path) -> None:
    """It is started once, lets clients in, and leaves neither a thread nor a socket behind."""
    place = EmbeddedService(tmp_path)
    before = set(threading.enumerate())
    socket = place.open()
    try:
        assert place.open() == socket
        assert answers(socket)
        assert socket.parent != tmp_path
    finally:
        place.close()
    assert not socket.parent.exists()
    assert [each for each in threading.enumerate() if each not in before and not _is_kept_for_later(each)] == []
    with pytest.raises(sc.Disconnected, match="closed"):
        place.open()


def _is_kept_for_later(thread: threading.Thread) -> bool:
    """Whether trio or anyio keeps a thread that has nothing to do for whoever needs one next."""
    return thread.name.startswith(("Trio thread", "AnyIO worker thread"))  # while it works, trio calls it otherwise


def test_an_embedded_service_that_was_ended_is_started_again(tmp_path: Path) -> None:
    """Who opens a place whose service has ended gets another service."""

    async def end(socket: Path) -> None:
        async with open_client(address=socket, name="test", kind="terminal", wait_s=PATIENCE_S) as client:
            await client.shutdown()

    place = EmbeddedService(tmp_path)
    try:
        first = place.open()
        on_asyncio(lambda: end(first))
        assert place._running is not None
        place._running._thread.join(PATIENCE_S)
        assert answers(place.open())
    finally:
        place.close()


def test_an_embedded_service_that_cannot_start_says_why(tmp_path: Path) -> None:
    """What is wrong is one sentence for people, and can be tried again."""
    home = tmp_path / "home"
    home.write_text("no folder")
    place = EmbeddedService(home)
    for _ in range(2):
        with pytest.raises((sc.SessionCoreError, OSError)):
            place.open()
    place.close()


def test_closing_ends_an_opening_that_still_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place in the background that is looked for is left at once when the terminal is closed."""
    looking = threading.Event()

    async def find_or_start(home: Path, arguments: object) -> Path:
        looking.set()
        await anyio.sleep_forever()
        return home

    monkeypatch.setattr("frontends.server.daemon.discovery.find_or_start", find_or_start)
    place = BackgroundService(tmp_path)
    raised: list[BaseException] = []

    def opening() -> None:
        try:
            place.open()
        except sc.Disconnected as error:
            raised.append(error)

    thread = threading.Thread(target=opening)
    thread.start()
    assert looking.wait(PATIENCE_S)
    place.close()
    thread.join(PATIENCE_S)
    assert [str(each) for each in raised] == ["the terminal was closed"]
    with pytest.raises(sc.Disconnected, match="closed"):
        place.open()
