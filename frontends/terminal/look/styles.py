"""Every style and symbol that is drawn, made from a theme.

Colours only add to what symbols and words already say: a conversation reads the same without them.
"""

from collections.abc import Mapping
from typing import Final, Literal

import attrs
from rich.style import Style
from textual.color import Color, ColorParseError
from textual.theme import Theme

Glyph = Literal[
    "done",
    "failed",
    "ended",
    "running",
    "asked",
    "waiting",
    "thinking",
    "bullet",
    "dot",
    "bar",
    "line",
    "more",
    "arrow",
    "checked",
    "unchecked",
    "full",
    "empty",
]

_GLYPHS: Final[Mapping[Glyph, tuple[str, str]]] = {
    "done": ("✓", "+"),
    "failed": ("✗", "x"),
    "ended": ("■", "#"),
    "running": ("●", "*"),
    "asked": ("?", "?"),
    "waiting": ("○", "o"),
    "thinking": ("✻", "~"),
    "bullet": ("•", "*"),
    "dot": ("·", "-"),
    "bar": ("│", "|"),
    "line": ("─", "-"),
    "more": ("…", "..."),
    "arrow": ("→", "->"),
    "checked": ("☑", "[x]"),
    "unchecked": ("☐", "[ ]"),
    "full": ("█", "#"),
    "empty": ("░", "."),
}

_PALE: Final = 0.36
"""How far dim text is blended towards the background."""
_PALER: Final = 0.3
_BOLD: Final = Style(bold=True)
_ITALIC: Final = Style(italic=True)
_STRUCK: Final = Style(strike=True)
_CHANGED: Final = Style(bold=True, underline=True)


@attrs.frozen(kw_only=True, eq=False)
class Look:
    """Styles by purpose.

    Attributes:
        said: A user message.
        heading, strong, emphasis, struck, code: For Markdown; `code` is for code within a line.
        changed: Changed words within an added or removed line, on top of its style.
        code_theme: The name of a Pygments theme, or `ansi_dark` and `ansi_light` of rich; None means no colours.
        symbols: Whether more than ASCII can be shown.
    """

    text: Style
    dim: Style
    accent: Style
    said: Style
    thinking: Style
    added: Style
    removed: Style
    warn: Style
    error: Style
    success: Style
    heading: Style = _BOLD
    strong: Style = _BOLD
    emphasis: Style = _ITALIC
    struck: Style = _STRUCK
    code: Style = _BOLD
    changed: Style = _CHANGED
    code_theme: str | None = None
    symbols: bool = True

    def glyph(self, name: Glyph) -> str:
        """Return a symbol, or its replacement where only ASCII can be shown."""
        return _GLYPHS[name][0 if self.symbols else 1]

    @classmethod
    def from_theme(cls, theme: Theme, *, colour: bool, symbols: bool = True) -> "Look":
        """Make the look of a theme; without colours, weight and slant remain."""
        return _coloured(theme, symbols=symbols) if colour else _plain(symbols=symbols)


def _plain(*, symbols: bool) -> Look:
    return Look(
        text=Style(),
        dim=Style(dim=True),
        accent=Style(bold=True),
        said=Style(bold=True),
        thinking=Style(dim=True, italic=True),
        added=Style(bold=True),
        removed=Style(dim=True),
        warn=Style(bold=True),
        error=Style(bold=True),
        success=Style(),
        symbols=symbols,
    )


def _coloured(theme: Theme, *, symbols: bool) -> Look:
    colours = theme.to_color_system().generate()

    def style(*names: str, pale: float = 0.0, bold: bool = False, italic: bool = False) -> Style:
        colour = _first(colours, names)
        if pale and theme.ansi:
            return Style(dim=True, italic=italic or None)
        if colour is None:
            return Style(bold=bold or None, italic=italic or None)
        if pale and (ground := _first(colours, ("background",))) is not None:
            colour = colour.blend(ground, pale)
        return Style(color=colour.rich_color, bold=bold or None, italic=italic or None)

    return Look(
        text=style("foreground"),
        dim=style("foreground", pale=_PALE),
        accent=style("text-accent", "accent", "primary"),
        said=style("text-primary", "primary", bold=True),
        thinking=style("foreground", pale=_PALER, italic=True),
        added=style("text-success", "success"),
        removed=style("text-error", "error"),
        warn=style("text-warning", "warning"),
        error=style("text-error", "error", bold=True),
        success=style("text-success", "success"),
        heading=style("text-primary", "primary", bold=True),
        code=style("text-accent", "accent"),
        code_theme=theme.variables.get("code-theme") or _code_theme(theme),
        symbols=symbols,
    )


def _code_theme(theme: Theme) -> str:
    if theme.ansi:
        return "ansi_dark" if theme.dark else "ansi_light"
    return "monokai" if theme.dark else "friendly"


def _first(colours: Mapping[str, str], names: tuple[str, ...]) -> Color | None:
    """Return the first of these colours that is a plain one; some exist only relative to their background."""
    for name in names:
        try:
            colour = Color.parse(colours[name])
        except (KeyError, ColorParseError):
            continue
        if colour.a == 1:
            return colour
    return None
