"""A stop and the helpers of a turn: they end with it, and their own stop does not end it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from session_core.service.service import SessionService
from session_core.testing.cancel_sweep import SweepRun, at_step, cancel_sweep
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import Hang, Pause, ScriptedTool, text, tool_call
from session_core.vocabulary import events as ev
from session_core.vocabulary.commands import RequestStop
from session_core.vocabulary.messages import ToolResultPart
from session_core.vocabulary.sessions import StopScope
from tests.session_core.service._family import Scripts, by_name, hand_over, helped
from tests.session_core.service._helpers import actor_held, new_session, of_type, stop_in_this_step

TREE: Scripts = {
    "go": [hand_over("a", "b"), text("went on")],
    "a": [hand_over("c"), text("a went on")],
    "b": [Hang()],
    "c": [(*text("as far as")[:1], Hang())],
}


@asynccontextmanager
async def open_tree() -> AsyncGenerator[SessionService]:
    """A session whose turn waits for two helpers, one of which waits for a third, and a stranger below it."""
    async with open_checked_service(helped({**TREE, "stranger": [Hang()]})) as service:
        parent = await new_session(service, name="go")
        await new_session(service, name="stranger", parent_id=parent)
        await service.send_user_message(by_name(service)["stranger"], "stranger")
        await service.send_user_message(parent, "go")
        await wait_all_tasks_blocked()
        assert 5 == service.statistics().running
        yield service


async def activities(service: SessionService) -> dict[str, str]:
    return {each.name: each.activity.name for each in (await service.list_sessions()).sessions}


@pytest.mark.parametrize("scope", ["turn", "subtree", "session"])
async def test_a_stop_of_any_scope_ends_the_helpers(scope: StopScope) -> None:
    """Stopping a turn stops all that work for it in the same step; other children only if they are meant."""
    async with open_tree() as service:
        ids = by_name(service)
        command = RequestStop(session_id=ids["go"], scope=scope)
        stopped = stop_in_this_step(service, command)
        asked = {name for name, session_id in ids.items() if of_type(service, session_id, ev.StopRequested)}
        meant = {"go", "a", "b", "c"} | ({"stranger"} if scope != "turn" else set())
        assert meant == asked, "nothing was awaited yet"

        await stopped.wait()
        await wait_all_tasks_blocked()
        assert dict.fromkeys(meant, "stopped") == {
            name: activity for name, activity in (await activities(service)).items() if name in meant
        }
        assert "nothing_running" == (await service.request_stop(ids["go"], scope=scope)).result


async def test_the_outcome_names_what_ended_and_what_did_not() -> None:
    """The outcome of a stop of one turn lists its helpers' turns and calls as ended, and the other child as alive."""
    async with open_tree() as service:
        ids = by_name(service)
        outcome = await service.request_stop(ids["go"])
        assert "stopped" == outcome.result
        ended = {each.session_id for each in outcome.ended if each.kind == "turn"}
        assert {ids[name] for name in ("go", "a", "b", "c")} == ended
        assert [(ids["stranger"], "turn")] == [(each.session_id, each.kind) for each in outcome.survived]


async def test_a_stop_of_a_helper_leaves_its_parent_running() -> None:
    """Stopping a helper ends it and its own helpers; whoever waits for it gets a truthful error result and goes on."""
    async with open_tree() as service:
        ids = by_name(service)
        await service.request_stop(ids["a"])
        await wait_all_tasks_blocked()
        now = await activities(service)
        assert ("stopped", "stopped", "running_tools") == (now["a"], now["c"], now["go"])
        await service.request_stop(ids["b"])
        assert "went on" == (await service.wait_for_turn(ids["go"])).outcome.final_text
        parts = [part for each in (await service.load_session(ids["go"])).messages for part in each.parts]
        told = [(part.status, part.text) for part in parts if isinstance(part, ToolResultPart)]
        assert [("error", "The subagent did not finish: stopped.")] * 2 == told


