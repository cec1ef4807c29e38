"""Stopping and leaving: the keys that mean more when they are pressed twice. A part of the app.

Rules:
1. Twice means twice in the same session: looking at another one begins anew.
2. Leaving never ends work without a word. In the background it goes on; where it would not, people are asked once more.
3. What was written or attached is never thrown away by leaving.
"""

from __future__ import annotations

from time import monotonic
from typing import Final

import session_core as sc
from frontends.terminal.choosing import Choosing

TWICE_S: Final = 2.0
"""How soon a key must be pressed again to mean more."""
TYPED_TWICE_S: Final = 10.0
"""The same for a command that is typed again."""


class Parting(Choosing):
    """What Esc, Ctrl+C, Ctrl+D and /quit do."""

    _stopped: tuple[sc.SessionId | None, float] = (None, 0.0)
    _asked_to_leave: tuple[str, float] = ("", 0.0)

    def view(self, session_id: sc.SessionId | None) -> None:
        """View a session; keys that mean more when they are pressed twice begin anew."""
        self._stopped = (None, 0.0)
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
        state, session_id = self.doing.state, self.doing.session_id
        if state is None or session_id is None:
            return
        stopped, at = self._stopped
        if stopped == session_id and monotonic() - at < TWICE_S:
            self.carry_out(self.doing.stop(session_id, "subtree"))
        elif not state.activity.at_rest:
            self._stopped = session_id, monotonic()
            self.carry_out(self.doing.stop(session_id, "turn"))

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
            self._leave("Ctrl+D", TWICE_S if self.doing.work_would_end else None)

    def action_quit_terminal(self) -> None:
        """Leave; work in the background goes on."""
        self._leave("/quit", TYPED_TWICE_S if self.doing.work_would_end else None)

    def _leave(self, how: str, within_s: float | None) -> None:
        """Leave, if that was asked for a second time `within_s`, or need not be."""
        before, at = self._asked_to_leave
        if within_s is None or (before == how and monotonic() - at < within_s):
            self.exit()
        else:
            self._asked_to_leave = how, monotonic()
            self.tell(self.doing.parting_hint(how), "warning", seconds=within_s)
