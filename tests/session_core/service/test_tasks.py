"""Helpers: child sessions that a turn starts, waits for, answers for and pays for."""

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from session_core import limits
from session_core.ids import SessionId
from session_core.providers.base import ModelFinished
from session_core.service.service import SessionService, open_session_service
from session_core.storage.sqlite import SqliteStore
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import Hang, Pause, ScriptedTool, failure, text, tool_call
from session_core.vocabulary import events as ev
from session_core.vocabulary.commands import RequestStop
from session_core.vocabulary.messages import ToolResultPart, Usage
from session_core.vocabulary.sessions import PermissionMode, SandboxPolicy, TurnLimits, UsageLine
from tests.session_core.service._family import PromptedProvider, Scripts, by_name, hand_over, helped
from tests.session_core.service._helpers import new_session, of_type, say, stop_in_this_step, trace, until


async def results(service: SessionService, session_id: SessionId) -> list[ToolResultPart]:
    """The results of all tool calls in a conversation."""
    transcript = (await service.load_session(session_id)).transcript
    return [part for message in transcript for part in message.parts if isinstance(part, ToolResultPart)]


async def test_a_helper_is_a_session_of_its_own() -> None:
    """A task runs as a child session with the parent's settings, and its last answer is the result."""
    config = helped({"go": [hand_over("look"), text("thanks")], "look": [text("found it")]})
    async with open_checked_service(config) as service:
        parent = await new_session(service, name="parent")
        assert "thanks" == (await say(service, parent, "go")).final_text
        child = by_name(service)["look"]
        (result,) = await results(service, parent)
        assert ("success", "found it") == (result.status, result.text)
        assert {"session_id": child, "status": "completed", "steps": 1} == dict(result.details or {})
        state = await service.load_session(child)
        assert (parent, "idle", "m", "full") == (
            state.parent_id,
            state.activity.name,
            state.settings.model,
            state.settings.permission_mode,
        )
        (started,) = of_type(service, parent, ev.TaskStarted)
        assert child == started.child_id
        assert [] == of_type(service, child, ev.TaskStarted)


async def test_eight_helpers_work_at_once() -> None:
    """Eight tasks of one answer run side by side, and their results come in the order of the calls."""
    names = [f"part {number}" for number in range(8)]
    scripts: Scripts = {
        "go": [hand_over(*names), text("all done")],
        **{name: [(Pause(name), *text(name))] for name in names},
    }
    config = helped(scripts)
    provider = config.models["m"]
    assert isinstance(provider, PromptedProvider)
    async with open_checked_service(config) as service:
        parent = await new_session(service)
        await service.send_user_message(parent, "go")
        for name in names:
            await provider.wait_for_pause(name)
        assert 9 == service.statistics().running
        for name in reversed(names):
            provider.release(name)
            await wait_all_tasks_blocked()
        assert "all done" == (await service.wait_for_turn(parent)).outcome.final_text
        assert names == [result.text for result in await results(service, parent)]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (failure("auth", "no key"), "The subagent did not finish: failed (auth: no key)."),
        ((*text("half an ")[:1], *failure("auth", "no key")), "Before that it said:\nhalf an"),
    ],
)
async def test_a_helper_that_fails_is_told_of(answer: tuple[object, ...], told: str) -> None:
    """The failure of a helper is an error result with the reason and what it had said; the parent goes on."""
    config = helped({"go": [hand_over("look"), text("a pity")], "look": [answer]})  # type: ignore[list-item]
    async with open_checked_service(config) as service:
        parent = await new_session(service)
        assert "completed" == (await say(service, parent, "go")).status
        (result,) = await results(service, parent)
        assert "error" == result.status
        assert told in result.text