async def test_what_was_sent_to_a_helper_before_the_stop_starts_nothing() -> None:
    """A message to a helper in the mailbox when the parent's turn is stopped does not start the helper again."""
    async with open_tree() as service:
        ids = by_name(service)
        async with trio.open_nursery() as nursery:
            with actor_held(service):
                nursery.start_soon(service.send_user_message, ids["b"], "and another thing")
                await wait_all_tasks_blocked()
                outcome = await service.request_stop(ids["go"])
        await wait_all_tasks_blocked()
        assert 1 == outcome.withheld
        assert "stopped" == (await activities(service))["b"]
        assert 1 == len((await service.load_session(ids["b"])).queue)


async def test_a_helper_that_does_not_let_go_is_told(autojump_clock: trio.abc.Clock) -> None:
    """A helper whose tool ignores the stop is reported as still stopping, and so is the turn that waits for it."""
    release = trio.Event()

    async def stubborn(*_: object) -> str:
        with trio.CancelScope(shield=True):
            await release.wait()
        return "at last"

    scripts: Scripts = {"go": [hand_over("a")], "a": [tool_call("stubborn")]}
    config = helped(scripts, tools=(ScriptedTool("stubborn", run=stubborn),), stop_patience_ms=1_000)
    async with open_checked_service(config) as service:
        parent = await new_session(service, name="go")
        await service.send_user_message(parent, "go")
        await wait_all_tasks_blocked()
        outcome = await service.request_stop(parent)
        assert "still_stopping" == outcome.result
        assert by_name(service)["a"] in {each.session_id for each in outcome.survived}
        release.set()
        await service.wait_for_turn(parent)
        await wait_all_tasks_blocked()
        assert {"go": "stopped", "a": "stopped"} == await activities(service)


async def test_a_stop_at_any_step_leaves_nothing_running() -> None:
    """Whenever the parent is stopped while its helpers begin, work and end: all come to rest, each call answered."""
    for step in range(1, 200):
        scripts: Scripts = {
            "go": [hand_over("a"), text("ok")],
            "a": [hand_over("b"), text("fine")],
            "b": [text("deep")],
        }
        async with open_checked_service(helped(scripts)) as service:
            parent = await new_session(service, name="go")

            def cut() -> None:
                stop_in_this_step(service, RequestStop(session_id=parent))  # noqa: B023

            with at_step(is_work, step, cut) as counter:
                await service.send_user_message(parent, "go")
                await wait_all_tasks_blocked()
            assert 0 == service.statistics().running
            for session in service.core.sessions.values():
                assert session.state.tools == ()
                assert session.state.activity.name in {"idle", "stopped"}
            if counter.steps < step:
                assert "completed" == (await service.wait_for_turn(parent)).outcome.status
                return
    raise AssertionError("the sweep did not come to its end")


def is_work(task: trio.lowlevel.Task) -> bool:
    return task.name.startswith("turn ") or task.name.endswith("_run_one")


@pytest.mark.slow
async def test_leaving_the_wait_for_a_stop_stops_all_the_same() -> None:
    """Cancelling whoever asked for a stop, at any step, leaves neither the turn nor a helper running."""

    async def operation(service: SessionService) -> None:
        await service.request_stop(by_name(service)["go"], scope="session")

    async def check(service: SessionService, run: SweepRun) -> None:
        await wait_all_tasks_blocked()
        stopped = set((await activities(service)).values()) == {"stopped"}
        assert stopped or (run.cancelled and run.step == 1)

    await cancel_sweep(open_tree, operation, check)


async def test_a_pause_is_no_end() -> None:
    """A helper that goes on after its sibling was stopped finishes with its own answer."""
    scripts: Scripts = {"go": [hand_over("a", "b"), text("ok")], "a": [(Pause("here"), *text("mine"))], "b": [Hang()]}
    config = helped(scripts)
    async with open_checked_service(config) as service:
        parent = await new_session(service, name="go")
        await service.send_user_message(parent, "go")
        provider = config.models["m"]
        await provider.wait_for_pause("here")  # type: ignore[attr-defined]
        await wait_all_tasks_blocked()
        await service.request_stop(by_name(service)["b"])
        provider.release("here")  # type: ignore[attr-defined]
        assert "completed" == (await service.wait_for_turn(parent)).outcome.status
        assert "mine" == (await service.load_session(by_name(service)["a"])).transcript[-1].text
