"""What the person at the terminal is asked: approvals of tools and questions of extensions, one at a time.

Rules:
1. The question, the answers and the keys stand outside of the foreign text, which has a frame of its own and scrolls.
2. What Enter would do is said before it is pressed, and no other key answers anything. Keys that were typed before a
   question could be read never count, and one that was typed for a question never answers another.
3. The panel never takes the focus by itself, and a question never changes places with another under people's hands.
   The app gives a new question the focus once nobody has typed for a moment and nothing is written; else F8 does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic
from typing import ClassVar, Final

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input

import session_core as sc
from frontends.cli.consent import Answer
from frontends.cli.dialogs import Reply
from frontends.terminal import request_lines
from frontends.terminal.answer_line import AnswerLine
from frontends.terminal.approval_view import approval_question
from frontends.terminal.asked import Asked
from frontends.terminal.clock import now_ms
from frontends.terminal.dialog_view import dialog_question
from frontends.terminal.foreign import ForeignView
from frontends.terminal.panel import Lines, Panel, is_tight
from frontends.terminal.questions import Question
from frontends.terminal.request_order import Request, Waiting
from frontends.terminal.settling import PATIENCE_S, Settling

SHARE: Final = 0.7
"""How much of the screen a question takes at most."""
_LEAST_ROWS: Final = 3
_FRAME_ROWS: Final = 5
"""The line above, how far one has scrolled, what is typed, what Enter would do, the keys."""


KEYS: Final = (
    ("y s a n, Enter", "allow once, for this session, always; deny"),
    ("a sentence, Enter", "deny, and tell the model why"),
    ("Up Down, Enter", "choose an answer"),
    ("PgUp PgDn", "scroll through what is asked for"),
    ("Tab", "the next question"),
    ("Ctrl+G", "dismiss a question of an extension"),
    ("Esc", "answer later"),
)
"""For the help screen: what can be pressed while a question is answered."""
Value = bool | str | None
"""What a question of an extension is answered with; None dismisses it."""


class RequestPanel(Widget):
    """Shows the oldest open question with how many wait, and reads the answer."""

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

    class Approved(Message):
        """Somebody has decided about a tool call."""

        def __init__(self, approval: sc.Approval, decision: sc.Decision, message: str) -> None:
            super().__init__()
            self.approval = approval
            self.decision: sc.Decision = decision
            self.message = message

    class Answered(Message):
        """Somebody has answered a question of an extension; no value dismisses it."""

        def __init__(self, dialog: sc.Dialog, value: Value) -> None:
            super().__init__()
            self.dialog = dialog
            self.value = value

    class PutOff(Message):
        """Somebody leaves the question open for now, or there is nothing left to answer: back to the composer."""

    def __init__(
        self, *, id: str | None = None, patience_s: float = PATIENCE_S, now_ms: Callable[[], int] = now_ms
    ) -> None:
        super().__init__(id=id)
        self._waiting = Waiting()
        self._asked: Asked | None = None
        self._settling = Settling(patience_s)
        self._now_ms = now_ms
        self._head = Lines(self._draw_head, id="request-head")
        self._view = ForeignView(id="request-view")
        self._choices = Lines(self._draw_choices, id="request-choices")
        self._line = AnswerLine(self._settling.counts, self._shown_id, id="request-answer")
        self._hints = Lines(self._draw_hints, id="request-hints")

    def compose(self) -> ComposeResult:
        """Put the parts below one another."""
        yield self._head
        yield self._view
        yield self._choices
        with Horizontal(id="request-typed"):
            yield Lines(lambda _: [Text(">", self._head.look.accent)], id="request-mark")
            yield self._line
        yield self._hints

    def on_mount(self) -> None:
        """Count down."""
        self._ticking = self.set_interval(1.0, self._tick)

    # --- what to show -------------------------------------------------------------------------------------------------

    def show(
        self,
        approvals: tuple[sc.Approval, ...],
        dialogs: tuple[sc.Dialog, ...],
        client_id: sc.ClientId,
        *,
        helper_names: Mapping[sc.SessionId, str],
    ) -> None:
        """Show what is open now."""
        if self._waiting.take(approvals, dialogs, client_id, helper_names):
            self._go_on()

    def reopen(self, request_id: sc.RequestId) -> None:
        """Ask again: the answer could not be given."""
        self._waiting.reopen(request_id)
        self._go_on()

    @property
    def patience_s(self) -> float:
        """How long nothing must have been typed into a new question before what is typed counts."""
        return self._settling.patience_s

    @patience_s.setter
    def patience_s(self, seconds: float) -> None:
        self._settling.patience_s = seconds

    @property
    def asks(self) -> bool:
        """Whether something waits for an answer of this person."""
        return self._asked is not None

    def focus_question(self) -> bool:
        """Go to the question; False if there is none."""
        if self._asked is None:
            return False
        self.screen.set_focus(self._line)
        return True

    def _go_on(self) -> None:
        self._ask(self._waiting.next(self._asked.request if self._asked is not None else None))

    def _ask(self, request: Request | None) -> None:
        before, was_here = self._asked, self.has_focus_within
        if request is None:
            self._asked = None
        else:
            question = self._put(request)
            is_new = before is None or before.request.request_id != request.request_id
            chosen = before.chosen if before is not None and not is_new else 0 if question.filters else None
            self._asked = Asked(request, question, chosen)
            if is_new:
                self._settling.begin()
                self._line.start(question.typed)
                self._line.placeholder = "type to narrow the choice" if question.filters else ""
                self._view.show(question.passages)
                self.call_after_refresh(self._can_be_read)
        self.set_class(request is None, "of-others")
        self.display = request is not None or bool(self._waiting.of_others)
        if request is None and was_here:
            self.post_message(self.PutOff())
        self._make_room()
        self._redraw()
        self._fit()

    def _put(self, request: Request) -> Question:
        if isinstance(request, sc.Approval):
            return approval_question(request, self._waiting.names)
        return dialog_question(request)

    def _can_be_read(self) -> None:
        if self.screen.is_active:  # else something else is in front of it; `_tick` looks again
            self._settling.drawn(monotonic())

    # --- drawing ------------------------------------------------------------------------------------------------------

    def _draw_head(self, width: int) -> list[Text]:
        look = self._head.look
        if self._asked is None:
            return request_lines.others(self._waiting.of_others, width, look)
        return request_lines.head(
            self._asked.question,
            width,
            look,
            which=(self._waiting.place(self._asked.request) + 1, len(self._waiting.left)),
            others=self._waiting.of_others,
            now_ms=self._now_ms(),
            tight=is_tight(self.app),
        )

    def _draw_choices(self, width: int) -> list[Text]:
        if self._asked is None:
            return []
        in_sight = self._view.in_sight() if self._asked.question.passages else (0, 0, 0)
        rule = request_lines.scrolled(in_sight, width, self._choices.look)
        return [rule, *(line for _, line in self._choice_rows(self._asked, width))]

    def _choice_rows(self, asked: Asked, width: int) -> list[tuple[int, Text]]:
        typed = self._line.value
        left, marked = asked.left(typed), asked.marked(typed)
        return request_lines.choices(asked.question, left, marked, width, self._choices.look, tight=is_tight(self.app))

    def _draw_hints(self, width: int) -> list[Text]:
        if self._asked is None:
            return []
        return request_lines.hints(
            self._asked.meaning(self._line.value),
            width,
            self._hints.look,
            focused=self._line.has_focus,
            several=len(self._waiting.left) > 1,
            scrolls=bool(self._asked.question.passages) and self._view.virtual_size.height > self._view.size.height,
            is_dialog=isinstance(self._asked.request, sc.Dialog),
        )

    def _redraw(self) -> None:
        for each in (self._head, self._choices, self._hints):
            each.redraw()

    def _tick(self) -> None:
        if self._waiting.reopen_lost(self._now_ms()):
            self._go_on()
        if self._asked is not None:
            self._head.redraw()
            if not self._settling.is_drawn:
                self._can_be_read()

    def _fit(self) -> None:
        """Give the foreign text the rows that the other parts leave it."""
        width = self.size.width
        if self._asked is None or width <= 0:
            return
        told = len(self._hints.lines(width)) - 1 if self._line.has_focus else 1
        others = len(self._head.lines(width)) + len(self._choice_rows(self._asked, width)) + _FRAME_ROWS + told - 1
        self._view.display = bool(self._asked.question.passages)
        if self._view.display:
            self._view.fit(width, max(_LEAST_ROWS, min(int(self.app.size.height * SHARE), self._room()) - others))
        self.call_after_refresh(self._laid_out)

    def _laid_out(self) -> None:
        """Say how far one has scrolled, and whether one can, now that the foreign text has its room."""
        self._choices.redraw()
        self._hints.redraw()

    def _make_room(self) -> None:
        """Have the panels beside this one be small while something is asked."""
        if isinstance(self.parent, Widget):
            for each in self.parent.children:
                if isinstance(each, Panel):
                    each.cramp(cramped=self._asked is not None)

    def _room(self) -> int:
        """Return how many rows the neighbours leave that do not shrink by themselves."""
        if not isinstance(self.parent, Widget):
            return self.app.size.height
        near = [each for each in self.parent.children if each is not self and each.display]
        solid = [each for each in near if each.styles.height is None or not each.styles.height.is_fraction]
        return self.parent.size.height - sum(each.outer_size.height for each in solid)

    def on_resize(self) -> None:
        """Make the best of another size."""
        self._fit()

    def on_descendant_focus(self) -> None:
        """Say which keys there are."""
        self._hints.redraw()

    def on_descendant_blur(self) -> None:
        """Say how to come back."""
        self._hints.redraw()

    # --- answering ----------------------------------------------------------------------------------------------------

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self._choices.redraw()
        self._hints.redraw()

    @on(Input.Submitted)
    def _entered(self, event: Input.Submitted) -> None:
        event.stop()
        if self._is_meant():
            self._answer()

    def _shown_id(self) -> sc.RequestId | None:
        return self._asked.request.request_id if self._asked is not None else None

    def _is_meant(self) -> bool:
        """Whether the last key was pressed while this very question was shown: what it does comes some steps later."""
        return self._asked is not None and self._line.meant_for == self._shown_id()

    def _answer(self) -> None:
        if self._asked is None:
            return
        match self._asked.request, self._asked.meaning(self._line.value).answer:
            case sc.Approval() as approval, Answer() as answer:
                self._done(self.Approved(approval, answer.decision, answer.message))
            case sc.Dialog() as dialog, Reply() as reply:
                self._done(self.Answered(dialog, reply.value))
            case _:
                self.app.bell()

    def _done(self, message: Approved | Answered) -> None:
        if self._asked is not None:
            self._waiting.answered(self._asked.request, self._now_ms())
        self.post_message(message)
        self._go_on()

    @on(events.Click)
    def _clicked(self, event: events.Click) -> None:
        if self._asked is None:
            return
        self._line.focus()
        if event.widget is not self._choices or not self._settling.counts(event.time):
            return
        rows = self._choice_rows(self._asked, self._choices.size.width)
        if not 1 <= event.y <= len(rows):  # above them is the rule
            return
        number = rows[event.y - 1][0]
        if number == self._asked.marked(self._line.value):
            self._answer()
        else:
            self._asked.chosen = number
            self._marked_by_hand(self._asked)

    def _marked_by_hand(self, asked: Asked) -> None:
        if not asked.question.filters:
            self._line.value = ""
        self._redraw()

    def action_choose(self, step: int) -> None:
        """Mark another answer."""
        if self._asked is not None and self._is_meant() and self._asked.mark(self._line.value, step):
            self._marked_by_hand(self._asked)

    def action_scroll(self, step: int) -> None:
        """Show more of what is asked for."""
        page = max(1, self._view.size.height - 1)
        self._view.scroll_relative(y=step * page, animate=False)
        self.call_after_refresh(self._choices.redraw)

    def action_turn(self, step: int) -> None:
        """Turn to another question."""
        left = self._waiting.left
        if self._asked is not None and len(left) > 1:
            self._ask(left[(self._waiting.place(self._asked.request) + step) % len(left)])

    def action_dismiss(self) -> None:
        """Leave a question of an extension without an answer, for good."""
        if self._asked is not None and self._is_meant() and isinstance(self._asked.request, sc.Dialog):
            self._done(self.Answered(self._asked.request, None))

    def action_put_off(self) -> None:
        """Answer later."""
        self.post_message(self.PutOff())
