"""Answers from models of extensions, over a real connection."""

import sys
from typing import Any

import pytest
import trio

from session_core.providers.base import (
    ModelFailed,
    ModelFinished,
    ModelRequest,
    Provider,
    ProviderEvent,
    TextChunk,
    ThinkingChunk,
    ToolCallChunk,
    ToolCallOpened,
)
from session_core.rpc.failures import RpcFailed
from session_core.sep.host.models.stream import AnswerTimeouts
from session_core.vocabulary.messages import Usage
from tests.session_core.providers._contract import (
    check_abandoning,
    check_cancelling,
    check_order,
    collect,
    request,
    said,
)
from tests.session_core.sep._models import Peer, Shop, open_shop

SHORT = AnswerTimeouts(silence=30, total=100, last_word=5)


def asked(text: str = "hello") -> ModelRequest:
    return ModelRequest(model="acme/large", messages=request(text).messages, cache_key="ses_1")


async def answers(shop: Shop, question: ModelRequest | None = None) -> list[ProviderEvent]:
    events = await collect(shop.providers.providers["acme/large"], question or asked())
    check_order(events)
    return events


async def _streams_and_repeats(peer: Peer, params: dict[str, Any]) -> Any:
    await peer.say(
        params,
        {"type": "Reasoning", "content": "Hm"},
        {"type": "Delta", "content": "Hel"},
        {"type": "Delta", "content": "lo"},
        {"type": "ToolCallStart", "index": 0, "id": "c1", "name": "list_files"},
        {"type": "ToolCallArgumentsDelta", "index": 0, "arguments_chunk": '{"path": '},
        {"type": "ToolCallArgumentsDelta", "index": 0, "arguments_chunk": '"."}'},
        {"type": "Model", "name": "large-2026"},
        {"type": "Done", "finish_reason": "tool_calls"},
    )
    return {
        "content": "Hello",
        "reasoning_content": "Hm",
        "tool_calls": [{"id": "c1", "name": "list_files", "arguments": {"path": "."}}],
        "finish_reason": "tool_calls",
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, "cached_tokens": 4},
    }


async def test_what_is_streamed_is_told_once(autojump_clock: trio.abc.Clock) -> None:
    """An answer that is streamed and repeated in the result is told once, in order, with its usage."""
    async with open_shop(Peer(complete=_streams_and_repeats)) as shop:
        assert await answers(shop) == [
            ThinkingChunk(text="Hm"),
            TextChunk(text="Hel"),
            TextChunk(text="lo"),
            ToolCallOpened(name="list_files"),
            ToolCallChunk(text='{"path": '),
            ToolCallChunk(text='"."}'),
            ModelFinished(usage=Usage(input_tokens=6, output_tokens=5, cache_read_tokens=4), stop_reason="tool_calls"),
        ]


async def test_the_contract_of_providers(autojump_clock: trio.abc.Clock) -> None:
    """Leaving after any event and cancelling at any checkpoint ends the call, and the next one works."""
    async with open_shop(Peer(complete=_streams_and_repeats)) as shop:

        def make() -> Provider:
            return shop.providers.providers["acme/large"]

        await check_abandoning(make, asked())
        assert await check_cancelling(make, asked()) > 5


async def test_pieces_are_told_before_the_result(autojump_clock: trio.abc.Clock) -> None:
    """A piece is told when it comes, however long the rest takes."""
    go_on = trio.Event()

    async def complete(peer: Peer, params: dict[str, Any]) -> Any:
        await peer.say(params, {"type": "Delta", "content": "one"})
        await go_on.wait()
        return {"content": "one two"}

    async with (
        open_shop(Peer(complete=complete)) as shop,
        shop.providers.providers["acme/large"].stream(asked()) as events,
    ):
        assert await anext(events) == TextChunk(text="one")
        go_on.set()
        assert [event async for event in events] == [TextChunk(text=" two"), ModelFinished()]


