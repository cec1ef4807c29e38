"""Export and import: lossless there and back, and whatever is not a whole export changes nothing."""

import io
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from session_core import limits
from session_core.errors import (
    Conflict,
    InvalidInput,
    NotFound,
    StorageFailed,
    StoreDamaged,
    StoreInUse,
    StoreUnusable,
)
from session_core.ids import SessionId
from session_core.service.service import open_session_service
from session_core.session.restore import needs_memory
from session_core.storage.base import LiveState
from session_core.storage.files import store_file
from session_core.storage.maintenance import export_import
from session_core.storage.maintenance.export_import import ImportReport, export_session, import_session
from session_core.storage.maintenance.verify import verify_store
from session_core.storage.memory import MemoryStore
from session_core.storage.records import FORMAT
from session_core.storage.sqlite import SqliteStore
from session_core.storage.sqlite_reader import SqliteReader
from session_core.testing.scripted import Pause, ScriptedProvider, text
from session_core.vocabulary.sessions import Settings
from tests._mostly_slow import mostly_slow
from tests.properties._world import ANSWERS, Actor, AnswerKind, Move, programs, world_config
from tests.session_core.service._helpers import new_session, say, scripted, transcript
from tests.session_core.storage.maintenance._exports import (
    Exported,
    exported,
    exports_of,
    home_content,
    kept_state,
    refusal,
)

FEW = max(settings.default.max_examples // 10, 10) if settings.default else 10  # each writes to a disk
# --- there and back ---------------------------------------------------------------------------------------------------

ACTIONS = (
    *("send",) * 5,
    *("stop", "edit", "queue", "answer", "answer", "let_time_pass", "switch_branch", "settings", "rest", "shelve"),
)


async def play(program: list[Move], kinds: list[AnswerKind], *, running: bool) -> list[Exported]:
    """Let a real service play a program; export at the end of it, or after the end of the service."""
    store = MemoryStore()
    async with open_session_service(attrs.evolve(world_config(kinds), store=store)) as service:
        actor = Actor(service, [(await service.create_session(name=name)).session_id for name in ("one", "two")])
        for move in program:
            with trio.move_on_after(5):
                await actor.perform(move)
        if running:
            return await exports_of(store)
    return await exports_of(store)


async def check_return(sessions: list[Exported], home: Path) -> None:
    for one in sessions:
        report = await import_session(one.lines, SqliteStore(home), settings=None)
        messages = one.snapshot.earlier + len(one.snapshot.messages)
        assert ImportReport(session_id=one.session_id, events=one.events, messages=messages) == report
    store = SqliteStore(home)
    async with store.open() as opened:
        assert tuple(one.summary for one in sessions) == opened.summaries
        for one in sessions:
            assert one.snapshot == await kept_state(store, one.session_id)
            assert one.lines[1:-1] == (await exported(store, one.session_id))[1:-1]


@settings(max_examples=FEW)
@given(
    program=programs(ACTIONS, sessions=2, max_size=24),
    kinds=st.lists(st.sampled_from(ANSWERS), max_size=6),
    running=st.booleans(),
    rnd=st.random_module(),
)
def test_what_comes_back_is_what_went_out(
    program: list[Move], kinds: list[AnswerKind], *, running: bool, rnd: object
) -> None:
    """Any sessions, running or not, imported elsewhere load equal, and exported again they are equal to the byte."""

    async def there() -> list[Exported]:
        return await play(program, kinds, running=running)

    # Two runs, as time may be jumped over in memory only.
    sessions = trio.run(there, clock=MockClock(autojump_threshold=0))
    with TemporaryDirectory() as folder:
        trio.run(check_return, sessions, Path(folder, "home"))


@settings(max_examples=FEW)
@given(
    program=programs(ACTIONS, sessions=2, max_size=24),
    kinds=st.lists(st.sampled_from(ANSWERS), max_size=6),
    running=st.booleans(),
    rnd=st.random_module(),
)
def test_what_comes_from_elsewhere_is_at_rest(
    program: list[Move], kinds: list[AnswerKind], *, running: bool, rnd: object
) -> None:
    """Any sessions, running or not, can be imported under our settings: all that was said is there, nothing can act."""

    async def there() -> list[Exported]:
        return await play(program, kinds, running=running)

    async def here(home: Path) -> None:
        own = Settings(model="ours", cwd="/ours")
        for one in sessions:
            await import_session(one.lines, SqliteStore(home), settings=own)
        assert () == verify_store(home).findings
        store = SqliteStore(home)
        async with store.open() as opened:
            assert [] == list(filter(needs_memory, opened.summaries))
            for one in sessions:
                state = await kept_state(store, one.session_id)
                assert (own.model, own.cwd) == (state.settings.model, state.settings.cwd)
                assert list(one.snapshot.messages) == list(state.messages)[: len(one.snapshot.messages)]
                assert ((), (), (), (), ()) == (state.queue, state.approvals, state.wakeups, state.grants, state.tools)

    # Two runs, as time may be jumped over in memory only.
    sessions = trio.run(there, clock=MockClock(autojump_threshold=0))
    with TemporaryDirectory() as folder:
        trio.run(here, Path(folder, "home"))


async def test_a_long_session_comes_back(tmp_path: Path) -> None:
    """Hundreds of events and a text that is stored apart come back, with a kept state that opening can start from."""
    store = MemoryStore()
    async with open_session_service(scripted(text("x" * 40_000), store=store)) as service:
        session_id = await new_session(service)
        await say(service, session_id, "y" * 20_000)
        for number in range(300):
            await service.rename_session(session_id, f"name {number}")
    sessions = await exports_of(store)

    await check_return(sessions, tmp_path / "home")

    async with SqliteStore(tmp_path / "home").open() as opened:
        assert ["name 299"] == [each.name for each in opened.summaries]
    reader = SqliteReader(tmp_path / "home")
    async with reader.open_reader():
        stored = await reader.load(session_id)
        assert stored is not None
        assert stored.snapshot is not None
        assert 1 == len(await reader.search("x" * 40_000, limit=5))


async def test_a_running_session_comes_back_interrupted(tmp_path: Path) -> None:
    """The export of a session that runs in another process, imported elsewhere, is closed by the next service there."""
    provider = ScriptedProvider((*text("and then")[:1], Pause("middle")))
    source, target = tmp_path / "source", tmp_path / "target"
    async with open_session_service(scripted(provider, store=SqliteStore(source))) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "begin")
        await provider.wait_for_pause("middle")
        reader = SqliteReader(source)
        async with reader.open_reader():
            lines = await exported(reader, session_id)

    await import_session(lines, SqliteStore(target), settings=None)

    async with open_session_service(scripted(text("done"), store=SqliteStore(target))) as service:
        snapshot = await service.load_session(session_id)
        assert "interrupted" == snapshot.activity.name
        assert snapshot.last_outcome is not None
        assert "interrupted" == snapshot.last_outcome.status
        assert ("user", "begin") == (await transcript(service, session_id))[0]
        assert "completed" == (await say(service, session_id, "go on")).status


