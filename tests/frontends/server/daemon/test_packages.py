"""`serve --http` where the packages for HTTP are not installed."""

from pathlib import Path

import pytest

from frontends.commands.doctor import system_checks
from frontends.server.http import installed
from tests.frontends._kept import session_core

Said = pytest.CaptureFixture[str]


@pytest.mark.parametrize("options", [(), ("--foreground",)])
def test_what_is_missing_is_named(
    home: Path, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capfd: Said
) -> None:
    """Without its packages HTTP is refused with the words that install them, before anything is made or started."""
    monkeypatch.setattr(installed, "_PARTS", ("trio", "nobody_has_this"))
    code = session_core("serve", "--http", "0", *options)

    sentence = "session-core: HTTP needs more packages: pip install 'session-core[server]'\n"
    assert (2, "", sentence, False) == (code, *capfd.readouterr(), home.exists())


def test_the_doctor_says_what_installs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each package that is missing comes with the command that installs it."""
    monkeypatch.setattr(system_checks, "_version", lambda name: None if name in system_checks.USEFUL else "1")
    warnings = [each.hint for each in system_checks.check_python() if each.state == "warning"]

    assert [
        "MCP servers cannot be used without it: pip install 'session-core[mcp]'",
        "serving over HTTP needs it: pip install 'session-core[server]'",
    ] == warnings
