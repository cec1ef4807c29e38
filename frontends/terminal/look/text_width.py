"""The width of text in cells as Textual counts them, so that all widgets agree. Texts are already inert."""

from functools import partial

from rich.cells import get_character_cell_size

from frontends.shared import text_width


def width_of(text: str) -> int:
    """Return how many cells a line takes; written out, because every row that is drawn asks for it."""
    return len(text) if text.isascii() else sum(map(get_character_cell_size, text))


cut = partial(text_width.cut, cells=get_character_cell_size)
cut_start = partial(text_width.cut_start, cells=get_character_cell_size)
