"""Taking an undo back, and undos that were cut short."""

import errno
from pathlib import Path
from typing import Any

import attrs
import pytest

from session_core.checkpoints.blobs import Blobs
from session_core.checkpoints.store import CheckpointStore
from session_core.checkpoints.values import CheckpointFailed, CheckpointLimits, RestorePlan, UndoDescription, UndoReport
from session_core.errors import Conflict, FilesChanged, NotFound, Unavailable
from session_core.ids import TurnId
from session_core.sandbox.workspace import Workspace
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import text
from session_core.vocabulary.events import BranchSwitched, FilesRestored
from session_core.vocabulary.replies import RestoreReply
from tests.session_core.service._family import Scripts
from tests.session_core.service._helpers import new_session, say, scripted, transcript
from tests.session_core.service._project import open_project, turn, write


def done(reply: RestoreReply) -> dict[str, str]:
    """What was done with each file."""
    return {each.path: each.done for each in reply.files}


class CutShort(CheckpointStore):
    """Brings back one file only, and fails then."""

    works = False

    def restore(
        self, plan: RestorePlan, workspace: Workspace, *, force: bool = False, undoing: UndoDescription | None = None
    ) -> UndoReport:
        if self.works:
            return super().restore(plan, workspace, force=force, undoing=undoing)
        super().restore(attrs.evolve(plan, files=plan.files[:1]), workspace, force=force, undoing=undoing)
        raise CheckpointFailed("the disk is full")


async def test_an_undo_cut_short_is_one_with_its_second_half(tmp_path: Path) -> None:
    """An undo that failed in the middle is completed by trying again, and taken back as one."""
    kept = CutShort(tmp_path / "checkpoints")
    async with open_project(tmp_path, {"go": turn(write("a", "new"), write("b", "new"))}, checkpoints=kept) as project:
        project.put("a", "old")
        session_id = await new_session(project.service)
        await say(project.service, session_id, "go")
        with pytest.raises(Conflict, match="the disk is full"):
            await project.service.restore_to_message(session_id)
        assert {"a": "old", "b": "new"} == project.files()
        kept.works = True
        reply = await project.service.restore_to_message(session_id)
        assert ({"a": "old"}, {"b": "removed"}) == (project.files(), done(reply))
        back = await project.service.take_back_undo(session_id, reply.undo_turn_id)
        assert {"a": "restored", "b": "recreated"} == done(back)
        assert {"a": "new", "b": "new"} == project.files()
        assert "go" == (await transcript(project.service, session_id))[0][1]


async def test_an_undo_is_told_in_the_stream(tmp_path: Path) -> None:
    """Whoever follows the session learns what became of the files, and what to name to take it back."""
    async with open_project(tmp_path, {"go": turn(write("a", "new"))}) as project:
        session_id = await new_session(project.service)
        await say(project.service, session_id, "go")
        snapshot = await project.service.load_session(session_id)
        (turn_id,) = {each.turn_id for each in snapshot.transcript if each.turn_id is not None}
        async with project.service.subscribe(session_id, after=snapshot.cursor) as events:
            reply = await project.service.restore_to_message(session_id)
            told = [each.event for each in await events.receive_batch()]
        assert reply.undo_turn_id is not None
        restored = FilesRestored(
            turn_ids=(turn_id,), restored=(), removed=("a",), kept=(), undo_turn_id=reply.undo_turn_id
        )
        assert [restored, BranchSwitched(head=None)] == told


async def test_taking_back_is_refused(tmp_path: Path) -> None:
    """Where nothing was undone, it was taken back, others changed a file or the talk went on, nothing is done."""
    scripts: Scripts = {"go": turn(write("a", "new")), "other": [text("hi")]}
    async with open_project(tmp_path, scripts) as project:
        service = project.service
        session_id = await new_session(service)
        await say(service, session_id, "go")
        with pytest.raises(Conflict, match="no undo to take back"):
            await service.take_back_undo(session_id)
        with pytest.raises(NotFound, match="there is no undo 'undo_x'"):
            await service.take_back_undo(session_id, TurnId("undo_x"))
        undone = (await service.restore_to_message(session_id)).undo_turn_id
        project.put("a", "mine")
        with pytest.raises(FilesChanged, match="'a': somebody else changed it since"):
            await service.take_back_undo(session_id)
        (project.root / "a").unlink()
        await say(service, session_id, "other")
        before = await service.load_session(session_id)
        with pytest.raises(Conflict, match="the conversation has continued"):
            await service.take_back_undo(session_id)
        assert (before, {}) == (await service.load_session(session_id), project.files())

        taken = (await service.take_back_undo(session_id, force=True)).undo_turn_id
        assert ({"a": "new"}, "go") == (project.files(), (await transcript(service, session_id))[0][1])
        with pytest.raises(Conflict, match="taken back already"):
            await service.take_back_undo(session_id, undone)
        with pytest.raises(Conflict, match="no undo to take back"):
            await service.take_back_undo(session_id)
        await service.take_back_undo(session_id, taken)
        assert ({}, "other") == (project.files(), (await transcript(service, session_id))[0][1])


async def test_taking_back_in_another_folder_is_refused(tmp_path: Path) -> None:
    """After a change of the folder the files of an undo are not brought to the wrong place."""
    other = tmp_path / "other"
    other.mkdir()
    async with open_project(tmp_path, {"go": turn(write("a", "new"))}) as project:
        session_id = await new_session(project.service)
        await say(project.service, session_id, "go")
        await project.service.restore_to_message(session_id)
        await project.service.change_working_directory(session_id, str(other))
        with pytest.raises(Conflict, match="another working folder"):
            await project.service.take_back_undo(session_id, force=True)
        assert ([], {}) == (list(other.iterdir()), project.files())


