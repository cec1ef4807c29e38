"""Where sessions worked when something happened."""

import attrs
import pytest

from session_core.ids import SessionId
from session_core.session import cwd_history
from session_core.session.cwd_history import CwdHistory
from session_core.vocabulary import events as ev
from tests.session_core.session._helpers import new_session


def test_events_happened_where_the_session_was_then() -> None:
    """Up to the event by which it left, a session was in the folder before; a deleted one is known to the last."""
    session, _ = new_session()
    recorder, session_id = session._recorder, session.state.session_id
    for event in (
        ev.SessionRenamed(name="a"),
        ev.WorkingDirectoryChanged(cwd="/b"),
        ev.SessionRenamed(name="b"),
        ev.WorkingDirectoryChanged(cwd="/c"),
        ev.SessionRenamed(name="c"),
        ev.SessionDeleted(),
    ):
        session.record(event)
    found = [recorder.cwd_history.find_cwd(session_id, seq) for seq in range(1, 9)]
    assert ["/", "/", "/", "/b", "/b", "/c", "/c", None] == found


def test_no_more_is_remembered_than_is_needed() -> None:
    """Only the last moves, of the sessions that have moved lately, are kept."""
    session, _ = new_session()
    recorder, session_id = session._recorder, session.state.session_id
    for number in range(100):
        session.record(ev.WorkingDirectoryChanged(cwd=f"/{number}"))
    assert cwd_history._MOST_MOVES == len(recorder.cwd_history._moves[session_id])
    known = CwdHistory(recorder.session_list)
    for number in range(cwd_history._MOST_SESSIONS + 5):
        other = SessionId(f"ses_{number}")
        recorder.session_list.sessions[other] = recorder.session_list.sessions[session_id]
        known.record_move(other, number)
    assert cwd_history._MOST_SESSIONS == len(known._moves)


def test_where_a_session_was_before_its_last_moves_is_not_known() -> None:
    """Of an event from before the moves that are remembered nothing is said, rather than the wrong folder."""
    session, _ = new_session()
    recorder, session_id = session._recorder, session.state.session_id
    moved = [session.record(ev.WorkingDirectoryChanged(cwd=f"/{n}")).seq for n in range(cwd_history._MOST_MOVES + 2)]
    found = [recorder.cwd_history.find_cwd(session_id, seq) for seq in (1, *moved, moved[-1] + 1)]
    assert [None, None, None, *(f"/{n}" for n in range(1, cwd_history._MOST_MOVES + 2))] == found


def test_where_a_session_was_that_is_forgotten_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """When too many others have moved after a session, only later events of it are known to be where it is now."""
    monkeypatch.setattr(cwd_history, "_MOST_SESSIONS", 2)
    session, _ = new_session()
    session_list, first = session._recorder.session_list, session.state.session_id
    known, others = CwdHistory(session_list), [SessionId(f"ses_{number}") for number in range(3)]
    for seq, session_id in enumerate([first, *others], 10):
        session_list.sessions[session_id] = attrs.evolve(session_list.sessions[first], cwd="/before")
        known.record_move(session_id, seq)
        session_list.sessions[session_id] = attrs.evolve(session_list.sessions[first], cwd="/after")
    known.record_move(first, 20)
    session_list.sessions[first] = attrs.evolve(session_list.sessions[first], cwd="/last")
    assert [None, None, "/after", "/last"] == [known.find_cwd(first, seq) for seq in (9, 12, 20, 21)]
    assert [None, "/before", "/after"] == [known.find_cwd(others[2], seq) for seq in (12, 13, 14)]
