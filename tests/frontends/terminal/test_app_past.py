"""What was said, said differently, copied and taken along."""

from pathlib import Path

import anyio
import pytest

import session_core as sc
from frontends.terminal import context
from frontends.terminal.screens import search
from session_core.testing.scripted import text
from tests.frontends.terminal._asyncio import on_asyncio
from tests.frontends.terminal._harness import open_terminal
from tests.frontends.terminal._listening import listen


def test_edit_and_resend_makes_a_branch(tmp_path: Path) -> None:
    """Saying something differently begins a branch; both are there, and keys switch between them."""

    async def scene() -> None:
        async with open_terminal(tmp_path, text("alpha"), text("beta")) as terminal:
            await terminal.say("first")
            await terminal.until_shown("alpha")
            await terminal.until_shown("idle")
            await terminal.pilot.press("f6", "up", "e")
            await terminal.until(lambda: terminal.app.composer.draft.prompt.whole == "first", "the text")
            await terminal.type(" choice", "enter")
            await terminal.until_shown("beta")
            assert "alpha" not in terminal.text
            await terminal.until_shown("idle")
            await terminal.until_said("first choice", "beta")
            await terminal.pilot.press("f6", "up", "up", "b")
            await terminal.until_shown("alpha")

    on_asyncio(scene)


@pytest.mark.slow
def test_leaving_an_edit(tmp_path: Path) -> None:
    """Esc leaves what was to be said differently as it was, and does not stop anything."""

    async def scene() -> None:
        async with open_terminal(tmp_path, text("alpha")) as terminal:
            await terminal.say("first")
            await terminal.until_shown("idle")
            await terminal.type("/edit", "escape", "enter")
            await terminal.until_shown("Edit a message")
            await terminal.pilot.press("enter")
            await terminal.until(lambda: terminal.app.composer.draft.prompt.whole == "first", "the text")
            await terminal.pilot.press("escape")
            await terminal.until(lambda: terminal.app.composer.editing is None, "the end of editing")
            assert terminal.app.composer.is_empty

    on_asyncio(scene)


@pytest.mark.slow
def test_exporting(tmp_path: Path) -> None:
    """The conversation is written to a file whose ending says how, and nothing is written over without a yes."""

    async def scene() -> None:
        home, folder = tmp_path / "home", tmp_path / "work"
        folder.mkdir()
        home.mkdir(mode=0o700)
        store = {"store": sc.SqliteStore(home)}
        async with open_terminal(home, text("alpha"), config=store, cwd=str(folder)) as terminal:
            await terminal.say("first")
            await terminal.until_shown("idle")
            await terminal.type("/export talk.md", "escape", "enter")
            await terminal.until((folder / "talk.md").exists, "the file")
            await terminal.until(lambda: "alpha" in (folder / "talk.md").read_text(), "the answer in the file")
            (folder / "talk.html").write_text("mine")
            await terminal.type("/export talk.html", "escape", "enter")
            await terminal.until_shown("already exists")
            await terminal.pilot.press("n")
            await terminal.until_gone("already exists")
            assert (folder / "talk.html").read_text() == "mine"

    on_asyncio(scene)


@pytest.mark.slow
def test_searching(tmp_path: Path) -> None:
    """A search over all sessions finds a message, and opens its session there."""

    async def scene() -> None:
        home = tmp_path / "home"
        home.mkdir(mode=0o700)
        async with open_terminal(
            home, text("the quick fox"), text("beta"), config={"store": sc.SqliteStore(home)}
        ) as terminal:
            await terminal.say("first")
            await terminal.until_shown("the quick fox")
            await terminal.pilot.press("alt+n")
            await terminal.say("second")
            await terminal.until_shown("beta")
            await terminal.pilot.press("f3")
            await terminal.until_shown("Search in all sessions")
            await terminal.type("quick")
            await terminal.until(lambda: getattr(terminal.app.screen, "_searched", "") == "quick", "the search")
            await terminal.until_shown("1 message found")
            await terminal.pilot.press("enter")
            await terminal.until(lambda: terminal.app.screen is terminal.app.screen_stack[0], "the end of the search")
            await terminal.until(lambda: terminal.state().name == "first", "the other session")
            await terminal.until_shown("the quick fox")

    on_asyncio(scene)


@pytest.mark.slow
def test_what_takes_long_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Going back, writing a file, compacting and searching say that they go on while they take long."""
    monkeypatch.setattr(context, "LONG_S", 0.01)
    monkeypatch.setattr(search, "LONG_S", 0.01)

    async def scene() -> None:
        async with open_terminal(tmp_path, text("alpha")) as terminal:
            await terminal.say("first")
            await terminal.until_shown("idle")
            listening = listen(terminal)
            on = anyio.Event()

            async def slowly(*_: object, **__: object) -> None:
                await on.wait()
                raise sc.NotFound("not today")

            for name in ("take_back_undo", "compact_context", "search_messages"):
                listening.answers[name] = slowly
            for typed, shown in (("/redo", "reverting the undo…"), ("/compact", "compacting…")):
                await terminal.type(typed, "escape", "enter")
                await terminal.until_shown(shown)
            await terminal.pilot.press("f3")
            await terminal.type("quick")
            await terminal.until_shown("searching…")
            on.set()
            await terminal.until_gone("searching…")

    on_asyncio(scene)


@pytest.mark.slow
def test_nothing_can_be_changed(tmp_path: Path) -> None:
    """When the store takes no more, the empty input says so and why; commands can still be typed."""

    async def scene() -> None:
        async with open_terminal(tmp_path, text("alpha")) as terminal:
            assert terminal.app.feeds.session_list is not None
            terminal.app.feeds.session_list.read_only = "the disk is full"
            terminal.app.redraw()
            await terminal.until_shown("the service is read-only: the disk is full")
            await terminal.type("/help", "escape", "enter")
            await terminal.until(lambda: terminal.app.screen is not terminal.app.screen_stack[0], "the help")

    on_asyncio(scene)
