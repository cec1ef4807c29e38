"""Where blocks stand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.segment import Segment
from textual.strip import Strip

from frontends.shared.conversation.blocks import Block, RemarkBlock
from frontends.terminal.transcript import layout as layout_module
from frontends.terminal.transcript.layout import Layout


def remark(key: int, lines: int = 1) -> RemarkBlock:
    """A block of so many lines."""
    return RemarkBlock(key=str(key), text="\n".join(f"{key}.{line}" for line in range(lines)))


class Drawing:
    """Draws remarks, and counts how often."""

    def __init__(self) -> None:
        self.drawn: list[str] = []

    def __call__(self, block: Block, expanded: bool) -> list[Strip]:  # noqa: FBT001 - a `Draw`
        """Draw one."""
        assert isinstance(block, RemarkBlock)
        self.drawn.append(block.key)
        lines = block.text.split("\n")
        return [Strip([Segment(line)]) for line in (lines if expanded else lines[:2])]


def test_only_the_end_is_drawn_at_first() -> None:
    """Of ten thousand blocks only as many are drawn as fill the screen."""
    draw = Drawing()
    layout = Layout(draw)
    layout.replace([remark(key) for key in range(10_000)], 50)
    assert 25 <= len(draw.drawn) <= 40
    assert layout.lines()[-2] == "9999.0"


def test_a_growing_block_is_the_only_one_drawn_again() -> None:
    """When the last block has changed, only that one is drawn."""
    draw = Drawing()
    layout = Layout(draw)
    blocks = [remark(key) for key in range(20)]
    layout.replace(blocks, 100)
    draw.drawn.clear()
    layout.replace([*blocks[:-1], remark(19, 2)], 100)
    assert draw.drawn == ["19"]
    assert layout.height == 41


def test_what_comes_before_does_not_move_what_is_there() -> None:
    """Older blocks leave the lines that are laid out as they were, until they are wanted."""
    layout = Layout(Drawing())
    newer = [remark(key) for key in range(50, 60)]
    layout.replace(newer, 4)
    before = layout.lines()
    layout.replace([*(remark(key) for key in range(50)), *newer], 4)
    assert layout.lines() == before
    added = layout.extend(5)
    assert added == 10
    assert layout.lines()[added:] == before


@pytest.mark.slow
def test_too_much_above_is_forgotten() -> None:
    """While somebody looks at the end, what is far above it is not kept, and can be laid out again."""
    layout = Layout(Drawing())
    layout.replace([remark(key) for key in range(30_000)], 100)
    layout.extend(30_000)
    assert layout.height == 60_000
    layout.forget_above()
    assert layout.height <= layout_module.MOST_LINES
    assert layout.lines()[-2] == "29999.0"
    layout.extend(1)
    assert layout.block_at(0) == (layout.first, 0)


edits = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 4)),
        st.tuples(st.just("grow"), st.integers(1, 4)),
        st.tuples(st.just("older"), st.integers(1, 5)),
        st.tuples(st.just("extend"), st.integers(1, 5)),
        st.tuples(st.just("toggle"), st.integers(0, 9)),
        st.tuples(st.just("cut"), st.integers(0, 5)),
        st.tuples(st.just("all"), st.integers(0, 1)),
    ),
    max_size=25,
)


@given(edits)
def test_the_lines_are_always_those_of_the_blocks(steps: list[tuple[str, int]]) -> None:
    """However blocks come, grow and go, each line is found where the blocks, drawn one after the other, have it."""
    draw = Drawing()
    layout = Layout(draw)
    blocks: list[Block] = [remark(1000)]
    oldest, newest = 1000, 1000
    for what, many in steps:
        match what:
            case "append":
                newest += 1
                blocks = [*blocks, remark(newest, many)]
            case "grow" if blocks:
                blocks = [*blocks[:-1], remark(int(blocks[-1].key), many)]
            case "older":
                blocks = [*(remark(key) for key in range(oldest - many, oldest)), *blocks]
                oldest -= many
            case "extend":
                layout.extend(many)
            case "toggle" if blocks:
                layout.toggle(blocks[many % len(blocks)])
            case "cut":
                blocks = blocks[:many]
            case "all":
                layout.expand(everything=bool(many))
            case _:
                pass
        layout.replace(blocks, 6)
        fresh = [strip.text for at in range(layout.first, len(blocks)) for strip in [*layout.strips_of(at), Strip([])]]
        assert layout.lines() == fresh
        assert layout.height == len(fresh)
        for line, text in enumerate(fresh):
            place = layout.block_at(line)
            assert place is not None
            strips = layout.strips_of(place[0])
            assert text == ("" if place[1] == len(strips) else strips[place[1]].text)