# --- where lines come from --------------------------------------------------------------------------------------------


async def test_lines_may_come_in_any_way(small: Exported, tmp_path: Path) -> None:
    """An asynchronous source, a file and lines without their breaks are all the same."""

    async def later() -> AsyncIterator[bytes]:
        for line in small.lines:
            await trio.lowlevel.checkpoint()
            yield line

    sources: list[Any] = [later(), io.BytesIO(b"".join(small.lines)), [line.rstrip(b"\n") for line in small.lines]]
    for number, source in enumerate(sources):
        home = tmp_path / str(number)
        await import_session(source, SqliteStore(home), settings=None)
        assert small.lines[1:-1] == (await home_content(home))[small.session_id]


# --- ids --------------------------------------------------------------------------------------------------------------


async def test_an_id_is_given_once(small: Exported, tmp_path: Path) -> None:
    """A session that is there already is not touched by an import of the same, and the sentence says what to do."""
    await import_session(small.lines, SqliteStore(tmp_path), settings=None)
    before = await home_content(tmp_path)

    with pytest.raises(Conflict, match="import this one as a new session"):
        await import_session(small.lines, SqliteStore(tmp_path), settings=None)

    assert before == await home_content(tmp_path)


async def test_a_copy_stands_beside_the_original(small: Exported, tmp_path: Path) -> None:
    """As a new session the same file gives another id and else the same, as often as one likes."""
    copies = [await import_session(small.lines, SqliteStore(tmp_path), as_new=True, settings=None) for _ in range(2)]
    original = await import_session(small.lines, SqliteStore(tmp_path), settings=None)

    content = await home_content(tmp_path)

    assert 3 == len(content)
    old = small.session_id.encode()
    for copy in copies:
        assert attrs.evolve(original, session_id=copy.session_id) == copy
        new = copy.session_id.encode()
        assert [line.replace(old, new) for line in small.lines[1:-1]] == content[copy.session_id]


