"""Sessions as files: what was exported of them, and what is expected of it."""

from collections.abc import Iterable
from pathlib import Path

import attrs
import pytest
import trio

from session_core import limits
from session_core.errors import (
    InvalidInput,
    SessionCoreError,
    StoreUnusable,
)
from session_core.ids import Cursor, Epoch, SessionId
from session_core.session.restore import restore
from session_core.session.session_list import SessionListState
from session_core.session.state import SessionState
from session_core.storage.base import StoreReader
from session_core.storage.maintenance.export_import import export_session, import_session
from session_core.storage.memory import MemoryStore
from session_core.storage.sqlite import SqliteStore
from session_core.vocabulary.events import TRANSIENT_EVENTS, SessionEvent
from session_core.vocabulary.messages import PartialMessage
from session_core.vocabulary.snapshots import SessionSnapshot, SessionSummary
from session_core.wire.codec import decode

CURSOR = Cursor(epoch=Epoch("run"), seq=0)


@attrs.frozen(kw_only=True)
class Exported:
    """A session as it was, and what was exported of it."""

    lines: list[bytes]
    summary: SessionSummary
    snapshot: SessionSnapshot
    events: int

    @property
    def session_id(self) -> SessionId:
        return self.summary.session_id


async def exported(reader: StoreReader, session_id: SessionId) -> list[bytes]:
    return [line async for line in export_session(reader, session_id)]


async def exports_of(store: MemoryStore) -> list[Exported]:
    """Export every session of a store; what is expected of each comes from its events, not from the export.

    But for the text of an unfinished answer: it lies between what was there before and after, as it goes on growing.
    """
    found = []
    for session_id in [summary.session_id for summary in await store.list_sessions()]:
        before = (await kept_state(store, session_id)).partial
        lines = await exported(store, session_id)
        after = (await kept_state(store, session_id)).partial
        passing = passing_of(lines)
        events = store.events_of(session_id)[: len(lines) - 2 - len(passing)]  # it may have gone on since
        state, session_list = SessionState(session_id=session_id), SessionListState()
        for event in (*events, *passing):
            state.apply(event)
            session_list.apply(event)
        snapshot = state.snapshot(CURSOR)
        check_between(before, snapshot.partial, after)
        found.append(
            Exported(lines=lines, summary=session_list.sessions[session_id], snapshot=snapshot, events=len(events))
        )
    return found


def passing_of(lines: list[bytes]) -> list[SessionEvent]:
    """Return the text of an unfinished answer that is in an export."""
    events = [decode(line, SessionEvent, max_bytes=limits.MAX_RECORD_BYTES) for line in lines[1:-1]]
    return [event for event in events if isinstance(event.event, TRANSIENT_EVENTS)]


def check_between(before: PartialMessage | None, exported: PartialMessage | None, after: PartialMessage | None) -> None:
    def text_of(partial: PartialMessage | None) -> str:
        same = partial is not None and exported is not None and partial.message_id == exported.message_id
        return "|".join(str(part.text) for part in partial.parts) if same and partial is not None else ""

    assert text_of(exported).startswith(text_of(before))
    assert after is None or text_of(after) == "" or text_of(after).startswith(text_of(exported))


async def kept_state(store: SqliteStore | MemoryStore, session_id: SessionId) -> SessionSnapshot:
    stored = await store.load(session_id)
    assert stored is not None
    return restore(session_id, stored).snapshot(CURSOR)


async def home_content(home: Path) -> dict[SessionId, list[bytes]]:
    """Return all events that a home has, as they are exported."""
    store = SqliteStore(home)
    async with store.open() as opened:
        return {each.session_id: (await exported(store, each.session_id))[1:-1] for each in opened.summaries}


async def refusal(lines: Iterable[bytes], home: Path) -> SessionCoreError:
    """Return why an import was refused, having checked that it touched nothing."""
    with pytest.raises((InvalidInput, StoreUnusable)) as refused:
        await import_session(lines, SqliteStore(home), settings=None)
    assert not await trio.Path(home).exists()
    return refused.value
