"""The OpenAI providers over real sockets: what they send, and that no server can make them raise, hang or leak."""

import json
import logging
import re
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from session_core.providers.base import FailureKind, ModelFailed, ModelFinished, Provider, ProviderEvent, TextChunk
from session_core.providers.endpoint import Endpoint
from session_core.providers.http import Decoder
from session_core.providers.openai_chat import ChatCompletionsProvider
from session_core.providers.openai_chat_stream import ChatDecoder
from session_core.providers.openai_responses import ResponsesDecoder, ResponsesProvider
from session_core.providers.secrets import Secret
from session_core.providers.timeouts import ProviderTimeouts
from session_core.vocabulary.messages import Usage
from tests.session_core.providers._contract import (
    check_abandoning,
    check_cancelling,
    check_order,
    collect,
    request,
    said,
)
from tests.session_core.providers._openai import broken_streams, decode, events_of, parsed
from tests.session_core.providers._recordings import recording, recordings
from tests.session_core.providers._replay_server import (
    CUT,
    FOREVER,
    STALL,
    ReplayServer,
    Reply,
    json_reply,
    open_replay_server,
)

KEY = "key-which-nobody-may-see-4711"
MAKERS: dict[str, Callable[[Endpoint], Provider]] = {
    "openai_chat": lambda endpoint: ChatCompletionsProvider(endpoint, "gpt-x"),
    "openai_responses": lambda endpoint: ResponsesProvider(endpoint, "gpt-x"),
}
KINDS = pytest.mark.parametrize("kind", MAKERS)
ASKED = request("hello")


@asynccontextmanager
async def serving(kind: str, *replies: Reply, **patience: Any) -> AsyncIterator[tuple[Provider, ReplayServer]]:
    """A provider of this kind, and the server it talks to."""
    async with open_replay_server(*replies) as server:
        endpoint = Endpoint(base_url=server.base_url + "/v1", key=Secret(KEY), **patience)
        try:
            yield MAKERS[kind](endpoint), server
        finally:
            await endpoint.aclose()


def begun(kind: str) -> bytes:
    """The beginning of an answer, up to its first text."""
    pieces = events_of(recording(kind, "text"))
    place = next(place for place, piece in enumerate(pieces) if "Grüße".encode() in piece)
    return b"".join(pieces[: place + 1])


def failure(events: list[ProviderEvent]) -> ModelFailed:
    check_order(events)
    assert isinstance(events[-1], ModelFailed)
    assert KEY not in repr(events)
    return events[-1]


@KINDS
async def test_a_call_says_what_it_should(kind: str) -> None:
    """One POST with the key, the model and the conversation, to the path of the interface."""
    async with serving(kind, Reply(body=(recording(kind, "text"),))) as (provider, server):
        events = await collect(provider, ASKED)
    assert said(events).startswith("Grüße, 世界 🌍!")
    (sent,) = server.requests
    path = {"openai_chat": "/v1/chat/completions", "openai_responses": "/v1/responses"}[kind]
    assert (sent.method, sent.path, sent.headers["authorization"]) == ("POST", path, f"Bearer {KEY}")
    assert sent.headers["content-type"] == "application/json"
    body = sent.json()
    assert (body["model"], body["stream"]) == ("gpt-x", True)
    assert "hello" in json.dumps(body)


@KINDS
async def test_recordings_come_through_the_wire_as_they_are(kind: str) -> None:
    """Every recording gives the same events over a socket, event by event, as the decoder gives by itself."""
    decoders: dict[str, Callable[[], Decoder]] = {"openai_chat": ChatDecoder, "openai_responses": ResponsesDecoder}
    names = recordings(kind)
    replies = [Reply(body=events_of(recording(kind, name))) for name in names]
    async with serving(kind, *replies) as (provider, _):
        for name in names:
            assert await collect(provider, ASKED) == decode(decoders[kind], recording(kind, name)), name


