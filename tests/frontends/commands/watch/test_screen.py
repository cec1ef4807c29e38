"""One session as somebody sees it who joins in the middle, alone and among others."""

import trio

from frontends.commands.watch.screen import WatchScreen
from frontends.shared.style import Style
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import Pause, ScriptedProvider, ScriptedTool, text, tool_call
from tests.frontends.commands.watch._following import Watcher, config, of_screen

PLAIN = Style()


async def test_joining_in_the_middle(autojump_clock: trio.testing.MockClock) -> None:
    """What is over is not told again; the answer that is being given is, whole, and then what happens."""
    first, last = text("one two "), text("three\x1b[2J")
    provider = ScriptedProvider(text("before"), (*first[:-1], Pause("here"), *last), text("and more"))
    async with open_checked_service(config(provider)) as service:
        session_id = (await service.create_session(name="a name")).session_id
        await service.send_user_message(session_id, "first")
        await service.wait_for_turn(session_id)
        await service.send_user_message(session_id, "second")
        await provider.wait_for_pause("here")
        screen = WatchScreen(PLAIN, "7k2f", live=False)
        async with service.follow(session_id) as feed, trio.open_nursery() as nursery:
            watcher = Watcher(feed, of_screen(screen))
            nursery.start_soon(watcher.run)
            await trio.testing.wait_all_tasks_blocked()
            joined, resting = watcher.said, screen.at_rest
            await service.send_user_message(session_id, "third")
            provider.release("here")
            await service.wait_for_turn(session_id)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    assert 'Watching 7k2f "a name": 3 messages, answering.\none two ' == joined
    assert not resting
    assert screen.at_rest
    after = watcher.said.removeprefix(joined).splitlines()
    assert "waits in the queue: third" == after[1]
    assert "three" == after[2], "what steers a terminal is gone"
    assert "you: third" in after
    assert "and more" in after
    assert after[-1].startswith("✓ completed in ")
    assert "before" not in watcher.said


async def test_what_others_do_is_told(autojump_clock: trio.testing.MockClock) -> None:
    """Whoever only watches sees that a tool waits for a yes, who got one, a stop, and a new name."""
    tool = ScriptedTool("write", effects={"write"}, run="written")
    provider = ScriptedProvider(tool_call("write", {"path": "a"}), tool_call("write", {"path": "b"}))
    async with open_checked_service(config(provider, tool)) as service:
        session_id = (await service.create_session(name="x")).session_id
        screen = WatchScreen(PLAIN, "7k2f", live=False)
        async with service.follow(session_id) as feed, trio.open_nursery() as nursery:
            watcher = Watcher(feed, of_screen(screen))
            nursery.start_soon(watcher.run)
            await trio.testing.wait_all_tasks_blocked()
            await service.send_user_message(session_id, "go")
            await trio.testing.wait_all_tasks_blocked()
            (approval,) = (await service.load_session(session_id)).approvals
            await service.answer_approval(session_id, approval.request_id, "allow_once")
            await trio.testing.wait_all_tasks_blocked()
            await service.rename_session(session_id, "y")
            await service.request_stop(session_id)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    lines = watcher.said.splitlines()
    for expected in (
        "you: go",
        '? write(path="a") waits for approval; answer with: session-core run --session 7k2f',
        "write was allowed",
        "✓ write a · written",
        '? write(path="b") waits for approval; answer with: session-core run --session 7k2f',
        'It is now called "y".',
        "■ a stop was requested (turn)",
        "write was denied",
    ):
        assert expected in lines
    assert lines[-1].startswith("■ stopped after ")


async def test_among_others_only_whole_lines_are_shown(autojump_clock: trio.testing.MockClock) -> None:
    """Each line says whose it is, and half a line waits for its end, or for the end of all."""
    pieces = text("one\ntwo ", "three\nfour", thinking="hm")
    provider = ScriptedProvider((*pieces[:-1], Pause("here"), *text()))
    async with open_checked_service(config(provider)) as service:
        session_id = (await service.create_session(name="x")).session_id
        screen = WatchScreen(PLAIN, "7k2f", live=True, label="7k2f")
        async with service.follow(session_id) as feed, trio.open_nursery() as nursery:
            watcher = Watcher(feed, of_screen(screen))
            nursery.start_soon(watcher.run)
            await trio.testing.wait_all_tasks_blocked()
            await service.send_user_message(session_id, "go")
            await provider.wait_for_pause("here")
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    expected = ['Watching "x": 0 messages, idle.', "you: go", "✻ hm", "one", "two three"]
    assert [f"7k2f {line}" for line in expected] == watcher.said.splitlines()
    assert "7k2f four\n" == screen.text(end=True)
