"""The line position of each block: pure bookkeeping for a long picture that grows at both ends.

Rules:
1. A block is drawn when it is new, has changed or was toggled; all others are kept as drawn.
2. At first only the end is laid out: `first` is the first block that is. More is laid out above on demand.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final

import attrs
from textual.strip import Strip

from frontends.shared.conversation.blocks import Block

MOST_LINES: Final = 20_000
"""The most lines kept while the user is at the end; those above are drawn again on demand."""
_SPARE_BLOCKS: Final = 100
"""Drawn blocks kept although they are no longer laid out, for going back and forth."""

Draw = Callable[[Block, bool], list[Strip]]
"""Draws a block, expanded or collapsed."""


@attrs.define(eq=False)
class _DrawnBlock:
    """A drawn block."""

    block: Block
    strips: list[Strip]
    expanded: bool


class Layout:
    """The lines of a sequence of blocks; each is followed by an empty line.

    Attributes:
        blocks: All blocks, oldest first.
        first: The first block that is laid out.
        height: The number of lines laid out.
        expand_all: Whether blocks are drawn expanded, unless they were toggled.
    """

    def __init__(self, draw: Draw) -> None:
        self.blocks: Sequence[Block] = ()
        self.first = 0
        self.height = 0
        self.expand_all = False
        self._draw = draw
        self._drawn: dict[str, _DrawnBlock] = {}
        self._tops: list[int] = []  # of the blocks from `first` on
        self._toggled: set[str] = set()

    # --- changes ------------------------------------------------------------------------------------------------------

    def replace(self, blocks: Sequence[Block], lines: int) -> None:
        """Replace the blocks, and lay out at least this many lines of their end, or as many as there are."""
        before, self.blocks = self.blocks, blocks
        self._lay_out(self._first_changed(before))
        self.fill(lines)
        if len(self._drawn) > len(self._tops) + 2 * _SPARE_BLOCKS:
            retained_keys = {block.key for block in blocks[max(0, self.first - _SPARE_BLOCKS) :]}
            self._drawn = {key: drawn for key, drawn in self._drawn.items() if key in retained_keys}

    def redraw(self, draw: Draw | None = None) -> None:
        """Redraw everything, optionally with another draw function."""
        self._draw = draw or self._draw
        self._drawn.clear()
        self._lay_out(self.first)

    def redraw_blocks(self, wanted: Callable[[Block], bool]) -> bool:
        """Redraw some blocks; return whether there are any."""
        changed = [index for index in range(self.first, len(self.blocks)) if wanted(self.blocks[index])]
        for index in changed:
            self._drawn.pop(self.blocks[index].key, None)
        if changed:
            self._lay_out(changed[0])
        return bool(changed)

    def expand(self, *, everything: bool) -> None:
        """Expand or collapse all blocks."""
        self.expand_all = everything
        self._toggled.clear()
        self._lay_out(self.first)

    def toggle(self, block: Block) -> None:
        """Expand or collapse one block."""
        self._toggled ^= {block.key}
        index = self.index_of(block.key)
        if index is not None:
            self._lay_out(max(index, self.first))

    def fill(self, lines: int) -> None:
        """Lay out at least this many lines, or as many as there are."""
        while self.first > 0 and self.height < lines:
            self.extend(8)

    def extend(self, count: int) -> int:
        """Lay out this many more blocks above; return the number of lines added."""
        count = min(count, self.first)
        self.first -= count
        tops, height = [], 0
        for index in range(self.first, self.first + count):
            tops.append(height)
            height += self._lines_of(index)
        self._tops = [*tops, *(top + height for top in self._tops)]
        self.height += height
        return height

    def forget_above(self) -> None:
        """Drop blocks far above the end if too many lines are laid out."""
        if self.height <= MOST_LINES:
            return
        # Drop down to half the limit, so that this does not run again with every new line.
        keep = bisect_right(self._tops, self.height - MOST_LINES // 2)
        cut = self._tops[keep] if keep < len(self._tops) else self.height
        self.first += keep
        self._tops = [top - cut for top in self._tops[keep:]]
        self.height -= cut

    # --- lookups ------------------------------------------------------------------------------------------------------

    def index_of(self, key: str) -> int | None:
        """Return the index of a block; recent ones are found fastest."""
        return next((index for index in range(len(self.blocks) - 1, -1, -1) if self.blocks[index].key == key), None)

    def top_of(self, index: int) -> int:
        """Return the first line of a block, which must be laid out."""
        return self._tops[index - self.first]

    def block_at(self, line: int) -> tuple[int, int] | None:
        """Return the block at a line, and the line within it; the empty line below belongs to it."""
        if not 0 <= line < self.height:
            return None
        index = bisect_right(self._tops, line) - 1
        return self.first + index, line - self._tops[index]

    def strips_of(self, index: int) -> list[Strip]:
        """Return a block as drawn."""
        block = self.blocks[index]
        expanded = (block.key in self._toggled) != self.expand_all
        drawn = self._drawn.get(block.key)
        if drawn is None or drawn.block is not block or drawn.expanded != expanded:
            drawn = self._drawn[block.key] = _DrawnBlock(block, self._draw(block, expanded), expanded)
        return drawn.strips

    def lines(self) -> list[str]:
        """Return all lines laid out, as text."""
        lines: list[str] = []
        for index in range(self.first, len(self.blocks)):
            lines += [strip.text.rstrip() for strip in self.strips_of(index)]
            lines.append("")
        return lines

    # --- internals ----------------------------------------------------------------------------------------------------

    def _first_changed(self, before: Sequence[Block]) -> int:
        """Return the first block that changed, allowing for older blocks added before all."""
        blocks, first = self.blocks, self.first
        anchor = before[first].key if self._tops and first < len(before) else None
        if anchor is None:
            self.first = len(blocks)
            return self.first
        if first >= len(blocks) or blocks[first].key != anchor:
            found = next((index for index, block in enumerate(blocks) if block.key == anchor), None)
            if found is None:  # another branch
                self.first = len(blocks)
                return self.first
            # Shift `before` by the blocks added or removed above, so that equal indexes mean equal blocks again.
            moved, self.first = found - first, found
            before = (*blocks[:moved], *before) if moved > 0 else before[-moved:]
        both = min(len(before), len(blocks))
        return next((index for index in range(self.first, both) if before[index] is not blocks[index]), both)

    def _lay_out(self, since: int) -> None:
        """Lay out the blocks from this one on."""
        del self._tops[max(0, since - self.first) :]
        last = self.first + len(self._tops) - 1
        self.height = self._tops[-1] + self._lines_of(last) if self._tops else 0
        for index in range(self.first + len(self._tops), len(self.blocks)):
            self._tops.append(self.height)
            self.height += self._lines_of(index)

    def _lines_of(self, index: int) -> int:
        return len(self.strips_of(index)) + 1
