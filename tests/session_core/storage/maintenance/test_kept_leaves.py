"""What code has left behind survives everything that is done to a store: migration, check, rebuild, backup, export."""

import json
import shutil
from collections.abc import Collection, Mapping
from hashlib import blake2b
from pathlib import Path

import pytest

from session_core.errors import StoreDamaged
from session_core.ids import SessionId
from session_core.storage.executor_state import leaf_digests
from session_core.storage.files import STORE_FILE
from session_core.storage.maintenance.export_import import import_session
from session_core.storage.maintenance.findings import LEAVES_MISSING
from session_core.storage.maintenance.rebuild import rebuild_store
from session_core.storage.maintenance.store_files import backup_store, compact_store, restore_store, store_statistics
from session_core.storage.maintenance.verify import verify_store
from session_core.storage.memory import MemoryStore
from session_core.storage.schema import LEAVES_SINCE, OLDEST_READABLE, VERSION
from session_core.storage.sqlite import SqliteStore
from session_core.storage.sqlite_reader import SqliteReader
from session_core.testing.check_store_leaves import build_leaves, save
from session_core.testing.check_store_world import open_live_sessions
from tests.session_core.storage.maintenance._exports import exported, refusal
from tests.session_core.storage.maintenance._stores import LEAVES, change

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"
DIGEST = min(LEAVES)


@pytest.fixture
async def home(tmp_path: Path) -> Path:
    """A home with one session that has left something behind, and another one beside it."""
    folder = tmp_path / "kept"
    async with open_live_sessions(SqliteStore(folder)) as live:
        live.say(live.create("beside"), "hello")
        session_id = live.create("with leaves")
        save(live, session_id, build_leaves(b"of an earlier state"))
        save(live, session_id, LEAVES)
    return folder


async def session_in(home: Path) -> SessionId:
    reader = SqliteReader(home)
    async with reader.open_reader():
        return next(each.session_id for each in await reader.list_sessions() if each.name == "with leaves")


async def leaves_in(home: Path) -> dict[str, bytes]:
    reader = SqliteReader(home)
    async with reader.open_reader():
        return dict(await reader.load_leaves(await session_in(home), LEAVES))


def damage(home: Path) -> None:
    change(home, "UPDATE leaf SET data = CAST(data || 'x' AS BLOB) WHERE hex(digest) = ?", DIGEST.upper())


def found(home: Path) -> list[tuple[str, str]]:
    return [(each.severity, each.what) for each in verify_store(home).findings]


# --- a store as a whole -----------------------------------------------------------------------------------------------


async def test_a_sound_store_is_kept_as_it_is(home: Path, tmp_path: Path) -> None:
    """A check finds nothing wrong; rebuild, compaction, backup and restore keep every leaf, and no earlier one."""
    assert [] == found(home)
    report = rebuild_store(home)
    assert ((), (), None) == (report.repaired, report.lost, report.damaged)
    compact_store(home)
    assert not backup_store(home, tmp_path / "copy").damaged
    restore_store(tmp_path / "new", tmp_path / "copy")
    assert LEAVES == await leaves_in(tmp_path / "new")
    assert [] == found(tmp_path / "new")
    statistics = store_statistics(tmp_path / "new")
    assert (len(LEAVES), sum(map(len, LEAVES.values()))) == (statistics.leaves, statistics.leaf_bytes)


async def test_a_damaged_leaf_is_found_and_only_that_one_is_lost(home: Path, tmp_path: Path) -> None:
    """A leaf that is not what was written is an error and spoils a backup; a rebuild keeps the others, and says so."""
    damage(home)
    assert [("error", "a part of its saved code state is not what was written")] == found(home)
    assert backup_store(home, tmp_path / "bad copy").damaged
    report = rebuild_store(home)
    lost = f'"with leaves" ({await session_in(home)}): 1 {LEAVES_MISSING}; clear its context to restart its code'
    assert (lost,) == report.lost
    assert {digest: data for digest, data in LEAVES.items() if digest != DIGEST} == await leaves_in(home)
    assert [("warning", f"1 {LEAVES_MISSING}")] == found(home)
    backup_store(home, tmp_path / "copy")
    assert 2 == restore_store(tmp_path / "new", tmp_path / "copy").sessions


