"""Calls over HTTP: whatever the other side does, there is one clear end, and the key goes nowhere else."""

import gzip
import logging
import socket

import pytest
import trio
import trio.testing

from session_core.errors import InvalidInput
from session_core.providers.base import ModelFailed
from session_core.providers.endpoint import Endpoint
from session_core.providers.http import HttpStream, open_stream
from session_core.providers.secrets import Secret
from session_core.providers.sse import SseEvent
from session_core.providers.timeouts import ProviderTimeouts
from tests.session_core.providers._replay_server import (
    CUT,
    FOREVER,
    STALL,
    ReplayServer,
    Reply,
    json_reply,
    open_replay_server,
)

KEY = "my-very-secret-key"
ONE = b"data: one\n\n"


async def _call(endpoint: Endpoint) -> list[SseEvent | ModelFailed]:
    async with open_stream(endpoint, "/call", b"{}") as opened:
        if isinstance(opened, ModelFailed):
            return [opened]
        return [item async for item in opened]


async def _ask(server: ReplayServer, **fields: object) -> list[SseEvent | ModelFailed]:
    endpoint = Endpoint(base_url=server.base_url, key=Secret(KEY), **fields)  # type: ignore[arg-type]
    try:
        found = await _call(endpoint)
    finally:
        await endpoint.aclose()
    assert KEY not in repr(found)
    return found


async def test_a_stream_is_read_to_its_end() -> None:
    """Events come in order, and the request carries key, headers and body."""
    async with open_replay_server(Reply(body=(b"data: o", b"ne\n\nda", b"ta: two\n\n"))) as server:
        headers = {"X-Extra": "1", "X-Hidden": Secret("hidden")}
        assert [SseEvent(data="one"), SseEvent(data="two")] == await _ask(server, headers=headers)
        (request,) = server.requests
    assert ("POST", "/call", b"{}") == (request.method, request.path, request.body)
    expected = {
        "authorization": f"Bearer {KEY}",
        "x-extra": "1",
        "x-hidden": "hidden",
        "content-type": "application/json",
    }
    assert expected == {name: request.headers[name] for name in expected}


async def test_the_header_of_the_key_can_be_chosen() -> None:
    """An endpoint may want its key in another header than its kind does."""
    async with open_replay_server(Reply()) as server:
        await _ask(server, key_header="api-key")
    assert KEY == server.requests[0].headers["api-key"]
    assert "authorization" not in server.requests[0].headers


async def test_connections_are_used_again() -> None:
    """Calls one after the other share a connection, until the endpoint is closed; a later call opens a new one."""
    async with open_replay_server(Reply(body=(ONE,))) as server:
        endpoint = Endpoint(base_url=server.base_url)
        for _ in range(3):
            assert [SseEvent(data="one")] == await _call(endpoint)
        assert 1 == server.connections
        await endpoint.aclose()
        await server.wait_until_closed()
        assert [SseEvent(data="one")] == await _call(endpoint)
        assert 2 == server.connections
        await endpoint.aclose()


@pytest.mark.parametrize(
    ("reply", "kind", "words"),
    [
        (Reply(status=429, headers={"retry-after": "7"}), "rate_limited", "fewer requests"),
        (json_reply(529, {"error": {"type": "overloaded_error", "message": "Overloaded"}}), "overloaded", "Overloaded"),
        (json_reply(401, {"error": {"message": f"bad {KEY}"}}), "auth", "bad ***"),
        (json_reply(200, {"error": {"type": "rate_limit_error", "message": "slow"}}), "rate_limited", "slow"),
        (json_reply(200, {"text": "no stream"}), "malformed", "application/json"),
        (Reply(headers={"content-type": "text/html"}, body=(b"<html>",)), "malformed", "text/html"),
        (Reply(status=307, headers={"location": "https://elsewhere.example/x"}), "refused", "elsewhere.example"),
        (Reply(status=302, headers={"location": "/other"}), "refused", "redirect"),
        (Reply(status=500, body=(b"x" * 70_000, STALL)), "overloaded", "xxx..."),
        (Reply(status=500, body=(b"it broke", CUT)), "overloaded", "status 500"),
        (Reply(raw=True, body=(b"what is this\r\n\r\n",)), "malformed", "not HTTP"),
        (Reply(raw=True, body=(b"HTTP/1.1 200 OK\r\nx: " + b"y" * 200_000,)), "malformed", "not HTTP"),
        (Reply(raw=True), "network", "broke off"),
        (Reply(raw=True, body=(CUT,)), "network", "broke off"),
        (Reply(headers={"content-encoding": "gzip"}, body=(b"not packed",)), "malformed", "decompressed"),
    ],
)
async def test_an_answer_that_is_no_stream(reply: Reply, kind: str, words: str) -> None:
    """What is no stream becomes one failure of the right kind, in words, without the key."""
    async with open_replay_server(reply) as server:
        (found,) = await _ask(server)
    assert isinstance(found, ModelFailed)
    assert kind == found.kind
    assert words in found.message
    assert (7000 if reply.status == 429 else None) == found.retry_after_ms
    assert 1 == len(server.requests)


