"""Pictures of the terminal as SVG: drawn from its cells, the same on every machine, and naming no other host.

After a change that is meant: `python -m tests.frontends.terminal._pictures`, with names of pictures or for all of them.
"""

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from unittest.mock import patch

import attrs
from rich.cells import cell_len
from rich.color import blend_rgb
from rich.color_triplet import ColorTriplet
from rich.style import Style
from textual._compositor import LayoutUpdate
from textual.strip import Strip
from textual.widgets import Input, TextArea

from tests.frontends.terminal._asyncio import on_asyncio
from tests.frontends.terminal._picture_scenes import FOLDER, SCENES, Scene
from tests.frontends.terminal._staged import Stage, open_stage

PICTURES: Final = Path(__file__).resolve().parents[3] / "docs" / "images" / "terminal"
_ACROSS, _DOWN, _MARGIN = 9, 18, 12
"""The size of a cell, and of the space around all of them. Most fonts have such cells at 15 pixels."""
_FOREGROUND, _BACKGROUND = ColorTriplet(213, 217, 230), ColorTriplet(22, 24, 31)
_DIM: Final = 0.4
_FONT: Final = '15px ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace'
_LINES: Final = {
    "─": "m0 9h9",
    "━": "m0 9h9",
    "│": "m4.5 0v18",
    "┼": "m0 9h9m-4.5-9v18",
    "╭": "m4.5 18v-4.5q0-4.5 4.5-4.5",
    "╮": "m0 9q4.5 0 4.5 4.5v4.5",
    "╰": "m4.5 0v4.5q0 4.5 4.5 4.5",
    "╯": "m4.5 0v4.5q0 4.5-4.5 4.5",
}
"""What has to meet its neighbours is drawn: fonts leave gaps. Blocks of eighths are rectangles."""
_SHADES: Final = {"░": 0.25, "▒": 0.5, "▓": 0.75}


@attrs.frozen
class _Piece:
    """Some cells of a row that look the same: where they begin, what they say, and how."""

    row: int
    column: int
    text: str
    style: Style

    @property
    def cells(self) -> int:
        return cell_len(self.text)

    @property
    def colours(self) -> tuple[ColorTriplet, ColorTriplet]:
        """Of the text, and of what is behind it."""
        front, back = self.style.color, self.style.bgcolor
        text = _FOREGROUND if front is None or front.is_default else front.get_truecolor()
        ground = _BACKGROUND if back is None or back.is_default else back.get_truecolor()
        text, ground = (ground, text) if self.style.reverse else (text, ground)
        return (blend_rgb(text, ground, _DIM) if self.style.dim else text), ground


def svg_of(rows: Sequence[Strip], title: str) -> str:
    """Draw rows of a screen."""
    pieces = [piece for number, row in enumerate(rows) for piece in _pieces(row, number)]
    page = _most_common_ground(pieces)
    width, height = max(row.cell_length for row in rows) * _ACROSS + 2 * _MARGIN, len(rows) * _DOWN + 2 * _MARGIN
    size = f'width="{width}" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {size} role="img"'
    classes: dict[str, str] = {}
    drawn = [*_grounds(pieces, page), *(line for each in pieces for line in _drawn(each, classes))]
    return "\n".join(
        [
            f'{head} aria-labelledby="title" xml:space="preserve">',
            f'<title id="title">{escape(title)}</title>',
            "<style>",
            f"text {{ font: {_FONT}; white-space: pre; }}",
            "path { fill: none; stroke-width: 1.5; }",
            *(f".{name} {{ {rules} }}" for rules, name in classes.items()),
            "</style>",
            f'<rect {size} rx="8" fill="{page.hex}"/>',
            f'<g transform="translate({_MARGIN} {_MARGIN})">',
            *drawn,
            "</g>",
            "</svg>",
            "",
        ]
    )


def _most_common_ground(pieces: Iterable[_Piece]) -> ColorTriplet:
    cells: Counter[ColorTriplet] = Counter()
    for each in pieces:
        cells[each.colours[1]] += each.cells
    return cells.most_common(1)[0][0]


def _pieces(row: Strip, number: int) -> Iterator[_Piece]:
    """Yield what stands in a row; characters that a font may lack or draw too wide stand alone, so that none moves."""
    column = 0
    for text, style, _ in row:
        for part in _parts(text):
            yield _Piece(number, column, part, style or Style.null())
            column += cell_len(part)


def _parts(text: str) -> Iterator[str]:
    for _, same in groupby(text, key=lambda each: "" if each.isascii() else each):
        yield "".join(same)


