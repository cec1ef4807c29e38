"""Which sessions belong together: parents, children, and who works for whom."""

from collections.abc import Iterator, Mapping

from session_core.ids import SessionId
from session_core.session.fleet import FleetState
from session_core.session.session import Session
from session_core.vocabulary.sessions import Approval


class Family:
    """Looks sessions up by their kinship; `sessions` are those in memory."""

    def __init__(self, fleet: FleetState, sessions: Mapping[SessionId, Session]) -> None:
        self._fleet = fleet
        self._sessions = sessions

    def subtree(self, session_id: SessionId) -> Iterator[Session]:
        """The child sessions of a session, their children, and so on, as far as anything can happen in them."""
        children: dict[SessionId | None, list[SessionId]] = {}
        for summary in self._fleet.sessions.values():
            children.setdefault(summary.parent_id, []).append(summary.session_id)
        found = children.pop(session_id, [])
        while found:
            child = found.pop()
            if child in self._sessions:
                yield self._sessions[child]
            found += children.pop(child, ())

    def depth(self, session_id: SessionId) -> int:
        """How many sessions stand above this one."""
        return sum(1 for _ in self._above(session_id))

    def foremost(self, session: Session) -> Session:
        """The topmost session that waits for the work of this one: there people watch, are asked, and undo."""
        foremost = session
        for ancestor in self._above(session.state.session_id):
            above = self._sessions.get(ancestor)
            if above is None or foremost.state.session_id not in _awaited(above):
                break
            foremost = above
        return foremost

    def helpers(self, session: Session) -> Iterator[Session]:
        """The sessions that a running turn waits for, those that they wait for, and so on."""
        awaited = _awaited(session)
        while awaited:
            helper = self._sessions.get(awaited.pop())
            if helper is not None:
                yield helper
                awaited += _awaited(helper)

    def asked_for(self, session: Session) -> Iterator[tuple[Session, Approval]]:
        """The open approvals of a session that are asked for elsewhere, with where that is."""
        foremost = self.foremost(session)
        if foremost is not session:
            yield from (
                (foremost, approval)
                for approval in foremost.state.approvals
                if approval.session_id == session.state.session_id
            )

    def _above(self, session_id: SessionId) -> Iterator[SessionId]:
        """The parent of a session, its parent, and so on; a circle, which only a damaged store has, ends."""
        seen, summary = {session_id}, self._fleet.sessions.get(session_id)
        while summary is not None and summary.parent_id is not None and summary.parent_id not in seen:
            seen.add(summary.parent_id)
            yield summary.parent_id
            summary = self._fleet.sessions.get(summary.parent_id)


def _awaited(session: Session) -> list[SessionId]:
    return [tool.child_id for tool in session.state.tools if tool.child_id is not None and tool.result is None]
