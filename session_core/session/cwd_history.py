"""Previous working directories of sessions, for readers of past events who need to know where each happened."""

from collections import OrderedDict
from typing import Final

from session_core.ids import SessionId
from session_core.session.session_list import SessionListState
from session_core.vocabulary import events as ev

MOVE_EVENTS: Final = frozenset[type[ev.Event]]({ev.WorkingDirectoryChanged, ev.SessionDeleted})
"""Events after which a session is no longer in its folder."""
_MOST_SESSIONS: Final = 4_096
_MOST_MOVES: Final = 16


class CwdHistory:
    """Remembers the folders that sessions have left recently; older moves are forgotten."""

    def __init__(self, session_list: SessionListState) -> None:
        self._session_list = session_list
        self._moves: OrderedDict[SessionId, tuple[tuple[int, str], ...]] = OrderedDict()
        self._forgotten: dict[SessionId, int] = {}
        """The newest forgotten move of each session that is still remembered."""
        self._all_forgotten = 0
        """The newest move of any session that is entirely forgotten."""

    def record_move(self, session_id: SessionId, seq: int) -> None:
        """Record that a session leaves its current folder with event number `seq`."""
        summary = self._session_list.sessions.get(session_id)
        if summary is None:
            return
        moves = (*self._moves.pop(session_id, ()), (seq, summary.cwd))
        if len(moves) > _MOST_MOVES:
            (self._forgotten[session_id], _), *remaining = moves
            moves = tuple(remaining)
        self._moves[session_id] = moves
        if len(self._moves) > _MOST_SESSIONS:
            oldest, gone = self._moves.popitem(last=False)
            self._forgotten.pop(oldest, None)
            self._all_forgotten = max(self._all_forgotten, gone[-1][0])

    def find_cwd(self, session_id: SessionId, seq: int) -> str | None:
        """Return the working directory of a session at its event number `seq`, if known."""
        if seq <= max(self._all_forgotten, self._forgotten.get(session_id, 0)):
            return None
        for move_seq, cwd in self._moves.get(session_id, ()):
            if seq <= move_seq:
                return cwd
        summary = self._session_list.sessions.get(session_id)
        return summary.cwd if summary is not None else None
