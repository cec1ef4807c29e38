"""Stopping and leaving: keys that mean more when pressed twice.

Rules:
1. Twice means twice in the same session: viewing another one starts the count again.
2. Leaving never ends work silently. Background work continues; where work would end, the user has to confirm.
3. Leaving never discards text or attachments.
"""

from __future__ import annotations

from typing import Final

import attrs
from textual.app import App
from textual.notifications import SeverityLevel

import session_core as sc
from frontends.terminal.context import TerminalContext
from frontends.terminal.feeds import ViewedSession

TWICE_S: Final = 2.0
"""How soon a key must be pressed again to count as the second press."""
TYPED_TWICE_S: Final = 10.0
"""The same for a typed command."""


@attrs.define(eq=False)
class StopAndQuit:
    """The actions of Esc, Ctrl+C, Ctrl+D, /stop, /resume and /quit."""

    _app: App[None]
    _context: TerminalContext
    _last_stop: tuple[ViewedSession | None, float] = (None, 0.0)
    _last_leave_request: tuple[str, float] = ("", 0.0)

    # --- stopping -----------------------------------------------------------------------------------------------------

    def action_stop(self, session_id: sc.SessionId | None = None) -> None:
        """Stop the turn of a session, by default the viewed one."""
        self._context.start(self._stop(session_id or self._context.current.require(), "turn"))

    def action_stop_all(self, session_id: sc.SessionId | None = None) -> None:
        """Stop a session, by default the viewed one, and its subagents."""
        self._context.start(self._stop(session_id or self._context.current.require(), "subtree"))

    async def _stop(self, session_id: sc.SessionId, scope: sc.StopScope) -> None:
        """Stop a session and report the outcome."""
        outcome = await self._context.client.request_stop(session_id, scope=scope)
        self._context.tell(*_describe_stop(outcome))

    def action_resume(self) -> None:
        """Resume an interrupted turn."""
        self._context.start(self._resume(self._context.current.require()))

    async def _resume(self, session_id: sc.SessionId) -> None:
        reply = await self._context.client.resume_session(session_id)
        if not reply.started:
            self._context.tell("the session is already running a turn")

    def action_escape(self) -> None:
        """Cancel the edit, or stop the turn; pressed twice, stop the subagents too."""
        composer, viewed, typed_at = self._context.composer, self._context.feeds.viewed, self._context.typed_at
        if not composer.has_focus_within and not self._is_typing_elsewhere():
            composer.focus()
        elif composer.editing is not None:
            self._clear_input()
        elif viewed is not None and viewed.state is not None:
            stopped, stopped_at = self._last_stop
            if stopped is viewed and typed_at - stopped_at < TWICE_S:
                self.action_stop_all(viewed.session_id)
            elif not viewed.state.activity.is_at_rest:
                self._last_stop = viewed, typed_at
                self.action_stop(viewed.session_id)

    def _is_typing_elsewhere(self) -> bool:
        return self._app.screen is not self._app.screen_stack[0]

    def _clear_input(self) -> None:
        self._context.composer.clear()
        self._context.redraw()

    # --- leaving ------------------------------------------------------------------------------------------------------

    def action_interrupt(self) -> None:
        """Copy the selection, else clear the input, else leave if pressed twice. Stops no turn."""
        composer, screen = self._context.composer, self._app.screen
        selected = screen.get_selected_text()
        if selected:
            self._context.copy(selected)
            screen.clear_selection()
        elif self._is_typing_elsewhere():
            _ = screen.dismiss(None)
        elif marked := composer.selected_text:
            self._context.copy(marked)
            composer.unselect()
        elif not composer.is_empty or composer.editing is not None:
            self._clear_input()
        else:
            self._leave("Ctrl+C", TWICE_S)

    def action_leave_if_empty(self) -> None:
        """Leave if the input is empty, as a shell does."""
        if self._context.composer.is_empty:
            self._leave("Ctrl+D", TWICE_S if self._would_end_work() else None)

    def action_quit_terminal(self) -> None:
        """Leave; background work continues."""
        self._leave("/quit", TYPED_TWICE_S if self._would_end_work() else None)

    def _would_end_work(self) -> bool:
        """Whether something is running that ends with the terminal."""
        session_list = self._context.feeds.session_list
        busy = session_list is not None and any(not each.activity.is_at_rest for each in session_list.sessions.values())
        return busy and self._context.options.embedded

    def _leave(self, how: str, within_s: float | None) -> None:
        """Leave if this is the second request `within_s`, or if one is enough."""
        typed_at = self._context.typed_at
        before, asked_at = self._last_leave_request
        if within_s is None or (before == how and typed_at - asked_at < within_s):
            self._app.exit()
        else:
            self._last_leave_request = how, typed_at
            ends = " and ends the work; the conversation is kept"
            then = ends if self._context.options.embedded else "; work continues"
            self._context.tell(f"{how} again closes the terminal{then}", "warning", seconds=within_s)


def _describe_stop(outcome: sc.StopOutcome) -> tuple[str, SeverityLevel]:
    match outcome.result:
        case "nothing_running":
            return "nothing was running", "information"
        case "still_stopping":
            return "stopping; something is still running", "warning"
        case "stopped":
            more = [f"{len(outcome.kept)} queued kept"] if outcome.kept else []
            more += [f"{len(outcome.survived)} left running"] if outcome.survived else []
            return "; ".join(["stopped", *more]), "information"
