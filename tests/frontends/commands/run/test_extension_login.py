"""`session-core ext login`: an extension logs somebody in, and what it gets is kept."""

import json
import sys
from pathlib import Path

import pytest

import session_core as sc
from tests.frontends._kept import session_core

Said = pytest.CaptureFixture[str]
SOURCE = """
from session_core.sep.sdk import Credentials, Extension
ext = Extension("gate")
words = ext.provider("words", models=["m"])(lambda ctx, request: "")
open_to_all = ext.provider("free", models=["m"])(lambda ctx, request: "")
@words.login
async def log_in(ctx):
    await ctx.ui.notify("go to the page")
    return Credentials(api_key="a secret")
signs = ext.provider("signs", models=["m"])(lambda ctx, request: "")
@signs.login
async def ask(ctx):
    return Credentials(api_key=await ctx.ui.input("Your key?"))
ext.serve()
"""


@pytest.fixture(autouse=True)
def gate(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An extension with two providers that people log in to, to which somebody has agreed."""
    folder = home / "extensions" / "gate"
    folder.mkdir(parents=True)
    command = json.dumps(sys.executable)
    manifest = f'name = "gate"\nversion = "1"\n[run]\ncommand = {command}\nargs = ["-B", "gate.py"]\n'
    (folder / "extension.toml").write_text(manifest, encoding="utf-8")
    (folder / "gate.py").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return folder


@pytest.mark.slow
def test_logging_in_and_out(home: Path, capfd: Said) -> None:
    """A login is kept without a session being left, a wrong or missing provider is refused with those there are."""
    assert 2 == session_core("ext", "login", "gate")
    assert "gate does not run here: nobody has agreed to it yet; see: session-core ext info gate" in (
        capfd.readouterr().err
    )
    assert 0 == session_core("ext", "trust", "gate", "--yes")
    capfd.readouterr()

    assert 2 == session_core("ext", "login", "gate")
    assert "several providers with a login; name one: gate/words, gate/signs" in capfd.readouterr().err
    assert 2 == session_core("ext", "login", "gate/free")
    assert (
        "gate has no provider called 'free' with a login; choose from: gate/words, gate/signs" in capfd.readouterr().err
    )

    assert 0 == session_core("ext", "login", "gate/words")
    told = capfd.readouterr()
    assert "✓ logged in to words of gate\n" == told.out
    assert "go to the page" in told.err
    assert "secret" not in told.err
    assert 0 == session_core("sessions", "--json")
    assert "" == capfd.readouterr().out
    assert ["words"] == [
        each.provider for each in sc.extensions.CredentialFile(home / sc.extensions.CREDENTIALS_FILE).all()
    ]

    assert 2 == session_core("ext", "logout", "gate/wrods")
    assert "you are not logged in to 'wrods' of gate; there is a login to gate/words" in capfd.readouterr().err
    assert 0 == session_core("ext", "logout", "gate/words")


def test_nobody_to_ask(capfd: Said) -> None:
    """A login that has to ask fails in one line where there is no terminal, and nothing is kept."""
    assert 0 == session_core("ext", "trust", "gate", "--yes")
    capfd.readouterr()
    assert 1 == session_core("ext", "login", "gate/signs")
    told = capfd.readouterr()
    assert ("", True) == (told.out, "the login to signs failed: " in told.err)
