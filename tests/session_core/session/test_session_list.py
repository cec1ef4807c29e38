"""The list of all sessions as a fold."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core import limits
from session_core.ids import ClientId, Cursor, Epoch, MessageId, QueueItemId, RequestId, SessionId
from session_core.session import session_list as session_list_module
from session_core.session.session_list import SessionListState, count_summary_bytes
from session_core.session.state import fold
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.sessions import Activity, Dialog, DialogAnswer, QueueItem, Settings
from session_core.vocabulary.snapshots import ServiceSnapshot, SessionSummary
from session_core.wire.codec import encode


def test_the_list_follows_events() -> None:
    """A summary follows what happens in its session; events of unknown sessions and passing ones change nothing."""
    session_list = SessionListState()
    session_id = SessionId("ses_a")
    item = QueueItem(item_id=QueueItemId("item_1"), parts=(), deliver_as="steer", queued_at=0)
    happened: list[ev.Event] = [
        ev.SessionCreated(name="a", settings=Settings(model="m", cwd="/")),
        ev.SessionRenamed(name="b"),
        ev.ModelSwitched(model="n"),
        ev.WorkingDirectoryChanged(cwd="/tmp"),
        ev.MessageQueued(item=item),
        ev.MessageQueued(item=item),
        ev.QueueItemRemoved(item_id=item.item_id, because="taken"),
        ev.ActivityChanged(activity=Activity(name="streaming")),
        ev.SessionArchived(),
        ev.PartDelta(message_id=MessageId("msg_1"), text="x"),
    ]
    for seq, event in enumerate(happened, start=1):
        session_list.apply(SessionEvent(seq, seq, session_id, seq * 10, event))
        session_list.apply(SessionEvent(seq, seq, SessionId("ses_unknown"), 0, ev.SessionRenamed(name="x")))
    (summary,) = session_list.sessions.values()
    assert ("b", "n", "/tmp", 1, True, 10, 90, Activity(name="streaming")) == (
        summary.name,
        summary.model,
        summary.cwd,
        summary.queued,
        summary.archived,
        summary.created_at,
        summary.updated_at,
        summary.activity,
    )
    session_list.apply(SessionEvent(11, 11, session_id, 110, ev.SessionDeleted()))
    assert {} == session_list.sessions


# --- more sessions than have room -------------------------------------------------------------------------------------

_CURSOR = Cursor(epoch=Epoch("run_1"), seq=0)
_IDS = [SessionId(f"ses_{number}") for number in range(12)]
_NAMES = st.sampled_from(["a", "b" * 200, "c" * 400])
_CREATED = st.builds(ev.SessionCreated, name=_NAMES, settings=st.just(Settings(model="m", cwd="/")))
_EVENTS = st.one_of(
    _CREATED,
    st.builds(ev.SessionRenamed, name=_NAMES),
    st.builds(ev.ActivityChanged, activity=st.sampled_from([Activity(name="idle"), Activity(name="streaming")])),
    st.just(ev.DialogClosed(answer=DialogAnswer(request_id=RequestId("req_1"), because="answered"))),
    st.just(ev.SessionDeleted()),
    st.just(ev.ClientDetached(client_id=ClientId("x"))),
)


@given(
    first=st.lists(_CREATED, min_size=len(_IDS), max_size=len(_IDS)),
    happened=st.lists(st.tuples(st.sampled_from([None, *_IDS]), st.integers(0, 50), _EVENTS), max_size=80),
    room=st.integers(2_000, 20_000),
    longest=st.sampled_from([1_100, 6_000]),
)
def test_a_limited_list_is_the_same_for_all(
    first: list[ev.Event], happened: list[tuple[SessionId | None, int, ev.Event]], room: int, longest: int
) -> None:
    """From any snapshot, later events lead to the list of the service, within its room; it counts the others."""
    happened = [*((session_id, 0, event) for session_id, event in zip(_IDS, first, strict=True)), *happened]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "MAX_LIST_BYTES", room)
        patch.setattr(session_list_module, "_LONGEST_SUMMARY", longest)
        service, events, snapshots = SessionListState(), list[SessionEvent](), [SessionListState().snapshot(_CURSOR)]
        known: set[SessionId] = set()
        for seq, (session_id, at, event) in enumerate(happened, start=1):
            if isinstance(event, ev.SessionCreated) == (session_id in known) and session_id is not None:
                continue  # a session is created once, and nothing happens before
            known ^= {session_id} if isinstance(event, ev.SessionCreated | ev.SessionDeleted) and session_id else set()
            events.append(SessionEvent(seq, seq, session_id, at, event))
            service.apply(events[-1])
            snapshots.append(service.snapshot(Cursor(epoch=_CURSOR.epoch, seq=seq)))
            assert known == set(service.sessions)
            assert len(known) == len(snapshots[-1].sessions) + snapshots[-1].earlier
            listed = snapshots[-1].sessions
            assert len(listed) <= room // longest or sum(map(count_summary_bytes, listed)) <= room
        for snapshot in snapshots:
            assert attrs.evolve(snapshots[-1], cursor=_CURSOR) == attrs.evolve(fold(snapshot, events), cursor=_CURSOR)


@given(
    uses=st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=40), room=st.integers(2_000, 60_000)
)
def test_the_least_recently_used_sessions_are_no_longer_listed(uses: list[tuple[int, bool]], room: int) -> None:
    """A service that starts lists as many sessions as have room: those at work, then those that were used last."""
    summaries = [
        SessionSummary(
            session_id=SessionId(f"ses_{number:02}"),
            name="x",
            created_at=number,
            updated_at=updated_at,
            archived=False,
            parent_id=None,
            cwd="/",
            model="m",
            activity=Activity(name="streaming" if works else "idle"),
        )
        for number, (updated_at, works) in enumerate(uses)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "MAX_LIST_BYTES", room)
        state = SessionListState()
        state.load(summaries)
    found = state.snapshot(_CURSOR)
    gone = [each for each in summaries if each not in found.sessions]
    assert [each for each in summaries if each not in gone] == list(found.sessions)
    assert (len(gone), len(uses)) == (found.earlier, len(state.sessions))
    useful = [(not each.activity.is_at_rest, each.updated_at) for each in found.sessions]
    useless = [(not each.activity.is_at_rest, each.updated_at) for each in gone]
    assert not useful or not useless or max(useless) <= min(useful)
    if gone:
        size = sum(map(count_summary_bytes, found.sessions))
        assert size <= room * 7 // 8 < size + max(map(count_summary_bytes, gone))


def test_a_session_in_which_a_person_is_asked_something_stays_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An open question counts like work, so the session that was used later makes room for it."""
    monkeypatch.setattr(limits, "MAX_LIST_BYTES", 2_000)
    state = SessionListState()
    created = ev.SessionCreated(name="x", settings=Settings(model="m", cwd="/"))
    asked = ev.DialogOpened(
        dialog=Dialog(request_id=RequestId("req_1"), kind="confirm", title="?", opened_at=0, expires_at=1)
    )
    happened: list[tuple[SessionId, ev.Event]] = [(_IDS[0], created), (_IDS[0], asked), (_IDS[1], created)]
    for seq, (session_id, event) in enumerate(happened, start=1):
        state.apply(SessionEvent(seq, seq, session_id, seq, event))
    assert [_IDS[0]] == [each.session_id for each in state.snapshot(_CURSOR).sessions]


