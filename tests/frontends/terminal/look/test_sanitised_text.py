"""Foreign text made harmless."""

import unicodedata
from collections.abc import Sequence

from hypothesis import given
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.app import App, ComposeResult
from textual.color import Color
from textual.filter import LineFilter
from textual.widgets import Static

from frontends.shared import sanitise as sanitise_module
from frontends.terminal.look import sanitised_text as module
from frontends.terminal.look.sanitised_text import (
    SanitisingFilter,
    make_copyable,
    reveal_hidden,
    sanitise_line,
    sanitise_text,
    to_plain_text,
)
from frontends.terminal.look.text_width import width_of
from tests.frontends.terminal._asyncio import on_asyncio
from tests.frontends.terminal._drawing import foreign

BLACK = Color(0, 0, 0)


def test_a_character_that_is_not_looked_at_closely_is_one_that_sanitising_keeps() -> None:
    """What `sanitise_text` passes on unseen is exactly what `sanitise` would pass on."""
    unseen = module._DANGEROUS.sub("", "".join(map(chr, range(0x110000))))
    assert len(unseen) > 1_000_000
    assert sanitise_module._INVISIBLE.search(unseen) is None
    odd = [each for each in unseen if unicodedata.category(each) in {"Cc", "Cf", "Cs", "Zl", "Zp"}]
    assert odd == ["\t", "\n"]


def test_escapes_vanish_and_invisible_characters_are_shown_by_number() -> None:
    """Sequences of every family are gone, and what reorders a line can be seen."""
    assert sanitise_text("a\x1b[31mb\x1b]0;title\x07c\x9b2Jd\x1bPq\x1b\\e\x00f") == "abcdef"
    assert sanitise_text("safe\u202eevil\u200b") == "safe<U+202E>evil<U+200B>"
    assert sanitise_text("one\r\ntwo\tx") == "one\ntwo x"


def test_characters_that_change_the_width_of_others_are_left_out() -> None:
    """Every terminal counts as many cells as we do."""
    assert sanitise_text("⚠️ 👍🏽") == "⚠ 👍"


def test_marks_are_not_piled_up_and_have_something_to_stand_on() -> None:
    """Three marks of a pile stay, and a mark at the beginning of a line does not change what stands before it."""
    assert sanitise_text("z" + "\u0335" * 50 + "a") == "z" + "\u0335" * 3 + "a"
    assert sanitise_text("\u0301x\n\u0301y") == "\N{DOTTED CIRCLE}\u0301x\n\N{DOTTED CIRCLE}\u0301y"
    assert sanitise_text("e\u0301te\u0301") == "e\u0301te\u0301"


@given(foreign)
def test_whatever_comes_in_comes_out_harmless_and_measurable(text: str) -> None:
    """No control character and nothing invisible is left, a second time changes nothing, and cells add up."""
    clean = sanitise_text(text)
    assert all(each == "\n" or unicodedata.category(each) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} for each in clean)
    assert sanitise_text(clean) == clean
    for line in clean.split("\n"):
        assert width_of(line) == cell_len(line)


def test_what_is_judged_leaves_nothing_out() -> None:
    """Even what would vanish elsewhere is shown by number to those who say yes or no."""
    assert reveal_hidden("rm\x1b[8m -rf\u202e\x08 /\ufe0f\r\n") == "rm<U+001B>[8m -rf<U+202E><U+0008> /<U+FE0F>\n"


def test_markup_is_text() -> None:
    """Brackets of Textual and rich mean nothing in foreign text."""
    shown = to_plain_text("[bold red]x[/] [@click=app.quit]y[/]", "red")
    assert shown.plain == "[bold red]x[/] [@click=app.quit]y[/]"
    assert shown.spans == []
    assert sanitise_line("a\n\n  b\x1b[2J\tc") == "a b c"


def test_the_last_wall_stops_controls_and_links_and_keeps_all_else() -> None:
    """Control characters become visible in the cells that were counted, links vanish, what can be clicked stays."""
    good = Segment("fine é 汉", Style(bold=True, meta={"@click": "app.help"}))
    bad = [
        Segment("a\x1b[2J\u202eb\nc", Style(color="red")),
        Segment("link", Style(link="http://evil", meta={"k": 1})),
        Segment("", None, [(1, 2)]),  # type: ignore[list-item]
        Segment("⚠️", None),
    ]
    out = SanitisingFilter().apply([good, *bad], BLACK)
    assert out[0] is good
    assert [each.text for each in out[1:]] == ["a\ufffd[2J\ufffd", "link", "", "⚠ "]
    assert out[2].style is not None
    assert (out[2].style.link, out[2].style.meta) == (None, {"k": 1})
    assert out[3].control is None
    same = [good]
    assert SanitisingFilter().apply(same, BLACK) is same


def test_the_last_wall_stands_in_an_app() -> None:
    """A widget that was given foreign text by mistake draws it harmlessly, in the width that it has counted."""

    class Careless(App[None]):
        def compose(self) -> ComposeResult:
            yield Static(Text("a\x9b2Jb\u202ec", style=Style(link="http://evil.example")))

        def get_line_filters(self) -> Sequence[LineFilter]:
            return [*super().get_line_filters(), SanitisingFilter()]

    async def scene() -> None:
        app = Careless()
        async with app.run_test(size=(20, 2)):
            rows = app.screen._compositor.render_strips()
            assert all(row.cell_length == 20 for row in rows)
            assert all(module._UNDRAWABLE.search(row.text) is None for row in rows)
            assert all(each.style is None or each.style.link is None for row in rows for each in row)
            assert "a" in rows[0].text

    on_asyncio(scene)


def test_what_is_copied_steers_nothing() -> None:
    """Newlines and tabs stay, escape sequences and control characters go, and what cannot be encoded is replaced."""
    assert make_copyable("a\tb\r\nc\x1b[201~;rm -rf ~\r\x07") == "a\tb\nc;rm -rf ~"
    assert make_copyable("\ud800 \u202e") == "\ufffd <U+202E>"
    assert make_copyable("日本 e\u0301") == "日本 e\u0301"
