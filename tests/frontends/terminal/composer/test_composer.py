"""The composer as a whole: sending, history, suggestions, pastes, attachments; and nothing written is ever lost."""

from pathlib import Path

import anyio
import attrs
import pytest
from textual.widgets import TextArea

import session_core as sc
from frontends.terminal.composer import attached_files
from frontends.terminal.composer.attached_files import Attachment
from frontends.terminal.composer.completion import Completer, Suggestion
from frontends.terminal.composer.drafts import PromptSubmission
from frontends.terminal.composer.editor import Editor
from frontends.terminal.composer.popup import Chips, Popup
from frontends.terminal.options import EditTarget
from tests.frontends.terminal._asyncio import on_asyncio
from tests.frontends.terminal._composing import PNG, completer_of, composing, set_text

BIG = "\n".join(f"line {n}" for n in range(1, 13))
LABEL = "[pasted 12 lines #1]"
OLD = EditTarget(message_id=sc.MessageId("m1"))
COMMANDS = completer_of(
    lambda: [
        Suggestion(value="help", detail="what the keys do"),
        Suggestion(value="model ", label="model NAME", detail="choose a model"),
        Suggestion(value="compact", detail="shorten the conversation"),
    ]
)


def test_sending() -> None:
    """Enter sends what is there at that moment, however fast one types on; Alt+S steers; blanks are not sent."""

    async def play() -> None:
        async with composing() as hands:
            await hands.press("enter")
            await hands.type("  hello ")
            await hands.press("enter w o r ctrl+j l d alt+s ctrl+j enter")

            assert [("sent", "hello", 0, ()), ("steer", "wor\nld", 0, ())] == hands.app.told
            assert "\n" == hands.written

    on_asyncio(play)


def test_marks() -> None:
    """A line for the shell shows that it is one; commands and doubled marks go where they belong."""

    async def play() -> None:
        async with composing() as hands:
            await hands.type("!ls -l")
            assert ["─shell line" + "─" * 49, "$ !ls -l"] == hands.screen
            await hands.press("enter")
            assert ["─" * 60, "> Ask [b]anything"] == hands.screen
            for typed in ("/model a b", "!!really", "//help"):
                await hands.type(typed)
                await hands.press("enter")

            assert [
                ("shell", "ls -l"),
                ("slash", "model", "a b"),
                ("sent", "!really", 0, ()),
                ("sent", "/help", 0, ()),
            ] == hands.app.told

    on_asyncio(play)


def test_it_grows_and_stays_within_a_third() -> None:
    """The input is as high as its text, up to a third of the screen, whose size it follows, and counts its lines."""

    async def play() -> None:
        async with composing(size=(40, 24)) as hands:
            await hands.type("x" * 60)
            await hands.settle()
            assert ["─" * 40, "> " + "x" * 37, "  " + "x" * 23] == hands.screen
            set_text(hands.composer, "\n".join("0123456789abcdef"))
            await hands.settle()
            assert 9 == len(hands.screen) <= 1 + 24 // 3
            assert "─16 lines" + "─" * 31 == hands.screen[0]
            assert "  f" == hands.screen[-1].rstrip("▁▂▃▄▅▆▇█ ")
            await hands.pilot.resize_terminal(20, 12)
            await hands.settle()
            assert 5 == len(hands.screen)

    on_asyncio(play)


def test_what_is_shown_around_it() -> None:
    """A busy session says what Enter does, unless what is written replaces something."""

    async def play() -> None:
        async with composing() as hands:
            await hands.type("draft")
            hands.composer.show(busy=True, placeholder="")
            await hands.settle()
            assert "─Enter queues, Alt+S steers" + "─" * 33 == hands.screen[0]
            hands.composer.edit_message(OLD, [sc.TextPart(text="old")])
            await hands.settle()
            assert "─edit" + "─" * 55 == hands.screen[0]

    on_asyncio(play)


def test_what_a_busy_session_says_of_other_things() -> None:
    """While a turn runs, a shell line says that it must wait, and a command says nothing of queues."""

    async def play() -> None:
        async with composing() as hands:
            hands.composer.show(busy=True, placeholder="")
            set_text(hands.composer, "!ls")
            await hands.settle()
            assert "─shell line - runs only after the turn has ended" + "─" * 12 == hands.screen[0]
            set_text(hands.composer, "/model")
            await hands.settle()
            assert "─" * 60 == hands.screen[0]

    on_asyncio(play)


