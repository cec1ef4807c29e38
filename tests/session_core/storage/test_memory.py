"""The store that lives as long as the process; what it promises like any store is in `test_check_store`."""

from session_core.ids import MessageId, SessionId
from session_core.storage.base import SessionStore
from session_core.storage.memory import MemoryStore
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import SessionEvent

A, B = SessionId("ses_a"), SessionId("ses_b")


def event(seq: int, session_id: SessionId | None, said: ev.Event) -> SessionEvent:
    return SessionEvent(seq, 1, session_id, 0, said)


async def test_durable_events_are_kept_per_session() -> None:
    """Events are kept in order by session; passing and app-wide ones count as durable but are not kept."""
    store = MemoryStore()
    renamed = [event(1, A, ev.SessionRenamed(name="a")), event(2, B, ev.SessionRenamed(name="b"))]
    passing = event(3, A, ev.PartDelta(message_id=MessageId("msg_x"), text="x"))
    app_wide = event(4, None, ev.SessionArchived())
    last = event(5, A, ev.SessionArchived())
    for each in (*renamed, passing, app_wide, last):
        store.append(each)
        assert each.seq == store.durable_seq
    await store.wait_durable(5)
    assert (renamed[0], last) == store.events_of(A)
    assert (renamed[1],) == store.events_of(B)


def test_forgetting_a_session() -> None:
    """A forgotten session has no events, the others keep theirs, and forgetting twice does no harm."""
    store = MemoryStore()
    store.append(event(1, A, ev.SessionArchived()))
    store.append(event(2, B, ev.SessionArchived()))
    store.forget(A)
    store.forget(A)
    assert () == store.events_of(A)
    assert 1 == len(store.events_of(B))


def test_it_is_a_store() -> None:
    """The store in memory has the shape of a store, which the type checkers confirm."""
    store: SessionStore = MemoryStore()
    assert (0, None) == (store.backlog, store.failure)
