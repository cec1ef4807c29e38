"""Highlighted code: lines of spans, by the lexers of Pygments.

Very long code is shown without colours: lexers are made for files that people write.
"""

from functools import lru_cache
from typing import Any, Final

from rich.style import Style

from frontends.terminal.look.sanitised_text import sanitise_line, sanitise_text
from frontends.terminal.look.styles import Look
from frontends.terminal.transcript.rendering.lines import Span

MOST_CHARS: Final = 20_000
MOST_LINE_CHARS: Final = 1_000
"""Some lexers take far more than linear time for one long line."""
_NAME_CHARS: Final = 30


def highlight_fenced(code: str, info: str, look: Look) -> list[list[Span]]:
    """Return the lines of a code block in Markdown; `info` is the text after its fence."""
    words = info.split(maxsplit=1)
    lines = highlight(code, words[0] if words else "", look)
    label = label_of(info)
    return [[(label, look.dim)], *lines] if label else lines


def highlight(code: str, language: str, look: Look) -> list[list[Span]]:
    """Return the lines of some code; plain text if the language is unknown or there are no colours."""
    code = sanitise_text(code)
    lines = code.split("\n")
    lexer = None if look.code_theme is None else _lexer(language.strip().lower())
    if lexer is None or len(code) > MOST_CHARS or max(map(len, lines)) > MOST_LINE_CHARS:
        return [[(line, look.text)] for line in lines]
    assert look.code_theme is not None
    found: list[list[Span]] = [[]]
    for kind, text in lexer.get_tokens(code):
        style = _style(look.code_theme, kind)
        first, *others = text.split("\n")
        if first:
            found[-1].append((first, style))
        found += [[(other, style)] if other else [] for other in others]
    while len(found) > len(lines):  # lexers end every text with a newline
        found.pop()
    return found


def label_of(info: str) -> str:
    """Return the text after a fence if it is more than a language name: nothing may be hidden there."""
    return "" if _lexer(info.strip().lower()) is not None else sanitise_line(info)


@lru_cache(64)
def _lexer(name: str) -> Any:
    if not name or len(name) > _NAME_CHARS:
        return None
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]

    try:
        return get_lexer_by_name(name, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


@lru_cache(2048)
def _style(theme: str, kind: Any) -> Style:
    """Return the style of a token type, without the background of its theme."""
    from rich.syntax import Syntax

    full = Syntax.get_theme(theme).get_style_for_token(kind)
    return Style(color=full.color, bold=full.bold or None, italic=full.italic or None, underline=full.underline or None)
