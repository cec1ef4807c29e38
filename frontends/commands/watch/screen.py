"""One session as text, for a viewer who joins in the middle and did not send the prompt.

A single session is shown as it streams. Of several sessions, only whole lines are shown, each prefixed with the name
of its session.
"""

from pathlib import Path

import session_core as sc
from frontends.shared.activity_words import WORDS
from frontends.shared.conversation import work_lines
from frontends.shared.conversation.view import ERASE_LINE, View
from frontends.shared.figures import format_count
from frontends.shared.home import format_command
from frontends.shared.sanitise import one_line
from frontends.shared.style import Style

_SAID_CHARS = 400
_NAME_CHARS = 60
_LONGEST_LINE = 64 * 1024
"""Longer lines are shown in parts, to bound the buffer."""


class WatchScreen:
    """The output of one session; `label` prefixes each line if there are others, `home` is for commands in advice.

    Everything goes to one stream: a viewer wants to see the answers among the work.
    """

    def __init__(
        self, style: Style, short: str, *, live: bool, label: str | None = None, home: Path | None = None
    ) -> None:
        self.state: sc.SessionState | None = None
        self._style = style
        self._short = short
        self._label = label
        self._answer = format_command(home, "run", f"--session {short}")
        self._open = ""
        self._view = View(style, style, shared=True, live=live and label is None)

    @property
    def at_rest(self) -> bool:
        """Whether nothing is running, and nothing will start on its own."""
        state = self.state
        if state is None or state.deleted:
            return state is not None
        return state.activity.is_at_rest and state.turn is None and not state.queue

    def apply_item(self, item: sc.FeedItem, missed: int | None) -> None:
        """Apply a snapshot or an event; `missed` is how many events a later snapshot replaces."""
        match item:
            case sc.SessionSnapshot():
                first, self.state = self.state is None, sc.SessionState.from_snapshot(item)
                if first:
                    self._view.line(self._headline(item))
                    self._view.join(item)
                    for approval in item.approvals:
                        self._show_approval(approval)
                else:
                    self._view.catch_up(item, missed)
            case sc.SessionEvent() if self.state is not None:
                self.state.apply(item)
                self._view.event(item)
                self._remark(item.event)
            case _:
                pass

    def text(self, *, end: bool = False) -> str:
        """Return the text to print now; at the `end`, the last line is ended."""
        if end:
            self._view.finish()
        said = "".join(text for _, text in self._view.take_pieces())
        return said if self._label is None else self._label_lines(said, end=end)

    def _label_lines(self, said: str, *, end: bool) -> str:
        *whole, self._open = (self._open + said.replace(ERASE_LINE, "")).split("\n")
        if (end and self._open) or len(self._open) > _LONGEST_LINE:
            whole.append(self._open)
            self._open = ""
        return "".join(f"{self._style.cyan(self._label or '')} {line}\n" for line in whole)

    def line(self, text: str) -> None:
        """Print a line about the session; `text` is safe to print."""
        self._view.line(text)

    def _headline(self, snapshot: sc.SessionSnapshot) -> str:
        style, name = self._style, one_line(snapshot.name, _NAME_CHARS)
        messages = format_count(snapshot.earlier + len(snapshot.messages), "message")
        doing = WORDS[snapshot.activity.name]
        who = "" if self._label is not None else f"{self._short} "
        return style.dim(f'Watching {who}"{name}": {messages}, {doing}.')

    def _remark(self, event: sc.Event) -> None:
        """Show what others did, and how a turn ended: unlike the sender, a viewer does not know."""
        style = self._style
        match event:
            case sc.events.MessageAdded(message=message) if message.role == "user" and message.source is None:
                self._view.line(f"{style.bold('you:')} {one_line(message.text, _SAID_CHARS)}")
            case sc.events.MessageQueued(item=item):
                said = " ".join(part.text for part in item.parts if isinstance(part, sc.TextPart))
                self._view.line(style.dim(f"waits in the queue: {one_line(said, _SAID_CHARS)}"))
            case sc.events.TurnEnded(outcome=outcome):
                assert self.state is not None
                answer = self.state.find_message(outcome.final_message_id)
                self._view.line(work_lines.outcome_line(style, outcome, answer))
            case sc.events.ApprovalRequested(approval=approval):
                self._show_approval(approval)
            case sc.events.ApprovalResolved(tool_name=name, decision=decision):
                said = "denied" if decision == "deny" else "allowed"
                self._view.line(style.dim(f"{one_line(name, _NAME_CHARS)} was {said}"))
            case sc.events.StopRequested(scope=scope):
                self._view.line(style.yellow(f"{style.symbol('■')} a stop was requested ({scope})"))
            case sc.events.SessionRenamed(name=name):
                self._view.line(style.dim(f'It is now called "{one_line(name, _NAME_CHARS)}".'))
            case _:
                pass

    def _show_approval(self, approval: sc.Approval) -> None:
        self._view.line(f"{work_lines.waiting_line(self._style, approval)}; answer with: {self._answer}")