async def test_whoever_stops_listening_stops_the_call(autojump_clock: trio.abc.Clock) -> None:
    """The extension is told when nobody listens any more, and late pieces do no harm."""

    async def complete(peer: Peer, params: dict[str, Any]) -> Any:
        try:
            await peer.say(params, {"type": "Delta", "content": "one"})
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await peer.say(params, {"type": "Delta", "content": "late"})

    peer = Peer(complete=complete)
    async with open_shop(peer) as shop:
        async with shop.providers.providers["acme/large"].stream(asked()) as events:
            assert await anext(events) == TextChunk(text="one")
        await trio.testing.wait_all_tasks_blocked()
        assert peer.cancelled == ["provider/complete"]


async def test_the_session_is_that_of_the_conversation(autojump_clock: trio.abc.Clock) -> None:
    """While it answers, and no longer, an extension may act in the session that asked."""
    seen: list[object] = []

    async def complete(peer: Peer, params: dict[str, Any]) -> Any:
        await trio.lowlevel.checkpoint()
        context = shop.contexts.require_dispatch("acme", 1, params["context"])
        seen.append((context.session_id, params["context"]["tier"]))
        return {"content": "x"}

    peer = Peer(complete=complete)
    async with open_shop(peer) as shop:
        await answers(shop)
        assert seen == [("ses_1", "command")]
        with pytest.raises(RpcFailed, match="over"):
            shop.contexts.require_dispatch("acme", 1, peer.asked[0][1]["context"])


async def test_an_error_of_the_reader_arrives_as_it_is(autojump_clock: trio.abc.Clock) -> None:
    """What the reader raises in the middle of an answer leaves the stream unwrapped."""

    async def read_and_fail() -> None:
        async with shop.providers.providers["acme/large"].stream(asked()) as events:
            await anext(events)
            raise ZeroDivisionError

    async with open_shop(Peer(complete=_streams_and_repeats)) as shop:
        with pytest.raises(ZeroDivisionError):
            await read_and_fail()


async def test_a_failure_is_an_event(autojump_clock: trio.abc.Clock) -> None:
    """An error of the extension ends the answer with a failure of the fitting kind, after what was streamed."""

    async def complete(peer: Peer, params: dict[str, Any]) -> Any:
        await peer.say(params, {"type": "Delta", "content": "one"}, {"type": "Usage", "prompt_tokens": 3})
        raise RpcFailed(-32603, "HTTP 429: slow down", {"retry_after_ms": 1500})

    async with open_shop(Peer(complete=complete)) as shop:
        *_, failure = events = await answers(shop)
        assert events[:-1] == [TextChunk(text="one")]
        assert isinstance(failure, ModelFailed)
        assert (failure.kind, failure.retry_after_ms) == ("rate_limited", 1500)
        assert failure.usage == Usage(input_tokens=3)


async def test_an_extension_that_ends_is_worth_another_try(autojump_clock: trio.abc.Clock) -> None:
    """When the process ends in the middle of an answer, the failure is one that is tried again."""

    async def complete(peer: Peer, params: dict[str, Any]) -> Any:
        await peer.say(params, {"type": "Delta", "content": "one"})
        peer.hang_up()

    async with open_shop(Peer(complete=complete)) as shop:
        *_, failure = await answers(shop)
        assert isinstance(failure, ModelFailed)
        assert failure.kind == "network"
        assert "acme" in failure.message


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "sent nothing new for 30 seconds"),
        ([{"type": "Delta", "content": "x"}] * 5, "took more than 100 seconds"),
    ],
)
async def test_silence_and_slowness_end(
    autojump_clock: trio.abc.Clock, words: list[dict[str, Any]], expected: str
) -> None:
    """An answer that stays silent, or takes too long in all, fails, and the extension is told."""

    async def complete(peer: Peer, params: dict[str, Any]) -> Any:
        for word in words:
            await peer.say(params, word)
            await trio.sleep(25)
        await trio.sleep_forever()

    peer = Peer(complete=complete)
    async with open_shop(peer, patience=SHORT) as shop:
        *_, failure = await answers(shop)
        assert isinstance(failure, ModelFailed)
        assert failure.kind == "network"
        assert expected in failure.message
        await trio.testing.wait_all_tasks_blocked()
        assert peer.cancelled == ["provider/complete"]


