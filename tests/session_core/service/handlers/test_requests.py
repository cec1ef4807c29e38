"""Dialogs, approvals and wake-ups."""

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from session_core import limits
from session_core.errors import InvalidInput, NotFound
from session_core.ids import ClientId, RequestId, SessionId, TurnId, WakeupId
from session_core.service.service import SessionService
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import Hang, Pause, ScriptedProvider, ScriptedTool, text, tool_call
from session_core.vocabulary import commands as c
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.frozen import JsonValue, freeze_json
from session_core.vocabulary.replies import DialogReply
from session_core.vocabulary.sessions import Dialog, DialogAnswer
from session_core.wire.codec import decode, encode, encode_event
from tests.session_core.service._helpers import new_session, of_type, recorded, scripted, transcript


async def opened(service: SessionService, session_id: SessionId) -> Dialog:
    await wait_all_tasks_blocked()
    (dialog,) = (await service.load_session(session_id)).dialogs
    return dialog


async def test_the_first_answer_wins() -> None:
    """A dialog is closed by its first answer, and a later one is told which and whose that was."""
    async with open_checked_service(scripted()) as service:
        session_id = await new_session(service)
        replies: list[DialogReply] = []

        async def ask() -> None:
            replies.append(await service.open_dialog(session_id, "input", "Name?"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            dialog = await opened(service, session_id)
            with service.attach("ann") as ann:
                won = await ann.answer_dialog(session_id, dialog.request_id, "Ann")
            lost = await service.answer_dialog(session_id, dialog.request_id, "Bob")
        assert (True, "Ann", ClientId("ann")) == (won.accepted, won.value, won.by)
        assert (False, "Ann", ClientId("ann")) == (lost.accepted, lost.value, lost.by)
        assert [(True, "Ann", ClientId("ann"))] == [(reply.answered, reply.value, reply.by) for reply in replies]
        (closed,) = of_type(service, session_id, ev.DialogClosed)
        answer = DialogAnswer(request_id=dialog.request_id, because="answered", value="Ann", by=ClientId("ann"))
        assert answer == closed.answer


async def test_choices_are_checked() -> None:
    """A select dialog takes only its choices or a dismissal, and stays open after a wrong answer."""
    async with open_checked_service(scripted()) as service:
        session_id = await new_session(service)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: service.open_dialog(session_id, "select", "Which?", choices=("a", "b")))
            dialog = await opened(service, session_id)
            for wrong in ("c", 1, True):
                with pytest.raises(InvalidInput) as caught:
                    await service.answer_dialog(session_id, dialog.request_id, wrong)
                assert "value" == caught.value.field
            assert (await service.answer_dialog(session_id, dialog.request_id, "b")).accepted


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", ("\ud800",), (object(),), 2**60])
async def test_answers_that_no_reader_could_get(value: JsonValue) -> None:
    """An answer that cannot be sent to other readers is refused, and the dialog stays open."""
    async with open_checked_service(scripted()) as service:
        session_id = await new_session(service)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(service.open_dialog, session_id, "input", "Name?")
            dialog = await opened(service, session_id)
            with pytest.raises(InvalidInput) as caught:
                await service.answer_dialog(session_id, dialog.request_id, value)
            assert "value" == caught.value.field
            assert (await service.answer_dialog(session_id, dialog.request_id, None)).accepted


async def test_an_answer_is_frozen() -> None:
    """Plain lists and dicts inside an answer are frozen when it is taken, and every reader can be sent it."""
    async with open_checked_service(scripted()) as service:
        session_id = await new_session(service)
        inner = [1]
        value: JsonValue = (inner, {"a": [2]})  # type: ignore[assignment]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(service.open_dialog, session_id, "input", "Which?")
            dialog = await opened(service, session_id)
            reply = await service.answer_dialog(session_id, dialog.request_id, value)
        inner.append(5)
        expected = freeze_json(([1], {"a": [2]}))
        (closed,) = of_type(service, session_id, ev.DialogClosed)
        assert expected == closed.answer.value == reply.value
        hash(closed)
        for event in recorded(service):
            assert event == decode(encode_event(event), SessionEvent)
        encode(await service.load_session(session_id))


async def test_waiting_for_a_dialog_nobody_remembers(autojump_clock: MockClock) -> None:
    """A retry that waits for a dialog answered too long ago ends after the dialog's time instead of never."""
    async with open_checked_service(scripted()) as service:
        session_id = await new_session(service)
        command = c.OpenDialog(session_id=session_id, kind="input", title="Name?", timeout_ms=5_000)
        with trio.move_on_after(1):
            await service.execute(command, idempotency_key="k")
        (dialog,) = (await service.load_session(session_id)).dialogs
        await service.answer_dialog(session_id, dialog.request_id, "Ann")
        for _ in range(limits.MAX_FINISHED_REQUESTS):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(service.open_dialog, session_id, "input", "Another?")
                await service.answer_dialog(session_id, (await opened(service, session_id)).request_id, "x")
        assert service._core.sessions[session_id].find_resolved(dialog.request_id) is None

        began = trio.current_time()
        with trio.fail_after(60):
            reply = await service.execute(command, idempotency_key="k")

        assert 5.0 == pytest.approx(trio.current_time() - began)
        assert (dialog.request_id, False, None) == (reply.request_id, reply.answered, reply.value)


async def test_a_dialog_times_out_without_its_opener(autojump_clock: MockClock) -> None:
    """A dialog whose opener was cancelled is still closed when its time is up."""
    async with open_checked_service(scripted()) as service:
        session_id = await new_session(service)
        with trio.move_on_after(1):
            await service.open_dialog(session_id, "confirm", "Sure?", timeout_ms=5_000)
        assert 1 == len((await service.load_session(session_id)).dialogs)
        await trio.sleep(5)
        assert () == (await service.load_session(session_id)).dialogs
        (closed,) = of_type(service, session_id, ev.DialogClosed)
        assert "timed_out" == closed.answer.because


async def test_a_dialog_nobody_answers(autojump_clock: MockClock) -> None:
    """The opener of a dialog nobody answers is told so when its time is up."""
    async with open_checked_service(scripted()) as service:
        session_id = await new_session(service)
        began = trio.current_time()
        reply = await service.open_dialog(session_id, "confirm", "Sure?", timeout_ms=5_000)
        assert (False, None, None) == (reply.answered, reply.value, reply.by)
        assert 5.0 == pytest.approx(trio.current_time() - began)


async def test_dialogs_that_cannot_be() -> None:
    """A dialog without a title, choices or a sane time is refused, naming the field."""
    async with open_checked_service(scripted()) as service:
        session_id = await new_session(service)
        for field, command in {
            "title": c.OpenDialog(session_id=session_id, kind="confirm", title=" "),
            "choices": c.OpenDialog(session_id=session_id, kind="select", title="t"),
            "timeout_ms": c.OpenDialog(session_id=session_id, kind="confirm", title="t", timeout_ms=0),
        }.items():
            with pytest.raises(InvalidInput) as caught:
                await service.execute(command)
            assert field == caught.value.field
        assert [] == of_type(service, session_id, ev.DialogOpened)


async def test_requests_that_are_not_open() -> None:
    """Answering a request that never was is not found, for dialogs and approvals."""
    async with open_checked_service(scripted()) as service:
        session_id = await new_session(service)
        for attempt in (
            service.answer_dialog(session_id, RequestId("req_x")),
            service.answer_approval(session_id, RequestId("req_x"), "deny"),
        ):
            with pytest.raises(NotFound) as caught:
                await attempt
            assert "request_id" == caught.value.field


async def test_an_approval_nobody_answers_is_denied(autojump_clock: MockClock) -> None:
    """A tool call nobody allows in time does not run, and the model is told."""
    tool = ScriptedTool("write", effects=("write",))
    provider = ScriptedProvider(tool_call("write"), text("ok"))
    async with open_checked_service(scripted(provider, tools=(tool,), approval_timeout_ms=3_000)) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        began = trio.current_time()
        assert "completed" == (await service.wait_for_turn(session_id)).outcome.status
        assert 3.0 == pytest.approx(trio.current_time() - began)
        assert [] == tool.calls
        (resolved,) = of_type(service, session_id, ev.ApprovalResolved)
        assert ("deny", "timed_out") == (resolved.decision, resolved.because)


# --- wake-ups ---------------------------------------------------------------------------------------------------------


async def test_a_wakeup_fires_after_its_delay(autojump_clock: MockClock) -> None:
    """A wake-up starts a turn when it is due, not before, with a message that says what it is."""
    async with open_checked_service(scripted(text("awake"))) as service:
        session_id = await new_session(service)
        armed = await service.schedule_wakeup(session_id, 90_000, "look again")
        (wakeup,) = (await service.load_session(session_id)).wakeups
        assert (armed.wakeup_id, armed.due_at, "look again") == (wakeup.wakeup_id, wakeup.due_at, wakeup.text)
        await trio.sleep(89.9)
        assert [] == of_type(service, session_id, ev.WakeupFired)
        await trio.sleep(0.2)
        assert [("user", "[scheduled wake-up] look again"), ("assistant", "awake")] == await transcript(
            service, session_id
        )
        assert () == (await service.load_session(session_id)).wakeups


async def test_wakeups_fire_in_the_order_of_their_times(autojump_clock: MockClock) -> None:
    """Of several wake-ups the earliest fires first, also one that was armed while a later one was slept for."""
    async with open_checked_service(scripted(*[text("ok")] * 3)) as service:
        session_id = await new_session(service)
        late = await service.schedule_wakeup(session_id, 20_000, "late")
        await trio.sleep(1)
        early = await service.schedule_wakeup(session_id, 2_000, "early")
        middle = await service.schedule_wakeup(session_id, 5_000, "middle")
        await trio.sleep(2.1)
        fired = [event.wakeup_id for event in of_type(service, session_id, ev.WakeupFired)]
        assert [early.wakeup_id] == fired
        await trio.sleep(30)
        fired = [event.wakeup_id for event in of_type(service, session_id, ev.WakeupFired)]
        assert [early.wakeup_id, middle.wakeup_id, late.wakeup_id] == fired


async def test_cancelled_wakeups_and_deleted_sessions(autojump_clock: MockClock) -> None:
    """A cancelled wake-up does not fire, nobody cancels that of another session, and a deleted session stays gone."""
    async with open_checked_service(scripted()) as service:
        session_id, other, gone = [await new_session(service) for _ in range(3)]
        armed = await service.schedule_wakeup(session_id, 1_000, "x")
        await service.schedule_wakeup(gone, 1_000, "x")
        with pytest.raises(NotFound) as caught:
            await service.cancel_wakeup(other, armed.wakeup_id)
        assert "wakeup_id" == caught.value.field
        await service.cancel_wakeup(session_id, armed.wakeup_id)
        await service.delete_session(gone)
        await trio.sleep(10)
        assert [] == of_type(service, session_id, ev.WakeupFired)
        assert [] == of_type(service, gone, ev.WakeupFired)
        with pytest.raises(NotFound):
            await service.cancel_wakeup(session_id, WakeupId("wake_x"))


async def test_a_wakeup_during_a_turn_is_queued(autojump_clock: MockClock) -> None:
    """A wake-up that is due while a turn runs waits in the queue as a follow-up."""
    async with open_checked_service(scripted(Hang())) as service:
        session_id = await new_session(service)
        await service.schedule_wakeup(session_id, 1_000, "x")
        await service.send_user_message(session_id, "go")
        await trio.sleep(2)
        (item,) = (await service.load_session(session_id)).queue
        assert ("follow_up", None) == (item.deliver_as, item.client_id)
        assert 1 == len(of_type(service, session_id, ev.TurnStarted))


@pytest.mark.parametrize("delay_ms", [0, -1, limits.MAX_DELAY_MS + 1])
async def test_delays_that_cannot_be(delay_ms: int) -> None:
    """A wake-up in the past or in the far future is refused."""
    async with open_checked_service(scripted()) as service:
        session_id = await new_session(service)
        with pytest.raises(InvalidInput) as caught:
            await service.schedule_wakeup(session_id, delay_ms, "x")
        assert "delay_ms" == caught.value.field


async def test_a_wakeup_that_finds_the_queue_full_waits(autojump_clock: MockClock) -> None:
    """A wake-up is never dropped and never overfills the queue: it stays armed and is delivered when there is room."""
    provider = ScriptedProvider((Pause("p"), *text("a")), text("b"))
    async with open_checked_service(scripted(provider)) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        for _ in range(limits.MAX_QUEUE_ITEMS):
            await service.send_user_message(session_id, "x")
        armed = await service.schedule_wakeup(session_id, 1_000, "look")
        await trio.sleep(30)
        snapshot = await service.load_session(session_id)
        assert limits.MAX_QUEUE_ITEMS == len(snapshot.queue)
        assert [armed.wakeup_id] == [wakeup.wakeup_id for wakeup in snapshot.wakeups]
        assert [] == of_type(service, session_id, ev.WakeupFired)

        await service.take_queue(session_id)
        await trio.sleep(30)

        snapshot = await service.load_session(session_id)
        assert (1, ()) == (len(snapshot.queue), snapshot.wakeups)
        assert [ev.WakeupFired(wakeup_id=armed.wakeup_id)] == of_type(service, session_id, ev.WakeupFired)
        provider.release("p")
        await service.wait_for_turn(session_id)
        assert ("user", "[scheduled wake-up] look") in await transcript(service, session_id)


async def test_an_answer_as_the_time_is_up(autojump_clock: MockClock) -> None:
    """An answer that comes at the very moment the time is up is what the asker learns, if it was accepted."""
    async with open_checked_service(scripted()) as service:
        session_id = await new_session(service)
        for _ in range(40):  # trio throws a coin for which of the two comes first
            async with trio.open_nursery() as nursery:
                replies: list[tuple[bool, object]] = []

                async def ask(replies: list[tuple[bool, object]] = replies) -> None:
                    reply = await service.open_dialog(session_id, "input", "Name?", timeout_ms=10)
                    replies.append((reply.answered, reply.value))

                nursery.start_soon(ask)
                await wait_all_tasks_blocked()
                (dialog,) = (await service.load_session(session_id)).dialogs
                await trio.sleep_until(trio.current_time() + 0.01)
                answer = await service.answer_dialog(session_id, dialog.request_id, "me")
            assert [(answer.accepted, answer.value)] == replies


async def test_the_turn_that_waits_for_an_answer() -> None:
    """A dialog says which turn waits for its answer, if that is the one that runs."""
    provider = ScriptedProvider((Pause("now"), *text("Done.")))
    async with open_checked_service(scripted(provider)) as service, trio.open_nursery() as nursery:
        session_id = await new_session(service)
        turn_id = (await service.send_user_message(session_id, "go")).turn_id
        await provider.wait_for_pause("now")
        said = list[TurnId | None]()
        for claimed in (turn_id, TurnId("turn_of_nobody"), None):
            ask = c.OpenDialog(session_id=session_id, kind="confirm", title="Sure?", turn_id=claimed)
            nursery.start_soon(service.execute, ask)
            dialog = await opened(service, session_id)
            said.append(dialog.turn_id)
            await service.answer_dialog(session_id, dialog.request_id)
        provider.release("now")
    assert [turn_id, None, None] == said
