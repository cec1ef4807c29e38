"""The child sessions that a protocol runs itself, and the session as it sees it before a model call."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from session_core import limits
from session_core.ids import SessionId
from session_core.protocols.contexts import BeforeCallContext, ChildAnswer, ChildFailed, FinishNow
from session_core.providers.base import ModelRequest
from session_core.service.config import ServiceConfig
from session_core.service.service import SessionService
from session_core.storage.sqlite import SqliteStore
from session_core.testing.cancel_sweep import SweepRun, cancel_sweep
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import Pause, ScriptedProvider, failure, text, tool_call
from session_core.vocabulary import events as ev
from session_core.vocabulary.messages import LiveTool, Usage
from session_core.vocabulary.snapshots import SessionSnapshot
from tests.session_core.service._helpers import new_session, of_type, say, scripted, transcript
from tests.session_core.service._killed import DeadlyTool, run_until_killed
from tests.session_core.service._protocols import WaitingTurn, Watched, serving, texts, waiting_turn


def in_roots(decide: Callable[[BeforeCallContext, ModelRequest], Any]) -> dict[str, Any]:
    """Settings of a service whose protocol does this before each model call of a root session."""

    async def only_in_roots(context: BeforeCallContext, request: ModelRequest) -> Any:
        return await decide(context, request) if context.is_root else None

    return Watched(before_model_call=only_in_roots).settings()


async def children_of(service: SessionService, parent: SessionId) -> list[SessionSnapshot]:
    listed = (await service.list_sessions()).sessions
    return [await service.load_session(each.session_id) for each in listed if each.parent_id == parent]


async def test_the_session_as_it_is() -> None:
    """A protocol reads the whole session: as it is at that moment, and later as it is then."""
    seen: list[SessionSnapshot] = []
    said: list[tuple[str, ...]] = []

    async def look(context: BeforeCallContext, _: ModelRequest) -> None:
        seen.append(context.view)
        said.append(texts(await context.conversation()))

    async with open_checked_service(scripted(text("a"), text("b"), **in_roots(look))) as service:
        session_id = await new_session(service)
        await say(service, session_id, "one")
        await service.rename_session(session_id, "renamed")
        await say(service, session_id, "two")
        assert said == [("one",), ("one", "a", "two")]
        assert [texts(view.transcript) for view in seen] == said
        assert [(view.session_id, view.name) for view in seen] == [
            (session_id, "new session"),
            (session_id, "renamed"),
        ]
        assert [view.turn is not None for view in seen] == [True, True]


async def test_a_child_answers() -> None:
    """A protocol gets the answer of a child session, which is live meanwhile, counts, and joins no conversation."""
    live: list[LiveTool] = []
    answers: list[ChildAnswer] = []

    async def delegate(context: BeforeCallContext, _: ModelRequest) -> FinishNow:
        async def watch() -> None:
            await provider.wait_for_pause("child")
            live.extend(context.view.tools)
            provider.release("child")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            answers.append(await context.run_child("look", "How many?", read_only=True))
        return FinishNow(text=f"The child says: {answers[0].text}")

    used = Usage(input_tokens=7)
    provider = ScriptedProvider((Pause("child"), *text("Four.", usage=used)))
    async with open_checked_service(scripted(provider, **in_roots(delegate))) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id)
        assert (outcome.final_text, outcome.usage) == ("The child says: Four.", used)
        (child,) = await children_of(service, session_id)
        assert answers == [ChildAnswer(session_id=child.session_id, text="Four.")]
        assert (child.settings.permission_mode, texts(child.transcript)) == ("read_only", ("How many?", "Four."))
        assert [(each.name, each.child_id, each.result) for each in live] == [("task", child.session_id, None)]
        assert dict(live[0].arguments) == {"title": "look", "read_only": True}
        assert (await service.load_session(session_id)).tools == ()
        assert await transcript(service, session_id) == [
            ("user", "hello"),
            ("assistant", "The child says: Four."),
        ]
        (ended,) = of_type(service, session_id, ev.ToolCallFinished)
        assert (ended.apart, ended.result.status, ended.result.text) == (True, "success", "Four.")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("t", "p"), "The subagent did not finish: failed"),
        ((" ", "p"), "title must"),
        (("t", ""), "prompt"),
        (("\ud800", "p"), "title contains an unpaired surrogate"),
        ((3, "p"), "both of them text"),
        (("t", "p", "nobody"), "There is no model called 'nobody'"),
    ],
)
async def test_a_child_without_an_answer(arguments: tuple[Any, ...], reason: str) -> None:
    """A child that fails, or cannot be started, is an error that says why; the turn goes on, and nothing is left."""
    raised: list[str] = []

    async def delegate(context: BeforeCallContext, _: ModelRequest) -> None:
        title, prompt, *model = arguments
        with pytest.raises(ChildFailed) as caught:
            await context.run_child(title, prompt, model=model[0] if model else None)
        raised.append(str(caught.value))

    answers = [failure("refused"), text("done")] if arguments == ("t", "p") else [text("done")]
    async with open_checked_service(scripted(*answers, **in_roots(delegate))) as service:
        session_id = await new_session(service)
        assert (await say(service, session_id)).final_text == "done"
        assert reason in raised[0]
        assert (await service.load_session(session_id)).tools == ()


async def test_too_many_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn runs a bounded number of children; the next turn may again."""
    monkeypatch.setattr(limits, "MAX_PROTOCOL_CHILDREN", 1)

    async def delegate(context: BeforeCallContext, _: ModelRequest) -> FinishNow:
        first = await context.run_child("t", "p")
        with pytest.raises(ChildFailed, match="at most 1 child sessions in one turn"):
            await context.run_child("t", "p")
        return FinishNow(text=first.text)

    async with open_checked_service(scripted(text("a"), text("b"), **in_roots(delegate))) as service:
        session_id = await new_session(service)
        assert [(await say(service, session_id)).final_text for _ in range(2)] == ["a", "b"]


