"""Messages put into a conversation between two turns, and things given to a protocol beside it."""

from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from session_core import limits
from session_core.errors import Conflict, InvalidInput, NotFound
from session_core.ids import MessageId, SessionId
from session_core.protocols.api import TurnAdditions
from session_core.protocols.contexts import SessionContext
from session_core.protocols.faults import CallbackContextExpired, InputRejected
from session_core.service.protocols import ProtocolUnusable
from session_core.service.service import SessionService, open_session_service
from session_core.storage.sqlite import SqliteStore
from session_core.testing.checked import WitnessStore, open_checked_service
from session_core.testing.scripted import Hang, ScriptedProvider, text
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.protocols import NewMessage
from session_core.vocabulary.replies import AppendReply
from tests.session_core.service._helpers import new_session, of_type, open_with_store, say, scripted, trace, transcript
from tests.session_core.service._protocols import Watched, fails, hangs

NOTES = (NewMessage(role="user", text="a note"), NewMessage(role="assistant", text="noted"))
SAID = [("user", "a note"), ("assistant", "noted")]
OTHERS = (NOTES[:1], NOTES[::-1], (*NOTES, NOTES[0]), (NOTES[0], NewMessage(role="assistant", text="x")))
"""What is not the same as the notes."""
EXTENSION = JsonObject({"a": 1})


async def append(
    service: SessionService, session_id: SessionId, operation: str = "op", after: MessageId | None = None
) -> AppendReply:
    """Put both notes into the conversation."""
    return await service.append_messages(session_id, operation, NOTES, after=after)


async def appended_calls(factory: Watched) -> list[Any]:
    """What the plugin was told."""
    await trio.lowlevel.checkpoint()
    return [call for call in factory.calls if call[0] in {"appended", "restore"}]


async def test_messages_are_appended() -> None:
    """Messages become the end of the conversation without any model being asked, and the next turn's model sees it."""
    provider = ScriptedProvider(text("one"), text("two"))
    async with open_checked_service(scripted(provider)) as service:
        session_id = await new_session(service)
        await say(service, session_id, "hello")
        reply = await append(service, session_id)
        assert (reply.outcome, len(provider.requests)) == ("appended", 1)
        messages = (await service.load_session(session_id)).transcript
        assert [message.message_id for message in messages[-2:]] == list(reply.message_ids)
        assert await transcript(service, session_id) == [("user", "hello"), ("assistant", "one"), *SAID]
        await say(service, session_id, "go on")
        assert [message.text for message in provider.requests[1].messages[2:4]] == ["a note", "noted"]


async def test_the_same_operation_again() -> None:
    """The same operation is done once, by whomever and however often it comes, and others refuse its id."""
    async with open_checked_service(scripted(text("one"))) as service:
        session_id = await new_session(service)
        first = await append(service, session_id)
        await say(service, session_id, "hello")
        again = await append(service, session_id)
        assert (again.outcome, again.message_ids) == ("replayed", first.message_ids)
        for other in OTHERS:
            with pytest.raises(Conflict) as caught:
                await service.append_messages(session_id, "op", other)
            assert caught.value.field == "operation_id"
        assert len(await transcript(service, session_id)) == 4
        other_session = await new_session(service)
        assert (await append(service, other_session)).outcome == "appended"


async def test_the_same_operation_after_a_restart(tmp_path: Path) -> None:
    """An operation whose reply was lost finds what it has done, also after a restart."""
    async with open_session_service(scripted(store=SqliteStore(tmp_path))) as service:
        session_id = await new_session(service)
        first = await append(service, session_id)
    async with open_session_service(scripted(store=SqliteStore(tmp_path))) as service:
        again = await append(service, session_id)
        assert (again.outcome, again.message_ids) == ("replayed", first.message_ids)
        assert await transcript(service, session_id) == SAID


