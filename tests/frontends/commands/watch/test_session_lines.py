"""All sessions as lines, one per change."""

import re

import attrs
import trio

import session_core as sc
from frontends.commands.watch.session_lines import SessionListView
from frontends.shared.style import Style
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import Pause, ScriptedProvider, ScriptedTool, text, tool_call
from tests.frontends.commands.watch._following import Watcher, config, of_session_list

PLAIN = Style()


async def test_one_line_per_change(autojump_clock: trio.testing.MockClock) -> None:
    """Those at work are named first; then each change of any session is a line with its time, its id and its name."""
    provider = ScriptedProvider((Pause("here"), *text("hello")))
    async with open_checked_service(config(provider)) as service:
        busy = (await service.create_session(name="busy")).session_id
        await service.create_session(name="quiet")
        await service.send_user_message(busy, "go")
        await provider.wait_for_pause("here")
        session_list = SessionListView(PLAIN)
        async with service.follow(None) as feed, trio.open_nursery() as nursery:
            watcher = Watcher(feed, of_session_list(session_list))
            nursery.start_soon(watcher.run)
            await trio.testing.wait_all_tasks_blocked()
            resting = session_list.at_rest
            with service.attach("me", name="my laptop", kind="web"), service.attach("passing"):
                await service.rename_session(busy, "done")
            third = (await service.create_session(name="third")).session_id
            await service.delete_session(third)
            await service.archive_session((await service.load_service()).sessions[1].session_id)
            provider.release("here")
            await service.wait_for_turn(busy)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    short = busy[-4:]
    lines = watcher.said.splitlines()
    assert ["Watching 2 sessions, 1 at work.", f'{short} "busy" waiting for the model'] == lines[:2]
    assert all(re.match(r"\d\d:\d\d:\d\d ", line) for line in lines[2:])
    told = [line[9:] for line in lines[2:]]
    assert "my laptop (web) has attached" == told[0]
    assert f'{short} "done" has a new name (before: "busy")' == told[1]
    assert "my laptop (web) has left" == told[2]
    assert [f'{third[-4:]} "third" was created', f'{third[-4:]} "third" was deleted'] == told[3:5]
    assert told[5].endswith('"quiet" was archived')
    assert f'{short} "done" idle' == told[-1]
    assert not resting
    assert session_list.at_rest


def test_a_lag_is_told() -> None:
    """After a lag it is said how much was missed, and what looks different now."""
    activity = sc.Activity(name="errored", message="no luck")
    one = sc.SessionSummary(
        session_id=sc.SessionId("ses_aaaa1111"),
        name="one",
        created_at=0,
        updated_at=0,
        archived=False,
        parent_id=None,
        cwd="/",
        model="m",
        activity=sc.Activity(name="idle"),
    )
    session_list = SessionListView(PLAIN)
    cursor = sc.Cursor(epoch=sc.Epoch("run_1"), seq=1)
    session_list.apply_item(sc.ServiceSnapshot(cursor=cursor, sessions=(one,)), None)
    failed = attrs.evolve(one, activity=activity)
    said = session_list.apply_item(sc.ServiceSnapshot(cursor=cursor, sessions=(failed,)), 7)
    assert "(the display fell behind by 7 events; continuing from a new snapshot)" == said[0]
    assert ['1111 "one" failed: no luck'] == said[1:]


async def test_a_question_says_how_to_answer(autojump_clock: trio.testing.MockClock) -> None:
    """A session that waits for a yes is told with what to type to give it."""
    tool = ScriptedTool("write", effects={"write"}, run="written")
    async with open_checked_service(config(ScriptedProvider(tool_call("write", {"path": "a"})), tool)) as service:
        session_id = (await service.create_session(name="x")).session_id
        async with service.follow() as feed, trio.open_nursery() as nursery:
            watcher = Watcher(feed, of_session_list(SessionListView(PLAIN)))
            nursery.start_soon(watcher.run)
            await trio.testing.wait_all_tasks_blocked()
            await service.send_user_message(session_id, "go")
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
    answer = f"asks whether write may run; answer with: session-core run --session {session_id[-4:]}\n"
    assert answer in watcher.said
