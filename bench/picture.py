"""`results/latest.svg`: a bar per target that shows how many times better than its target a result is.

All targets meet at one line; bars to its right are hits, bars to its left are misses. The scale is logarithmic:
twice as good and half as good are equally far from the line.
"""

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

from bench.measure import Result
from bench.report import attempts_text, ratio_text, target_text

WIDTH = 960
ROW = 56
TOP = 84
LEFT = 24
LINE = 250  # where the targets meet
RIGHT = WIDTH - 120  # leaves room for the ratio beside the longest bar
SHORTEST_BAR = 4  # a target met exactly is a mark, not nothing

STYLE = """
  text { font: 14px system-ui, sans-serif; paint-order: stroke; stroke-width: 6px; stroke: #ffffff }
  .title { font-size: 18px; font-weight: 600 } .small { font-size: 12px }
  .paper { fill: #ffffff } .words { fill: #1f2328 } .quiet { fill: #59636e }
  .grid { stroke: #d1d9e0 } .line { stroke: #1f2328 } .hit { fill: #1a7f37 } .miss { fill: #cf222e }
  @media (prefers-color-scheme: dark) {
    text { stroke: #0d1117 }
    .paper { fill: #0d1117 } .words { fill: #f0f6fc } .quiet { fill: #9198a1 }
    .grid { stroke: #3d444d } .line { stroke: #f0f6fc } .hit { fill: #3fb950 } .miss { fill: #f85149 }
  }
"""


def picture(results: Sequence[Result]) -> str:
    """Draw the results."""
    height = TOP + ROW * len(results) + 44
    doublings = _doublings(results)
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title">',
        "<title id='title'>How many times better than its target each result is</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{height}"/>',
        _text(LEFT, 34, "How many times better than its target each result is", "words title"),
        _text(LEFT, 56, "Ratios measured in one run. Right of the line is a hit, left of it a miss.", "quiet"),
        *_grid(doublings, height - 40),
        f'<line class="line" stroke-width="2" x1="{LINE}" x2="{LINE}" y1="{TOP - 8}" y2="{height - 40}"/>',
        *(part for place, result in enumerate(results) for part in _bar(result, TOP + ROW * place, doublings)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _doublings(results: Sequence[Result]) -> int:
    """Return how many doublings the scale must show to the right of the line."""
    best = max((result.margin for result in results if math.isfinite(result.margin)), default=1)
    return max(2, math.ceil(math.log2(max(best, 1))))


def place_of(margin: float, doublings: int) -> float:
    """Return the x position of a margin; values beyond the scale are at its edge."""
    step = (RIGHT - LINE) / doublings
    if margin <= 0:
        return LEFT
    return min(RIGHT, max(LEFT, LINE + math.log2(margin) * step)) if math.isfinite(margin) else RIGHT


def _grid(doublings: int, bottom: int) -> list[str]:
    lines = []
    for power in range(doublings + 1):
        x = place_of(2.0**power, doublings)
        label = "target" if power == 0 else f"{2**power}x better"
        lines.append(f'<line class="grid" x1="{x:.0f}" x2="{x:.0f}" y1="{TOP - 8}" y2="{bottom}"/>')
        lines.append(_text(x, bottom + 20, label, "quiet small", anchor="middle"))
    return lines


def _bar(result: Result, top: int, doublings: int) -> list[str]:
    end = place_of(result.margin, doublings)
    left, width = min(LINE, end), max(abs(end - LINE), SHORTEST_BAR)
    kind = "hit" if result.passed else "miss"
    said = f"{ratio_text(result.ratio)} ({target_text(result)})"
    note = f" - {attempts_text(result)}" if result.attempts > 1 else ""
    return [
        _text(LEFT, top + 14, result.title + note, "words"),
        f'<rect class="{kind}" x="{left:.0f}" y="{top + 22}" width="{width:.0f}" height="16" rx="2"/>',
        _text(LINE - 8 if result.passed else LINE + 8, top + 35, said, "words", anchor="end" if result.passed else ""),
    ]


def _text(x: float, y: float, words: str, style: str, *, anchor: str = "") -> str:
    placed = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{x:.0f}" y="{y:.0f}" class="{style}"{placed}>{escape(words)}</text>'
