"""The Anthropic provider over real connections: its contract, its manners, and the official client as a witness."""

import json
import warnings
from collections.abc import Iterable
from typing import Any, get_args

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from session_core.ids import CallId
from session_core.providers.anthropic import AnthropicOptions, AnthropicProvider, build_request, encode_body
from session_core.providers.base import ModelFailed, ModelFinished, ModelRequest, ProviderEvent, ThinkingChunk
from session_core.providers.catalogue import ThinkingAbility
from session_core.providers.endpoint import Endpoint
from session_core.providers.secrets import Secret
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ImagePart, ThinkingPart, ToolCallPart, ToolResultPart
from tests.session_core.providers._contract import (
    calls,
    check_abandoning,
    check_cancelling,
    check_order,
    collect,
    message,
    request,
    said,
    thought,
)
from tests.session_core.providers._recordings import chunks, recording, recordings
from tests.session_core.providers._replay_server import CUT, FOREVER, STALL, Reply, json_reply, open_replay_server
from tests.session_core.providers.test_anthropic_decoder import EXPECTED

KEY = "sk-ant-api03-my-very-secret-key"
NAMES = recordings("anthropic")
COMPLETE = [name for name in NAMES if name != "error_midway"]


async def _answer(base_url: str, asked: ModelRequest | None = None, **fields: Any) -> list[ProviderEvent]:
    endpoint = Endpoint(base_url=base_url, key=Secret(KEY), **fields)
    try:
        events = await collect(AnthropicProvider(endpoint, "claude-x"), asked or request("hello"))
    finally:
        await endpoint.aclose()
    check_order(events)
    assert "my-very-secret-key" not in repr(events)
    return events


@pytest.mark.parametrize("size", [16, 1_000_000])
async def test_recordings_over_a_connection(size: int) -> None:
    """Every stream means the same over a connection, in small pieces or in one."""
    replies = [Reply(body=chunks(recording("anthropic", name), size)) for name in NAMES]
    async with open_replay_server(*replies) as server:
        for name in NAMES:
            assert EXPECTED[name] == await _answer(server.base_url), name


async def test_how_the_interface_is_called() -> None:
    """The request goes to the right path, with key and version in their headers and the question in its body."""
    async with open_replay_server(Reply(body=(recording("anthropic", "text"),))) as server:
        await _answer(server.base_url)
        await _answer(f"{server.base_url}/proxy/v1/")
    first, second = server.requests
    assert ("/v1/messages", "/proxy/v1/messages") == (first.path, second.path)
    assert (KEY, "2023-06-01") == (first.headers["x-api-key"], first.headers["anthropic-version"])
    assert "authorization" not in first.headers
    assert ("claude-x", True) == (first.json()["model"], first.json()["stream"])


async def test_answers_share_a_connection() -> None:
    """One call after the other uses the connection of the first, also when their readers stop at the last event."""
    async with open_replay_server(Reply(body=chunks(recording("anthropic", "text"), 100))) as server:
        endpoint = Endpoint(base_url=server.base_url)
        provider = AnthropicProvider(endpoint, "claude-x")
        for _ in range(3):
            async with provider.stream(request("hello")) as events:
                while not isinstance(await anext(events), ModelFinished):
                    pass
        await endpoint.aclose()
    assert (3, 1) == (len(server.requests), server.connections)


async def test_the_contract_of_providers() -> None:
    """Left after any event, the provider is fit for the next call; cancelled at any checkpoint, nothing is torn."""
    async with open_replay_server(Reply(body=(recording("anthropic", "parallel_tools"),))) as server:
        endpoint = Endpoint(base_url=server.base_url)

        def make() -> AnthropicProvider:
            return AnthropicProvider(endpoint, "claude-x")

        await check_abandoning(make, request("hello"))
        assert 0 < await check_cancelling(make, request("hello"))
        await endpoint.aclose()
        await server.wait_until_closed()


START = recording("anthropic", "text")[:700]