def test_walking_the_history(tmp_path: Path) -> None:
    """Up and Down go through what was sent, here and elsewhere, and come back to the draft with its changes."""
    file = tmp_path / "prompts.jsonl"

    async def first() -> None:
        async with composing(history=file) as hands:
            await hands.type("one")
            await hands.press("enter")
            await hands.type("two")
            await hands.press("ctrl+j b enter")
            await hands.settle()

    async def second() -> None:
        async with composing(history=file) as hands:
            await hands.paste(BIG)
            await hands.press("enter d r a f t up")
            assert LABEL == hands.written
            assert BIG == hands.composer.draft.prompt.whole
            await hands.press("x up")
            assert "two\nb" == hands.written
            await hands.press("up up up up")
            assert "one" == hands.written
            await hands.press("down down")
            assert f"{LABEL}x" == hands.written
            await hands.press("down down down")
            assert "draft" == hands.written
            await hands.press("up ctrl+underscore")
            assert "draft" == hands.written

    on_asyncio(first)
    on_asyncio(second)
    assert 3 == len(file.read_bytes().splitlines())


def test_arrows_within_a_text() -> None:
    """Up and Down move within a text of several lines, wrapped or not, before they walk the history."""

    async def play() -> None:
        async with composing(size=(20, 24)) as hands:
            await hands.type("old")
            await hands.press("enter")
            await hands.type("x" * 30)
            await hands.press("up")
            assert "x" * 30 == hands.written
            await hands.press("up")
            assert "old" == hands.written
            await hands.press("down")
            assert "x" * 30 == hands.written

    on_asyncio(play)


def test_searching_the_history(tmp_path: Path) -> None:
    """Ctrl+R finds earlier prompts by words; Enter takes one, Esc goes back, and the draft is never lost."""
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"text": "fix the parser"}\n{"text": "write the docs"}\n{"text": "fix the docs"}\n')

    async def play() -> None:
        async with composing(history=file) as hands:
            await hands.type("draft")
            await hands.press("ctrl+r f i x")
            assert [
                "─search earlier prompts" + "─" * 37,
                " > fix the docs",
                "   fix the parser",
                "? fix",
            ] == hands.screen
            assert "draft" == hands.written
            await hands.press("escape")
            assert ["─" * 60, "> draft"] == hands.screen
            await hands.press("ctrl+r f i x ctrl+r enter")
            assert ("fix the parser", []) == (hands.written, hands.app.told)
            await hands.press("down down down")
            assert "draft" == hands.written
            await hands.press("ctrl+r z z")
            assert "   no such prompt; Esc goes back".strip() == hands.screen[1].strip()
            await hands.press("enter escape enter")
            assert [("sent", "draft", 0, ())] == hands.app.told

    on_asyncio(play)


def test_a_send_that_fails() -> None:
    """What could not be sent comes back as it was written, before what was written since."""

    async def play() -> None:
        async with composing() as hands:
            picture = Attachment(name="p", part=sc.ImagePart(media_type="image/png", data="aaaa"))
            file = Attachment(name="f", part=sc.FilePart(name="f", text="t"))
            await hands.type("see ")
            await hands.paste(BIG)
            await hands.press("enter")
            hands.composer.restore(attrs.evolve(hands.app.said[-1], attached=(picture,)))
            assert f"see {LABEL}" == hands.written
            await hands.press("enter")
            await hands.type("next")
            hands.composer.restore(attrs.evolve(hands.app.said[-1], attached=(picture, file)))
            assert f"see {LABEL}\n\nnext" == hands.written
            await hands.press("enter")

            assert [
                ("sent", f"see {BIG}", 0, ()),
                ("sent", f"see {BIG}", 1, ()),
                ("sent", f"see {BIG}\n\nnext", 1, ("f",)),
            ] == hands.app.told
            assert hands.composer.is_empty

    on_asyncio(play)


def test_a_message_that_looks_like_a_command_comes_back() -> None:
    """What was sent as a message is a message again when it comes back, and never becomes a line for the shell."""

    async def play() -> None:
        async with composing() as hands:
            await hands.type("!!rm x")
            await hands.press("enter")
            hands.composer.restore(hands.app.said[-1])
            await hands.press("enter")
            hands.composer.edit_message(OLD, [sc.TextPart(text="/help me")])
            await hands.press("enter")
            hands.composer.restore(PromptSubmission(text="!rm y", target=hands.composer.get_target()))
            await hands.press("enter")

            said = ("!rm x", "!rm x", "/help me", "!rm y")
            assert [("sent", text, 0, ()) for text in said] == hands.app.told

    on_asyncio(play)


