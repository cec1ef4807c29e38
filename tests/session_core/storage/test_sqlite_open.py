"""The SQLite store: opening, closing, deleting, and reading beside a writer."""

import os
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from session_core import limits
from session_core.errors import SessionCoreError, StoreInUse
from session_core.ids import SessionId
from session_core.storage import files
from session_core.storage.sqlite import SqliteStore
from session_core.storage.sqlite_reader import SqliteReader
from session_core.testing.check_store_world import (
    LiveSessions,
    check_loads,
    list_ids,
    open_live_sessions,
    read_journal,
    restore_snapshot,
)
from session_core.vocabulary import events as ev
from session_core.vocabulary.messages import TextPart
from session_core.vocabulary.sessions import QueueItem
from tests.session_core.storage._harness import WatchedDisk, rows

MOMENT = limits.PARTIAL_TEXT_EVERY_MS / 1000


# --- opening and closing ----------------------------------------------------------------------------------------------


async def test_a_second_opener_learns_who_is_there(tmp_path: Path) -> None:
    """A home in use says which process uses it, and is free after the end of the block."""
    store = SqliteStore(tmp_path)
    async with store.open():
        for other in (store, SqliteStore(tmp_path)):
            with pytest.raises(StoreInUse, match=str(os.getpid())):
                async with other.open():
                    pass
    async with SqliteStore(tmp_path).open():
        pass


async def test_an_error_in_the_block_comes_out_and_everything_is_written(tmp_path: Path) -> None:
    """The block's own error is the one that is seen, and what was handed over before it is kept."""

    async def break_off() -> None:
        async with open_live_sessions(SqliteStore(tmp_path)) as live:
            live.create()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await break_off()
    assert [(1,)] == rows(tmp_path, "SELECT count(*) FROM session")


async def test_cancelling_the_block_writes_the_rest(tmp_path: Path) -> None:
    """A block that is cancelled still writes what was handed over, and frees the home."""
    with trio.CancelScope() as scope:
        async with open_live_sessions(SqliteStore(tmp_path)) as live:
            live.say(live.create(), "the last word")
            scope.cancel()
            await trio.sleep_forever()
    async with open_live_sessions(SqliteStore(tmp_path)) as again:
        (session_id,) = list_ids(again.opened.summaries)
        found = restore_snapshot(session_id, await again.store.load(session_id))
        assert ["the last word"] == [message.text for message in found.messages]


async def test_leaving_waits_for_whoever_still_reads(tmp_path: Path) -> None:
    """Somebody who is reading when the block is left gets the answer, and no connection stays open."""
    disk = WatchedDisk()
    found: list[int] = []
    reading, leaving = trio.Event(), threading.Event()
    token = trio.lowlevel.current_trio_token()

    def hold_up(statement: str) -> None:
        if statement.startswith("SELECT session_id, name"):
            token.run_sync_soon(reading.set)
            leaving.wait(300)

    async def let_go_when_left() -> None:
        await trio.testing.wait_all_tasks_blocked()
        leaving.set()

    async with trio.open_nursery() as nursery:
        async with open_live_sessions(SqliteStore(tmp_path, connect=disk.connect)) as live:
            live.create()
            await live.wait_durable()

            async def read() -> None:
                found.append(len(await live.store.list_sessions()))

            disk.before = hold_up
            nursery.start_soon(read)
            await reading.wait()
            nursery.start_soon(let_go_when_left)
    assert [1] == found


async def test_no_connection_is_open_after_the_end(tmp_path: Path) -> None:
    """However late somebody wants to read, no connection is left open and the home is free."""
    disk = WatchedDisk()
    store = SqliteStore(tmp_path, connect=disk.connect)
    ended: list[str] = []

    async def read(session_id: SessionId) -> None:
        try:
            await store.load(session_id)
            ended.append("read")
        except SessionCoreError as error:
            ended.append(error.code)

    async with trio.open_nursery() as nursery:
        async with open_live_sessions(store) as live:
            session_id = live.create()
            for _ in range(5):
                nursery.start_soon(read, session_id)
                await trio.lowlevel.checkpoint()
                live.say(session_id, "a step that is still to be written")
            nursery.start_soon(read, session_id)
    assert 6 == len(ended)
    assert 0 == disk.open_connections
    async with open_live_sessions(SqliteStore(tmp_path)) as again:
        assert [session_id] == list_ids(again.opened.summaries)


async def test_a_read_sees_one_moment(tmp_path: Path) -> None:
    """A session that is deleted while it is being read is there or not there, but never damaged."""
    disk = WatchedDisk()
    async with open_live_sessions(SqliteStore(tmp_path)) as live:
        session_id = live.create()
        live.say(session_id, "soon gone")
        await live.wait_durable()
        wanted = live.snapshot(session_id)
        reader = SqliteReader(tmp_path, connect=disk.connect)
        async with reader.open_reader():

            def delete(statement: str) -> None:
                if statement.startswith("SELECT id, last_n FROM session"):
                    disk.after = lambda _: None
                    trio.from_thread.run(_delete, live, session_id)

            disk.after = delete
            assert wanted == restore_snapshot(session_id, await reader.load(session_id))
            assert await reader.load(session_id) is None


