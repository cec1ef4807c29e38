"""Saying something differently in the whole terminal: it ends when it should, and nothing is lost on the way."""

from pathlib import Path

import pytest

import session_core as sc
from session_core.testing.scripted import Pause, text
from tests.frontends.terminal._asyncio import on_asyncio
from tests.frontends.terminal._composing import PNG, set_text
from tests.frontends.terminal._harness import Terminal, open_terminal
from tests.frontends.terminal.test_app_sessions import begin


async def edit_last(terminal: Terminal) -> None:
    """Begin to say the last thing differently that was said before the newest answer."""
    await terminal.until_shown("idle")
    await terminal.pilot.press("f6", "up", "e")
    await terminal.until(lambda: terminal.app.composer.editing is not None, "the edit")


@pytest.mark.slow
def test_ctrl_c_ends_an_edit(tmp_path: Path) -> None:
    """Ctrl+C leaves what was to be said differently as it was, and what is said next is a message of its own."""

    async def scene() -> None:
        async with open_terminal(tmp_path, text("alpha"), text("beta")) as terminal:
            await terminal.say("first")
            await edit_last(terminal)
            await terminal.pilot.press("ctrl+c")
            await terminal.until_shown("ask for something")
            await terminal.say("something new")
            await terminal.until_shown("beta")
            await terminal.until_said("first", "alpha", "something new", "beta")

    on_asyncio(scene)


@pytest.mark.slow
def test_a_command_within_an_edit(tmp_path: Path) -> None:
    """A command typed while something is edited does not make the waiting draft replace it."""

    async def scene() -> None:
        async with open_terminal(tmp_path, text("alpha"), text("beta")) as terminal:
            await terminal.say("first")
            await terminal.until_shown("alpha")
            await terminal.type("my draft")
            await edit_last(terminal)
            set_text(terminal.app.composer, "/usage")
            await terminal.pilot.press("enter")
            await terminal.until(lambda: terminal.app.screen is not terminal.app.screen_stack[0], "the screen")
            await terminal.pilot.press("escape")
            await terminal.until(lambda: terminal.app.screen is terminal.app.screen_stack[0], "its end")
            assert terminal.app.composer.is_empty
            await terminal.pilot.press("escape")
            await terminal.until(lambda: terminal.app.composer.draft.prompt.whole == "my draft", "the draft")
            await terminal.pilot.press("enter")
            await terminal.until_shown("beta")
            await terminal.until_said("first", "alpha", "my draft", "beta")

    on_asyncio(scene)


def test_an_edit_stays_in_its_session(tmp_path: Path) -> None:
    """What is edited waits in its session with the draft from before, and shows up in no other."""

    async def scene() -> None:
        async with open_terminal(tmp_path, text("alpha"), text("beta"), text("gamma"), text("delta")) as terminal:
            await begin(terminal, "first", "alpha")
            await begin(terminal, "second", "beta")
            await terminal.type("private draft")
            await edit_last(terminal)
            await terminal.type(" said")
            await terminal.pilot.press("alt+down")
            await terminal.until_shown("alpha")
            assert (terminal.app.composer.editing, terminal.app.composer.draft.prompt.whole) == (None, "")
            await terminal.say("hello")
            await terminal.until_shown("gamma")
            assert terminal.app.composer.is_empty
            await terminal.pilot.press("alt+up")
            await terminal.until_shown("beta")
            await terminal.until(lambda: terminal.app.composer.draft.prompt.whole == "second said", "the edit")
            await terminal.pilot.press("enter")
            await terminal.until_shown("delta")
            await terminal.until_said("second said", "delta")
            assert terminal.app.composer.draft.prompt.whole == "private draft"

    on_asyncio(scene)


@pytest.mark.slow
def test_an_edit_keeps_pictures_and_files(tmp_path: Path) -> None:
    """What went along with a message goes along again when it is said differently, from the list as by a key."""
    (tmp_path / "a.txt").write_text("content")
    (tmp_path / "p.png").write_bytes(PNG)

    async def scene() -> None:
        async with open_terminal(tmp_path, text("alpha"), text("beta"), text("gamma")) as terminal:
            set_text(terminal.app.composer, "look at @a.txt and @p.png")
            await terminal.pilot.press("enter")
            await terminal.until_shown("alpha")
            (tmp_path / "a.txt").unlink()
            (tmp_path / "p.png").unlink()
            await edit_last(terminal)
            await terminal.type("!", "enter")
            await terminal.until_shown("beta")
            kinds = [type(part) for part in terminal.state().transcript[0].parts]
            assert sorted(each.__name__ for each in kinds) == ["FilePart", "ImagePart", "TextPart"]
            await terminal.until_shown("idle")
            await terminal.type("/edit", "escape", "enter")
            await terminal.until_shown("Edit a message")
            await terminal.pilot.press("enter")
            await terminal.until(lambda: len(terminal.app.composer.draft.attached) == 2, "what went along")

    on_asyncio(scene)


@pytest.mark.slow
def test_a_shell_line_is_not_edited(tmp_path: Path) -> None:
    """What became of a shell line cannot be edited, and who tries is told so."""
    ran = "I have run this command myself:\n\n$ ls\n\na.txt"

    async def scene() -> None:
        async with open_terminal(tmp_path, text("alpha")) as terminal:
            set_text(terminal.app.composer, ran)
            await terminal.pilot.press("enter")
            await terminal.until_shown("alpha")
            await terminal.until_shown("idle")
            await terminal.pilot.press("f6", "up", "e")
            await terminal.until_shown("a shell line cannot be edited")
            assert (terminal.app.composer.editing, terminal.app.composer.draft.prompt.whole) == (None, "")

    on_asyncio(scene)


@pytest.mark.slow
def test_editing_what_waits(tmp_path: Path) -> None:
    """A message that waits is rewritten in its place and keeps its files; one that is refused is an edit again."""
    (tmp_path / "a.txt").write_text("content")

    async def scene() -> None:
        async with open_terminal(tmp_path, [*text("alpha")[:-1], Pause("on"), *text("")], text("beta")) as terminal:
            await terminal.say("go")
            await terminal.until_shown("alpha")
            set_text(terminal.app.composer, "look at @a.txt")
            await terminal.pilot.press("enter")
            await terminal.until_shown("1 message waits")
            await terminal.pilot.press("f7", "e")
            await terminal.until(lambda: terminal.app.composer.draft.prompt.whole == "look at @a.txt", "the text")
            await terminal.type("!", "enter")
            await terminal.until(lambda: "!" in str(terminal.state().queue[0].parts[0]), "the new text")
            assert [type(part) for part in terminal.state().queue[0].parts] == [sc.TextPart, sc.FilePart]
            await terminal.pilot.press("f7", "e")
            await terminal.until(lambda: terminal.app.composer.editing is not None, "the edit")
            terminal.release("on")
            await terminal.until_shown("beta")
            await terminal.pilot.press("enter")
            await terminal.until(lambda: list(terminal.app._notifications), "the refusal")
            assert "it may have been delivered just now" in next(each.message for each in terminal.app._notifications)
            await terminal.until(lambda: terminal.app.composer.draft.prompt.whole == "look at @a.txt!", "the text")
            assert terminal.app.composer.editing is not None

    on_asyncio(scene)
