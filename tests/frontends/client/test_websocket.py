"""The client over a WebSocket, with the real server and with a hostile one."""

import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.abc
import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Request, TextMessage

import session_core as sc
from frontends.client import open_client
from frontends.client.address import UnixAddress, WebSocketAddress, find_address
from frontends.client.transport import open_transport
from frontends.server.http.settings import HttpSettings, Tls
from tests.frontends.client._real import real_server
from tests.frontends.client._scripted import Mirror, ScriptedServer, run, until_phase


def test_a_turn_over_a_websocket(backend: str, tmp_path: Path) -> None:
    """A turn is followed over a WebSocket as over the socket of the home, and a wrong token is refused for good."""
    with real_server(tmp_path, http=HttpSettings()) as server:

        async def body() -> None:
            async with open_client(address=server.url, token=server.token) as client:
                session_id = (await client.create_session()).session_id
                mirror = Mirror()
                async with client.follow(session_id) as feed:
                    await client.send_user_message(session_id, "hello")
                    await client.wait_for_turn(session_id)
                    truth = await client.load_session(session_id)
                    await mirror.follow(feed, lambda state: state.sseq >= truth.sseq)
                    assert mirror.state is not None
                    assert truth.messages == mirror.state.messages
                await client.shutdown()
                await until_phase(client, "ended")

        async def refused() -> None:
            with pytest.raises(sc.AccessDenied, match="HTTP 401"):
                async with open_client(address=server.url, token="wrong", wait_s=20):
                    pass

        run(backend, refused)
        run(backend, body)

    async def nobody() -> None:
        with pytest.raises(sc.Disconnected, match="cannot be reached"):
            async with open_client(address=server.url, token=server.token):
                pass

    run(backend, nobody)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    """A certificate for 127.0.0.1."""
    folder = tmp_path_factory.mktemp("tls")
    made = Tls(certificate=folder / "certificate", key=folder / "key")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=x"
    options = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(made.key), "-out", str(made.certificate)]

    async def make() -> None:
        await anyio.run_process([*command.split(), *options])

    anyio.run(make)
    return made


def test_encrypted(backend: str, tmp_path: Path, certificate: Tls) -> None:
    """Over TLS, a server that the client trusts is used, and one that it does not trust is not reached."""
    with real_server(tmp_path, http=HttpSettings(tls=certificate)) as server:
        trusting = ssl.create_default_context(cafile=str(certificate.certificate))

        async def body() -> None:
            assert server.url.startswith("wss://")
            async with open_client(address=server.url, token=server.token, tls=trusting) as client:
                assert () == (await client.load_service()).sessions
            with pytest.raises(sc.Disconnected, match="certificate"):
                async with open_client(address=server.url, token=server.token):
                    pass

        run(backend, body)


@asynccontextmanager
async def hostile(after: Callable[[anyio.abc.ByteStream, WSConnection], Awaitable[None]]) -> AsyncGenerator[str]:
    """A server that welcomes a client over a WebSocket, and then does what it wants."""
    scripted = ScriptedServer(Path("nowhere"))

    async def serve(stream: anyio.abc.ByteStream) -> None:
        socket = WSConnection(ConnectionType.SERVER)
        async with stream:
            while True:
                socket.receive_data(await stream.receive())
                for event in socket.events():
                    if isinstance(event, Request):
                        await stream.send(socket.send(AcceptConnection()))
                    elif isinstance(event, TextMessage):
                        asked = sc.wire.Request(id=1, method="hello", params={})
                        reply = scripted.reply(asked, scripted.welcome(sc.wire.Hello()))
                        await stream.send(socket.send(TextMessage(data=reply.decode())))
                        await after(stream, socket)
                        return

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, serve)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        yield f"ws://127.0.0.1:{port}/v1/ws"
        tasks.cancel_scope.cancel()


