"""The place where a hostile model is let loose."""

import os
import shutil
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack

import pytest

from tests.hostile._model import Arena, Ears, make_folder, open_arena


@pytest.fixture(scope="session")
def ears() -> Generator[Ears]:
    """What listens while the model is at work."""
    folder = make_folder(f"{os.getpid()}-ears")
    try:
        with ExitStack() as stack:
            yield Ears(folder, stack)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
async def arena(
    require_sandbox: None,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    ears: Ears,
) -> AsyncGenerator[Arena]:
    """A whole agent beside its victims; at the end it is proved that nothing happened to them."""
    async with open_arena(request, monkeypatch, caplog, ears) as opened:
        yield opened