async def test_one_half_is_taken_back_alone(tmp_path: Path) -> None:
    """Taking back moves what the undo moved: only the conversation, or only the files."""
    async with open_project(tmp_path, {"go": turn(write("a", "new"))}) as project:
        service = project.service
        session_id = await new_session(service)
        await say(service, session_id, "go")
        said = await transcript(service, session_id)
        await service.restore_to_message(session_id, files=False)
        assert ([], {"a": "new"}) == (await transcript(service, session_id), project.files())
        await service.take_back_undo(session_id)
        assert said == await transcript(service, session_id)
        await service.restore_to_message(session_id, conversation=False)
        assert (said, {}) == (await transcript(service, session_id), project.files())
        await service.take_back_undo(session_id)
        assert (said, {"a": "new"}) == (await transcript(service, session_id), project.files())


async def test_a_file_that_refuses_leaves_nothing_half_done(tmp_path: Path) -> None:
    """When a file cannot be written after others were, those are put back, and the error names it."""
    async with open_project(tmp_path, {"go": turn(write("a", "new"), write("d/b", "new"))}) as project:
        project.put("a", "old")
        (project.root / "d").mkdir()
        project.put("d/b", "old")
        session_id = await new_session(project.service)
        await say(project.service, session_id, "go")
        kept = project.checkpoints
        real = kept.restore

        def meddling(plan: RestorePlan, workspace: Workspace, **named: Any) -> UndoReport:
            kept.restore = real  # type: ignore[method-assign]
            project.put("d/b", "mine, just now")
            return real(plan, workspace, **named)

        kept.restore = meddling  # type: ignore[method-assign]
        with pytest.raises(FilesChanged, match="'d/b': it changed after the plan was made"):
            await project.service.restore_to_message(session_id)
        assert {"a": "new", "d/b": "mine, just now"} == project.files()
        assert await transcript(project.service, session_id)
        with pytest.raises(Conflict, match="no undo to take back"):
            await project.service.take_back_undo(session_id)


class FullDisk:
    """Keeps no further content, from the second on, and perhaps lets nobody write to the project any more."""

    def __init__(self, patch: pytest.MonkeyPatch, *, project_too: bool) -> None:
        self.full, self._contents = False, 0
        put, write_file = Blobs.put, Workspace.write

        def keep(blobs: Blobs, data: bytes, *, durable: bool) -> str:
            self._contents += self.full
            self._check()
            return put(blobs, data, durable=durable)

        def change(workspace: Workspace, path: str, data: bytes, **named: Any) -> None:
            if project_too:
                self._check()
            write_file(workspace, path, data, **named)

        patch.setattr(Blobs, "put", keep)
        patch.setattr(Workspace, "write", change)

    def _check(self) -> None:
        if self.full and self._contents > 1:
            raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("project_too", [False, True])
async def test_a_disk_that_fails_in_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, project_too: bool
) -> None:
    """What was done is put back, or named where that fails; with room again the same undo is whole, and one."""
    disk = FullDisk(monkeypatch, project_too=project_too)
    scripts = {"go": turn(write("a", "new"), write("b", "new!"))}
    async with open_project(tmp_path, scripts) as project:
        service = project.service
        project.put("a", "old")
        project.put("b", "old!")
        session_id = await new_session(service)
        await say(service, session_id, "go")
        before = await service.load_session(session_id)

        disk.full = True
        with pytest.raises(Conflict) as failed:
            await service.restore_to_message(session_id)
        disk.full = False

        assert "No space left on device" in failed.value.message
        assert project_too != ("so nothing was done" in failed.value.message)
        assert project_too == ("could not be put back ('a': it cannot be changed" in failed.value.message)
        assert {"a": "old" if project_too else "new", "b": "new!"} == project.files()
        assert before == await service.load_session(session_id)
        await service.restore_to_message(session_id)
        assert {"a": "old", "b": "old!"} == project.files()
        await service.take_back_undo(session_id)
        assert {"a": "new", "b": "new!"} == project.files()
        with pytest.raises(Conflict, match="no undo to take back"):
            await service.take_back_undo(session_id)


async def test_an_undo_that_made_room_is_not_taken_back(tmp_path: Path) -> None:
    """When what an undo had saved is gone, taking it back is refused with the reason."""
    kept = CheckpointStore(tmp_path / "checkpoints", limits=CheckpointLimits(session_files=2))
    scripts = {"go": turn(write("a", "1")), "more": turn(write("b", "2"), write("c", "2"))}
    async with open_project(tmp_path, scripts, checkpoints=kept) as project:
        session_id = await new_session(project.service)
        await say(project.service, session_id, "go")
        undone = (await project.service.restore_to_message(session_id)).undo_turn_id
        await say(project.service, session_id, "more")
        for which in (undone, None):
            with pytest.raises(Conflict, match="too old"):
                await project.service.take_back_undo(session_id, which, force=True)


async def test_no_undo_without_checkpoints() -> None:
    """A service without checkpoints says that it cannot take an undo back."""
    async with open_checked_service(scripted(text("one"))) as service:
        session_id = await new_session(service)
        with pytest.raises(Unavailable, match="without checkpoints"):
            await service.take_back_undo(session_id)
