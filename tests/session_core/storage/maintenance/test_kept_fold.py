"""A store with a state that an earlier fold saved, made once and kept: the records decide, not that state."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from session_core.ids import SessionId
from session_core.service.config import ServiceConfig
from session_core.service.service import open_session_service
from session_core.session.restore import restore
from session_core.storage.files import STORE_FILE
from session_core.storage.maintenance.rebuild import rebuild_store
from session_core.storage.maintenance.session_check import NOWHERE
from session_core.storage.maintenance.verify import verify_store
from session_core.storage.records import FOLD, checksum, decompress_payload
from session_core.storage.sqlite import SqliteStore
from session_core.storage.sqlite_reader import SqliteReader
from session_core.testing.scripted import ScriptedProvider, text
from session_core.vocabulary.snapshots import SessionSnapshot
from session_core.wire.codec import decode
from tests.session_core.storage.maintenance._stores import said

KEPT = Path(__file__).resolve().parents[3] / "fixtures" / "fold-7" / STORE_FILE
"""One session, in which a person allowed three long lines until its end; fold 7 remembered all of them, however long.
Never to be made again."""

FIRST, SECOND, THIRD = (f"run Python in /srv: {letter * 99_000}" for letter in "abc")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    shutil.copyfile(KEPT, home / STORE_FILE)
    return home


def saved_state(home: Path, fold: int) -> SessionSnapshot:
    """Return the only saved state of a store; it must have been saved by this fold."""
    with closing(sqlite3.connect(home / STORE_FILE)) as db:
        ((name, n, crc, payload),) = db.execute(
            "SELECT session_id, n, checksum, payload FROM state JOIN session ON session.id = state.session"
        )
    assert checksum(SessionId(name), n, payload, written_as=fold) == crc, "it was saved by another fold"
    return decode(decompress_payload(payload), SessionSnapshot)


async def test_its_state_is_folded_again(home: Path) -> None:
    """Long grants for which a session has no room are not remembered, although the saved state has them."""
    assert (FIRST, SECOND, THIRD) == saved_state(home, 7).grants
    reader = SqliteReader(home)
    async with reader.open_reader():
        (summary,) = await reader.list_sessions()
        stored = await reader.load(summary.session_id)
    assert stored is not None
    assert stored.snapshot is None
    assert (FIRST, SECOND) == restore(summary.session_id, stored).snapshot(NOWHERE).grants


def test_a_rebuilt_store_has_the_new_state(home: Path) -> None:
    """The store is sound, and once it is rebuilt, its saved state is that of today's fold."""
    assert () == tuple(verify_store(home).findings)
    rebuild_store(home)
    assert (FIRST, SECOND) == saved_state(home, FOLD).grants
    assert () == tuple(verify_store(home).findings)


async def test_a_service_goes_on_with_it(home: Path) -> None:
    """A service opens the session as its records fold today, and goes on with it."""
    config = ServiceConfig(models={"scripted": ScriptedProvider(text("fine"))}, store=SqliteStore(home))
    async with open_session_service(config) as service:
        (summary,) = (await service.load_service()).sessions
        before = await service.load_session(summary.session_id)
        assert (FIRST, SECOND) == before.grants
        await service.switch_model(summary.session_id, "scripted")
        await said(service, summary.session_id, "Go on.")
        assert "fine" == (await service.load_session(summary.session_id)).messages[-1].text
    assert () == tuple(verify_store(home).findings)
