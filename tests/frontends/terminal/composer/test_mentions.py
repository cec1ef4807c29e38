"""Messages on their way out of the input: which files go along, and what happens if they cannot be read."""

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from textual import events

from frontends.terminal.composer import attached_files, composer, mentions
from frontends.terminal.composer.attached_files import Mentions
from frontends.terminal.composer.completion import Suggestion
from frontends.terminal.destination import MessageTarget
from tests.frontends.terminal._asyncio import on_asyncio
from tests.frontends.terminal._composing import PNG, composing, set_text
from tests.frontends.terminal._idle import PATIENCE_S, until
from tests.frontends.terminal._staged import open_stage, session


def test_a_paste_mentions_nothing(tmp_path: Path) -> None:
    """What stands in a folded paste attaches no file: nobody has seen it."""
    (tmp_path / "secret").write_text("key")
    paste = "\n".join(["line"] * 12 + ["@secret", f"@{tmp_path}/secret"])

    async def play() -> None:
        async with composing(folder=tmp_path) as hands:
            await hands.paste(paste)
            await hands.press("enter")
            await hands.settle()
            assert [("sent", paste, 0, ())] == hands.app.told

    on_asyncio(play)


def test_a_file_from_elsewhere_is_shown_first(tmp_path: Path) -> None:
    """A mentioned file outside of the folder becomes a chip, and goes along when the message is sent once more."""
    (tmp_path / "secret").write_text("key")
    (tmp_path / "secret.png").write_bytes(PNG)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "mine").write_text("mine")
    typed = "see @mine @../secret @../secret.png @/no/such"

    async def play() -> None:
        async with composing(folder=tmp_path / "work", size=(100, 24)) as hands:
            await hands.type(typed)
            await hands.press("escape enter")
            await hands.settle()
            why = (
                "../secret, ../secret.png lie outside the session's folder. Nothing was sent yet: "
                "Enter sends them along, a click on a chip leaves it out."
            )
            assert [("held", why)] == hands.app.told
            assert typed == hands.written
            assert any("[file ../secret 3 bytes x]" in line for line in hands.screen)
            await hands.press("enter")
            await hands.settle()
            assert ("sent", typed, 1, ("mine", "../secret")) == hands.app.told[-1]
            assert hands.composer.is_empty

    on_asyncio(play)


def test_a_file_that_is_left_out_stays_out(tmp_path: Path) -> None:
    """Who takes a file from elsewhere out again is not asked a second time, and it does not go along."""
    (tmp_path / "secret").write_text("key")
    (tmp_path / "work").mkdir()

    async def play() -> None:
        async with composing(folder=tmp_path / "work") as hands:
            for _ in range(2):  # what was left out of one message is asked about in the next
                await hands.type("see @../secret now")
                await hands.press("enter")
                await hands.settle()
                assert "held" == hands.app.told[-1][0]
                hands.composer._drop(0)
                await hands.press("enter")
                await hands.settle()
                assert ("sent", "see @../secret now", 0, ()) == hands.app.told[-1]

    on_asyncio(play)


def test_messages_leave_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message whose files are still being read is not overtaken by one that mentions none."""
    (tmp_path / "slow").write_text("slow")
    on = threading.Event()

    def slowly(paths: Sequence[str], folder: Path) -> Mentions:
        assert on.wait(PATIENCE_S)
        return attached_files.read_mentions(paths, folder)

    monkeypatch.setattr(mentions, "read_mentions", slowly)

    async def play() -> None:
        async with composing(folder=tmp_path) as hands:
            for key in ("@", "s", "l", "o", "w", "enter", "x", "enter"):
                hands.app.post_message(events.Key(key, key if len(key) == 1 else None))
            await until(lambda: not hands.written, "an empty input")
            on.set()
            await hands.settle()
            assert [("sent", "@slow", 0, ("slow",)), ("sent", "x", 0, ())] == hands.app.told

    on_asyncio(play)


def test_a_fault_while_files_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that nobody expected closes nothing: the message comes back."""

    def broken(*_: object) -> Mentions:
        raise KeyError("oops")

    monkeypatch.setattr(mentions, "read_mentions", broken)

    async def play() -> None:
        async with open_stage(tmp_path) as stage:
            await stage.show(session())
            set_text(stage.app.composer, "see @file ")
            await stage.pilot.press("enter")
            await stage.settle()
            assert "unexpected error: KeyError: 'oops'" in stage.text
            assert "see @file " == stage.app.composer.draft.prompt.whole

    on_asyncio(play)


def test_a_fault_beside_the_input() -> None:
    """A completer that fails in a way that nobody expected is told of, and people go on writing."""

    async def broken(_: str) -> list[Suggestion]:
        raise KeyError("oops")

    async def play() -> None:
        async with composing() as hands:
            hands.composer.set_completers({"@": broken})
            await hands.type("@x")
            await hands.settle()
            assert {"unexpected error: KeyError: 'oops'"} == {each.message for each in hands.app._notifications}
            await hands.press("enter")
            await hands.settle()
            assert [("sent", "@x", 0, ())] == hands.app.told

    on_asyncio(play)


def test_a_picture_stays_with_its_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A picture that was pasted for one session is not attached in another that is viewed when it has been read."""
    (tmp_path / "p.png").write_bytes(PNG)
    on = threading.Event()

    def slowly(path: str, folder: Path) -> attached_files.Attachment:
        assert on.wait(PATIENCE_S)
        return attached_files.read_image(path, folder)

    monkeypatch.setattr(composer, "read_image", slowly)

    async def play() -> None:
        async with composing() as hands:
            viewed = [hands.composer.get_target()]
            hands.composer.get_target = lambda: viewed[-1]
            hands.composer._paste(f"{tmp_path}/p.png")
            viewed.append(MessageTarget(viewed[0].new))
            on.set()
            await hands.settle()
            assert hands.composer.is_empty
            assert 1 == len(list(hands.app._notifications))

    on_asyncio(play)
