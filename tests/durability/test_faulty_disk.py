"""The disk that fails on purpose: SQLite works on it, keeps its promises on it, and is caught where it cannot."""

import itertools
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from random import Random

import pytest

from tests._mostly_slow import mostly_slow
from tests._needs import needs
from tests.durability import _vfs
from tests.durability._faulty_disk import FaultKind, FaultyDisk, Survives, available

pytestmark = needs(available())

KINDS: tuple[FaultKind, ...] = ("EIO", "ENOSPC", "short_write")
ROWS = 6
TEXT = "x" * 1500
"""Three rows fill a page, so that transactions touch more than one."""


def write_rows(disk: FaultyDisk, journal: str, synchronous: str, acknowledged: list[int]) -> int:
    """Write rows, one transaction each, note each one that SQLite acknowledged, and close.

    Returns how many calls changed the disk before the closing began.
    """
    with closing(disk.connect(isolation_level=None)) as connection:
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        # Fetched to the end: the change is committed after the row, and an error of that is told to who asks for more.
        assert [(journal.lower(),)] == connection.execute(f"PRAGMA journal_mode = {journal}").fetchall()
        connection.execute("PRAGMA wal_autocheckpoint = 0")  # its failures are not told, those of the pragma below are
        connection.execute("CREATE TABLE IF NOT EXISTS rows (number INTEGER PRIMARY KEY, text TEXT UNIQUE)")
        for number in range(ROWS):
            connection.execute("INSERT INTO rows VALUES (?, ?)", (number, f"{number}{TEXT}"))
            acknowledged.append(number)
            if number % 2:
                connection.execute("PRAGMA wal_checkpoint").fetchall()  # the next row starts the log anew
        return disk.calls


def read_rows(disk: FaultyDisk) -> list[int]:
    """The rows of a sound database; raises `sqlite3.DatabaseError` if it is not sound."""
    with closing(disk.connect()) as connection:
        if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            raise sqlite3.DatabaseError("integrity_check found damage")
        if not connection.execute("SELECT * FROM sqlite_schema").fetchall():
            return []
        return [number for (number,) in connection.execute("SELECT number FROM rows ORDER BY number")]


def calls_of(journal: str, synchronous: str) -> int:
    """How many calls that change the disk `write_rows` makes."""
    with FaultyDisk() as disk:
        write_rows(disk, journal, synchronous, [])
        return disk.calls


def cut_at(call: int, seed: int, journal: str, synchronous: str, *, lies: bool = False) -> tuple[list[int], list[int]]:
    """Cut the power at a call: the rows that were acknowledged before, and those there after."""
    acknowledged: list[int] = []
    with FaultyDisk() as disk:
        disk.fsync_lies = lies
        disk.fail("EIO", at=call, sticky=True)
        with suppress(sqlite3.Error):
            write_rows(disk, journal, synchronous, acknowledged)
        with disk.lose_power(Random(seed)) as after:
            return acknowledged, read_rows(after)


def lost(call: int, seed: int, journal: str, synchronous: str, *, lies: bool = False) -> bool:
    """Whether a row that was acknowledged, or the whole database, does not survive."""
    try:
        acknowledged, found = cut_at(call, seed, journal, synchronous, lies=lies)
    except sqlite3.DatabaseError:
        return True
    return not set(acknowledged) <= set(found)


@pytest.mark.parametrize(
    ("journal", "synchronous"), mostly_slow([("WAL", "FULL"), ("DELETE", "EXTRA"), ("TRUNCATE", "FULL")], quick=1)
)
def test_what_was_acknowledged_survives(journal: str, synchronous: str) -> None:
    """Whenever the power goes, every acknowledged row is there, and at most the one that was being written besides."""
    for call in range(1, calls_of(journal, synchronous) + 2):
        for seed in range(5):
            acknowledged, found = cut_at(call, seed, journal, synchronous)
            assert found == list(range(len(found))), (call, seed)
            assert len(acknowledged) <= len(found) <= len(acknowledged) + 1, (call, seed)


@pytest.mark.parametrize(
    ("journal", "synchronous", "lies"),
    [("WAL", "FULL", True), ("WAL", "NORMAL", False), ("WAL", "OFF", False), ("DELETE", "OFF", False)],
)
def test_without_syncs_rows_are_lost(journal: str, synchronous: str, lies: bool) -> None:  # noqa: FBT001
    """A disk that lies about syncs, or a database that does not wait for them, loses acknowledged rows in some run."""
    cuts = itertools.product(range(1, calls_of(journal, synchronous) + 1), range(5))
    assert any(lost(call, seed, journal, synchronous, lies=lies) for call, seed in cuts)


