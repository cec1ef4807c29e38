"""Fits one line of text into the cells of the screen, counted as Textual counts them, so all widgets agree.

`frontends.shared.text_width` uses another table, for output without Textual. Texts are already inert.
"""

from rich.cells import get_character_cell_size


def width_of(text: str) -> int:
    """Return how many cells a line takes."""
    return len(text) if text.isascii() else sum(map(get_character_cell_size, text))


def cut(text: str, width: int, *, more: str = "…") -> str:
    """Return the beginning of a line in at most `width` cells, ending with `more` if something was left out."""
    if width_of(text) <= width:
        return text
    room = width - width_of(more)
    return text[: _count_fitting(text, room)].rstrip() + more if room > 0 else ""


def cut_start(text: str, width: int, *, more: str = "…") -> str:
    """Return the end of a line in at most `width` cells, as the end of a path tells most."""
    if width_of(text) <= width:
        return text
    room = width - width_of(more)
    return more + text[len(text) - _count_fitting(text[::-1], room) :] if room > 0 else ""


def _count_fitting(text: str, room: int) -> int:
    """Return how many leading characters fit."""
    for place, character in enumerate(text):
        room -= get_character_cell_size(character)
        if room < 0:
            return place
    return len(text)
