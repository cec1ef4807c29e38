"""`rebuild_store` makes everything derived anew, keeps what can be read, says what cannot, and is safe to interrupt."""

import json
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from session_core import limits
from session_core.errors import StoreDamaged, StoreInUse, StoreUnusable
from session_core.ids import SessionId
from session_core.service.config import ServiceConfig
from session_core.service.service import open_session_service
from session_core.storage import session_list
from session_core.storage.files import MARK_FILE, STORE_FILE, connect, open_for_reading
from session_core.storage.home_lock import HomeLock
from session_core.storage.maintenance import file_swap, rebuild
from session_core.storage.maintenance.import_rules import CannotSettle
from session_core.storage.maintenance.rebuild import rebuild_store
from session_core.storage.maintenance.session_check import NOWHERE
from session_core.storage.maintenance.verify import verify_store
from session_core.storage.records import FORMAT, checksum
from session_core.storage.sqlite import SqliteStore
from session_core.testing.scripted import ScriptedProvider, text
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.replies import Acknowledged
from session_core.vocabulary.sessions import SandboxPolicy, Settings
from session_core.wire.codec import encode
from tests._mostly_slow import mostly_slow
from tests.session_core.storage.maintenance._stores import Contents, change, contents_of, count_kept, said

LEFT_BY_SQLITE = {f"{STORE_FILE}-wal", f"{STORE_FILE}-shm"}


def names_in(home: Path) -> set[str]:
    return {path.name for path in home.iterdir()} - LEFT_BY_SQLITE


def test_a_sound_store_stays_the_same(home: Path, contents: Contents) -> None:
    """Rebuilding a sound store changes nothing that can be read, and leaves nothing behind."""
    before = names_in(home)

    report = rebuild_store(home)

    assert (report.sessions, report.events) == (3, sum(map(len, contents.journals.values())))
    assert (report.repaired, report.lost, report.set_aside, report.damaged) == ((), (), None, None)
    assert contents_of(home) == contents
    assert names_in(home) == before
    assert verify_store(home).findings == ()
    assert stat.S_IMODE((home / STORE_FILE).stat().st_mode) == 0o600


def test_half_an_answer_survives(interrupted_home: Path) -> None:
    """What a crash left in the log, text of an unfinished answer included, is in the new file."""
    before = contents_of(interrupted_home)
    [snapshot] = before.loaded.values()
    assert snapshot.partial is not None

    rebuild_store(interrupted_home)

    assert contents_of(interrupted_home) == before
    assert verify_store(interrupted_home).findings == ()


@pytest.mark.parametrize(
    "sql",
    mostly_slow(
        [
            "UPDATE session SET name = 'wrong', last_n = 1000, activity = 'streaming', queued = 5",
            "UPDATE session SET session_id = 'ses_wrong' WHERE id = 2",
            "DELETE FROM session",
            "DELETE FROM message",
            "UPDATE message SET parent_id = 'msg_wrong'",
            "DELETE FROM message_text_content",
            "DELETE FROM message_text_data",
            "DELETE FROM blob_use",
            "INSERT INTO state VALUES (1, 3, 0, 0, x'00')",
            "DROP INDEX event_in_order",
            "DROP TABLE message",
            "DROP TABLE session",
            "PRAGMA user_version = 77",
            "PRAGMA application_id = 77",
        ],
        quick=6,
    ),
)
def test_what_is_derived_comes_back(home: Path, contents: Contents, sql: str) -> None:
    """Whatever is derived from the records may be wrong or gone: it is made again, and nothing is lost."""
    change(home, sql)

    report = rebuild_store(home)

    assert contents_of(home) == contents
    without_list = sql in {"DELETE FROM session", "DROP TABLE session"}
    assert all("whether it had more is unknown" in each for each in report.lost)
    assert len(report.lost) == (3 if without_list else 0)
    assert verify_store(home).findings == ()
    if not sql.startswith("INSERT"):  # a saved state that cannot be read is not used, and that is no finding
        assert report.repaired
        assert report.damaged is not None
        assert stat.S_IMODE(report.damaged.stat().st_mode) == 0o600


