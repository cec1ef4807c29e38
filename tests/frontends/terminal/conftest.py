"""What tests of real windows share."""

from collections.abc import Generator
from pathlib import Path

import pytest
import trio

from tests.frontends.server.daemon._service import Service, service_of
from tests.frontends.terminal._idle import patient_pilots
from tests.frontends.terminal._tmux import Screen, let_rest, open_screen


@pytest.fixture(autouse=True)
def patience() -> Generator[None]:
    """Have no test depend on how busy the machine is."""
    with patient_pilots():
        yield


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Generator[Service]:
    """A service that the tests of a module share; each works in a folder of its own."""
    with service_of(tmp_path_factory.mktemp("terminal") / "home") as running:
        yield running


@pytest.fixture
def service(shared: Service) -> Generator[Service]:
    """The shared service, at rest."""
    yield shared
    trio.run(let_rest, shared.home)


@pytest.fixture
def screen(tmp_path: Path) -> Generator[Screen]:
    """A window in a folder of this test alone."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "notes.txt").write_text("one two three\n")
    with open_screen(folder) as opened:
        yield opened


@pytest.fixture
def other(screen: Screen) -> Generator[Screen]:
    """Another window in the same folder."""
    with open_screen(screen.folder) as opened:
        yield opened
