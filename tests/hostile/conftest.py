"""The place where a hostile model is let loose."""

import os
import shutil
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.hostile._model import Arena, Ears, make_folder, open_arena


@pytest.fixture(scope="session")
def ears() -> Generator[Ears]:
    """What listens while the model is at work.

    The files of its sockets stay until a later run: another process of this run may just be starting a sandbox that
    hides them, which needs them to be there.
    """
    folder = make_folder(f"{os.getpid()}-ears")
    for left in folder.parent.glob("*-ears"):
        if not Path("/proc", left.name.removesuffix("-ears")).exists():
            shutil.rmtree(left, ignore_errors=True)
    with ExitStack() as stack:
        yield Ears(folder, stack)


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
