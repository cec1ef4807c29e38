"""What a store has kept, read back in full and proved to be consistent."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from sqlite3 import Connection

import attrs

from session_core.errors import StoreUnusable
from session_core.ids import CallId, Cursor, Epoch, SessionId
from session_core.service.service import SessionService
from session_core.session.restore import restore
from session_core.session.state import SessionState
from session_core.storage.base import StoreReader
from session_core.storage.files import connect
from session_core.storage.maintenance.verify import verify_store
from session_core.storage.sqlite_reader import SqliteReader
from session_core.vocabulary.added_messages import collect_added_messages, collect_results
from session_core.vocabulary.events import MessagesImported, SessionEvent
from session_core.vocabulary.messages import Message, ToolResultPart
from session_core.vocabulary.snapshots import SessionSnapshot, SessionSummary
from tests.durability._faulty_disk import FaultyDisk

NOWHERE = Cursor(epoch=Epoch("run_nowhere"), seq=0)
"""Stands in for the cursor of a state that was not taken from a running service."""


@attrs.frozen(kw_only=True)
class KeptSession:
    """One session as the store has it: its line in the list, its journal, and the state it would go on from."""

    summary: SessionSummary
    events: Sequence[SessionEvent]
    state: SessionSnapshot

    @property
    def replayed(self) -> SessionSnapshot:
        """The state by the journal alone."""
        state = SessionState(session_id=self.summary.session_id)
        for event in self.events:
            state.apply(event)
        return state.snapshot(NOWHERE)

    @property
    def messages(self) -> list[Message]:
        """All messages by the journal alone, in order."""
        messages: list[Message] = []
        results: dict[CallId, ToolResultPart] = {}
        for event in self.events:
            messages += collect_added_messages(event.event, results, event.at)
            collect_results(results, event.event)
        return messages


Kept = Mapping[SessionId, KeptSession]


async def read_all(store: StoreReader) -> dict[SessionId, KeptSession]:
    """Read every session of a store."""
    kept: dict[SessionId, KeptSession] = {}
    for summary in await store.list_sessions():
        session_id = summary.session_id
        stored = await store.load(session_id)
        assert stored is not None, f"{session_id} is in the list and cannot be loaded"
        kept[session_id] = KeptSession(
            summary=summary,
            events=tuple([event async for page in store.journal(session_id) for event in page]),
            state=restore(session_id, stored).snapshot(NOWHERE),
        )
    return kept


async def read_home(home: Path) -> dict[SessionId, KeptSession]:
    """Read every session of a home, as a crash has left it; nothing, if it came before there was a store."""
    try:
        async with SqliteReader(home).open_reader():
            pass
    except StoreUnusable:
        return {}
    reader = SqliteReader(home)
    async with reader.open_reader():
        return await read_all(reader)


def on_disk(disk: FaultyDisk) -> Callable[[Path, bool], Connection]:
    """Return what a `SqliteStore` needs to keep its file on this disk; the lock stays in the home."""

    def connect_there(home: Path, read_only: bool) -> Connection:  # noqa: FBT001 - the shape of `Connect`
        return disk.connect("sessions.sqlite3", isolation_level=None, check_same_thread=False)

    return connect_there


async def check_consistent(store: StoreReader) -> dict[SessionId, KeptSession]:
    """Prove that what is derived fits the journal, for sessions at rest; returns what was read."""
    kept = await read_all(store)
    for session_id, session in kept.items():
        replayed = session.replayed
        assert session.state == replayed, f"{session_id}: what a session goes on from is the replay of its journal"
        _check_summary(session.summary, replayed)
        messages = session.messages
        page = await store.load_messages(session_id, before=len(messages) + 1, limit=len(messages) + 1)
        assert list(page.messages) == messages, f"{session_id}: the index of messages is that of the journal"
        assert replayed.earlier + len(replayed.messages) == len(messages)
        check_nothing_twice(session)
    return kept


async def check_live(service: SessionService, kept: Kept) -> None:
    """Prove that a service shows, for sessions that have not moved on, the replay of their journals."""
    for session_id, session in kept.items():
        shown = await service.load_session(session_id)
        if shown.sseq <= session.state.sseq and shown.partial is None:
            assert attrs.evolve(shown, cursor=NOWHERE) == session.replayed, f"{session_id}: the state is the replay"


def _check_summary(summary: SessionSummary, state: SessionSnapshot) -> None:
    assert summary == SessionSummary(
        session_id=state.session_id,
        name=state.name,
        created_at=state.created_at,
        updated_at=state.updated_at,
        archived=state.archived,
        parent_id=state.parent_id,
        cwd=state.settings.cwd,
        model=state.settings.model,
        activity=state.activity,
        queued=len(state.queue),
        open_requests=len(state.approvals) + len(state.dialogs),
        wakeups=len(state.wakeups),
    ), "the list shows the state"


def check_nothing_twice(session: KeptSession) -> None:
    """Prove that no message was added twice, and that events stand in order; old ones may come back into view."""
    anew = attrs.evolve(session, events=[e for e in session.events if not isinstance(e.event, MessagesImported)])
    twice = [name for name, count in Counter(message.message_id for message in anew.messages).items() if count > 1]
    assert twice == [], f"messages are there twice: {twice}"
    places = [event.sseq for event in session.events]
    assert places == sorted(set(places)), "the numbers of a session rise"


def check_at_rest(session: KeptSession) -> None:
    """Prove that nothing is left running or open."""
    state = session.state
    still_open = (state.turn, state.partial, state.approvals, state.dialogs, state.stop)
    assert state.activity.is_at_rest, f"{state.session_id} is {state.activity.name}"
    assert still_open == (None, None, (), (), None)
    assert all(tool.result is not None for tool in state.tools)


def check_home(home: Path, disk: FaultyDisk | None = None) -> None:
    """Let everything that finds damage look at a home that nobody uses; its files may lie on a disk of their own."""
    for name, content in disk.files.items() if disk is not None else ():
        (home / name).write_bytes(content)
    report = verify_store(home)
    assert report.ok, report.findings
    with closing(connect(home, False)) as connection:
        left = connection.execute(
            "SELECT count(*) FROM event WHERE session NOT IN (SELECT id FROM session)"
            " UNION ALL SELECT count(*) FROM message WHERE session NOT IN (SELECT id FROM session)"
            " UNION ALL SELECT count(*) FROM passing WHERE session NOT IN (SELECT id FROM session)"
            " UNION ALL SELECT count(*) FROM blob WHERE digest NOT IN (SELECT digest FROM blob_use)"
            " UNION ALL SELECT count(*) FROM message_text WHERE rowid NOT IN (SELECT id FROM message)"
            " UNION ALL SELECT count(*) FROM leaf WHERE session NOT IN (SELECT id FROM session)"
        ).fetchall()
    assert left == [(0,)] * 6, "nothing is left of a deleted session"
