"""Leaving the terminal, and what keys do before that."""

from pathlib import Path

import pytest

import session_core as sc
from frontends.terminal.composer.attached_files import Attachment
from session_core.testing.scripted import text
from tests._mostly_slow import mostly_slow
from tests.frontends.terminal._asyncio import on_asyncio
from tests.frontends.terminal._composing import set_text
from tests.frontends.terminal._harness import Terminal, open_terminal
from tests.frontends.terminal._staged import open_stage, session, summary
from tests.frontends.terminal.test_app import endless


def has_left(terminal: Terminal) -> bool:
    return terminal.app._exit or not terminal.app.is_running


def test_ctrl_c_copies_what_is_selected(tmp_path: Path) -> None:
    """Ctrl+C copies what is selected in the input and deletes nothing; without a selection it clears."""

    async def scene() -> None:
        async with open_terminal(tmp_path) as terminal:
            await terminal.type("hello world")
            await terminal.pilot.press("shift+left", "shift+left", "shift+left", "ctrl+c")
            await terminal.until_shown("3 characters copied")
            assert (terminal.app.clipboard, terminal.app.composer.draft.prompt.whole) == ("rld", "hello world")
            await terminal.pilot.press("ctrl+c")
            await terminal.until(lambda: terminal.app.composer.is_empty, "an empty composer")

    on_asyncio(scene)


@pytest.mark.parametrize("way", mostly_slow(["ctrl+d", "/quit", "/exit"], quick=1))
def test_leaving_that_ends_work_is_asked_twice(tmp_path: Path, way: str) -> None:
    """With the service in this process, leaving while something runs says what it ends, and wants to be said twice."""

    async def leave(terminal: Terminal) -> None:
        if way == "ctrl+d":
            await terminal.pilot.press(way)
        else:
            set_text(terminal.app.composer, way)
            await terminal.pilot.press("enter")

    async def scene() -> None:
        async with open_terminal(tmp_path, endless("on and"), embedded=True) as terminal:
            await terminal.say("go")
            await terminal.until_shown("on and")
            await leave(terminal)
            await terminal.until_shown("ends the work")
            assert not has_left(terminal)
            await leave(terminal)
            await terminal.until(lambda: has_left(terminal), "the end")

    on_asyncio(scene)


@pytest.mark.parametrize("embedded", [True, False])
def test_leaving_that_ends_nothing_is_quick(tmp_path: Path, *, embedded: bool) -> None:
    """Ctrl+D leaves at once when nothing runs, or when the work goes on without the terminal."""

    async def scene() -> None:
        answer = text("done") if embedded else endless("on and")
        async with open_terminal(tmp_path, answer, embedded=embedded) as terminal:
            await terminal.say("go")
            await terminal.until_shown("idle" if embedded else "on and")
            await terminal.pilot.press("ctrl+d")
            await terminal.until(lambda: has_left(terminal), "the end")

    on_asyncio(scene)


def test_attachments_are_not_thrown_away(tmp_path: Path) -> None:
    """Ctrl+D does not leave while something is attached; Ctrl+C takes it out before it leaves."""

    async def scene() -> None:
        async with open_stage(tmp_path) as stage:
            await stage.show(session(), summary("s1", "another"))
            composer = stage.app.composer
            file = Attachment(name="f", part=sc.FilePart(name="f", text="t"))
            composer._show_attached((file,))
            await stage.pilot.press("ctrl+d")
            assert not stage.app._exit
            await stage.pilot.press("ctrl+c")
            await stage.settle()
            assert composer.is_empty
            await stage.pilot.press("ctrl+d")
            assert stage.app._exit

    on_asyncio(scene)
