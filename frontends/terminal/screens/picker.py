"""Small screens on top of the others: choose from a list, type a line, confirm. Esc leaves each of them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from time import monotonic
from typing import ClassVar, Final, Generic, TypeVar

import attrs
from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.fuzzy import Matcher
from textual.screen import ModalScreen
from textual.widgets import Input, Label, OptionList, Static
from textual.widgets.option_list import Option

import session_core as sc
from frontends.terminal.look.sanitised_text import sanitise_line, sanitise_text, to_plain_text
from frontends.terminal.look.text_width import width_of
from frontends.terminal.questions.key_guard import KeyGuard

log = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")

MOST_SHOWN: Final = 200
"""Choices listed at once; typing finds the rest."""
_DETAIL_CHARS: Final = 300
_LABEL_CELLS: Final = 36
"""Labels up to this width have their details aligned in a column."""
_HINT: Final = "Enter chooses, Esc leaves"


@attrs.frozen(kw_only=True)
class PickerChoice(Generic[T]):
    """A choice; `current` marks the one in use."""

    value: T
    label: str
    detail: str = ""
    current: bool = False
    enabled: bool = True


Loader = Callable[[], Awaitable[Sequence[PickerChoice[T]]]]


class Box(Vertical):
    """The frame of a small screen."""

    DEFAULT_CSS = """
    Box { width: 80; max-width: 94%; height: auto; max-height: 85%; background: $surface; border: round $primary;
          padding: 0 1; }
    Box > .hint { width: 1fr; color: $text-muted; }
    Box > Input { border: none; height: 1; padding: 0; background: $surface; }
    Box > OptionList > .option-list--option-disabled { color: $text-muted; }
    Box > OptionList { height: auto; max-height: 60vh; border: none; padding: 0; background: $surface;
                       text-wrap: nowrap; text-overflow: ellipsis; scrollbar-size-vertical: 1; }
    """

    def __init__(self, title: str) -> None:
        super().__init__()
        self.border_title = Text(sanitise_line(title, 200))  # never a str, which would be read as markup


class Hint(Label):
    """The bottom line, with the keys or an error."""

    def __init__(self, text: str) -> None:
        super().__init__(to_plain_text(text), classes="hint")

    def say(self, text: str) -> None:
        """Change the text."""
        self.update(to_plain_text(text))


class ListScreen(ModalScreen[T | None]):
    """Type above a list, and choose one of its rows; subclasses fill the list.

    Attributes:
        page: The number of rows that PageUp and PageDown move.
    """

    DEFAULT_CSS = "ListScreen { align: center middle; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "leave", show=False),
        Binding("up,ctrl+p", "move(-1)", show=False),
        Binding("down,ctrl+n", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
    ]
    page: ClassVar[int] = 10

    def __init__(self, title: str, hint: str, *, placeholder: str, typed: str = "") -> None:
        super().__init__()
        self._title = title
        self.field = Input(typed, placeholder=placeholder, compact=True)
        self.options = OptionList(markup=False)
        self.options.can_focus = False
        self.hint = Hint(hint)
        self._values: Sequence[T] = ()

    def compose(self) -> ComposeResult:
        """Build the field and the list."""
        with Box(self._title):
            yield self.field
            yield self.options
            yield self.hint

    def fill(self, rows: Iterable[Option], values: Sequence[T]) -> None:
        """Show these rows, each of which chooses the value at its place."""
        self._values = values
        self.options.clear_options()
        self.options.add_options(rows)

    async def load(self, loading: Awaitable[Sequence[R]], *, after_error: str = "") -> Sequence[R] | None:
        """Wait for something to show; if it fails, say why, and return None."""
        try:
            return await loading
        except sc.SessionCoreError as error:
            self.hint.say(f"{error.message}{after_error}")
        except Exception as error:
            log.exception("a list could not be loaded")
            self.hint.say(f"unexpected error: {type(error).__name__}: {error}{after_error}")
        return None

    def action_move(self, step: int) -> None:
        """Move up or down in the list, skipping disabled rows."""
        options = self.options
        usable = [index for index in range(len(self._values)) if not options.get_option_at_index(index).disabled]
        if usable:
            place = usable.index(options.highlighted) if options.highlighted in usable else 0
            options.highlighted = usable[max(0, min(len(usable) - 1, place + step))]

    def action_page(self, step: int) -> None:
        """Move many rows up or down."""
        self.action_move(step * self.page)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        self.accept(event.value)

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self._choose(event.option_index)

    def accept(self, typed: str) -> None:
        """Choose the marked row."""
        self._choose(self.options.highlighted)

    def _choose(self, index: int | None) -> None:
        if index is not None and index < len(self._values) and not self.options.get_option_at_index(index).disabled:
            _ = self.dismiss(self._values[index])


class Picker(ListScreen[T]):
    """Choose one of many; typing filters them."""

    def __init__(self, title: str, choices: Sequence[PickerChoice[T]] | Loader[T]) -> None:
        super().__init__(title, _HINT, placeholder="type to search")
        self._source = choices
        self._choices: Sequence[PickerChoice[T]] | None = None if callable(choices) else choices

    def on_mount(self) -> None:
        """Show the choices, or load them."""
        if callable(self._source):
            self.hint.say("loading…")
            self.run_worker(self._load(self._source), exit_on_error=False)
        else:
            self._refill()

    async def _load(self, load: Loader[T]) -> None:
        self._choices = await self.load(load(), after_error=" (Esc leaves)")
        self._refill()

    @on(Input.Changed)
    def _refill(self) -> None:
        if self._choices is None:
            return
        query = self.field.value.strip()
        found = rank_choices(self._choices, query)
        displayed = found[:MOST_SHOWN]
        column = _column(displayed)
        self.fill(
            [Option(_line(each, column), disabled=not each.enabled) for each in displayed],
            [each.value for each in displayed],
        )
        self.options.highlighted = _initial_index(displayed, prefer_current=not query)
        if not displayed:
            nothing = "no match" if query else "there is nothing to choose"
            self.options.add_option(Option(Text(nothing), disabled=True))
        remaining = len(found) - len(displayed)
        self.hint.say(f"{remaining} more; type to find them" if remaining else _HINT)


def _initial_index(choices: Sequence[PickerChoice[T]], *, prefer_current: bool) -> int | None:
    """Return the initial choice: the one in use, else the first enabled one."""
    usable = [index for index, each in enumerate(choices) if each.enabled]
    current = [index for index in usable if choices[index].current] if prefer_current else []
    return next(iter([*current, *usable]), None)


def rank_choices(choices: Sequence[PickerChoice[T]], query: str) -> list[PickerChoice[T]]:
    """Return the matching choices, best first; without a query all of them, in their order."""
    if not query:
        return list(choices)
    matcher = Matcher(query)
    scored = [(matcher.match(f"{each.label} {each.detail}"), index, each) for index, each in enumerate(choices)]
    return [each for score, _, each in sorted(scored, key=lambda it: (-it[0], it[1])) if score > 0]


def _column(choices: Sequence[PickerChoice[T]]) -> int:
    """Return the column where details begin; none in particular if some labels are long."""
    widest = max((width_of(_indented(each.label)) for each in choices), default=0)
    return widest if widest <= _LABEL_CELLS else 0


def _line(choice: PickerChoice[T], column: int) -> Text:
    line = Text("• " if choice.current else "  ", no_wrap=True, overflow="ellipsis")
    label = _indented(choice.label)
    line.append(label, "bold" if choice.current else "")
    if choice.detail:
        line.append(" " * (max(0, column - width_of(label)) + 2))
        line.append(" ".join(sanitise_text(choice.detail[:_DETAIL_CHARS]).splitlines()), "dim")
    return line


def _indented(label: str) -> str:
    """Return a label as one line, keeping its leading spaces."""
    line = sanitise_line(label, _DETAIL_CHARS)
    return " " * (len(label) - len(label.lstrip(" "))) + line


class LineInputScreen(ModalScreen[str | None]):
    """Type one line; `check` returns what is wrong with it, or nothing."""

    DEFAULT_CSS = "LineInputScreen { align: center middle; }"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "leave", show=False)]

    def __init__(self, title: str, value: str = "", *, check: Callable[[str], str | None] = lambda _: None) -> None:
        super().__init__()
        self._title = title
        self._value = value
        self._check = check

    def compose(self) -> ComposeResult:
        """Build the field."""
        with Box(self._title):
            yield Input(sanitise_line(self._value), compact=True)
            yield Hint("Enter accepts, Esc leaves")

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        wrong = self._check(event.value)
        if wrong is None:
            _ = self.dismiss(event.value)
        else:
            self.query_one(Hint).say(wrong)


class Confirmation(ModalScreen[bool | None]):
    """Confirm or cancel something dangerous; only y confirms, and only if typed after the question could be read.

    Attributes:
        settling: Decides which keys were pressed too early.
    """

    DEFAULT_CSS = """
    Confirmation { align: center middle; }
    Confirmation VerticalScroll { height: auto; max-height: 60vh; }
    Confirmation Box { border: round $error; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n,escape,enter", "dismiss(False)", "no", show=False),
        Binding("up", "scroll(-1)", show=False),
        Binding("down", "scroll(1)", show=False),
    ]

    def __init__(self, question: str, *, patience_s: float = 0) -> None:
        super().__init__()
        self._question = question
        self.settling = KeyGuard(patience_s)

    def compose(self) -> ComposeResult:
        """Show the question."""
        with Box("Are you sure?"):
            with VerticalScroll(can_focus=False):
                yield Static(to_plain_text(self._question), markup=False)
            yield Hint("y yes, n no")

    def on_mount(self) -> None:
        """Accept keys from the moment the question can be read."""
        self.call_after_refresh(self._drawn)

    def _drawn(self) -> None:
        self.settling.mark_drawn(monotonic())

    def on_key(self, event: events.Key) -> None:
        """Confirm on y, unless it was pressed before the question could be read."""
        if event.key == "y" and self.settling.accepts_key(event.time):
            event.stop()
            _ = self.dismiss(result=True)

    def action_scroll(self, step: int) -> None:
        """Scroll through a long question."""
        self.query_one(VerticalScroll).scroll_relative(y=step, animate=False)
