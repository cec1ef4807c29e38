"""Where sessions worked before: whoever reads events a moment later has to know where each of them happened."""

from collections import OrderedDict
from typing import Final

from session_core.ids import SessionId
from session_core.session.fleet import FleetState
from session_core.vocabulary import events as ev

LEAVING: Final = frozenset[type[ev.Event]]({ev.WorkingDirectoryChanged, ev.SessionDeleted})
"""Events after which a session is not where it was."""
_MOST_SESSIONS: Final = 4_096
_MOST_MOVES: Final = 16


class Whereabouts:
    """Remembers the folders that sessions have left lately; what is older than that, nobody reads any more."""

    def __init__(self, fleet: FleetState) -> None:
        self._fleet = fleet
        self._left: OrderedDict[SessionId, tuple[tuple[int, str], ...]] = OrderedDict()

    def leaving(self, session_id: SessionId, seq: int) -> None:
        """Note that a session leaves the folder it is in, with the event of this number."""
        summary = self._fleet.sessions.get(session_id)
        if summary is None:
            return
        self._left[session_id] = (*self._left.pop(session_id, ()), (seq, summary.cwd))[-_MOST_MOVES:]
        if len(self._left) > _MOST_SESSIONS:
            self._left.popitem(last=False)

    def at(self, session_id: SessionId, seq: int) -> str | None:
        """Return the working directory that a session had when this event of it happened, if that is known."""
        for left, cwd in self._left.get(session_id, ()):
            if seq <= left:
                return cwd
        summary = self._fleet.sessions.get(session_id)
        return summary.cwd if summary is not None else None
