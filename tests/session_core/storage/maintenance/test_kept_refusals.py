"""A store and an export from when only the text for the model said why a call was denied, made once and kept."""

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest
import trio

from session_core.session.restore import restore
from session_core.storage.files import STORE_FILE
from session_core.storage.maintenance.export_import import import_session
from session_core.storage.maintenance.session_check import NOWHERE
from session_core.storage.maintenance.verify import verify_store
from session_core.storage.sqlite import SqliteStore
from session_core.storage.sqlite_reader import SqliteReader
from session_core.vocabulary.messages import Message, Refusal, ToolResultPart

KEPT = Path(__file__).resolve().parents[3] / "fixtures" / "refusals-v2"
"""Of format 2: a session with calls denied by a rule, an extension and a person, and its fork, where a call failed;
`session.jsonl` is the export of the fork. Never to be made again."""

DENIED = [
    Refusal(by="rule", reason="a rule in the configuration forbids it"),
    Refusal(by="extension", reason="gate: not this one"),
    Refusal(by="person"),
    Refusal(by="person", reason="not now,\nbut later"),
]
DENIED_IN_FORK = [*DENIED, None]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return home


def refusals_in(messages: Iterable[Message]) -> list[Refusal | None]:
    parts = (part for message in messages for part in message.parts)
    return [part.refusal for part in parts if isinstance(part, ToolResultPart)]


async def _load_refusals(home: Path) -> list[list[Refusal | None]]:
    found = []
    reader = SqliteReader(home)
    async with reader.open_reader():
        for summary in await reader.list_sessions():
            stored = await reader.load(summary.session_id)
            assert stored is not None
            found.append(refusals_in(restore(summary.session_id, stored).snapshot(NOWHERE).messages))
    return found


async def test_its_refusals_are_read(home: Path) -> None:
    """Each denied call of the kept store has its refusal, in the session and in its fork, and the store is sound."""
    shutil.copyfile(KEPT / STORE_FILE, home / STORE_FILE)

    assert [DENIED, DENIED_IN_FORK] == await _load_refusals(home)
    assert () == tuple(verify_store(home).findings)


async def test_its_refusals_are_imported(home: Path) -> None:
    """The kept export gives the same refusals."""
    lines = (await trio.Path(KEPT / "session.jsonl").read_bytes()).splitlines()

    await import_session(lines, SqliteStore(home), settings=None)

    assert [DENIED_IN_FORK] == await _load_refusals(home)