def test_a_session_stays_a_beginning(home: Path, contents: Contents) -> None:
    """After a damaged record nothing of a session is kept in its place, but what can be read is set aside."""
    first, second, third = sorted(contents.listed)
    change(home, "UPDATE event SET payload = payload || ' ' WHERE session = 2 AND n = 6")
    everything = contents.journals[second]

    report = rebuild_store(home)

    after = contents_of(home)
    assert count_kept(after.journals[second], everything) == 5
    assert [after.loaded[each] for each in (first, third)] == [contents.loaded[each] for each in (first, third)]
    called = f'"{contents.listed[second].name}" ({second})'
    lost = len(everything) - 5
    assert report.lost == (f"{called}: record 6 is missing or damaged; the 5 before it were kept, {lost} were lost",)
    assert report.set_aside is not None
    assert stat.S_IMODE(report.set_aside.stat().st_mode) == 0o600
    lines = [json.loads(line) for line in report.set_aside.read_text(encoding="utf-8").splitlines()]
    assert [line["n"] for line in lines] == list(range(7, len(everything) + 1))
    assert [line["event"]["sseq"] for line in lines] == [event.sseq for event in everything[6:]]
    assert verify_store(home).findings == ()


def test_a_session_without_its_beginning(home: Path, contents: Contents) -> None:
    """A session whose first record is lost cannot be kept, and all that can be read of it is set aside."""
    second = sorted(contents.listed)[1]
    change(home, "DELETE FROM event WHERE session = 2 AND n = 1")

    report = rebuild_store(home)

    assert second not in contents_of(home).listed
    assert report.sessions == 2
    [lost] = report.lost
    assert lost.startswith(f'"{contents.listed[second].name}" ({second}): ')
    assert "nothing of it could be kept" in lost
    assert report.set_aside is not None
    lines = report.set_aside.read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(contents.journals[second]) - 1


def test_a_long_text_that_is_lost(home: Path, contents: Contents) -> None:
    """A record whose long text is gone ends what is kept of its session, and the rest is set aside."""
    first, second, third = sorted(contents.listed)
    change(home, "DELETE FROM blob")

    report = rebuild_store(home)

    after = contents_of(home)
    assert after.loaded[second] == contents.loaded[second]
    for session_id in (first, third):
        kept = after.journals[session_id]
        assert 0 < count_kept(kept, contents.journals[session_id]) < len(contents.journals[session_id])
        assert any(session_id in lost and "cannot be read" in lost for lost in report.lost)


def test_a_session_that_lost_records_is_brought_to_rest(home: Path, contents: Contents) -> None:
    """It has the stricter of its settings and those of the home, and no wake-up, and the others stay as they are."""
    first, second, third = sorted(contents.listed)
    length = len(contents.journals[second])
    assert contents.loaded[second].wakeups
    change(home, "UPDATE event SET payload = payload || ' ' WHERE session = 2 AND n = ?", length)
    own = Settings(model="ours", cwd="/ours", permission_mode="read_only", sandbox=SandboxPolicy(mode="read_only"))

    report = rebuild_store(home, settings=own)

    after = contents_of(home)
    assert report.settled == (f'"{contents.listed[second].name}" ({second})',)
    assert after.loaded[second].settings == own
    assert not after.loaded[second].wakeups
    assert [after.loaded[each] for each in (first, third)] == [contents.loaded[each] for each in (first, third)]
    assert (report.sessions, report.events) == (3, sum(map(len, after.journals.values())))
    assert verify_store(home).findings == ()
    again = rebuild_store(home, settings=own)
    assert (again.settled, contents_of(home)) == ((), after)


def test_without_a_list_what_lost_records_is_not_known(home: Path, contents: Contents) -> None:
    """If neither the list nor all records can be read, any session may have lost some, and is brought to rest."""
    second = sorted(contents.listed)[1]
    change(home, "UPDATE event SET payload = payload || ' ' WHERE session = 1 AND n = 3")
    change(home, "UPDATE event SET checksum = 0 WHERE session = 2 AND n = ?", len(contents.journals[second]))
    change(home, "DELETE FROM session")

    report = rebuild_store(home)

    after = contents_of(home)
    assert [each for each in sorted(contents.listed) if any(each in line for line in report.settled)] == sorted(
        contents.listed
    )
    assert {(each.queue, each.wakeups, each.activity.is_at_rest) for each in after.loaded.values()} == {((), (), True)}
    assert verify_store(home).findings == ()


