"""An undo on a disk that fails in the middle: nothing is left half done, or what is left is named."""

import errno
import os
from pathlib import Path

import pytest

from session_core.checkpoints.values import CheckpointFailed, SkippedFile, UndoDescription, UndoReport
from session_core.ids import TurnId
from tests.session_core.checkpoints._world import SESSION, World

OLD = {"a": (b"old a", 0o644), "b": (b"old b", 0o755), "c": (b"old c", 0o600)}


class Disk:
    """Fails at its nth write; a disk that is full fails ever after."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.writes, self.fails_at, self.stays_full = 0, 0, False
        self._write = os.write
        patch.setattr(os, "write", self)

    def begin(self, fails_at: int, *, stays_full: bool) -> None:
        self.writes, self.fails_at, self.stays_full = 0, fails_at, stays_full

    def __call__(self, descriptor: int, data: bytes) -> int:
        self.writes += 1
        if self.fails_at and (self.writes == self.fails_at or (self.stays_full and self.writes > self.fails_at)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._write(descriptor, data)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """A disk that works until it is told otherwise."""
    return Disk(monkeypatch)


def prepared(folder: Path) -> tuple[World, dict[str, tuple[bytes, int]]]:
    """A turn that changed, removed and made files, and how it left them."""
    folder.mkdir()
    world = World(folder=folder)
    for path, (content, mode) in OLD.items():
        world.user_writes(path, content, mode)
    world.agent_writes("turn_1", "a", "new a")
    world.agent_writes("turn_1", "b", "new b")
    world.agent_removes("turn_1", "c")
    world.agent_writes("turn_1", "made", "made")
    world.end("turn_1")
    return world, world.files()


def undone(world: World) -> UndoReport | tuple[SkippedFile, ...]:
    """Undo the turn as the service does; the files that stayed half done, if it failed."""
    plan = world.store.plan_restore(SESSION, [TurnId("turn_1")], world.workspace)
    try:
        report = world.store.restore(
            plan, world.workspace, undoing=UndoDescription(turn_ids=plan.turn_ids, root=str(world.root))
        )
        if report.skipped:
            assert report.undo_turn_id is not None
            return world.store.abandon_undo(plan, world.workspace, report.undo_turn_id)
    except CheckpointFailed as failed:
        return failed.unrestored
    return report


@pytest.mark.parametrize("stays_full", [False, True])
def test_an_undo_is_done_whole_or_put_back_or_told(tmp_path: Path, disk: Disk, *, stays_full: bool) -> None:
    """Wherever the disk fails, files are as before or named, and the same undo later is whole and taken back as one."""
    torn = 0
    for number in range(1, 100):
        world, new = prepared(tmp_path / str(number))
        disk.begin(number, stays_full=stays_full)
        outcome = undone(world)
        came_to_end = disk.writes < number
        disk.begin(0, stays_full=False)
        if came_to_end:
            assert isinstance(outcome, UndoReport)
            break
        assert not isinstance(outcome, UndoReport), number
        left = {each.path for each in outcome}
        assert left == {path for path in {*OLD, "made"} if world.files().get(path) != new.get(path)}, number
        assert bool(left) == any(each.undo for each in world.store.turns(SESSION)), number
        torn += bool(left)

        world.reopen()
        again = undone(world)

        assert isinstance(again, UndoReport), number
        assert world.files() == OLD, number
        assert again.undo_turn_id is not None
        assert world.undo(again.undo_turn_id).skipped == (), number
        assert world.files() == new, number
    else:
        pytest.fail("it never came to its end")
    assert number > 10, "it writes for every file"
    assert bool(torn) == stays_full, "only a disk that stays full keeps files from being put back"


def test_what_was_put_back_is_no_undo_to_take_back(tmp_path: Path, disk: Disk) -> None:
    """An undo that was put back whole leaves neither a record nor a content."""
    world, _ = prepared(tmp_path / "w")
    kept = world.blobs()
    disk.begin(8, stays_full=False)
    assert undone(world) == ()
    assert disk.writes > 8, "it had begun to change files"
    assert [each.turn_id for each in world.store.turns(SESSION)] == ["turn_1"]
    assert world.blobs() == kept
    assert 1 == len(list((world.kept / SESSION / "turns").iterdir()))


def test_what_somebody_else_changed_meanwhile_is_not_put_back(tmp_path: Path) -> None:
    """Giving up an undo overwrites nobody's work either."""
    world, new = prepared(tmp_path / "w")
    plan = world.store.plan_restore(SESSION, [TurnId("turn_1")], world.workspace)
    undo = world.store.restore(plan, world.workspace).undo_turn_id
    assert undo is not None
    world.user_writes("b", "mine")

    left = world.store.abandon_undo(plan, world.workspace, undo)

    assert left == (SkippedFile(path="b", why="somebody else changed it meanwhile"),)
    assert world.files() == {**new, "b": (b"mine", 0o644)}
