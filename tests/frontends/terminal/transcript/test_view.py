"""The conversation on the screen: what stays where it is, and what can be done with it."""

from collections.abc import Awaitable, Callable
from typing import Any

from textual.pilot import Pilot

import session_core as sc
from frontends.shared.conversation.blocks import Block, RemarkBlock, UserMessageBlock
from frontends.terminal.transcript.view import Transcript
from tests.frontends.terminal._asyncio import on_asyncio
from tests.frontends.terminal._drawing import LOOK, call, result
from tests.frontends.terminal._panels import PanelApp

ROWS = 20
KEPT = (
    Transcript.OlderWanted,
    Transcript.EditWanted,
    Transcript.BranchWanted,
    Transcript.CopyWanted,
    Transcript.OpenWanted,
)


def remark(number: int, rows: int = 1) -> RemarkBlock:
    """A block of so many rows."""
    return RemarkBlock(key=f"r{number}", text="\n".join([f"remark {number}", *["more"] * (rows - 1)]))


def said(number: int) -> UserMessageBlock:
    """Something that a person has said."""
    return UserMessageBlock(key=f"m{number}", message_id=sc.MessageId(f"m{number}"), text=f"say {number}", created_at=0)


def remarks(first: int, last: int) -> tuple[Block, ...]:
    """Blocks with these numbers."""
    return tuple(remark(number) for number in range(first, last))


class TranscriptApp(PanelApp):
    """A conversation on a screen of its own."""

    CSS = "#above { display: none; } #column { height: 1fr; } Transcript { height: 1fr; }"

    @property
    def shown(self) -> list[str]:
        """What can be seen of the conversation, without empty rows."""
        return [text for line in self.lines[:ROWS] if (text := line.strip("▌· █▁▂▃▄▅▆▇"))]


def with_transcript(test: Callable[[TranscriptApp, Transcript, Pilot[None]], Awaitable[None]]) -> None:
    """Run a test with an empty conversation."""

    async def run() -> None:
        transcript = Transcript(LOOK)
        app = TranscriptApp(transcript, keep=KEPT)
        async with app.run_test(size=(60, ROWS + 1)) as pilot:
            await pilot.pause()
            await test(app, transcript, pilot)

    on_asyncio(run)


def told(app: PanelApp) -> list[tuple[str, Any]]:
    """Return what was told, and forget it."""
    names = ("block", "text", "session_id")
    found = [
        (type(each).__name__, next((vars(each)[name] for name in names if name in vars(each)), None))
        for each in app.told
    ]
    app.told.clear()
    return [(name, value.key if isinstance(value, UserMessageBlock) else value) for name, value in found]


def test_whoever_is_at_the_end_stays_there() -> None:
    """As a conversation grows its end is in sight, and so is the end of another one that is shown instead."""

    async def scene(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        for last in (1, 5, 50, 120):
            transcript.show("a", remarks(0, last))
            await pilot.pause()
            assert app.shown[-1] == f"remark {last - 1}"
            assert transcript.following
        await pilot.press("shift+tab", "home")
        transcript.show("b", remarks(200, 300))
        await pilot.pause()
        assert app.shown[-1] == "remark 299"
        assert transcript.following

    with_transcript(scene)


def test_whoever_has_scrolled_away_is_never_moved() -> None:
    """What is looked at stays on the same rows when something comes below, comes above, or grows above it."""

    async def scene(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        blocks = remarks(100, 160)
        transcript.show("a", blocks)
        await pilot.pause()
        transcript.scroll_to(y=transcript.scroll_y - 30, animate=False, immediate=True)
        await pilot.pause()
        before = app.shown
        assert not transcript.following
        assert "remark 159" not in before
        transcript.show("a", (*blocks, *remarks(160, 190)))
        await pilot.pause()
        assert app.shown == before
        transcript.show("a", (*remarks(0, 100), *blocks, *remarks(160, 190)))
        await pilot.pause()
        assert app.shown == before
        laid_out = transcript._layout.first
        grown = list(transcript._layout.blocks)
        grown[laid_out] = RemarkBlock(key=grown[laid_out].key, text="\n".join(["it"] * 9))
        transcript.show("a", tuple(grown))
        await pilot.pause()
        assert app.shown == before
        transcript.action_newest()
        await pilot.pause()
        assert app.shown[-1] == "remark 189"

    with_transcript(scene)


def test_older_ones_are_wanted_once_at_the_beginning() -> None:
    """Whoever comes to the oldest block there is asks for older ones, once for what is shown."""

    async def scene(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        transcript.show("a", remarks(100, 400))
        await pilot.pause()
        assert told(app) == []
        transcript.focus()
        for _ in range(6):
            await pilot.press("home")
            await pilot.pause()
        assert told(app) == [("OlderWanted", None)]
        assert app.shown[0] == "remark 100"
        transcript.show("a", remarks(0, 400))
        await pilot.pause()
        assert "remark 100" in app.shown
        for _ in range(6):
            await pilot.press("home")
            await pilot.pause()
        assert told(app) == [("OlderWanted", None)]
        assert app.shown[0] == "remark 0"

    with_transcript(scene)


def test_keys_are_about_the_chosen_block() -> None:
    """A block is chosen by arrows; then it is copied, said differently, and its helper's session is opened."""

    async def scene(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        task = call("task", {"prompt": "look"}, result("task", "done"), child_id=sc.SessionId("ses_child"))
        transcript.show("a", (said(1), remark(2), task))
        transcript.focus()
        await pilot.press("c", "e", "b", "o")
        assert told(app) == []
        await pilot.press("up", "c", "e", "o")
        assert told(app) == [("CopyWanted", "done"), ("OpenWanted", "ses_child")]
        await pilot.press("up", "o", "up", "c", "e", "b", "o")
        assert told(app) == [("CopyWanted", "say 1"), ("EditWanted", "m1"), ("BranchWanted", "m1")]

    with_transcript(scene)


def test_a_block_is_shown_whole_or_in_short() -> None:
    """Enter and a click show more of a block and less again; all of them can be shown whole at once."""

    async def scene(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        text = "\n".join(f"line {number}" for number in range(12))
        transcript.show("a", (call("other", {}, result("other", text)),))
        await pilot.pause()
        assert "line 11" not in app.shown
        transcript.focus()
        await pilot.press("up", "enter")
        assert "line 11" in app.shown
        await pilot.click(Transcript, offset=(4, 0))
        assert "line 11" not in app.shown
        transcript.expand_all(expanded=True)
        await pilot.pause()
        assert "line 11" in app.shown

    with_transcript(scene)


def test_a_message_is_found() -> None:
    """A message far above is scrolled to and chosen; one that is not there is not; where all is seen, none is below."""

    async def scene(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        transcript.show("a", (*remarks(0, 50), said(7), *remarks(50, 300)))
        await pilot.pause()
        assert not transcript.show_message("m8")
        assert transcript.show_message("m7")
        await pilot.pause()
        assert "> say 7" in app.shown
        assert transcript.chosen is not None
        assert transcript.chosen.key == "m7"
        assert not transcript.following
        transcript.show("b", (said(8),))
        await pilot.pause()
        assert transcript.show_message("m8")
        assert transcript.following, "nothing is below"

    with_transcript(scene)
