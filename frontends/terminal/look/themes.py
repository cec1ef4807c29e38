"""The themes of the terminal."""

from typing import Final

from textual.theme import Theme

DEFAULT: Final = "session-dark"

THEMES: Final = (
    Theme(
        name=DEFAULT,
        primary="#7aa2f7",
        secondary="#9aa5ce",
        accent="#e0af68",
        foreground="#d5d9e6",
        background="#16181f",
        surface="#1c1f28",
        panel="#232734",
        success="#8fce7f",
        warning="#e5c07b",
        error="#f7768e",
        dark=True,
    ),
    Theme(
        name="session-light",
        primary="#2558c7",
        secondary="#50618c",
        accent="#9a5b00",
        foreground="#1e2230",
        background="#fbfbf8",
        surface="#f1f1ec",
        panel="#e6e7e1",
        success="#26701f",
        warning="#855a00",
        error="#b3213d",
        dark=False,
    ),
    Theme(
        name="high-contrast",
        primary="#66b3ff",
        secondary="#ffffff",
        accent="#ffff00",
        foreground="#ffffff",
        background="#000000",
        surface="#000000",
        panel="#262626",
        success="#00ff66",
        warning="#ffff00",
        error="#ff6666",
        dark=True,
    ),
)
"""Our own; Textual adds more, among them two with the sixteen colours of the terminal itself."""
ABOUT: Final = {
    DEFAULT: "dark, the default",
    "session-light": "for light rooms",
    "high-contrast": "black and white with few strong colours",
    "ansi-dark": "the sixteen colours of your terminal, if it is dark",
    "ansi-light": "the same for a light terminal",
}
"""Descriptions of some themes, in the order of the picker; the names of the others speak for themselves."""
