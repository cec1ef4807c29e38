"""Messages and turns: send, start, edit, switch branch, resume, dismiss, clear."""

from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from session_core import limits
from session_core.errors import Conflict, InvalidInput, NotFound
from session_core.ids import MessageId
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import Hang, Pause, ScriptedProvider, ScriptedTool, failure, text, tool_call
from session_core.tools.base import ToolContext
from session_core.vocabulary import commands as c
from session_core.vocabulary import events as ev
from session_core.vocabulary.commands import Command
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ImagePart, TextPart
from tests.session_core.service._helpers import new_session, of_type, said, say, scripted, trace, transcript


async def test_send_starts_a_turn() -> None:
    """A message to a session at rest starts a turn, and the reply names the turn and the message."""
    async with open_checked_service(scripted(text("hi"))) as service:
        session_id = await new_session(service)
        sent = await service.send_user_message(session_id, "hello")
        outcome = (await service.wait_for_turn(session_id, sent.turn_id)).outcome

        assert ("started", None) == (sent.disposition, sent.queue_item_id)
        assert ("completed", "hi", 1, 0) == (outcome.status, outcome.final_text, outcome.steps, outcome.tool_calls)
        transcript = (await service.load_session(session_id)).transcript
        assert [("user", "hello"), ("assistant", "hi")] == said(transcript)
        assert (sent.message_id, outcome.final_message_id) == tuple(message.message_id for message in transcript)


