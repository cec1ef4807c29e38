"""The search index is filled after the records; nobody must notice."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from session_core import limits
from session_core.ids import SessionId
from session_core.storage import search
from session_core.storage.base import StoreReader
from session_core.storage.files import connect, store_file
from session_core.storage.maintenance.verify import verify_store
from session_core.storage.reader import ConnectionReader
from session_core.storage.sqlite import SqliteStore
from session_core.storage.sqlite_reader import SqliteReader
from session_core.testing.check_store_world import open_live_sessions
from session_core.vocabulary.messages import Message
from tests.session_core.storage._harness import rows

INDEXED = "SELECT count(*) FROM message_text"


async def excerpts(store: StoreReader, text: str) -> list[str]:
    return [hit.excerpt for hit in await store.search(text, limit=100)]


async def test_a_commit_does_not_wait_for_the_index(tmp_path: Path, mock_clock: MockClock) -> None:
    """Messages are durable and found at once, and put into the index only in a quiet moment later."""
    async with open_live_sessions(SqliteStore(tmp_path)) as live:
        session_id = live.create()
        live.say(session_id, "a needle in the first stack")
        await live.wait_durable()
        assert [(0,)] == rows(tmp_path, INDEXED)
        assert ["a needle in the first stack"] == await excerpts(live.store, "needle")
        reader = SqliteReader(tmp_path)
        async with reader.open_reader():
            assert ["a needle in the first stack"] == await excerpts(reader, "Needle")
    assert [(1,)] == rows(tmp_path, INDEXED), "closing leaves nothing undone"


async def test_the_index_is_filled_when_it_is_quiet(tmp_path: Path, mock_clock: MockClock) -> None:
    """After a while without anything to commit, what waits goes into the index without being asked for."""
    async with open_live_sessions(SqliteStore(tmp_path)) as live:
        session_id = live.create()
        live.say(session_id, "words to be found")
        await live.wait_durable()
        mock_clock.jump(limits.SEARCHABLE_AFTER_MS / 1000)
        for _ in range(10_000):
            if rows(tmp_path, INDEXED) == [(1,)]:
                break
            await trio.to_thread.run_sync(bool)
        assert [(1,)] == rows(tmp_path, INDEXED)
        assert ["words to be found"] == await excerpts(live.store, "found")


async def test_what_waits_for_the_index_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    """When many messages wait, they go into the index with the commit of the last of them."""
    monkeypatch.setattr(search, "MOST_WAITING_TEXTS", 10)
    async with open_live_sessions(SqliteStore(tmp_path)) as live:
        session_id = live.create()
        for number in range(25):
            live.say(session_id, f"hay {number}")
            await live.wait_durable()
        assert [(20,)] == rows(tmp_path, INDEXED)
        assert {f"hay {number}" for number in range(25)} == set(await excerpts(live.store, "hay"))


async def test_a_crash_loses_nothing_of_the_index(tmp_path: Path, mock_clock: MockClock) -> None:
    """What waited when the process died is found by readers at once, and indexed by the next writer."""
    home, left = tmp_path / "home", tmp_path / "left"
    async with open_live_sessions(SqliteStore(home)) as live:
        session_id = live.create()
        live.say(session_id, "said before the crash")
        live.answer(session_id, "an answer", calls=("call",))
        live.commit_results(session_id, [live.finish_call(session_id, "call", "a result of a tool")])
        await live.wait_durable()
        shutil.copytree(home, left)
    (left / "lock").unlink()
    assert () == verify_store(left).findings
    reader = SqliteReader(left)
    async with reader.open_reader():
        assert ["a result of a tool"] == await excerpts(reader, "result")
    async with open_live_sessions(SqliteStore(left)):
        pass
    assert [(3,)] == rows(left, INDEXED)
    assert () == verify_store(left).findings
    async with reader.open_reader():
        assert ["said before the crash"] == await excerpts(reader, "crash")


@pytest.mark.parametrize("wrong", ["0", "1", "99", "-3", "many", ""])
async def test_a_wrong_mark_is_harmless_or_found(tmp_path: Path, wrong: str) -> None:
    """Whatever the mark of how far the index goes says, nothing is found twice, and what is missing is reported."""
    async with open_live_sessions(SqliteStore(tmp_path)) as live:
        session_id = live.create()
        for number in range(3):
            live.say(session_id, f"hay {number}")
    change(tmp_path, wrong)
    assert () == verify_store(tmp_path).findings
    async with open_live_sessions(SqliteStore(tmp_path)) as live:
        live.say(live.create(), "hay 3")
        await live.wait_durable()
        assert 4 == len(await excerpts(live.store, "hay"))
    assert [(4,)] == rows(tmp_path, INDEXED)
    assert () == verify_store(tmp_path).findings


async def test_rows_are_not_taken_for_indexed_after_a_deletion(tmp_path: Path, mock_clock: MockClock) -> None:
    """When the newest session is deleted, messages that get its rows later are indexed like all others."""
    async with open_live_sessions(SqliteStore(tmp_path)) as live:
        stays, gone = live.create(), live.create()
        live.say(stays, "hay of the one that stays")
        for _ in range(5):
            live.say(gone, "hay of the one that goes")
        await live.wait_durable()
        live.delete(gone)
        await live.wait_durable()
    left = tmp_path.parent / "left"
    async with open_live_sessions(SqliteStore(tmp_path)) as live:
        live.say(live.create(), "more hay")
        await live.wait_durable()
        shutil.copytree(tmp_path, left)
    (left / "lock").unlink()
    async with open_live_sessions(SqliteStore(left)) as live:
        assert ["more hay", "hay of the one that stays"] == await excerpts(live.store, "hay")
    assert [(2,)] == rows(left, INDEXED)


def change(home: Path, mark: str) -> None:
    with closing(sqlite3.connect(store_file(home))) as connection, connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = 'searchable'", (mark,))


async def test_many_messages_of_one_record_are_read_together(tmp_path: Path, mock_clock: MockClock) -> None:
    """What waits is read run by run: a fork, whose messages are in one record, costs one look at that record."""
    async with open_live_sessions(SqliteStore(tmp_path)) as live:
        first, fork = live.create(), live.create()
        for number in range(100):
            live.say(first, f"hay {number}")
        live.bring_back(fork, tuple(live.messages[first]))
        await live.wait_durable()
        asked: list[tuple[object, ...]] = []

        class Watched(ConnectionReader):
            def _messages(self, session: int, session_id: SessionId, first: int, count: int) -> list[Message]:
                asked.append((session_id, first, count))
                return super()._messages(session, session_id, first, count)

        reader = Watched(connect(tmp_path, True))
        assert 200 == len(reader.unindexed_texts())
        assert [(first, 0, 100), (fork, 0, 100)] == sorted(asked)
        reader.close()