async def test_leaves_without_a_state_go(home: Path) -> None:
    """Leaves that no state names, or of no session, are told, and a rebuild drops them."""
    change(home, "INSERT INTO leaf SELECT id, zeroblob(32), x'' FROM session WHERE name = 'beside'")
    change(home, "INSERT INTO leaf SELECT 99, digest, data FROM leaf WHERE hex(digest) = ?", DIGEST.upper())
    said = "\n".join(what for _, what in found(home))
    assert "1 parts of its saved code state are no longer used" in said
    assert "1 rows of leaf belong to no session" in said
    assert () == rebuild_store(home).lost
    assert [] == found(home)
    assert LEAVES == await leaves_in(home)


async def test_leaves_are_found_in_raw_pages(home: Path) -> None:
    """Leaves that SQLite cannot reach any more, as their table is out of its sight, are found in the pages."""
    change(home, "PRAGMA wal_checkpoint(TRUNCATE)")
    image = (home / STORE_FILE).read_bytes()
    (home / STORE_FILE).write_bytes(image.replace(b"CREATE TABLE leaf (", b"CREATE TABLE l\x00af ("))
    assert not verify_store(home).ok
    report = rebuild_store(home)
    assert () == report.lost
    assert LEAVES == await leaves_in(home)
    assert [] == found(home)


@pytest.mark.parametrize("version", range(OLDEST_READABLE, LEAVES_SINCE))
async def test_an_older_store_is_sound_and_gets_the_table(tmp_path: Path, version: int) -> None:
    """A store from before there were leaves is read, checked and copied as it is, and keeps leaves once written to."""
    home = tmp_path / "old"
    home.mkdir(mode=0o700)
    shutil.copyfile(FIXTURES / f"store-v{version}" / STORE_FILE, home / STORE_FILE)
    assert verify_store(home).ok
    assert (0, 0) == (store_statistics(home).leaves, store_statistics(home).leaf_bytes)
    assert not backup_store(home, tmp_path / "copy").damaged
    reader = SqliteReader(home)
    async with reader.open_reader():
        session_id = (await reader.list_sessions())[0].session_id
        assert {} == await reader.load_leaves(session_id, LEAVES)
    async with open_live_sessions(SqliteStore(home)) as live:
        await live.load_session(session_id)
        save(live, session_id, LEAVES)
        assert LEAVES == await live.store.load_leaves(session_id, LEAVES)
    assert () == verify_store(home).findings


async def test_leaves_of_the_kept_store_read_as_they_did(tmp_path: Path) -> None:
    """The leaves in the store that was kept of format 3 come back as they were written then."""
    home = tmp_path / "kept store"
    home.mkdir(mode=0o700)
    shutil.copyfile(FIXTURES / f"store-v{LEAVES_SINCE}" / STORE_FILE, home / STORE_FILE)
    async with open_live_sessions(SqliteStore(home)) as live:
        states = [await live.load_session(each.session_id) for each in live.opened.summaries]
        (state,) = (each for each in states if each.executor is not None)
        assert frozenset(LEAVES) == leaf_digests(state.executor)
        assert LEAVES == await live.store.load_leaves(state.session_id, LEAVES)
    assert VERSION >= LEAVES_SINCE


# --- one session as a file --------------------------------------------------------------------------------------------


async def lines_of(home: Path) -> list[bytes]:
    reader = SqliteReader(home)
    session_id = await session_in(home)
    async with reader.open_reader():
        return await exported(reader, session_id)


def signed(lines: list[bytes]) -> list[bytes]:
    """Give lines a last one that fits them."""
    events = sum(b'"type":"session_event"' in line for line in lines)
    digest = blake2b(b"".join(lines), digest_size=32).hexdigest()
    return [*lines, json.dumps({"type": "end", "events": events, "digest": digest}, separators=(",", ":")).encode()]


