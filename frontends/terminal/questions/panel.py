"""The panel for approvals of tool calls and dialogs of extensions, one at a time.

Rules:
1. The question, the answers and the keys stand outside the foreign text, which has its own frame and scrolls.
2. The panel shows what Enter would do before it is pressed, and no other key answers anything. Keys typed before a
   question could be read never count, and a key typed for one question never answers another.
3. The panel never takes the focus on its own, and questions never swap places while the user is answering.
   The app focuses a new question once the user has not typed for a moment and the composer is empty; else F8 does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic
from typing import ClassVar, Final

import attrs
from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input

import session_core as sc
from frontends.commands.run.approval_answers import TypedApprovalAnswer
from frontends.commands.run.dialogs import Reply
from frontends.shared.sanitise import one_line
from frontends.terminal.look.clock import now_ms
from frontends.terminal.panels.panel import LinesPanel, Panel, PanelLeft, is_tight
from frontends.terminal.questions import question_lines
from frontends.terminal.questions.answers import AnswerMeaning, ScreenQuestion
from frontends.terminal.questions.approval_view import approval_meaning, approval_question, parse_choice
from frontends.terminal.questions.dialog_view import (
    MAX_ANSWER_CHARS,
    dialog_meaning,
    dialog_question,
    filter_choices,
    parse_confirmation,
)
from frontends.terminal.questions.key_guard import KeyGuard
from frontends.terminal.questions.question_order import Request, RequestQueue
from frontends.terminal.questions.untrusted_view import ForeignView


# A question being answered: the text and choice so far, and what Enter would make of them.
@attrs.define(eq=False)
class CurrentRequest:
    """A request with its question; `chosen` is the number of the choice the user marked, if any."""

    request: Request
    question: ScreenQuestion
    chosen: int | None = None

    def selectable_choices(self, typed: str) -> list[int]:
        """Return the numbers of the choices that match the typed text."""
        choices = self.question.choices
        return filter_choices(choices, typed) if self.question.filters else [*range(len(choices))]

    def marked_choice(self, typed: str) -> int | None:
        """Return the number of the choice that Enter would pick."""
        if self.question.filters:
            selectable = self.selectable_choices(typed)
            return self.chosen if self.chosen in selectable else selectable[0] if selectable else None
        if not typed.strip():
            return self.chosen
        if isinstance(self.request, sc.Approval):
            return parse_choice(self.request, typed)
        return parse_confirmation(typed) if self.request.kind == "confirm" else None

    def meaning(self, typed: str) -> AnswerMeaning:
        """Return what Enter would do."""
        if isinstance(self.request, sc.Approval):
            return approval_meaning(self.request, typed, self.chosen)
        return dialog_meaning(self.request, typed, self.marked_choice(typed))

    def move_mark(self, typed: str, step: int) -> bool:
        """Mark the next or previous choice; False if there is none."""
        selectable, marked = self.selectable_choices(typed), self.marked_choice(typed)
        if not selectable:
            return False
        if marked is None or marked not in selectable:
            self.chosen = selectable[0 if step > 0 else -1]
        else:
            self.chosen = selectable[max(0, min(selectable.index(marked) + step, len(selectable) - 1))]
        return True


# The line for the answer: no foreign text gets into it unseen, and no stray key does.
_ANSWERING: Final = frozenset({"enter", "up", "down", "backspace", "delete", "ctrl+g"})


class AnswerLine(Input):
    """The input line of an answer.

    `accepts_key` decides whether a key typed at a given time is meant for the question; `current_request_id` names it;
    `answer` is called with Enter, in the same step, so that no key pressed after it becomes part of the answer.

    Attributes:
        meant_for: The question on screen when the last key was pressed that may answer one. The key takes effect a few
            steps later, when there may be another question.
    """

    DEFAULT_CSS = """
    AnswerLine { height: 1; border: none; padding: 0; }
    AnswerLine:focus { border: none; }
    """

    def __init__(
        self,
        accepts_key: Callable[[float], bool],
        current_request_id: Callable[[], sc.RequestId | None],
        answer: Callable[[], None],
        *,
        id: str | None = None,
    ) -> None:
        super().__init__(id=id, compact=True, max_length=MAX_ANSWER_CHARS, select_on_focus=False)
        self._accepts_key = accepts_key
        self._current_request_id = current_request_id
        self._answer = answer
        self.meant_for: sc.RequestId | None = None

    def start(self, text: str) -> None:
        """Start another answer."""
        self.value = text
        self.cursor_position = len(text)

    async def _on_key(self, event: events.Key) -> None:
        if event.is_printable or event.key in _ANSWERING:
            if not self._accepts_key(event.time):
                event.stop()
                event.prevent_default()
                return
            self.meant_for = self._current_request_id()
        if event.key == "enter":
            event.stop()
            event.prevent_default()
            self._answer()
            return
        await super()._on_key(event)

    def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        if self._accepts_key(event.time):
            self.insert_text_at_cursor(one_line(event.text, MAX_ANSWER_CHARS))


# --- panel ------------------------------------------------------------------------------------------------------------

SHARE: Final = 0.7
"""The largest share of the screen a question may take."""
_LEAST_ROWS: Final = 3
_FRAME_ROWS: Final = 5
"""The line above, the scroll position, the typed text, what Enter would do, the keys."""


KEYS: Final = (
    ("y s a n, Enter", "allow once, for this session, always; deny"),
    ("a sentence, Enter", "deny, and tell the model why"),
    ("Up Down, Enter", "choose an answer"),
    ("PgUp PgDn", "scroll through the request"),
    ("Tab", "the next question"),
    ("Ctrl+G", "dismiss a question of an extension"),
    ("Esc", "answer later"),
)
"""For the help screen: the keys while answering a question."""


class RequestPanel(Widget):
    """Shows the oldest open question and how many wait, and reads the answer.

    Attributes:
        settling: Decides which keys were pressed too early to answer the question.
    """

    DEFAULT_CSS = """
    RequestPanel { height: auto; layout: vertical; display: none; padding: 0 1; border-top: heavy $warning; }
    RequestPanel.of-others { border-top: none; }
    RequestPanel.of-others > * { display: none; }
    RequestPanel.of-others > #request-head { display: block; }
    RequestPanel > #request-typed { height: 1; }
    RequestPanel #request-mark { width: 2; }
    RequestPanel #request-answer { width: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "put_off", "later", show=False),
        Binding("up", "choose(-1)", "previous answer", show=False),
        Binding("down", "choose(1)", "next answer", show=False),
        Binding("pageup", "scroll(-1)", "scroll up", show=False),
        Binding("pagedown", "scroll(1)", "scroll down", show=False),
        Binding("tab", "turn(1)", "next question", show=False),
        Binding("shift+tab", "turn(-1)", "previous question", show=False),
        Binding("ctrl+g", "dismiss", "dismiss", show=False),
    ]

    class Answered(Message):
        """The user has decided about a tool call, or answered or dismissed a dialog of an extension."""

        def __init__(self, request: Request, answer: TypedApprovalAnswer | Reply) -> None:
            super().__init__()
            self.request = request
            self.answer = answer

    def __init__(self, *, id: str | None = None, now_ms: Callable[[], int] = now_ms) -> None:
        super().__init__(id=id)
        self._waiting = RequestQueue()
        self._current: CurrentRequest | None = None
        self.settling = KeyGuard()
        self._now_ms = now_ms
        self._head = LinesPanel(self._draw_head, id="request-head")
        self._view = ForeignView(id="request-view")
        self._choices = LinesPanel(self._draw_choices, id="request-choices")
        self._line = AnswerLine(self.settling.accepts_key, self._current_request_id, self._answer, id="request-answer")
        self._hints = LinesPanel(self._draw_hints, id="request-hints")

    def compose(self) -> ComposeResult:
        """Stack the parts."""
        yield self._head
        yield self._view
        yield self._choices
        with Horizontal(id="request-typed"):
            yield LinesPanel(lambda _: [Text(">", self._head.look.accent)], id="request-mark")
            yield self._line
        yield self._hints

    def on_mount(self) -> None:
        """Start the countdown."""
        self._ticking = self.set_interval(1.0, self._tick)

    # --- content ------------------------------------------------------------------------------------------------------

    def show(
        self,
        approvals: tuple[sc.Approval, ...],
        dialogs: tuple[sc.Dialog, ...],
        client_id: sc.ClientId,
        *,
        subagent_names: Mapping[sc.SessionId, str],
    ) -> None:
        """Show the open questions."""
        if self._waiting.update(approvals, dialogs, client_id, subagent_names):
            self._show_next()

    def reopen(self, request_id: sc.RequestId) -> None:
        """Ask again: the answer could not be delivered."""
        self._waiting.reopen(request_id)
        self._show_next()

    @property
    def has_question(self) -> bool:
        """Whether a question waits for this user."""
        return self._current is not None

    def action_focus_request(self) -> None:
        """Focus the open question, if there is one."""
        if self._current is not None:
            self.screen.set_focus(self._line)

    def _show_next(self) -> None:
        self._ask(self._waiting.request_to_show(self._current.request if self._current is not None else None))

    def _ask(self, request: Request | None) -> None:
        before, was_here = self._current, self.has_focus_within
        if request is None:
            self._current = None
        else:
            question = self._build_question(request)
            is_new = before is None or before.request.request_id != request.request_id
            chosen = before.chosen if before is not None and not is_new else 0 if question.filters else None
            self._current = CurrentRequest(request, question, chosen)
            if is_new:
                self.settling.begin()
                self._line.start(question.typed)
                self._line.placeholder = "type to filter the choices" if question.filters else ""
                self._view.show(question.passages)
                self.call_after_refresh(self._mark_readable)
        self.set_class(request is None, "of-others")
        self.display = request is not None or bool(self._waiting.other_dialogs)
        if request is None and was_here:
            self.post_message(PanelLeft())
        self._make_room()
        self._redraw()
        self._fit()

    def _build_question(self, request: Request) -> ScreenQuestion:
        if isinstance(request, sc.Approval):
            return approval_question(request, self._waiting.names)
        return dialog_question(request)

    def _mark_readable(self) -> None:
        if self.screen.is_active:  # otherwise another screen covers it; `_tick` checks again
            self.settling.mark_drawn(monotonic())

    # --- drawing ------------------------------------------------------------------------------------------------------

    def _draw_head(self, width: int) -> list[Text]:
        look = self._head.look
        if self._current is None:
            return question_lines.draw_others(self._waiting.other_dialogs, width, look)
        return question_lines.head(
            self._current.question,
            width,
            look,
            which=(self._waiting.position(self._current.request) + 1, len(self._waiting.pending)),
            others=self._waiting.other_dialogs,
            now_ms=self._now_ms(),
            tight=is_tight(self.app),
        )

    def _draw_choices(self, width: int) -> list[Text]:
        if self._current is None:
            return []
        in_sight = self._view.visible_range() if self._current.question.passages else (0, 0, 0)
        rule = question_lines.draw_scroll_rule(in_sight, width, self._choices.look)
        return [rule, *(line for _, line in self._choice_rows(self._current, width))]

    def _choice_rows(self, asked: CurrentRequest, width: int) -> list[tuple[int, Text]]:
        typed = self._line.value
        selectable, marked = asked.selectable_choices(typed), asked.marked_choice(typed)
        return question_lines.choices(
            asked.question, selectable, marked, width, self._choices.look, tight=is_tight(self.app)
        )

    def _draw_hints(self, width: int) -> list[Text]:
        if self._current is None:
            return []
        return question_lines.hints(
            self._current.meaning(self._line.value),
            width,
            self._hints.look,
            focused=self._line.has_focus,
            several=len(self._waiting.pending) > 1,
            scrolls=bool(self._current.question.passages) and self._view.virtual_size.height > self._view.size.height,
            is_dialog=isinstance(self._current.request, sc.Dialog),
        )

    def _redraw(self) -> None:
        for each in (self._head, self._choices, self._hints):
            each.redraw()

    def _tick(self) -> None:
        if self._waiting.reopen_lost(self._now_ms()):
            self._show_next()
        if self._current is not None:
            self._head.redraw()
            if not self.settling.is_drawn:
                self._mark_readable()

    def _fit(self) -> None:
        """Give the foreign text the rows that the other parts leave."""
        width = self.size.width
        if self._current is None or width <= 0:
            return
        hint_rows = len(self._hints.lines(width)) - 1 if self._line.has_focus else 1
        choice_rows = len(self._choice_rows(self._current, width))
        others = len(self._head.lines(width)) + choice_rows + _FRAME_ROWS + hint_rows - 1
        self._view.display = bool(self._current.question.passages)
        if self._view.display:
            self._view.fit(width, max(_LEAST_ROWS, min(int(self.app.size.height * SHARE), self._room()) - others))
        self.call_after_refresh(self._redraw)  # the foreign text has its size then, and may scroll

    def _make_room(self) -> None:
        """Shrink the neighbouring panels while a question is open."""
        if isinstance(self.parent, Widget):
            for each in self.parent.children:
                if isinstance(each, Panel):
                    each.set_cramped(cramped=self._current is not None)

    def _room(self) -> int:
        """Return how many rows the neighbours that never shrink leave."""
        if not isinstance(self.parent, Widget):
            return self.app.size.height
        near = [each for each in self.parent.children if each is not self and each.display]
        solid = [each for each in near if each.styles.height is None or not each.styles.height.is_fraction]
        return self.parent.size.height - sum(each.outer_size.height for each in solid)

    def on_resize(self) -> None:
        """Adapt to the new size."""
        self._fit()

    def on_descendant_focus(self) -> None:
        """Show the keys."""
        self._hints.redraw()

    def on_descendant_blur(self) -> None:
        """Show how to come back."""
        self._hints.redraw()

    # --- answering ----------------------------------------------------------------------------------------------------

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self._redraw()

    def _current_request_id(self) -> sc.RequestId | None:
        return self._current.request.request_id if self._current is not None else None

    def _request_of_key(self) -> CurrentRequest | None:
        """Return the question that the last key was pressed for, if it is still on screen: a key takes effect later."""
        return self._current if self._line.meant_for == self._current_request_id() else None

    def _answer(self) -> None:
        if (asked := self._current) is None:
            return
        if (answer := asked.meaning(self._line.value).answer) is None:
            self.app.bell()
        else:
            self._finish_request(asked.request, answer)

    def _finish_request(self, request: Request, answer: TypedApprovalAnswer | Reply) -> None:
        self._waiting.mark_answered(request, self._now_ms())
        self.post_message(self.Answered(request, answer))
        self._show_next()

    @on(events.Click)
    def _clicked(self, event: events.Click) -> None:
        if self._current is None:
            return
        self._line.focus()
        if event.widget is not self._choices or not self.settling.accepts_key(event.time):
            return
        rows = self._choice_rows(self._current, self._choices.size.width)
        if not 1 <= event.y <= len(rows):  # row 0 is the rule
            return
        number = rows[event.y - 1][0]
        if number == self._current.marked_choice(self._line.value):
            self._answer()
        else:
            self._current.chosen = number
            self._apply_manual_mark(self._current)

    def _apply_manual_mark(self, asked: CurrentRequest) -> None:
        if not asked.question.filters:
            self._line.value = ""
        self._redraw()

    def action_choose(self, step: int) -> None:
        """Mark another choice."""
        asked = self._request_of_key()
        if asked is not None and asked.move_mark(self._line.value, step):
            self._apply_manual_mark(asked)

    def action_scroll(self, step: int) -> None:
        """Scroll the foreign text."""
        page = max(1, self._view.size.height - 1)
        self._view.scroll_relative(y=step * page, animate=False)
        self.call_after_refresh(self._choices.redraw)

    def action_turn(self, step: int) -> None:
        """Switch to another question."""
        pending = self._waiting.pending
        if self._current is not None and len(pending) > 1:
            self._ask(pending[(self._waiting.position(self._current.request) + step) % len(pending)])

    def action_dismiss(self) -> None:
        """Dismiss a dialog for good without an answer."""
        asked = self._request_of_key()
        if asked is not None and isinstance(asked.request, sc.Dialog):
            self._finish_request(asked.request, Reply())

    def action_put_off(self) -> None:
        """Postpone the answer."""
        self.post_message(PanelLeft())
