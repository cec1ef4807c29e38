"""`session-core ext logs`: the end of what an extension has said."""

from pathlib import Path

import pytest
import trio

import session_core as sc
from frontends.commands.extensions.logs import log_file
from tests.frontends._extensions import make_extension
from tests.frontends._kept import session_core

Said = pytest.CaptureFixture[str]


def write(home: Path, name: str, text: str) -> Path:
    file = log_file(home, name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def test_the_last_lines(home: Path, capfd: Said) -> None:
    """As many lines as asked for are printed, from the older file too, whether the extension still exists or not."""
    file = write(home, "gate", "c\nd\n")
    file.with_name("gate.log.1").write_text("a\nb\n", encoding="utf-8")

    assert 0 == session_core("ext", "logs", "gate")
    assert "a\nb\nc\nd\n" == capfd.readouterr().out
    assert 0 == session_core("ext", "logs", "gate", "--lines", "3")
    assert "b\nc\nd\n" == capfd.readouterr().out


async def test_what_the_host_writes(home: Path, capfd: Said) -> None:
    """The log that a host keeps is the one that is printed."""
    log = sc.extensions.ExtensionLog(log_file(home, "gate"), now=lambda: 0)
    log.note("stderr", "out of paper")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.write_lines)
        written = log_file(home, "gate")
        with trio.fail_after(300):
            while not written.exists() or not written.read_text().endswith("\n"):  # noqa: ASYNC110 - a thread writes it
                await trio.sleep(0.01)
        nursery.cancel_scope.cancel()

    assert 0 == await trio.to_thread.run_sync(session_core, "ext", "logs", "gate")
    assert "1970-01-01T00:00:00.000+00:00 stderr: out of paper\n" == capfd.readouterr().out


def test_it_cannot_steer_the_terminal(home: Path, capfd: Said) -> None:
    """Escape codes, bells and marks that turn the direction of text are harmless when they are printed."""
    write(home, "gate", "a\x1b[31mb\x07\u202ec\x9bd\n\x1b]0;never ended\nlast\n")

    assert 0 == session_core("ext", "logs", "gate")
    assert ["ab<U+202E>c", "", "last"] == capfd.readouterr().out.splitlines()


def test_one_that_is_silent(home: Path, capfd: Said) -> None:
    """An extension without a log is told apart from one that does not exist."""
    make_extension(home / "extensions", "gate")

    assert 0 == session_core("ext", "logs", "gate")
    told = capfd.readouterr()
    assert ("", True) == (told.out, told.err.startswith("● gate has logged nothing yet; its log will be "))
    assert 2 == session_core("ext", "logs", "nope")
    assert "there is no extension called 'nope', and no log of one" in capfd.readouterr().err


@pytest.mark.parametrize("name", ["../../trust", "/etc/passwd", "Gate", "", "a.b"])
def test_a_name_is_no_path(home: Path, name: str, capfd: Said) -> None:
    """Only what may be the name of an extension is looked for."""
    write(home, "gate", "x\n")

    assert 2 == session_core("ext", "logs", name)
    assert "cannot be the name of an extension" in capfd.readouterr().err


def test_only_an_ordinary_file_is_read(home: Path, tmp_path: Path, capfd: Said) -> None:
    """A link or a folder in the place of a log is refused."""
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    file = write(home, "gate", "")
    file.unlink()
    file.symlink_to(tmp_path / "secret")

    assert 1 == session_core("ext", "logs", "gate")
    told = capfd.readouterr()
    assert ("", True) == (told.out, "cannot be read: it is a link" in told.err)
    file.unlink()
    file.mkdir()
    assert 1 == session_core("ext", "logs", "gate")
    assert "is not an ordinary file" in capfd.readouterr().err


def test_those_of_a_project_have_logs_of_their_own(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Said
) -> None:
    """In the folder of a project the log of its extension is shown, and elsewhere that of one of the same name."""
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    elsewhere.mkdir()
    lies = make_extension(project / ".session-core" / "extensions", "gate")
    monkeypatch.chdir(project)
    session_core("trust", "--yes")
    session_core("ext", "trust", str(lies), "--yes")
    places = sc.extensions.build_search_paths(home, project, {}, trusted=True)
    found = sc.extensions.discover_in(places, sc.extensions.Consents(home / sc.extensions.CONSENT_FILE)).find("gate")
    assert found is not None
    write(home, found.owner, "of the project\n")
    write(home, "gate", "of the user\n")
    capfd.readouterr()

    session_core("ext", "logs", "gate")
    monkeypatch.chdir(elsewhere)
    session_core("ext", "logs", "gate")
    assert "of the project\nof the user\n" == capfd.readouterr().out