async def test_images() -> None:
    """A message may be images without a text, and images that cannot be are refused."""
    async with open_checked_service(scripted(text("a cat"))) as service:
        session_id = await new_session(service)
        image = ImagePart(media_type="image/png", data="aGk=")
        for bad in (
            ImagePart(media_type="image/png", data=""),
            ImagePart(media_type="image/png", data="ü"),
            ImagePart(media_type="image/png", data="!!!"),
        ):
            with pytest.raises(InvalidInput) as caught:
                await service.send_user_message(session_id, "", images=(bad,))
            assert "images" == caught.value.field
        large = ImagePart(media_type="image/png", data="A" * (limits.MAX_MESSAGE_CHARS // 2 + 4))
        with pytest.raises(InvalidInput) as caught:
            await service.send_user_message(session_id, "two large ones", images=(large, large))
        assert ("images", True) == (caught.value.field, "together" in caught.value.message)
        await service.send_user_message(session_id, "", images=(image,))
        assert (image,) == (await service.load_session(session_id)).transcript[0].parts


async def test_send_while_busy_waits_in_the_queue() -> None:
    """Messages sent during a turn are delivered as they ask: steering between steps, follow-ups before its end."""
    gate = trio.Event()

    async def wait(arguments: JsonObject, context: ToolContext) -> str:
        await gate.wait()
        return "ok"

    provider = ScriptedProvider(tool_call("t"), text("b"), text("c"), text("d"))
    async with open_checked_service(scripted(provider, tools=(ScriptedTool("t", run=wait),))) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "start")
        await service.send_user_message(session_id, "next", deliver_as="next_turn")
        queued = await service.send_user_message(session_id, "after")
        await service.send_user_message(session_id, "now", deliver_as="steer")
        gate.set()
        outcome = (await service.wait_for_turn(session_id)).outcome

        assert ("queued", None) == (queued.disposition, queued.turn_id)
        assert outcome.steered
        assert [
            ("user", "start"),
            ("assistant", ""),
            ("tool", ""),
            ("user", "now"),
            ("assistant", "b"),
            ("user", "after"),
            ("assistant", "c"),
        ] == await transcript(service, session_id)
        (waiting,) = (await service.list_queue(session_id)).items
        assert (TextPart(text="next"),) == waiting.parts
        await say(service, session_id, "go")
        assert ["next", "go"] == [m.text for m in provider.requests[3].messages if m.role == "user"][-2:]


async def test_next_turn_items_start_nothing() -> None:
    """A message for the next turn waits even in a session at rest."""
    async with open_checked_service(scripted(text("a"))) as service:
        session_id = await new_session(service)
        sent = await service.send_user_message(session_id, "later", deliver_as="next_turn")
        await wait_all_tasks_blocked()
        assert "queued" == sent.disposition
        assert [] == of_type(service, session_id, ev.TurnStarted)


async def test_start_turn_if_idle() -> None:
    """A busy session refuses without queueing or appending anything; a session at rest starts."""
    async with open_checked_service(scripted(Hang())) as service:
        session_id = await new_session(service)
        started = await service.start_turn_if_idle(session_id, "one")
        await wait_all_tasks_blocked()
        before = trace(service, session_id)
        refused = await service.start_turn_if_idle(session_id, "two")
        assert (True, False) == (started.started, refused.started)
        assert (None, None) == (refused.turn_id, refused.message_id)
        assert before == trace(service, session_id)


@pytest.mark.parametrize(
    "command", [c.SwitchBranch, c.EditMessage, c.ResumeSession, c.DismissOutcome, c.ClearContext, c.CompactContext]
)
async def test_refused_while_a_turn_runs(command: type[Command[object]]) -> None:
    """What would pull the conversation from under a running turn is a conflict and changes nothing."""
    async with open_checked_service(scripted(Hang())) as service:
        session_id = await new_session(service)
        sent = await service.send_user_message(session_id, "go")
        await wait_all_tasks_blocked()
        before = trace(service, session_id)
        extra: dict[type, dict[str, Any]] = {
            c.SwitchBranch: {"message_id": sent.message_id},
            c.EditMessage: {"message_id": sent.message_id, "text": "t"},
        }
        with pytest.raises(Conflict) as caught:
            await service.execute(command(session_id=session_id, **extra.get(command, {})))  # type: ignore[call-arg]
        assert "session_id" == caught.value.field
        assert before == trace(service, session_id)


async def test_edit_the_first_message_into_a_branch_and_back() -> None:
    """Even the first message can be said differently; both branches stay reachable with all that followed."""
    provider = ScriptedProvider(text("one"), text("two"), text("other"), text("end"))
    async with open_checked_service(scripted(provider)) as service:
        session_id = await new_session(service)
        await say(service, session_id, "a")
        await say(service, session_id, "b")
        old = await service.load_session(session_id)
        edited = await service.edit_message(session_id, old.transcript[0].message_id, "a2")
        await service.wait_for_turn(session_id)
        assert [("user", "a2"), ("assistant", "other")] == await transcript(service, session_id)
        assert [("user", "a2")] == said(provider.requests[2].messages)
        assert edited.message_id is not None

        switched = await service.switch_branch(session_id, old.transcript[0].message_id)
        assert old.transcript == (await service.load_session(session_id)).transcript
        (event,) = of_type(service, session_id, ev.BranchSwitched)
        assert (old.head, switched.cursor) == (event.head, (await service.load_session(session_id)).cursor)
        await service.switch_branch(session_id, edited.message_id)
        await say(service, session_id, "c")
        expected = [("user", "a2"), ("assistant", "other"), ("user", "c"), ("assistant", "end")]
        assert expected == await transcript(service, session_id)


async def test_only_known_user_messages_are_edited() -> None:
    """Editing an answer is a conflict, and an unknown message is not found, by edit and by switch."""
    async with open_checked_service(scripted(text("one"))) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        answer = (await service.load_session(session_id)).transcript[-1]
        with pytest.raises(Conflict) as conflict:
            await service.edit_message(session_id, answer.message_id, "x")
        assert "message_id" == conflict.value.field
        nothing = MessageId("msg_x")
        for attempt in (
            c.EditMessage(session_id=session_id, message_id=nothing, text="x"),
            c.SwitchBranch(session_id=session_id, message_id=nothing),
        ):
            with pytest.raises(NotFound) as caught:
                await service.execute(attempt)
            assert "message_id" == caught.value.field


async def test_clear_then_send() -> None:
    """After a clear the model sees only what came after, and the old conversation can be gone back to."""
    provider = ScriptedProvider(text("one"), text("two"))
    async with open_checked_service(scripted(provider)) as service:
        session_id = await new_session(service)
        await say(service, session_id, "a")
        old = await service.load_session(session_id)
        await service.clear_context(session_id)
        assert () == (await service.load_session(session_id)).transcript
        await say(service, session_id, "b")
        assert [("user", "b")] == said(provider.requests[1].messages)
        await service.switch_branch(session_id, old.transcript[-1].message_id)
        assert old.transcript == (await service.load_session(session_id)).transcript


async def test_resume_needs_something_to_resume() -> None:
    """An idle session has nothing to resume; a failed one goes on and completes."""
    provider = ScriptedProvider(failure("auth", "no key"), text("fine"))
    async with open_checked_service(scripted(provider)) as service:
        session_id = await new_session(service)
        with pytest.raises(Conflict):
            await service.resume_session(session_id)
        assert "failed" == (await say(service, session_id)).status
        assert "errored" == (await service.load_session(session_id)).activity.name
        resumed = await service.resume_session(session_id)
        assert "completed" == (await service.wait_for_turn(session_id, resumed.turn_id)).outcome.status
        assert [("user", "hello"), ("assistant", "fine")] == await transcript(service, session_id)


async def test_dismiss() -> None:
    """A dismissed failure leaves an idle session whose last outcome is still known."""
    async with open_checked_service(scripted(failure("auth", "no key"))) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id)
        await service.dismiss_outcome(session_id)
        snapshot = await service.load_session(session_id)
        assert ("idle", outcome) == (snapshot.activity.name, snapshot.last_outcome)


