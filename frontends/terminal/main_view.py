"""The main screen: its widgets, what each of them shows, and the keys that go to them."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from time import monotonic
from typing import Final

from textual.app import App, ComposeResult
from textual.containers import Horizontal, Vertical
from textual.geometry import Spacing
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.widget import Widget

import session_core as sc
from frontends.shared.conversation.blocks import Block
from frontends.terminal.actions.session_choices import SessionChoices
from frontends.terminal.context import TerminalContext
from frontends.terminal.feeds import Topic
from frontends.terminal.look.clock import now_ms
from frontends.terminal.look.styles import Look
from frontends.terminal.panels.extension_widgets import WidgetPanel
from frontends.terminal.panels.message_queue import QueuePanel
from frontends.terminal.panels.notices import Notice
from frontends.terminal.panels.plan import PlanPanel
from frontends.terminal.panels.sidebar import Sidebar
from frontends.terminal.panels.status_line import StatusLine
from frontends.terminal.panels.welcome import WelcomeView
from frontends.terminal.questions.panel import RequestPanel
from frontends.terminal.transcript.view import Transcript

QUIET_S: Final = 1.0
"""Seconds without typing before a new question gets the focus."""
SIDEBAR_NEEDS: Final = 100
"""The least number of columns at which the session list opens automatically."""

_SEVERITIES: Final[dict[str, SeverityLevel]] = {"warn": "warning", "error": "error"}


class MainView:
    """The widgets of the main screen.

    Attributes:
        quiet_s: Seconds without typing before a new question gets the focus.
    """

    def __init__(self, app: App[None], context: TerminalContext, choices: SessionChoices, look: Look) -> None:
        self.quiet_s = QUIET_S
        self.sidebar = Sidebar(id="side")
        self.welcome = WelcomeView(id="welcome")
        self.transcript = Transcript(look, id="transcript")
        self.widgets = WidgetPanel(id="widgets")
        self.plan = PlanPanel(id="plan")
        self.queue = QueuePanel(id="queue")
        self.requests = RequestPanel(id="request")
        self.composer = context.composer
        self.status = StatusLine(id="status")
        self._app = app
        self._context = context
        self._choices = choices
        self._look = look
        self._has_room = False
        self._question_is_new = False

    def compose(self) -> ComposeResult:
        """Compose the screen."""
        with Horizontal(id="main"):
            yield self.sidebar
            with Vertical(id="conversation"):
                yield self.welcome
                yield self.transcript
                yield self.widgets
                yield self.plan
                yield self.queue
                yield self.requests
                yield self.composer
        yield self.status

    @property
    def screen(self) -> Screen[object]:
        """The main screen, which another may cover."""
        return self._app.screen_stack[0]

    @property
    def is_complete(self) -> bool:
        """Whether all widgets are mounted; they may be missing while the app starts or exits."""
        return self._app.is_running and self.status.is_attached

    def set_look(self, look: Look) -> None:
        """Use the colours of another theme."""
        self._look = look
        self.transcript.set_look(look)

    def draw(self, topics: AbstractSet[Topic]) -> None:
        """Draw what has changed."""
        now = now_ms()
        if "session_list" in topics:
            self._draw_sessions(now)
        if "session" in topics:
            self._draw_session()
        self._draw_status(now)

    def tick(self) -> None:
        """Redraw whatever shows an elapsed time."""
        if self.is_complete:
            now = now_ms()
            self.transcript.tick()
            self._draw_sessions(now)
            self._draw_status(now)
            self._place_toasts()
            self.show_notices()

    def make_room(self, columns: int) -> None:
        """Show the session list automatically where there is room for it, and hide it where there is none."""
        has_room = columns >= SIDEBAR_NEEDS
        if has_room != self._has_room:
            self._has_room = has_room
            self.sidebar.set_class(has_room and self._context.preferences.sidebar is not False, "open")

    def _draw_sessions(self, now: int) -> None:
        feeds = self._context.feeds
        if feeds.session_list is not None:
            viewed = self._context.current.session_id
            self.sidebar.show(feeds.session_list, viewed, here=self._context.options.cwd, now_ms=now)

    def _draw_session(self) -> None:
        feeds, current, options = self._context.feeds, self._context.current, self._context.options
        viewed, state = feeds.viewed, current.state
        current.drawn_id = current.session_id
        blocks: tuple[Block, ...] = ()
        if viewed is not None and state is not None and not viewed.is_deleted:
            blocks = viewed.blocks.build_blocks(state, current.extensions)
        self.welcome.display = not blocks
        self.welcome.show(
            viewed,
            feeds.failure,
            here=options.cwd,
            draft=current.draft,
            default_model=self._choices.default_model,
            embedded=options.embedded,
        )
        self.transcript.display = bool(blocks)
        if viewed is not None:
            self.transcript.show(viewed.session_id, blocks)
        self.plan.show(state.plan if state is not None else ())
        self.queue.show(state.queue if state is not None else ())
        self.widgets.show(state.displays if state is not None else ())
        self._draw_requests(state)
        self.composer.show(
            busy=state is not None and not state.activity.is_at_rest, placeholder=self._describe_input(state)
        )

    def _describe_input(self, state: sc.SessionState | None) -> str:
        """Return the text of the empty input."""
        session_list = self._context.feeds.session_list
        if self._context.feeds.failure is not None:
            return "there is no service; Enter tries again"
        if session_list is not None and session_list.read_only is not None:
            return f"the service is read-only: {session_list.read_only}"
        if self.composer.editing is not None:
            return "edit your message; Esc cancels the edit"
        if state is not None and not state.activity.is_at_rest:
            return "queue a message; Esc stops the turn"
        if state is None:
            return "ask for something"  # the welcome text explains how
        return "ask for something; / for commands, @ for files, ! for the shell"

    def _draw_status(self, now: int) -> None:
        feeds = self._context.feeds
        self.status.show(
            connection=feeds.connection,
            state=self._context.current.state,
            session_list=feeds.session_list,
            lag=feeds.viewed.recent_lag(now) if feeds.viewed is not None else None,
            now_ms=now,
            failure=feeds.failure,
            draft=self._context.current.draft,
            following=self.transcript.following,
        )

    # --- questions and notices ----------------------------------------------------------------------------------------

    def _draw_requests(self, state: sc.SessionState | None) -> None:
        client, had_question = self._context.feeds.client, self.requests.has_question
        self.requests.show(
            state.approvals if state is not None else (),
            state.dialogs if state is not None else (),
            client.client_id if client is not None else sc.ClientId(""),
            subagent_names=self._context.current.subagent_names(),
        )
        if self.requests.has_question and not had_question:
            self._question_is_new = True
            self._go_to_question()
        self.screen.set_class(self.requests.has_question, "asking")
        self._app.call_after_refresh(self._place_toasts)
        self.show_notices()

    def _go_to_question(self) -> None:
        """Focus a new question once the user has stopped typing, so it does not swallow letters of a message."""
        if not self._question_is_new or not self.is_complete:
            return
        wait_s = self._context.typed_at + self.quiet_s - monotonic()
        if not self.requests.has_question or not self.composer.is_empty or not self.composer.has_focus_within:
            self._question_is_new = False  # an open question shows that F8 focuses it
        elif wait_s > 0:
            self._app.set_timer(wait_s, self._go_to_question)
        else:
            self._question_is_new = False
            self.requests.action_focus_request()

    def _place_toasts(self) -> None:
        """Keep toasts above the composer, or hide them where there is no room."""
        if self.is_complete:
            panel = self.requests
            below = Spacing(bottom=0 if panel.has_question else self._app.size.height - self.composer.region.y)
            for rack in self.screen.query("ToastRack"):
                # Setting it without need would leave removed toasts on the screen.
                if panel.has_question or rack.styles.max_height is not None:
                    rack.styles.max_height = panel.region.y if panel.has_question else None
                if rack.styles.margin != below:
                    rack.styles.margin = below

    def note_event(self, event: sc.SessionEvent) -> None:
        """Show an event that is delivered only once."""
        notice = event.event
        if isinstance(notice, sc.events.NoticeShown):
            severity = _SEVERITIES.get(notice.level, "information")
            self._context.notices.add(Notice(who=notice.extension, text=notice.message, severity=severity))
            self.show_notices()

    def show_notices(self) -> None:
        """Show the waiting notices of extensions, unless a question is open that they could be taken for."""
        if self.is_complete and len(self._app.screen_stack) == 1 and not self.requests.has_question:
            for title, each in self._context.notices.take(monotonic()):
                said = each.render_text(self._app.size.width, self._look)
                self._context.tell(said, each.severity, title=title, seconds=each.seconds)

    # --- keys ---------------------------------------------------------------------------------------------------------

    def action_sidebar(self) -> None:
        """Show the session list and focus it, or hide it."""
        side = self.sidebar
        if side.has_class("open") and side.has_focus_within:
            side.remove_class("open")
            self.composer.focus()
        else:
            side.add_class("open")
            side.focus_list()
        if self.screen.size.width >= SIDEBAR_NEEDS:
            self._context.remember(sidebar=side.has_class("open"))

    def action_focus_transcript(self) -> None:
        """Focus the conversation, to choose a block."""
        if self._focus(self.transcript, "there is no conversation yet"):
            self.transcript.action_choose(0)

    def action_focus_queue(self) -> None:
        """Focus the queue."""
        self._focus(self.queue, "the queue is empty")

    def action_focus_widgets(self) -> None:
        """Focus the widgets of extensions, which then receive keys."""
        self._focus(self.widgets, "no extension shows anything here")

    def _focus(self, place: Widget, message_if_hidden: str) -> bool:
        """Focus a widget if it is visible; keys sent to a hidden one would be lost."""
        if place.display:
            self.screen.set_focus(place)
        else:
            self._context.tell(message_if_hidden)
        return place.display

    def action_expand(self) -> None:
        """Expand or collapse all blocks."""
        self.transcript.expand_all(expanded=not self.transcript.expanded)

    def action_page(self, step: int) -> None:
        """Scroll the conversation."""
        if step < 0:
            self.transcript.scroll_page_up(animate=False)
        else:
            self.transcript.scroll_page_down(animate=False)
