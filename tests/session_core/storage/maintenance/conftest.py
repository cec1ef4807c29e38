"""Stores made once, and copied for each test; sessions that were exported."""

import shutil
from pathlib import Path

import pytest
import trio

from session_core.service.service import open_session_service
from session_core.session.restore import restore
from session_core.storage.memory import MemoryStore
from session_core.storage.sqlite_reader import SqliteReader
from session_core.testing.scripted import text
from tests.session_core.service._helpers import new_session, say, scripted
from tests.session_core.storage.maintenance._exports import CURSOR, Exported, exported, exports_of, passing_of
from tests.session_core.storage.maintenance._stores import Contents, contents_of, make_interrupted_store, make_store


@pytest.fixture(scope="session")
def made_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that is not to be changed."""
    home = tmp_path_factory.mktemp("made") / "home"
    trio.run(make_store, home)
    return home


@pytest.fixture
def home(made_store: Path, tmp_path: Path) -> Path:
    """A home with three sessions, for this test alone."""
    copy = tmp_path / "home"
    shutil.copytree(made_store, copy)
    return copy


@pytest.fixture
def contents(home: Path) -> Contents:
    """What is in that home before the test does anything to it."""
    return contents_of(home)


@pytest.fixture(scope="session")
def made_interrupted_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that is not to be changed either."""
    folder = tmp_path_factory.mktemp("made")
    trio.run(make_interrupted_store, folder / "running", folder / "interrupted")
    return folder / "interrupted"


@pytest.fixture
def interrupted_home(made_interrupted_store: Path, tmp_path: Path) -> Path:
    """A home as a crash leaves it: a write-ahead log, and half an answer."""
    copy = tmp_path / "interrupted"
    shutil.copytree(made_interrupted_store, copy)
    return copy


@pytest.fixture
async def small() -> Exported:
    """A short session with an answer and letters from everywhere."""
    store = MemoryStore()
    async with open_session_service(scripted(text("grüße, 世界 🙂"), store=store)) as service:
        await say(service, await new_session(service, name="ein Beispiel"), 'say "hi"\n\u2028')
    (one,) = await exports_of(store)
    return one


@pytest.fixture
async def half(interrupted_home: Path) -> Exported:
    """A session as a crash left it, in the middle of an answer."""
    store = SqliteReader(interrupted_home)
    async with store.open_reader():
        (summary,) = await store.list_sessions()
        stored = await store.load(summary.session_id)
        assert stored is not None
        snapshot = restore(summary.session_id, stored).snapshot(CURSOR)
        lines = await exported(store, summary.session_id)
    return Exported(lines=lines, summary=summary, snapshot=snapshot, events=len(lines) - 2 - len(passing_of(lines)))
