"""Which turn is ours, and which words are: at the end of our turn, and after events were missed."""

import attrs
import pytest
import trio
import trio.testing

import session_core as sc
from frontends.commands.run.find_message import messages_since
from frontends.commands.run.options import InteractionOptions
from frontends.commands.run.own_turn import OwnTurn
from frontends.shared.streams import StandardStreams
from session_core import limits
from session_core.testing import scripted
from session_core.testing.checked import open_checked_service
from tests.frontends._paper import Paper, config
from tests.frontends.commands.run._shared import BUSY, Shared, share

Clock = trio.testing.MockClock


async def say(service: sc.SessionService, session_id: sc.SessionId, text: str) -> sc.TurnId:
    """Say something in a session at rest, as somebody else, and wait for the end of the turn."""
    await service.send_user_message(session_id, text)
    return (await service.wait_for_turn(session_id)).outcome.turn_id


async def catch_up(service: sc.SessionService, own: OwnTurn, session_id: sc.SessionId) -> frozenset[sc.MessageId]:
    snapshot = await service.load_session(session_id)
    return own.catch_up(snapshot, await messages_since(service, own, snapshot))


def note(own: OwnTurn, sent: sc.replies.SendUserMessageReply) -> None:
    own.record_sent(turn_id=sent.turn_id, message_id=sent.message_id, item_id=sent.queue_item_id, cursor=sent.cursor)


async def test_what_comes_after_our_turn_is_not_shown(autojump_clock: Clock) -> None:
    """When the end of our turn and a whole turn of somebody else come at once, ours is the last that is shown."""
    provider = scripted.ScriptedProvider(
        (sc.TextChunk(text="Ou"), scripted.Pause("ours"), sc.TextChunk(text="rs."), sc.ModelFinished()),
        scripted.text("Theirs."),
    )
    out = Paper()
    out.fill()
    async with open_checked_service(config(provider)) as service, trio.open_nursery() as nursery:
        shared = await share(service, says=None)
        shared.streams = StandardStreams(out=out, err=Paper())
        nursery.start_soon(shared.run, "go", InteractionOptions())
        await out.blocked.wait()
        provider.release("ours")
        await service.wait_for_turn(shared.session_id)
        await say(service, shared.session_id, "and mine?")
        out.empty()

    assert (0, "Ours.\n") == (shared.code, shared.out)
    assert "Theirs." not in shared.err


# --- after a lag ------------------------------------------------------------------------------------------------------


async def test_an_end_that_was_missed_is_asked_for(autojump_clock: Clock) -> None:
    """A snapshot in which others' turns came after ours says that ours has ended, but not how."""
    provider = scripted.ScriptedProvider(scripted.text("Ours."), scripted.text("Later."))
    own = OwnTurn()
    async with open_checked_service(config(provider)) as service:
        session_id = (await service.create_session()).session_id
        sent = await service.send_user_message(session_id, "me")
        note(own, sent)
        await service.wait_for_turn(session_id)
        await catch_up(service, own, session_id)
        last = own.missed_end, own.outcome is not None
        note(own, sent)
        await say(service, session_id, "later")
        await catch_up(service, own, session_id)
        missed = own.missed_end, own.outcome is not None

    assert ((False, True), (True, False)) == (last, missed)


async def test_two_people_say_the_same(autojump_clock: Clock) -> None:
    """Of two messages with the same words, ours is the one that was ours while it waited."""
    provider = scripted.ScriptedProvider(BUSY, scripted.text("Ours."), scripted.text("Not ours."))
    own = OwnTurn()
    async with open_checked_service(config(provider)) as service:
        shared = await share(service)
        note(own, await service.send_user_message(shared.session_id, "go on"))
        provider.release("theirs")
        first = (await service.wait_for_turn(shared.session_id)).outcome.turn_id
        second = await say(service, shared.session_id, "go on")
        ours = await catch_up(service, own, shared.session_id)
        said = [each.text for each in (await shared.state()).messages if each.message_id in ours]

    assert first != second
    assert (first, ["go on", "Ours."], True) == (own.turn_id, said, own.missed_end)