def test_saying_a_message_differently() -> None:
    """While an old message is rewritten, the draft waits; it comes back when that is sent, or given up."""

    async def play() -> None:
        async with composing() as hands:
            composer = hands.composer
            picture = sc.ImagePart(media_type="image/png", data="aaaa")
            await hands.type("draft")
            composer.edit_message(EditTarget(message_id=sc.MessageId("m0")), [sc.TextPart(text="first")])
            composer.edit_message(OLD, [sc.TextPart(text="old"), picture, sc.FilePart(name="f", text="t")])
            await hands.press("! enter")
            assert (("sent", "old!", 1, ("f",)), "draft") == (hands.app.told[-1], hands.written)
            assert (OLD, None) == (hands.app.said[-1].editing, composer.editing)
            composer.edit_message(OLD, [sc.TextPart(text="old")])
            composer.clear()
            assert ("draft", None) == (hands.written, composer.editing)
            await hands.press("up enter")
            assert (("sent", "old!", 0, ()), "draft") == (hands.app.told[-1], hands.written)
            assert hands.app.said[-1].editing is None
            composer.clear()
            assert composer.is_empty

    on_asyncio(play)


def test_commands_leave_an_edit_alone() -> None:
    """A command or a shell line that is typed while something is edited ends neither the edit nor the draft."""

    async def play() -> None:
        async with composing() as hands:
            await hands.type("draft")
            for typed in ("/usage", "!ls"):
                hands.composer.edit_message(OLD, [sc.TextPart(text="old")])
                set_text(hands.composer, typed)
                await hands.press("enter")
                assert (OLD, "") == (hands.composer.editing, hands.written)
                await hands.type("new")
                await hands.press("enter")
                assert (OLD, None, "draft") == (hands.app.said[-1].editing, hands.composer.editing, hands.written)

    on_asyncio(play)


def test_an_edit_and_a_message_come_back_apart() -> None:
    """A message that comes back does not get into what is being edited, and an edit that comes back is one again."""

    async def play() -> None:
        async with composing() as hands:
            composer = hands.composer
            await hands.type("message")
            await hands.press("enter d r a f t")
            composer.edit_message(OLD, [sc.TextPart(text="old")])
            composer.restore(hands.app.said[-1])
            assert (OLD, "old") == (composer.editing, hands.written)
            await hands.press("enter")
            assert (None, "message\n\ndraft") == (composer.editing, hands.written)
            composer.restore(hands.app.said[-1])
            assert (OLD, "old") == (composer.editing, hands.written)
            composer.clear()
            assert (None, "message\n\ndraft") == (composer.editing, hands.written)

    on_asyncio(play)


def test_a_huge_message_comes_back_as_a_label() -> None:
    """A message too large to be edited quickly is one label when it comes back, and is sent as it was."""

    async def play() -> None:
        async with composing() as hands:
            huge = "!word " * 10_000 + "end"
            hands.composer.edit_message(OLD, [sc.TextPart(text=huge)])
            assert "[pasted 60,004 characters #1]" == hands.written
            await hands.press("enter")

            assert [("sent", huge, 0, ())] == hands.app.told

    on_asyncio(play)


def test_drafts_are_put_aside() -> None:
    """A draft can be taken out whole and put back, and clearing can be undone."""

    async def play() -> None:
        async with composing() as hands:
            await hands.type("a ")
            await hands.paste(BIG)
            draft = hands.composer.draft
            hands.composer.clear()
            assert hands.composer.is_empty
            hands.composer.draft = draft
            assert draft == hands.composer.draft
            assert f"a {BIG}" == hands.composer.draft.prompt.whole
            hands.composer.clear()
            await hands.press("ctrl+underscore")
            assert f"a {BIG}" == hands.composer.draft.prompt.whole

    on_asyncio(play)


