"""Stopping and leaving: keys that mean more when pressed twice. A part of the app.

Rules:
1. Twice means twice in the same session: viewing another one starts the count again.
2. Leaving never ends work silently. Background work continues; where work would end, the user has to confirm.
3. Leaving never discards text or attachments.
"""

from __future__ import annotations

from typing import Final

import session_core as sc
from frontends.terminal.actions.settings_actions import ChoiceActions

TWICE_S: Final = 2.0
"""How soon a key must be pressed again to count as the second press."""
TYPED_TWICE_S: Final = 10.0
"""The same for a typed command."""


class LeavingActions(ChoiceActions):
    """The actions of Esc, Ctrl+C, Ctrl+D and /quit."""

    _last_stop: tuple[sc.SessionId | None, float] = (None, 0.0)
    _last_leave_request: tuple[str, float] = ("", 0.0)

    def view(self, session_id: sc.SessionId | None) -> None:
        """View a session, and start counting double key presses again."""
        self._last_stop = (None, 0.0)
        super().view(session_id)

    def action_escape(self) -> None:
        """Cancel the edit, or stop the turn; pressed twice, stop the subagents too."""
        if not self.composer.has_focus_within and not self._is_typing_elsewhere():
            self.composer.focus()
            return
        if self.composer.editing is not None:
            self.composer.clear()
            self.redraw()
            return
        state, session_id = self.service_actions.state, self.service_actions.session_id
        if state is None or session_id is None:
            return
        stopped, stopped_at = self._last_stop
        if stopped == session_id and self.typed_at - stopped_at < TWICE_S:
            self.run_in_background(self.service_actions.stop(session_id, "subtree"))
        elif not state.activity.is_at_rest:
            self._last_stop = session_id, self.typed_at
            self.run_in_background(self.service_actions.stop(session_id, "turn"))

    def _is_typing_elsewhere(self) -> bool:
        return self.screen is not self.screen_stack[0]

    def action_interrupt(self) -> None:
        """Copy the selection, else clear the input, else leave if pressed twice. Stops no turn."""
        selected = self.screen.get_selected_text()
        if selected:
            self.copy(selected)
            self.screen.clear_selection()
        elif self._is_typing_elsewhere():
            _ = self.screen.dismiss(None)
        elif marked := self.composer.selected_text:
            self.copy(marked)
            self.composer.unselect()
        elif not self.composer.is_empty or self.composer.editing is not None:
            self.composer.clear()
            self.redraw()
        else:
            self._leave("Ctrl+C", TWICE_S)

    def action_leave_if_empty(self) -> None:
        """Leave if the input is empty, as a shell does."""
        if self.composer.is_empty:
            self._leave("Ctrl+D", TWICE_S if self.service_actions.work_would_end else None)

    def action_quit_terminal(self) -> None:
        """Leave; background work continues."""
        self._leave("/quit", TYPED_TWICE_S if self.service_actions.work_would_end else None)

    def _leave(self, how: str, within_s: float | None) -> None:
        """Leave if this is the second request `within_s`, or if one is enough."""
        before, asked_at = self._last_leave_request
        if within_s is None or (before == how and self.typed_at - asked_at < within_s):
            self.exit()
        else:
            self._last_leave_request = how, self.typed_at
            self.tell(self.service_actions.parting_hint(how), "warning", seconds=within_s)
