"""Common slips and bad places: each gets one sentence that says what to do."""

import os
import shlex
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import trio
import trio.testing

from frontends.commands.run.options import RunOptions
from frontends.commands.run.run import converse
from frontends.commands.sessions import list_command
from frontends.shared.output import ReaderLeft
from frontends.shared.streams import StandardStreams
from session_core.testing import scripted
from session_core.testing.checked import open_checked_service
from tests.frontends._kept import keep, kept, kept_sessions, session_core
from tests.frontends._paper import NoSignals, Paper, config
from tests.frontends._program import interrupted_at

Said = pytest.CaptureFixture[str]
EVERY = [
    ("run", "count to 1"),
    ("sessions",),
    ("show", "abcd"),
    ("rename", "abcd", "x"),
    ("export", "abcd"),
    ("store", "verify"),
    ("store", "stats"),
]


# --- homes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", EVERY)
def test_a_home_without_access(
    home: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], capfd: Said
) -> None:
    """A home that may not be entered is one sentence about it, whatever was asked for."""
    home.mkdir(mode=0o000)
    if os.geteuid() == 0:  # whom no mode keeps out

        def by_mode(path: Path, _: int) -> bool:
            return path.stat().st_mode & 0o777 != 0

        monkeypatch.setattr(os, "access", by_mode)
    code = session_core(*arguments)
    home.chmod(0o700)

    sentence = f"the home '{home}' cannot be read: permission is denied; check its owner and mode"
    assert (1, "", f"session-core: {sentence}\n") == (code, *capfd.readouterr())


@pytest.mark.parametrize("arguments", EVERY)
def test_a_file_as_a_home(tmp_path: Path, arguments: tuple[str, ...], capfd: Said) -> None:
    """A file is no home."""
    place = tmp_path / "file"
    place.write_text("", encoding="utf-8")

    assert 1 == session_core(*arguments, "--home", str(place))
    assert f"session-core: the home '{place}' is not a folder\n" == capfd.readouterr().err


def test_a_place_that_cannot_be(tmp_path: Path, capfd: Said) -> None:
    """What can be no path, or lies below a file, is one sentence too."""
    (tmp_path / "file").write_text("", encoding="utf-8")

    assert 1 == session_core("sessions", "--home", str(tmp_path / "file" / "below"))
    assert "cannot be used: Not a directory\n" in capfd.readouterr().err
    assert 1 == session_core("sessions", "--home", "a\0b")
    assert "cannot be used: embedded null byte\n" in capfd.readouterr().err
    assert 1 == session_core("sessions", "--home", "~nobody-of-this-name")
    assert "the home '~nobody-of-this-name' names an unknown user\n" in capfd.readouterr().err


def test_hints_keep_the_home(tmp_path: Path, capfd: Said) -> None:
    """What is said to be typed next works on the home that was chosen."""
    other = tmp_path / "other"
    assert 0 == session_core("sessions", "--home", str(other))
    named = shlex.quote(str(other))
    assert f'Start one with: session-core run --home {named} "list the files"\n' in capfd.readouterr().err
    assert 2 == session_core("show", "--home", str(other), "abcd")
    assert f"(see: session-core sessions --home {named} --all)\n" in capfd.readouterr().err
    assert 2 == session_core("run", "--home", str(other), "--continue", "--cwd", "/")
    assert f"(see: session-core sessions --home {named})\n" in capfd.readouterr().err


# --- backups ----------------------------------------------------------------------------------------------------------


def test_a_backup_into_a_missing_directory(home: Path, tmp_path: Path, capfd: Said) -> None:
    """The directory that is missing is named."""
    keep(home, "count to 1")

    assert 2 == session_core("store", "backup", str(tmp_path / "no" / "copy"))
    said = capfd.readouterr().err
    assert f"session-core: there is no folder '{tmp_path / 'no'}' for the backup\n" == said


def test_a_backup_of_a_damaged_store(home: Path, tmp_path: Path, capfd: Said) -> None:
    """The copy is made all the same, and it is said that it is damaged."""
    keep(home, "count to 1")
    with closing(sqlite3.connect(home / "sessions.sqlite3")) as db:
        db.execute("UPDATE event SET payload = X'00' WHERE n = 2")
        db.commit()

    assert 1 == session_core("store", "backup", str(tmp_path / "copy"))
    out, err = capfd.readouterr()
    assert f"1 session saved in {tmp_path / 'copy'} (" in out
    assert "✗ the store is damaged, and so is this copy: see session-core store verify\n" == err


