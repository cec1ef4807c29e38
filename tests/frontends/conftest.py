"""Every test has a home of its own, so that none ever sees or touches the sessions of whoever runs it."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home for this test alone; it is not there yet."""
    place = tmp_path / "home"
    monkeypatch.setenv("SESSION_CORE_HOME", str(place))
    monkeypatch.setenv("SMOOTH_HOME", str(tmp_path / "smooth"))  # where there may be extensions too
    monkeypatch.delenv("SMOOTH_EXTENSIONS_ALLOW", raising=False)
    return place


@pytest.fixture(autouse=True)
def no_real_model(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the keys, the settings or a server with models of whoever runs it: the demo answers."""
    for name in os.environ:
        if name.endswith("_API_KEY") or (name.startswith("SESSION_CORE_") and name != "SESSION_CORE_HOME"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("SESSION_CORE_MODEL", "demo")


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Puts the handler of Ctrl-C back."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)
