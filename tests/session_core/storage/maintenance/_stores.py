"""Small stores made by the real service, and what is in them."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

import attrs
import trio

from session_core.errors import SessionCoreError
from session_core.ids import SessionId
from session_core.service.config import ServiceConfig
from session_core.service.service import SessionService, open_session_service
from session_core.session.restore import restore
from session_core.storage.executor_state import read_leaves
from session_core.storage.files import connect, open_for_reading, store_file
from session_core.storage.maintenance.session_check import NOWHERE
from session_core.storage.reader import ConnectionReader
from session_core.storage.session_list import read_summaries
from session_core.storage.sqlite import SqliteStore
from session_core.testing.check_store_leaves import build_leaves, build_state
from session_core.testing.scripted import Pause, ScriptedProvider, ScriptedTool, text, tool_call, tool_calls
from session_core.vocabulary import events as ev
from session_core.vocabulary.commands import ArchiveSession
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.snapshots import SessionSnapshot, SessionSummary

LONG = "a long line of output\n" * 900
"""Long enough to be kept apart."""
LEAVES = build_leaves(b"a short part", b"one that fills a page " * 60, b"one of several pages " * 700)
"""What the code of one session has left behind."""


@attrs.frozen(kw_only=True)
class Contents:
    """What a reader gets out of a store, session by session."""

    listed: dict[SessionId, SessionSummary]
    loaded: dict[SessionId, SessionSnapshot]
    journals: dict[SessionId, tuple[SessionEvent, ...]]
    leaves: dict[SessionId, dict[str, bytes]]
    """Those that are what their digests say."""


async def make_store(home: Path) -> None:
    """Run a service in this home: three sessions with tools, a long text, a queue, a branch, a wake-up, and leaves."""
    provider = ScriptedProvider(
        tool_calls(("look", {"where": "here"}), ("dump", {})),
        text("I have looked, ", "and it is good.", thinking="what now"),
        text("An answer to something else."),
        text("Another answer on another branch."),
        tool_call("dump", {}),
        text("Done."),
    )
    tools = (ScriptedTool("look", run="nothing to see"), ScriptedTool("dump", run=LONG))
    config = ServiceConfig(models={"scripted": provider}, tools=tools, store=SqliteStore(home), cwd="/srv/project")
    async with open_session_service(config) as service:
        first = (await service.create_session(name="the first")).session_id
        await said(service, first, "Look around, please.")
        second = (await service.create_session(name="the second, über alles")).session_id
        await said(service, second, "Tell me something else.")
        snapshot = await service.load_session(second)
        await service.edit_message(second, snapshot.messages[0].message_id, "Tell me something other.")
        await service.wait_for_turn(second)
        await service.schedule_wakeup(second, 3_600_000, "look again")
        third = (await service.create_session(name="the third")).session_id
        await said(service, third, "Dump it.")
        await service.send_user_message(third, "For later.", deliver_as="next_turn")
        await service.send_user_message(third, "For later still.", deliver_as="next_turn")
        await keep_leaves(service, second, LEAVES)
        await service.execute(ArchiveSession(session_id=first), idempotency_key="put the first away")


async def keep_leaves(service: SessionService, session_id: SessionId, leaves: dict[str, bytes]) -> None:
    """Let an executor of a session keep these, as the end of a turn does."""
    session = service._core.sessions[session_id]
    session.keep_leaves(leaves)
    session.record(ev.ExecutorStateSaved(state=build_state(leaves)))
    await session.wait_until_durable()


async def said(service: SessionService, session_id: SessionId, what: str) -> None:
    """Send a message and wait for the end of the turn."""
    await service.send_user_message(session_id, what)
    await service.wait_for_turn(session_id)


async def make_interrupted_store(home: Path, copy_to: Path) -> None:
    """Run a service, and copy its files while an answer is being written: what a crash would leave behind."""
    provider = ScriptedProvider((*text("half of an ")[:1], Pause("here"), *text("answer")))
    config = ServiceConfig(models={"scripted": provider}, store=SqliteStore(home), cwd="/srv/project")
    async with open_session_service(config) as service:
        session_id = (await service.create_session(name="interrupted")).session_id
        await service.send_user_message(session_id, "Go on.")
        await provider.wait_for_pause("here")
        done = False
        while not done:
            done = await trio.to_thread.run_sync(_copy_with_unfinished_text, home, copy_to)
        provider.release("here")
        await service.wait_for_turn(session_id)


def _copy_with_unfinished_text(home: Path, copy_to: Path) -> bool:
    with closing(open_for_reading(home, connect)) as db:
        if not db.execute("SELECT count(*) FROM passing").fetchone()[0]:
            return False
    copy_to.mkdir(mode=0o700)
    for name in ("sessions.sqlite3", "sessions.sqlite3-wal", "store-id"):
        (copy_to / name).write_bytes((home / name).read_bytes())
    return True


def contents_of(home: Path) -> Contents:
    """Read everything as the service does; what cannot be read is left out."""
    listed: dict[SessionId, SessionSummary] = {}
    loaded: dict[SessionId, SessionSnapshot] = {}
    journals: dict[SessionId, tuple[SessionEvent, ...]] = {}
    leaves: dict[SessionId, dict[str, bytes]] = {}
    with suppress(*UNREADABLE), closing(open_for_reading(home, connect)) as db:
        reader = ConnectionReader(db)
        with suppress(*UNREADABLE):
            listed = {summary.session_id: summary for summary in read_summaries(db)}
        for session_id in listed:
            with suppress(*UNREADABLE):
                if (stored := reader.load(session_id)) is not None:
                    loaded[session_id] = restore(session_id, stored).snapshot(NOWHERE)
            with suppress(*UNREADABLE):
                journals[session_id] = whole_journal(reader, session_id)
            with suppress(*UNREADABLE):
                found = read_leaves(db, session_id, tuple(LEAVES))
                leaves[session_id] = {digest: data for digest, data in found.items() if LEAVES[digest] == data}
    return Contents(listed=listed, loaded=loaded, journals=journals, leaves=leaves)


UNREADABLE = (SessionCoreError, sqlite3.DatabaseError)
"""The last one comes from the sqlite3 module, when the message of an error quotes text that is damaged."""


def whole_journal(reader: ConnectionReader, session_id: SessionId) -> tuple[SessionEvent, ...]:
    """Read all events of a session."""
    events: list[SessionEvent] = []
    while page := reader.journal_page(session_id, len(events)):
        events += page
    return tuple(events)


def count_kept(after: Sequence[SessionEvent], before: Sequence[SessionEvent]) -> int:
    """Return how many events of a session a rebuild has kept: what comes after them it has recorded itself."""
    pairs = enumerate(zip(after, before, strict=False))
    return next((place for place, (new, old) in pairs if new != old), min(len(after), len(before)))


def change(home: Path, sql: str, *arguments: object) -> None:
    """Change the store file behind everybody's back."""
    with closing(sqlite3.connect(store_file(home), isolation_level=None)) as db:
        db.execute(sql, arguments)
