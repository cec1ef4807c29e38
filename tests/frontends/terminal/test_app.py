"""Talking to an agent in the whole terminal, with a real service behind it."""

from pathlib import Path

from session_core.testing.scripted import Hang, Pause, ScriptedAnswer, text
from tests.frontends.terminal._asyncio import on_asyncio
from tests.frontends.terminal._harness import open_terminal


def endless(words: str) -> ScriptedAnswer:
    """An answer that begins and never ends."""
    return [*text(words)[:-1], Hang()]


def test_a_first_message_begins_a_session(tmp_path: Path) -> None:
    """The first message makes a session in this folder, named after it, and its answer is shown as it comes."""

    async def scene() -> None:
        async with open_terminal(tmp_path, [*text("well, ")[:-1], Pause("on"), *text("hello")]) as terminal:
            await terminal.until_shown("a new session in")
            await terminal.say("hi there")
            await terminal.until_shown("well,")
            assert "> hi there" in terminal.text
            assert "answering" in terminal.text
            terminal.release("on")
            await terminal.until_shown("hello")
            await terminal.until_shown("idle")
            state = terminal.state()
            assert [message.text for message in state.transcript] == ["hi there", "well, hello"]
            assert state.name == "hi there"
            assert state.settings.cwd == str(tmp_path)

    on_asyncio(scene)


def test_what_is_said_before_the_service_is_there_is_not_lost(tmp_path: Path) -> None:
    """A message typed while the service is still being looked for is sent as soon as it is there."""

    async def scene() -> None:
        async with open_terminal(tmp_path, text("at last"), slow=True) as terminal:
            await terminal.say("hello")
            terminal.place.let_in.set()
            await terminal.until_shown("at last")

    on_asyncio(scene)


def test_esc_stops_the_viewed_turn_and_no_other(tmp_path: Path) -> None:
    """Esc stops the turn on the screen; a session in the background goes on."""

    async def scene() -> None:
        async with open_terminal(tmp_path, endless("on and"), endless("and on")) as terminal:
            await terminal.say("first")
            await terminal.until_shown("on and")
            first = terminal.app.current.session_id
            await terminal.pilot.press("alt+n")
            await terminal.until_shown("a new session in")
            await terminal.say("second")
            await terminal.until_shown("and on")
            await terminal.pilot.press("escape")
            await terminal.until_shown("stopped here")
            assert terminal.state().activity.name == "stopped"
            assert first is not None
            assert terminal.server.snapshot(first).activity.name == "streaming"
            await terminal.until_shown("1 other at work")

    on_asyncio(scene)


def test_a_message_while_the_agent_works_waits(tmp_path: Path) -> None:
    """What is said during a turn is queued, shown as queued, and answered afterwards."""

    async def scene() -> None:
        answers = ([*text("one")[:-1], Pause("on"), *text("")], text("two"))
        async with open_terminal(tmp_path, *answers) as terminal:
            await terminal.say("first")
            await terminal.until_shown("one")
            await terminal.say("second")
            await terminal.until_shown("1 queued")
            terminal.release("on")
            await terminal.until_shown("two")
            await terminal.until_said("first", "one", "second", "two")

    on_asyncio(scene)


def test_ctrl_c_never_ends_work(tmp_path: Path) -> None:
    """Ctrl+C clears what was typed, then warns, then closes the terminal; the turn goes on through all of it."""

    async def scene() -> None:
        async with open_terminal(tmp_path, endless("on and")) as terminal:
            await terminal.say("go")
            await terminal.until_shown("on and")
            await terminal.type("draft")
            await terminal.pilot.press("ctrl+c")
            await terminal.until(lambda: terminal.app.composer.is_empty, "an empty composer")
            await terminal.pilot.press("ctrl+c")
            await terminal.until_shown("work continues")
            assert terminal.app.is_running
            await terminal.pilot.press("ctrl+c")
            await terminal.until(lambda: not terminal.app.is_running or terminal.app._exit, "the end")
            assert terminal.state().activity.name == "streaming"

    on_asyncio(scene)


def test_a_refused_message_comes_back(tmp_path: Path) -> None:
    """What the service refuses is put back into the composer, with the reason on the screen."""

    async def scene() -> None:
        async with open_terminal(tmp_path, text("fine"), model="nobody/knows") as terminal:
            await terminal.say("hello")
            await terminal.until_shown("nobody/knows")
            await terminal.until(lambda: terminal.app.composer.draft.prompt.whole == "hello", "the text")

    on_asyncio(scene)


def test_a_command_that_nobody_knows(tmp_path: Path) -> None:
    """An unknown command is said to be unknown, with what may have been meant, and the model never hears of it."""

    async def scene() -> None:
        async with open_terminal(tmp_path, text("fine")) as terminal:
            await terminal.type("/modle x", "escape", "enter")
            await terminal.until_shown("did you mean")
            assert terminal.app.current.session_id is None

    on_asyncio(scene)
