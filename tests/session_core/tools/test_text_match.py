"""Finding the place of an edit: exactly where it is certain, leniently where there is one place, and never by guess."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from session_core.tools.text_match import NoSinglePlace, TextReplacement, has_only_crlf, replace_text

CODE = """\
class Box:
    def open(self):
        if self.locked:
            return “no”
        return "yes"\x20\x20

    def close(self):
        return None
"""

letters = st.sampled_from(["a", "b", " ", "  ", "\n", "\t", "“", '"', "x = 1", "\r\n"])
texts = st.lists(letters, max_size=25).map("".join)
lines = st.lists(st.sampled_from(["a", "b", "  a", "    b", "", "a  ", "\ta"]), min_size=1, max_size=12)


def occurrences(text: str, part: str) -> int:
    return sum(text.startswith(part, place) for place in range(len(text)))


def fault(text: str, old: str, new: str = "new", *, replace_all: bool = False) -> str:
    with pytest.raises(NoSinglePlace) as caught:
        replace_text(text, old, new, replace_all=replace_all)
    return str(caught.value)


@given(before=texts, old=texts.filter(bool), after=texts, new=texts)
def test_a_text_that_is_there_once_is_replaced(before: str, old: str, after: str, new: str) -> None:
    """Whatever the text around it, the only place is found, and everything around it stays, line ends apart."""
    text = before + old + after
    assume(occurrences(text, old) == 1 and old != new)
    assume(not has_only_crlf(text) or occurrences(text.replace("\r\n", "\n"), old.replace("\r\n", "\n")) == 1)
    assume(old.replace("\r\n", "\n") != new.replace("\r\n", "\n"))

    done = replace_text(text, old, new)

    assert None is done.overlooked
    assert (before + new + after).replace("\r\n", "\n") == done.text.replace("\r\n", "\n")


@given(before=texts, old=texts.filter(bool), after=texts, new=texts)
def test_without_carriage_returns_it_is_plain_replacement(before: str, old: str, after: str, new: str) -> None:
    """In a text with LF line ends, an edit changes its place and not one character besides."""
    before, old, after, new = (part.replace("\r\n", "\n") for part in (before, old, after, new))
    text = before + old + after
    assume(occurrences(text, old) == 1 and old != new)

    assert TextReplacement(text=text.replace(old, new)) == replace_text(text, old, new)


@given(around=st.lists(texts, min_size=3, max_size=3), old=texts.filter(bool), new=texts)
def test_a_text_that_is_there_twice_is_never_replaced(around: list[str], old: str, new: str) -> None:
    """Two places are one too many, unless all are meant."""
    text = old.join(around).replace("\r\n", "\n")
    old = old.replace("\r\n", "\n")
    assume(old != new)

    assert "times, beginning in lines" in fault(text, old, new)
    assert text.replace(old, new) == replace_text(text, old, new, replace_all=True).text


@given(around=st.lists(lines, min_size=3, max_size=3), block=lines, new=texts, data=st.data())
def test_two_places_that_fit_equally_well_are_never_guessed(
    around: list[list[str]], block: list[str], new: str, data: st.DataObject
) -> None:
    """A lenient match that has a twin is refused, whatever had to be overlooked."""
    assume(any(line.strip() for line in block))
    before, between, after = around
    text = "\n".join([*before, *block, *between, *block, *after])
    changed = [line.rstrip() + data.draw(st.sampled_from(["", " ", "\t"])) for line in block]
    shift = data.draw(st.sampled_from(["", "  ", "\t"]))
    old = "\n".join(shift + line if line.strip() else line for line in changed)
    assume(old != new and old not in text)
    # One place that fits better, but for blanks at the ends of lines, is no twin of the others.
    assume(not shift or _without_ends(old) not in _without_ends(text))

    assert fault(text, old, new)


def _without_ends(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.split("\n"))


@given(text=texts, old=texts.filter(bool), new=texts, replace_all=st.booleans())
def test_line_ends_survive(text: str, old: str, new: str, replace_all: bool) -> None:  # noqa: FBT001 - drawn
    """A file whose lines end with CR LF has no other line ends after an edit."""
    crlf = text.replace("\r\n", "\n").replace("\n", "\r\n")
    assume(has_only_crlf(crlf))
    try:
        done = replace_text(crlf, old, new, replace_all=replace_all)
    except NoSinglePlace:
        return

    assert done.text.count("\n") == done.text.count("\r\n")


@given(text=texts, old=texts, new=texts, replace_all=st.booleans())
def test_what_was_not_meant_stays(text: str, old: str, new: str, replace_all: bool) -> None:  # noqa: FBT001 - drawn
    """A lenient match takes as many lines as were given, no more: the rest is still there, in order."""
    try:
        done = replace_text(text, old, new, replace_all=replace_all)
    except NoSinglePlace:
        return
    if done.overlooked is None:
        return
    kept_in_front = next((n for n, (a, b) in enumerate(zip(text, done.text, strict=False)) if a != b), len(text))
    kept_behind = next(
        (n for n, (a, b) in enumerate(zip(text[::-1], done.text[::-1], strict=False)) if a != b), len(text)
    )

    lost_lines = text[kept_in_front : max(kept_in_front, len(text) - kept_behind)].count("\n")
    assert lost_lines <= old.count("\n") + 1


def test_trailing_blanks_are_overlooked_and_kept() -> None:
    """Blanks at line ends do not matter, and lines that the edit repeats keep theirs."""
    old = '        return "yes"\n\n    def close(self):\n'

    done = replace_text(CODE, old, old.replace("close", "shut"))

    assert TextReplacement(text=CODE.replace("close", "shut"), overlooked="line ends") == done


def test_overlapping_places_are_two_places() -> None:
    """A text that is there twice, one over the other, is not there once."""
    assert "2 times" in fault("ababa", "aba")


def test_typographic_characters_are_overlooked_and_kept() -> None:
    """Straight quotes find curly ones, and what the edit does not change stays curly."""
    done = replace_text(CODE, 'return "no"', 'return "never"')

    assert TextReplacement(text=CODE.replace("“no”", "“never”"), overlooked="typographic characters") == done


@pytest.mark.parametrize("shift", ["", "      "])
def test_indentation_is_overlooked_and_restored(shift: str) -> None:
    """Lines given with another indentation are found, and the new ones get the one of the file."""
    old = f"{shift}def close(self):\n{shift}    return None\n"
    new = f"{shift}def close(self):\n{shift}    if self.x:\n{shift}        return 1\n{shift}    return None\n"

    done = replace_text(CODE, old, new)

    assert done.overlooked == "indentation"
    assert "    def close(self):\n        if self.x:\n            return 1\n        return None\n" in done.text


def test_tabs_for_blanks() -> None:
    """Blanks given where the file has tabs are found, and the new lines get tabs."""
    text = "if a:\n\tif b:\n\t\tc()\n"

    done = replace_text(text, "    if b:\n        c()\n", "    if b:\n        d()\n        e()\n")

    assert TextReplacement(text="if a:\n\tif b:\n\t\td()\n\t\te()\n", overlooked="indentation") == done


def test_an_uneven_shift_is_no_shift() -> None:
    """Lines whose indentation differs by unequal amounts are other lines."""
    assert "not in the file" in fault("a:\n  b\n      c\n", "b\n  c\n")


def test_mixed_line_ends() -> None:
    """In a file with both kinds of line ends, new lines end like the lines they come to stand with."""
    assert "a\r\nx\r\ny\r\nc\nd\n" == replace_text("a\r\nb\r\nc\nd\n", "b", "x\ny").text
    assert "a\r\nb\r\nc\nx\ny\n" == replace_text("a\r\nb\r\nc\nd\n", "d", "x\ny").text
    assert "a\r\nx\r\nc\nd\n" == replace_text("a\r\nb\r\nc\nd\n", "\nb", "\nx").text


def test_the_last_line_end() -> None:
    """A file without a line end at its end gets none, and the last line is found with or without it."""
    assert "a\nx" == replace_text("a\n  b", "b\n", "x\n").text.replace("  ", "")
    assert "a\n" == replace_text("a\n  b\n", "b \n", "").text


def test_the_nearest_lines_help() -> None:
    """When nothing fits, the refusal shows the nearest lines with their numbers and names the difference."""
    said = fault(CODE, "    def close(self):\n        return 0\n")

    assert "      7     def close(self):" in said
    assert "-               return 0" in said
    assert "+     8         return None" in said
    assert "line 8 has 'None' where old_text has '0'" in said


def test_a_similar_line_helps() -> None:
    """Even if no line is the same, a similar one is shown."""
    assert "+     7     def close(self):" in fault(CODE, "def closed(self)->None:")


def test_nothing_similar() -> None:
    """When nothing is similar, nothing is shown."""
    assert "nothing in it is similar" in fault(CODE, "quux zork plugh")
    assert "only whitespace" in fault("a", "\n \n")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [("", "x", "old_text is empty"), ("a", "a", "nothing to change")],
)
def test_edits_that_mean_nothing(old: str, new: str, said: str) -> None:
    """An edit without an old text, or without a change, is refused as such."""
    assert said in fault("a", old, new)


def test_a_result_without_end_is_refused() -> None:
    """Replacing every place by a long text cannot fill the memory."""
    assert "too large" in fault("a" * 100_000, "a", "b" * 1_000, replace_all=True)


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("x\n" * 50_000, "x\n" * 20_000 + "y\n"),
        ("    a b\n" * 30_000, "a b\n" * 1_000 + "c"),
        ("ab" * 500_000, "ab" * 100_000 + "c"),
    ],
)
def test_repetition_takes_no_time(text: str, old: str) -> None:
    """Texts full of repetition are searched in the time their length takes."""
    assert fault(text, old)
