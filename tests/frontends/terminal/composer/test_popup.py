"""The lists above the input: what is drawn of suggestions and chips, at any width."""

from collections.abc import Callable, Sequence

import pytest
from textual.app import App, ComposeResult

from frontends.terminal.composer.completion import Suggestion
from frontends.terminal.composer.popup import Chips, Popup
from frontends.terminal.look.text_width import width_of
from tests.frontends.terminal._asyncio import on_asyncio


class PopupApp(App[None]):
    """Both lists, and what is clicked on them."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[object] = []
        self.popup = Popup(lambda: self.told.append(self.popup.chosen and self.popup.chosen.value))
        self.chips = Chips(self.told.append)

    def compose(self) -> ComposeResult:
        yield self.popup
        yield self.chips

    @property
    def lines(self) -> list[str]:
        lines = [strip.text.rstrip() for strip in self.screen._compositor.render_strips()]
        return [line for line in lines if line]


def drawn(
    size: tuple[int, int], show: Callable[[PopupApp], object], then: Sequence[Callable[[PopupApp], object]] = ()
) -> list[list[str]]:
    """Return what is seen after a first step and after each of the others."""
    pictures: list[list[str]] = []

    async def play() -> None:
        app = PopupApp()
        async with app.run_test(size=size) as pilot:
            for step in (show, *then):
                step(app)
                await pilot.pause()
                pictures.append(app.lines)

    on_asyncio(play)
    return pictures


MANY = [Suggestion(value=f"item {n}") for n in range(1, 13)]


def test_a_long_list_is_gone_through() -> None:
    """As many are seen as a quarter of the screen allows, the chosen one always; after the last comes the first."""
    assert [
        [" > item 1", "   item 2", "   item 3", "   item 4", "   1 of 12"],
        ["   item 2", "   item 3", "   item 4", " > item 5", "   5 of 12"],
        ["   item 9", "   item 10", "   item 11", " > item 12", "   12 of 12"],
        ["   item 9", " > item 10", "   item 11", "   item 12", "   10 of 12"],
        [],
    ] == drawn(
        (30, 16),
        lambda app: app.popup.show(MANY),
        [
            lambda app: app.popup.move(4),
            lambda app: app.popup.move(7),
            lambda app: app.popup.move(-2),
            lambda app: app.popup.show(()),
        ],
    )


@pytest.mark.parametrize("across", [10, 24, 60])
def test_nothing_is_wider_than_the_screen(across: int) -> None:
    """Long and wide names, and what is told about them, are cut to fit, and drawn without anything hidden."""
    hostile = [
        Suggestion(value="日本語の長いファイル名.txt", detail="ein\nlanger \x1b[31mText [bold]" * 5),
        Suggestion(value="b\u202e" * 40, detail="x"),
    ]
    lines = drawn((across, 24), lambda app: app.popup.show(hostile))[0]

    assert 2 == len(lines)
    assert all(width_of(line) <= across for line in lines)
    assert "\x1b" not in "".join(lines) and "\u202e" not in "".join(lines)  # noqa: PT018


def test_a_note_stands_alone() -> None:
    """Where there is nothing to suggest, a note tells why."""
    assert [[" nothing found"]] == drawn((30, 16), lambda app: app.popup.show((), note="nothing found"))


def test_chips_go_on_in_the_next_line() -> None:
    """Chips that do not fit on a line go on in the next, and a name that is too long is cut."""
    assert [[" [one x]  [two x]", " [three x]", " [four four four…"], []] == drawn(
        (18, 24),
        lambda app: app.chips.show(("one", "two", "three", "four four four four")),
        [lambda app: app.chips.show(())],
    )


def test_clicks() -> None:
    """A click tells what is beneath it, and a click beside everything tells nothing."""

    async def play() -> None:
        app = PopupApp()
        async with app.run_test(size=(18, 24)) as pilot:
            app.popup.show(MANY)
            app.chips.show(("one", "two", "three"))
            app.popup.move(7)
            await pilot.pause()
            for widget, offset in (
                (Popup, (3, 0)),
                (Popup, (3, 6)),
                (Chips, (1, 0)),
                (Chips, (9, 0)),
                (Chips, (12, 0)),
                (Chips, (2, 1)),
                (Chips, (16, 1)),
            ):
                await pilot.click(widget, offset=offset)
            await pilot.pause()

            assert ["item 3", 0, 1, 2] == app.told

    on_asyncio(play)


def test_cells_are_counted_as_the_screen_counts_them() -> None:
    """Letters that take no cell of their own take none here: what fits on the screen is not cut, all else is."""
    fits, too_long = "\u0a95\u0abf" * 10, "\u0a95\u0abf" * 20
    assert [[f" [{fits} x]", f" [{too_long[:28]}…"]] == drawn((18, 24), lambda app: app.chips.show((fits, too_long)))
    assert [[f" > {fits}"]] == drawn((18, 24), lambda app: app.popup.show([Suggestion(value=fits)]))