def test_a_deleted_journal_can_come_back() -> None:
    """A delete that was not synced is undone in some run: then SQLite rolls back, whole, what it had acknowledged."""
    outcomes = [
        cut_at(call, seed, "DELETE", "FULL") for call in range(1, calls_of("DELETE", "FULL")) for seed in (1, 2)
    ]
    assert all(found == list(range(len(found))) for _, found in outcomes)
    assert {0, 1} == {len(set(acknowledged) - set(found)) for acknowledged, found in outcomes}


@pytest.mark.parametrize("journal", mostly_slow(["WAL", "DELETE", "TRUNCATE"], quick=1))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sticky", [False, True])
def test_every_fault_is_reported_and_harms_nothing(kind: FaultKind, journal: str, sticky: bool) -> None:  # noqa: FBT001
    """Each call that fails before the closing gives an error, and all that was acknowledged is there afterwards."""
    for call in itertools.count(1):
        acknowledged: list[int] = []
        with FaultyDisk() as disk:
            fault = disk.fail(kind, at=call, sticky=sticky)
            try:
                assert call > write_rows(disk, journal, "FULL", acknowledged)
            except sqlite3.DatabaseError:
                assert fault.fired
            disk.heal()
            found = read_rows(disk)
            assert found == list(range(len(found)))
            assert len(acknowledged) <= len(found) <= len(acknowledged) + 1
        if not fault.fired:
            return


def test_the_error_fits_the_call() -> None:
    """Each kind of fault is told to SQLite by the code that its own file system has for that call."""
    told: dict[FaultKind, set[str]] = {}
    for kind, journal in itertools.product(KINDS, ("WAL", "DELETE", "TRUNCATE")):
        for call in range(1, calls_of(journal, "FULL") + 1):
            with FaultyDisk() as disk:
                disk.fail(kind, at=call)
                try:
                    write_rows(disk, journal, "FULL", [])
                except sqlite3.DatabaseError as error:
                    told.setdefault(kind, set()).add(error.sqlite_errorname)
    others = {"SQLITE_CANTOPEN", "SQLITE_IOERR_FSYNC", "SQLITE_IOERR_TRUNCATE", "SQLITE_IOERR_DELETE"}
    full = {"SQLITE_FULL", *others}
    assert {"EIO": {"SQLITE_IOERR_WRITE", *others}, "ENOSPC": full, "short_write": full} == told


def test_a_short_write_leaves_half() -> None:
    """A write that fails as short leaves the first half of its bytes, and one that fails otherwise leaves none."""
    sizes: list[int] = []
    for kind in KINDS:
        with FaultyDisk() as disk:
            file = disk.open_file("a", _vfs.OPEN_CREATE)
            disk.fail(kind)
            with pytest.raises(_vfs.DiskError):
                file.write(0, b"x" * 100)
            sizes.append(len(disk.files["a"]))
            file.close()
    assert [0, 0, 50] == sizes


def test_reads_fail_on_request() -> None:
    """A read fails only if the fault is for reads too, and then the database is as good as before."""
    with FaultyDisk() as disk:
        write_rows(disk, "DELETE", "FULL", [])
        calls, reads = disk.calls, disk.reads
        disk.fail("EIO", sticky=True)
        assert list(range(ROWS)) == read_rows(disk)
        disk.fail("EIO", sticky=True, reads=True)
        with pytest.raises(sqlite3.OperationalError, match="disk I/O error"):
            read_rows(disk)
        disk.heal()
        assert list(range(ROWS)) == read_rows(disk)
        assert disk.calls == calls
        assert disk.reads > reads


def test_a_failed_sync_can_forget() -> None:
    """What a failed sync did not write stays lost if the disk forgets, although the next sync succeeds."""
    left: dict[bool, bytes] = {}
    for forgets in (False, True):
        with FaultyDisk({"a": b""}) as disk:
            disk.failed_sync_forgets = forgets
            file = disk.open_file("a", 0)
            file.write(0, b"lost")
            disk.fail("EIO")
            with pytest.raises(_vfs.DiskError):
                file.sync()
            file.write(4, b"kept")
            file.sync()
            assert b"lostkept" == file.read(100, 0)
            left[forgets] = disk.lose_power(Random(1)).files["a"]
            file.close()
    assert {False: b"lostkept", True: b"\0\0\0\0kept"} == left


def test_rows_survive_a_forgotten_sync() -> None:
    """After a commit failed at its sync, the same connection commits again and loses nothing that was acknowledged."""
    with FaultyDisk() as disk, closing(disk.connect(isolation_level=None)) as connection:
        disk.failed_sync_forgets = True
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY)")
        calls = disk.calls
        connection.execute("INSERT INTO rows VALUES (1)")
        disk.fail("EIO", at=disk.calls - calls)
        with pytest.raises(sqlite3.OperationalError):
            connection.execute("INSERT INTO rows VALUES (2)")
        connection.execute("INSERT INTO rows VALUES (3)")
        for seed in range(50):
            with disk.lose_power(Random(seed)) as after:
                assert [1, 3] == read_rows(after)


