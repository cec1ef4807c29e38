"""A service that checks itself: at its end, it checks the fold laws on everything that happened in it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import attrs

from session_core.ids import Cursor, SessionId
from session_core.service.config import ServiceConfig
from session_core.service.core import ServiceCore
from session_core.service.service import SessionService, open_session_service
from session_core.session.session_list import SessionListState
from session_core.session.state import SessionState, fold
from session_core.storage.memory import MemoryStore
from session_core.vocabulary.events import TRANSIENT_EVENTS, SessionEvent
from session_core.vocabulary.snapshots import ServiceSnapshot, SessionSnapshot

SNAPSHOT_EVERY = 5


class WitnessStore(MemoryStore):
    """Sees every event, including transient ones, and takes snapshots along the way."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[SessionEvent] = []
        self.snapshots: list[SessionSnapshot] = []
        self.session_lists: list[ServiceSnapshot] = []
        self.core: ServiceCore | None = None

    def append(self, event: SessionEvent) -> None:
        """Record an event; the state applies it afterwards, so a snapshot is as of the event before."""
        super().append(event)
        self.seen.append(event)
        if self.core is None or event.seq % SNAPSHOT_EVERY:
            return
        cursor = Cursor(epoch=self.core.stream.epoch, seq=event.seq - 1)
        self.session_lists.append(self.core.recorder.session_list.snapshot(cursor))
        session = self.core.sessions.get(event.session_id) if event.session_id is not None else None
        if session is not None:
            self.snapshots.append(session.state.snapshot(cursor))


@asynccontextmanager
async def open_checked_service(config: ServiceConfig | None = None) -> AsyncGenerator[SessionService]:
    """Open a service as `open_session_service` does, on a memory store; raises `AssertionError` if a law was broken."""
    witness = WitnessStore()
    async with open_session_service(attrs.evolve(config or ServiceConfig(), store=witness)) as service:
        witness.core = service._core  # noqa: SLF001 - a test utility may look inside
        yield service
    check_laws(witness)


def check_laws(witness: WitnessStore) -> None:
    """Check the laws of the fold, of order and of separation on everything that a witness has seen."""
    core = witness.core
    assert core is not None
    cursor = core.stream.cursor
    assert [event.seq for event in witness.seen] == list(range(1, cursor.seq + 1)), "global numbers have no holes"
    for session_id, session in core.sessions.items():
        events = [event for event in witness.seen if event.session_id == session_id]
        final = session.state.snapshot(cursor)
        assert [event.sseq for event in events] == list(range(1, final.sseq + 1)), "a session's numbers have no holes"
        assert _replay(session_id, events, cursor) == final, "replaying all events gives the state"
        durable = [event for event in events if not isinstance(event.event, TRANSIENT_EVENTS)]
        assert _replay(session_id, durable, cursor) == final, "replaying the journal gives the state"
        assert final.activity.is_at_rest, "a closed service leaves nothing running"
        assert final.partial is None, "a closed service leaves no half-finished message"
        for snapshot in witness.snapshots:
            if snapshot.session_id == session_id:
                _check_snapshot(snapshot, events, final, cursor)
    _check_session_list(witness, core, cursor)


def _check_snapshot(
    snapshot: SessionSnapshot, events: list[SessionEvent], final: SessionSnapshot, cursor: Cursor
) -> None:
    after = fold(snapshot, events)
    assert attrs.evolve(after, cursor=cursor) == final, "snapshot + later events = fresh snapshot"
    before = [event for event in events if event.seq <= snapshot.cursor.seq]
    assert _replay(snapshot.session_id, before, snapshot.cursor) == snapshot, "a snapshot never changes"


def _check_session_list(witness: WitnessStore, core: ServiceCore, cursor: Cursor) -> None:
    final = core.recorder.session_list.snapshot(cursor)
    for session_list in witness.session_lists:
        assert attrs.evolve(fold(session_list, witness.seen), cursor=cursor) == final, (
            "the list of sessions is a fold too"
        )
    replayed = SessionListState()
    for event in witness.seen:
        replayed.apply(event)
    assert replayed.snapshot(cursor) == final
    for summary in final.sessions:
        session = core.sessions.get(summary.session_id)
        state = _replay_state(summary.session_id, witness.seen) if session is None else session.state
        listed = (summary.name, summary.activity, summary.archived, summary.model, summary.cwd, summary.updated_at)
        settings = state.settings
        assert listed == (state.name, state.activity, state.archived, settings.model, settings.cwd, state.updated_at)
        assert summary.queued == len(state.queue)
        assert summary.open_requests == len(state.approvals) + len(state.dialogs)
        assert summary.wakeups == len(state.wakeups)


def _replay(session_id: SessionId, events: list[SessionEvent], cursor: Cursor) -> SessionSnapshot:
    return _replay_state(session_id, events).snapshot(cursor)


def _replay_state(session_id: SessionId, events: list[SessionEvent]) -> SessionState:
    state = SessionState(session_id=session_id)
    for event in events:
        if event.session_id == session_id:
            state.apply(event)
    return state
