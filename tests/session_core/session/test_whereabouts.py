"""Where sessions worked when something happened."""

from session_core.ids import SessionId
from session_core.session import whereabouts
from session_core.session.whereabouts import Whereabouts
from session_core.vocabulary import events as ev
from tests.session_core.session._helpers import new_session


def test_events_happened_where_the_session_was_then() -> None:
    """Up to the event by which it left, a session was in the folder before; a deleted one is known to the last."""
    session, _ = new_session()
    ledger, session_id = session._ledger, session.state.session_id
    for event in (
        ev.SessionRenamed(name="a"),
        ev.WorkingDirectoryChanged(cwd="/b"),
        ev.SessionRenamed(name="b"),
        ev.WorkingDirectoryChanged(cwd="/c"),
        ev.SessionRenamed(name="c"),
        ev.SessionDeleted(),
    ):
        session.record(event)
    found = [ledger.whereabouts.at(session_id, seq) for seq in range(1, 9)]
    assert ["/", "/", "/", "/b", "/b", "/c", "/c", None] == found


def test_no_more_is_remembered_than_is_needed() -> None:
    """Only the last moves, of the sessions that have moved lately, are kept."""
    session, _ = new_session()
    ledger, session_id = session._ledger, session.state.session_id
    for number in range(100):
        session.record(ev.WorkingDirectoryChanged(cwd=f"/{number}"))
    assert whereabouts._MOST_MOVES == len(ledger.whereabouts._left[session_id])
    known = Whereabouts(ledger.fleet)
    for number in range(whereabouts._MOST_SESSIONS + 5):
        other = SessionId(f"ses_{number}")
        ledger.fleet.sessions[other] = ledger.fleet.sessions[session_id]
        known.leaving(other, number)
    assert whereabouts._MOST_SESSIONS == len(known._left)
