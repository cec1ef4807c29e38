"""Commands that write wait for a home that is in use: no longer than needed, and not for ever."""

from collections.abc import Generator
from pathlib import Path

import pytest
import trio
import trio.testing

from frontends.shared import wait_for_home
from session_core.storage.home_lock import HomeLock
from tests._mostly_slow import mostly_slow
from tests.frontends._kept import keep, kept, session_core

Said = pytest.CaptureFixture[str]
NAME = "count to 1"
WRITING = [
    ("rename", NAME, "one"),
    ("archive", NAME),
    ("delete", "--yes", NAME),
    ("fork", NAME),
    ("run", "--quiet", "--cwd", "/", "count to 2"),
    ("import", "--as-new", "talk.jsonl"),
    ("store", "compact"),
    ("store", "rebuild"),
]


@pytest.fixture
def held(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[HomeLock]:
    """A home with a session and an export of it, in use by somebody else."""
    monkeypatch.chdir(tmp_path)
    keep(home, NAME)
    session_core("export", NAME, "talk.jsonl")
    lock = HomeLock.acquire(home)
    yield lock
    lock.release()


@pytest.mark.parametrize("arguments", mostly_slow([(each,) for each in WRITING], quick=3))
def test_it_goes_on_as_soon_as_the_home_is_free(
    held: HomeLock, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], capfd: Said
) -> None:
    """A command that finds the home in use does its work once the other one has let go, and says nothing about it."""
    pauses: list[int] = []

    async def pause() -> None:
        await trio.lowlevel.checkpoint()
        pauses.append(len(pauses))
        if len(pauses) == 2:
            held.release()

    monkeypatch.setattr(wait_for_home, "pause", pause)
    capfd.readouterr()

    assert 0 == session_core(*arguments)
    assert [0, 1] == pauses
    assert "in use" not in capfd.readouterr().err


@pytest.mark.parametrize("arguments", mostly_slow([(each,) for each in WRITING], quick=3))
def test_it_gives_up(
    home: Path, held: HomeLock, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], capfd: Said
) -> None:
    """A home that stays in use is one sentence, and below it what works all the same; nothing was changed."""
    monkeypatch.setattr(wait_for_home, "MAX_WAIT_S", 0)
    capfd.readouterr()

    assert 1 == session_core(*arguments)
    first, second = capfd.readouterr().err.splitlines()
    assert first.startswith("session-core: this home is in use by process ")
    assert "  sessions, show, export and store verify, stats and backup still work, and so does run --no-save" == second
    assert [NAME] == list(kept(home))


async def test_a_pause_is_short(autojump_clock: trio.testing.MockClock) -> None:
    """A tenth of a second lies between two attempts."""
    began = trio.current_time()
    await wait_for_home.pause()

    assert 0.1 == pytest.approx(trio.current_time() - began)
