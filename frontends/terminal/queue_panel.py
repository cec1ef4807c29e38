"""The messages that wait: which there are, when each is read, and what can be done with them."""

from __future__ import annotations

from typing import ClassVar, Final

from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

import session_core as sc
from frontends.console.style import counted
from frontends.terminal.inert import inert_line
from frontends.terminal.looks import Look
from frontends.terminal.panel import Panel, titled

_ROWS_IDLE: Final = 3
"""Messages that are shown while nobody looks at them."""
_ROWS: Final = 10
_WHEN: Final[dict[str, str]] = {
    "steer": "at the next step",
    "follow_up": "when the turn ends",
    "next_turn": "with the next message",
}
KEYS: Final = (
    ("Up Down", "mark a message"),
    ("e, Enter", "edit it"),
    ("d, Delete", "remove it"),
    ("s", "have it read now"),
    ("Alt+Up Alt+Down, K J", "move it"),
    ("Esc", "back"),
)
"""For the help screen: what can be pressed in the queue."""
_KEYS: Final = ("e edit", "d remove", "s send now", "K J move", "Esc back")


def queue_text(item: sc.QueueItem) -> str:
    """Return what a waiting message says, in one line, with what comes along."""
    said = inert_line(" ".join(part.text for part in item.parts if isinstance(part, sc.TextPart)))
    pictures = sum(isinstance(part, sc.ImagePart) for part in item.parts)
    files = sum(isinstance(part, sc.FilePart) for part in item.parts)
    more = [counted(pictures, "picture")] if pictures else []
    more += [counted(files, "file")] if files else []
    return f"{said} [{', '.join(more)}]".strip() if more else said or "(empty)"


def queue_line(item: sc.QueueItem, number: int, look: Look, *, marked: bool) -> Text:
    """Draw one waiting message."""
    line = Text.assemble((f"{'>' if marked else ' '} {number} ", look.accent))
    line.append(_WHEN.get(item.deliver_as, inert_line(item.deliver_as)), look.dim)
    if item.source is not None:
        line.append(f", from {inert_line(item.source, 40)}", look.dim)
    return line.append(f" {look.glyph('dot')} ", look.dim).append(
        queue_text(item), look.strong if marked else look.text
    )


class QueuePanel(Panel, can_focus=True):
    """Shows what waits; with the focus, messages can be edited, moved, removed and sent."""

    DEFAULT_CSS = """
    QueuePanel { height: auto; display: none; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "mark(-1)", "previous", show=False),
        Binding("down,j", "mark(1)", "next", show=False),
        Binding("e,enter", "edit", "edit", show=False),
        Binding("d,delete", "remove", "remove", show=False),
        Binding("s", "send", "send now", show=False),
        Binding("alt+up,shift+up,K", "move(-1)", "earlier", show=False),
        Binding("alt+down,shift+down,J", "move(1)", "later", show=False),
    ]

    class _About(Message):
        def __init__(self, item: sc.QueueItem) -> None:
            super().__init__()
            self.item = item

    class Edit(_About):
        """Somebody wants to write it differently."""

    class Remove(_About):
        """Somebody wants it gone."""

    class SendNow(_About):
        """Somebody wants it read at once."""

    class Move(Message):
        """Somebody wants another order; every message is named."""

        def __init__(self, item_ids: tuple[sc.QueueItemId, ...]) -> None:
            super().__init__()
            self.item_ids = item_ids

    class Emptied(Message):
        """Nothing waits any more, though somebody was looking at it: back to the composer."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._given: tuple[sc.QueueItem, ...] = ()
        self._items: tuple[sc.QueueItem, ...] = ()
        self._marked: sc.QueueItemId | None = None
        self._shown: list[sc.QueueItemId] = []  # row by row, as they were drawn

    def show(self, queue: tuple[sc.QueueItem, ...]) -> None:
        """Show what waits now."""
        if queue is self._given:
            return
        at = self._at()
        self._given = self._items = queue
        if queue and all(each.item_id != self._marked for each in queue):
            self._marked = queue[min(at, len(queue) - 1)].item_id
        self.display = bool(queue)
        if not queue and self.has_focus:
            self.post_message(self.Emptied())
        self.redraw()

    def undo(self) -> None:
        """Show the order as it is: it could not be changed."""
        self._items = self._given
        self.redraw()

    def draw(self, width: int) -> list[Text]:
        """Draw a head line, and the messages around the marked one."""
        self._shown = []
        if not self._items:
            return []
        look, focused = self.look, self.has_focus
        dot = f" {look.glyph('dot')} "
        wait = f"{counted(len(self._items), 'message')} {'waits' if len(self._items) == 1 else 'wait'}"
        keys = dot.join(_KEYS) if focused else "F7 to change"
        head = Text.assemble((wait, look.strong), (dot, look.dim), (keys, look.accent if focused else look.dim))
        head = titled(head, width, look)
        if self.cramped and not focused:
            return [head]
        most = self._most_rows()
        begin = max(0, min(self._at() - most // 2, len(self._items) - most)) if focused else 0
        shown = list(enumerate(self._items, 1))[begin : begin + most]
        self._shown = [item.item_id for _, item in shown]
        lines = [queue_line(item, n, look, marked=focused and item.item_id == self._marked) for n, item in shown]
        left = len(self._items) - len(shown)
        more = [Text(f"    {look.glyph('more')} {left} more", look.dim)] if left else []
        return [head, *lines, *more]

    def _most_rows(self) -> int:
        return _ROWS_IDLE if not self.has_focus or self.cramped else _ROWS

    def _at(self) -> int:
        return next((n for n, each in enumerate(self._items) if each.item_id == self._marked), 0)

    def on_focus(self) -> None:
        """Show the keys."""
        self.redraw()

    def on_blur(self) -> None:
        """Hide the keys."""
        self.redraw()

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Mark the message under the mouse, as it was drawn: with the focus, more rows are drawn in other places."""
        at = event.y - 1  # above them is the head line
        if 0 <= at < len(self._shown):
            self._marked = self._shown[at]
            self.redraw()

    def action_mark(self, step: int) -> None:
        """Mark another message."""
        if self._items:
            self._marked = self._items[max(0, min(self._at() + step, len(self._items) - 1))].item_id
            self.redraw()

    def action_edit(self) -> None:
        """Write it differently."""
        if self._items:
            self.post_message(self.Edit(self._items[self._at()]))

    def action_remove(self) -> None:
        """Throw it away."""
        if self._items:
            self.post_message(self.Remove(self._items[self._at()]))

    def action_send(self) -> None:
        """Have it read at once."""
        if self._items:
            self.post_message(self.SendNow(self._items[self._at()]))

    def action_move(self, step: int) -> None:
        """Put it before or after its neighbour; shown at once, until the service says what the order is."""
        at = self._at()
        to = at + step
        if not 0 <= to < len(self._items):
            return
        items = list(self._items)
        items[at], items[to] = items[to], items[at]
        self._items = tuple(items)
        self.post_message(self.Move(tuple(each.item_id for each in items)))
        self.redraw()
