"""A store that was made once and is kept: whatever becomes of the program, it must be able to read it."""

import shutil
from pathlib import Path

import pytest

from session_core.service.config import ServiceConfig
from session_core.service.service import open_session_service
from session_core.session.restore import restore
from session_core.storage.files import STORE_FILE
from session_core.storage.maintenance.rebuild import rebuild_store
from session_core.storage.maintenance.session_check import NOWHERE
from session_core.storage.maintenance.verify import verify_store
from session_core.storage.schema import OLDEST_READABLE, VERSION
from session_core.storage.sqlite import SqliteStore
from session_core.storage.sqlite_reader import SqliteReader
from session_core.testing.scripted import ScriptedProvider, text
from session_core.vocabulary.snapshots import SessionSnapshot
from session_core.wire.codec import decode
from tests.session_core.storage.maintenance._stores import contents_of, said

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"
"""One store of each format, made by `make_store`; `expected.jsonl` has the snapshot of each session, oldest first.
Never to be made again."""


@pytest.fixture(params=range(OLDEST_READABLE, VERSION + 1))
def kept(request: pytest.FixtureRequest) -> Path:
    return FIXTURES / f"store-v{request.param}"


@pytest.fixture
def kept_home(tmp_path: Path, kept: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    shutil.copyfile(kept / STORE_FILE, home / STORE_FILE)
    return home


@pytest.fixture
def expected(kept: Path) -> list[SessionSnapshot]:
    lines = (kept / "expected.jsonl").read_bytes().splitlines()
    # When they were written down, the permission mode was called a tier.
    return [decode(line.replace(b'"permission_tier"', b'"permission_mode"'), SessionSnapshot) for line in lines]


async def test_it_reads_as_it_did(kept_home: Path, expected: list[SessionSnapshot]) -> None:
    """Every session of the kept store gives the snapshot that was written down beside it."""
    reader = SqliteReader(kept_home)
    found = []
    async with reader.open_reader():
        for summary in await reader.list_sessions():
            stored = await reader.load(summary.session_id)
            assert stored is not None
            found.append(restore(summary.session_id, stored).snapshot(NOWHERE))
        hits = await reader.search("something other", limit=10)

    assert found == expected
    assert [hit.excerpt for hit in hits] == ["Tell me something other."]


def test_it_is_sound(kept_home: Path, expected: list[SessionSnapshot]) -> None:
    """The kept store has no faults, before and after it was rebuilt, and stays the same by it."""
    assert verify_store(kept_home).findings == ()

    report = rebuild_store(kept_home)

    assert (report.sessions, report.repaired, report.lost) == (len(expected), (), ())
    assert list(contents_of(kept_home).loaded.values()) == expected
    assert verify_store(kept_home).findings == ()


async def test_a_service_goes_on_with_it(kept_home: Path, expected: list[SessionSnapshot]) -> None:
    """A service can open the kept store, go on with each session, and leave a sound store."""
    provider = ScriptedProvider(*(text(f"answer {number}") for number in range(len(expected))))
    models = {"scripted": provider}

    config = ServiceConfig(models=models, store=SqliteStore(kept_home), wakeups=False)  # one of them is long due
    async with open_session_service(config) as service:
        for number, before in enumerate(expected):
            await said(service, before.session_id, "Go on.")
            after = await service.load_session(before.session_id)
            assert after.messages[: len(before.messages)] == tuple(before.messages)
            assert after.messages[-1].text == f"answer {number}"

    assert verify_store(kept_home).findings == ()
