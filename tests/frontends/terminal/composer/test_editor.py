"""Writing: Emacs keys, the kill ring, labels that are one thing, and text that is harmless to draw."""

import random
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual._xterm_parser import XTermParser

from frontends.terminal.composer import editor
from frontends.terminal.composer.editor import Editor, KillRing, word_left, word_right
from frontends.terminal.composer.keys import KEYS, ROWS, TABLE
from frontends.terminal.composer.paste import sanitise_paste
from tests.frontends.terminal._asyncio import on_asyncio
from tests.frontends.terminal._composing import Hands, composing, set_text

BIG = "\n".join(f"line {n}" for n in range(1, 13))
LABEL = "[pasted 12 lines #1]"


def cursor(hands: Hands) -> tuple[int, int]:
    return hands.composer.query_one(Editor).cursor_location


def test_keys_edit_as_in_emacs() -> None:
    """Each row: what is typed, the keys pressed then, and what is written with `|` for the cursor."""
    cases = (
        ("one two", "ctrl+a", "|one two"),
        ("one two", "home end", "one two|"),
        ("one two", "ctrl+a ctrl+f ctrl+f ctrl+b", "o|ne two"),
        ("one two", "ctrl+a ctrl+d delete", "|e two"),
        ("one two", "backspace ctrl+h", "one t|"),
        ("one two", "alt+b", "one |two"),
        ("one two", "ctrl+left alt+left", "|one two"),
        ("one two", "ctrl+a alt+f", "one| two"),
        ("one two", "ctrl+a ctrl+right alt+right", "one two|"),
        ("one_a two.b", "ctrl+w", "one_a two.|"),
        ("one two", "alt+backspace alt+backspace", "|"),
        ("one two", "ctrl+a alt+d", "| two"),
        ("one two", "alt+b ctrl+u", "|two"),
        ("one two", "alt+b ctrl+k", "one |"),
        ("one two", "alt+b ctrl+k ctrl+a ctrl+y", "two|one "),
        ("one two", "ctrl+w ctrl+w ctrl+y", "one two|"),
        ("one two", "ctrl+a alt+d alt+d ctrl+y", "one two|"),
        ("one two", "ctrl+w left ctrl+w ctrl+y alt+y", "two| "),
        ("one two", "ctrl+w left ctrl+w ctrl+y alt+y alt+y", "one| "),
        ("one two", "alt+y", "one two|"),
        ("one two", "ctrl+w ctrl+underscore", "one two|"),
        ("one two", "ctrl+w ctrl+z alt+z", "one |"),
        ("a", "ctrl+j b ctrl+j c ctrl+p ctrl+p", "a|\nb\nc"),
        ("a", "shift+enter b up", "a|\nb"),
        ("a", "alt+enter b ctrl+a ctrl+u", "a|b"),
        ("a", "ctrl+j b up ctrl+k ctrl+k", "a|"),
        ("a", "ctrl+j b up ctrl+n", "a\nb|"),
        ("a", "ctrl+j b ctrl+a alt+b", "a|\nb"),
        ("ab", "shift+left ctrl+x ctrl+y ctrl+y", "abb|"),
        ("ab", "shift+home x", "x|"),
        ("ab", "alt+q ctrl+g", "ab|"),
    )

    async def play() -> None:
        async with composing() as hands:
            for typed, keys, expected in cases:
                set_text(hands.composer, typed)
                await hands.press(keys)
                row, column = cursor(hands)
                lines = hands.written.split("\n")
                lines[row] = f"{lines[row][:column]}|{lines[row][column:]}"
                assert (typed, keys, expected) == (typed, keys, "\n".join(lines))

    on_asyncio(play)


def test_keys_that_are_not_ours_go_on() -> None:
    """Keys without a meaning here, or none in an empty input, are left to the app, and write nothing."""

    async def play() -> None:
        async with composing() as hands:
            await hands.press("ctrl+d alt+n pageup f1 tab escape ctrl+g alt+1")

            assert "" == hands.written
            assert ["ctrl+d", "alt+n", "pageup", "f1", "tab", "escape", "ctrl+g", "alt+1"] == hands.app.keys

    on_asyncio(play)


def test_joints_of_emoji_can_be_typed() -> None:
    """A terminal sends a joined emoji as keys, and its joints are kept though they count as not printable."""

    async def play() -> None:
        async with composing() as hands:
            editor = hands.composer.query_one(Editor)
            for character in "👨\u200d👩":
                editor.post_message(events.Key("whatever", character))
            await hands.settle()

            assert "👨\u200d👩" == hands.composer.draft.prompt.whole

    on_asyncio(play)


def test_what_terminals_send_for_alt_enter() -> None:
    """Alt+Enter comes as Escape and Enter, and must not be taken for an Enter, which sends."""
    keys = [event.key for event in XTermParser().feed("\x1b\r") if isinstance(event, events.Key)]

    assert ["newline"] == [ROWS[key].action for key in keys]


def test_every_key_is_there_once() -> None:
    """No key stands in two rows, every row that is told has both words, and every action exists."""
    keys = [key for row in TABLE for key in row.keys.split(" ")]

    assert sorted(set(keys)) == sorted(keys)
    assert all(shown and told for shown, told in KEYS)
    assert [] == [row.action for row in TABLE if row.action and not hasattr(Editor, f"action_{row.action}")]