async def test_a_copy_has_its_own_wakeups(autojump_clock: MockClock) -> None:
    """A wake-up that waits in a session and in its copy is delivered in both; one that was cancelled in none."""
    store = MemoryStore()
    async with open_session_service(scripted(store=store)) as service:
        original = await new_session(service)
        await service.schedule_wakeup(original, 3_600_000, "look again")
        cancelled = await service.schedule_wakeup(original, 3_600_000, "never")
        await service.cancel_wakeup(original, cancelled.wakeup_id)
    copy = (await import_session(await exported(store, original), store, as_new=True, settings=None)).session_id

    async with open_session_service(scripted(store=store)) as service:
        await trio.sleep(7_200)
        for session_id in (original, copy):
            said = [message for role, message in await transcript(service, session_id) if role == "user"]
            assert ["[scheduled wake-up] look again"] == said


async def test_other_sessions_stay(small: Exported) -> None:
    """Importing into a store in memory leaves the sessions that it has in its list."""
    store = MemoryStore()
    async with open_session_service(scripted(store=store)) as service:
        other = await new_session(service)

    await import_session(small.lines, store, settings=None)

    assert {other, small.session_id} == {each.session_id for each in await store.list_sessions()}


# --- what is refused --------------------------------------------------------------------------------------------------


async def test_lines_lost_doubled_or_moved(small: Exported, tmp_path: Path) -> None:
    """A file cut after any line, or with any line missing, doubled or in another place, is refused by its line."""
    lines, home = small.lines, tmp_path / "home"
    for at, line in enumerate(lines):
        for damaged in (lines[:at], lines[:at] + lines[at + 1 :], lines[: at + 1] + lines[at:]):
            error = await refusal(damaged, home)
            assert not damaged or error.message.startswith("line ")
        for other in range(at):
            moved = [*lines[:other], line, *lines[other:at], *lines[at + 1 :]]
            assert (await refusal(moved, home)).message.startswith("line ")


async def test_the_sentences(small: Exported, tmp_path: Path) -> None:
    """Each kind of damage has a sentence that names the line and says what is wrong."""
    lines, home, count = small.lines, tmp_path / "home", len(small.lines)
    other = lines[1].replace(small.session_id.encode(), b"ses_other")
    renamed = [*lines[:3], lines[3].replace(b'"at":', b'"at":1'), *lines[4:]]
    cases: list[tuple[list[bytes], str]] = [
        ([], "there is nothing to import: the file is empty"),
        (lines[:-1], f"line {count - 1}: the export is cut off here: its last line is missing"),
        (lines[1:], "line 1: this is not the beginning of an exported session"),
        ([b"%PDF-1.7\n"], "line 1: this is not the beginning of an exported session"),
        (lines + lines, f"line {count + 1}: the export ended with the line before, but more follows"),
        ([lines[0], *lines[2:]], "line 2: a session begins with its creation, and has no other"),
        ([*lines[:2], lines[0], *lines[2:]], "line 3: this is not an event: it cannot be read: expected"),
        ([lines[0], other, *lines[2:]], f"line 2: the event is not of session {small.session_id!r}"),
        ([lines[0], lines[2], lines[1]], "line 2: a session begins with its creation"),
        ([*lines[:3], lines[2]], "line 4: the event has number 2, but the one before has 2"),
        (
            [*lines[:2], *lines[3:]],
            f"line {count - 1}: the export should have {count - 2} events, but {count - 3} came",
        ),
        (renamed, f"line {count}: the export is not what was written: something in it was changed"),
        ([lines[0], lines[-1]], "line 2: the export ends here and has no events"),
        ([*lines[:-1], b'{"type":"end",\n'], f"line {count}: the last line of the export is damaged"),
        ([*lines[:2], b"\n"], "line 3: this is not an event"),
        (
            [lines[0].replace(b'"format":%d' % FORMAT, b'"format":true')],
            "line 1: the first line does not give the format",
        ),
        ([lines[0].replace(b'"version":2', b'"version":0')], "line 1: the version, the format or the session id"),
    ]
    for damaged, sentence in cases:
        error = await refusal(damaged, home)
        assert isinstance(error, InvalidInput)
        assert error.message.startswith(sentence)
        assert "lines" == error.field


@pytest.mark.parametrize("field", [b"version", b"format"])
async def test_a_newer_export_is_told_apart(small: Exported, tmp_path: Path, field: bytes) -> None:
    """An export of a later version is not called damaged: the sentence says to update, whatever else is new in it."""
    header = small.lines[0].replace(b'"%b":' % field, b'"new":[],"%b":9' % field)

    error = await refusal([header, *small.lines[1:]], tmp_path / "home")

    assert isinstance(error, StoreUnusable)
    assert "it was written by a newer session-core; update this one" in error.message


