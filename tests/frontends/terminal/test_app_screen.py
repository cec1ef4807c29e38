"""The whole screen: what is drawn where, where keys go, and what is written without colours."""

import re
from pathlib import Path

import pytest
from textual.widgets._toast import Toast

import session_core as sc
from frontends.terminal.panels.status_line import StatusLine
from session_core.vocabulary.messages import Role
from tests._mostly_slow import mostly_slow
from tests.frontends.terminal._asyncio import on_asyncio
from tests.frontends.terminal._staged import NOW_MS, Stage, conversation, open_stage, session, summary

WORDS = "abc " * 100
LIMITED = sc.Activity(name="rate_limited", retry_at=NOW_MS + 14_000)
_STYLED = re.compile(r"\x1b\[([0-9;]*)m")


def said(times: int) -> list[sc.Message]:
    """So many long answers."""
    one: tuple[Role, list[sc.Part]] = ("assistant", [sc.TextPart(text=WORDS.strip())])
    return conversation(*[one] * times)


@pytest.mark.slow
def test_nothing_is_lost_when_a_scrollbar_appears(tmp_path: Path) -> None:
    """A conversation that outgrows the screen is drawn for the width that the scrollbar leaves."""

    async def scene() -> None:
        async with open_stage(tmp_path, size=(61, 20)) as stage:
            await stage.show(session(said(1)))
            await stage.show(session(said(6)))
            words = {word for line in stage.text.split("\n")[:-1] for word in line.split() if word[0] == "a"}
            assert {"abc"} <= words <= {"abc", "ask"}, "the composer asks"

    on_asyncio(scene)


def test_a_new_session_is_followed(tmp_path: Path) -> None:
    """Whoever begins a new session after a long one sees the end of what is said there."""

    async def scene() -> None:
        async with open_stage(tmp_path, size=(61, 20)) as stage:
            await stage.show(session(said(6)))
            await stage.show(None)
            await stage.show(session(said(1), session_id=sc.SessionId("ses_new")))
            assert stage.app.main.transcript.following
            await stage.show(session(said(6), session_id=sc.SessionId("ses_new")))
            assert "more below" not in stage.text

    on_asyncio(scene)


@pytest.mark.parametrize(
    ("key", "told"),
    mostly_slow(
        [("f6", "no conversation"), ("f7", "the queue is empty"), ("f9", "no extension shows anything")], quick=1
    ),
)
def test_keys_stay_where_they_can_be_seen(tmp_path: Path, key: str, told: str) -> None:
    """A key that leads to something that is not there says so, and what is typed next is in the composer."""

    async def scene() -> None:
        async with open_stage(tmp_path) as stage:
            await stage.show(None)
            await stage.pilot.press(key, "h", "i")
            await stage.settle()
            assert told in stage.text
            assert stage.app.composer.draft.prompt.whole == "hi"

    on_asyncio(scene)


def test_a_screen_that_is_being_taken_apart(tmp_path: Path) -> None:
    """While the terminal is closed, and some of its parts are gone already, nothing is drawn, and nothing fails."""

    async def scene() -> None:
        async with open_stage(tmp_path) as stage:
            await stage.show(session(said(1)))
            assert stage.app.main.is_complete
            await stage.app.screen.query_one(StatusLine).remove()
            stage.app.main.tick()
            stage.app.redraw()
            await stage.settle()
            assert not stage.app.main.is_complete

    on_asyncio(scene)


@pytest.mark.slow
def test_what_is_told_covers_no_prompt(tmp_path: Path) -> None:
    """What is told for a while stands above the place where people type."""

    async def scene() -> None:
        async with open_stage(tmp_path) as stage:
            await stage.show(session(said(6)))
            for _ in range(2):
                for number in range(3):
                    stage.app.context.tell(f"told {number}", seconds=600)
                await stage.settle()
                shown = [each.region for each in stage.app.screen.query(Toast)]
                assert len(shown) == 3
                assert max(each.bottom for each in shown) == stage.app.composer.region.y
                stage.app.clear_notifications()
                await stage.settle()

    on_asyncio(scene)


def test_how_long_a_limit_lasts_can_be_read(tmp_path: Path) -> None:
    """In the list of sessions there is room for when a limited session tries again, and what waits in it."""

    async def scene() -> None:
        async with open_stage(tmp_path, size=(120, 30)) as stage:
            await stage.show(session(said(1)), summary("ses_2", "other", activity=LIMITED, queued=2))
            assert "limited, 14.0 s, 2 queued" in stage.text

    on_asyncio(scene)


@pytest.mark.parametrize("theme", mostly_slow(["session-dark", "session-light", "ansi-dark", "ansi-light"], quick=1))
def test_without_colours_the_terminal_keeps_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, theme: str
) -> None:
    """With NO_COLOR no colour is written in any theme, and what is marked is reversed."""
    monkeypatch.setenv("NO_COLOR", "yes")

    async def scene() -> None:
        async with open_stage(tmp_path, theme=theme) as stage:
            await _look_around(stage)
            codes = {code for found in _STYLED.findall(stage.driver.take()) for code in found.split(";")}
            assert {"0", "1", "2", "7"} <= codes <= {"", "0", "1", "2", "3", "4", "7", "9"}
            marked = [text for row in stage.cells() for text, style in row if style is not None and style.reverse]
            assert any("a session" in text for text in marked)

    on_asyncio(scene)


def test_an_empty_wish_for_no_colours_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With NO_COLOR set to nothing the terminal has its colours."""
    monkeypatch.setenv("NO_COLOR", "")

    async def scene() -> None:
        async with open_stage(tmp_path) as stage:
            await stage.show(session(said(1)))
            styles = [style for row in stage.cells() for _, style in row if style is not None]
            shades = [each.color.get_truecolor() for each in styles if each.color is not None]
            assert any(len(set(shade)) > 1 for shade in shades)

    on_asyncio(scene)


async def _look_around(stage: Stage) -> None:
    """Have a conversation, the list of sessions with the focus, and something told on the screen."""
    await stage.show(session(said(6)))
    await stage.pilot.press("f2")
    stage.app.context.tell("something", "error")
    await stage.settle()
