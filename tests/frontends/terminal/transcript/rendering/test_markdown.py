"""Markdown as rows."""

import pytest
from textual.strip import Strip

from frontends.terminal.look.styles import Look
from frontends.terminal.transcript.rendering.markdown import markdown
from tests.frontends.terminal._drawing import LOOK, PLAIN, texts


def rows(text: str, width: int = 40, look: Look = LOOK) -> list[str]:
    """Draw a passage."""
    return texts(markdown(text, width, look))


def style_of(strips: list[Strip], words: str) -> object:
    """Return the style of these words."""
    return next(each.style for strip in strips for each in strip if words in each.text)


def test_paragraphs_headings_and_rules() -> None:
    """Marks become styles, line breaks stay, and a blank row is between two blocks."""
    assert rows("# Title\none *two* **three** `four`\nfive\n\nsix\n\n---") == [
        "Title",
        "",
        "one two three four",
        "five",
        "",
        "six",
        "",
        "─" * 40,
    ]
    drawn = markdown("one *two* **three** ~~four~~ `five`", 40, LOOK)
    assert style_of(drawn, "two") == LOOK.text + LOOK.emphasis
    assert style_of(drawn, "three") == LOOK.text + LOOK.strong
    assert style_of(drawn, "four") == LOOK.text + LOOK.struck
    assert style_of(drawn, "five") == LOOK.text + LOOK.code


def test_lists_are_numbered_and_set_in() -> None:
    """Items keep their numbers, what belongs to one is set in, and tasks show whether they are done."""
    assert rows("3. three\n4. four\n   - inner that is too long for one row\n\n     more\n- [x] done\n- [ ] open") == [
        "3. three",
        "4. four",
        "   • inner that is too long for one row",
        "",
        "     more",
        "",
        "• ☑ done",
        "• ☐ open",
    ]


def test_quotes_have_a_bar() -> None:
    """Every row of a quote has it, blank ones included."""
    assert rows("> one\n>\n> two\n>> three") == ["│ one", "│ ", "│ two", "│ ", "│ │ three"]


def test_code_is_coloured_by_its_language() -> None:
    """Code keeps its spaces, is set in, and has colours where its language is known."""
    drawn = markdown("```python\ndef f():\n    return 1\n```", 40, LOOK)
    assert texts(drawn) == ["  def f():", "      return 1"]
    assert style_of(drawn, "def") != style_of(drawn, "1")
    assert style_of(markdown("```python\ndef f():\n```", 40, PLAIN), "def") == PLAIN.text


def test_what_stands_behind_a_fence_is_not_hidden() -> None:
    """The name of a language is shown by its colours; all else is shown as it is."""
    assert rows("```python\nx\n```") == ["  x"]
    assert rows("```python and a secret\nx\n```") == ["  python and a secret", "  x"]
    assert rows("```nosuchlanguage\nx\n```") == ["  nosuchlanguage", "  x"]


def test_tables_share_the_room() -> None:
    """Narrow columns are as wide as they need, wide ones wrap."""
    text = "| a | b |\n|---|---|\n| 1 | some longer text that wraps |\n| `x` |"
    assert rows(text, 24) == [
        "a │ b",
        "──┼─────────────────────",
        "1 │ some longer text",
        "  │ that wraps",
        "x │ ",
    ]


def test_a_table_that_does_not_fit_is_told_row_by_row() -> None:
    """Each cell stands beside the name of its column."""
    text = "| name | what it does |\n|---|---|\n| read | reads files of all kinds |"
    assert rows(text, 12)[:3] == ["name: read", "what it", "does: reads"]


def test_nothing_of_a_table_is_left_out() -> None:
    """A row with more cells than the table has columns would lose them, so it is shown as it was written."""
    assert rows("| a |\n|---|\n| b | secret |") == ["| a |", "|---|", "| b | secret |"]
    assert rows("> | a |\n> |---|\n> | b |") == ["│ a", "│ ─", "│ b"]


def test_addresses_are_shown_and_nothing_can_be_clicked() -> None:
    """A link says where it leads, and no style holds a link."""
    drawn = markdown("[here](http://evil.example/x) <http://a.b> ![alt](http://i.j) [a](http://a)", 200, LOOK)
    assert texts(drawn) == ["here (http://evil.example/x) http://a.b [image: alt] (http://i.j) a (http://a)"]
    assert all(each.style is None or each.style.link is None for row in drawn for each in row)


def test_definitions_of_links_and_html_are_shown_as_they_are() -> None:
    """What other readers of Markdown hide is seen here."""
    assert rows("[a]: http://hidden.example") == ["[a]: http://hidden.example"]
    assert rows("<!-- secret --> <b>x</b>") == ["<!-- secret --> <b>x</b>"]


def test_entities_are_made_inert_after_they_are_read() -> None:
    """A character by number is as harmless as the character itself."""
    shown = rows("a&#x202e;b &#27;[31mc &zwj;d&#10;e `&#x202e;` &#x9b;2J", 80)
    assert shown == ["a<U+202E>b \N{REPLACEMENT CHARACTER}[31mc <U+200D>d e &#x202e; \N{REPLACEMENT CHARACTER}2J"]


def test_without_colours_code_in_a_line_keeps_its_marks() -> None:
    """What colours would tell is told by backticks."""
    assert rows("run `make`", look=PLAIN) == ["run `make`"]
    assert rows("run `make`") == ["run make"]


@pytest.mark.parametrize(
    "text",
    [
        ">" * 10_000,
        "- " * 5_000,
        "> - " * 1_000,
        "".join("  " * depth + "- x\n" for depth in range(100)),
        "[" * 5_000,
        "![" * 5_000,
        "*a **b " * 2_000,
        "`a ``b " * 2_500,
        "|a" * 5_000 + "\n" + "|-" * 5_000,
        "x" * 50_000,
    ],
    ids=["quotes", "lists", "both", "deep", "brackets", "pictures", "stars", "ticks", "columns", "long"],
)
def test_what_is_too_deep_or_too_long_is_shown_as_it_was_written(text: str) -> None:
    """Nothing is lost, no row is too wide, and nothing takes seconds or overflows the stack."""
    drawn = markdown(text, 80, LOOK)
    assert max(row.cell_length for row in drawn) <= 80
    assert "".join("".join(texts(drawn)).split()) == "".join(text.split())


def test_numbers_stand_below_one_another() -> None:
    """A column that is to end at its right edge does, with its head, and with nothing behind the last one."""
    assert rows("|a|count|\n|-|-:|\n|x|1|\n|y|1000|") == ["a │ count", "──┼──────", "x │     1", "y │  1000"]
