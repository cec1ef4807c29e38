"""Small screens on top of the others: choose from a list, type a line, confirm. Esc leaves each of them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
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


class Picker(ModalScreen[T | None]):
    """Choose one of many; typing filters them."""

    DEFAULT_CSS = "Picker { align: center middle; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "leave", show=False),
        Binding("up,ctrl+p", "move(-1)", show=False),
        Binding("down,ctrl+n", "move(1)", show=False),
        Binding("pageup", "move(-10)", show=False),
        Binding("pagedown", "move(10)", show=False),
    ]

    def __init__(self, title: str, choices: Sequence[PickerChoice[T]] | Loader[T], *, placeholder: str = "") -> None:
        super().__init__()
        self._title = title
        self._source = choices
        self._choices: Sequence[PickerChoice[T]] = () if callable(choices) else choices
        self._displayed_choices: list[PickerChoice[T]] = []
        self._loaded = False
        self._placeholder = placeholder or "type to search"

    def compose(self) -> ComposeResult:
        """Build the search field and the list."""
        with Box(self._title):
            yield Input(placeholder=self._placeholder, compact=True)
            yield OptionList(markup=False)
            yield Hint(_HINT)

    def on_mount(self) -> None:
        """Show the choices, or load them."""
        self.query_one(OptionList).can_focus = False
        if callable(self._source):
            self.query_one(Hint).say("loading…")
            self.run_worker(self._load(self._source), exit_on_error=False)
        else:
            self._loaded = True
            self._refill()

    async def _load(self, load: Loader[T]) -> None:
        try:
            self._choices = await load()
        except sc.SessionCoreError as error:
            self.query_one(Hint).say(f"{error.message} (Esc leaves)")
            return
        except Exception as error:
            log.exception("choices could not be loaded")
            self.query_one(Hint).say(f"unexpected error: {type(error).__name__}: {error} (Esc leaves)")
            return
        self._loaded = True
        self._refill()

    @on(Input.Changed)
    def _refill(self) -> None:
        if not self._loaded:
            return
        query = self.query_one(Input).value.strip()
        found = rank_choices(self._choices, query)
        self._displayed_choices = found[:MOST_SHOWN]
        options = self.query_one(OptionList)
        options.clear_options()
        column = _column(self._displayed_choices)
        options.add_options(
            [Option(_line(each, column), disabled=not each.enabled) for each in self._displayed_choices]
        )
        options.highlighted = _initial_index(self._displayed_choices, prefer_current=not query)
        if not self._displayed_choices:
            options.add_option(Option(Text("no match" if query else "there is nothing to choose"), disabled=True))
        remaining = len(found) - len(self._displayed_choices)
        self.query_one(Hint).say(f"{remaining} more; type to find them" if remaining else _HINT)

    def action_move(self, step: int) -> None:
        """Move up or down in the list, skipping disabled choices."""
        options = self.query_one(OptionList)
        usable = [index for index, each in enumerate(self._displayed_choices) if each.enabled]
        if usable:
            index = options.highlighted if options.highlighted is not None else usable[0]
            place = usable.index(index) if index in usable else 0
            options.highlighted = usable[max(0, min(len(usable) - 1, place + step))]

    @on(Input.Submitted)
    def _submitted(self) -> None:
        self._choose(self.query_one(OptionList).highlighted)

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self._choose(event.option_index)

    def _choose(self, index: int | None) -> None:
        if index is not None and index < len(self._displayed_choices) and self._displayed_choices[index].enabled:
            _ = self.dismiss(self._displayed_choices[index].value)


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

    def __init__(
        self,
        title: str,
        value: str = "",
        *,
        placeholder: str = "",
        check: Callable[[str], str | None] | None = None,
    ) -> None:
        super().__init__()
        self._title = title
        self._value = value
        self._placeholder = placeholder
        self._check = check

    def compose(self) -> ComposeResult:
        """Build the field."""
        with Box(self._title):
            yield Input(sanitise_line(self._value), placeholder=self._placeholder, compact=True)
            yield Hint("Enter accepts, Esc leaves")

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        wrong = self._check(event.value) if self._check is not None else None
        if wrong is None:
            _ = self.dismiss(event.value)
        else:
            self.query_one(Hint).say(wrong)


class Confirmation(ModalScreen[bool]):
    """Confirm or cancel; only y confirms, and only if typed after the question could be read.

    Attributes:
        settling: Decides which keys were pressed too early.
    """

    DEFAULT_CSS = """
    Confirmation { align: center middle; }
    Confirmation VerticalScroll { height: auto; max-height: 60vh; }
    Confirmation.danger Box { border: round $error; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n,escape,enter", "dismiss(False)", "no", show=False),
        Binding("up", "scroll(-1)", show=False),
        Binding("down", "scroll(1)", show=False),
    ]

    def __init__(self, question: str, *, title: str = "", danger: bool = False, patience_s: float = 0) -> None:
        super().__init__(classes="danger" if danger else "")
        self._question = question
        self._box_title = title
        self.settling = KeyGuard(patience_s)

    def compose(self) -> ComposeResult:
        """Show the question."""
        with Box(self._box_title or "Are you sure?"):
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
