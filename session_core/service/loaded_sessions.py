"""The sessions in memory: those in use. Others are only a line in the list, and are loaded on demand.

Rules:
1. A session stays if it works, waits for a person or the clock, has queued messages, or has a reader.
2. A session that was not used for a while is unloaded with its ring. A reader with an old cursor then gets a snapshot.
3. Loading folds the events in the store; the result equals the state that was unloaded (the fold law).
"""

from collections.abc import Callable
from typing import NoReturn

import attrs
import trio

from session_core.errors import StoreDamaged
from session_core.ids import SessionId
from session_core.session.recorder import EventRecorder
from session_core.session.restore import needs_memory, restore
from session_core.session.session import Session
from session_core.session.state import SessionState
from session_core.vocabulary import events as ev


@attrs.define(eq=False, kw_only=True)
class LoadedSessions:
    """The sessions in memory, by id."""

    _recorder: EventRecorder
    _stay_ms: int
    _is_wanted: Callable[[SessionId], bool]
    _on_leave: Callable[[SessionId], None]
    sessions: dict[SessionId, Session] = attrs.field(factory=dict, init=False)
    _loading: dict[SessionId, trio.Event] = attrs.field(factory=dict, init=False)

    async def load_session(self, session_id: SessionId, *, even_damaged: bool = False) -> None:
        """Load a session into memory, if one with this id exists.

        Raises:
            StoreDamaged: It cannot be read; with `even_damaged` an empty one takes its place and can be deleted.
        """
        while session_id not in self.sessions and session_id in self._recorder.session_list.sessions:
            loading = self._loading.get(session_id)
            if loading is not None:
                await loading.wait()
                continue
            self._loading[session_id] = trio.Event()
            try:
                await self._load_session(session_id, even_damaged=even_damaged)
            finally:
                self._loading.pop(session_id).set()

    async def _load_session(self, session_id: SessionId, *, even_damaged: bool) -> None:
        damage: StoreDamaged | None = None
        try:
            stored = await self._recorder.store.load(session_id)
            if stored is None:
                damage = StoreDamaged(
                    f"session {session_id} is in the list, but nothing is stored for it; "
                    "try `session-core store rebuild`",
                    field="session_id",
                )
        except StoreDamaged as found:
            stored, damage = None, found
        if session_id not in self._recorder.session_list.sessions:
            return  # deleted meanwhile
        if damage is not None and not even_damaged:
            raise damage
        state = restore(session_id, stored) if stored is not None else SessionState(session_id=session_id)
        session = Session(state, self._recorder)
        session.damage = damage
        session.last_alive_at = stored.events[-1].at if stored is not None and stored.events else 0
        self._recorder.stream.open_session(session_id, sseq=state.sseq)
        self.add(session)
        for display in state.displays:  # its owner is gone, or the session would not have been unloaded
            session.record(ev.ExtensionDisplayed(extension=display.extension))

    def drop_if_damaged(self, session_id: SessionId) -> None:
        """Unload a session that could not be read and was not deleted after all."""
        session = self.sessions.get(session_id)
        if session is not None and session.damage is not None and not session.closing:
            self.remove(session_id)

    def add(self, session: Session) -> None:
        """Add a session to those in memory."""
        self.sessions[session.state.session_id] = session
        session.used_at = session.now()

    def remove(self, session_id: SessionId) -> None:
        """Remove a session and its ring from memory."""
        del self.sessions[session_id]
        self._on_leave(session_id)
        self._recorder.stream.close_session(session_id)

    def find(self, session_id: SessionId, *, even_damaged: bool = False) -> Session | None:
        """Return a session loaded by `load_session`, and mark it as used; None for one being deleted.

        Raises:
            StoreDamaged: It could not be read.
        """
        session = self.sessions.get(session_id)
        if session is None or session.closing:
            return None
        if session.damage is not None and not even_damaged:
            raise StoreDamaged(session.damage.message, field="session_id")
        session.used_at = session.now()
        return session

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> NoReturn:
        """Unload sessions that have not been used for a while, until cancelled."""
        task_status.started()
        while True:
            await trio.sleep(self._stay_ms / 2000)
            for session in list(self.sessions.values()):
                if self._may_leave(session):
                    self.remove(session.state.session_id)

    def _may_leave(self, session: Session) -> bool:
        session_id = session.state.session_id
        summary = self._recorder.session_list.sessions.get(session_id)
        return (
            session.used_at + self._stay_ms <= session.now()
            and session.work is None
            and not session.state.displays
            and not session.closing
            and summary is not None
            and not needs_memory(summary)
            and self._recorder.store.failure is None
            and not self._recorder.stream.has_readers(session_id)
            and not self._is_wanted(session_id)
        )
