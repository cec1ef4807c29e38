"""The one writer, the running work, and the answers of people."""

import pytest
import trio
from trio.testing import MockClock

from session_core.ids import ClientId, RequestId
from session_core.vocabulary import events as ev
from session_core.vocabulary.sessions import Activity, Dialog
from tests.session_core.session._helpers import TURN, new_session, quiet, started


def test_record_adds_the_change_of_activity_in_the_same_step() -> None:
    """An event and the activity that follows from it stand side by side, and the state shows both."""
    session, seen = new_session()
    event = session.record(ev.TurnStarted(turn_id=TURN), ClientId("ann"))
    assert [ev.TurnStarted(turn_id=TURN), ev.ActivityChanged(activity=Activity(name="starting"))] == seen
    assert (ClientId("ann"), 2) == (event.by, event.seq)
    assert 3 == session.cursor.seq
    assert Activity(name="starting") == session.state.activity


def test_a_snapshot_never_changes() -> None:
    """What happens after a snapshot is not in it."""
    session, _ = new_session()
    before = session.snapshot()
    session.record(ev.SessionRenamed(name="other"))
    assert ("s", "other") == (before.name, session.snapshot().name)


def test_a_stop_is_requested_once() -> None:
    """A second stop of the same work cancels again but records nothing, and a session at rest has none to stop."""
    session, _, seen = started()
    work = session.work
    assert work is not None
    assert session.request_stop("turn", ClientId("ann"))
    assert session.request_stop("turn", ClientId("bob"))
    assert [ev.StopRequested(scope="turn")] == quiet(seen)
    assert work.stop_requested
    assert work.scope.cancel_called
    assert session.state.stop is not None
    assert ClientId("ann") == session.state.stop.by
    session.close_work("stopped")
    assert work.ended.is_set()
    assert not session.request_stop("turn", None)


async def test_answers_wait_for_nobody(autojump_clock: MockClock) -> None:
    """An answer that came before anybody waited is there at once, and time running out means no."""
    session, _ = new_session()
    for name in ("req_1", "req_2"):
        dialog = Dialog(request_id=RequestId(name), kind="input", title="t", opened_at=0, expires_at=1)
        session.record(ev.DialogOpened(dialog=dialog))
    assert session.resolve_dialog(RequestId("req_1"), "yes", "answered", ClientId("ann"))
    assert not session.resolve_dialog(RequestId("req_1"), "no", "answered")
    resolved = await session.wait_resolved(RequestId("req_1"), 1)
    assert ("yes", ClientId("ann")) == (getattr(resolved.resolution, "value", None), resolved.by)
    late = await session.wait_resolved(RequestId("req_2"), 5_000)
    assert ("timed_out", None) == (late.resolution.because, late.by)
    assert 5.0 == pytest.approx(trio.current_time())