async def test_depth_is_limited() -> None:
    """A helper of a helper gets an error when it tries to start one itself, and no session is made."""
    assert 2 == limits.MAX_TASK_DEPTH
    scripts: Scripts = {
        "go": [hand_over("a"), text("1")],
        "a": [hand_over("b"), text("2")],
        "b": [hand_over("c"), text("3")],
    }
    async with open_checked_service(helped(scripts)) as service:
        parent = await new_session(service, name="parent")
        await say(service, parent, "go")
        assert {"parent", "a", "b"} == set(by_name(service))
        (result,) = await results(service, by_name(service)["b"])
        assert ("error", True) == (result.status, "may not start further ones" in result.text)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"title": "t", "prompt": "p", "model": "gone"}, "no model called 'gone'"),
        ({"title": "bell \a", "prompt": "p"}, "title must be one line"),
    ],
)
async def test_a_task_that_cannot_be_given_makes_no_session(arguments: dict[str, object], told: str) -> None:
    """A wrong model or a title that is no name gives an error result, and nothing starts."""
    async with open_checked_service(helped({"go": [tool_call("task", arguments), text("ok")]})) as service:
        parent = await new_session(service)
        await say(service, parent, "go")
        (result,) = await results(service, parent)
        assert ("error", True) == (result.status, told in result.text)
        assert 1 == service.statistics().sessions


async def test_a_read_only_helper_cannot_write() -> None:
    """A helper that must change nothing, and its own helpers, are not offered tools that change something."""
    write = ScriptedTool("write", effects=("write",))
    scripts: Scripts = {
        "go": [hand_over("look", read_only=True), text("ok")],
        "look": [tool_call("write"), hand_over("deeper"), text("could not")],
        "deeper": [tool_call("write"), text("neither")],
    }
    config = helped(scripts, tools=(write,))
    async with open_checked_service(config) as service:
        parent = await new_session(service)
        await say(service, parent, "go")
        assert [] == write.calls
        for name in ("look", "deeper"):
            refused = (await results(service, by_name(service)[name]))[0]
            assert ("error", True) == (refused.status, "no tool called 'write'" in refused.text)
        provider = config.models["m"]
        assert isinstance(provider, PromptedProvider)
        offered = {
            prompt: {tool.name for tool in request.tools}
            for prompt, request in zip(provider.asked, provider.requests, strict=True)
        }
        assert {"go": {"task", "write"}, "look": {"task"}, "deeper": {"task"}} == offered


async def test_usage_of_helpers_is_counted_once_in_each_session_above() -> None:
    """What a helper and its helper used appears in their sessions as turns, and above as one task each."""
    use = Usage(input_tokens=10, output_tokens=1, cost_micros=5)
    scripts: Scripts = {
        "go": [(*hand_over("a")[:-1], ModelFinished(usage=use)), text("1", usage=use)],
        "a": [(*hand_over("b")[:-1], ModelFinished(usage=use)), text("2", usage=use)],
        "b": [text("3", usage=use)],
    }
    async with open_checked_service(helped(scripts)) as service:
        parent = await new_session(service, name="go")
        outcome = await say(service, parent, "go")
        states = {name: await service.load_session(session_id) for name, session_id in by_name(service).items()}
        three = use.plus(use).plus(use)
        assert [use, three, three.plus(use).plus(use)] == [states[name].usage for name in ("b", "a", "go")]
        assert three.plus(use).plus(use) == outcome.usage
        tasks = [line for line in states["go"].usage_by if line.source == "task"]
        assert [UsageLine(model="m", source="task", calls=1, usage=three)] == tasks
        assert use.tokens == states["go"].context_tokens, "what helpers read is not in the parent's context"


async def test_a_helper_may_use_what_is_left() -> None:
    """A helper has its parent's limits, and is held to what the turn that waits for it has left of them."""
    use = Usage(input_tokens=60, output_tokens=10, cost_micros=30)
    first = (*hand_over("look")[:-1], *text(usage=use))
    scripts: Scripts = {"go": [first, text("ok")], "look": [*[(*tool_call("t")[:-1], *text(usage=use))] * 9]}
    bounds = TurnLimits(tokens=100, cost_micros=40, steps=7)
    async with open_checked_service(helped(scripts, tools=(ScriptedTool("t"),))) as service:
        parent = await new_session(service, limits=bounds)
        await say(service, parent, "go")
        child = await service.load_session(by_name(service)["look"])
        assert bounds == child.settings.limits
        assert child.last_outcome is not None
        assert ("limit_reached", 1) == (child.last_outcome.status, child.last_outcome.steps)
        assert "stopped after 140 tokens; the limit is 100" == child.last_outcome.error


