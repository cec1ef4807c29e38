"""The conversation on the screen.

Rules:
1. Only visible lines are drawn; `layout` knows the rest.
2. The visible part stays in place, whatever is added above or below it.
3. A view at the end follows the end; a view scrolled away is never moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar, Final

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import var
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

import session_core as sc
from frontends.shared.conversation.blocks import Block, ToolBlock, UserMessageBlock
from frontends.terminal.look.clock import now_ms
from frontends.terminal.look.styles import Look
from frontends.terminal.transcript.layout import Draw, Layout
from frontends.terminal.transcript.rendering.draw import Drawer, changes_with_time, is_expandable

MORE_ABOVE: Final = 40
"""Blocks drawn at once when scrolling up: a few screens."""
_INDENT: Final = 2
"""Cells on the left for the mark of the chosen block."""
KEYS: Final = (
    ("Up Down", "select a block"),
    ("Enter", "show more or less of it"),
    ("c", "copy it"),
    ("e", "edit it, on a new branch"),
    ("b", "show the next version of this message"),
    ("o", "open the session of the subagent"),
    ("Home End", "the beginning, the end"),
    ("Esc", "back"),
)
"""For the help screen: the keys of the conversation."""


class _AboutUserMessage(Message):
    """The user wants something of a message."""

    def __init__(self, block: UserMessageBlock) -> None:
        super().__init__()
        self.block = block


class Transcript(ScrollView, can_focus=True):
    """Shows blocks one below the other."""

    DEFAULT_CSS = """
    Transcript { background: $background; scrollbar-size-vertical: 1; scrollbar-gutter: stable; overflow-x: hidden; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "choose(-1)", "previous", show=False),
        Binding("down,j", "choose(1)", "next", show=False),
        Binding("enter,space", "expand", "more or less", show=False),
        Binding("c,y", "copy_block", "copy", show=False),
        Binding("e", "edit_block", "edit", show=False),
        Binding("b", "branch_block", "another branch", show=False),
        Binding("o", "open_block", "the subagent's session", show=False),
        Binding("home,g", "oldest", "oldest", show=False),
        Binding("end,G", "newest", "newest", show=False),
    ]

    following: var[bool] = var(default=True)

    class OlderWanted(Message):
        """The user has reached the oldest block, and may want older ones."""

    class EditWanted(_AboutUserMessage):
        """The user wants to edit a message."""

    class BranchWanted(_AboutUserMessage):
        """The user wants to see another branch at this message."""

    class CopyWanted(Message):
        """The user wants to copy a text."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class OpenWanted(Message):
        """The user wants to view the session of a subagent."""

        def __init__(self, session_id: sc.SessionId) -> None:
            super().__init__()
            self.session_id = session_id

    def __init__(self, look: Look, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._look = look
        self._width = 0
        self._style = Style()
        self._subject: object = None
        self._layout = self._new_layout()
        self._pending: Sequence[Block] | None = ()  # blocks that arrived before the width was known
        self._chosen: str | None = None
        self._asked_for_older = False

    # --- content ------------------------------------------------------------------------------------------------------

    def show(self, subject: object, blocks: Sequence[Block]) -> None:
        """Show these blocks; a new subject, such as another session, starts at its end."""
        if subject != self._subject:
            self._subject = subject
            self._chosen = None
            expand_all = self._layout.expand_all
            self._layout = self._new_layout()
            self._layout.expand_all = expand_all
            self.following = True
        elif blocks is self._layout.blocks:
            return
        self._asked_for_older = False
        if not self._width:
            self._pending = blocks
            return
        with self._keep_position():
            self._layout.replace(blocks, self._enough)
        if self.following:
            self._layout.forget_above()
        elif self.scroll_y < self.size.height and self._layout.first:
            self.call_later(self._load_more)  # older blocks arrived for a user who is waiting
        self._update_size()

    def set_look(self, look: Look) -> None:
        """Redraw everything in another look."""
        self._look = look
        self._layout.redraw(self._make_draw())
        self._update_size()

    def tick(self) -> None:
        """Redraw blocks that show an elapsed time."""
        with self._keep_position():
            changed = self._layout.redraw_blocks(changes_with_time)
        if changed:
            self._update_size()

    def expand_all(self, *, expanded: bool) -> None:
        """Expand or collapse all blocks."""
        self._layout.expand(everything=expanded)
        self._layout.fill(self._enough)
        self._update_size()

    @property
    def expanded(self) -> bool:
        """Whether all blocks are expanded."""
        return self._layout.expand_all

    def show_message(self, key: str) -> bool:
        """Scroll to the block with this key, or to the first block of that message; False if there is none."""
        layout = self._layout
        found = (
            index for index, block in enumerate(layout.blocks) if block.key == key or block.key.startswith(f"{key}/")
        )
        index = next(found, None)
        if index is None:
            return False
        self._lay_out_from(index)
        self._chosen = layout.blocks[index].key
        self.following = False
        self._go_to(max(0, layout.top_of(index) - 1))
        self.following = self._shows_end(self.scroll_y)
        self.refresh()
        return True

    # --- drawing ------------------------------------------------------------------------------------------------------

    @property
    def _enough(self) -> int:
        """The number of lines that fill the screen, with some to spare."""
        return 2 * max(self.size.height, 24)

    def _new_layout(self) -> Layout:
        return Layout(self._make_draw())

    def _make_draw(self) -> Draw:
        drawer = Drawer()

        def draw(block: Block, expanded: bool) -> list[Strip]:  # noqa: FBT001 - a `Draw`
            width = max(10, self._width - _INDENT)
            return drawer.draw(block, width, self._look, expanded=expanded, now_ms=now_ms())

        return draw

    def _lay_out_from(self, index: int) -> None:
        """Lay out everything from this block on, keeping the visible part in place."""
        if index >= self._layout.first:
            return
        added = self._layout.extend(self._layout.first - index)
        self.virtual_size = Size(self._width, self._layout.height)
        self._go_to(self.scroll_y + added)
        self.refresh()

    def _go_to(self, y: float) -> None:
        """Scroll a line to the top at once; forced, as Textual does not scroll before it has a scrollbar."""
        self.scroll_to(y=y, animate=False, immediate=True, force=True)

    @contextmanager
    def _keep_position(self) -> Iterator[None]:
        """Keep the top line in place during the block, if the user has scrolled away."""
        layout = self._layout
        place = None if self.following else layout.block_at(int(self.scroll_y))
        key = None if place is None else layout.blocks[place[0]].key
        top = None if place is None else layout.top_of(place[0])
        yield
        index = None if key is None else layout.index_of(key)
        if index is not None and index >= layout.first and top is not None and (moved := layout.top_of(index) - top):
            self.virtual_size = Size(self._width, layout.height)
            self._go_to(self.scroll_y + moved)

    def _update_size(self) -> None:
        self.virtual_size = Size(self._width, self._layout.height)
        if self.following:
            self._go_to(max(0, self._layout.height - self.size.height))
        self.refresh()

    def on_resize(self, event: events.Resize) -> None:
        """Redraw for the new width."""
        width = self.scrollable_content_region.width
        if width != self._width:
            self._width = width
            self._layout.redraw(self._make_draw())
        if self._pending is not None:
            pending, self._pending = self._pending, None
            self._layout.replace(pending, self._enough)
        self._layout.fill(self._enough)
        self._update_size()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the visible lines; looks up their common style once, as that is slow."""
        self._style = self.rich_style
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Return one visible line."""
        line = int(self.scroll_y) + y
        style = self._style
        place = self._layout.block_at(line)
        if place is None:
            return Strip.blank(self.size.width, style)
        index, inner = place
        strips = self._layout.strips_of(index)
        if inner >= len(strips):
            return Strip.blank(self.size.width, style).apply_offsets(0, line)
        chosen = self.has_focus and self._layout.blocks[index].key == self._chosen
        margin = Strip([Segment("▌ " if chosen else "  ", self._look.accent)], _INDENT)
        strip = Strip.join([margin, strips[inner]]).apply_style(style)
        strip = strip.crop_extend(0, self.size.width, style)
        return self._with_selection(strip, line).apply_offsets(0, line)

    # --- selecting text -----------------------------------------------------------------------------------------------

    def _with_selection(self, strip: Strip, line: int) -> Strip:
        selection = self.text_selection
        span = None if selection is None else selection.get_span(line)
        if span is None:
            return strip
        start, end = span
        text = strip.text
        start_cell = cell_len(text[:start])
        right = strip.cell_length if end == -1 else cell_len(text[:end])
        before, marked, after = strip.divide([start_cell, max(start_cell, right), strip.cell_length])
        style = self.screen.get_component_rich_style("screen--selection")
        return Strip.join([before, Strip(list(marked)).apply_style(style), after])

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the text selected by the mouse."""
        margin = " " * _INDENT
        marked = selection.extract("\n".join(margin + line for line in self._layout.lines()))
        return "\n".join(line.removeprefix(margin) for line in marked.split("\n")), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Redraw the selection."""
        self.refresh()

    # --- scrolling ----------------------------------------------------------------------------------------------------

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Track whether the view is at the end, and draw more when it reaches the beginning."""
        super().watch_scroll_y(old_value, new_value)
        if not self.size.height:
            return  # hidden: this is no scroll by the user
        self.following = self._shows_end(new_value)
        if new_value < self.size.height and new_value < old_value:
            self.call_later(self._load_more)

    def _shows_end(self, y: float) -> bool:
        """Return whether nothing is below the screen when this line is at its top."""
        return y >= self._layout.height - self.size.height

    def _load_more(self) -> None:
        layout = self._layout
        if layout.first > 0:
            self._lay_out_from(max(0, layout.first - MORE_ABOVE))
        elif layout.blocks and not self._asked_for_older:
            self._asked_for_older = True
            self.post_message(self.OlderWanted())

    def action_oldest(self) -> None:
        """Scroll to the oldest known block."""
        self._lay_out_from(max(0, self._layout.first - 5 * MORE_ABOVE))
        self._go_to(0)
        self._load_more()

    def action_newest(self) -> None:
        """Scroll to the end and follow it."""
        self._chosen = None
        self.following = True
        self._update_size()

    def action_choose(self, step: int) -> None:
        """Choose the next or previous block."""
        layout = self._layout
        if not layout.blocks:
            return
        before = None if self._chosen is None else layout.index_of(self._chosen)
        last = len(layout.blocks) - 1
        index = last if before is None else max(0, min(last, before + step))
        self._lay_out_from(index)
        self._chosen = layout.blocks[index].key
        top, height = layout.top_of(index), self.size.height
        bottom = top + len(layout.strips_of(index))
        if top < self.scroll_y:
            self._go_to(top)
        elif bottom > self.scroll_y + height:
            self._go_to(min(top, bottom - height))
        self.refresh()

    # --- actions on a block -------------------------------------------------------------------------------------------

    @property
    def chosen(self) -> Block | None:
        """The block chosen by key or mouse."""
        index = None if self._chosen is None else self._layout.index_of(self._chosen)
        return None if index is None else self._layout.blocks[index]

    def action_expand(self) -> None:
        """Expand or collapse the chosen block."""
        if (block := self.chosen) is not None:
            self._toggle(block)

    def _toggle(self, block: Block) -> None:
        self._layout.toggle(block)
        self.following = False  # the clicked block stays under the mouse
        self._update_size()
        self.following = self._shows_end(self.scroll_y)

    def action_copy_block(self) -> None:
        """Copy the text of the chosen block."""
        if (text := _text_of(self.chosen)) is not None:
            self.post_message(self.CopyWanted(text))

    def action_edit_block(self) -> None:
        """Edit the chosen message."""
        if isinstance(self.chosen, UserMessageBlock):
            self.post_message(self.EditWanted(self.chosen))

    def action_branch_block(self) -> None:
        """Switch to another branch at the chosen message."""
        if isinstance(self.chosen, UserMessageBlock):
            self.post_message(self.BranchWanted(self.chosen))

    def action_open_block(self) -> None:
        """View the session of the subagent behind the chosen call."""
        if isinstance(self.chosen, ToolBlock) and self.chosen.child_id is not None:
            self.post_message(self.OpenWanted(self.chosen.child_id))

    def on_click(self, event: events.Click) -> None:
        """Choose a block, and expand or collapse it if it has more to show."""
        place = self._layout.block_at(int(self.scroll_y) + event.y)
        if place is not None:
            block = self._layout.blocks[place[0]]
            self._chosen = block.key
            if is_expandable(block):
                self._toggle(block)
            self.refresh()


def _text_of(block: Block | None) -> str | None:
    match block:
        case None:
            return None
        case ToolBlock(result=result):
            return result.text if result is not None else block.live.output if block.live is not None else ""
        case _:
            return getattr(block, "text", None)
