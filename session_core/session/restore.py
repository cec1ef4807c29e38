"""Restore a session's state from a store, and truthfully close what a crash left running."""

from session_core.ids import SessionId
from session_core.session.session import Session
from session_core.session.state import SessionState
from session_core.storage.base import StoredSession
from session_core.vocabulary import events as ev
from session_core.vocabulary.snapshots import SessionSummary


def restore(session_id: SessionId, stored: StoredSession) -> SessionState:
    """Return the state a session had when it was last recorded."""
    state = (
        SessionState(session_id=session_id) if stored.snapshot is None else SessionState.from_snapshot(stored.snapshot)
    )
    for event in stored.events:
        state.apply(event)
    return state


def needs_memory(summary: SessionSummary) -> bool:
    """Return whether a session must stay in memory: something in it may happen unprompted or needs an answer."""
    return bool(not summary.activity.is_at_rest or summary.queued or summary.open_requests or summary.wakeups)


def close_after_crash(session: Session) -> None:
    """Record the end of everything that was running when the service died; queued messages stay queued."""
    if session.state.turn is None and not session.state.activity.is_at_rest:
        session.record(ev.CompactionFinished(status="interrupted"))
    session.close_work("interrupted", ended_at=max(session.state.updated_at, session.last_alive_at))
    session.close_requests("restarted")