@KINDS
async def test_the_contract_of_providers_is_kept(kind: str) -> None:
    """A call can be left after any event and cancelled at any checkpoint, and the next one works."""
    name = "tools_parallel" if kind == "openai_chat" else "reasoning_tools"
    async with serving(kind, Reply(body=events_of(recording(kind, name)))) as (provider, server):
        await check_abandoning(lambda: provider, ASKED)
        assert await check_cancelling(lambda: provider, ASKED) > 3
        await wait_for_rest(provider, server)


async def wait_for_rest(provider: Provider, server: ReplayServer) -> None:
    await provider._endpoint.aclose()  # type: ignore[attr-defined] # both kinds have one
    with trio.fail_after(60):
        await server.wait_until_closed()


@KINDS
async def test_leaving_closes_the_connection(kind: str) -> None:
    """A server that is still at work learns at once that nobody listens any more."""
    async with serving(kind, Reply(body=(begun(kind), STALL))) as (provider, server):
        async with provider.stream(ASKED) as events:
            assert isinstance(await anext(events), TextChunk)
            await server.wait_until_stalled()
        with trio.fail_after(60):
            await server.wait_until_closed()


@KINDS
async def test_cancelling_closes_the_connection(kind: str) -> None:
    """So it is when the wait for the next event is cancelled."""
    async with serving(kind, Reply(body=(begun(kind), STALL))) as (provider, server):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(collect, provider, ASKED)
            await server.wait_until_stalled()
            nursery.cancel_scope.cancel()
        with trio.fail_after(60):
            await server.wait_until_closed()


ERROR = {"error": {"message": f"no, {KEY}", "type": "some_error", "param": None, "code": None}}


@KINDS
@pytest.mark.parametrize(
    ("reply", "expected", "wait"),
    [
        (json_reply(401, ERROR), "auth", None),
        (json_reply(403, ERROR), "auth", None),
        (json_reply(429, ERROR, {"retry-after": "7"}), "rate_limited", 7_000),
        (json_reply(429, {"error": {"code": "insufficient_quota", "message": "pay"}}), "refused", None),
        (json_reply(500, ERROR), "overloaded", None),
        (json_reply(503, ERROR, {"retry-after-ms": "250"}), "overloaded", 250),
        (json_reply(404, {"error": {"code": "model_not_found", "message": "no such model"}}), "refused", None),
        (
            json_reply(400, {"error": {"code": "context_length_exceeded", "message": "too long"}}),
            "context_too_long",
            None,
        ),
        (json_reply(400, {"error": "maximum context length is 4096 tokens"}), "context_too_long", None),
        (Reply(status=502, body=(b"<html>Bad Gateway</html>",)), "overloaded", None),
        (Reply(status=307, headers={"location": "http://127.0.0.1:1/steal"}), "refused", None),
        (Reply(raw=True, body=(b"SSH-2.0-hello\r\n\r\n",)), "malformed", None),
        (Reply(body=(b"data: {]\n\n",)), "malformed", None),
        (Reply(body=()), "network", None),
        (json_reply(200, {"hello": 1}), "malformed", None),
    ],
)
async def test_failed_calls_have_the_right_kind(
    kind: str, reply: Reply, expected: FailureKind, wait: int | None
) -> None:
    """Statuses, error bodies, redirects and rubbish become one failure each, with what the server asks us to wait."""
    async with serving(kind, reply) as (provider, server):
        events = await collect(provider, ASKED)
    assert (failure(events).kind, failure(events).retry_after_ms) == (expected, wait)
    assert len(events) == 1
    assert len(server.requests) <= 1


@KINDS
async def test_a_connection_that_breaks_is_a_failure_of_the_network(kind: str) -> None:
    """What came before the break is given out, then the failure."""
    async with serving(kind, Reply(body=(begun(kind), CUT))) as (provider, _):
        events = await collect(provider, ASKED)
    assert failure(events).kind == "network"