async def test_messages_to_a_helper_reach_it() -> None:
    """A person may steer a helper by its own session; the parent gets the answer that came of it."""
    scripts: Scripts = {"go": [hand_over("look"), text("ok")], "look": [(Pause("here"), *text("one")), text("two")]}
    config = helped(scripts)
    provider = config.models["m"]
    assert isinstance(provider, PromptedProvider)
    async with open_checked_service(config) as service:
        parent = await new_session(service)
        await service.send_user_message(parent, "go")
        await provider.wait_for_pause("here")
        await service.send_user_message(by_name(service)["look"], "and also there")
        provider.release("here")
        await service.wait_for_turn(parent)
        assert ["two"] == [result.text for result in await results(service, parent)]


# --- approvals --------------------------------------------------------------------------------------------------------


def asking_scripts() -> Scripts:
    return {
        "go": [hand_over("a"), text("1")],
        "a": [hand_over("b"), text("2")],
        "b": [tool_call("write"), tool_call("write"), text("3")],
    }


async def test_a_helper_asks_where_people_watch() -> None:
    """A helper's helper asks in the topmost session and is named there; the first answer wins, and counts for both."""
    write = ScriptedTool("write", effects=("write",))
    config = helped(asking_scripts(), tools=(write,), permission_mode="ask_writes")
    async with open_checked_service(config) as service:
        parent = await new_session(service, name="go")
        await service.send_user_message(parent, "go")
        await wait_all_tasks_blocked()
        lowest = by_name(service)["b"]
        # A dialog of the helper's own must not be mixed up with the approval in the list of sessions.
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: service.open_dialog(lowest, "confirm", "sure?"))
            await wait_all_tasks_blocked()
            (approval,) = (await service.load_session(parent)).approvals
            assert (lowest, "write") == (approval.session_id, approval.tool_name)
            assert () == (await service.load_session(lowest)).approvals
            assert "awaiting_permission" == (await service.load_session(parent)).activity.name
            first = await service.answer_approval(parent, approval.request_id, "allow_session")
            second = await service.answer_approval(parent, approval.request_id, "deny")
            assert (True, False, "allow_session") == (first.accepted, second.accepted, second.decision)
            await service.wait_for_turn(parent)
            assert 2 == len(write.calls), "the second call was not asked for"
            summary = (await service.list_sessions(search="b")).sessions[0]
            assert 1 == summary.open_requests
            await service.request_stop(lowest)


async def test_what_is_allowed_above_is_allowed_below() -> None:
    """A yes for the session, given before or while helpers work, counts for all of them; taken back, for none."""
    write, other = ScriptedTool("write", effects=("write",)), ScriptedTool("other", effects=("write",))
    scripts: Scripts = {
        "go": [tool_call("write"), hand_over("a", "b"), text("1")],
        "a": [tool_call("write"), (Pause("a"), *tool_call("other")), (Pause("late"), *tool_call("write")), text("2")],
        "b": [tool_call("other"), text("3")],
    }
    config = helped(scripts, tools=(write, other), permission_mode="ask_writes")
    provider = config.models["m"]
    assert isinstance(provider, PromptedProvider)
    async with open_checked_service(config) as service:
        parent = await new_session(service, name="go")
        await service.send_user_message(parent, "go")
        await wait_all_tasks_blocked()
        (first,) = (await service.load_session(parent)).approvals
        await service.answer_approval(parent, first.request_id, "allow_session")
        await provider.wait_for_pause("a")
        await wait_all_tasks_blocked()
        assert 2 == len(write.calls), "the helper's call was not asked for"
        (second,) = (await service.load_session(parent)).approvals
        assert by_name(service)["b"] == second.session_id
        await service.answer_approval(parent, second.request_id, "allow_session")
        provider.release("a")
        await provider.wait_for_pause("late")
        assert 2 == len(other.calls), "what one helper was allowed, its sibling need not ask for"
        await service.change_permission_mode(parent, "ask_writes")
        for name in ("go", "a", "b"):
            assert () == (await service.load_session(by_name(service)[name])).grants
        provider.release("late")
        await wait_all_tasks_blocked()
        assert ["write"] == [each.tool_name for each in (await service.load_session(parent)).approvals]
        await service.request_stop(parent)


