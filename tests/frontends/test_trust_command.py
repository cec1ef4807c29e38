"""`session-core trust`: which files count, and who has said so."""

from pathlib import Path

import pytest

import session_core as sc
from frontends.console.style import Style
from frontends.settings.trusting import file_lines
from tests.frontends._kept import session_core

Said = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project that brings instructions along."""
    made = tmp_path / "project"
    made.mkdir()
    (made / "AGENTS.md").write_text("Be brief.", encoding="utf-8")
    return made


def test_from_trust_to_distrust(home: Path, folder: Path, capfd: Said) -> None:
    """A folder is trusted by --yes as it is, not any more after a change, and not after --remove."""
    assert 0 == session_core("trust", str(folder), "--yes")
    assert f"✓ {folder} is trusted, until one of these files changes.\n" == capfd.readouterr().out
    assert sc.trusted_project(home, folder) is not None

    assert 0 == session_core("trust", str(folder), "--yes")
    assert "is trusted already" in capfd.readouterr().out
    assert 0 == session_core("trust", str(folder), "--list")
    assert f"  AGENTS.md\n✓ {folder} is trusted with these files as they are now.\n" == capfd.readouterr().out

    (folder / "AGENTS.md").write_text("Be long.", encoding="utf-8")
    assert 0 == session_core("trust", str(folder), "--list")
    assert f"■ {folder} is not trusted: these files are not used.\n" in capfd.readouterr().out

    session_core("trust", str(folder), "--yes")
    assert 0 == session_core("trust", str(folder), "--remove")
    assert capfd.readouterr().out.endswith(f"{folder} is not trusted any more.\n")
    assert sc.trusted_project(home, folder) is None


def test_nobody_to_ask(home: Path, folder: Path, capfd: Said) -> None:
    """Without a terminal and without --yes nothing is trusted."""
    assert 2 == session_core("trust", str(folder))
    assert "trust asks first, and there is no terminal to ask on" in capfd.readouterr().err
    assert sc.trusted_project(home, folder) is None


def test_a_folder_that_brings_nothing(home: Path, tmp_path: Path, capfd: Said) -> None:
    """Where nothing would count there is nothing to trust, and no home is made for it."""
    empty = tmp_path / "empty"
    empty.mkdir()

    assert 0 == session_core("trust", str(empty))
    assert f"There is nothing to trust in {empty}: " in capfd.readouterr().out
    assert 0 == session_core("trust", str(empty), "--list")
    assert "brings nothing along" in capfd.readouterr().out
    assert not home.exists()


def test_too_much_to_trust(folder: Path, capfd: Said) -> None:
    """What nobody can have looked at cannot be trusted, and is told in one line."""
    (folder / "AGENTS.md").write_bytes(b"x" * (5 * 1024 * 1024))

    assert 1 == session_core("trust", str(folder), "--yes")
    said = capfd.readouterr().err
    assert f"{folder} cannot be trusted: the file 'AGENTS.md' is larger than" in said
    assert 1 == said.count("\n")


def test_many_files_are_counted() -> None:
    """A long list is cut with the number of the rest, and names cannot steer the terminal."""
    found = sc.Fingerprint(digest="d", files=tuple((f".agents/\x1b[31m{n}", "x") for n in range(103)))
    lines = file_lines(Style(), found)

    assert ("  .agents/0", "  and 3 more files", 101) == (lines[0], lines[-1], len(lines))
