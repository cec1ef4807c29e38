"""The list of all sessions as a fold."""

from session_core.ids import MessageId, QueueItemId, SessionId
from session_core.session.session_list import SessionListState
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.sessions import Activity, QueueItem, Settings


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