@pytest.mark.parametrize(
    ("body", "limits", "kind", "words"),
    [
        ((ONE, CUT), {}, "network", "broke off"),
        ((ONE, b"data: " + b"x" * 2000), {"max_event_bytes": 1000}, "malformed", "too large"),
        ((ONE, b": nothing\n\n", FOREVER), {"max_stream_bytes": 20_000}, "malformed", "too long"),
        ((ONE, FOREVER), {"max_events": 1000}, "malformed", "too long"),
    ],
)
async def test_a_stream_that_goes_wrong(body: tuple[bytes], limits: dict[str, int], kind: str, words: str) -> None:
    """What came before is handed out, then one failure says what is wrong, and the connection is closed."""
    async with open_replay_server(Reply(body=body)) as server:
        found = await _ask(server, **limits)
        await server.wait_until_closed()
    assert SseEvent(data="one") == found[0]
    assert [kind] == [item.kind for item in found if isinstance(item, ModelFailed)]
    assert isinstance(found[-1], ModelFailed)
    assert words in found[-1].message


async def test_a_refused_key_comes_with_advice() -> None:
    """Where an endpoint knows what to do about its key, people are told when that is refused, and only then."""
    async with open_replay_server(Reply(status=401, body=(b"no",)), Reply(status=400)) as server:
        (refused,) = await _ask(server, key_hint="set MY_KEY")
        (other,) = await _ask(server, key_hint="set MY_KEY")
    assert isinstance(refused, ModelFailed)
    assert refused.message.endswith("(status 401); set MY_KEY: no")
    assert isinstance(other, ModelFailed)
    assert "MY_KEY" not in other.message


async def test_a_packed_stream_cannot_burst() -> None:
    """A small packed answer that unpacks to a huge one is stopped at the bound."""
    packed = gzip.compress(b": " + b"x" * 20_000_000)
    async with open_replay_server(Reply(headers={"content-encoding": "gzip"}, body=(packed,))) as server:
        (found,) = await _ask(server, max_stream_bytes=2_000_000)
    assert isinstance(found, ModelFailed)
    assert "malformed" == found.kind


async def _ask_a_stalling_server(
    body: tuple[object, ...], clock: trio.testing.MockClock, jumps: list[float], timeouts: ProviderTimeouts
) -> str:
    """Call a server that stalls, let time pass in jumps once it does, and return the words of the failure."""
    async with open_replay_server(Reply(body=body)) as server, trio.open_nursery() as nursery:  # type: ignore[arg-type]
        endpoint = Endpoint(base_url=server.base_url, timeouts=timeouts)
        found: list[SseEvent | ModelFailed] = []

        async def call() -> None:
            async with open_stream(endpoint, "/", b"") as opened:
                assert isinstance(opened, HttpStream)
                async for item in opened:
                    found.append(item)
                    seen.set()

        seen = trio.Event()
        nursery.start_soon(call)
        await server.wait_until_stalled()
        await seen.wait()
        await trio.testing.wait_all_tasks_blocked()
        for jump in jumps:
            assert not any(isinstance(item, ModelFailed) for item in found)
            clock.jump(jump)
            await trio.testing.wait_all_tasks_blocked()
        await server.wait_until_closed()
        await endpoint.aclose()
    (failure,) = [item for item in found if isinstance(item, ModelFailed)]
    assert "network" == failure.kind
    return failure.message


async def test_silence_is_noticed(mock_clock: trio.testing.MockClock) -> None:
    """A server that sends nothing for too long has failed, and not a moment earlier."""
    words = await _ask_a_stalling_server((ONE, STALL), mock_clock, [59, 2], ProviderTimeouts(read_s=60))
    assert "silent for 60 seconds" in words


async def test_an_answer_may_not_take_forever(mock_clock: trio.testing.MockClock) -> None:
    """The whole answer has a bound in time too."""
    words = await _ask_a_stalling_server((ONE, STALL), mock_clock, [299, 2], ProviderTimeouts(read_s=900, total_s=300))
    assert "more than 300 seconds" in words


async def test_signs_of_life_are_no_progress(mock_clock: trio.testing.MockClock) -> None:
    """Pings and comments keep the connection but do not make up for missing events."""
    more = trio.Event()
    body = (ONE, more, b"event: ping\ndata: {}\n\n: comment\n\n", STALL)
    async with open_replay_server(Reply(body=body)) as server:
        endpoint = Endpoint(base_url=server.base_url, timeouts=ProviderTimeouts(read_s=900, progress_s=100))
        async with open_stream(endpoint, "/", b"") as opened:
            assert isinstance(opened, HttpStream)
            assert SseEvent(data="one") == await anext(opened)
            mock_clock.jump(90)
            more.set()
            assert SseEvent(event="ping", data="{}") == await anext(opened)
            mock_clock.jump(20)
            failure = await anext(opened)
            assert isinstance(failure, ModelFailed)
            assert "nothing new for 100 seconds" in failure.message
        await endpoint.aclose()


