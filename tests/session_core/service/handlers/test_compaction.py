"""Compaction: the summary, failures, and what comes while it is being made."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from session_core.errors import Conflict
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import ScriptedProvider, text
from session_core.vocabulary import events as ev
from session_core.vocabulary.messages import Message
from session_core.wire.codec import encode_event
from tests.session_core.service._helpers import new_session, of_type, recorded, said, say, scripted, transcript


async def summarise(messages: tuple[Message, ...]) -> str:
    return f"{len(messages)} messages"


async def test_compaction() -> None:
    """A summary takes the place of the conversation; without a compactor, the session's own model writes it."""
    provider = ScriptedProvider(text("one"), text("two"))
    async with open_checked_service(scripted(provider, compactor=summarise)) as service:
        session_id = await new_session(service)
        with pytest.raises(Conflict):
            await service.compact_context(session_id)
        await say(service, session_id, "a")
        await service.compact_context(session_id)
        await wait_all_tasks_blocked()
        assert ("summary", "2 messages") == (await transcript(service, session_id))[-1]
        assert "idle" == (await service.load_session(session_id)).activity.name
        await say(service, session_id, "b")
        assert [("summary", "2 messages"), ("user", "b")] == said(provider.requests[1].messages)
    async with open_checked_service(scripted(text("one"), text("in short: one"))) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        await service.compact_context(session_id)
        await wait_all_tasks_blocked()
        assert ("summary", "in short: one") == (await transcript(service, session_id))[-1]


async def test_a_failing_compactor_is_an_event() -> None:
    """A compactor that raises leaves the conversation as it was, says why, and the session can be used."""

    async def broken(messages: tuple[Message, ...]) -> str:
        await trio.lowlevel.checkpoint()
        raise ValueError("no idea")

    async with open_checked_service(scripted(text("one"), text("two"), compactor=broken)) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        before = await transcript(service, session_id)
        await service.compact_context(session_id)
        await wait_all_tasks_blocked()
        snapshot = await service.load_session(session_id)
        assert "errored" == snapshot.activity.name
        assert "no idea" in (snapshot.activity.message or "")
        assert before == said(snapshot.transcript)
        assert "completed" == (await say(service, session_id)).status


@pytest.mark.usefixtures("quiet_log")
@pytest.mark.parametrize(
    ("made", "activity"), [("half \ud800", "idle"), (5, "errored"), (ValueError("\ud800"), "errored")]
)
async def test_what_a_compactor_makes_can_be_sent_to_readers(made: object, activity: str) -> None:
    """Whatever a compactor returns or raises, the events about it can be encoded and the session can be used."""

    async def odd(messages: tuple[Message, ...]) -> str:
        if isinstance(made, Exception):
            raise made
        return made  # type: ignore[return-value]

    async with open_checked_service(scripted(text("one"), text("two"), compactor=odd)) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        await service.compact_context(session_id)
        await wait_all_tasks_blocked()
        assert activity == (await service.load_session(session_id)).activity.name
        for event in recorded(service):
            encode_event(event)
        assert "completed" == (await say(service, session_id)).status


async def test_a_message_sent_during_a_compaction_is_not_stranded() -> None:
    """A message that came while the conversation was being summarised is answered when the summary is there."""
    gate = trio.Event()

    async def slow(messages: tuple[Message, ...]) -> str:
        await gate.wait()
        return "summary"

    provider = ScriptedProvider(text("one"), text("two"))
    async with open_checked_service(scripted(provider, compactor=slow)) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        await service.compact_context(session_id)
        sent = await service.send_user_message(session_id, "still there?")
        assert "queued" == sent.disposition
        gate.set()
        await wait_all_tasks_blocked()
        snapshot = await service.load_session(session_id)
        assert () == snapshot.queue
        assert [("user", "still there?"), ("assistant", "two")] == said(snapshot.transcript)[-2:]


async def test_a_message_sent_during_a_failing_compaction_is_not_stranded() -> None:
    """A message that came while the summary failed is answered all the same, one for the next turn along with it."""
    gate = trio.Event()

    async def failing(messages: tuple[Message, ...]) -> str:
        await gate.wait()
        raise ValueError("no idea")

    provider = ScriptedProvider(text("one"), text("two"))
    async with open_checked_service(scripted(provider, compactor=failing)) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        await service.compact_context(session_id)
        await service.send_user_message(session_id, "some time", deliver_as="next_turn")
        await service.send_user_message(session_id, "still there?")
        gate.set()
        await wait_all_tasks_blocked()
        snapshot = await service.load_session(session_id)
        assert ("idle", ()) == (snapshot.activity.name, snapshot.queue)
        assert [("user", "some time"), ("user", "still there?"), ("assistant", "two")] == said(snapshot.transcript)[-3:]
        assert ["failed"] == [event.status for event in of_type(service, session_id, ev.CompactionFinished)]


async def test_a_stopped_compaction_leaves_nothing_to_resume() -> None:
    """After a stop of a compaction the conversation is complete, so resuming is a conflict and asks no model."""

    async def endless(messages: tuple[Message, ...]) -> str:
        await trio.sleep_forever()

    provider = ScriptedProvider(text("one"), text("unasked"))
    async with open_checked_service(scripted(provider, compactor=endless)) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        await service.compact_context(session_id)
        await wait_all_tasks_blocked()
        await service.request_stop(session_id)
        with pytest.raises(Conflict) as caught:
            await service.resume_session(session_id)
        assert "session_id" == caught.value.field
        assert 1 == len(provider.requests)