async def test_a_branch_that_was_left() -> None:
    """With `after`, messages are added only where that message is on the way to the end; else nothing is done."""
    async with open_checked_service(scripted(*[text("ok")] * 3)) as service:
        session_id = await new_session(service)
        await say(service, session_id, "one")
        first = (await service.load_session(session_id)).transcript[0].message_id
        await service.edit_message(session_id, first, "other")
        await service.wait_for_turn(session_id)
        seq = service._core.seq
        stale = await append(service, session_id, after=first)
        assert (stale.outcome, stale.message_ids, service._core.seq) == ("stale_branch", (), seq)
        assert (await append(service, session_id, after=MessageId("msg_none"))).outcome == "stale_branch"
        there = (await service.load_session(session_id)).transcript[0].message_id
        assert (await append(service, session_id, after=there)).outcome == "appended"


async def test_after_a_message_that_has_left_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that is too old to be in memory is still on the way to the end, also before a summary."""
    monkeypatch.setattr(limits, "WINDOW_MESSAGES", 16)
    async with open_session_service(scripted(text("a"), text("summary"), store=SqliteStore(tmp_path))) as service:
        session_id = await new_session(service)
        await say(service, session_id, "one")
        first = (await service.load_session(session_id)).transcript[0].message_id
        await service.compact_context(session_id)
        await service.wait_for_turn(session_id)
        for number in range(20):
            await append(service, session_id, f"op {number}")
        snapshot = await service.load_session(session_id)
        assert snapshot.earlier > 4
        assert (await append(service, session_id, "last", after=first)).outcome == "appended"
        assert (await append(service, session_id, "stray", after=MessageId("msg_none"))).outcome == "stale_branch"
        assert (await append(service, session_id, "op 0")).outcome == "replayed"
        for other in OTHERS:
            with pytest.raises(Conflict):
                await service.append_messages(session_id, "op 0", other)


@pytest.mark.parametrize(
    ("operation", "messages", "field"),
    [
        ("", NOTES, "operation_id"),
        (" \n", NOTES, "operation_id"),
        ("o" * (limits.MAX_NAME_CHARS + 1), NOTES, "operation_id"),
        ("op", (), "messages"),
        ("op", (NOTES[0],) * (limits.MAX_PAGE + 1), "messages"),
        ("op", (NOTES[0], NewMessage(role="user", text=" ")), "messages[1].text"),
    ],
)
async def test_what_cannot_be_appended(operation: str, messages: Any, field: str) -> None:
    """Bad input is refused with the field at fault, and nothing is written."""
    async with open_checked_service(scripted()) as service:
        session_id = await new_session(service)
        seq = service._core.seq
        with pytest.raises(InvalidInput) as caught:
            await service.append_messages(session_id, operation, messages)
        assert (caught.value.field, service._core.seq) == (field, seq)


async def test_only_between_two_turns() -> None:
    """While a turn runs nothing can be appended, nor given to the protocol; unknown sessions are unknown."""
    async with open_checked_service(scripted(Hang(), **Watched().settings())) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        with pytest.raises(Conflict, match="while a turn is running"):
            await append(service, session_id)
        with pytest.raises(Conflict, match="while a turn is running"):
            await service.apply_extension(session_id, EXTENSION)
        with pytest.raises(NotFound):
            await append(service, SessionId("s_none"))
        await service.request_stop(session_id)
        assert (await append(service, session_id)).outcome == "appended"


# --- what the protocol is told ----------------------------------------------------------------------------------------


class Slow(WitnessStore):
    """What is recorded becomes durable when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.go = trio.Event()
        self.go.set()

    @property
    def durable_seq(self) -> int:
        return self._durable if self.go.is_set() else 0

    @durable_seq.setter
    def durable_seq(self, seq: int) -> None:
        self._durable = seq

    async def wait_durable(self, seq: int) -> None:
        await self.go.wait()