async def _delete(live: LiveSessions, session_id: SessionId) -> None:
    live.delete(session_id)
    await live.wait_durable()


async def test_deleted_sessions_leave_nothing_in_memory(tmp_path: Path) -> None:
    """A store that has seen many sessions come and go is no larger than a new one."""
    store = SqliteStore(tmp_path)
    async with open_live_sessions(store) as live:
        for _ in range(10):
            live.delete(live.create())
            await live.wait_durable()
        assert {} == store._since_state
        assert store._writer is not None
        assert {} == store._writer._sessions


# --- deleting ---------------------------------------------------------------------------------------------------------


async def test_deleted_words_are_in_no_file(
    tmp_path: Path, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Soon after a deletion no word of the session is left in any file of the home, and its neighbour is whole."""
    monkeypatch.setattr(limits, "STATE_EVERY_EVENTS", 4)
    words = [
        f"{letter}anarybird" for letter in "qwzxjkvy"
    ]  # an index leaves out what a word shares with the one before
    async with open_live_sessions(SqliteStore(tmp_path)) as live:
        stays, gone = live.create("stays"), live.create(words[0])
        for session_id, text in ((gone, words[1]), (stays, "nothing special"), (gone, words[2] * 5_000)):
            for number in range(20):
                live.say(session_id, f"{text} {number}")
        live.answer(gone, words[3], calls=(words[4],))
        live.commit_results(gone, [live.finish_call(gone, words[4], words[5])])
        parts = (TextPart(text=words[6]),)
        item = QueueItem(item_id=words[6], parts=parts, deliver_as="steer", queued_at=0)  # type: ignore[arg-type]
        live.record(gone, ev.MessageQueued(item=item))
        message_id = live.start_answer(gone)
        live.record(gone, ev.PartDelta(message_id=message_id, text=words[7]))
        mock_clock.jump(MOMENT)
        await live.wait_durable()
        assert set(words) == words_in_files(tmp_path, words), "the check should find what there is"
        live.delete(gone)
        await live.wait_durable()
        writer = live.store._writer  # type: ignore[attr-defined]
        for _ in range(100_000):  # it is wiped in quiet moments, which a busy machine has few of
            if not writer.traces:
                break
            await trio.to_thread.run_sync(bool)
        assert set() == words_in_files(tmp_path, words)
        await check_loads(live, stays)
        assert 5 == len(await live.store.search("special", limit=5))
    assert set() == words_in_files(tmp_path, words)
    with closing(files.connect(tmp_path, True)) as connection:
        assert [("ok",)] == connection.execute("PRAGMA integrity_check").fetchall()
        connection.execute("SELECT * FROM message_text WHERE message_text MATCH 'special'").fetchall()


def words_in_files(home: Path, words: list[str]) -> set[str]:
    content = b"\n".join(path.read_bytes() for path in home.iterdir())
    return {word for word in words if word.encode() in content}


# --- reading beside a writer ------------------------------------------------------------------------------------------


async def test_a_reader_needs_no_writer(tmp_path: Path) -> None:
    """A home that nobody writes to can be read, and written again afterwards."""
    async with open_live_sessions(SqliteStore(tmp_path)) as live:
        session_id = live.create()
        live.say(session_id, "at rest")
    reader = SqliteReader(tmp_path)
    async with reader.open_reader():
        assert live.expected_journal(session_id) == await read_journal(reader, session_id)
        assert live.snapshot(session_id) == restore_snapshot(session_id, await reader.load(session_id))
    async with open_live_sessions(SqliteStore(tmp_path)) as again:
        assert [session_id] == list_ids(again.opened.summaries)


async def test_readers_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """Several readers and the writer work at the same time, and all of them see the same."""
    async with open_live_sessions(SqliteStore(tmp_path)) as live:
        session_id = live.create()
        readers = [SqliteReader(tmp_path) for _ in range(3)]
        async with readers[0].open_reader(), readers[1].open_reader(), readers[2].open_reader():
            for number in range(10):
                live.say(session_id, f"message {number}")
                await live.wait_durable()
                for reader in readers:
                    assert live.expected_journal(session_id) == await read_journal(reader, session_id)


async def test_a_passing_visitor_takes_no_events_along(tmp_path: Path) -> None:
    """With a reader in the same process, a program that opens and closes the file beside us leaves the log alone."""
    async with open_live_sessions(SqliteStore(tmp_path)) as live:
        session_id = live.create()
    reader, visit = (
        SqliteReader(tmp_path),
        "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('SELECT 1 FROM event')",
    )
    async with reader.open_reader(), open_live_sessions(SqliteStore(tmp_path)) as again:
        await again.load_session(session_id, live)
        again.say(session_id, "before the visit")
        await again.wait_durable()
        await trio.run_process([sys.executable, "-c", visit, files.store_file(tmp_path)])
        again.say(session_id, "after the visit")
        await again.wait_durable()
        assert [(3,)] == rows(tmp_path, "SELECT count(*) FROM event")