async def test_events_that_no_journal_holds(small: Exported, tmp_path: Path) -> None:
    """Events that are never kept, or would remove the session, are refused even with a fitting last line."""
    start = small.lines[1].partition(b'"event":')[0].replace(b'"sseq":1,', b'"sseq":2,')
    for event, why in (
        (b'{"type":"session_deleted"}', "an export never contains such an event"),
        (b'{"type":"tool_output_delta","call_id":"c","text":"t"}', "an export never contains such an event"),
        (b'{"type":"part_delta","message_id":"m","text":"t"}', "this is text of an answer that is not being written"),
    ):
        error = await refusal([*small.lines[:2], start + b'"event":' + event + b"}\n"], tmp_path / "home")
        assert error.message.startswith(f"line 3: {why}")


@given(data=st.data(), rnd=st.random_module())
async def test_any_changed_byte_is_noticed(*, data: st.DataObject, rnd: object, small: Exported) -> None:
    """One byte changed, lost or added anywhere in the file, or the file cut anywhere: refused, and nothing touched."""
    whole = b"".join(small.lines)
    at = data.draw(st.integers(0, 9_999)) * (len(whole) - 1) // 10_000
    new = bytes([whole[at] ^ data.draw(st.integers(1, 255))])
    kind = data.draw(st.sampled_from(["change", "lose", "add", "cut"]))
    damaged = {
        "change": whole[:at] + new + whole[at + 1 :],
        "lose": whole[:at] + whole[at + 1 :],
        "add": whole[:at] + new + whole[at:],
        "cut": whole[:at],
    }[kind]

    with TemporaryDirectory() as folder:
        await refusal(io.BytesIO(damaged), Path(folder, "home"))


async def test_every_byte_of_the_frame_counts(small: Exported, tmp_path: Path) -> None:
    """Each single byte of the first and the last line is noticed when it is changed, even where only people read it."""
    first, *events, last = small.lines
    for at in range(len(first)):
        changed = first[:at] + bytes([first[at] ^ 1]) + first[at + 1 :]
        await refusal([changed, *events, last], tmp_path / "home")
    for at in range(len(last)):
        changed = last[:at] + bytes([last[at] ^ 32]) + last[at + 1 :]
        await refusal([first, *events, changed], tmp_path / "home")


async def test_what_is_too_long_is_refused(small: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session beyond the limit is refused as soon as the limit is passed, and one at the limit is not."""
    size = sum(len(line) - 1 for line in small.lines[1:-1])
    monkeypatch.setattr(export_import, "MAX_IMPORT_BYTES", size - 1)
    error = await refusal(small.lines[:-1], tmp_path / "home")
    assert error.message.startswith(f"line {len(small.lines) - 1}: the session is larger than ")

    monkeypatch.setattr(export_import, "MAX_IMPORT_BYTES", size)
    assert (
        small.session_id
        == (await import_session(small.lines, SqliteStore(tmp_path / "home"), settings=None)).session_id
    )


async def test_what_no_snapshot_could_hold_is_refused(
    small: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that another program has filled beyond our bounds is refused, as no client could read it."""
    monkeypatch.setattr(limits, "MAX_SNAPSHOT_BYTES", 1_000)
    error = await refusal(small.lines, tmp_path / "home")
    assert "what the session holds is longer than 1000 bytes; nothing was imported" in error.message


# --- the store --------------------------------------------------------------------------------------------------------


async def test_a_home_in_use_is_left_alone(small: Exported, tmp_path: Path) -> None:
    """While a service has the home, an import is refused with the one who has it."""
    async with open_session_service(scripted(store=SqliteStore(tmp_path))):
        with pytest.raises(StoreInUse):
            await import_session(small.lines, SqliteStore(tmp_path), settings=None)

    assert {} == await home_content(tmp_path)


class WatchfulStore(MemoryStore):
    """Looks at every tick how many events have been handed over."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: set[int] = set()

    async def run(self, live: LiveState, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> NoReturn:
        task_status.started()
        while True:
            self.counts.add(sum(map(len, self._events.values())))
            await trio.lowlevel.checkpoint()

    async def wait_durable(self, seq: int) -> None:
        for _ in range(10):
            await trio.lowlevel.checkpoint()


async def test_all_events_are_handed_over_at_once(small: Exported) -> None:
    """A store never gets the chance to save a part: it sees no events, and then all of them."""
    store = WatchfulStore()

    report = await import_session(small.lines, store, settings=None)

    assert {report.events} == store.counts - {0}


class FailingConnection(sqlite3.Connection):
    """Cannot commit any more."""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        if sql == "COMMIT":
            raise sqlite3.OperationalError("disk I/O error")
        return super().execute(sql, parameters)


def failing_disk(home: Path, read_only: bool) -> sqlite3.Connection:  # noqa: FBT001 - the shape of `Connect`
    factory = sqlite3.Connection if read_only else FailingConnection
    return sqlite3.connect(store_file(home), isolation_level=None, check_same_thread=False, factory=factory)


@pytest.mark.usefixtures("quiet_log")
async def test_a_failing_disk_imports_nothing(small: Exported, tmp_path: Path) -> None:
    """When the commit fails the import says so, and nothing of the session is there afterwards."""
    await home_content(tmp_path)

    with pytest.raises(StorageFailed):
        await import_session(small.lines, SqliteStore(tmp_path, connect=failing_disk), settings=None)

    assert {} == await home_content(tmp_path)


KILLED = """
import os, signal, sqlite3, sys
from functools import partial
from pathlib import Path

import trio
from session_core.storage.files import store_file
from session_core.storage.sqlite import SqliteStore
from session_core.storage.maintenance.export_import import import_session

home, file, moment = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]

