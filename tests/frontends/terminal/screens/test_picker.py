"""Small screens on top of the others."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from textual.app import App
from textual.pilot import Pilot
from textual.screen import Screen

import session_core as sc
from frontends.terminal.screens.picker import (
    MOST_SHOWN,
    Confirmation,
    LineInputScreen,
    Picker,
    PickerChoice,
    rank_choices,
)
from tests.frontends.terminal._asyncio import on_asyncio

FRUIT = [
    PickerChoice(value=1, label="apple", detail="[b]red"),
    PickerChoice(value=2, label="pear", enabled=False),
    PickerChoice(value=3, label="plum", current=True),
    PickerChoice(value=4, label="fig\x1b[2J"),
]


class ScreenApp(App[None]):
    """An app that asks something, and keeps what was answered."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[object] = []

    @property
    def picture(self) -> str:
        """The text on the screen."""
        return "\n".join(strip.text for strip in self.screen._compositor.render_strips())


def with_screen(
    make: Callable[[], Screen[Any]], test: Callable[[ScreenApp, Pilot[None]], Awaitable[None]]
) -> list[object]:
    """Run a test with a screen on top, and return what was answered."""
    app = ScreenApp()

    async def run() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            await app.push_screen(make(), app.answers.append)
            await pilot.pause()
            await test(app, pilot)

    on_asyncio(run)
    return app.answers


def picked(*keys: str, choices: Sequence[PickerChoice[int]] = FRUIT) -> list[object]:
    """Press keys in a list, and return what was chosen."""

    async def scene(_: ScreenApp, pilot: Pilot[None]) -> None:
        await pilot.press(*keys)

    return with_screen(lambda: Picker("Fruit", choices), scene)


def test_choosing_from_a_list() -> None:
    """It begins at what is in use, arrows pass over what cannot be chosen, typing leaves what fits, Esc leaves."""
    assert picked("enter") == [3]
    assert picked("up", "enter") == [1]
    assert picked("up", "up", "down", "down", "down", "enter") == [4]
    assert picked("f", "i", "enter") == [4]
    assert picked("p", "e", "a", "r", "enter", "escape") == [None]
    assert picked("escape") == [None]


def test_a_list_is_drawn_as_it_is() -> None:
    """Labels and details are text without markup, nothing in them steers the terminal, and what is in use is marked."""

    async def scene(app: ScreenApp, pilot: Pilot[None]) -> None:
        assert "  apple  [b]red" in app.picture
        assert "• plum" in app.picture
        assert "  fig " in app.picture
        assert "\x1b" not in app.picture

    with_screen(lambda: Picker("Fruit", FRUIT), scene)


def test_long_lists_are_cut_and_say_so() -> None:
    """Of very many choices so many are shown, and the others are found by typing."""
    many = [PickerChoice(value=number, label=f"number {number}") for number in range(MOST_SHOWN + 50)]

    async def scene(app: ScreenApp, pilot: Pilot[None]) -> None:
        assert "50 more; type to find them" in app.picture
        await pilot.press("2", "4", "9", "enter")

    assert with_screen(lambda: Picker("Numbers", many), scene) == [249]
    assert next(each.value for each in rank_choices(many, "number 7")) == 7
    assert rank_choices(many, "") == many
    assert rank_choices(many, "zebra") == []


def test_what_is_loaded_may_fail() -> None:
    """A list that has to be loaded says so; if that fails, it says why, and can be left."""

    async def refused() -> list[PickerChoice[int]]:
        raise sc.Disconnected("nobody is there")

    async def loaded() -> list[PickerChoice[int]]:
        return FRUIT

    async def scene(app: ScreenApp, pilot: Pilot[None]) -> None:
        assert "nobody is there (Esc leaves)" in app.picture
        await pilot.press("enter", "escape")

    async def choose(app: ScreenApp, pilot: Pilot[None]) -> None:
        await pilot.press("enter")

    assert with_screen(lambda: Picker("Fruit", refused), scene) == [None]
    assert with_screen(lambda: Picker("Fruit", loaded), choose) == [3]


def test_typing_a_line() -> None:
    """What is wrong with a line is said, and it is not taken; Esc leaves."""

    async def scene(app: ScreenApp, pilot: Pilot[None]) -> None:
        await pilot.press("end", "b", "enter")
        assert "too long" in app.picture
        await pilot.press("backspace", "enter")

    def check(typed: str) -> str | None:
        return "too long" if len(typed) > 1 else None

    assert with_screen(lambda: LineInputScreen("Name", "a", check=check), scene) == ["a"]


def test_only_y_is_a_yes() -> None:
    """Enter, n and Esc say no, other keys say nothing, and a y that came before the question could be read neither."""

    def confirmed(*keys: str, patience_s: float = 0) -> list[object]:
        async def scene(_: ScreenApp, pilot: Pilot[None]) -> None:
            await pilot.press(*keys)

        return with_screen(lambda: Confirmation("Really?", patience_s=patience_s), scene)

    assert confirmed("y") == [True]
    assert confirmed("x", "Y", "space") == []
    assert [confirmed(key) for key in ("n", "enter", "escape")] == [[False]] * 3
    assert confirmed("y", patience_s=3_600) == []
