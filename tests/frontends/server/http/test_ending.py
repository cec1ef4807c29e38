"""The end of the listener, whatever its clients do; TLS; and what is relied on in hypercorn."""

import inspect
import ssl
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from math import inf
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from hypercorn.config import Config
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.protocol.ws_stream import WebsocketBuffer

import session_core as sc
from frontends.server.http.hypercorn_guards import ClientGone
from frontends.server.http.listener import Connections, open_http_listener
from frontends.server.http.settings import HttpSettings, Tls
from frontends.server.server import Server, ServerSettings
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import ScriptedProvider, text
from tests.frontends.server.http._listener import PLENTY, RunningListener, open_listener, until
from tests.frontends.server.http.test_hostile import UPGRADE


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    """A certificate for 127.0.0.1."""
    folder = tmp_path_factory.mktemp("tls")
    made = Tls(certificate=folder / "certificate", key=folder / "key")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=x"
    options = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(made.key), "-out", str(made.certificate)]

    async def make() -> None:
        await trio.run_process([*command.split(), *options], capture_stderr=True)

    trio.run(make)
    return made


@asynccontextmanager
async def connected(world: RunningListener, tls: Tls | None) -> AsyncGenerator[trio.abc.Stream]:
    """A connection that is dropped, not closed, at the end."""
    stream: Any = await world.raw()
    if tls is not None:
        context = ssl.create_default_context(cafile=str(tls.certificate))
        stream = trio.SSLStream(stream, context, server_hostname="127.0.0.1", https_compatible=True)
    try:
        yield stream
    finally:
        await trio.aclose_forcefully(stream)


def frame(line: bytes) -> bytes:
    """A WebSocket message of a client."""
    return b"\x81" + bytes([0x80 | len(line)]) + b"\0\0\0\0" + line


@pytest.mark.parametrize("secure", [False, True])
async def test_stalled_clients_do_not_hold_up_the_end(tmp_path: Path, tls: Tls, *, secure: bool) -> None:
    """With a feed, a WebSocket and a plain answer that nobody reads on, half a request, the listener closes soon."""
    provider = ScriptedProvider(text(*["x" * 1_000_000] * 12))
    config = sc.ServiceConfig(models={"m": provider}, tools=(), cwd="/", store=sc.MemoryStore())
    settings = HttpSettings(bounds=PLENTY, tls=tls if secure else None)  # where nothing but the end is in a hurry
    async with open_checked_service(config) as service, AsyncExitStack() as stack:
        bound = stack.enter_context(trio.fail_at(inf))
        server = Server(service, ServerSettings(home=str(tmp_path)))
        made = (await service.create_session(name="x")).session_id
        async with open_http_listener(server, settings) as listener:
            world = RunningListener(listener, server, service, tmp_path)
            feed, socket, plain, half, silent = [
                await stack.enter_async_context(connected(world, settings.tls)) for _ in range(5)
            ]
            await feed.send_all(world.head(f"/v1/sessions/{made}/events"))
            await socket.send_all(world.head("/v1/ws", *UPGRADE))
            assert (await socket.receive_some(10_000)).startswith(b"HTTP/1.1 101 ")
            await socket.send_all(frame(b'{"jsonrpc":"2.0","id":1,"method":"hello","params":{}}'))
            asked = b'{"jsonrpc":"2.0","id":2,"method":"follow","params":{"session_id":"%s"}}' % made.encode()
            await socket.send_all(frame(asked))
            await until(lambda: service.statistics().stream.subscribers >= 2)
            await service.send_user_message(made, "go")
            await service.wait_for_turn(made)
            await plain.send_all(world.head(f"/v1/sessions/{made}"))
            assert await plain.receive_some(1) == b"H"
            await half.send_all(world.head("/v1/status")[:-2])
            if not secure:
                await silent.send_all(b"G")
            assert len(listener.connections) >= 4
            server.end(sc.wire.Goodbye(reason="enough"))
            bound.deadline = trio.current_time() + 60
        bound.deadline = inf

        assert 0 == len(listener.connections) == server.connections


async def test_the_end_is_quick_when_nobody_stalls(tmp_path: Path) -> None:
    """A feed that is read and connections that rest end by themselves: the listener closes at once, and whole."""
    async with AsyncExitStack() as stack:
        bound = stack.enter_context(trio.fail_at(inf))
        patient = attrs.evolve(PLENTY, farewell_s=600)
        async with open_listener(tmp_path, settings=HttpSettings(bounds=patient)) as world:
            client = await stack.enter_async_context(world.client())
            await client.get("/healthz")  # rests from now on
            feed = await stack.enter_async_context(world.events("/v1/events"))
            await feed.next()
            await feed.next()
            world.server.end(sc.wire.Goodbye(reason="enough"))
            bound.deadline = trio.current_time() + 60
        bound.deadline = inf
        rest = await feed.rest()

    assert ["ended"] == [each.name for each in rest]
    assert feed.ended


