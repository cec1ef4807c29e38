"""A model server that breaks off, stalls, is too busy or never ends: the turn survives it, and no text is doubled."""

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from session_core import limits
from session_core.ids import MessageId
from session_core.vocabulary import events as ev
from session_core.vocabulary.messages import ToolCallPart
from tests._mostly_slow import mostly_slow
from tests.end_to_end._streams import ANTHROPIC, CHAT, DIALECTS, Dialect
from tests.end_to_end._world import SILENT_S, World, open_world
from tests.session_core.providers._replay_server import CUT, FOREVER, STALL, Reply, json_reply

each_dialect = pytest.mark.parametrize("dialect", mostly_slow(DIALECTS, quick=1), ids=str)
BUSY = {"error": {"type": "overloaded_error", "message": "Overloaded"}}


def _texts_as_streamed(world: World) -> dict[MessageId, str]:
    """What a reader of the events has seen of each answer that was not withdrawn."""
    texts: dict[MessageId, str] = {}
    kinds: dict[MessageId, str] = {}
    for event in world.events(ev.PartStarted, ev.PartDelta, ev.MessageDiscarded):
        match event:
            case ev.PartStarted(message_id=message_id, kind=kind):
                kinds[message_id] = kind
            case ev.PartDelta(message_id=message_id, text=text) if kinds[message_id] == "text":
                texts[message_id] = texts.get(message_id, "") + text
            case ev.MessageDiscarded(message_id=message_id):
                texts.pop(message_id, None)
            case _:
                pass
    return texts


