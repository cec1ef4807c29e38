"""One service in the background that many tests share: starting one takes a second or more."""

from collections.abc import Generator
from pathlib import Path

import pytest
import trio

from tests.frontends._extensions import make_extension
from tests.frontends._program import program
from tests.frontends.server.daemon._service import DEMO, Service, end_services, service_of


@pytest.fixture(scope="session")
def shared_service(tmp_path_factory: pytest.TempPathFactory) -> Generator[Service]:
    """A service with an extension and with HTTP; its tests leave each other's sessions alone."""
    home = tmp_path_factory.mktemp("served") / "home"
    make_extension(home / "extensions", "echo")

    async def agree() -> None:
        agreed = await program("ext", "trust", "echo", "--yes", "--home", str(home), env=DEMO)
        assert 0 == agreed.code, agreed.err

    trio.run(agree)
    with service_of(home, "--http", "0") as running:
        yield running


@pytest.fixture
def service(shared_service: Service, monkeypatch: pytest.MonkeyPatch) -> Service:
    """The service; commands without --home mean its home."""
    monkeypatch.setenv("SESSION_CORE_HOME", str(shared_service.home))
    return shared_service


@pytest.fixture
def own_home(home: Path) -> Generator[Path]:
    """A home of this test alone; whatever was started to serve it ends with the test."""
    yield home
    end_services(home)