def torn(seed: int, survives: Survives) -> bytes:
    """A file of 1024 durable bytes of which 1024 were overwritten, in two writes, when the power went."""
    with FaultyDisk({"a": b"." * 1024}) as disk:
        file = disk.open_file("a", 0)
        file.write(0, b"1" * 1024)
        file.write(256, b"2" * 512)
        file.close()
        return disk.lose_power(Random(seed), survives).files["a"]


def test_what_survives() -> None:
    """Of two unsynced writes survive none, both, one, either order, and prefixes cut at a sector or anywhere."""
    old, first, second = b"." * 1024, b"1" * 1024, b"." * 256 + b"2" * 512 + b"." * 256
    both = b"1" * 256 + b"2" * 512 + b"1" * 256
    assert {old} == {torn(seed, "nothing") for seed in range(20)}
    assert {both} == {torn(seed, "everything") for seed in range(20)}
    torn_first = b"1" * 512 + b"." * 512
    torn_first_after_second = b"1" * 512 + b"2" * 256 + b"." * 256
    some = {torn(seed, "some") for seed in range(3000)}
    assert {old, first, second, both, torn_first, torn_first_after_second} <= some
    assert any(each.strip(b"1").strip(b".") == b"" and len(each.rstrip(b".")) % 512 for each in some)
    assert {len(each) for each in some} == {1024}
    assert torn(3, "any") == torn(3, "any")


def test_names_survive_as_they_were_synced() -> None:
    """A new file is there for sure only after its first sync, and a deleted one comes back unless that was synced."""

    def names(prepare: Callable[[FaultyDisk], None]) -> set[tuple[str, ...]]:
        with FaultyDisk({"old": b"x"}) as disk:
            prepare(disk)
            return {tuple(disk.lose_power(Random(seed)).files) for seed in range(50)}

    def create(disk: FaultyDisk, *, sync: bool) -> None:
        file = disk.open_file("new", _vfs.OPEN_CREATE)
        if sync:
            file.sync()
        file.close()

    assert {("old",), ("new", "old")} == names(lambda disk: create(disk, sync=False))
    assert {("new", "old")} == names(lambda disk: create(disk, sync=True))
    assert {(), ("old",)} == names(lambda disk: disk.delete("old", sync=False))
    assert {()} == names(lambda disk: disk.delete("old", sync=True))


def test_an_image_can_be_opened() -> None:
    """A disk made from the files of another has its rows, and one with damage in them is found to be damaged."""
    with FaultyDisk() as disk:
        write_rows(disk, "WAL", "FULL", [])
        image = disk.files
    with FaultyDisk(image) as copy:
        assert list(range(ROWS)) == read_rows(copy)
    page = image["main.db"][4096:8192]
    with FaultyDisk({"main.db": image["main.db"].replace(page, b"\xff" * 4096)}) as damaged:
        with pytest.raises(sqlite3.DatabaseError):
            read_rows(damaged)


@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_threads_see_each_other(journal: str) -> None:
    """Two connections in two threads see each other's commits at once, and nothing before the commit."""
    with FaultyDisk() as disk, ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        first, second = (each.submit(disk.connect, isolation_level=None, timeout=0).result() for each in (one, other))

        def run_first(sql: str) -> list[tuple[int]]:
            return one.submit(lambda: first.execute(sql).fetchall()).result()

        def run_second(sql: str) -> list[tuple[int]]:
            return other.submit(lambda: second.execute(sql).fetchall()).result()

        run_first(f"PRAGMA journal_mode = {journal}")
        run_first("CREATE TABLE rows (number INTEGER)")
        run_first("BEGIN IMMEDIATE")
        run_first("INSERT INTO rows VALUES (1)")
        assert [] == run_second("SELECT * FROM rows")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            run_second("INSERT INTO rows VALUES (9)")
        run_first("COMMIT")
        assert [(1,)] == run_second("SELECT * FROM rows")
        run_second("INSERT INTO rows VALUES (2)")
        assert [(1,), (2,)] == run_first("SELECT * FROM rows")
        one.submit(first.close).result()
        other.submit(second.close).result()


