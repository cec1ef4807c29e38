"""Diffs: true, bounded, and quick whatever the texts are."""

import difflib
from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from session_core.tools.diffs import changed_spans, difference, split_lines

texts = st.lists(st.sampled_from(["a", "b", "c", "", "  a"]), max_size=30).map("\n".join)


def test_a_diff() -> None:
    """A diff shows what goes, what comes and three lines around, and counts both."""
    before = "".join(f"{number}\n" for number in range(1, 10))

    found = difference("x.txt", before, before.replace("5\n", "five\nfünf\n"))

    assert "+2 -1" == found.counts
    assert "--- a/x.txt\n+++ b/x.txt\n@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n+fünf\n 6\n 7\n 8" == found.text


def test_a_new_file() -> None:
    """A file that was not there is compared with nothing."""
    assert "--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a" == difference("x", None, "a\n").text


def test_a_missing_line_end_is_told() -> None:
    """A last line without an end is not the same as one with it."""
    assert "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file" == difference("x", "a\n", "a").text


def test_a_change_of_line_ends_is_visible() -> None:
    """Line ends are shown when they change, and only then."""
    assert "-a␍\n-b␍\n+a\n+b" in difference("x", "a\r\nb\r\n", "a\nb\n").text
    assert "-a\n+c\n b" in difference("x", "a\r\nb\r\n", "c\r\nb\r\n").text


def test_nothing_changed() -> None:
    """Equal texts have an empty diff."""
    assert ("", "+0 -0") == (difference("x", "a", "a").text, difference("x", "a", "a").counts)


def test_a_long_diff_is_cut_and_still_stands_for_one_text() -> None:
    """What is cut off is named by a sum of the new text, so two different texts never look the same."""
    whole = sha256(b"line\n" * 20_000 + b"one")
    one = difference("x", None, "line\n" * 20_000 + "one")
    other = difference("x", None, "line\n" * 20_000 + "two")

    assert 32_000 == len(one.text)
    assert one.text.endswith(f"SHA-256 {whole.hexdigest()}]")
    assert one.text != other.text


def test_a_long_line_is_cut_and_still_stands_for_one_text() -> None:
    """The same holds for a change at the end of a very long line."""
    assert difference("x", "", "y" * 5_000 + "1").text != difference("x", "", "y" * 5_000 + "2").text


def test_repeated_lines_take_no_longer() -> None:
    """Texts that are expensive to compare are shown as replaced, not compared."""
    before, after = "x\n" * 20_000 + "a\n", "b\n" + "x\ny\n" * 20_000

    found = difference("x", before, after)

    assert (20_001, 40_001) == (found.removed, found.added)


@given(before=texts, after=texts)
def test_the_changes_lead_from_one_text_to_the_other(before: str, after: str) -> None:
    """Putting the changed lines in place of the old ones gives the new text."""
    old, new = split_lines(before), split_lines(after)
    built: list[str] = []
    place = 0
    for a, b, c, d in changed_spans(old, new):
        built += old[place:a] + new[c:d]
        place = b

    assert new == built + old[place:]


@given(before=texts, after=texts)
def test_a_diff_says_no_less_than_the_standard_one(before: str, after: str) -> None:
    """The diff has the lines that come and go as the standard library has them, in number."""
    found = difference("x", before, after)
    lines = found.text.split("\n")[2:]

    assert found.added == sum(line.startswith("+") for line in lines)
    assert found.removed == sum(line.startswith("-") for line in lines)
    same = list(difflib.unified_diff(split_lines(before), split_lines(after)))
    assert bool(same) == bool(found.text)


@given(text=st.text())
def test_lines_are_split_at_line_ends_only(text: str) -> None:
    """No character but the line end begins a new line, and nothing is lost."""
    lines = split_lines(text)

    assert text == "".join(lines)
    assert all("\n" not in line[:-1] for line in lines)
