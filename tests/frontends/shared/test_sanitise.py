"""Foreign text cannot steer a terminal, whatever it holds and however it arrives."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontends.shared.sanitise import Sanitiser, one_line, sanitise

# Text that is mostly about trouble: pieces of escape sequences, controls, invisible characters, and some letters.
hostile_text = st.lists(
    st.one_of(
        st.sampled_from(["\x1b", "\x1b[", "\x1b]0;", "\x1bP", "\x1b\\", "\x9b", "\x9d", "\x9c", "\x07", "\r", "\x00"]),
        st.sampled_from(["31m", "2J", ";", "?", " ", "\n", "\t", "a", "[", "\u202e", "\u200b", "\ufeff", "\U000e0041"]),
        st.text(max_size=3),
        st.characters(codec=None),
    ),
    max_size=30,
).map("".join)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, with\ttab and\nnewline", "plain, with\ttab and\nnewline"),
        ("héllo 世界 🙂", "héllo 世界 🙂"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[38;2;1;2;3mrgb", "rgb"),
        ("\x1b[?1049hscreen", "screen"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0\x1b\\sixel", "sixel"),
        ("\x1bXsos\x1b\\\x1b^pm\x1b\\\x1b_apc\x1b\\end", "end"),
        ("\x1b(Bcharset", "charset"),
        ("\x1bcreset", "reset"),
        ("\x9b31mc1 csi", "c1 csi"),
        ("\x9d0;title\x9cc1 osc", "c1 osc"),
        ("\x90dcs\x9cx\x98sos\x9cy\x9epm\x9cz\x9fapc\x9c!", "xyz!"),
        ("\x1b\x1b[31mdouble", "double"),
        ("unterminated \x1b", "unterminated "),
        ("unterminated \x1b[12;", "unterminated "),
        ("\x1b]0;never ended\nthe next line stays", "\nthe next line stays"),
        ("\x1b[31\nm", "\nm"),
        ("\x1b[\u202e", "<U+202E>"),
        ("a\rb\x00c\x07d\x7fe\x85f\x08g", "abcdefg"),
        (
            "\u202eevil\u202c \u2066x\u2069 \u200b\u200f\ufeff\u00ad",
            "<U+202E>evil<U+202C> <U+2066>x<U+2069> <U+200B><U+200F><U+FEFF><U+00AD>",
        ),
        ("\u2028\u2029\u3164\U000e0041\ufe01", "<U+2028><U+2029><U+3164><U+E0041><U+FE01>"),
        ("\ud800", "\ufffd"),
    ],
)
def test_each_family(text: str, shown: str) -> None:
    """Every family of escape sequences vanishes whole, and what is invisible is shown by number."""
    assert shown == sanitise(text)


@given(hostile_text)
def test_nothing_dangerous_is_left(text: str) -> None:
    """No control character but newline and tab survives, and no invisible or reordering one."""
    shown = sanitise(text)

    assert "\x1b" not in shown
    assert {"Cc", "Cf", "Cs", "Zl", "Zp"}.isdisjoint(unicodedata.category(each) for each in shown if each not in "\n\t")


@given(hostile_text, st.data())
def test_cutting_makes_no_difference(text: str, data: st.DataObject) -> None:
    """A text that arrives in chunks is shown as if it had come in one piece."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    chunks = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    sanitiser = Sanitiser()

    assert sanitise(text) == "".join(sanitiser.feed(chunk) for chunk in chunks)


@given(hostile_text)
def test_clean_text_stays_clean(text: str) -> None:
    """Sanitising twice is the same as once."""
    assert sanitise(text) == sanitise(sanitise(text))


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E) | st.sampled_from("\n\täß世🙂")))
def test_ordinary_text_is_left_alone(text: str) -> None:
    """Text without controls and invisible characters passes unchanged."""
    assert text == sanitise(text)


@given(hostile_text, st.integers(1, 40))
def test_one_line_is_one_line(text: str, limit: int) -> None:
    """A foreign text made into one line has no line break and keeps to its limit."""
    line = one_line(text, limit)

    assert len(line) <= limit
    assert line.isprintable() or {"Co", "Cn"} & {unicodedata.category(each) for each in line}