class Killing(sqlite3.Connection):
    def execute(self, sql, parameters=(), /):
        if sql == "COMMIT" and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        done = super().execute(sql, parameters)
        if sql == "COMMIT" and moment == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return done

def connect(home, read_only):
    factory = sqlite3.Connection if read_only else Killing
    return sqlite3.connect(store_file(home), isolation_level=None, check_same_thread=False, factory=factory)

trio.run(
    partial(import_session, settings=None),
    file.read_bytes().splitlines(keepends=True),
    SqliteStore(home, connect=connect),
)
"""


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("what", mostly_slow(["half", "small"], quick=1))
async def test_a_killed_import_is_all_or_nothing(
    small: Exported, half: Exported, tmp_path: Path, moment: str, what: str
) -> None:
    """A process killed right before the commit has imported nothing, and one killed right after it everything."""
    if what == "half":
        small = half
    file, home = tmp_path / "export.jsonl", tmp_path / "home"
    file.write_bytes(b"".join(small.lines))
    await home_content(home)

    killed = await trio.run_process([sys.executable, "-c", KILLED, home, file, moment], check=False)

    assert -signal.SIGKILL == killed.returncode
    content = await home_content(home)
    if moment == "before":
        assert {} == content
        await import_session(small.lines, SqliteStore(home), settings=None)
        content = await home_content(home)
    assert small.lines[1:-1] == content[small.session_id]


# --- what cannot be exported ------------------------------------------------------------------------------------------


async def test_an_unknown_session_is_not_found(tmp_path: Path) -> None:
    """Exporting a session that does not exist is `NotFound`, before any line is given."""
    for store in (SqliteStore(tmp_path), MemoryStore()):
        async with store.open():
            with pytest.raises(NotFound):
                await exported(store, SessionId("ses_none"))


async def test_a_session_deleted_meanwhile_is_no_export(small: Exported, tmp_path: Path) -> None:
    """A session that vanishes while it is exported never gets a last line that would make the rest look whole."""
    store = MemoryStore()
    await import_session(small.lines, store, settings=None)
    given_so_far: list[bytes] = []

    async def collect() -> None:
        async for line in export_session(store, small.session_id):
            given_so_far.append(line)
            if len(given_so_far) == 2:
                store.forget(small.session_id)

    with pytest.raises(NotFound):
        await collect()

    assert small.lines[1:-1] == given_so_far[1:]
    await refusal(given_so_far, tmp_path / "home")


async def test_a_damaged_session_is_no_export(small: Exported, tmp_path: Path) -> None:
    """A session with a damaged record is not exported as if it were whole."""
    await import_session(small.lines, SqliteStore(tmp_path), settings=None)
    connection = sqlite3.connect(store_file(tmp_path))
    connection.execute("UPDATE event SET payload = CAST(replace(payload, 'ein', 'kein') AS BLOB) WHERE n = 1")
    connection.commit()
    connection.close()

    reader = SqliteReader(tmp_path)
    async with reader.open_reader():
        with pytest.raises(StoreDamaged):
            await exported(reader, small.session_id)