def test_commands_are_suggested() -> None:
    """A slash opens the commands; letters filter, arrows choose, Tab takes, Enter takes and runs what is complete."""

    async def play() -> None:
        async with composing() as hands:
            hands.composer.set_completers({"/": COMMANDS})
            await hands.type("/")
            await hands.settle()
            assert [
                "─" * 60,
                " > help        what the keys do",
                "   model NAME  choose a model",
                "   compact     shorten the conversation",
                "> /",
            ] == hands.screen
            await hands.press("up")
            assert " > compact     shorten the conversation" == hands.screen[3]
            await hands.press("tab")
            await hands.settle()
            assert "/compact" == hands.written
            hands.composer.clear()
            await hands.type("/mo")
            await hands.settle()
            await hands.press("enter")
            await hands.settle()
            assert ("/model ", [], ["─" * 60, "> /model"]) == (hands.written, hands.app.told, hands.screen)
            await hands.press("x enter")
            await hands.type("/he")
            await hands.settle()
            await hands.press("enter")
            await hands.type("/model")
            await hands.settle()
            await hands.press("enter")
            assert [("slash", "model", "x"), ("slash", "help", ""), ("slash", "model", "")] == hands.app.told

    on_asyncio(play)


def test_suggestions_after_clearing() -> None:
    """A word that is typed where another was cleared away has suggestions again."""

    async def play() -> None:
        async with composing() as hands:
            hands.composer.set_completers({"@": COMMANDS})
            shown = []
            for _ in range(2):
                await hands.type("@h")
                await hands.settle()
                shown.append(hands.screen)
                hands.composer.clear()
            assert shown[0] == shown[1] != ["─" * 60, "> @h"]

    on_asyncio(play)


def test_suggestions_close() -> None:
    """Esc closes them for this word; the next word has its own, and Esc without any goes on to the app."""

    async def play() -> None:
        async with composing() as hands:
            hands.composer.set_completers({"/": COMMANDS, "@": COMMANDS})
            await hands.type("@h")
            await hands.settle()
            await hands.press("escape e")
            await hands.settle()
            assert (["─" * 60, "> @he"], []) == (hands.screen, hands.app.keys)
            await hands.press("escape")
            assert ["escape"] == hands.app.keys
            await hands.type(" @h")
            await hands.settle()
            assert 3 == len(hands.screen)
            await hands.press("left left")
            await hands.settle()
            assert 2 == len(hands.screen)

    on_asyncio(play)


def test_the_newest_question_wins() -> None:
    """A slow answer to an old question is not shown, Enter takes nothing that belongs to an older text."""
    gates: dict[str, anyio.Event] = {}
    asked: list[str] = []

    async def slow(query: str) -> list[Suggestion]:
        asked.append(query)
        gates[query] = anyio.Event()
        await gates[query].wait()
        return [Suggestion(value=f"{query}-found")]

    async def play() -> None:
        async with composing() as hands:
            hands.composer.set_completers({"@": slow})
            await hands.type("@a")
            await hands.type("b")
            assert ["a", "ab"] == [query for query in asked if query]
            gates["a"].set()
            await hands.pilot.pause()  # until there is nothing left to do about the answer
            assert 2 == len(hands.screen)
            gates["ab"].set()
            await hands.settle()
            assert " > ab-found" == hands.screen[1]
            await hands.press("c enter")
            assert [("sent", "@abc", 0, ())] == hands.app.told

    on_asyncio(play)


def test_a_completer_that_fails() -> None:
    """What a completer says of its failure is shown where its suggestions would be, harmless."""

    async def failing(query: str) -> list[Suggestion]:
        raise sc.NotFound(f"no files\x1b[2J for {query}")

    async def play() -> None:
        async with composing() as hands:
            hands.composer.set_completers({"@": failing})
            await hands.type("@x")
            await hands.settle()
            assert " no files for x" == hands.screen[1]
            await hands.press("enter")
            assert [("sent", "@x", 0, ())] == hands.app.told

    on_asyncio(play)


def test_files_are_mentioned(tmp_path: Path) -> None:
    """A file taken by a click goes along as text, a picture as a picture, each once, in the order of sending."""
    (tmp_path / "a b.txt").write_text("hello")
    (tmp_path / "p.png").write_bytes(PNG)
    files: Completer = completer_of(lambda: [Suggestion(value="p.png"), Suggestion(value="a b.txt")])

    async def play() -> None:
        async with composing(folder=tmp_path) as hands:
            hands.composer.set_completers({"@": files})
            await hands.type("see @")
            await hands.settle()
            await hands.pilot.click(Popup, offset=(5, 1))
            await hands.settle()
            assert 'see @"a b.txt" ' == hands.written
            await hands.type("and @p.png, @gone")
            await hands.press("escape enter n o w enter")
            await hands.settle()

            assert [
                ("sent", 'see @"a b.txt" and @p.png, @gone', 1, ("a b.txt",)),
                ("sent", "now", 0, ()),
            ] == hands.app.told

    on_asyncio(play)


