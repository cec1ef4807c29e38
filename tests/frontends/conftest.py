"""Every test has a home of its own, so that none ever sees or touches the sessions of whoever runs it."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home for this test alone; it is not there yet."""
    place = tmp_path / "home"
    monkeypatch.setenv("SESSION_CORE_HOME", str(place))
    return place
