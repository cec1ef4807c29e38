"""What all parts of the app share: state, background work, notifications and dialogs."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

import anyio.to_thread
import attrs
from textual.actions import ActionParseResult
from textual.app import App
from textual.dom import DOMNode
from textual.message import Message
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.timer import Timer

import session_core as sc
from frontends.shared.conversation.messages import parse_shell_line
from frontends.terminal.actions.session_actions import ServiceActions
from frontends.terminal.backend import ServiceLocation
from frontends.terminal.composer.composer import Composer
from frontends.terminal.composer.drafts import Draft, PromptSubmission
from frontends.terminal.feeds import TerminalState, Topic
from frontends.terminal.look.no_colour import ColourlessFilter, colour_is_unwanted
from frontends.terminal.look.sanitised_text import make_copyable, sanitise_line, sanitise_text
from frontends.terminal.look.styles import Look
from frontends.terminal.options import EditTarget, TerminalOptions
from frontends.terminal.panels.notices import Notice, Notices
from frontends.terminal.panels.status_line import StatusLine
from frontends.terminal.preferences import TerminalPreferences, load_preferences, save_preferences
from frontends.terminal.questions.key_guard import PATIENCE_S
from frontends.terminal.questions.panel import RequestPanel
from frontends.terminal.screens.picker import Confirmation
from frontends.terminal.transcript.view import Transcript

log = logging.getLogger(__name__)

T = TypeVar("T")

FRAME_S = 1 / 30
"""Seconds between two frames: smooth to the eye, and little work even while many sessions stream."""
COPY_CHARS = 100_000
"""The most characters copied at once; many terminals refuse more."""
_MESSAGE_CHARS = 2_000


class TerminalBase(App[None]):
    """The state of a terminal.

    Attributes:
        failure: Why there is no service; None while there is one or the search is still on.
        fault: Why the terminal closed, if it was not the user who closed it.
        drawn_session_id: The session on screen; another may already be viewed, and appears with the next frame.
    """

    typed_at: float = float("-inf")
    """When the last key was pressed, not when it was handled: a busy machine makes no key late."""

    def __init__(self, place: ServiceLocation, options: TerminalOptions) -> None:
        super().__init__()
        self.no_color = colour_is_unwanted()  # Textual also counts an empty `NO_COLOR`
        self.place = place
        self.options = options
        self.preferences = load_preferences(options.home)
        self.terminal_state = TerminalState(self.schedule_draw, self.note_event)
        self.service_actions = ServiceActions(self)
        self.look = Look.from_theme(self.current_theme, colour=not self.no_color)
        self.colourless = ColourlessFilter.from_theme(self.current_theme)
        self.failure: str | None = None
        self.fault: str | None = None
        self.drawn_session_id: sc.SessionId | None = None
        self._drafts: dict[sc.SessionId | None, Draft] = {}
        self._known_session_ids: set[sc.SessionId] = set()
        self._notices = Notices()
        self._dirty: set[Topic] = set()
        self._frame: Timer | None = None

    @property
    def composer(self) -> Composer:
        """The input for prompts."""
        return self.screen_stack[0].query_one(Composer)

    @property
    def transcript(self) -> Transcript:
        """The conversation."""
        return self.screen_stack[0].query_one(Transcript)

    @property
    def request_panel(self) -> RequestPanel:
        """The panel with approvals and dialogs."""
        return self.screen_stack[0].query_one(RequestPanel)

    # --- drawing ------------------------------------------------------------------------------------------------------

    def schedule_draw(self, *topics: Topic) -> None:
        """Redraw some topics with the next frame."""
        self._dirty.update(topics)
        if self._frame is None and self.is_running:
            self._frame = self.set_timer(FRAME_S, self._draw_now)

    @property
    def is_fully_mounted(self) -> bool:
        """Whether the whole screen is mounted; it may be missing or incomplete while the app starts or exits."""
        return self.is_running and bool(self.screen_stack) and bool(self.screen_stack[0].query(StatusLine))

    def redraw(self) -> None:
        """Redraw everything."""
        self.schedule_draw("connection", "session_list", "session")

    def _draw_now(self) -> None:
        self._frame = None
        dirty, self._dirty = self._dirty, set()
        if self.is_fully_mounted:
            self.draw(dirty)

    def draw(self, dirty: set[Topic]) -> None:
        """Draw what has changed; implemented by the whole app."""
        raise NotImplementedError

    def action_reconnect(self) -> None:
        """Try to reach the service again; implemented by the whole app."""
        raise NotImplementedError

    # --- notifications and background work ----------------------------------------------------------------------------

    def note_event(self, event: sc.SessionEvent) -> None:
        """Handle an event that is delivered only once."""
        if isinstance(event.event, sc.events.NoticeShown):
            notice = event.event
            severities: dict[str, SeverityLevel] = {"warn": "warning", "error": "error"}
            severity = severities.get(notice.level, "information")
            self.queue_notice(Notice(who=notice.extension, text=notice.message, severity=severity))

    def tell(self, text: str, severity: SeverityLevel = "information", *, title: str = "", seconds: float = 6) -> None:
        """Show a text for some seconds."""
        self.notify(
            sanitise_text(text[:_MESSAGE_CHARS]),
            title=sanitise_line(title),
            severity=severity,
            timeout=seconds,
            markup=False,
        )

    def queue_notice(self, notice: Notice) -> None:
        """Queue a notice of an extension until it cannot be mistaken for part of a question."""
        self._notices.add(notice)
        self.show_notices()

    def show_notices(self) -> None:
        """Show the queued notices, unless a question is open."""
        if self.is_fully_mounted and len(self.screen_stack) == 1 and not self.request_panel.has_question:
            for title, each in self._notices.take(monotonic()):
                said = each.render_text(self.size.width, self.look)
                self.tell(said, each.severity, title=title, seconds=each.seconds)

    @contextmanager
    def reporting_errors(self) -> Iterator[None]:
        """Show errors within the block to the user instead of closing the terminal."""
        try:
            yield
        except sc.SessionCoreError as error:
            self.tell(error.message, "error")

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Run the action of a key or a typed command, and show its errors."""
        try:
            return await super().run_action(action, default_namespace, namespaces)
        except sc.SessionCoreError as error:
            self.tell(error.message, "error")
            return True

    async def _dispatch_message(self, message: Message) -> None:
        """Handle a message of a widget, and show its errors."""
        with self.reporting_errors():
            await super()._dispatch_message(message)

    def run_in_background(self, work: Coroutine[Any, Any, object], *, unsent: PromptSubmission | None = None) -> None:
        """Run something slow in the background; on an error, show it and put `unsent` back into the composer."""
        self.run_worker(self._run_and_report(work, unsent), exit_on_error=False)

    async def _run_and_report(self, work: Coroutine[Any, Any, object], unsent: PromptSubmission | None) -> None:
        try:
            await work
        except sc.SessionCoreError as error:
            self.tell(error.message, "error")
        except Exception as error:  # noqa: BLE001 - shown to the user; the session goes on
            self.tell(f"unexpected error: {type(error).__name__}: {error}", "error")
        else:
            return
        if unsent is not None:
            self.restore_unsent(unsent)

    def restore_unsent(self, submission: PromptSubmission) -> None:
        """Put an unsent message back into its draft, which may no longer be on screen."""
        session_id = submission.target.session_id
        if not self.is_fully_mounted:  # the terminal is closing; the prompt history has it
            return
        if session_id == self.service_actions.session_id:
            self.composer.restore(submission)
        else:
            self._drafts[session_id] = self._drafts.get(session_id, Draft()).with_restored(submission)

    def ask(self, screen: Screen[T | None], then: Callable[[T], object]) -> None:
        """Push a screen and pass the choice made there to `then`, unless the user leaves it."""

        def handle_choice(chosen: T | None) -> None:
            if chosen is not None:
                with self.reporting_errors():
                    then(chosen)

        _ = self.push_screen(screen, handle_choice)

    def confirm(self, question: str, then: Callable[[], object], *, sudden: bool = False) -> None:
        """Ask for confirmation of something dangerous; `sudden` marks a dialog that may open while the user types."""

        def handle_answer(sure: bool | None) -> None:  # noqa: FBT001 - Textual's signature
            if sure:
                with self.reporting_errors():
                    then()

        _ = self.push_screen(Confirmation(question, danger=True, patience_s=PATIENCE_S if sudden else 0), handle_answer)

    def copy(self, text: str) -> None:
        """Copy a text to the clipboard, and show how much was copied."""
        self.copy_to_clipboard(text)
        much = f"{len(text):,}" if len(text) <= COPY_CHARS else f"the first {COPY_CHARS:,} of {len(text):,}"
        self.tell(f"{much} characters copied, if your terminal allows it")

    def copy_to_clipboard(self, text: str) -> None:
        """Copy a text to the clipboard, stripped of anything that could control the program it is pasted into."""
        super().copy_to_clipboard(make_copyable(text[:COPY_CHARS]))

    def edit_message(self, message: sc.Message) -> None:
        """Put a message with all its attachments into the composer for editing."""
        if parse_shell_line(message) is not None:
            raise sc.InvalidInput("a shell line cannot be edited; type another after !", field="message_id")
        self.composer.edit_message(EditTarget(message_id=message.message_id), message.parts)
        self.composer.focus()
        self.redraw()

    def _fatal_error(self) -> None:
        """Close after an internal error; the traceback goes to the log and is not printed."""
        error = sys.exception()
        self.fault = f"{type(error).__name__}: {error}"
        log.error("the terminal failed", exc_info=error)
        self._close_messages_no_wait()

    # --- sessions -----------------------------------------------------------------------------------------------------

    def view(self, session_id: sc.SessionId | None) -> None:
        """View a session or the draft of a new one; each keeps its unsent text."""
        if session_id != self.service_actions.session_id:
            if self.composer.draft != Draft():
                viewed = self.terminal_state.viewed
                gone = viewed is not None and viewed.is_deleted  # then the draft may begin another session
                self._drafts[None if gone else self.service_actions.session_id] = self.composer.draft
            self.composer.draft = self._drafts.pop(session_id, Draft())
        self.service_actions.view(session_id)
        self.refresh_commands()
        self.redraw()

    def forget_deleted(self) -> None:
        """Drop the drafts of deleted sessions; sessions the list has not shown yet do not count as deleted."""
        known = (
            set(self.terminal_state.session_list.sessions) if self.terminal_state.session_list is not None else set()
        )
        for session_id in self._known_session_ids - known:
            self._drafts.pop(session_id, None)
        self._known_session_ids = known

    def refresh_commands(self) -> None:
        """Load the extension commands and models of the viewed session."""
        self.run_worker(self.service_actions.refresh_choices(), group="learn", exclusive=True, exit_on_error=False)

    # --- colours ------------------------------------------------------------------------------------------------------

    def use_theme(self, name: str) -> None:
        """Switch to another theme and remember it."""
        self.theme = name
        self.remember(attrs.evolve(self.preferences, theme=name))

    def remember(self, remembered: TerminalPreferences) -> None:
        """Save the preferences for the next run."""
        self.preferences = remembered
        self.run_worker(_save_preferences(self.options.home, remembered), exit_on_error=False)

    def watch_theme(self) -> None:
        """Redraw in the colours of the new theme."""
        self.look = Look.from_theme(self.current_theme, colour=not self.no_color)
        self.colourless = ColourlessFilter.from_theme(self.current_theme)
        for transcript in self.query(Transcript):
            transcript.set_look(self.look)


async def _save_preferences(home: Path, remembered: TerminalPreferences) -> None:
    await anyio.to_thread.run_sync(save_preferences, home, remembered)