def test_a_server_that_does_not_read(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaving a server that reads nothing any more takes a moment, not for ever."""
    monkeypatch.setattr("frontends.client.websocket._CLOSE_S", 0.05)

    async def stall(_: object, __: object) -> None:
        await anyio.sleep_forever()

    async def body() -> None:
        async with hostile(stall) as url:
            async with open_client(address=url) as client:
                async with anyio.create_task_group() as requests:
                    for _ in range(80):
                        requests.start_soon(client.search_messages, "x" * 200_000)
                    await anyio.wait_all_tasks_blocked()
                    assert client.link is not None
                    assert client.link._outbox, "it takes no more"
                    requests.cancel_scope.cancel()

    run(backend, body)


@pytest.mark.parametrize("garbage", [b"\x00" * 64, b"\x83\x7f" + b"\xff" * 40, b"\xc1\x02hi", b""], ids="0123")
def test_broken_frames_mean_a_new_connection(backend: str, garbage: bytes) -> None:
    """A server that breaks the rules of WebSockets, or closes the line, is connected to anew."""

    async def babble(stream: anyio.abc.ByteStream, _: object) -> None:
        if garbage:  # without any, it closes the line
            await stream.send(garbage)
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                while True:
                    await stream.receive()  # until the client has left

    async def body() -> None:
        phases: list[str] = []
        async with hostile(babble) as url:
            async with open_client(
                address=url, on_state=lambda state: phases.append(state.phase), pause_before=lambda _: 0.0
            ) as client:
                for _ in range(2):
                    await until_phase(client, "lost")
                    await until_phase(client, "connected")
        assert ["connected", "lost", "connected", "lost", "connected"] == phases[:5]

    run(backend, body)


@pytest.mark.parametrize(
    ("address", "field"),
    [
        ("http://127.0.0.1/", "address"),
        ("ws:///v1/ws", "address"),
        ("ws://user:word@127.0.0.1/", "address"),
        ("ws://127.0.0.1:99999/", "address"),
        ("ws://[::1/", "address"),
        ("ws://example.org/v1/ws", "address"),
        ("", "address"),
        ("a\0b", "address"),
    ],
)
def test_addresses_that_are_refused(address: str, field: str) -> None:
    """An address that is none, or where everybody could read the token on its way, is refused with a reason."""
    with pytest.raises(sc.InvalidInput) as caught:
        find_address(address=address, token="secret")
    assert field == caught.value.field


def test_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home, a path and a URL each lead to their address, and the token is not shown."""
    monkeypatch.setenv("SESSION_CORE_HOME", str(tmp_path))
    assert UnixAddress(path=tmp_path / "run" / "service.sock") == find_address() == find_address(home=tmp_path)
    assert UnixAddress(path=Path("/a/b")) == find_address(address="/a/b") == find_address(address=Path("/a/b"))
    for url in ("ws://127.0.0.2:80/v1/ws", "ws://localhost/v1/ws", "ws://[::1]:8/v1/ws", "wss://example.org/v1/ws"):
        found = find_address(address=url, token="secret")
        assert WebSocketAddress(url=url, token="secret") == found
        assert "secret" not in repr(found)
    for bare in ("ws://a.example", "ws://a.example/"):
        assert WebSocketAddress(url="ws://a.example/v1/ws") == find_address(address=bare, insecure=True)
    with pytest.raises(sc.InvalidInput, match="not both"):
        find_address(home=tmp_path, address="/x")
    with pytest.raises(sc.InvalidInput, match="token"):
        find_address(address="ws://localhost/", token="two\nlines")


def test_a_long_text_is_heard_while_it_comes(backend: str) -> None:
    """Each part of a text is a sign of life, however long the whole takes; then the text arrives as it is."""
    text = "x" * 300_000

    async def body() -> None:
        begun, heard = anyio.Event(), anyio.Event()

        async def serve(stream: anyio.abc.ByteStream) -> None:
            async with stream:
                connection = WSConnection(ConnectionType.SERVER)
                connection.receive_data(await stream.receive())
                assert isinstance(next(connection.events()), Request)
                await stream.send(connection.send(AcceptConnection()))
                await stream.send(connection.send(TextMessage(data="first")))
                await begun.wait()
                whole = connection.send(TextMessage(data=text))
                await stream.send(whole[:100_000])
                await heard.wait()
                await stream.send(whole[100_000:])
                with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                    await stream.receive()

        async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
            port = listener.extra(anyio.abc.SocketAttribute.local_port)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(listener.serve, serve)
                async with open_transport(WebSocketAddress(url=f"ws://127.0.0.1:{port}/")) as transport:
                    assert b"first\n" == await transport.receive()
                    transport.heard = heard.set
                    begun.set()
                    assert f"{text}\n".encode() == await transport.receive()
                tasks.cancel_scope.cancel()

    run(backend, body)