@KINDS
async def test_a_server_that_stalls_is_given_up(kind: str, mock_clock: MockClock) -> None:
    """When nothing comes for as long as the endpoint allows, the call fails and the connection is closed."""
    events: list[ProviderEvent] = []
    begins = trio.Event()

    async def call(provider: Provider) -> None:
        async with provider.stream(ASKED) as stream:
            async for event in stream:
                events.append(event)
                begins.set()

    reply = Reply(body=(begun(kind), STALL))
    async with serving(kind, reply, timeouts=ProviderTimeouts(read_s=60)) as (provider, server):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, provider)
            await server.wait_until_stalled()
            await begins.wait()
            await wait_all_tasks_blocked()
            assert said(events) == "Grüße"
            mock_clock.jump(61)
        assert failure(events).kind == "network"
        assert said(events) == "Grüße"
        await server.wait_until_closed()


@KINDS
async def test_an_endless_answer_ends(kind: str) -> None:
    """A server that never stops is stopped by the longest length of an answer."""
    async with serving(kind, Reply(body=(begun(kind), FOREVER)), max_stream_bytes=200_000) as (provider, _):
        assert failure(await collect(provider, ASKED)).kind == "malformed"


@KINDS
async def test_nobody_there_is_a_failure_of_the_network(kind: str) -> None:
    """A port that nobody listens on is told as such."""
    with socket.socket() as bound:  # so that nobody else gets this port; nobody listens either
        bound.bind(("127.0.0.1", 0))
        endpoint = Endpoint(base_url=f"http://127.0.0.1:{bound.getsockname()[1]}", key=Secret(KEY))
        events = await collect(MAKERS[kind](endpoint), ASKED)
        assert failure(events).kind == "network"
        await endpoint.aclose()


@pytest.mark.parametrize("step", [CUT, STALL])
async def test_a_chat_that_is_complete_needs_no_last_word(step: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the reason of the end, a server that hangs up rudely or falls silent does not spoil the answer."""
    monkeypatch.setattr("session_core.providers.http._LAST_WORD_S", 0.2)
    reply = Reply(body=(recording("openai_chat", "no_done"), step))
    async with serving("openai_chat", reply) as (provider, _):
        events = await collect(provider, ASKED)
    assert events == [TextChunk(text="All there."), ModelFinished(usage=Usage())]


@KINDS
async def test_connections_are_used_again(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls one after the other go over one connection, also when their readers stop at the last event."""
    monkeypatch.setattr("session_core.providers.http._DRAIN_S", 60)  # a busy machine takes longer than we wait
    async with serving(kind, Reply(body=events_of(recording(kind, "text")))) as (provider, server):
        for _ in range(3):
            async with provider.stream(ASKED) as events:
                while not isinstance(await anext(events), ModelFinished):
                    pass
    assert (len(server.requests), server.connections) == (3, 1)


@KINDS
async def test_the_key_is_nowhere_to_be_seen(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """Neither logs nor the representation of a provider or an endpoint show the key."""
    caplog.set_level(logging.DEBUG)
    async with serving(kind, json_reply(401, ERROR), Reply(body=(recording(kind, "text"),))) as (provider, _):
        await collect(provider, ASKED)
        await collect(provider, ASKED)
        shown = repr(provider) + repr(vars(provider))
    assert re.search("endpoint", shown)
    assert KEY not in shown + caplog.text


@settings(max_examples=25)
@given(kind=st.sampled_from(sorted(MAKERS)), data=st.data(), rng=st.random_module())
async def test_any_bytes_end_in_exactly_one_final_event(kind: str, data: st.DataObject, rng: object) -> None:
    """Whatever a server sends, as a body or in place of a whole answer, nothing is raised and one event is the last."""
    stream = data.draw(broken_streams(kind))
    reply = Reply(body=(stream,), raw=data.draw(st.booleans()))
    async with serving(kind, reply) as (provider, _):
        events = await collect(provider, ASKED)
    check_order(events)
    if not reply.raw and not parsed(stream):
        assert isinstance(events[-1], ModelFailed)