def test_pictures_are_dropped(tmp_path: Path) -> None:
    """A dropped picture becomes a chip that a click or Backspace removes; what is no picture stays text."""
    (tmp_path / "p.png").write_bytes(PNG)
    (tmp_path / "q r.png").write_bytes(PNG + b"q")
    (tmp_path / "fake.png").write_text("text")

    async def play() -> None:
        async with composing() as hands:
            await hands.paste(f"'{tmp_path}/p.png' {tmp_path}/q\\ r.png ")
            assert [
                "─2 attachments" + "─" * 46,
                " [image p.png 108 bytes x]  [image q r.png 109 bytes x]",
                "> Ask [b]anything",
            ] == (hands.screen)
            await hands.pilot.click(Chips, offset=(5, 0))
            await hands.settle()
            assert " [image q r.png 109 bytes x]" == hands.screen[1]
            await hands.press("x enter")
            await hands.paste(f"{tmp_path}/p.png")
            await hands.press("x backspace backspace")
            assert hands.composer.is_empty
            await hands.paste(f"{tmp_path}/fake.png")

            assert f"{tmp_path}/fake.png" == hands.written
            assert [("sent", "x", 1, ())] == hands.app.told
            assert ["fake.png is not a PNG, JPEG, GIF or WebP image."] == [
                each.message for each in hands.app._notifications
            ]

    on_asyncio(play)


def test_the_clipboard_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Ctrl+V attaches a picture of the clipboard, else puts in its text, else what was copied here, else says so."""
    for name in ("WAYLAND_DISPLAY", "DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "p.png").write_bytes(PNG)

    async def play() -> None:
        async with composing() as hands:
            await hands.press("ctrl+v")
            await hands.settle()
            assert 1 == len(list(hands.app._notifications))
            await hands.type("copied")
            await hands.press("shift+home ctrl+x ctrl+v")
            await hands.settle()
            assert "copied" == hands.written
            (tmp_path / "pngpaste").write_text(f"#!/bin/sh\nexec /bin/cat {tmp_path}/p.png\n")
            (tmp_path / "pngpaste").chmod(0o700)
            await hands.press("ctrl+v enter")
            await hands.settle()
            await hands.press("x enter")

            assert [("sent", "copied", 0, ()), ("sent", "x", 1, ())] == hands.app.told

    on_asyncio(play)


def test_too_much_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A paste beyond what a message takes is refused with a sentence; mentioned pictures beyond it stay mentions."""
    (tmp_path / "p.png").write_bytes(PNG)
    monkeypatch.setattr(attached_files, "MAX_IMAGES_BYTES", 10)

    async def play() -> None:
        async with composing(folder=tmp_path) as hands:
            await hands.paste("x" * 1_000_001)
            assert hands.composer.is_empty
            await hands.type("@p.png ")
            await hands.paste("y" * 1_000)
            await hands.press("enter")
            await hands.settle()

            assert [("sent", f"@p.png {'y' * 1_000}", 0, ())] == hands.app.told
            assert [
                "The paste has 1,000,001 characters; a message takes 1,000,000.",
                "The images total 108 bytes; a message takes 10 bytes. The files were not attached.",
            ] == [each.message for each in hands.app._notifications]

    on_asyncio(play)


def test_the_focus_is_the_inputs() -> None:
    """To focus the composer is to focus its input, and a click on a chip or a suggestion leaves it there."""

    async def play() -> None:
        async with composing() as hands:
            hands.app.set_focus(None)
            hands.composer.focus()
            await hands.settle()

            assert isinstance(hands.app.focused, TextArea)
            assert hands.composer.query_one(Editor) is hands.app.focused

    on_asyncio(play)


def test_the_history_is_a_private_file(tmp_path: Path) -> None:
    """What was sent from here is added to the file with what was sent before, which nobody else can read."""
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"text": "earlier"}\n')

    async def play() -> None:
        async with composing(history=file) as hands:
            await hands.press("up")
            assert "earlier" == hands.written
            await hands.press("! enter")
            await hands.settle()

    on_asyncio(play)
    assert b'{"text":"earlier!","pastes":{}}' == file.read_bytes().splitlines()[1]
    assert 0o600 == file.stat().st_mode & 0o777