async def test_leaving_closes_the_connection() -> None:
    """Whoever leaves a stream halfway, by choice or cancelled, leaves no connection behind."""
    async with open_replay_server(Reply(body=(ONE, STALL))) as server:
        endpoint = Endpoint(base_url=server.base_url)
        async with open_stream(endpoint, "/", b"") as opened:
            assert isinstance(opened, HttpStream)
            assert SseEvent(data="one") == await anext(opened)
        await server.wait_until_closed()
        assert [] == [item async for item in opened]
        with trio.CancelScope() as scope:
            async with open_stream(endpoint, "/", b"") as opened:
                assert isinstance(opened, HttpStream)
                await anext(opened)
                scope.cancel()
                await anext(opened)
        assert scope.cancelled_caught
        await server.wait_until_closed()
        assert 2 == server.connections
        await endpoint.aclose()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_nobody_there(host: str) -> None:
    """A server of this machine that does not run is tried once more, and people are told where it should be."""
    with socket.socket() as bound:  # so that nobody else gets this port; nobody listens either
        bound.bind(("127.0.0.1", 0))
        base_url = f"http://{host}:{bound.getsockname()[1]}/v1"
        endpoint = Endpoint(base_url=base_url, key=Secret(KEY), absent_hint="is Ollama running?")
        (found,) = await _call(endpoint)
        await endpoint.aclose()
    words = f"Nothing answers at {base_url}: is Ollama running?"
    assert ModelFailed(kind="network", message=words, most_retries=1) == found


async def test_the_key_is_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    """With everything logged and a server that repeats it, the key is in no line, nor in the endpoint's picture."""
    caplog.set_level(logging.NOTSET)
    echoing = Reply(headers={"x-echo": KEY}, body=(ONE,))
    no_http = Reply(raw=True, body=(f"your key is {KEY}\r\n\r\n".encode(),))
    async with open_replay_server(echoing, json_reply(401, {"error": KEY}), no_http) as server:
        await _ask(server)
        endpoint = Endpoint(base_url=server.base_url, key=Secret(KEY), headers={"x": Secret(KEY)})
        await _call(endpoint)
        await _call(endpoint)
        await endpoint.aclose()
    assert caplog.records
    assert KEY not in caplog.text
    assert not any(KEY in repr(record.__dict__) for record in caplog.records)
    assert KEY not in repr(endpoint)


@pytest.mark.parametrize(
    "base_url",
    [
        "",
        "api.example.com",
        "ftp://api.example.com",
        "https://",
        "http://api.example.com",
        "http://localhost.example.com",
        "http://127.0.0.1.example.com",
        "http://127.0.0.1@example.com",
        "http://127.0.0.1\\@example.com",
        "https://user:pass@example.com",
        "https://example.com/?key=x",
        "https://example.com/#x",
        "https://example.com/a b",
        "https://example.com/\n",
        "https://exämple.com",
        "https://example.com:port",
        "http://[::2]",
        "http://[",
    ],
)
def test_a_wrong_address_is_refused(base_url: str) -> None:
    """Only https, or this machine; nothing that could be read in two ways or hides a password."""
    with pytest.raises(InvalidInput) as refused:
        Endpoint(base_url=base_url)
    assert "base_url" == refused.value.field


@pytest.mark.parametrize(
    "base_url",
    [
        "https://api.example.com",
        "https://api.example.com:8443/v1/",
        "http://localhost:1",
        "http://127.0.0.2",
        "http://[::1]:8",
    ],
)
def test_a_right_address_is_taken(base_url: str) -> None:
    """Secure addresses and those of this machine are fine."""
    assert base_url == Endpoint(base_url=base_url).base_url


@pytest.mark.parametrize("key", ["", "a b", "secret\n", "sécret", "a\x00b"])
def test_a_key_that_fits_no_header_is_refused(key: str) -> None:
    """A key with a line end or the like is told at once, without showing it."""
    with pytest.raises(InvalidInput) as refused:
        Endpoint(base_url="https://example.com", key=Secret(key))
    assert "key" == refused.value.field
    assert "cret" not in str(refused.value)


@pytest.mark.parametrize(("name", "text"), [("x y", "1"), ("", "1"), ("x", "a\r\nb: c"), ("Host", "evil"), ("x", "é")])
def test_a_header_that_cannot_be_sent_is_refused(name: str, text: str) -> None:
    """Headers of the configuration are checked before any call."""
    with pytest.raises(InvalidInput) as refused:
        Endpoint(base_url="https://example.com", headers={name: text})
    assert "headers" == refused.value.field
