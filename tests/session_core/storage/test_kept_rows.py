"""What the SQLite store writes into its tables, how it uses that again, and what it does about damage."""

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from session_core import limits
from session_core.errors import StoreDamaged
from session_core.ids import MessageId, SessionId
from session_core.storage import reader as reading
from session_core.storage.sqlite import SqliteStore
from session_core.testing.check_store_world import (
    LiveSessions,
    check_loads,
    open_live_sessions,
    read_journal,
    restore_snapshot,
)
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import TRANSIENT_EVENTS
from session_core.vocabulary.messages import count_message_chars
from tests.session_core.storage._harness import WatchedDisk, change, rows

LONG = "a long text " * 2_000


async def conversation(live: LiveSessions, name: str = "kept") -> SessionId:
    session_id = live.create(name)
    live.say(session_id, "first")
    live.answer(session_id, "look", calls=("c1",))
    live.commit_results(session_id, [live.finish_call(session_id, "c1", "seen")])
    live.say(session_id, LONG)
    await live.wait_durable()
    return session_id


# --- messages ---------------------------------------------------------------------------------------------------------


async def test_messages_are_numbered_without_holes(tmp_path: Path) -> None:
    """Messages of a session are numbered from 0 across restarts, and each names the record that holds it."""
    async with open_live_sessions(SqliteStore(tmp_path)) as live:
        session_id = await conversation(live)
        neighbour = await conversation(live, "neighbour")
    async with open_live_sessions(SqliteStore(tmp_path)) as again:
        await again.load_session(session_id, live)
        again.say(session_id, "after")
        again.bring_back(session_id, tuple(live.messages[neighbour]))
        await again.wait_durable()
    found = rows(
        tmp_path,
        "SELECT number, message_id, role, chars, n FROM message JOIN session ON session.id = message.session "
        "WHERE session_id = ? ORDER BY number",
        session_id,
    )
    wanted = [
        (number, message.message_id, message.role, count_message_chars(message))
        for number, message in enumerate(again.messages[session_id])
    ]
    assert wanted == [row[:4] for row in found]
    events = again.expected_journal(session_id)
    assert [2, 3, 5, 6, 7, 8, 8, 8, 8] == [row[4] for row in found], "the last four came by one event"
    assert isinstance(events[7].event, ev.MessagesImported)
    assert [(8, 9)] == rows(tmp_path, "SELECT last_n, messages FROM session WHERE session_id = ?", session_id)


async def test_results_from_before_a_restart_are_indexed(tmp_path: Path) -> None:
    """Results recorded before a restart count in the size of their message and are found by searching."""
    async with open_live_sessions(SqliteStore(tmp_path)) as live:
        session_id = live.create()
        live.answer(session_id, "look", calls=("c1",))
        result = live.finish_call(session_id, "c1", "narwhal")
    async with open_live_sessions(SqliteStore(tmp_path)) as again:
        await again.load_session(session_id, live)
        message = again.commit_results(session_id, [result])
        await again.wait_durable()
        assert [message.message_id] == [hit.message_id for hit in await again.store.search("narwhal", limit=5)]
    assert [(7,)] == rows(tmp_path, "SELECT chars FROM message WHERE role = 'tool'")


async def test_of_long_results_the_beginning_is_searched(tmp_path: Path) -> None:
    """Tool results are searched too, but only their beginning."""
    async with open_live_sessions(SqliteStore(tmp_path)) as live:
        session_id = live.create()
        live.answer(session_id, "look", calls=("c1",))
        text = "beginning " + "filler " * 1_000 + "ending"
        live.commit_results(session_id, [live.finish_call(session_id, "c1", text)])
        await live.wait_durable()
        assert 1 == len(await live.store.search("beginning", limit=5))
        assert () == await live.store.search("ending", limit=5)