@pytest.mark.parametrize(
    ("began", "read_only", "changes", "modes"),
    [
        ("ask_writes", False, ("full",), ("full", "full", "full")),
        ("full", False, ("ask_all",), ("ask_all", "ask_all", "ask_all")),
        ("full", False, ("read_only", "auto_edit"), ("auto_edit", "auto_edit", "auto_edit")),
        ("full", True, ("ask_all",), ("ask_all", "read_only", "read_only")),
        ("read_only", True, ("full",), ("full", "read_only", "read_only")),
    ],
)
async def test_a_new_mode_holds_for_helpers_too(
    began: PermissionMode,
    read_only: bool,  # noqa: FBT001
    changes: tuple[PermissionMode, ...],
    modes: tuple[str, ...],
) -> None:
    """Helpers follow a change of the mode above at once, but one that must change nothing stays as it is."""
    scripts: Scripts = {
        "go": [hand_over("a", read_only=read_only), text("1")],
        "a": [hand_over("b", read_only=False), text("2")],
        "b": [Hang()],
    }
    async with open_checked_service(helped(scripts, permission_mode=began)) as service:
        parent = await new_session(service, name="go")
        await service.send_user_message(parent, "go")
        await wait_all_tasks_blocked()
        for mode in changes:
            await service.change_permission_mode(parent, mode)
        ids = by_name(service)
        found = [(await service.load_session(ids[name])).settings.permission_mode for name in ("go", "a", "b")]
        assert list(modes) == found
        await service.request_stop(parent)
        await service.change_permission_mode(parent, "ask_writes")
        assert modes[1] == (await service.load_session(ids["a"])).settings.permission_mode, "it works for nobody now"


async def test_a_helper_of_its_own_mode_is_only_narrowed() -> None:
    """A helper whose mode a person has changed never gets more than its parent, and keeps its own confinement."""
    async with open_checked_service(helped({"go": [hand_over("a"), text("1")], "a": [Hang()]})) as service:
        parent = await new_session(service, name="go")
        await service.send_user_message(parent, "go")
        await wait_all_tasks_blocked()
        helper = by_name(service)["a"]
        followed, own = SandboxPolicy(mode="read_only"), SandboxPolicy(network=True)
        await service.change_sandbox_policy(parent, followed)
        assert followed == (await service.load_session(helper)).settings.sandbox
        await service.change_sandbox_policy(helper, own)
        await service.change_sandbox_policy(parent, SandboxPolicy())
        assert own == (await service.load_session(helper)).settings.sandbox
        found = []
        await service.change_permission_mode(helper, "ask_all")
        for mode in MODES:
            await service.change_permission_mode(parent, mode)
            found.append((await service.load_session(helper)).settings.permission_mode)
        assert ["ask_all", "read_only", "read_only"] == found
        await service.request_stop(parent)


MODES: tuple[PermissionMode, ...] = ("auto_edit", "read_only", "read_only")


@pytest.mark.parametrize("stopped", ["go", "a", "b"])
async def test_an_approval_is_denied_when_whoever_it_is_for_stops(stopped: str) -> None:
    """Stopping the session that asks, or any that waits for it, denies the approval in the same step."""
    write = ScriptedTool("write", effects=("write",))
    config = helped(asking_scripts(), tools=(write,), permission_mode="ask_writes")
    async with open_checked_service(config) as service:
        parent = await new_session(service, name="go")
        await service.send_user_message(parent, "go")
        await wait_all_tasks_blocked()
        ids = by_name(service)
        stop = stop_in_this_step(service, RequestStop(session_id=ids[stopped]))
        assert () == service._core.session(parent).state.approvals, "nothing was awaited yet"
        await stop.wait()
        (resolved,) = of_type(service, parent, ev.ApprovalResolved)
        assert ("deny", "stopped") == (resolved.decision, resolved.because)
        assert [] == write.calls
        assert "stopped" == (await service.load_session(ids["b"])).activity.name
        await service.wait_for_turn(parent)


