"""Stores made once, and copied for each test."""

import shutil
from pathlib import Path

import pytest
import trio

from tests.session_core.upkeep._stores import Contents, contents_of, make_interrupted_store, make_store


@pytest.fixture(scope="session")
def made_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that is not to be changed."""
    home = tmp_path_factory.mktemp("made") / "home"
    trio.run(make_store, home)
    return home


@pytest.fixture
def home(made_store: Path, tmp_path: Path) -> Path:
    """A home with three sessions, for this test alone."""
    copy = tmp_path / "home"
    shutil.copytree(made_store, copy)
    return copy


@pytest.fixture
def contents(home: Path) -> Contents:
    """What is in that home before the test does anything to it."""
    return contents_of(home)


@pytest.fixture
def interrupted_home(tmp_path: Path) -> Path:
    """A home as a crash leaves it: a write-ahead log, and half an answer."""
    copy = tmp_path / "interrupted"
    trio.run(make_interrupted_store, tmp_path / "running", copy)
    return copy