async def test_the_queue_is_bounded() -> None:
    """One message too many for the queue is a conflict, and those that wait stay."""
    async with open_checked_service(scripted()) as service:
        session_id = await new_session(service)
        for _ in range(limits.MAX_QUEUE_ITEMS):
            await service.send_user_message(session_id, "x", deliver_as="next_turn")
        with pytest.raises(Conflict):
            await service.send_user_message(session_id, "x", deliver_as="next_turn")
        assert limits.MAX_QUEUE_ITEMS == len((await service.list_queue(session_id)).items)


async def test_the_queue_is_bounded_in_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits must fit into a frame together, at six bytes for a character, when sent and when edited."""
    monkeypatch.setattr(limits, "MAX_MESSAGE_BYTES", 20_000)
    async with open_checked_service(scripted()) as service:
        session_id = await new_session(service)
        first = await service.send_user_message(session_id, "x" * 1_500, deliver_as="next_turn")
        assert first.queue_item_id is not None
        await service.send_user_message(session_id, "x" * 1_500, deliver_as="next_turn")
        with pytest.raises(Conflict, match="holds 64 messages of 20,000 bytes together"):
            await service.send_user_message(session_id, "x" * 300, deliver_as="next_turn")
        with pytest.raises(Conflict):
            await service.edit_queue_item(session_id, first.queue_item_id, "x" * 1_800)
        await service.edit_queue_item(session_id, first.queue_item_id, "x" * 1_600)
        assert 2 == len((await service.list_queue(session_id)).items)


async def test_what_waits_when_a_turn_fails_goes_out_with_the_next() -> None:
    """After a failed turn waiting messages stay in the queue, for people to see, and the next turn takes them along."""
    provider = ScriptedProvider((Pause("p"), *failure("refused", "no")), text("ok"))
    async with open_checked_service(scripted(provider)) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        await provider.wait_for_pause("p")
        await service.send_user_message(session_id, "and this")
        provider.release("p")
        await wait_all_tasks_blocked()
        snapshot = await service.load_session(session_id)
        assert ("errored", 1, 1) == (snapshot.activity.name, len(snapshot.queue), len(provider.requests))

        assert "completed" == (await say(service, session_id, "again")).status
        assert [("user", "go"), ("user", "and this"), ("user", "again")] == said(provider.requests[1].messages)


async def test_settings_during_a_run_take_effect_at_the_next_call() -> None:
    """A model switched during a turn answers from the next model call on, and the change outlives the turn."""
    gate = Pause("gate")
    first, second = ScriptedProvider((gate, *tool_call("t"))), ScriptedProvider(text("from the other"))
    config = scripted(models={"one": first, "two": second}, tools=(ScriptedTool("t"),))
    async with open_checked_service(config) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        await first.wait_for_pause("gate")
        assert "next_model_call" == (await service.switch_model(session_id, "two")).effective
        await service.change_permission_mode(session_id, "full")
        await service.change_working_directory(session_id, "/tmp")
        first.release("gate")
        outcome = (await service.wait_for_turn(session_id)).outcome
        snapshot = await service.load_session(session_id)
        assert ("from the other", "two") == (outcome.final_text, snapshot.transcript[-1].model)
        settings = snapshot.settings
        assert ("two", "full", "/tmp") == (settings.model, settings.permission_mode, settings.cwd)
