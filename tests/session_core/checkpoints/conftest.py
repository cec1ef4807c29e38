"""Fixtures of the checkpoint tests."""

import os
from pathlib import Path

import pytest

from tests.session_core.checkpoints._world import World


@pytest.fixture(autouse=True)
def disk_that_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Do not wait for the disk, which only a loss of power would show; the names of what was to be durable."""
    synced: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
    )
    return synced


@pytest.fixture
def world(tmp_path: Path) -> World:
    """An empty project and an empty store."""
    return World(folder=tmp_path)