@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_threads_take_turns(journal: str) -> None:
    """Four threads that add to one number at the same time lose no addition."""
    with FaultyDisk() as disk:
        with closing(disk.connect()) as connection:
            connection.execute(f"PRAGMA journal_mode = {journal}")
            connection.executescript("CREATE TABLE sum (n INTEGER); INSERT INTO sum VALUES (0)")

        def add(_: int) -> None:
            with closing(disk.connect(isolation_level=None, timeout=60)) as connection:
                for _ in range(25):
                    connection.execute("BEGIN IMMEDIATE")
                    ((n,),) = connection.execute("SELECT n FROM sum").fetchall()
                    connection.execute("UPDATE sum SET n = ?", (n + 1,))
                    connection.execute("COMMIT")

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(add, range(4)))
        with closing(disk.connect()) as connection:
            assert (100,) == connection.execute("SELECT n FROM sum").fetchone()


def test_temporary_files_work() -> None:
    """Sorting, VACUUM and a transaction beyond the cache give what they give in memory, and leave no file behind."""
    script = """
        PRAGMA cache_size = 5; PRAGMA temp_store = FILE; CREATE TABLE big (number INTEGER, text TEXT);
        BEGIN; WITH RECURSIVE up(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM up WHERE n < 3000)
        INSERT INTO big SELECT n * 7919 % 3001, hex(zeroblob(50)) FROM up; COMMIT;
        CREATE INDEX by_number ON big (number); DELETE FROM big WHERE number % 3 = 0; VACUUM"""
    question = "SELECT number, text FROM big ORDER BY number % 10, number"
    with FaultyDisk() as disk:
        with closing(disk.connect()) as connection, closing(sqlite3.connect(":memory:")) as expected:
            connection.executescript(script)
            expected.executescript(script)
            assert expected.execute(question).fetchall() == connection.execute(question).fetchall()
        disk.open_file("spill", _vfs.OPEN_CREATE | _vfs.OPEN_DELETE_ON_CLOSE).close()
        assert ["main.db"] == list(disk.files)


def test_locks_of_a_file() -> None:
    """One may get ready to write beside readers, waits for them to leave, and keeps new ones out meanwhile."""
    with FaultyDisk({"a": b""}) as disk:
        reader, writer, late = (disk.open_file("a", 0) for _ in range(3))
        assert reader.lock(_vfs.SHARED)
        assert writer.lock(_vfs.SHARED)
        assert writer.lock(_vfs.RESERVED)
        assert late.lock(_vfs.SHARED)
        assert late.is_reserved()
        assert not late.lock(_vfs.RESERVED)
        late.unlock(_vfs.NO_LOCK)
        assert not writer.lock(_vfs.EXCLUSIVE)
        assert not late.lock(_vfs.SHARED)
        reader.unlock(_vfs.NO_LOCK)
        assert writer.lock(_vfs.EXCLUSIVE)
        assert not reader.lock(_vfs.SHARED)
        writer.close()
        assert reader.lock(_vfs.EXCLUSIVE)
        reader.close()
        late.close()


def test_locks_and_life_of_shared_memory() -> None:
    """Slots are shared by many or held by one, closing gives them up, and the last to leave frees the memory."""
    with FaultyDisk({"a": b""}) as disk:
        one, other = (disk.open_file("a", 0) for _ in range(2))
        assert one.map_region(0, 4096, extend=False) == 0
        assert one.map_region(1, 4096, extend=True) == other.map_region(1, 4096, extend=False) != 0
        assert one.lock_slots(range(3, 4), shared=True)
        assert other.lock_slots(range(3, 4), shared=True)
        assert not other.lock_slots(range(2, 5), shared=False)
        assert one.lock_slots(range(2, 3), shared=False)
        assert not other.lock_slots(range(2, 3), shared=True)
        one.close()
        assert other.lock_slots(range(2, 3), shared=False)
        assert other.map_region(1, 4096, extend=False) != 0
        other.unmap_regions()
        assert other.map_region(1, 4096, extend=False) == 0
        other.close()


def test_a_connection_left_open_is_told() -> None:
    """Leaving a disk with a connection open is an error, and the connection can still be used and closed."""
    left: list[sqlite3.Connection] = []
    disk = FaultyDisk()
    with pytest.raises(AssertionError, match="still open"), disk:
        left.append(disk.connect())
    left[0].execute("PRAGMA journal_mode = WAL")
    left[0].execute("CREATE TABLE rows (number INTEGER)")
    left[0].close()
    assert ["main.db"] == list(disk.files)


def test_a_mistake_of_the_disk_is_told() -> None:
    """An exception inside a call is an I/O error for SQLite, and comes out where the disk is left."""

    def use_a_broken_disk() -> None:
        with FaultyDisk({"main.db": b""}) as disk, closing(disk.connect()) as connection:
            del disk._unsynced_names
            with pytest.raises(sqlite3.OperationalError):
                connection.execute("CREATE TABLE rows (number INTEGER)")

    with pytest.raises(AttributeError, match="_unsynced_names"):
        use_a_broken_disk()
