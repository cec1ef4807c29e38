"""Rows of a given width."""

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.style import Style

from frontends.terminal.look.sanitised_text import sanitise_text
from frontends.terminal.transcript.rendering.lines import cut_spans, excerpt, limit_rows, strip_of, wrap
from tests.frontends.terminal._drawing import LOOK, foreign, texts

RED, BLUE = Style(color="red"), Style(color="blue")


def test_words_are_kept_whole_and_styles_go_with_their_letters() -> None:
    """Rows break between words, and each part keeps its style across the break."""
    rows = wrap([("ab cd ", RED), ("efgh ijklmnop", BLUE)], 10, first=[("- ", LOOK.dim)])
    assert texts(rows) == ["- ab cd", "  efgh", "  ijklmnop"]
    assert [[(each.text, each.style) for each in row] for row in rows[1:]] == [
        [("  ", Style.null()), ("efgh", BLUE)],
        [("  ", Style.null()), ("ijklmnop", BLUE)],
    ]


def test_a_word_that_is_too_long_is_broken() -> None:
    """No row is wider than it may be, whatever is in it."""
    assert texts(wrap([("abcdefghij", RED)], 4)) == ["abcd", "efgh", "ij"]
    assert texts(wrap([("汉字汉字", RED)], 5)) == ["汉字", "汉字"]
    assert texts(wrap([("a b c d", RED)], 3, words=False)) == ["a b", " c ", "d"]


def test_the_spaces_that_set_a_line_in_stay() -> None:
    """A row does not break at the spaces that it begins with."""
    assert texts(wrap([("    abcdef", RED)], 6)) == ["    ab", "cdef"]


def test_rows_beyond_the_last_one_are_said_to_be_missing() -> None:
    """A row that is followed by others which are not shown ends with three dots."""
    assert texts(wrap([("aaaa bbbb cccc", RED)], 4, most=2)) == ["aaaa", "bbb…"]
    assert texts(wrap([("aaaa bbbb", RED)], 4, most=2)) == ["aaaa", "bbbb"]


@given(st.lists(foreign, max_size=4), st.integers(2, 50), st.booleans())
def test_no_letter_is_lost_and_no_row_too_wide(parts: list[str], width: int, words: bool) -> None:  # noqa: FBT001
    """Wrapping leaves out nothing but spaces, and a strip knows its own width."""
    spans = [(sanitise_text(part).replace("\n", " "), RED) for part in parts]
    rows = wrap(spans, width, first=[("- ", BLUE)], words=words)
    assert all(row.cell_length == cell_len(row.text) <= width for row in rows)
    whole = "".join(text for text, _ in spans)
    assert "".join("".join(texts(rows)).replace("- ", "", 1 if width >= 4 else 0).split()) == "".join(whole.split())


def test_a_line_is_cut_where_it_ends() -> None:
    """What fits is untouched; what does not ends with a sign, within the width."""
    assert cut_spans([("abc", RED)], 3) == [("abc", RED)]
    assert cut_spans([("ab", RED), ("cdef", BLUE)], 4) == [("ab", RED), ("c", BLUE), ("…", BLUE)]
    assert cut_spans([("汉字", RED)], 3) == [("汉", RED), ("…", RED)]
    assert cut_spans([("abc", RED)], 0) == []


def test_an_excerpt_says_how_much_it_leaves_out() -> None:
    """One line more than allowed is simply shown; blank lines at the end do not count."""
    assert excerpt("1\n2\n3\n4\n\n\n", head=1, tail=2).head == ["1", "2", "3", "4"]
    shown = excerpt("1\n2\n3\n4\n5", head=1, tail=2)
    assert (shown.head, shown.left_out, shown.tail) == (["1"], 2, ["4", "5"])


def test_a_block_with_too_many_rows_is_cut_in_the_middle() -> None:
    """Its beginning and its end are there, and the number of rows between them."""
    rows = limit_rows([strip_of([(str(number), RED)]) for number in range(10_000)], LOOK, 60)
    assert (len(rows), rows[0].text, rows[-1].text) == (3_001, "0", "9999")
    assert rows[1_000].text == "… 7,000 more rows are not shown"
