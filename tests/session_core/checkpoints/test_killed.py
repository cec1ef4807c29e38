"""A service killed at any system call of a save, a command or an undo never loses what the user had."""

import shutil
import sys
from pathlib import Path

import pytest
import trio

from tests.session_core.checkpoints._killed import FILES
from tests.session_core.checkpoints._world import SESSION, World

MADE = {b"new a", b"new c", b"new n"}


async def all_deaths(folder: Path, what: str) -> list[World]:
    program = "tests.session_core.checkpoints._killed"
    await trio.run_process([sys.executable, "-m", program, str(folder), what])
    found = worlds(folder)
    assert len(found) > 20, "it must have died at many places"
    return found


def worlds(folder: Path) -> list[World]:
    return [World(folder=each) for each in sorted(folder.iterdir(), key=lambda each: int(each.name))]


def contents(world: World) -> dict[str, tuple[bytes, int]]:
    """The files, but for those that a killed write left unfinished under a name of its own."""
    return {path: found for path, found in world.files().items() if not path.endswith(".tmp")}


@pytest.mark.parametrize("what", ["save", pytest.param("command", marks=pytest.mark.slow)])
async def test_no_original_is_lost(tmp_path: Path, what: str) -> None:
    """Wherever the process is killed, each file can be brought back exactly."""
    for world in await all_deaths(tmp_path, what):
        report = world.undo("turn_1", force=True)

        assert FILES == contents(world), world.folder.name
        assert () == report.skipped


@pytest.mark.slow
async def test_an_undo_cut_short_is_completed(tmp_path: Path) -> None:
    """Wherever an undo is killed, half of it can be taken back, or the same undo completes it without force."""
    ends = set()
    for world in await all_deaths(tmp_path, "restore"):
        copy = World(folder=Path(shutil.copytree(world.folder, tmp_path / f"{world.folder.name}-copy")))
        undone = [turn.turn_id for turn in copy.store.turns(SESSION) if turn.undo]
        copy.undo(*undone, force=True)
        assert MADE == {content for content, _ in contents(copy).values()}, world.folder.name

        report = world.undo("turn_1", noted=True)

        assert () == report.skipped, world.folder.name
        assert FILES == contents(world), world.folder.name
        undos = [turn.turn_id for turn in world.store.turns(SESSION) if turn.undo]
        ends.add(len(undos))
        if len(undos) == 1:
            assert report.undo_turn_id == undos[0]
            assert () == world.undo(undos[0]).skipped, world.folder.name
            assert MADE == {content for content, _ in contents(world).values()}, "it is one undo and taken back as one"
    assert {1, 2} == ends, "only after an undo that came to its end is there a second one"