def test_half_an_answer_of_a_session_that_lost_records(interrupted_home: Path) -> None:
    """What was said until then stays, as an interrupted message."""
    [session_id] = contents_of(interrupted_home).listed
    change(interrupted_home, "INSERT INTO event SELECT max(id) + 1, 9, 9, 2, 0, x'00', NULL FROM event")
    change(interrupted_home, "DELETE FROM session")

    rebuild_store(interrupted_home)

    after = contents_of(interrupted_home).loaded[session_id]
    assert (after.partial, after.messages[-1].text) == (None, "half of an ")
    assert verify_store(interrupted_home).findings == ()


def test_a_session_that_cannot_be_brought_to_rest(
    home: Path, contents: Contents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It might act, so it is left out, which is told; the old file has it."""
    second = sorted(contents.listed)[1]
    change(home, "UPDATE event SET payload = payload || ' ' WHERE session = 2 AND n = 6")

    def refuse(*_: object, **__: object) -> Iterator[SessionEvent]:
        raise CannotSettle("its work cannot be brought to an end")

    monkeypatch.setattr(rebuild, "settle_session", refuse)
    report = rebuild_store(home)

    assert set(contents_of(home).listed) == set(contents.listed) - {second}
    assert any("all of it, as its work cannot be brought to an end" in each for each in report.lost)
    assert report.damaged is not None
    assert verify_store(home).findings == ()


async def test_the_service_goes_on_with_what_is_left(home: Path, contents: Contents) -> None:
    """A session that was cut in the middle of a turn is closed truthfully, and can be used again."""
    second = sorted(contents.listed)[1]
    change(home, "DELETE FROM event WHERE session = 2 AND n = 6")
    rebuild_store(home)
    provider = ScriptedProvider(text("Here I am again."))

    async with open_session_service(ServiceConfig(models={"scripted": provider}, store=SqliteStore(home))) as service:
        assert (await service.load_session(second)).activity.is_at_rest
        await said(service, second, "Still there?")
        assert (await service.load_session(second)).messages[-1].text == "Here I am again."

    assert verify_store(home).findings == ()


async def test_long_sessions_get_a_saved_state(home: Path) -> None:
    """A session with many records has a saved state afterwards, so that opening it is quick."""
    async with open_session_service(ServiceConfig(store=SqliteStore(home))) as service:
        session_id = (await service.create_session(name="long")).session_id
        for number in range(limits.STATE_EVERY_EVENTS * 2):
            await service.rename_session(session_id, f"name {number}")
    before = contents_of(home)

    rebuild_store(home)

    assert await _events_to_fold(home, session_id) == 0
    assert contents_of(home) == before
    assert verify_store(home).findings == ()


async def _events_to_fold(home: Path, session_id: SessionId) -> int:
    store = SqliteStore(home)
    async with store.open():
        stored = await store.load(session_id)
    assert stored is not None
    return len(stored.events)


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM message",
        "PRAGMA user_version = 77",
        "PRAGMA application_id = 77",
        "DELETE FROM event WHERE session = 2 AND n = 1",
    ],
)
def test_a_report_tells_facts_alone(home: Path, sql: str) -> None:
    """What was repaired or lost is told without advice: whoever reads it has just done what would be advised."""
    change(home, sql)

    report = rebuild_store(home)

    told = report.repaired + report.lost
    assert told
    assert not any(word in each for each in told for word in ("`session-core", "try ", "run ", "move it", "update"))


def test_replies_survive(home: Path) -> None:
    """Replies that make a retry safe are in the new file, and unreadable ones are not."""
    insert = "INSERT INTO reply (client_id, key, fingerprint, payload, checksum) VALUES (?, ?, ?, ?, 7)"
    change(home, insert, "local", "no checksum", b"f", encode(Acknowledged(cursor=NOWHERE)))
    with closing(open_for_reading(home, connect)) as db:
        before = session_list.read_replies(db)
    assert ["1 remembered replies cannot be read"] == [finding.what for finding in verify_store(home).findings]

    rebuild_store(home)

    assert verify_store(home).findings == ()
    with closing(open_for_reading(home, connect)) as db:
        assert before == session_list.read_replies(db) != ()


def test_a_home_in_use_is_refused(home: Path) -> None:
    """As long as somebody holds the home, nothing is rebuilt."""
    lock = HomeLock.acquire(home)
    try:
        with pytest.raises(StoreInUse):
            rebuild_store(home)
    finally:
        lock.release()


def test_records_of_a_newer_program_are_left_alone(home: Path, contents: Contents) -> None:
    """A store with a sound record in a format that is not known yet stays as it is."""
    session_id = min(contents.listed)
    with closing(sqlite3.connect(home / STORE_FILE, isolation_level=None)) as db:
        (payload,) = db.execute("SELECT payload FROM event WHERE session = 1 AND n = 3").fetchone()
        crc = checksum(session_id, 3, payload, written_as=FORMAT + 1)
        db.execute("UPDATE event SET format = ?, checksum = ? WHERE session = 1 AND n = 3", (FORMAT + 1, crc))
    before = (home / STORE_FILE).read_bytes()

    with pytest.raises(StoreUnusable, match="newer"):
        rebuild_store(home)

    assert (home / STORE_FILE).read_bytes() == before
    assert contents_of(home).listed == contents.listed


def test_what_is_not_ours_is_left_alone(home: Path) -> None:
    """A store without any readable record, a database of another program and mere bytes stay as they are."""
    path = home / STORE_FILE
    change(home, "UPDATE event SET checksum = 0")
    unreadable = path.read_bytes()
    with pytest.raises(StoreDamaged):
        rebuild_store(home)
    assert path.read_bytes() == unreadable

    path.unlink()
    change(home, "CREATE TABLE somebody (elses)")
    foreign = path.read_bytes()
    with pytest.raises(StoreUnusable, match="another program"):
        rebuild_store(home)
    assert path.read_bytes() == foreign

    path.write_bytes(b"nothing at all" * 1000)
    with pytest.raises(StoreDamaged, match="no record can be read"):
        rebuild_store(home)
    assert names_in(home) == {STORE_FILE, MARK_FILE, "lock"}

    path.unlink()
    with pytest.raises(StoreUnusable, match="there is no store"):
        rebuild_store(home)


class Crash(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("step", mostly_slow(range(1, 12), quick=2))
@pytest.mark.parametrize("damage", ["SELECT 1", "DELETE FROM message"])
async def test_a_crash_at_any_step_loses_nothing(
    home: Path, contents: Contents, monkeypatch: pytest.MonkeyPatch, step: int, damage: str
) -> None:
    """Wherever a rebuild is interrupted, the service finds a whole store or refuses, and the next rebuild has all."""
    change(home, damage)
    steps = 0

    def counted(name: str) -> None:
        real = getattr(Path, name)

        def call(*arguments: object, **options: object) -> object:
            nonlocal steps
            steps += 1
            if steps == step:
                raise Crash
            return real(*arguments, **options)

        monkeypatch.setattr(Path, name, call)

    with monkeypatch.context() as patched:
        monkeypatch = patched
        for name in ("rename", "unlink", "chmod"):
            counted(name)
        patched.setattr(shutil, "rmtree", lambda *_, **__: None)
        try:
            rebuild_store(home)
        except Crash:
            pass
        else:
            assert steps < step
    if (home / STORE_FILE).exists():
        async with SqliteStore(home).open() as opened:
            assert {summary.session_id for summary in opened.summaries} == set(contents.listed)
    else:
        with pytest.raises(StoreDamaged, match="missing or empty"):
            async with SqliteStore(home).open():
                raise AssertionError

    rebuild_store(home)

    assert contents_of(home) == contents
    assert verify_store(home).findings == ()
    assert not {file_swap.WORK_FOLDER, file_swap.READY_FOLDER} & names_in(home)