def test_a_label_is_one_thing() -> None:
    """The cursor goes over the label of a large paste at once, and deleting any of it deletes it all."""

    async def play() -> None:
        async with composing() as hands:
            await hands.type("a ")
            await hands.paste(BIG)
            await hands.type(" b")
            assert f"a {LABEL} b" == hands.written
            assert f"a {BIG} b" == hands.composer.draft.prompt.whole

            await hands.press("left left left")
            assert (0, 2) == cursor(hands)
            await hands.press("right")
            assert (0, 2 + len(LABEL)) == cursor(hands)
            for delete, where in (("backspace", "right"), ("ctrl+w", "right"), ("delete", "left"), ("alt+d", "left")):
                if where == "left":
                    await hands.press("left")
                await hands.press(delete)
                assert (delete, "a  b") == (delete, hands.written)
                await hands.press("ctrl+underscore")
                assert f"a {BIG} b" == hands.composer.draft.prompt.whole
                await hands.press("ctrl+a right right right")

            await hands.press("ctrl+k ctrl+u ctrl+y")
            assert f"a {BIG} b" == hands.composer.draft.prompt.whole

    on_asyncio(play)


def test_a_click_into_a_label_goes_to_its_edge() -> None:
    """The mouse cannot put the cursor into a label either, so nothing can be written into it."""

    async def play() -> None:
        async with composing() as hands:
            await hands.paste(BIG)
            await hands.pilot.click(Editor, offset=(7, 0))
            await hands.type("x")

            assert f"x{LABEL}" == hands.written

    on_asyncio(play)


def test_undoing_a_text_that_was_scrolled() -> None:
    """An undo may take away the line on which the cursor stands, and the scrollbar with it."""

    async def play() -> None:
        async with composing() as hands:
            set_text(hands.composer, "short")
            await hands.paste("\n" * 9)
            await hands.paste("\n" * 9)
            await hands.press("ctrl+underscore ctrl+underscore")

            assert "short" == hands.written

    on_asyncio(play)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_any_keys_in_any_order(seed: int) -> None:
    """Whatever is pressed, pasted and clicked, the text stays clean, the cursor out of labels, the screen harmless."""
    chance = random.Random(seed)
    pastes = [
        "\u202eev\u200bil",
        "a\nb",
        BIG,
        "y" * 1_500,
        "\x1b[31mred\r\nx",
        LABEL,
        "👨\u200d👩",
        "日本語",
        "\t",
        "e\u0301",
    ]
    keys = [key for key in ROWS if key not in {"ctrl+v", "alt+v"}]

    async def step(hands: Hands) -> None:
        match chance.randrange(10):
            case 0 | 1 | 2 | 3:
                await hands.press(chance.choice(keys))
            case 4 | 5:
                await hands.type(chance.choice(["a", "B ", "/", "@", "!", "日"]))
            case 6 | 7:
                await hands.paste(chance.choice(pastes))
            case 8:
                await hands.pilot.click(Editor, offset=(chance.randrange(10), 0))
            case _:
                await hands.pilot.resize_terminal(chance.choice([12, 40, 80]), chance.choice([5, 12, 24]))

    async def play() -> None:
        async with composing() as hands:
            editor = hands.composer.query_one(Editor)
            for _ in range(100):
                await step(hands)
                row, column = editor.cursor_location
                assert sanitise_paste(hands.composer.draft.prompt.whole) == hands.composer.draft.prompt.whole
                assert [] == [
                    (start, end)
                    for start, end in editor.pastes.spans(editor.document.get_line(row))
                    if start < column < end
                ]
                assert {"\n"} >= {
                    each for each in "\n".join(hands.screen) if unicodedata.category(each) in {"Cc", "Cf", "Zl"}
                }

    on_asyncio(play)


def test_hostile_text_is_drawn_harmless_and_sent_whole() -> None:
    """Control characters go; what is invisible or turns the line is seen as a stand-in, and is sent as it was."""

    async def play() -> None:
        async with composing(size=(30, 10)) as hands:
            await hands.paste("a\x1b[31m\u202eb\u200b\u2028c\x07\x9b2J\ufeff\U000e0041d [bold]x")
            await hands.type("!")

            assert "a\u202eb\u200b\u2028c\ufeff\U000e0041d [bold]x!" == hands.composer.draft.prompt.whole
            assert "> a\ufffdb\ufffd\ufffdc\ufffd\ufffdd [bold]x!" == hands.screen[-1]
            assert (0, 18) == cursor(hands)

    on_asyncio(play)


@pytest.mark.parametrize(
    ("column", "left", "right"), [(0, 0, 3), (2, 0, 3), (4, 0, 8), (5, 4, 8), (8, 4, 9), (9, 4, 9)]
)
def test_words(column: int, left: int, right: int) -> None:
    """A word is letters, digits and underscores; what lies before it on the way is skipped."""
    assert (left, right) == (word_left("one tw_2.", column), word_right("one tw_2.", column))


@given(st.text(st.sampled_from("ab _.1"), max_size=12), st.integers(0, 12))
def test_words_go_forward(line: str, column: int) -> None:
    """Going by words always ends within the line, and moves unless it is at the end of the line."""
    column = min(column, len(line))
    left, right = word_left(line, column), word_right(line, column)

    assert 0 <= left <= column <= right <= len(line)
    assert left < column or column == 0
    assert right > column or column == len(line)


def test_the_kill_ring_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest cuts are forgotten, cuts in a row are one, and after the oldest comes the newest again."""
    monkeypatch.setattr(editor, "MAX_KILLS", 2)
    ring = KillRing()
    assert "" == ring.yank() == ring.rotate()
    for text in "abc":
        ring.kill(text, back=False, goes_on=False)
    ring.kill("<", back=True, goes_on=True)
    ring.kill(">", back=False, goes_on=True)
    ring.kill("", back=False, goes_on=False)

    assert ["<c>", "b", "<c>", "b"] == [ring.yank(), ring.rotate(), ring.rotate(), ring.rotate()]