def test_a_session_that_is_not_listed_is_counted_until_it_is_deleted() -> None:
    """What happens in a session that is not listed changes nothing but the count, when it is deleted."""
    state = SessionListState.from_snapshot(ServiceSnapshot(cursor=_CURSOR, sessions=(), earlier=2))
    for event in (ev.SessionRenamed(name="x"), ev.SessionDeleted()):
        state.apply(SessionEvent(2, 9, SessionId("ses_x"), 1, event))
    assert ServiceSnapshot(cursor=_CURSOR, sessions=(), earlier=1) == state.snapshot(_CURSOR)


def test_a_summary_takes_no_more_than_is_counted() -> None:
    """The size of a summary that is counted is an upper bound of its size as JSON."""
    most = limits.MAX_INTEGER
    worst = SessionSummary(
        session_id=SessionId("ses_" + "x" * 26),
        name="\x01" * 200,
        created_at=most,
        updated_at=most,
        archived=False,
        parent_id=SessionId("ses_" + "x" * 26),
        cwd="\x01" * 4_096,
        model="\x01" * 200,
        activity=Activity(name="awaiting_permission", retry_at=most, message="\x01" * 2_000),
        queued=most,
        open_requests=most,
        wakeups=most,
    )
    assert len(encode(worst)) + 1 <= count_summary_bytes(worst)
