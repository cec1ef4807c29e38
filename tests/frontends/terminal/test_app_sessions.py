"""Many sessions in one terminal."""

from pathlib import Path

import pytest

from session_core.testing.scripted import text
from tests.frontends.terminal._asyncio import on_asyncio
from tests.frontends.terminal._harness import Terminal, open_terminal
from tests.frontends.terminal.test_app import endless


async def begin(terminal: Terminal, words: str, answer: str) -> None:
    """Begin another session."""
    await terminal.pilot.press("alt+n")
    await terminal.until_shown("a new session in")
    await terminal.say(words)
    await terminal.until_shown(answer)


@pytest.mark.slow
def test_switching_between_sessions(tmp_path: Path) -> None:
    """Keys switch between the sessions of the list, and each shows its own conversation."""

    async def scene() -> None:
        async with open_terminal(tmp_path, text("alpha"), text("beta")) as terminal:
            await begin(terminal, "first", "alpha")
            await begin(terminal, "second", "beta")
            assert "alpha" not in terminal.text
            await terminal.pilot.press("alt+down")
            await terminal.until_shown("alpha")
            assert "beta" not in terminal.text
            await terminal.pilot.press("alt+1")
            await terminal.until_shown("beta")

    on_asyncio(scene)


def test_a_background_session_is_stopped_from_the_list(tmp_path: Path) -> None:
    """A session that is not on the screen is stopped from the list; the viewed one goes on."""

    async def scene() -> None:
        async with open_terminal(tmp_path, endless("alpha"), endless("beta")) as terminal:
            await begin(terminal, "first", "alpha")
            first = terminal.app.current.session_id
            await begin(terminal, "second", "beta")
            await terminal.pilot.press("f2", "down", "s")
            await terminal.until_shown("stopped")
            assert first is not None
            assert terminal.server.snapshot(first).activity.name == "stopped"
            assert terminal.state().activity.name == "streaming"

    on_asyncio(scene)


@pytest.mark.slow
def test_renaming_and_deleting(tmp_path: Path) -> None:
    """A session gets another name from the list, and is gone when its deletion is confirmed, not before."""

    async def scene() -> None:
        async with open_terminal(tmp_path, text("alpha")) as terminal:
            await begin(terminal, "first", "alpha")
            await terminal.pilot.press("f2", "r")
            await terminal.until_shown("Name of the session")
            await terminal.type("first again", "enter")
            await terminal.until(lambda: terminal.state().name == "first again", "the name")
            await terminal.pilot.press("d")
            await terminal.until_shown("permanently?")
            await terminal.pilot.press("n")
            await terminal.until_gone("permanently?")
            assert terminal.state().name == "first again"
            await terminal.pilot.press("d")
            await terminal.until_shown("permanently?")
            await terminal.pilot.press("y")
            await terminal.until_shown("no sessions yet")

    on_asyncio(scene)


@pytest.mark.slow
def test_a_deleted_session_that_is_viewed(tmp_path: Path) -> None:
    """A session that somebody else deletes while it is on the screen is said to be gone."""

    async def scene() -> None:
        async with open_terminal(tmp_path, text("alpha")) as terminal:
            await begin(terminal, "first", "alpha")
            session_id = terminal.app.current.session_id
            terminal.server.run(terminal.server.service.delete_session, session_id)
            await terminal.until_shown("This session was deleted.")

    on_asyncio(scene)


@pytest.mark.slow
def test_what_is_written_waits_in_its_session(tmp_path: Path) -> None:
    """A draft stays with the session it was written for, while others are viewed."""

    async def scene() -> None:
        async with open_terminal(tmp_path, text("alpha"), text("beta")) as terminal:
            await begin(terminal, "first", "alpha")
            await terminal.type("for the first")
            await begin(terminal, "second", "beta")
            await terminal.pilot.press("alt+down")
            await terminal.until_shown("alpha")
            await terminal.until(lambda: terminal.app.composer.draft.prompt.whole == "for the first", "the draft")
            await terminal.pilot.press("alt+up")
            await terminal.until_shown("beta")
            assert terminal.app.composer.is_empty

    on_asyncio(scene)


@pytest.mark.slow
def test_what_was_written_for_a_deleted_session_is_not_kept_for_it(tmp_path: Path) -> None:
    """A draft goes with its session; one for the session on the screen that is deleted may begin another one."""

    async def scene() -> None:
        async with open_terminal(tmp_path, text("alpha"), text("beta")) as terminal:
            await begin(terminal, "first", "alpha")
            first = terminal.app.current.session_id
            await terminal.type("for the first")
            await begin(terminal, "second", "beta")
            second = terminal.app.current.session_id
            terminal.server.run(terminal.server.service.delete_session, first)
            await terminal.until(lambda: first not in terminal.app.sessions._drafts, "the end of the draft")
            await terminal.type("and now")
            terminal.server.run(terminal.server.service.delete_session, second)
            await terminal.until_shown("This session was deleted.")
            await terminal.pilot.press("alt+n")
            await terminal.until_shown("a new session in")
            assert terminal.app.composer.draft.prompt.whole == "and now"
            assert terminal.app.sessions._drafts == {}

    on_asyncio(scene)