@pytest.mark.parametrize(
    ("reply", "fields", "kind"),
    [
        (Reply(status=429, headers={"retry-after": "7"}), {}, "rate_limited"),
        (json_reply(529, {"type": "error", "error": {"type": "overloaded_error", "message": KEY}}), {}, "overloaded"),
        (json_reply(401, {"type": "error", "error": {"type": "authentication_error", "message": KEY}}), {}, "auth"),
        (
            json_reply(
                400, {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long"}}
            ),
            {},
            "context_too_long",
        ),
        (Reply(status=302, headers={"location": f"https://elsewhere.example/{KEY}"}), {}, "refused"),
        (Reply(body=(START, CUT)), {}, "network"),
        (Reply(body=(START,)), {}, "network"),
        (Reply(), {}, "network"),
        (Reply(body=(b"data: garbage\n\n",)), {}, "malformed"),
        (Reply(raw=True, body=(b"garbage\r\n\r\n",)), {}, "malformed"),
        (Reply(body=(b"event: ping\ndata: {}\n\n", FOREVER)), {"max_events": 200}, "malformed"),
        (
            Reply(body=(recording("anthropic", "error_midway").replace(b'"Overloaded"', f'"{KEY}"'.encode()),)),
            {},
            "overloaded",
        ),
    ],
)
async def test_misbehaviour(reply: Reply, fields: dict[str, Any], kind: str) -> None:
    """Whatever the server does, the answer ends in one failure of the right kind, and the key is not in it."""
    async with open_replay_server(reply) as server:
        last = (await _answer(server.base_url, **fields))[-1]
    assert isinstance(last, ModelFailed)
    assert kind == last.kind
    assert 1 == len(server.requests)


async def test_cancelling_closes_the_connection() -> None:
    """A call that is cancelled while the server is silent closes its connection and keeps what came before."""
    async with open_replay_server(Reply(body=(START, STALL))) as server:
        endpoint = Endpoint(base_url=server.base_url)
        got: list[ProviderEvent] = []
        async with trio.open_nursery() as nursery:

            async def call() -> None:
                async with AnthropicProvider(endpoint, "claude-x").stream(request("hello")) as events:
                    async for event in events:
                        got.append(event)  # noqa: PERF401 - what came before the cancel is kept

            nursery.start_soon(call)
            await server.wait_until_stalled()
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        await server.wait_until_closed()
        await endpoint.aclose()
    assert EXPECTED["text"][: len(got)] == got


@settings(max_examples=40, deadline=None)
@given(
    pieces=st.lists(
        st.binary(max_size=60) | st.sampled_from(recording("anthropic", "thinking").splitlines(keepends=True)),
        max_size=8,
    ),
    raw=st.booleans(),
    rnd=st.random_module(),
)
async def test_any_bytes_end_once(pieces: list[bytes], raw: bool, rnd: object) -> None:  # noqa: FBT001
    """Whatever bytes a server sends, nothing is raised and there is exactly one last event."""
    async with open_replay_server(Reply(body=pieces, raw=raw)) as server:
        await _answer(server.base_url)


async def _by_official_client(base_url: str, count: int) -> list[Any]:
    """Ask so many times; one client for all, as making one takes long."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import anthropic

        async with anthropic.AsyncAnthropic(
            base_url=base_url,
            api_key="x",
            max_retries=0,
            http_client=anthropic.DefaultAsyncHttpxClient(verify=False),  # there is no TLS here
        ) as client:
            found = []
            for _ in range(count):
                async with client.messages.stream(
                    model="claude-x", max_tokens=100, messages=[{"role": "user", "content": "hello"}]
                ) as stream:
                    found.append(await stream.get_final_message())
            return found


@pytest.mark.slow
async def test_the_official_client_reads_the_same() -> None:
    """The provider's own client finds the same text, thinking, calls, usage and end in every recorded stream."""
    names = [name for name in COMPLETE if name != "max_tokens"]
    replies = [Reply(body=(recording("anthropic", name),)) for name in names]
    async with open_replay_server(*replies) as server:
        answers = await _by_official_client(server.base_url, len(names))
    for name, theirs in zip(names, answers, strict=True):
        _check_same(theirs, EXPECTED[name])


def _check_same(theirs: Any, ours: list[ProviderEvent]) -> None:
    blocks = theirs.content
    assert "".join(block.text for block in blocks if block.type == "text") == said(ours)
    assert "".join(block.thinking for block in blocks if block.type == "thinking") == thought(ours)
    signatures = [event.signature for event in ours if isinstance(event, ThinkingChunk) and event.signature]
    assert signatures == [
        f"anthropic:{block.signature}" if block.type == "thinking" else f"anthropic-redacted:{block.data}"
        for block in blocks
        if block.type in {"thinking", "redacted_thinking"}
    ]
    assert [(block.name, block.input) for block in blocks if block.type == "tool_use"] == calls(ours)
    last: Any = ours[-1]
    assert (
        theirs.usage.input_tokens,
        theirs.usage.output_tokens,
        theirs.usage.cache_read_input_tokens,
        theirs.usage.cache_creation_input_tokens,
    ) == (
        last.usage.input_tokens,
        last.usage.output_tokens,
        last.usage.cache_read_tokens,
        last.usage.cache_write_tokens,
    )
    reasons = {"end_turn": "end", "tool_use": "tool_calls", "max_tokens": "max_tokens", "refusal": "refused"}
    assert reasons[theirs.stop_reason] == last.stop_reason


def _unrolled(item: Any) -> Any:
    """The value with every lazily checked sequence in it read to its end."""
    if isinstance(item, dict):
        return {key: _unrolled(each) for key, each in item.items()}
    if isinstance(item, str) or not isinstance(item, Iterable):
        return item
    return [_unrolled(each) for each in item]


@pytest.mark.slow
def test_requests_fit_the_types_of_the_official_client() -> None:
    """What is sent has no field that the provider's own client does not know, nor a value of another type."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from anthropic.types.message_create_params import MessageCreateParamsStreaming
        from pydantic import TypeAdapter

        known: TypeAdapter[Any] = TypeAdapter(MessageCreateParamsStreaming)
    image = ImagePart(media_type="image/png", data="aGk=")
    done = ToolResultPart(call_id=CallId("call_1"), name="list_files", status="success", text="a", images=(image,))
    asked = attrs.evolve(
        request(
            message("user", "look", image),
            message(
                "assistant",
                ThinkingPart(text="hm", signature="anthropic:S"),
                ThinkingPart(text="", signature="anthropic-redacted:D"),
                "I look.",
                ToolCallPart(call_id=CallId("call_1"), name="list_files", arguments=JsonObject({"path": "."})),
                ToolCallPart(call_id=CallId("call_2"), name="list_files", arguments=JsonObject()),
            ),
            message("tool", done),
        ),
        system="Be good.",
        thinking="high",
        output_schema=JsonObject({"type": "object"}),
    )
    for ability in get_args(ThinkingAbility):
        body = json.loads(encode_body(build_request(asked, "claude-x", AnthropicOptions(thinking=ability))))
        assert body == _unrolled(known.validate_python(body)), ability
