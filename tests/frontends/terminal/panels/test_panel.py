"""What the panels share: lines in the look of the theme, drawn again only when something has changed."""

from rich.style import Style
from rich.text import Text

from frontends.terminal.panels.panel import LinesPanel, cut_to, filled_strip, wrap_text
from tests.frontends.terminal._asyncio import on_asyncio
from tests.frontends.terminal._panels import ASCII, PLAIN, PanelApp


def test_a_line_has_its_style_and_its_width() -> None:
    """A line keeps the style of the whole text, with parts of another one or without, and fills its row."""
    red, ground = Style(color="red"), Style(bgcolor="blue")
    for line in (Text("ab", red), Text("a", red).append("b", red)):
        strip = filled_strip(line, 4, ground)
        assert (strip.text, strip.cell_length) == ("ab  ", 4)
        assert [segment.style for segment in strip if segment.text.strip()] == [red + ground] * len(list(strip)[:-1])
        assert [segment.style for segment in strip][-1] == ground


def test_long_lines_are_cut_or_wrapped() -> None:
    """A cut line says so, also in ASCII and with wide characters; a wrapped one has no more rows than it may."""
    assert cut_to(Text("日本語"), 5, PLAIN).plain == "日本…"
    assert cut_to(Text("abcdef"), 5, ASCII).plain == "ab..."
    assert cut_to(Text("abc"), 1, ASCII).plain == "."
    assert [row.plain for row in wrap_text(Text("one two three four"), 8, most=5)] == ["one two", "three", "four"]
    assert [row.plain for row in wrap_text(Text("one two three four"), 8, most=2)] == ["one two", "three four"]
    assert [row.plain for row in wrap_text(Text(""), 8, most=2)] == [""]


def test_lines_are_made_once_for_a_width_and_follow_the_theme() -> None:
    """Drawing again without a change asks nobody; another theme draws everything in its colours."""

    async def scene() -> None:
        asked: list[int] = []

        def lines(width: int) -> list[Text]:
            asked.append(width)
            return [Text("x" * 200, panel.look.accent)]

        panel = LinesPanel(lines)
        app = PanelApp(panel)
        async with app.run_test(size=(40, 10)) as pilot:
            await pilot.pause()
            before = panel.look.accent
            assert panel.size.height == 1
            assert len(set(asked)) == len(asked)
            app.theme = "textual-light"
            await pilot.pause()
            assert panel.look.accent != before
            assert panel.render_line(0).text == f"{'x' * 39}…"

    on_asyncio(scene)
