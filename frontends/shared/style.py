"""Colours and symbols; no other module makes escape codes."""

import os
from collections.abc import Mapping
from typing import Final, TextIO

import attrs

_CODES: Final = {
    "bold": ("1", "22"),
    "dim": ("2", "22"),
    "red": ("31", "39"),
    "green": ("32", "39"),
    "yellow": ("33", "39"),
    "cyan": ("36", "39"),
}
_PLAIN_SYMBOLS: Final = {"✓": "ok", "✗": "!!", "■": "--", "✻": "*", "↻": "~", "●": "*", "…": "...", "·": "-", "─": "-"}


@attrs.frozen(kw_only=True)
class Style:
    """The colours and symbols of one stream; without colours every method returns its text as it is."""

    colours: bool = False
    symbols: bool = True

    def bold(self, text: str) -> str:
        """Emphasise a text."""
        return self._wrap("bold", text)

    def dim(self, text: str) -> str:
        """De-emphasise a text."""
        return self._wrap("dim", text)

    def red(self, text: str) -> str:
        """Mark a failure."""
        return self._wrap("red", text)

    def green(self, text: str) -> str:
        """Mark a success."""
        return self._wrap("green", text)

    def yellow(self, text: str) -> str:
        """Mark something to notice."""
        return self._wrap("yellow", text)

    def cyan(self, text: str) -> str:
        """Mark a name."""
        return self._wrap("cyan", text)

    def symbol(self, wanted: str) -> str:
        """Return a symbol, or its replacement if only ASCII can be shown."""
        return wanted if self.symbols else _PLAIN_SYMBOLS[wanted]

    def _wrap(self, name: str, text: str) -> str:
        if not self.colours or not text:
            return text
        start, end = _CODES[name]
        return f"\x1b[{start}m{text}\x1b[{end}m"


def style_for(*, tty: bool, encoding: str, environ: Mapping[str, str]) -> Style:
    """Choose a style: colours only on a terminal that knows them, and never against NO_COLOR."""
    colours = tty and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
    return Style(colours=colours, symbols=encoding.lower().replace("-", "").startswith("utf"))


def stream_style(stream: TextIO | None) -> Style:
    """Choose a style for a stream this program was started with."""
    if stream is None:
        return Style()
    return style_for(tty=stream.isatty(), encoding=stream.encoding, environ=os.environ)