async def test_a_message_that_was_taken_out_is_gone(autojump_clock: Clock) -> None:
    """A message that is neither waiting nor in the conversation was taken out, whoever has said the same."""
    provider = scripted.ScriptedProvider(BUSY, scripted.text("Not ours."))
    own = OwnTurn()
    async with open_checked_service(config(provider)) as service:
        shared = await share(service)
        note(own, await service.send_user_message(shared.session_id, "go on"))
        await service.take_queue(shared.session_id)
        provider.release("theirs")
        await service.wait_for_turn(shared.session_id)
        await say(service, shared.session_id, "go on")
        ours = await catch_up(service, own, shared.session_id)

    assert (True, None, frozenset()) == (own.was_removed, own.turn_id, ours)


async def test_a_snapshot_from_before_our_message_says_nothing_of_it(autojump_clock: Clock) -> None:
    """A snapshot that was on its way while we spoke does not make our message one that was taken out."""
    provider = scripted.ScriptedProvider(BUSY, scripted.text("Ours."))
    own = OwnTurn()
    async with open_checked_service(config(provider)) as service:
        shared = await share(service)
        before = await shared.state()
        note(own, await service.send_user_message(shared.session_id, "me too"))
        own.catch_up(before, before.messages)
        waits = own.was_removed, own.is_queued_in(sc.SessionState.from_snapshot(await shared.state()))
        provider.release("theirs")

    assert (False, True) == waits


async def fall_behind(shared: Shared, provider: scripted.ScriptedProvider, later: int) -> None:
    """Have `run` miss the end of the turn that was busy, its own answer, and `later` turns of others."""
    err = Paper()
    shared.streams = StandardStreams(out=Paper(), err=err)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shared.run, "me too", InteractionOptions())
        await trio.testing.wait_all_tasks_blocked()
        err.fill()
        provider.release("theirs")
        await shared.service.wait_for_turn(shared.session_id)
        for _ in range(later):
            await say(shared.service, shared.session_id, "me too")
        err.empty()


async def test_an_answer_that_others_have_had_since(autojump_clock: Clock) -> None:
    """After a lag stdout has the answer to us, and neither what was said before it nor what was said since."""
    many = tuple(sc.TextChunk(text="x") for _ in range(200))
    provider = scripted.ScriptedProvider(BUSY, (*many, sc.ModelFinished()), *[scripted.text("Not ours.")] * 2)
    async with open_checked_service(config(provider, capacity=16)) as service:
        shared = await share(service)
        await fall_behind(shared, provider, later=2)

    assert (0, "x" * 200 + "\n") == (shared.code, shared.out)
    assert "Theirs\n" in shared.err


async def test_a_message_that_has_left_the_newest(autojump_clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that has left the newest ones since is found where the older ones are, and its answer is shown."""
    monkeypatch.setattr(limits, "WINDOW_MESSAGES", 8)
    many = tuple(sc.TextChunk(text="x") for _ in range(200))
    provider = scripted.ScriptedProvider(BUSY, (*many, sc.ModelFinished()), *[scripted.text("Not ours.")] * 10)
    async with open_checked_service(config(provider, capacity=16)) as service:
        shared = await share(service)
        await fall_behind(shared, provider, later=10)
        left = (await shared.state()).earlier

    assert left > 4, "ours is the third"
    assert (0, "x" * 200 + "\n") == (shared.code, shared.out)


async def test_a_message_that_an_extension_has_rewritten(autojump_clock: Clock) -> None:
    """What an extension makes of our words on their way does not keep us from finding them again."""
    many = tuple(sc.TextChunk(text="x") for _ in range(200))
    provider = scripted.ScriptedProvider(BUSY, (*many, sc.ModelFinished()), scripted.text("Not ours."))

    class Rewriting:
        """An input hook."""

        def handles(self, hook: str) -> bool:
            return hook == "input"

        async def run(self, hook: str, session_id: sc.SessionId, value: sc.JsonObject) -> sc.JsonObject:
            await trio.lowlevel.checkpoint()
            return sc.JsonObject({**value, "text": f"{value['text']}, please"})

    settings = attrs.evolve(config(provider, capacity=16), hooks=Rewriting())
    async with open_checked_service(settings) as service:
        shared = await share(service)
        await fall_behind(shared, provider, later=1)
        said = [each.text for each in (await shared.state()).messages if each.role == "user"]

    assert ["busy, please", "me too, please", "me too, please"] == said
    assert (0, "x" * 200 + "\n") == (shared.code, shared.out)