async def test_the_protocol_is_told_when_it_is_durable() -> None:
    """A protocol that is in use is told of what was appended, and not before it is durable."""
    factory, store = Watched(), Slow()
    async with open_with_store(store, scripted(text("one"), **factory.settings())) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        factory.calls.clear()
        store.go = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(append, service, session_id)
            await wait_all_tasks_blocked()
            assert (len(store.seen[-1:]), factory.calls) == (1, [])
            store.go.set()
        assert factory.calls == [("appended", "op", ("a note", "noted"))]
        await append(service, session_id)
        assert len(factory.calls) == 1  # what is replayed was told before


async def test_a_protocol_that_was_not_used_yet() -> None:
    """A protocol that was not used yet is not told: it finds what was appended when it is restored, once."""
    factory = Watched()
    async with open_checked_service(scripted(text("one"), **factory.settings())) as service:
        session_id = await new_session(service)
        await append(service, session_id)
        assert factory.names() == ["build"]
        await say(service, session_id, "go")
        assert await appended_calls(factory) == [("restore", ("a note", "noted", "go"))]


async def test_a_note_that_is_said_differently() -> None:
    """A protocol that was told of a message is restored when another one takes its place."""
    factory = Watched()
    async with open_checked_service(scripted(*[text("ok")] * 2, **factory.settings())) as service:
        session_id = await new_session(service)
        await say(service, session_id, "one")
        note, _ = (await append(service, session_id)).message_ids
        factory.calls.clear()
        await service.edit_message(session_id, note, "another note")
        await service.wait_for_turn(session_id)
        assert factory.calls[:-1] == [("restore", ("one", "ok", "another note"))]


@pytest.mark.parametrize("trouble", [fails, hangs])
async def test_a_protocol_that_cannot_be_told(trouble: Any, autojump_clock: trio.abc.Clock, quiet_log: None) -> None:
    """Messages stay when the protocol fails to hear of them; that is told, and it is restored before its next use."""
    factory = Watched()
    async with open_checked_service(scripted(*[text("ok")] * 2, **factory.settings())) as service:
        session_id = await new_session(service)
        await say(service, session_id, "one")
        factory.acts["appended"] = trouble
        assert (await append(service, session_id)).outcome == "appended"
        reason = "ZeroDivisionError: a bug" if trouble is fails else "it took longer than 10 s"
        assert of_type(service, session_id, ev.ProtocolFailed) == [
            ev.ProtocolFailed(protocol="watched", callback="appended", reason=reason)
        ]
        factory.calls.clear()
        assert (await append(service, session_id, "next")).outcome == "appended"
        assert (await say(service, session_id, "two")).status == "completed"
        assert factory.calls[:-1] == [("restore", ("one", "ok", *["a note", "noted"] * 2, "two"))]


async def test_a_caller_that_goes_away() -> None:
    """When whoever appends is cancelled before the protocol has heard of it, that is restored before its next use."""
    factory, store = Watched(), Slow()
    async with open_with_store(store, scripted(*[text("ok")] * 2, **factory.settings())) as service:
        session_id = await new_session(service)
        await say(service, session_id, "one")
        store.go = trio.Event()
        factory.calls.clear()
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(append, service, session_id)
                await wait_all_tasks_blocked()
                scope.cancel()
        store.go.set()
        await say(service, session_id, "two")
        assert factory.calls[:-1] == [("restore", ("one", "ok", "a note", "noted", "two"))]


async def test_a_session_that_is_deleted_meanwhile(autojump_clock: trio.abc.Clock) -> None:
    """A session that is deleted while its protocol hangs stays deleted: nothing is recorded of it any more."""
    factory = Watched()
    async with open_checked_service(scripted(text("ok"), **factory.settings())) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        factory.acts["appended"] = hangs
        async with trio.open_nursery() as nursery:
            nursery.start_soon(append, service, session_id)
            await trio.lowlevel.checkpoint()
            await trio.sleep(1)
            await service.delete_session(session_id)
        assert isinstance(trace(service, session_id)[-1], ev.SessionDeleted)