@pytest.mark.parametrize("as_new", [False, True])
async def test_leaves_travel_with_their_session(home: Path, tmp_path: Path, *, as_new: bool) -> None:
    """An export holds the leaves of the newest state, an import brings them back, and a further export is the same."""
    lines = await lines_of(home)
    assert sorted(LEAVES) == [json.loads(line)["digest"] for line in lines if b'"type":"leaf"' in line]
    report = await import_session(lines, SqliteStore(tmp_path / "new"), as_new=as_new, settings=None)
    assert as_new == (report.session_id != await session_in(home))
    assert LEAVES == await leaves_in(tmp_path / "new")
    assert [] == found(tmp_path / "new")
    if not as_new:
        assert lines[1:-1] == (await lines_of(tmp_path / "new"))[1:-1]


async def test_an_older_export_is_imported_without_leaves(home: Path, tmp_path: Path) -> None:
    """An export of version 1, which has no leaves, is imported; the check says that they are missing."""
    header, *others = [line for line in (await lines_of(home))[:-1] if b'"type":"leaf"' not in line]
    lines = signed([header.replace(b'"version":2', b'"version":1'), *others])
    await import_session(lines, SqliteStore(tmp_path / "new"), settings=None)
    assert {} == await leaves_in(tmp_path / "new")
    assert [("warning", f"{len(LEAVES)} {LEAVES_MISSING}")] == found(tmp_path / "new")
    assert 0 == sum(b'"type":"leaf"' in line for line in await lines_of(tmp_path / "new"))


async def test_wrong_leaves_are_refused(home: Path, tmp_path: Path) -> None:
    """A leaf that is changed, doubled, not named, in a wrong place or of a wrong version is refused by its line."""
    *lines, _ = await lines_of(home)
    start = next(place for place, line in enumerate(lines) if b'"type":"leaf"' in line)
    leaf, number = lines[start], start + 1
    stranger = leaf.replace(DIGEST.encode(), b"00" * 32)
    cases = {
        f"line {number}: this part of the saved code state does not match its digest": [stranger],
        f"line {number}: this is not a part of the saved code state": [b'{"type":"leaf","data":7}\n'],
        f"line {number + 1}: this part of the saved code state is not used": [leaf, leaf],
        f"line {number + 1}: the saved code state comes last": [
            leaf,
            lines[start - 1].replace(b'"sseq":', b'"sseq":9'),
        ],
    }
    for sentence, wrong in cases.items():
        error = await refusal(signed([*lines[:start], *wrong]), tmp_path / "new")
        assert error.message.startswith(sentence)
    early = await refusal(signed([*lines[:2], leaf]), tmp_path / "new")
    assert "is not used, or came before" in early.message
    old = lines[0].replace(b'"version":2', b'"version":1')
    assert "this is not an event" in (await refusal(signed([old, *lines[1:]]), tmp_path / "new")).message


async def test_a_damaged_leaf_is_not_exported(home: Path) -> None:
    """An export of a session with a damaged leaf fails, as one with a damaged record does."""
    damage(home)
    with pytest.raises(StoreDamaged, match="code state is not what was written"):
        await lines_of(home)


async def test_an_export_beside_a_running_session_finds_the_leaves_of_its_end(tmp_path: Path) -> None:
    """When a session goes on while it is exported, and its leaves with it, the export goes on to the newer state."""

    newer: list[dict[str, bytes]] = []

    class GoesOn(MemoryStore):
        """Lets the session save another state between the journal and its leaves, once."""

        async def load_leaves(self, session_id: SessionId, digests: Collection[str]) -> Mapping[str, bytes]:
            if newer:
                save(live, session_id, newer.pop())
            return await super().load_leaves(session_id, digests)

    store = GoesOn()
    async with open_live_sessions(store) as live:
        session_id = live.create("with leaves")
        save(live, session_id, build_leaves(b"of an earlier state"))
        newer.append(LEAVES)
        lines = await exported(store, session_id)
    await import_session(lines, SqliteStore(tmp_path / "new"), settings=None)
    assert LEAVES == await leaves_in(tmp_path / "new")
