"""The queue: which messages wait, when each is read, and the actions on them."""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

import session_core as sc
from frontends.shared.figures import format_count
from frontends.terminal.look.sanitised_text import sanitise_line
from frontends.terminal.look.styles import Look
from frontends.terminal.panels.panel import Panel, draw_title_rule

QueueAction = Literal["edit", "remove", "send"]

_ROWS_IDLE: Final = 3
"""Messages shown while the queue does not have the focus."""
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
    ("s", "send it now"),
    ("Alt+Up Alt+Down, K J", "move it"),
    ("Esc", "back"),
)
"""For the help screen: the keys of the queue."""
_KEYS: Final = ("e edit", "d remove", "s send now", "K J move", "Esc back")


def queue_text(item: sc.QueueItem) -> str:
    """Return a queued message as one line, with its attachments."""
    said = sanitise_line(" ".join(part.text for part in item.parts if isinstance(part, sc.TextPart)))
    images = sum(isinstance(part, sc.ImagePart) for part in item.parts)
    files = sum(isinstance(part, sc.FilePart) for part in item.parts)
    more = [format_count(images, "image")] if images else []
    more += [format_count(files, "file")] if files else []
    return f"{said} [{', '.join(more)}]".strip() if more else said or "(empty)"


def queue_line(item: sc.QueueItem, number: int, look: Look, *, marked: bool) -> Text:
    """Draw one queued message."""
    line = Text.assemble((f"{'>' if marked else ' '} {number} ", look.accent))
    line.append(_WHEN.get(item.deliver_as, sanitise_line(item.deliver_as)), look.dim)
    if item.source is not None:
        line.append(f", from {sanitise_line(item.source, 40)}", look.dim)
    return line.append(f" {look.glyph('dot')} ", look.dim).append(
        queue_text(item), look.strong if marked else look.text
    )


class QueuePanel(Panel, can_focus=True):
    """Shows the queue; with the focus, messages can be edited, moved, removed and sent."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "mark(-1)", "previous", show=False),
        Binding("down,j", "mark(1)", "next", show=False),
        Binding("e,enter", "want('edit')", "edit", show=False),
        Binding("d,delete", "want('remove')", "remove", show=False),
        Binding("s", "want('send')", "send now", show=False),
        Binding("alt+up,shift+up,K", "move(-1)", "earlier", show=False),
        Binding("alt+down,shift+down,J", "move(1)", "later", show=False),
    ]

    class QueueActionWanted(Message):
        """The user wants to edit a message, to remove it, or to have it read at once."""

        def __init__(self, action: QueueAction, item: sc.QueueItem) -> None:
            super().__init__()
            self.action: QueueAction = action
            self.item = item

    class QueueMoveRequested(Message):
        """The user wants another order; every message is named."""

        def __init__(self, item_ids: tuple[sc.QueueItemId, ...]) -> None:
            super().__init__()
            self.item_ids = item_ids

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._service_items: tuple[sc.QueueItem, ...] = ()
        self._items: tuple[sc.QueueItem, ...] = ()
        self._marked: sc.QueueItemId | None = None
        self._displayed_ids: list[sc.QueueItemId] = []  # row by row, as drawn

    def show(self, queue: tuple[sc.QueueItem, ...]) -> None:
        """Show the current queue."""
        if queue is self._service_items:
            return
        marked_index = self._marked_index()
        self._service_items = self._items = queue
        if queue and all(each.item_id != self._marked for each in queue):
            self._marked = queue[min(marked_index, len(queue) - 1)].item_id
        self.show_or_hide(wanted=bool(queue))

    def restore_order(self) -> None:
        """Show the real order again: the change failed."""
        self._items = self._service_items
        self.redraw()

    def draw(self, width: int) -> list[Text]:
        """Draw a header, and the messages around the marked one."""
        self._displayed_ids = []
        if not self._items:
            return []
        look, focused = self.look, self.has_focus
        dot = f" {look.glyph('dot')} "
        wait = f"{format_count(len(self._items), 'message')} {'waits' if len(self._items) == 1 else 'wait'}"
        keys = dot.join(_KEYS) if focused else "F7 to change"
        head = Text.assemble((wait, look.strong), (dot, look.dim), (keys, look.accent if focused else look.dim))
        head = draw_title_rule(head, width, look)
        if self.cramped and not focused:
            return [head]
        most = self._most_rows()
        begin = max(0, min(self._marked_index() - most // 2, len(self._items) - most)) if focused else 0
        displayed_items = list(enumerate(self._items, 1))[begin : begin + most]
        self._displayed_ids = [item.item_id for _, item in displayed_items]
        lines = [
            queue_line(item, n, look, marked=focused and item.item_id == self._marked) for n, item in displayed_items
        ]
        remaining = len(self._items) - len(displayed_items)
        more = [Text(f"    {look.glyph('more')} {remaining} more", look.dim)] if remaining else []
        return [head, *lines, *more]

    def _most_rows(self) -> int:
        return _ROWS_IDLE if not self.has_focus or self.cramped else _ROWS

    def _marked_index(self) -> int:
        return next((n for n, each in enumerate(self._items) if each.item_id == self._marked), 0)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Mark the message under the mouse as it was drawn: once focused, the panel draws more rows in other places."""
        row_index = event.y - 1  # row 0 is the header
        if 0 <= row_index < len(self._displayed_ids):
            self._marked = self._displayed_ids[row_index]
            self.redraw()

    def action_mark(self, step: int) -> None:
        """Mark another message."""
        if self._items:
            self._marked = self._items[max(0, min(self._marked_index() + step, len(self._items) - 1))].item_id
            self.redraw()

    def action_want(self, action: QueueAction) -> None:
        """Ask for something to be done with the message."""
        if self._items:
            self.post_message(self.QueueActionWanted(action, self._items[self._marked_index()]))

    def action_move(self, step: int) -> None:
        """Swap it with its neighbour; shown at once, until the service reports the order."""
        marked_index = self._marked_index()
        to = marked_index + step
        if not 0 <= to < len(self._items):
            return
        items = list(self._items)
        items[marked_index], items[to] = items[to], items[marked_index]
        self._items = tuple(items)
        self.post_message(self.QueueMoveRequested(tuple(each.item_id for each in items)))
        self.redraw()