def test_back_to_a_backup(home: Path, tmp_path: Path, capfd: Said) -> None:
    """`store restore` brings back what a backup holds, keeps what was there, and works for a home that is new."""
    keep(home, "count to 1")
    copy = str(tmp_path / "copy")
    session_core("store", "backup", copy)
    session_core("delete", "--yes", "count to 1")
    capfd.readouterr()
    assert 0 == session_core("store", "restore", copy)
    first, second = capfd.readouterr().out.splitlines()
    assert first.startswith(f"1 session restored into {home} (")
    assert Path(second.removeprefix("The old store is kept: ")).is_file()
    assert ["count to 1"] == list(kept(home))
    new = tmp_path / "new"
    assert 0 == session_core("store", "restore", copy, "--home", str(new))

    assert 1 == capfd.readouterr().out.count("\n")
    assert ["count to 1"] == list(kept(new))


def test_restoring_what_is_no_file(home: Path, tmp_path: Path, capfd: Said) -> None:
    """A backup that is missing, or is no file, is refused before anything is touched."""
    assert 2 == session_core("store", "restore", str(tmp_path / "nothing"))
    assert f"session-core: there is no '{tmp_path / 'nothing'}'\n" == capfd.readouterr().err
    assert 2 == session_core("store", "restore", str(tmp_path))
    assert f"session-core: '{tmp_path}' is not a file\n" == capfd.readouterr().err
    assert not home.exists()


# --- searching --------------------------------------------------------------------------------------------------------


def test_a_search_finds_names(home: Path, capfd: Said) -> None:
    """A session is found by its name, although nobody has said these words."""
    (one,) = keep(home, "count to 1")
    session_core("rename", one, "the parser")
    capfd.readouterr()

    assert 0 == session_core("sessions", "--search", "PARS the")
    assert (f"{one[-4:]}  the parser  just now\n", "") == tuple(capfd.readouterr())


def test_a_search_tells_what_is_left(home: Path, monkeypatch: pytest.MonkeyPatch, capfd: Said) -> None:
    """A search that was cut says how many messages more there are, or that there are many."""
    keep(home, "count to 1", "count to 2", "count to 3")
    assert 0 == session_core("sessions", "--search", "done", "--limit", "1")
    out, err = capfd.readouterr()
    assert (2, "and 2 more (--limit 3)\n") == (out.count("\n"), err)
    monkeypatch.setattr(list_command, "COUNTED_BEYOND", 1)
    session_core("sessions", "--search", "done", "--limit", "1")

    assert "and at least 1 more (--limit 2)\n" == capfd.readouterr().err


# --- going on ---------------------------------------------------------------------------------------------------------


def test_changes_for_good_are_told(home: Path, tmp_path: Path, capfd: Said) -> None:
    """Another directory and the way back from the archive are told once, and not when nothing changes."""
    (one,) = keep(home, "count to 1")
    session_core("archive", one)
    capfd.readouterr()
    moving = ("run", "--session", one, "--cwd", str(tmp_path), "count to 2")
    assert 0 == session_core(*moving)
    told = capfd.readouterr().err
    assert f"\n{one[-4:]} now works in {tmp_path}.\n" in told
    assert f"\n{one[-4:]} was archived; it is back in the list.\n" in told
    assert 0 == session_core(*moving)

    again = capfd.readouterr().err
    assert "now works in" not in again
    assert "archived" not in again


class Gone(Paper):
    """An output nobody reads any more."""

    async def write(self, data: str | bytes) -> None:
        await trio.lowlevel.checkpoint()
        if data:
            raise ReaderLeft


async def test_the_end_of_a_line_before_a_complaint(autojump_clock: trio.testing.MockClock) -> None:
    """When the reader of the answer leaves in the middle of a thought, its line on stderr is ended."""
    streams = StandardStreams(out=Gone(), err=Paper())
    provider = scripted.ScriptedProvider(scripted.text("Yes.", thinking="hm"))
    with pytest.RaisesGroup(ReaderLeft, flatten_subgroups=True, allow_unwrapped=True):
        async with open_checked_service(config(provider)) as service:
            await converse(service, RunOptions(prompt="one"), streams, NoSignals())

    assert isinstance(streams.err, Paper)
    assert streams.err.text.endswith("hm\n")


@pytest.mark.slow
async def test_leaving_in_the_middle_of_a_line() -> None:
    """A program that is asked to end leaves no half line, and says that its turn was interrupted."""
    ended = await interrupted_at("3 ", "run", "--no-save", "count to 1000 slowly", number=signal.SIGTERM)

    assert 143 == ended.code
    assert ended.out.endswith("\n")
    assert ended.err.endswith("Numbers, one by one.\n✗ interrupted: this program was asked to end\n")


@pytest.mark.slow
async def test_going_on_after_a_request_to_end(home: Path) -> None:
    """Where sessions are kept, a program that is asked to end says how to go on, and the partial answer is there."""
    ended = await interrupted_at("3 ", "run", "count to 1000 slowly", number=signal.SIGTERM)
    (session,) = (await kept_sessions(home)).values()

    assert (143, "interrupted") == (ended.code, session.activity.name)
    assert "✗ interrupted: this program was asked to end; the conversation is kept\nContinue with: " in ended.err
