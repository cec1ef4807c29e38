"""Looks made from themes."""

import attrs
import pytest
from rich.style import Style
from textual.theme import BUILTIN_THEMES, Theme

from frontends.terminal.look.styles import _GLYPHS, Look


def styles_of(look: Look) -> dict[str, Style]:
    """Return all styles of a look by name."""
    found = {field.name: getattr(look, field.name) for field in attrs.fields(Look)}
    return {name: each for name, each in found.items() if isinstance(each, Style)}


@pytest.mark.parametrize("name", sorted(BUILTIN_THEMES))
def test_every_theme_makes_a_look_whose_kinds_can_be_told_apart(name: str) -> None:
    """Failure, success and what is in the background never look the same, and nothing paints its own background."""
    look = Look.from_theme(BUILTIN_THEMES[name], colour=True)
    assert len({look.error, look.success, look.dim, look.text, look.said}) == 5
    assert look.added != look.removed
    assert all(style.bgcolor is None for style in styles_of(look).values())


def test_without_colours_no_style_has_one() -> None:
    """Weight and slant are all that is left, and code is not coloured."""
    look = Look.from_theme(BUILTIN_THEMES["textual-dark"], colour=False)
    assert all(style.color is None and style.bgcolor is None for style in styles_of(look).values())
    assert look.code_theme is None


def test_sixteen_colours_stay_the_terminals_own() -> None:
    """A theme of the terminal's colours asks for no others."""
    look = Look.from_theme(BUILTIN_THEMES["ansi-dark"], colour=True)
    assert all(style.color is None or style.color.triplet is None for style in styles_of(look).values())
    assert look.code_theme == "ansi_dark"


def test_a_theme_may_name_its_colours_for_code() -> None:
    """A variable of the theme wins over the guess by light and dark."""
    theme = Theme(name="mine", primary="#004578", dark=False)
    assert Look.from_theme(theme, colour=True).code_theme == "friendly"
    theme.variables["code-theme"] = "bw"
    assert Look.from_theme(theme, colour=True).code_theme == "bw"


def test_every_symbol_has_a_form_in_ascii() -> None:
    """Where only ASCII can be shown, only ASCII is."""
    look = Look.from_theme(BUILTIN_THEMES["textual-dark"], colour=True, symbols=False)
    assert all(look.glyph(name).isascii() and look.glyph(name) for name in _GLYPHS)
