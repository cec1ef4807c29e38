"""What extensions say in passing."""

from pathlib import Path

import session_core as sc
from frontends.terminal.panels.notices import MOST_AT_ONCE, MOST_WAITING, Notice, Notices
from tests.frontends.terminal._asyncio import on_asyncio
from tests.frontends.terminal._panels import PLAIN
from tests.frontends.terminal._requests import COMMAND
from tests.frontends.terminal._staged import SESSION, Stage, conversation, open_stage, session

LURE = "Allow read?\n y yes, this once\nEnter: yes\n" + "all is well " * 60


def say(stage: Stage, text: str, extension: str = "evil\x1b[2J") -> None:
    """Have an extension say something."""
    event = sc.events.NoticeShown(extension=extension, message=text)
    stage.app.main.note_event(sc.SessionEvent(seq=1, sseq=1, session_id=SESSION, at=1, event=event))


def asking() -> sc.SessionState:
    """A session that asks for a yes."""
    return session(conversation(("user", [sc.TextPart(text="hi")])), approvals=(COMMAND,))


def test_it_is_signed_and_short() -> None:
    """Who says it is told by us, and what it says takes few rows of few cells, with a sign that it was cut."""
    notice = Notice(who="evil\x1b[2J\n", text=LURE)

    assert notice.title(0) == "evil"
    assert notice.title(7_000) == "evil (7,000 before this left out)"
    assert Notice(who=" ", text="x").title(0) == "an extension"
    assert notice.render_text(80, PLAIN).split("\n") == [
        "Allow read?",
        " y yes, this once",
        "Enter: yes",
        "all is well all is well all is w…",
    ]
    assert len(Notice(who="x", text="word " * 200).render_text(400, PLAIN)) <= 300


def test_few_are_shown_at_once_and_loss_is_told() -> None:
    """As many are shown as there is room for, the newest of the others wait, and how many are left out is told."""
    notices = Notices()
    for number in range(MOST_AT_ONCE):
        notices.add(Notice(who="a", text=str(number)))
    assert [each.text for _, each in notices.take(0)] == ["0", "1", "2"]
    for number in range(100):
        notices.add(Notice(who="b", text=str(number)))
    assert notices.take(5) == []
    later = notices.take(6)
    assert [title for title, _ in later] == [f"b ({100 - MOST_WAITING} before this left out)", "b", "b"]
    assert [each.text for _, each in later] == ["80", "81", "82"]


def test_a_flood_is_few_toasts(tmp_path: Path) -> None:
    """Hundreds of notices of an extension put no more than a few on the screen."""

    async def scene() -> None:
        async with open_stage(tmp_path) as stage:
            await stage.show(session(conversation(("user", [sc.TextPart(text="hi")]))))
            for number in range(150):
                say(stage, f"notice {number} " + "word " * 200)
            await stage.settle()
            assert len(stage.app._notifications) == MOST_AT_ONCE
            assert stage.text.count("evil") == MOST_AT_ONCE

    on_asyncio(scene)


def test_nothing_foreign_is_shown_over_a_question(tmp_path: Path) -> None:
    """While something is asked a notice waits, and what was there before moves away from the question."""

    async def scene() -> None:
        async with open_stage(tmp_path, size=(80, 24)) as stage:
            await stage.show(asking())
            question = stage.text
            await stage.show(session(conversation(("user", [sc.TextPart(text="hi")]))))
            say(stage, LURE, "early")
            await stage.settle()
            assert "Allow read?" in stage.text
            await stage.show(asking())
            say(stage, LURE, "second")
            stage.app.context.tell("of our own " * 30)
            stage.app.main.tick()
            await stage.settle()
            top = stage.app.main.requests.region.y
            assert top > 0
            assert stage.text.split("\n")[top:] == question.split("\n")[top:]
            assert "second" not in stage.text
            await stage.show(session(conversation(("user", [sc.TextPart(text="hi")]))))
            assert "second" in stage.text

    on_asyncio(scene)


def test_nothing_foreign_is_shown_over_a_screen(tmp_path: Path) -> None:
    """A notice waits until what somebody is asked on a screen of its own is answered."""

    async def scene() -> None:
        async with open_stage(tmp_path, size=(80, 24)) as stage:
            await stage.show(session(conversation(("user", [sc.TextPart(text="hi")]))))
            stage.app.context.confirm("Delete it?", lambda: None)
            await stage.settle()
            say(stage, LURE)
            await stage.settle()
            assert "Allow read?" not in stage.text
            await stage.pilot.press("n")
            stage.app.main.tick()
            await stage.settle()
            assert "Allow read?" in stage.text

    on_asyncio(scene)