@each_dialect
async def test_a_connection_cut_at_any_event(dialect: Dialect, tmp_path: Path, quick_retries: None) -> None:
    """Wherever an answer breaks off, it is asked for again; text comes once, a tool runs once, nothing half is kept."""
    whole = dialect.answer("I write.", [("write", {"path": "a.txt", "content": "a\n"})])
    places = range(len(whole) + 1)
    # A chat has said all once it has said why it ends: only the number of tokens is lost then.
    complete_from = len(whole) - 2 if dialect is CHAT else len(whole)
    replies: list[Reply] = []
    for place in places:
        # Also in the midst of an event: half of the next one is sent before the cut.
        half = whole[place][: len(whole[place]) // 2] if place < len(whole) else b""
        replies += [Reply(body=(*whole[:place], half, CUT))]
        replies += [Reply(body=whole)] if place < complete_from else []
        replies += [Reply(body=dialect.answer("Done."))]
    async with open_world(tmp_path, dialect, *replies) as world:
        for place in places:
            del world.seen[:]
            first = len(world.server.requests)
            outcome = await world.say("write")
            failures = 1 if place < complete_from else 0
            assert ("completed", 2 + failures, "Done.") == (outcome.status, outcome.steps, outcome.final_text)
            assert failures == len(world.events(ev.ModelCallFailed)) == len(world.events(ev.MessageDiscarded))
            assert 1 == len(world.events(ev.ToolCallStarted))
            assert ["I write.", "Done."] == list(_texts_as_streamed(world).values())
            *_, asked, called, _, answered = await world.transcript()
            assert ("user", "I write.", "Done.") == (asked.role, called.text, answered.text)
            assert 1 == sum(isinstance(part, ToolCallPart) for part in called.parts)
            asked_again = world.server.requests[first : first + 1 + failures]
            assert 1 == len({request.body for request in asked_again}), "a retry asks the same question"
        assert len(replies) == len(world.server.requests)


@each_dialect
async def test_a_server_that_falls_silent(
    dialect: Dialect, tmp_path: Path, quick_retries: None, some_patience: None, mock_clock: MockClock
) -> None:
    """Silence in the midst of an answer is bounded and the call tried again; the connection is let go."""
    mock_clock.rate = 1
    whole = dialect.answer("Here I am, and I was here before.")
    async with (
        open_world(tmp_path, dialect, Reply(body=(*whole[:4], STALL)), Reply(body=whole)) as world,
        trio.open_nursery() as nursery,
    ):

        async def let_time_pass() -> None:
            await world.server.wait_until_stalled()
            while not world.events(ev.PartDelta):  # noqa: ASYNC110 - until the client has what was sent
                await trio.sleep(0.01)
            mock_clock.jump(SILENT_S)

        nursery.start_soon(let_time_pass)
        outcome = await world.say("hello")
        assert ("completed", "Here I am, and I was here before.") == (outcome.status, outcome.final_text)
        assert ["Here I am, and I was here before."] == list(_texts_as_streamed(world).values())
        (failure,) = world.events(ev.ModelCallFailed)
        assert isinstance(failure, ev.ModelCallFailed)
        assert "network" == failure.kind
        assert "was silent for" in failure.message
        with trio.fail_after(60):
            while world.server.open_connections > 1:  # noqa: ASYNC110 - until the server has noticed
                await trio.sleep(0.01)
        assert 1 == world.server.open_connections


async def test_a_server_that_is_always_silent(tmp_path: Path, quick_retries: None, little_patience: None) -> None:
    """A server that never says anything is given up after a known number of tries, with an outcome that says why."""
    async with open_world(tmp_path, ANTHROPIC, Reply(body=(STALL,))) as world:
        outcome = await world.say("hello")
        assert "failed" == outcome.status
        assert "was silent" in (outcome.error or "")
        assert 1 + limits.MAX_RETRIES == len(world.server.requests)
        assert ["user"] == [message.role for message in await world.transcript()]


@each_dialect
@pytest.mark.parametrize("header", [{"retry-after": "0.06"}, {"retry-after-ms": "60"}], ids=["seconds", "ms"])
async def test_a_server_that_asks_us_to_wait(
    dialect: Dialect, header: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time a busy server asks for is waited, no less and no more, and watchers see until when."""
    monkeypatch.setattr("session_core.agent.model_call.FIRST_RETRY_MS", 3_600_000)
    busy = json_reply(429, {"error": {"type": "rate_limit_error", "message": "slow down"}}, header)
    async with open_world(tmp_path, dialect, busy, Reply(body=dialect.answer("Now."))) as world:
        assert "Now." == (await world.say("hello")).final_text
        first, second = world.server.requests
        assert 0.06 <= second.at - first.at
        (failure,) = world.events(ev.ModelCallFailed)
        assert isinstance(failure, ev.ModelCallFailed)
        assert ("rate_limited", 1) == (failure.kind, failure.attempt)
        activities = [
            event.activity for event in world.events(ev.ActivityChanged) if isinstance(event, ev.ActivityChanged)
        ]
        (waiting,) = [activity for activity in activities if activity.name == "rate_limited"]
        assert failure.retry_at == waiting.retry_at


@each_dialect
async def test_an_overloaded_server(dialect: Dialect, tmp_path: Path, quick_retries: None) -> None:
    """Overload passes: it is tried again, five times; then the turn fails and says so, and the next one works."""
    busy, fine = json_reply(529, BUSY), Reply(body=dialect.answer("Fine."))
    always = [busy] * (1 + limits.MAX_RETRIES)
    async with open_world(tmp_path, dialect, busy, busy, fine, *always, fine) as world:
        assert "Fine." == (await world.say("one")).final_text
        assert [1, 2] == [getattr(event, "attempt", 0) for event in world.events(ev.ModelCallFailed)]
        failed = await world.say("two")
        assert "failed" == failed.status
        assert "status 529" in (failed.error or "")
        assert "Fine." == (await world.say("three")).final_text
        assert len(always) + 4 == len(world.server.requests)


@each_dialect
async def test_an_answer_without_end(dialect: Dialect, tmp_path: Path) -> None:
    """A server that streams text for ever is stopped at the longest answer, and not asked again."""
    begun = dialect.answer("x" * 60_000)[:3]
    piece = dialect.answer("y" * 60_000)
    long = next(event for event in piece if b"yyy" in event).replace(b"y" * 6, b"y" * 60_000)
    async with open_world(tmp_path, dialect, Reply(body=(*begun, long, FOREVER))) as world:
        outcome = await world.say("go on")
        await world.server.wait_until_closed()
        assert "failed" == outcome.status
        assert "does not end" in (outcome.error or "")
        assert 1 == len(world.server.requests)
        assert sum(map(len, _texts_as_streamed(world).values())) <= limits.MAX_ANSWER_CHARS


async def test_signs_of_life_without_end(tmp_path: Path, short_answers: None) -> None:
    """Nor do pings for ever keep a turn waiting."""
    async with open_world(
        tmp_path, ANTHROPIC, Reply(body=(b'event: ping\ndata: {"type": "ping"}\n\n', FOREVER))
    ) as world:
        outcome = await world.say("hello")
        assert "failed" == outcome.status
        assert "is too long" in (outcome.error or "")


@each_dialect
async def test_a_conversation_that_is_too_long(dialect: Dialect, tmp_path: Path) -> None:
    """What is too long for the model is summed up by it, and the question asked again with the summary."""
    replies = [
        Reply(body=dialect.answer("First answer.")),
        json_reply(400, dialect.too_long),
        Reply(body=dialect.answer("They asked something before.")),
        Reply(body=dialect.answer("Second answer.")),
    ]
    async with open_world(tmp_path, dialect, *replies) as world:
        await world.say("first question " + "word " * 100)
        outcome = await world.say("second question")
        _, _, summing, last = (request.body for request in world.server.requests)
    assert ("completed", "Second answer.") == (outcome.status, outcome.final_text)
    (compacted,) = world.events(ev.CompactionFinished)
    assert isinstance(compacted, ev.CompactionFinished)
    assert "completed" == compacted.status
    assert b"They asked something before." in last
    assert b"word word" not in last
    assert b"second question" in summing, "the summary is of all that was said"
    assert b"second question" in last, "whatever the summary says, the question itself is not lost"
