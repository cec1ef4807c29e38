"""Pasted text is made harmless without losing anything, and folded when it is large."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual._cells import cell_len

from frontends.shared.sanitise import sanitise
from frontends.terminal.composer import paste
from frontends.terminal.composer.paste import (
    InvisibleCharacters,
    Pastes,
    Prompt,
    as_drawn,
    is_large,
    sanitise_paste,
)


@pytest.mark.parametrize(
    ("pasted", "kept"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]unterminated stays", "]unterminated stays"),
        ("a\x00\x07\x08b\x0b\x0c\x85c", "abc"),
        ("lone \ud800", "lone \ufffd"),
        ("👨\u200d👩 \u202eabc", "👨\u200d👩 \u202eabc"),
    ],
)
def test_sanitise_paste(pasted: str, kept: str) -> None:
    """Control characters and whole escape sequences go, all else stays."""
    assert kept == sanitise_paste(pasted)


@given(st.text())
def test_cleaned_text_has_no_control_characters(text: str) -> None:
    """Whatever is pasted, no control character but newline and tab is left, and cleaning once is enough."""
    cleaned = sanitise_paste(text)

    assert not {each for each in cleaned if unicodedata.category(each) in {"Cc", "Cs"}} - {"\n", "\t"}
    assert cleaned == sanitise_paste(cleaned)


HIDDEN = st.sampled_from(
    "\u200b\u200d\u202e\u2066\u2028\u2029\ufeff\U000e0041\u3164\u00ad\U0010f000\U0010f001\U0010fffd"
)


@given(st.lists(st.text(HIDDEN | st.characters(), max_size=30), max_size=5))
def test_encoding_loses_nothing_and_hides_all(texts: list[str]) -> None:
    """Every text comes back as it was, and what is drawn of it has the same columns and nothing to hide."""
    invisible = InvisibleCharacters()
    for text in map(sanitise_paste, texts):
        encoded = invisible.encode(text)

        assert text == invisible.decode(encoded)
        assert len(text) == len(encoded) == len(as_drawn(encoded))
        assert as_drawn(encoded) == sanitise(as_drawn(encoded))


def test_stand_ins_are_one_cell_wide() -> None:
    """The input wraps and places its cursor by stand-ins, so they must be as wide as what is drawn."""
    encoded = InvisibleCharacters().encode("\u200d\u202e")

    assert 2 == cell_len(encoded) == cell_len(as_drawn(encoded))


def test_too_many_kinds_of_invisible_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    """When no stand-in is left, an invisible character is shown and sent as the replacement character."""
    monkeypatch.setattr(paste, "_LAST", paste._FIRST)
    invisible = InvisibleCharacters()

    assert "\u200b\ufffd" == invisible.decode(invisible.encode("\u200b\u200d"))


@pytest.mark.parametrize(
    ("text", "large"),
    [("x" * 1_000, False), ("x" * 1_001, True), ("x\n" * 9 + "x", False), ("x\n" * 10 + "x", True)],
)
def test_what_is_large(text: str, large: bool) -> None:  # noqa: FBT001
    """More than ten lines or a thousand characters are folded."""
    assert large is is_large(text)


def test_a_paste_is_folded_and_comes_back() -> None:
    """A label counts lines, or characters if there are few lines, and expands to the paste."""
    pastes = Pastes()
    lines, one = "\n".join("abcdefghijkl"), "y" * 2_000
    first, second = pastes.fold(lines), pastes.fold(one)

    assert ("[pasted 12 lines #1]", "[pasted 2,000 characters #2]") == (first, second)
    prompt = pastes.prompt(f"see {first} and {second}")
    assert f"see {lines} and {one}" == prompt.whole
    assert len(prompt.text) + len(lines) + len(one) == prompt.chars


def test_a_label_that_is_not_ours_is_text() -> None:
    """What only looks like a label is sent as it is, and a label within a paste is not expanded again."""
    pastes = Pastes()
    label = pastes.fold("[pasted 11 lines #1]\n" * 11)

    assert "[pasted 3 lines #7]" == pastes.prompt("[pasted 3 lines #7]").whole
    assert "[pasted 11 lines #1]\n" * 11 == pastes.prompt(label).whole
    assert [] == list(pastes.spans("[pasted 3 lines #7]"))
    assert [(2, 2 + len(label))] == list(pastes.spans(f"a {label} b"))


def test_prompts_from_elsewhere_get_labels_of_ours() -> None:
    """A prompt of the history keeps its pastes, though its labels may be taken here."""
    pastes = Pastes()
    mine = pastes.fold("mine\n" * 11)
    old = Prompt(text="old [pasted 12 lines #1]", pastes=(("[pasted 12 lines #1]", "theirs\n" * 11),))
    text = pastes.adopt(old, mine)

    assert "old [pasted 12 lines #2]" == text
    assert old.whole == pastes.prompt(text).whole
    assert text == pastes.adopt(pastes.prompt(text))
    assert "mine\n" * 11 == pastes.prompt(mine).whole


def test_pastes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """When there are too many, those that the input has no more are forgotten, and those it has are kept."""
    monkeypatch.setattr(paste, "MAX_KEPT_CHARS", 5_000)
    pastes = Pastes()
    gone, used = pastes.fold("g" * 2_000), pastes.fold("u" * 2_000)
    new = pastes.fold("n" * 2_000, used)

    assert [gone, "u" * 2_000, "n" * 2_000] == [pastes.prompt(each).whole for each in (gone, used, new)]


def test_expanding_without_pastes() -> None:
    """A text without pastes is itself."""
    assert "[pasted 1 lines #1]" == Prompt(text="[pasted 1 lines #1]").whole
