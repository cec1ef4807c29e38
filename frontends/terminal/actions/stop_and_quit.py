"""Stopping and leaving: the keys that mean more when they are pressed twice. A part of the app.

Rules:
1. Twice means twice in the same session: looking at another one begins anew.
2. Leaving never ends work without a word. In the background it goes on; where it would not, people are asked once more.
3. What was written or attached is never thrown away by leaving.
"""

from __future__ import annotations

from typing import Final

import session_core as sc
from frontends.terminal.actions.settings_actions import ChoiceActions

TWICE_S: Final = 2.0
"""How soon a key must be pressed again to mean more."""
TYPED_TWICE_S: Final = 10.0
"""The same for a command that is typed again."""


class LeavingActions(ChoiceActions):
    """What Esc, Ctrl+C, Ctrl+D and /quit do."""

    _last_stop: tuple[sc.SessionId | None, float] = (None, 0.0)
    _last_leave_request: tuple[str, float] = ("", 0.0)

    def view(self, session_id: sc.SessionId | None) -> None:
        """View a session; keys that mean more when they are pressed twice begin anew."""
        self._last_stop = (None, 0.0)
        super().view(session_id)

    def action_escape(self) -> None:
        """Leave what is being edited, or stop the turn; pressed twice, stop the helpers too."""
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
        """Copy what is marked, else clear what was typed, else leave if pressed twice. It stops nothing by itself."""
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
        """Leave, as a shell does."""
        if self.composer.is_empty:
            self._leave("Ctrl+D", TWICE_S if self.service_actions.work_would_end else None)

    def action_quit_terminal(self) -> None:
        """Leave; work in the background goes on."""
        self._leave("/quit", TYPED_TWICE_S if self.service_actions.work_would_end else None)

    def _leave(self, how: str, within_s: float | None) -> None:
        """Leave, if that was asked for a second time `within_s`, or need not be."""
        before, asked_at = self._last_leave_request
        if within_s is None or (before == how and self.typed_at - asked_at < within_s):
            self.exit()
        else:
            self._last_leave_request = how, self.typed_at
            self.tell(self.service_actions.parting_hint(how), "warning", seconds=within_s)