async def test_the_door_opens_on_ipv6(tmp_path: Path) -> None:
    """A listener on ::1 is reached by its address, written as addresses of that kind are."""
    async with (
        open_listener(tmp_path, settings=HttpSettings(host="::1", bounds=PLENTY)) as world,
        world.client() as client,
    ):
        assert world.url.startswith("http://[::1]:")
        assert 200 == (await client.get("/v1/status")).status_code
        assert 421 == (await client.get("/v1/status", headers={"host": "[::1]"})).status_code


async def test_tls_is_spoken_and_nothing_else_on_its_port(tmp_path: Path, tls: Tls) -> None:
    """With a certificate the listener speaks TLS, its cookies are Secure, and plain HTTP gets no answer."""
    async with open_listener(tmp_path, settings=HttpSettings(bounds=PLENTY, tls=tls)) as world:
        context = ssl.create_default_context(cafile=str(tls.certificate))
        async with world.client(verify=context) as client, world.client(None, verify=context) as browser:
            status = await client.get("/v1/status")
            login = await browser.get(world.listener.login_link())
            read = await browser.get("/v1/status")
        plain = await world.exchange(world.head("/v1/status"))

        assert world.url.startswith("https://")
        assert [200, 303, 200] == [status.status_code, login.status_code, read.status_code]
        cookie = login.headers["set-cookie"]
        assert cookie.startswith("__Host-session-core-")
        assert cookie.endswith("; Secure")
        assert b"HTTP/1.1" not in plain


async def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path, tls: Tls) -> None:
    """A missing or wrong certificate is one clear sentence, and nothing listens."""
    swapped = Tls(certificate=tls.key, key=tls.certificate)
    missing = Tls(certificate=tls.certificate, key=tmp_path / "none")
    for each, words in [
        (swapped, "is '.*key' the certificate, and '.*'"),
        (missing, "'.*none' cannot be read: No such"),
    ]:
        with pytest.raises(sc.Unavailable, match=f"the certificate or its key cannot be used: {words}"):
            async with open_listener(tmp_path, settings=HttpSettings(tls=each)):
                pass


async def test_sending_to_nobody_fails_and_lets_others_run() -> None:
    """An app that only sends is told with an error when its client has gone, for WebSockets as for plain answers."""
    failures: list[BaseException] = []
    sent = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal sent
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
        else:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            while True:
                if scope["type"] == "websocket":
                    await send({"type": "websocket.send", "text": "x"})
                else:
                    await send({"type": "http.response.body", "body": b"x", "more_body": True})
                sent += 1
        except ClientGone as gone:
            failures.append(gone)
            raise

    connections = Connections(app, PLENTY, (), None)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    async with listeners[0], trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, connections.serve_client, listeners)
        for more in [(), UPGRADE]:
            before = sent
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                await stream.send_all("\r\n".join(["GET / HTTP/1.1", "Host: x", *more, "", ""]).encode())
                while sent == before:
                    await stream.receive_some(100)
        await until(lambda: not connections)
        nursery.cancel_scope.cancel()

    assert 2 == len(failures)
    assert sent > 0


async def test_a_bug_in_a_handler_is_the_end_of_its_request_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A handler that fails by a bug is answered with 500 and an ErrorInfo, is logged, and others go on."""
    async with open_listener(tmp_path) as world, world.client() as client:

        def fail() -> None:
            raise ZeroDivisionError

        world.server.status = fail  # type: ignore[method-assign,assignment]
        failed = await client.get("/v1/status")
        fine = await client.get("/healthz")

        assert (500, "internal") == (failed.status_code, failed.json()["code"])
        assert "ZeroDivisionError" not in failed.text
        assert 200 == fine.status_code
    logged = [record.getMessage() for record in caplog.records if record.exc_info]
    assert ["a request failed because of a bug"] == logged


def test_hypercorn_is_the_one_that_is_guarded() -> None:
    """The guards reach into hypercorn: with another version, look at each rule of hypercorn_guards again, then here."""
    assert "0.18.0" == version("hypercorn")
    expected = {"_check_protocol": ["self", "event"], "_create_stream": ["self", "request"]}
    expected |= {"_send_error_response": ["self", "status_code"], "handle": ["self", "event"]}
    assert expected == {name: list(inspect.signature(getattr(H11Protocol, name)).parameters) for name in expected}
    made = list(inspect.signature(H11Protocol).parameters)
    assert ["app", "config", "context", "task_group", "connection_state", "ssl", "client", "server", "send"] == made
    assert ["self", "protocol"] == list(inspect.signature(Config.response_headers).parameters)
    assert {"length", "max_length"} <= vars(WebsocketBuffer(5)).keys()