# --- extensions -------------------------------------------------------------------------------------------------------


async def test_extensions_of_a_session() -> None:
    """A protocol takes nothing beside the conversation unless it says so; what it takes leaves no trace."""
    factory = Watched()
    async with open_checked_service(scripted(**factory.settings())) as service:
        session_id = await new_session(service)
        with pytest.raises(InvalidInput) as caught:
            await service.apply_extension(session_id, EXTENSION)
        assert (caught.value.field, caught.value.message) == (
            "extension",
            "this protocol accepts no input outside the conversation",
        )
        factory.acts["apply_extension"] = lambda *_: None
        seq = service._core.seq
        await service.apply_extension(session_id, EXTENSION)
        assert service._core.seq == seq
        assert factory.calls[1:] == [("initialize",), ("restore", ()), ("apply_extension", {"a": 1})]


@pytest.mark.parametrize("trouble", [fails, hangs])
@pytest.mark.parametrize("callback", ["initialize", "restore", "apply_extension"])
async def test_an_extension_that_is_not_taken(
    callback: str, trouble: Any, autojump_clock: trio.abc.Clock, quiet_log: None
) -> None:
    """A protocol that fails fails the command alone, with a typed error; the session goes on."""
    factory = Watched(**{"apply_extension": lambda *_: None, callback: trouble})
    async with open_checked_service(scripted(text("ok"), **factory.settings())) as service:
        session_id = await new_session(service)
        with pytest.raises(ProtocolUnusable, match=f"the protocol watched failed in {callback}: "):
            await service.apply_extension(session_id, EXTENSION)
        factory.acts.clear()
        assert (await say(service, session_id)).status == "completed"


async def test_extensions_of_a_turn() -> None:
    """What a turn is given may add instructions for that turn alone; the usual protocol accepts and adds nothing."""
    provider = ScriptedProvider(*[text("ok")] * 3)
    factory = Watched(check_turn_extension=lambda *_: TurnAdditions(instructions="Be brief."))
    config = scripted(provider, **factory.settings(), system_prompt="Be good.")
    async with open_checked_service(config) as service:
        session_id = await new_session(service)
        for extension in (EXTENSION, None):
            await service.send_user_message(session_id, "go", extension=extension)
            await service.wait_for_turn(session_id)
        plain = await new_session(service, protocol="standard")
        await service.send_user_message(plain, "go", extension=EXTENSION)
        assert (await service.wait_for_turn(plain)).outcome.status == "completed"
    assert [request.system for request in provider.requests] == ["Be good.\n\nBe brief.", "Be good.", "Be good."]
    assert ("check_turn_extension", {"a": 1}) in factory.calls


async def test_an_extension_that_is_rejected() -> None:
    """A turn whose extension is rejected fails with the reason before any model is asked; the next one runs."""
    provider = ScriptedProvider(text("ok"))

    def reject(context: SessionContext, extension: JsonObject) -> None:
        raise InputRejected(f"no {extension['a']}")

    async with open_checked_service(scripted(provider, **Watched(check_turn_extension=reject).settings())) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go", extension=EXTENSION)
        outcome = (await service.wait_for_turn(session_id)).outcome
        assert (outcome.status, outcome.error, len(provider.requests)) == ("failed", "no 1", 0)
        assert (await say(service, session_id)).status == "completed"


async def test_a_context_of_an_extension_that_was_kept() -> None:
    """A context that a plugin keeps beyond its callback is of no use, also to a task that it has started."""
    kept: list[SessionContext] = []
    async with open_checked_service(
        scripted(**Watched(apply_extension=lambda context, _: kept.append(context)).settings())
    ) as service:
        await service.apply_extension(await new_session(service), EXTENSION)
    with pytest.raises(CallbackContextExpired):
        kept[0].check()
