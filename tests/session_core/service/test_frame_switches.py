"""Frames in a running service: what a switch records, what the model sees afterwards, and what survives."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from session_core import limits
from session_core.ids import SessionId
from session_core.protocols.driver import Actions, DriverView, SwitchFrame
from session_core.protocols.frames import INITIAL, first_frame, frame_id
from session_core.service.service import SessionService, open_session_service
from session_core.storage.sqlite import SqliteStore
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import Pause, ScriptedProvider, text
from session_core.vocabulary import events as ev
from session_core.vocabulary.protocols import ExecutorState, Frame
from tests.session_core.service._helpers import new_session, of_type, say, scripted, transcript
from tests.session_core.service._protocols import CellDriver, ToyExecutor, Watched, texts


class Switching(CellDriver):
    """Has code run, and goes to another frame when an answer says `to KEY: TASK`."""

    def on_answer(self, view: DriverView) -> Actions:
        said = view.answer.text if view.answer is not None else ""
        if said.startswith("to "):
            key, _, task = said.removeprefix("to ").partition(": ")
            return (SwitchFrame(key=key, task=task),)
        return super().on_answer(view)


def switching(*answers: str, **more: Any) -> tuple[ScriptedProvider, Watched]:
    """A model that gives these answers, and a protocol that follows them."""
    return ScriptedProvider(*map(text, answers)), Watched(driver=Switching(), **more)


def seen(provider: ScriptedProvider) -> list[tuple[str, ...]]:
    """What the model was shown in each call."""
    return [texts(request.messages) for request in provider.requests]


async def frames_of(service: SessionService, session_id: SessionId) -> tuple[list[str], str]:
    """The keys of all frames that are noted, and of the present one."""
    snapshot = await service.load_session(session_id)
    there = next(frame.key for frame in snapshot.frames if frame.frame_id == snapshot.frame_id)
    return [frame.key for frame in snapshot.frames], there


async def test_a_new_frame() -> None:
    """A new frame is one event with the task in it and where the old one was left; the model sees the task alone."""
    provider, factory = switching("to plan: make a plan", "planned")
    async with open_checked_service(scripted(provider, **factory.settings())) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id, "hello")
        assert (outcome.status, outcome.final_text) == ("completed", "planned")
        assert seen(provider) == [("hello",), ("make a plan",)]
        (opened,) = of_type(service, session_id, ev.FrameOpened)
        snapshot = await service.load_session(session_id)
        _, asked, task, _ = snapshot.transcript
        first = attrs.evolve(first_frame(session_id, snapshot.created_at), last_message_id=asked.message_id)
        plan = Frame(
            frame_id=frame_id(session_id, "plan"),
            key="plan",
            reason="switch",
            opened_at=opened.frame.opened_at,
            first_message_id=task.message_id,
        )
        assert opened == ev.FrameOpened(frame=plan, message=task, left=first)
        assert (task.role, task.parent_id, task.source) == ("summary", asked.message_id, "watched")
        assert (snapshot.frames, snapshot.frame_id) == ((first, plan), plan.frame_id)
        assert factory.calls[1:] == [
            ("initialize",),
            ("restore", ("hello",)),
            ("before_model_call", INITIAL),
            ("restore", ("make a plan",)),
            ("before_model_call", "plan"),
        ]


async def test_the_next_turn_stays_in_the_frame() -> None:
    """The next turn goes on in the frame where the last one ended."""
    provider, factory = switching("to plan: make a plan", "planned", "more")
    async with open_checked_service(scripted(provider, **factory.settings())) as service:
        session_id = await new_session(service)
        await say(service, session_id, "hello")
        await say(service, session_id, "and?")
        assert seen(provider)[2] == ("make a plan", "planned", "and?")
        assert factory.names().count("restore") == 2


async def test_back_to_a_frame() -> None:
    """The key of an earlier frame goes back to where that was left; the model sees what was said there."""
    provider, factory = switching("to plan: make a plan", "to initial: it is made", "to plan: go on", "end")
    async with open_checked_service(scripted(provider, **factory.settings())) as service:
        session_id = await new_session(service)
        assert (await say(service, session_id, "hello")).final_text == "end"
        first = ("hello", "to plan: make a plan", "it is made")
        assert seen(provider) == [
            ("hello",),
            ("make a plan",),
            first,
            ("make a plan", "to initial: it is made", "go on"),
        ]
        entered = of_type(service, session_id, ev.FrameEntered)
        assert [event.frame_id for event in entered] == [frame_id(session_id, key) for key in (INITIAL, "plan")]
        assert len(of_type(service, session_id, ev.FrameOpened)) == 1
        assert await frames_of(service, session_id) == ([INITIAL, "plan"], "plan")


async def test_staying() -> None:
    """The key of the present frame changes nothing and records nothing, and the executor keeps what it has."""
    executor = ToyExecutor()
    provider, factory = switching("run x", "to initial: again", "run y", "end", executor=executor)
    async with open_checked_service(scripted(provider, **factory.settings())) as service:
        session_id = await new_session(service)
        assert (await say(service, session_id)).status == "completed"
        assert (of_type(service, session_id, ev.FrameOpened), of_type(service, session_id, ev.FrameEntered)) == ([], [])
        assert (executor.cells, executor.restored) == (["x", "y"], [None])
        assert not any(
            "again" in said for _, said in await transcript(service, session_id) if not said.startswith("to ")
        )


async def test_the_executor_is_cleared() -> None:
    """Another frame begins with an empty executor: what was left behind in the old one is neither kept nor captured."""
    executor = ToyExecutor()
    answers = ("run x", "end", "run y", "to plan: new", "end", "run z", "end")
    provider, factory = switching(*answers, executor=executor)
    async with open_checked_service(scripted(provider, **factory.settings())) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        kept = (await service.load_session(session_id)).executor
        assert kept is not None
        assert (kept.engine, list(kept.root["cells"])) == ("toy", ["x"])  # type: ignore[arg-type]
        await say(service, session_id)
        assert (await service.load_session(session_id)).executor is None
        assert len(of_type(service, session_id, ev.ExecutorStateSaved)) == 1
        await say(service, session_id)
        assert (executor.cells, executor.restored) == (["z"], [None, None])
        state = (await service.load_session(session_id)).executor
        assert isinstance(state, ExecutorState)


def always(decide: Callable[[int], str]) -> dict[str, Any]:
    """A driver that switches before it asks, each time to the frame of that number."""

    class Restless(Switching):
        count = 0

        def on_start(self, view: DriverView) -> Actions:
            self.count += 1
            return (SwitchFrame(key=decide(self.count), task="again"),)

    return Watched(driver=Restless()).settings()


@pytest.mark.parametrize(
    ("decide", "opened"),
    [
        (str, limits.MAX_FRAME_SWITCHES),
        (lambda count: "ab"[count % 2], 2),
        (lambda _: INITIAL, 0),
    ],
    ids=["always new", "to and fro", "staying"],
)
async def test_round_in_circles(decide: Callable[[int], str], opened: int) -> None:
    """A turn that switches too often fails and says so; what it did stays, and the session is at rest."""
    provider = ScriptedProvider()
    async with open_checked_service(scripted(provider, **always(decide))) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id)
        reason = f"it has switched {limits.MAX_FRAME_SWITCHES} times in one turn"
        assert (outcome.status, outcome.error) == ("failed", f"the protocol watched failed in driver: {reason}")
        assert (len(of_type(service, session_id, ev.FrameOpened)), provider.requests) == (opened, [])
        assert (await service.load_session(session_id)).activity.is_at_rest


async def test_a_key_that_is_none() -> None:
    """A key that is too long fails the turn."""
    provider, factory = switching(f"to {'k' * (limits.MAX_NAME_CHARS + 1)}: x", "fine")
    async with open_checked_service(scripted(provider, **factory.settings())) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id)
        assert (
            outcome.error == "the protocol watched failed in driver: the key of a frame must have 1 to 200 characters"
        )
        assert (await say(service, session_id)).status == "completed"


async def test_messages_wait_for_the_frames() -> None:
    """A message that waits is read when the frames have come to their end, in the last of them."""
    provider = ScriptedProvider((Pause("here"), *text("to plan: make a plan")), text("planned"), text("answered"))
    async with open_checked_service(scripted(provider, **Watched(driver=Switching()).settings())) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "hello")
        await provider.wait_for_pause("here")
        await service.send_user_message(session_id, "wait")
        provider.release("here")
        await service.wait_for_turn(session_id)
        assert seen(provider)[1:] == [("make a plan",), ("make a plan", "planned", "wait")]


async def test_frames_survive_a_restart(tmp_path: Path) -> None:
    """After a restart a session is in the frame that it was in, its model sees that frame, and can go back."""
    provider, factory = switching("to plan: make a plan", "planned")
    async with open_session_service(scripted(provider, **factory.settings(), store=SqliteStore(tmp_path))) as service:
        session_id = await new_session(service)
        await say(service, session_id, "hello")
        before = await service.load_session(session_id)
    provider, factory = switching("to initial: done", "end")
    async with open_session_service(scripted(provider, **factory.settings(), store=SqliteStore(tmp_path))) as service:
        after = await service.load_session(session_id)
        assert (after.frames, after.frame_id, after.head) == (before.frames, before.frame_id, before.head)
        await say(service, session_id, "and?")
        assert seen(provider) == [("make a plan", "planned", "and?"), ("hello", "to plan: make a plan", "done")]


async def test_a_crash_between_two_frames(tmp_path: Path) -> None:
    """A crash after a switch finds the frame with its task, and the same step taken again leads to the same frame."""
    provider = ScriptedProvider(text("to plan: make a plan"), (Pause("here"), *text("planned")))
    store = SqliteStore(tmp_path / "home")
    config = scripted(provider, **Watched(driver=Switching()).settings(), store=store)
    async with open_session_service(config) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "hello")
        await provider.wait_for_pause("here")
        await service._core.sessions[session_id].wait_until_durable()
        shutil.copytree(tmp_path / "home", tmp_path / "copy")
        opened = (await service.load_session(session_id)).frames
        provider.release("here")
        await service.wait_for_turn(session_id)
    provider, factory = switching("to plan: make a plan", "planned")
    store = SqliteStore(tmp_path / "copy")
    async with open_session_service(scripted(provider, **factory.settings(), store=store)) as service:
        snapshot = await service.load_session(session_id)
        assert snapshot.last_outcome is not None
        assert (snapshot.last_outcome.status, snapshot.frames) == ("interrupted", opened)
        await say(service, session_id, "again")
        assert seen(provider)[0] == ("make a plan", "again")
        assert (await service.load_session(session_id)).frames == opened


async def test_people_who_go_elsewhere() -> None:
    """Who edits, switches branches or clears the context is in the frame that belongs to the place."""
    executor = ToyExecutor()
    answers = ("run x", "to plan: make a plan", "run y", "planned", "other", "to plan: go on", "end", "new")
    provider, factory = switching(*answers, executor=executor)
    async with open_checked_service(scripted(provider, **factory.settings())) as service:
        session_id = await new_session(service)
        await say(service, session_id, "hello")
        messages = (await service.load_session(session_id)).transcript
        planned = (await service.load_session(session_id)).head
        await service.edit_message(session_id, messages[0].message_id, "hi")
        await service.wait_for_turn(session_id)
        snapshot = await service.load_session(session_id)
        assert await frames_of(service, session_id) == ([INITIAL, "plan"], INITIAL)
        assert [frame.last_message_id for frame in snapshot.frames][1] == planned
        assert (snapshot.executor, seen(provider)[-1]) == (None, ("hi",))
        await say(service, session_id, "and?")
        assert await frames_of(service, session_id) == ([INITIAL, "plan"], "plan")
        assert seen(provider)[-1][-2:] == ("planned", "go on")
        await service.switch_branch(session_id, messages[0].message_id)
        assert await frames_of(service, session_id) == ([INITIAL, "plan"], "plan")
        await service.clear_context(session_id)
        assert await frames_of(service, session_id) == ([INITIAL, "plan"], INITIAL)
        await say(service, session_id, "anew")
        assert (seen(provider)[-1], factory.calls[-1]) == (("anew",), ("before_model_call", INITIAL))
        assert not service._core.protocols._live[session_id].executor_current
