"""Messages that wait: what is shown of them, and what can be done with them."""

from collections.abc import Awaitable, Callable

from textual.pilot import Pilot

import session_core as sc
from frontends.terminal.panels.message_queue import QueuePanel, queue_line, queue_text
from frontends.terminal.panels.panel import PanelLeft
from tests.frontends.terminal._asyncio import on_asyncio
from tests.frontends.terminal._panels import ASCII, PLAIN, PanelApp

KEPT = (QueuePanel.QueueActionWanted, QueuePanel.QueueMoveRequested, PanelLeft)
PICTURE = sc.ImagePart(media_type="image/png", data="AA==")
FILE = sc.FilePart(name="a.txt", text="a")


def item(number: int, *parts: sc.TextPart | sc.ImagePart | sc.FilePart, source: str | None = None) -> sc.QueueItem:
    """A message that waits."""
    said = parts or (sc.TextPart(text=f"message {number}"),)
    item_id = sc.QueueItemId(f"q{number}")
    return sc.QueueItem(item_id=item_id, parts=said, deliver_as="follow_up", queued_at=number, source=source)


def with_panel(test: Callable[[PanelApp, QueuePanel, Pilot[None]], Awaitable[None]], count: int = 3) -> None:
    """Run a test with so many messages."""

    async def run() -> None:
        panel = QueuePanel()
        app = PanelApp(panel, keep=KEPT)
        async with app.run_test(size=(80, 24)) as pilot:
            panel.show(tuple(item(number) for number in range(1, count + 1)))
            await pilot.pause()
            await test(app, panel, pilot)

    on_asyncio(run)


def told(app: PanelApp) -> list[tuple[str, object]]:
    """Return what the panel has told."""
    said: list[tuple[str, object]] = []
    for each in app.told:
        match each:
            case QueuePanel.QueueActionWanted():
                said.append((each.action, each.item.item_id))
            case QueuePanel.QueueMoveRequested():
                said.append(("move", each.item_ids))
            case _:
                said.append((type(each).__name__, None))
    app.told.clear()
    return said


def test_what_a_message_says_is_one_harmless_line() -> None:
    """Text, pictures, files and who sent it are told in one line."""
    mixed = item(1, sc.TextPart(text="see\n\x1b[2Jthis"), PICTURE, PICTURE, FILE, source="notes\x07")

    assert queue_text(mixed) == "see this [2 images, 1 file]"
    assert queue_text(item(1, PICTURE)) == "[1 image]"
    assert queue_text(item(1, sc.TextPart(text=" "))) == "(empty)"
    line = queue_line(mixed, 4, PLAIN, marked=True)
    assert line.plain == "> 4 when the turn ends, from notes · see this [2 images, 1 file]"
    assert queue_line(item(1), 1, ASCII, marked=False).plain.isascii()


def test_few_are_shown_until_somebody_looks() -> None:
    """Without the focus three messages and how many more there are; with it all, and the keys."""

    async def scene(app: PanelApp, panel: QueuePanel, pilot: Pilot[None]) -> None:
        shown = [line.strip() for line in app.lines if line.strip()]
        assert shown == [
            "─ 5 messages wait · F7 to change " + "─" * 45,
            "1 when the turn ends · message 1",
            "2 when the turn ends · message 2",
            "3 when the turn ends · message 3",
            "… 2 more",
        ]
        panel.focus()
        await pilot.pause()
        assert "> 1 when the turn ends · message 1" in app.picture
        assert "5 when the turn ends · message 5" in app.picture
        assert "5 messages wait · e edit · d remove · s send now · K J move · Esc back ─" in app.picture

    with_panel(scene, 5)


def test_keys_tell_what_is_wanted() -> None:
    """Each key is about the marked message; it never changes anything by itself."""

    async def scene(app: PanelApp, panel: QueuePanel, pilot: Pilot[None]) -> None:
        panel.focus()
        await pilot.press("e", "down", "enter", "d", "down", "down", "s")
        assert told(app) == [
            ("edit", "q1"),
            ("edit", "q2"),
            ("remove", "q2"),
            ("send", "q3"),
        ]
        assert "3 messages wait" in app.picture

    with_panel(scene)


def test_moving_twice_moves_two_places() -> None:
    """A second press counts from the order that was wished for, though the service has not answered yet."""

    async def scene(app: PanelApp, panel: QueuePanel, pilot: Pilot[None]) -> None:
        panel.focus()
        await pilot.press("alt+down", "alt+down", "alt+down", "alt+up")
        assert told(app) == [
            ("move", ("q2", "q1", "q3")),
            ("move", ("q2", "q3", "q1")),
            ("move", ("q2", "q1", "q3")),
        ]
        assert "> 2 when the turn ends · message 1" in app.picture
        panel.restore_order()
        await pilot.pause()
        assert "> 1 when the turn ends · message 1" in app.picture

    with_panel(scene)


def test_the_mark_stays_with_its_message_or_its_place() -> None:
    """When the queue changes the mark stays on its message, or moves to what took its place; an empty queue is left."""

    async def scene(app: PanelApp, panel: QueuePanel, pilot: Pilot[None]) -> None:
        panel.focus()
        await pilot.press("down")
        panel.show((item(2), item(3)))
        await pilot.press("e")
        panel.show((item(3),))
        await pilot.press("e")
        assert told(app) == [("edit", "q2"), ("edit", "q3")]
        panel.show(())
        await pilot.pause()
        assert told(app) == [("PanelLeft", None)]
        assert not panel.display

    with_panel(scene)


def test_a_click_marks_what_is_under_the_mouse() -> None:
    """The message that was clicked is marked, also by the click that gives the panel the focus and more rows."""

    async def scene(app: PanelApp, panel: QueuePanel, pilot: Pilot[None]) -> None:
        panel.focus()
        await pilot.press("down", "down", "down", "down", "down", "down")
        app.query_one("#composer").focus()
        await pilot.pause()
        await pilot.click(QueuePanel, offset=(5, 3))
        await pilot.press("e")
        await pilot.click(QueuePanel, offset=(5, 9))
        await pilot.press("e")
        assert told(app) == [("edit", "q3"), ("edit", "q9")]

    with_panel(scene, 15)