async def test_the_time_of_a_child(autojump_clock: trio.testing.MockClock) -> None:
    """A child may work longer than a callback may take; the callback's own time is limited as before."""
    answers: list[str] = []

    async def delegate(context: BeforeCallContext, _: ModelRequest) -> None:
        await trio.sleep(200)
        async with trio.open_nursery() as nursery:
            for _number in range(2):
                nursery.start_soon(context.run_child, "t", "p")
        answers.append("both")
        await trio.sleep(200)

    provider = ScriptedProvider((Pause("a"), *text("a")), (Pause("b"), *text("b")))

    async def release() -> None:
        for name in ("a", "b"):
            await provider.wait_for_pause(name)
            await trio.sleep(1_000)
            provider.release(name)

    async with (
        open_checked_service(scripted(provider, **in_roots(delegate))) as service,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(release)
        outcome = await say(service, await new_session(service))
        assert answers == ["both"]
        assert (outcome.status, outcome.error) == (
            "failed",
            "the protocol watched failed in before_model_call: it took longer than 300 s",
        )


async def test_a_stop_ends_the_child() -> None:
    """A stop of the turn stops the child with it; both have ended when it returns."""

    async def delegate(context: BeforeCallContext, _: ModelRequest) -> None:
        await context.run_child("t", "p")

    provider = ScriptedProvider((Pause("child"), *text("never")))
    async with open_checked_service(scripted(provider, **in_roots(delegate))) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        await provider.wait_for_pause("child")
        await service.request_stop(session_id)
        parent, (child,) = await service.load_session(session_id), await children_of(service, session_id)
        assert [(each.activity.name, each.tools) for each in (parent, child)] == [("stopped", ())] * 2


async def test_cancelled_anywhere() -> None:
    """Wherever a child is cancelled, it has ended or never began, nothing is left of it, and the turn goes on."""

    async def run(world: WaitingTurn) -> None:
        assert (await world.context.run_child("t", "p")).text == "ok"

    async def check(world: WaitingTurn, _: SweepRun) -> None:
        assert (await world.service.load_session(world.session_id)).tools == ()
        for child in await children_of(world.service, world.session_id):
            assert (child.turn, child.activity.is_at_rest) == (None, True)
        world.done.set()
        assert (await world.service.wait_for_turn(world.session_id)).outcome.status == "completed"

    await cancel_sweep(lambda: waiting_turn(Watched()), run, check)


def delegate_and_die(store: SqliteStore) -> tuple[ServiceConfig, Any]:
    """End the process in a tool call of the child."""

    async def delegate(context: BeforeCallContext, _: ModelRequest) -> None:
        await context.run_child("t", "p")

    config = scripted(tool_call("t"), tools=(DeadlyTool("t"),), store=store, **in_roots(delegate))
    return config, lambda service, session_id: service.send_user_message(session_id, "go")


async def test_a_kill_while_it_works(tmp_path: Path) -> None:
    """After a kill -9 the turn and its child are interrupted, nothing is left open, and the session goes on."""
    session_id = await run_until_killed(delegate_and_die, tmp_path)
    async with serving(SqliteStore(tmp_path), Watched()) as service:
        parent, (child,) = await service.load_session(session_id), await children_of(service, session_id)
        assert [(each.activity.name, each.tools) for each in (parent, child)] == [("interrupted", ())] * 2
        assert (await say(service, session_id)).status == "completed"
