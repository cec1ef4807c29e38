"""An export that was made once and is kept: whatever becomes of the program, it must be able to import it."""

from pathlib import Path

import trio

from session_core.session.restore import restore
from session_core.storage.maintenance.export_import import export_session, import_session
from session_core.storage.maintenance.session_check import NOWHERE
from session_core.storage.sqlite import SqliteStore
from session_core.storage.sqlite_reader import SqliteReader
from session_core.vocabulary.snapshots import SessionSnapshot

KEPT = Path(__file__).resolve().parents[3] / "fixtures" / "export-v1" / "session.jsonl"
"""Of format 1, with a change of the permission mode, which was called a tier then. Never to be made again."""


async def _import(home: Path) -> tuple[SessionSnapshot, bytes]:
    """Import the kept file into a new home; return the session and a new export of it."""
    await trio.Path(home).mkdir(mode=0o700)
    report = await import_session((await trio.Path(KEPT).read_bytes()).splitlines(), SqliteStore(home), settings=None)
    reader = SqliteReader(home)
    async with reader.open_reader():
        stored = await reader.load(report.session_id)
        lines = [line async for line in export_session(reader, report.session_id)]
    assert stored is not None
    return restore(report.session_id, stored).snapshot(NOWHERE), b"".join(lines)


async def test_it_is_imported_as_it_was(tmp_path: Path) -> None:
    """The kept export gives its conversation, and its permission mode under today's name."""
    snapshot, _ = await _import(tmp_path / "home")

    assert "full" == snapshot.settings.permission_mode
    assert ["hello there", "and again"] == [each.text for each in snapshot.messages if each.role == "user"]


async def test_it_is_exported_in_the_words_of_today(tmp_path: Path) -> None:
    """What was imported from an older format is exported in today's, which knows nothing of tiers."""
    _, written = await _import(tmp_path / "home")

    assert b"permission_mode_changed" in written
    assert b"tier" not in written
