"""A service that was started without a key that is set later, where a command is typed."""

import os
from pathlib import Path

import pytest
import trio

import session_core as sc
from frontends.server.daemon.keys import format_lacking_keys, keyed_models
from tests.frontends._kept import session_core
from tests.frontends.server.daemon._service import Service

Said = pytest.CaptureFixture[str]
LACKING = (
    "the running service was started without the key that is set here; to use it, end the service: "
    "session-core shutdown"
)


@pytest.fixture
def with_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that the service does not have."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-none")
    monkeypatch.delenv("SESSION_CORE_MODEL")


def test_run_says_why_the_demo_answers(service: Service, with_key: None, tmp_path: Path, capfd: Said) -> None:
    """Where the demo answers although a key is set here, `run` says that the service was started without it."""
    without = session_core("run", "--cwd", str(tmp_path), "--model", "demo", "count to 1"), capfd.readouterr().err
    said = session_core("run", "--cwd", str(tmp_path), "count to 1"), capfd.readouterr().err

    assert (0, False) == (without[0], LACKING in without[1])
    assert (0, True) == (said[0], f"● {LACKING}\n" in said[1])


def test_nothing_is_said_without_a_key(service: Service, tmp_path: Path, capfd: Said) -> None:
    """Where no key is set there is nothing to say about it."""
    assert 0 == session_core("run", "--cwd", str(tmp_path), "count to 1")
    assert "started without the key" not in capfd.readouterr().err


@pytest.mark.parametrize("command", ["models", "doctor"])
def test_those_who_tell_of_models_say_it_too(
    service: Service, with_key: None, command: str, monkeypatch: pytest.MonkeyPatch, capfd: Said
) -> None:
    """`models` and `doctor` say that the service lacks the key which they have just told of."""

    async def nobody(_: str) -> list[str]:
        await trio.lowlevel.checkpoint()
        return []

    monkeypatch.setattr(sc.setup, "probe_ollama", nobody)
    session_core(command)
    assert LACKING in capfd.readouterr().out


def test_who_has_chosen_the_demo_misses_no_key(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the settings choose the demo, no key is missed."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-none")
    assert {} == keyed_models(home, tmp_path, os.environ)


def test_a_model_that_the_service_lacks(service: Service, with_key: None, capfd: Said) -> None:
    """A model that the service does not have is refused with the keys of the service first."""
    assert 2 == session_core("run", "--model", "sonnet", "hello")
    said = capfd.readouterr().err.splitlines()[-1]
    assert said.startswith(
        "session-core: the running service has the keys and settings it was started with (to use yours, end it"
    )
    assert "; there is no model called 'anthropic/" in said


def test_a_service_with_the_key_lacks_nothing(home: Path, tmp_path: Path, with_key: None) -> None:
    """A service that can use one model of every provider with a key here lacks nothing; else something is said."""
    keyed = keyed_models(home, tmp_path, os.environ)
    name = min(keyed["anthropic"])
    usable = sc.ListedModel(name=name, provider="anthropic", usable=True)

    assert ["anthropic"] == list(keyed)
    assert "" == format_lacking_keys(home, keyed, [usable])
    assert "was started without the key" in format_lacking_keys(
        home, keyed, [sc.ListedModel(name=name, provider="anthropic", usable=False)]
    )
