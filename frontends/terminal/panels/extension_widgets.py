"""What extensions show beside a conversation: titles, statuses, and widgets that receive keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final

import attrs
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

import session_core as sc
from frontends.shared.figures import format_count
from frontends.terminal.look.sanitised_text import sanitise_line
from frontends.terminal.panels.panel import Panel, draw_title_rule
from frontends.terminal.panels.shortcut_keys import key_name
from frontends.terminal.transcript.rendering.entries import render_block_rows

SHARE: Final = 0.25
"""The largest share of the screen for widgets."""
_LEAST_ROWS: Final = 4
_LINE_CHARS: Final = 300
_DEEPEST: Final = 8
_OURS: Final = frozenset({"escape", "tab", "shift+tab", "pageup", "pagedown", "ctrl+c"})
"""Keys with the same meaning in every widget: an extension cannot trap the focus."""


@attrs.frozen(kw_only=True)
class WidgetKey:
    """A key that a widget listens to; `name` is the extension's name for it."""

    widget_id: str
    name: str
    description: str = ""


def widget_keys(block: Mapping[str, object], depth: int = 0) -> Iterator[WidgetKey]:
    """Yield the keys of a widget and of those nested in it."""
    if depth > _DEEPEST:
        return
    if block.get("kind") == "widget" and isinstance(widget_id := block.get("widget_id"), str):
        for binding in _objects(block.get("keybindings")):
            key, description = binding.get("key"), binding.get("description")
            if isinstance(key, str) and (name := key_name(key)) is not None and name not in _OURS:
                said = description if isinstance(description, str) else ""
                yield WidgetKey(widget_id=widget_id, name=key, description=said)
    inner = block.get("body")
    for child in (*([inner] if isinstance(inner, Mapping) else []), *_objects(block.get("children"))):
        yield from widget_keys(child, depth + 1)


def _objects(value: object) -> list[Mapping[str, object]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list | tuple) else []


def _line(text: str | None) -> str:
    return "" if text is None else sanitise_line(text, _LINE_CHARS)


class WidgetPanel(Panel, can_focus=True):
    """Draws the widgets of extensions; with the focus, the marked widget receives its keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "turn(1)", "next widget", show=False),
        Binding("shift+tab", "turn(-1)", "previous widget", show=False),
        Binding("pageup", "scroll(-1)", "scroll up", show=False),
        Binding("pagedown", "scroll(1)", "scroll down", show=False),
    ]

    class WidgetKeyPressed(Message):
        """The user has pressed a key of a widget, given by the extension's name for it."""

        def __init__(self, extension: str, widget_id: str, key: str) -> None:
            super().__init__()
            self.extension = extension
            self.widget_id = widget_id
            self.key = key

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._displays: tuple[sc.extensions.ExtensionDisplay, ...] = ()
        self._rows: dict[str, tuple[object, int, object, list[Strip]]] = {}
        self._marked: str | None = None
        self._offset = 0

    def show(self, displays: tuple[sc.extensions.ExtensionDisplay, ...]) -> None:
        """Show the widgets of extensions."""
        if displays is self._displays or displays == self._displays:
            return
        self._displays = displays
        self._rows = {
            name: cached for name, cached in self._rows.items() if name in {each.extension for each in displays}
        }
        if self._marked not in self._keys_by_extension():
            self._marked = next(iter(self._keys_by_extension()), None)
        has_content = (each.widget is not None or _line(each.status) or _line(each.title) for each in displays)
        self.show_or_hide(wanted=any(has_content))

    # --- drawing ------------------------------------------------------------------------------------------------------

    def draw(self, width: int) -> list[Text | Strip]:
        """Draw all widgets, or as much as there is room for."""
        lines: list[Text | Strip] = []
        for display in self._displays:
            lines += self._display_lines(display, width)
        most = 2 if self.cramped else max(_LEAST_ROWS, int(self.app.size.height * SHARE))
        if len(lines) <= most:
            self._offset = 0
            return lines
        self._offset = max(0, min(self._offset, len(lines) - most + 1))
        part = lines[self._offset : self._offset + most - 1]
        remaining = len(lines) - len(part)
        keys = ", PgUp PgDn scroll" if self.has_focus else ""
        return [*part, Text(f"{self.look.glyph('more')} {format_count(remaining, 'more line')}{keys}", self.look.dim)]

    def _display_lines(self, display: sc.extensions.ExtensionDisplay, width: int) -> list[Text | Strip]:
        look = self.look
        title, status = _line(display.title), _line(display.status)
        if not title and not status and display.widget is None:
            return []
        listens = self.has_focus and display.extension == self._marked
        head = Text("> " if listens else "", look.accent)
        head.append(sanitise_line(display.extension), look.dim)
        if title:
            head.append(f" {look.glyph('dot')} ", look.dim).append(title, look.strong)
        if status:
            head.append(f" {look.glyph('dot')} ", look.dim).append(status, look.text)
        lines: list[Text | Strip] = [draw_title_rule(head, width, look)]
        if display.widget is not None:
            indent = Strip(Text("  ").render(self.app.console))
            lines += [Strip.join([indent, row]) for row in self._widget_rows(display, max(1, width - 2))]
            keys = list(widget_keys(display.widget))
            if keys:
                lines.append(self._keys(keys, listens=listens))
        return lines

    def _widget_rows(self, display: sc.extensions.ExtensionDisplay, width: int) -> list[Strip]:
        cached = self._rows.get(display.extension)
        if cached is not None and cached[0] is display.widget and cached[1] == width and cached[2] is self.look:
            return cached[3]
        rows = render_block_rows(display.widget or {}, width, self.look)
        self._rows[display.extension] = (display.widget, width, self.look, rows)
        return rows

    def _keys(self, keys: Sequence[WidgetKey], *, listens: bool) -> Text:
        look = self.look
        if not listens:
            return Text(f"  {format_count(len(keys), 'key')}, F9 to use them", look.dim)
        said = [f"{sanitise_line(key.name, 40)} {_line(key.description)}".rstrip() for key in keys]
        dot = f" {look.glyph('dot')} "
        return Text(f"  {dot.join([*said, 'Esc back'])}", look.accent)

    # --- keys ---------------------------------------------------------------------------------------------------------

    def _keys_by_extension(self) -> dict[str, list[WidgetKey]]:
        listening = {
            each.extension: list(widget_keys(each.widget)) for each in self._displays if each.widget is not None
        }
        return {extension: keys for extension, keys in listening.items() if keys}

    async def _on_key(self, event: events.Key) -> None:
        for key in self._keys_by_extension().get(self._marked or "", ()):
            if key_name(key.name) == event.key or (event.is_printable and key.name == event.character):
                event.stop()
                event.prevent_default()
                self.post_message(self.WidgetKeyPressed(self._marked or "", key.widget_id, key.name))
                return
        await super()._on_key(event)

    def action_turn(self, step: int) -> None:
        """Switch the keys to another widget."""
        names = list(self._keys_by_extension())
        if self._marked in names:
            self._marked = names[(names.index(self._marked) + step) % len(names)]
            self.redraw()

    def action_scroll(self, step: int) -> None:
        """Show more."""
        self._offset = max(0, self._offset + step * max(1, self.size.height - 2))
        self.redraw()
