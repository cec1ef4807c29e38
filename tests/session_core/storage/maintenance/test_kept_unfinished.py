"""A store whose service was killed in the middle of an answer, made once and kept: the half answer is still read."""

import shutil
from pathlib import Path

import pytest

from session_core.session.restore import restore
from session_core.storage.files import STORE_FILE
from session_core.storage.maintenance.session_check import NOWHERE
from session_core.storage.maintenance.verify import verify_store
from session_core.storage.sqlite_reader import SqliteReader

KEPT = Path(__file__).resolve().parents[3] / "fixtures" / "unfinished-v1" / STORE_FILE
"""With records of format 1. Never to be made again."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    shutil.copyfile(KEPT, home / STORE_FILE)
    return home


async def test_a_half_answer_is_read(home: Path) -> None:
    """What the model had said when its service was killed is in the session, although the format has changed since."""
    reader = SqliteReader(home)
    async with reader.open_reader():
        [summary] = await reader.list_sessions()
        stored = await reader.load(summary.session_id)
    assert stored is not None
    partial = restore(summary.session_id, stored).snapshot(NOWHERE).partial

    assert partial is not None
    assert "1 2 3 4 5 6 7 8" in str(partial.parts[-1].text)


def test_a_half_answer_is_no_damage(home: Path) -> None:
    """A check of the store finds nothing wrong with it."""
    assert () == tuple(verify_store(home).findings)