async def test_the_journal_is_read_a_handful_at_a_time(tmp_path: Path) -> None:
    """A journal longer than a page comes in pages, without a hole or a repetition where they meet."""
    async with open_live_sessions(SqliteStore(tmp_path)) as live:
        session_id = live.create()
        for number in range(2 * reading.JOURNAL_PAGE):
            live.record(session_id, ev.SessionRenamed(name=str(number)))
        await live.wait_durable()
        pages = [page async for page in live.store.journal(session_id)]
        assert [reading.JOURNAL_PAGE, reading.JOURNAL_PAGE, 1] == [len(page) for page in pages]
        assert live.expected_journal(session_id) == tuple(event for page in pages for event in page)


async def test_long_texts_are_kept_once(tmp_path: Path) -> None:
    """A text that several sessions hold is one blob, and it goes with the last of them."""
    async with open_live_sessions(SqliteStore(tmp_path)) as live:
        sessions = [await conversation(live, str(number)) for number in range(3)]
        left = []
        for session_id in sessions:
            left += rows(tmp_path, "SELECT count(*), (SELECT count(*) FROM blob_use) FROM blob")
            live.delete(session_id)
            await live.wait_durable()
        left += rows(tmp_path, "SELECT count(*), (SELECT count(*) FROM blob_use) FROM blob")
        assert [(1, 3), (1, 2), (1, 1), (0, 0)] == left


# --- states -----------------------------------------------------------------------------------------------------------


async def test_a_state_is_saved_every_so_many_events(tmp_path: Path) -> None:
    """One event before it is time there is no state, then there is one, and the next comes as many events later."""
    saved = []
    async with open_live_sessions(SqliteStore(tmp_path)) as live:
        session_id = live.create()
        for number in range(1, 2 * limits.STATE_EVERY_EVENTS + 1):
            if number in {limits.STATE_EVERY_EVENTS - 1, 2 * limits.STATE_EVERY_EVENTS - 1}:
                await live.wait_durable()
                saved.append(rows(tmp_path, "SELECT n FROM state"))
            live.record(session_id, ev.SessionRenamed(name=str(number)))
            if number % limits.STATE_EVERY_EVENTS == limits.STATE_EVERY_EVENTS - 1:
                await live.wait_durable()
                saved.append(rows(tmp_path, "SELECT n FROM state"))
        await live.wait_durable()
        stored = await live.store.load(session_id)
        assert stored is not None
        assert stored.snapshot is not None
        assert 1 == len(stored.events)
        await check_loads(live, session_id)
    every = limits.STATE_EVERY_EVENTS
    assert [[], [(every,)], [(every,)], [(2 * every,)]] == saved


async def test_long_events_count_for_several(tmp_path: Path) -> None:
    """A few long events are enough for a state to be saved."""
    async with open_live_sessions(SqliteStore(tmp_path)) as live:
        session_id = live.create()
        for _ in range(3):
            live.say(session_id, "x" * 500_000)
            await live.wait_durable()
        assert 1 == len(rows(tmp_path, "SELECT n FROM state"))
        await check_loads(live, session_id)


