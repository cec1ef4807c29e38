"""Bytes to a server and back over a unix socket."""

import logging
import socket
from pathlib import Path

import anyio
import pytest

import session_core as sc
from frontends.client.address import UnixAddress
from frontends.client.transport import TransportLost, open_transport
from frontends.shared.socket_path import short_socket_name
from tests.frontends.client._scripted import run


def bind(listening: socket.socket, path: Path) -> None:
    """Bind a socket to a path, however long it is."""
    with short_socket_name(path) as name:
        listening.bind(name)


def test_cancelled_as_bytes_come_in(backend: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A reading that is cancelled as bytes arrive leaves no trace in the log, and no byte is lost."""
    with socket.socket(socket.AF_UNIX) as listening:
        bind(listening, tmp_path / "s")
        listening.listen()

        async def body() -> None:
            async with open_transport(UnixAddress(path=tmp_path / "s")) as transport:
                with listening.accept()[0] as server:
                    for steps in range(6):
                        taken: list[bytes] = []

                        async def read() -> None:
                            taken.append(await transport.receive())  # noqa: B023 - of this round

                        async with anyio.create_task_group() as tasks:
                            tasks.start_soon(read)
                            for _ in range(5):
                                await anyio.lowlevel.checkpoint()
                            server.send(b"x")
                            for _ in range(steps // 2):
                                await anyio.lowlevel.checkpoint()
                            tasks.cancel_scope.cancel()
                        if not taken:
                            await read()
                        assert [b"x"] == taken

        with caplog.at_level(logging.DEBUG):
            run(backend, body)
    assert [] == [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_large_pieces(backend: str, tmp_path: Path) -> None:
    """What is sent comes out whole, however large it is, also when the other side reads late."""
    sent = bytes(range(256)) * 20_000

    async def body() -> None:
        with socket.socket(socket.AF_UNIX) as listening:
            bind(listening, tmp_path / "s")
            listening.listen()
            async with open_transport(UnixAddress(path=tmp_path / "s")) as transport:
                server, _ = listening.accept()
                server.setblocking(False)
                got = bytearray()
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(transport.send, sent)
                    while len(got) < len(sent):
                        try:
                            got += server.recv(100_000)
                        except BlockingIOError:
                            await anyio.wait_readable(server)
                assert sent == got
                server.close()
                with pytest.raises(TransportLost) as caught:
                    await transport.receive()
                assert (sc.Disconnected, False) == (type(caught.value.error), caught.value.final)
                with pytest.raises(TransportLost):
                    await transport.send(b"x")

    run(backend, body)


def test_a_crowd_at_the_door(backend: str, tmp_path: Path) -> None:
    """A client that finds too many before it knocks again until it is let in."""

    async def body() -> None:
        path = tmp_path / "s"
        with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as before:
            bind(listening, path)
            listening.listen(0)
            with short_socket_name(path) as name:
                before.connect(name)
            let_in = anyio.Event()

            async def knock() -> None:
                async with open_transport(UnixAddress(path=path)):
                    let_in.set()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(knock)
                await anyio.wait_all_tasks_blocked()  # it has knocked, and waits to knock again
                assert not let_in.is_set()
                listening.accept()[0].close()
                await let_in.wait()

    run(backend, body)
