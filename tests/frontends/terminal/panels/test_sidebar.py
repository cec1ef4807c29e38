"""The list of sessions at the side."""

from collections.abc import Awaitable, Callable
from typing import Any

import attrs
from textual.pilot import Pilot
from textual.widgets import OptionList

import session_core as sc
from frontends.terminal.panels.session_lines import MOST_ROWS
from frontends.terminal.panels.sidebar import Sidebar
from tests.frontends.terminal._asyncio import on_asyncio
from tests.frontends.terminal._panels import PanelApp
from tests.frontends.terminal._staged import NOW_MS, summary

KEPT = (
    Sidebar.ActionWanted,
    Sidebar.NewWanted,
)
WORKS = sc.Activity(name="streaming")


def made(number: int, **more: Any) -> sc.SessionSummary:
    """A session; those with lower numbers are newer, and stand further up."""
    return summary(f"ses_{number}", f"name {number}", **{"created_at": NOW_MS - number, **more})


class SidebarApp(PanelApp):
    """The list with a line to type in beside it."""

    def show(self, *sessions: sc.SessionSummary, viewed: str | None = None) -> None:
        """Show these sessions."""
        session_list = sc.SessionListState()
        session_list.sessions = {each.session_id: each for each in sessions}
        here = None if viewed is None else sc.SessionId(viewed)
        self.query_one(Sidebar).show(session_list, here, here="/projects/shop", now_ms=NOW_MS)


def with_sidebar(test: Callable[[SidebarApp, Sidebar, Pilot[None]], Awaitable[None]]) -> None:
    """Run a test with an empty list."""

    async def run() -> None:
        side = Sidebar()
        app = SidebarApp(side, keep=KEPT)
        async with app.run_test(size=(60, 30)) as pilot:
            await pilot.pause()
            await test(app, side, pilot)

    on_asyncio(run)


def told(app: PanelApp) -> list[tuple[str, ...]]:
    """Return what was told, and forget it."""
    said: list[tuple[str, ...]] = [
        (each.action, each.session_id) if isinstance(each, Sidebar.ActionWanted) else (type(each).__name__,)
        for each in app.told
    ]
    app.told.clear()
    return said


def test_what_each_session_does_is_told_live() -> None:
    """Sessions stand below their folder with what they do, helpers beneath theirs; what ended unseen has a mark."""

    async def scene(app: SidebarApp, side: Sidebar, pilot: Pilot[None]) -> None:
        helper = made(3, parent_id=sc.SessionId("ses_2"), activity=WORKS)
        app.show(made(1), made(2, activity=WORKS), helper, made(4, cwd="/other"), viewed="ses_1")
        await pilot.pause()
        shown = [line.strip(" ▊▎│┃|").rstrip() for line in app.lines if line.strip()]
        assert shown[:9] == [
            "/projects/shop",
            "▸ ○ name 1",
            "1 min ago",
            "● name 2",
            "answering",
            "● name 3",
            "answering",
            "/other",
            "○ name 4",
        ]
        assert side.order == ["ses_1", "ses_2", "ses_4"]
        app.show(made(1), made(2), helper, made(4, cwd="/other"), viewed="ses_1")
        await pilot.pause()
        assert "* ○ name 2" in app.picture
        assert "done, 1 min ago" in app.picture

    with_sidebar(scene)


def test_keys_are_about_the_marked_session() -> None:
    """Each key tells what is wanted of the session that is marked; nothing is done by the list itself."""

    async def scene(app: SidebarApp, side: Sidebar, pilot: Pilot[None]) -> None:
        app.show(made(1), made(2), made(3), viewed="ses_2")
        side.focus_list()
        await pilot.press("s", "S", "down", "r", "a", "d", "up", "up", "enter", "n")
        assert told(app) == [
            ("stop", "ses_2"),
            ("stop_subtree", "ses_2"),
            ("rename", "ses_3"),
            ("archive", "ses_3"),
            ("delete", "ses_3"),
            ("view", "ses_1"),
            ("NewWanted",),
        ]

    with_sidebar(scene)


def test_a_key_never_hits_the_neighbour_of_a_session_that_is_gone() -> None:
    """When the marked session vanishes nothing is marked; a move marks what is near its place."""

    async def scene(app: SidebarApp, side: Sidebar, pilot: Pilot[None]) -> None:
        sessions = [made(number, activity=WORKS) for number in range(5)]
        app.show(*sessions)
        side.focus_list()
        await pilot.press("down", "down", "down")
        del sessions[3]
        app.show(*sessions)
        await pilot.press("s", "S", "a", "d", "r", "enter")
        assert told(app) == []
        await pilot.press("down", "s")
        assert told(app) == [("stop", "ses_4")]
        del sessions[0]
        app.show(*sessions)
        await pilot.press("s")
        assert told(app) == [("stop", "ses_4")]

    with_sidebar(scene)


def test_the_mark_stays_with_its_session() -> None:
    """Whatever comes and goes around the marked session, and whatever it does, the mark stays on it."""

    async def scene(app: SidebarApp, side: Sidebar, pilot: Pilot[None]) -> None:
        app.show(made(2), made(4))
        side.focus_list()
        await pilot.press("down")
        for others in ([made(1), made(2), made(3)], [made(3, activity=WORKS)], []):
            app.show(*others, made(4, activity=WORKS))
            await pilot.press("s")
        assert told(app) == [("stop", "ses_4")] * 3

    with_sidebar(scene)


def test_searching() -> None:
    """Typing leaves the sessions that fit, Enter views the marked one, and Esc shows all again."""

    async def scene(app: SidebarApp, side: Sidebar, pilot: Pilot[None]) -> None:
        app.show(made(1), attrs.evolve(made(2), name="about fish"), made(3))
        side.focus_list()
        await pilot.press("slash", "f", "i", "s", "h")
        assert "about fish" in app.picture
        assert "name 1" not in app.picture
        await pilot.press("x")
        assert "no match" in app.picture
        await pilot.press("enter")
        assert told(app) == []
        await pilot.press("backspace", "enter")
        assert told(app) == [("view", "ses_2")]
        assert "name 1" in app.picture

    with_sidebar(scene)


def test_there_is_a_bound() -> None:
    """Of very many sessions so many are listed, and it is said how many more there are."""

    async def scene(app: SidebarApp, side: Sidebar, pilot: Pilot[None]) -> None:
        app.show(*(made(number) for number in range(MOST_ROWS + 100)))
        side.query_one(OptionList).scroll_end(animate=False)
        await pilot.pause()
        assert "101 more; / finds them" in app.picture

    with_sidebar(scene)