async def test_what_was_loaded_counts_too(tmp_path: Path) -> None:
    """After a restart the events since the last state are counted on, so that loading never has to fold many."""
    for _ in range(4):
        async with open_live_sessions(SqliteStore(tmp_path)) as live:
            known = [summary.session_id for summary in live.opened.summaries]
            session_id = known[0] if known else live.create()
            if known:
                await live.load_session(session_id)
            for number in range(limits.STATE_EVERY_EVENTS // 3):
                live.record(session_id, ev.SessionRenamed(name=str(number)))
                await live.wait_durable()
    assert 1 == len(rows(tmp_path, "SELECT n FROM state"))


async def test_text_does_not_straddle_a_state(
    tmp_path: Path, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a state is saved in the middle of an answer, text from before and after it is there once."""
    monkeypatch.setattr(limits, "STATE_EVERY_EVENTS", 6)
    async with open_live_sessions(SqliteStore(tmp_path)) as live:
        session_id = live.create()
        message_id = live.start_answer(session_id)
        for number in range(30):
            if number % 4 == 1:
                live.record(session_id, ev.SessionRenamed(name=str(number)))
            live.record(session_id, ev.PartDelta(message_id=message_id, text=f"{number} "))
            if number % 4 == 1:
                await live.wait_durable()
            if number % 7 == 3:
                mock_clock.jump(limits.PARTIAL_TEXT_EVERY_MS / 1000)
                await trio.testing.wait_all_tasks_blocked()
                await live.store.list_sessions()
        mock_clock.jump(limits.PARTIAL_TEXT_EVERY_MS / 1000)
        live.record(session_id, ev.SessionRenamed(name="last"))
        await live.wait_durable()
        stored = await live.store.load(session_id)
        assert stored is not None
        assert stored.snapshot is not None
        assert stored.snapshot.partial is not None, "the check should save a state in the middle of an answer"
        assert any(isinstance(event.event, TRANSIENT_EVENTS) for event in stored.events)
        await check_loads(live, session_id)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE state SET payload = CAST(replace(CAST(payload AS TEXT), 'kept', 'bent') AS BLOB)",
        "UPDATE state SET checksum = checksum + 1",
        "UPDATE state SET n = n - 1",
        "UPDATE state SET messages = messages + 5",
        "DELETE FROM message",
    ],
)
async def test_a_damaged_state_is_not_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    """The state is derived: when it or the index it needs is damaged, the journal is folded instead."""
    monkeypatch.setattr(limits, "STATE_EVERY_EVENTS", 5)
    async with open_live_sessions(SqliteStore(tmp_path)) as live:
        session_id = await conversation(live)
        assert rows(tmp_path, "SELECT n FROM state")
        change(tmp_path, damage)
        stored = await live.store.load(session_id)
        assert stored is not None
        assert stored.snapshot is None
        await check_loads(live, session_id)


# --- damage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (
            "UPDATE event SET payload = CAST('{}' AS BLOB) WHERE session = 1 AND n = 3",
            "record 3 is not what was written",
        ),
        ("UPDATE event SET checksum = checksum + 1 WHERE session = 1 AND n = 2", "record 2 is not what was written"),
        ("UPDATE event SET links = NULL WHERE links IS NOT NULL", "record 6 is not what was written"),
        ("UPDATE event SET format = 99 WHERE session = 1 AND n = 4", "record 4"),
        ("DELETE FROM event WHERE session = 1 AND n = 3", "record 3 is missing"),
        ("DELETE FROM event WHERE session = 1 AND n = 6", "record 6 is missing"),
        ("UPDATE event SET n = n + 10 WHERE session = 1 AND n = 6", "record 6 is missing"),
        ("UPDATE session SET last_n = last_n + 1 WHERE id = 1", "record 7 is missing"),
        ("DELETE FROM blob", "record 6: the text"),
        ("UPDATE blob SET data = CAST('another text' AS BLOB)", "record 6: the text"),
    ],
)
async def test_damage_is_told_and_stays_in_its_session(tmp_path: Path, damage: str, told: str) -> None:
    """Damage to one session is never read as if it were true, says where it is, and concerns no other session."""
    async with open_live_sessions(SqliteStore(tmp_path)) as live:
        session_id = await conversation(live)
        neighbour = live.create("neighbour")
        live.say(neighbour, "well")
        await live.wait_durable()
        change(tmp_path, damage)
        for read in (live.store.load(session_id), read_journal(live.store, session_id)):
            with pytest.raises(StoreDamaged, match=told) as raised:
                await read
            assert session_id in raised.value.message
            assert "session_id" == raised.value.field
        await check_loads(live, neighbour)
        assert 2 == len(await live.store.list_sessions())


async def test_damaged_partial_text_is_left_out(tmp_path: Path, mock_clock: MockClock) -> None:
    """Text of an unfinished answer that is damaged is left out; everything else of the session is there."""
    async with open_live_sessions(SqliteStore(tmp_path)) as live:
        session_id = live.create()
        message_id = live.start_answer(session_id)
        live.record(session_id, ev.PartDelta(message_id=message_id, text="unfinished"))
        await live.wait_durable()
        mock_clock.jump(limits.PARTIAL_TEXT_EVERY_MS / 1000)
        await trio.testing.wait_all_tasks_blocked()
        await live.store.list_sessions()
        change(tmp_path, "UPDATE passing SET checksum = checksum + 1")
        found = restore_snapshot(session_id, await live.store.load(session_id))
        assert found.partial is not None
        assert () == found.partial.parts


async def test_only_kept_text_has_to_be_dropped(tmp_path: Path, mock_clock: MockClock) -> None:
    """The end of an answer deletes what was kept of its text, in this run or the next; nothing kept, nothing done."""
    disk = WatchedDisk()
    async with open_live_sessions(SqliteStore(tmp_path, connect=disk.connect)) as live:
        session_id, other = live.create(), live.create()
        first = await _keep_some_text(live, session_id, mock_clock)
        left = await _keep_some_text(live, other, mock_clock)
        live.record(session_id, _discarded(left))  # of another session
        live.record(session_id, _discarded(MessageId("msg_unknown")))
        live.answer(session_id, "quick")
        await live.wait_durable()
        assert not _deletions(disk)
        assert 2 == len(rows(tmp_path, "SELECT DISTINCT about FROM passing"))
        kept = await _keep_some_text(live, session_id, mock_clock)
        live.record(session_id, _discarded(kept))
        await live.wait_durable()
        assert 1 == len(_deletions(disk))
        assert 2 == len(rows(tmp_path, "SELECT DISTINCT about FROM passing"))
    async with open_live_sessions(SqliteStore(tmp_path)) as again:
        await again.load_session(other, live)
        again.record(other, _discarded(left))
        await again.wait_durable()
        assert [(first,)] == rows(tmp_path, "SELECT DISTINCT about FROM passing")


async def _keep_some_text(live: LiveSessions, session_id: SessionId, clock: MockClock) -> MessageId:
    message_id = live.start_answer(session_id)
    live.record(session_id, ev.PartDelta(message_id=message_id, text="unfinished"))
    await live.wait_durable()
    clock.jump(limits.PARTIAL_TEXT_EVERY_MS / 1000)
    await trio.testing.wait_all_tasks_blocked()
    await live.store.list_sessions()
    return message_id


def _discarded(message_id: MessageId) -> ev.MessageDiscarded:
    return ev.MessageDiscarded(message_id=message_id, reason="begun anew")


def _deletions(disk: WatchedDisk) -> list[str]:
    return [statement for statement in disk.statements if statement.startswith("DELETE FROM passing")]


# --- rows that hold something else ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql", ["UPDATE session SET last_n = 'x' WHERE name = 'kept'", "UPDATE event SET payload = 'x' WHERE n = 2"]
)
async def test_a_column_of_another_kind_is_damage_of_one_session(tmp_path: Path, sql: str) -> None:
    """A row with something quite different in a column makes its session damaged, and only that."""
    async with open_live_sessions(SqliteStore(tmp_path)) as live:
        neighbour = await conversation(live, "neighbour")
        session_id = await conversation(live)
    change(tmp_path, sql if "event" not in sql else f"{sql} AND session = 2")
    async with open_live_sessions(SqliteStore(tmp_path)) as again:
        with pytest.raises(StoreDamaged):
            await again.store.load(session_id)
        assert await again.store.load(neighbour) is not None


async def test_an_index_that_does_not_fit_is_not_obeyed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong number in the index of messages never gives another conversation."""
    monkeypatch.setattr(limits, "STATE_EVERY_EVENTS", 2)
    async with open_live_sessions(SqliteStore(tmp_path)) as live:
        session_id = await conversation(live)
        await check_loads(live, session_id)
    change(tmp_path, "UPDATE message SET n = n - 1 WHERE number = 3")
    async with open_live_sessions(SqliteStore(tmp_path)) as again:
        state = restore_snapshot(session_id, await again.store.load(session_id))
        assert live.messages[session_id] == list(state.messages)
        with pytest.raises(StoreDamaged, match="index"):
            await again.store.load_messages(session_id, before=4, limit=2)
