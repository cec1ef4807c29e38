"""Whatever is stopped, deleted, answered or sent in a tree of helpers: nothing runs on for a turn that has ended."""

from contextlib import suppress

import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from session_core.errors import Conflict, NotFound
from session_core.ids import SessionId
from session_core.service.service import SessionService
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import Hang, ScriptedAnswer, ScriptedTool, TaskSwitch, text, tool_call
from session_core.vocabulary import events as ev
from session_core.vocabulary.messages import Usage
from session_core.vocabulary.sessions import StopScope
from tests.properties._world import checkpoints
from tests.session_core.service._family import hand_over, helped

SCOPES: tuple[StopScope, ...] = ("turn", "subtree", "session")
USE = Usage(input_tokens=3, output_tokens=1)

FEW = max(settings.default.max_examples // 4, 10) if settings.default else 10  # seven sessions each

leaf = st.sampled_from(["text", "hang", "ask"])
move = st.tuples(st.sampled_from(["stop", "stop", "answer", "delete", "send"]), st.integers(0, 6), st.integers(0, 2))


def answers_of(kind: str) -> list[ScriptedAnswer]:
    match kind:
        case "text":
            return [(TaskSwitch(), *text("said", usage=USE))]
        case "hang":
            return [(*text("half")[:1], Hang())]
        case _:
            return [tool_call("change"), text("changed", usage=USE)]


def scripts_of(leaves: list[str]) -> dict[str, list[ScriptedAnswer]]:
    """Two helpers with two helpers of their own each; `leaves` says what those do."""
    scripts: dict[str, list[ScriptedAnswer]] = {"go": [hand_over("a", "b"), text("all done", usage=USE)]}
    for name in "ab":
        scripts[name] = [hand_over(f"{name}1", f"{name}2"), text(f"{name} done", usage=USE)]
    for name, kind in zip(("a1", "a2", "b1", "b2"), leaves, strict=True):
        scripts[name] = answers_of(kind)
    return scripts


async def act(service: SessionService, what: str, session_id: SessionId, choice: int) -> None:
    with suppress(Conflict, NotFound):
        if what == "stop":
            await service.request_stop(session_id, scope=SCOPES[choice])
        elif what == "delete" and choice == 0:
            await service.delete_session(session_id)
        elif what == "send":
            await service.send_user_message(session_id, "more", deliver_as="next_turn")
        else:
            for approval in (await service.load_session(session_id)).approvals:
                await service.answer_approval(
                    session_id, approval.request_id, ("allow_once", "allow_session", "deny")[choice]
                )


def check_family(service: SessionService) -> None:
    """Say what must hold at every quiet moment."""
    core = service._core
    for session in core.sessions.values():
        parent_id = session.state.parent_id
        if session.work is None or parent_id is None:
            continue
        parent = core.sessions.get(parent_id)
        assert parent is not None, "a helper runs for a session that is gone"
        assert parent.work is not None, "a helper runs for a turn that has ended"
        assert any(tool.child_id == session.state.session_id for tool in parent.state.tools)
    for session in core.sessions.values():
        for approval in session.state.approvals:
            asking = core.sessions[approval.session_id or session.state.session_id]
            assert asking.work is not None, "a question stands open for nobody"


@settings(max_examples=FEW)
@given(
    leaves=st.lists(leaf, min_size=4, max_size=4),
    moves=st.lists(st.tuples(move, st.integers(0, 12), st.booleans()), max_size=8),
    rnd=st.random_module(),
)
async def test_nothing_runs_for_a_turn_that_has_ended(
    *, leaves: list[str], moves: list[tuple[tuple[str, int, int], int, bool]], rnd: object, autojump_clock: MockClock
) -> None:
    """After any stops, answers and deletions in a tree no helper runs below a turn at rest, and the accounts agree."""
    tools = (ScriptedTool("change", effects=("write",)),)
    config = helped(scripts_of(leaves), tools=tools, permission_mode="ask_writes")
    async with open_checked_service(config) as service, trio.open_nursery() as nursery:
        root = (await service.create_session(name="go")).session_id
        await service.send_user_message(root, "go")
        for (what, which, choice), delay, quiet in moves:
            await checkpoints(delay)
            ids = sorted(service._core.recorder.session_list.sessions)
            if ids:
                nursery.start_soon(act, service, what, ids[which % len(ids)], choice)
            if quiet:
                await wait_all_tasks_blocked()
                check_family(service)
        await wait_all_tasks_blocked()
        check_family(service)
        with suppress(NotFound):
            await service.request_stop(root, scope="turn")
        await wait_all_tasks_blocked()
        assert 0 == service.statistics().running
        check_accounts(service)


def check_accounts(service: SessionService) -> None:
    """What a session has used is what it used itself and what its helpers did, each counted once."""
    sessions = service._core.sessions
    for session in sessions.values():
        counted = sum(line.usage.tokens for line in session.state.usage_by)
        assert session.state.usage.tokens == counted
    if any(isinstance(each.event, ev.SessionDeleted) for each in service._core.config.store.seen):  # type: ignore[attr-defined]
        return
    for session in sessions.values():
        children = [each for each in sessions.values() if each.state.parent_id == session.state.session_id]
        below = sum(each.state.usage.tokens for each in children)
        tasks = sum(line.usage.tokens for line in session.state.usage_by if line.source == "task")
        assert below == tasks