def _grounds(pieces: Iterable[_Piece], page: ColorTriplet) -> Iterator[str]:
    """Yield a rectangle for everything that is not on the colour of the page, as high as it goes on."""
    spans: dict[int, list[tuple[int, int, ColorTriplet]]] = {}
    for each in pieces:
        ground, row = each.colours[1], spans.setdefault(each.row, [])
        if row and row[-1][2] == ground and row[-1][1] == each.column:
            row[-1] = (row[-1][0], each.column + each.cells, ground)
        else:
            row.append((each.column, each.column + each.cells, ground))
    for number, row in spans.items():
        for span in row:
            if span[2] != page and span not in spans.get(number - 1, ()):
                high = 1
                while span in spans.get(number + high, ()):
                    high += 1
                yield _rectangle(span[0], number * _DOWN, span[1] - span[0], high * _DOWN, span[2])


def _rectangle(column: int, y: float, columns: int, height: float, colour: ColorTriplet) -> str:
    across = f'x="{column * _ACROSS}" y="{y:g}" width="{columns * _ACROSS}" height="{height:g}"'
    return f'<rect {across} fill="{colour.hex}" shape-rendering="crispEdges"/>'


def _drawn(piece: _Piece, classes: dict[str, str]) -> Iterator[str]:
    text = piece.text.rstrip(" ")
    if not text:
        return
    x, y = piece.column * _ACROSS, piece.row * _DOWN
    colour = piece.colours[0]
    if text[0] in _LINES:
        wide = ' stroke-width="3"' if text[0] == "━" else ""
        line = f"m{x} {y}{_LINES[text[0]]}" if len(text) == 1 else f"m{x} {y + 9}h{len(text) * _ACROSS}"
        yield f'<path d="{line}" stroke="{colour.hex}"{wide}/>'
    elif "▁" <= text[0] <= "█":
        high = (ord(text[0]) - ord("▁") + 1) * _DOWN / 8
        yield _rectangle(piece.column, y + _DOWN - high, piece.cells, high, colour)
    elif text[0] in _SHADES:
        mixed = blend_rgb(piece.colours[1], colour, _SHADES[text[0]])
        yield _rectangle(piece.column, y, piece.cells, _DOWN, mixed)
    else:
        begin = len(text) - len(text.lstrip(" "))
        said = text[begin:]
        rules = "; ".join(_rules(piece.style, colour))
        name = classes.setdefault(rules, f"s{len(classes)}")
        length = f' textLength="{cell_len(said) * _ACROSS}"' if said.isascii() and len(said) > 1 else ""
        place = f'x="{x + begin * _ACROSS}" y="{y + 13}"'
        yield f'<text {place}{length} class="{name}">{escape(said, quote=False)}</text>'


def _rules(style: Style, colour: ColorTriplet) -> Iterator[str]:
    yield f"fill: {colour.hex}"
    if style.bold:
        yield "font-weight: bold"
    if style.italic:
        yield "font-style: italic"
    lines = [name for name, has in (("underline", style.underline), ("line-through", style.strike)) if has]
    if lines:
        yield f"text-decoration: {' '.join(lines)}"


# --- taking them ------------------------------------------------------------------------------------------------------


def picture_of(stage: Stage, title: str) -> str:
    """Draw what is on the screen, with what shines through from below."""
    app = stage.app
    update = app.screen._compositor.render_update(full=True, screen_stack=app._background_screens, simplify=True)
    assert isinstance(update, LayoutUpdate)
    return svg_of([Strip.join(row) for row in update.strips], title)


def take(scene: Scene) -> str:
    """Play a scene, and draw it."""
    drawn: list[str] = []

    async def play() -> None:
        with TemporaryDirectory() as home, _steady(scene):
            async with open_stage(Path(home), size=scene.size, cwd=FOLDER, theme=scene.theme) as stage:
                stage.app.main.requests.settling.patience_s = 0
                await scene.play(stage)
                drawn.append(picture_of(stage, scene.title))

    on_asyncio(play)
    return drawn[0]


@contextmanager
def _steady(scene: Scene) -> Iterator[None]:
    """Have nothing blink, and no variables that change the picture but those of the scene, for the block."""
    environ = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    still = [patch.object(kind.cursor_blink, "_default", new=False) for kind in (Input, TextArea)]
    with patch.dict(os.environ, {**environ, **scene.environ}, clear=True), still[0], still[1]:
        yield


def main(names: Sequence[str]) -> None:
    """Take pictures anew, and keep them."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    for scene in SCENES:
        if not names or scene.name in names:
            (PICTURES / f"{scene.name}.svg").write_text(take(scene), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