async def test_an_approval_that_nobody_answers_is_denied(autojump_clock: MockClock) -> None:
    """Time runs out for a helper's approval as for any other, and the helper goes on with the refusal."""
    write = ScriptedTool("write", effects=("write",))
    scripts: Scripts = {"go": [hand_over("a"), text("1")], "a": [tool_call("write"), text("then not")]}
    config = helped(scripts, tools=(write,), permission_mode="ask_writes", approval_timeout_ms=1_000)
    async with open_checked_service(config) as service:
        parent = await new_session(service)
        await say(service, parent, "go")
        assert ([], ["then not"]) == (write.calls, [each.text for each in await results(service, parent)])


# --- ends -------------------------------------------------------------------------------------------------------------


async def test_a_helper_deleted_while_it_works() -> None:
    """Deleting a helper ends it; the parent gets an error result and goes on."""
    async with open_checked_service(helped({"go": [hand_over("look"), text("alone")], "look": [Hang()]})) as service:
        parent = await new_session(service)
        await service.send_user_message(parent, "go")
        await wait_all_tasks_blocked()
        await service.delete_session(by_name(service)["look"])
        assert "alone" == (await service.wait_for_turn(parent)).outcome.final_text
        assert ["error"] == [each.status for each in await results(service, parent)]
        assert 1 == service.statistics().sessions


async def test_a_parent_deleted_while_it_waits() -> None:
    """Deleting a session whose helpers work stops all of them, and nothing runs afterwards."""
    scripts: Scripts = {"go": [hand_over("a", "b")], "a": [hand_over("c")], "b": [Hang()], "c": [Hang()]}
    async with open_checked_service(helped(scripts)) as service:
        parent = await new_session(service, name="go")
        await service.send_user_message(parent, "go")
        await wait_all_tasks_blocked()
        assert 4 == service.statistics().running
        await service.delete_session(parent)
        await wait_all_tasks_blocked()
        assert 0 == service.statistics().running
        left = {each.name: each.activity.name for each in (await service.list_sessions()).sessions}
        assert {"a": "stopped", "b": "stopped", "c": "stopped"} == left


async def test_the_end_of_the_service_is_not_called_a_stop() -> None:
    """A service that closes interrupts a session and its helper; neither says that somebody stopped it."""
    config = helped({"go": [hand_over("a")], "a": [hand_over("b")], "b": [Hang()]})
    async with open_checked_service(config) as service:
        parent = await new_session(service, name="go")
        await service.send_user_message(parent, "go")
        await wait_all_tasks_blocked()
        ids = by_name(service)
    for session_id in ids.values():
        assert [] == of_type(service, session_id, ev.StopRequested)
        assert "interrupted" == trace_of_end(service, session_id)


def trace_of_end(service: SessionService, session_id: SessionId) -> str:
    return next(event.outcome.status for event in trace(service, session_id) if isinstance(event, ev.TurnEnded))


async def test_after_a_crash_all_of_them_are_interrupted(tmp_path: Path) -> None:
    """What a killed service had running, helpers included, is interrupted when the home is opened again."""
    home = tmp_path / "home"
    config = helped({"go": [hand_over("a")], "a": [Hang()]}, store=SqliteStore(home))
    async with open_session_service(config) as service:
        parent = await new_session(service, name="go")
        await service.send_user_message(parent, "go")
        await until(lambda: "a" in by_name(service))
        await service.rename_session(parent, "go")  # everything before is durable now
        killed = tmp_path / "killed"
        await trio.to_thread.run_sync(copy_of, home, killed)
    async with open_session_service(helped({}, store=SqliteStore(killed))) as service:
        ids = by_name(service)
        assert {"go", "a"} == set(ids)
        for session_id in ids.values():
            assert "interrupted" == (await service.load_session(session_id)).activity.name
        (result,) = await results(service, ids["go"])
        assert "interrupted" == result.status
        await service.delete_session(ids["go"])


def copy_of(home: Path, target: Path) -> None:
    """Copy the files of a home as a kill would leave them, but for its lock."""
    target.mkdir(mode=0o700)
    for file in home.iterdir():
        if file.is_file() and "lock" not in file.name:
            (target / file.name).write_bytes(file.read_bytes())
            (target / file.name).chmod(0o600)