async def test_an_answer_whose_model_is_done_is_whole(autojump_clock: trio.abc.Clock) -> None:
    """An extension that says that its model is done, and never answers, has answered all the same."""

    async def complete(peer: Peer, params: dict[str, Any]) -> Any:
        await peer.say(params, {"type": "Delta", "content": "all"}, {"type": "Done", "finish_reason": "length"})
        await peer.say(params, {"type": "Delta", "content": "more"})
        await trio.sleep_forever()

    async with open_shop(Peer(complete=complete), patience=SHORT) as shop:
        before = trio.current_time()
        assert await answers(shop) == [TextChunk(text="all"), ModelFinished(stop_reason="max_tokens")]
        assert trio.current_time() - before == pytest.approx(5)


async def test_an_endless_answer_ends(autojump_clock: trio.abc.Clock) -> None:
    """An answer that never ends fails when it is too long, and the extension is told."""

    async def complete(peer: Peer, params: dict[str, Any]) -> Any:
        while True:
            await peer.say(params, {"type": "Delta", "content": "x" * 100_000})

    peer = Peer(complete=complete)
    async with open_shop(peer) as shop:
        *_, failure = events = await answers(shop)
        assert isinstance(failure, ModelFailed)
        assert failure.kind == "malformed"
        assert len(said(events)) <= 1_000_000
        await trio.testing.wait_all_tasks_blocked()
        assert peer.cancelled == ["provider/complete"]


async def test_pieces_of_somebody_else_are_passed_over(autojump_clock: trio.abc.Clock) -> None:
    """An extension cannot put words into the answer of another one, even if it knows its id."""

    async def complete(peer: Peer, params: dict[str, Any]) -> Any:
        await trio.lowlevel.checkpoint()
        shop.providers.streams.delta("other", params["request_id"], {"type": "Delta", "content": "foreign"})
        shop.providers.streams.delta("acme", "answer_0", {"type": "Delta", "content": "lost"})
        return {"content": "own"}

    async with open_shop(Peer(complete=complete)) as shop:
        assert await answers(shop) == [TextChunk(text="own"), ModelFinished()]


async def test_answers_of_many_sessions_do_not_mix(autojump_clock: trio.abc.Clock) -> None:
    """Answers at the same time each get their own pieces."""

    async def complete(peer: Peer, params: dict[str, Any]) -> Any:
        text = params["messages"][-1]["content"]
        for letter in text:
            await peer.say(params, {"type": "Delta", "content": letter})
        return {"content": text}

    got: dict[str, str] = {}

    async def ask(text: str) -> None:
        got[text] = said(await answers(shop, asked(text)))

    texts = [f"text {number} " * 5 for number in range(10)]
    async with open_shop(Peer(complete=complete)) as shop:
        async with trio.open_nursery() as nursery:
            for text in texts:
                nursery.start_soon(ask, text)
        assert got == {text: text for text in texts}


async def test_a_question_that_is_too_large_is_a_failure(
    autojump_clock: trio.abc.Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A conversation that fits into no message is one that is too long, so that it can be shortened."""
    monkeypatch.setattr(sys.modules["session_core.rpc.messages"].limits, "MAX_RPC_LINE", 2_000)
    async with open_shop(Peer(complete=_streams_and_repeats)) as shop:
        (failure,) = await answers(shop, asked("x" * 3_000))
        assert isinstance(failure, ModelFailed)
        assert failure.kind == "context_too_long"
