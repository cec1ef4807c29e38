"""The pictures of the documents show what the terminal shows."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tests._mostly_slow import mostly_slow
from tests.frontends.terminal._picture_scenes import SCENES, Scene
from tests.frontends.terminal._pictures import PICTURES, svg_of, take

MOST_BYTES = 60_000
_ADDRESS = re.compile(r"\w+://[^\s\"')]+")
_NAME_OF_SVG = "http://www.w3.org/2000/svg"


@pytest.mark.parametrize("scene", mostly_slow(SCENES, quick=2), ids=lambda scene: scene.name)
def test_the_picture_is_what_the_terminal_shows(scene: Scene, tmp_path: Path) -> None:
    """Each scene, played again, is drawn exactly as in the picture that is kept."""
    kept = PICTURES / f"{scene.name}.svg"
    drawn = take(scene)
    if not kept.exists() or drawn != kept.read_text(encoding="utf-8"):
        new = tmp_path / kept.name
        new.write_text(drawn, encoding="utf-8")
        pytest.fail(
            f"{kept.name} looks different now: open {new} in a browser, beside {kept}. "
            f"To accept it: python -m tests.frontends.terminal._pictures {scene.name}"
        )


def test_there_is_a_picture_of_each_scene_and_no_other() -> None:
    """Pictures of scenes that are gone do not stay."""
    assert {f"{scene.name}.svg" for scene in SCENES} == {path.name for path in PICTURES.iterdir()}


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_pictures_are_small_and_fetch_nothing(scene: Scene) -> None:
    """A picture is whole in itself: it is small, well-formed, says what it shows, and names no other host."""
    text = (PICTURES / f"{scene.name}.svg").read_text(encoding="utf-8")

    assert len(text.encode()) < MOST_BYTES
    assert {_NAME_OF_SVG} == set(_ADDRESS.findall(text))
    assert scene.title == ET.fromstring(text).findtext(f"{{{_NAME_OF_SVG}}}title")


def test_how_cells_are_drawn() -> None:
    """Texts keep their places and styles, what is behind them is one rectangle, and lines meet at the cells' edges."""
    ground, plain = Style.parse("on #000000"), Style.parse("#ffffff on #000000")
    rows = [
        Strip([Segment("a <b", plain), Segment("●", plain + Style(bold=True)), Segment(" " * 5, ground)]),
        Strip([Segment("──", plain), Segment("x ", Style.parse("#000000 on #ffffff")), Segment(" " * 6, ground)]),
        Strip([Segment("▄│", plain), Segment("x ", plain + Style(reverse=True)), Segment(" " * 6, ground)]),
    ]

    drawn = svg_of(rows, "a & b").partition("<style>")[2].splitlines()

    assert drawn[3:] == [
        ".s0 { fill: #ffffff }",
        ".s1 { fill: #ffffff; font-weight: bold }",
        ".s2 { fill: #000000 }",
        "</style>",
        '<rect width="114" height="78" rx="8" fill="#000000"/>',
        '<g transform="translate(12 12)">',
        '<rect x="18" y="18" width="18" height="36" fill="#ffffff" shape-rendering="crispEdges"/>',
        '<text x="0" y="13" textLength="36" class="s0">a &lt;b</text>',
        '<text x="36" y="13" class="s1">●</text>',
        '<path d="m0 27h18" stroke="#ffffff"/>',
        '<text x="18" y="31" class="s2">x</text>',
        '<rect x="0" y="45" width="9" height="9" fill="#ffffff" shape-rendering="crispEdges"/>',
        '<path d="m9 36m4.5 0v18" stroke="#ffffff"/>',
        '<text x="18" y="49" class="s2">x</text>',
        "</g>",
        "</svg>",
    ]
