"""Going back to an earlier message: real files, real tools, a real checkpoint store."""

import threading
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from session_core.checkpoints.store import CheckpointStore
from session_core.checkpoints.values import CheckpointFailed, CheckpointLimits, RestorePlan, UndoDescription, UndoReport
from session_core.errors import Conflict, FilesChanged, InvalidInput, NotFound, ReadOnly, Unavailable
from session_core.ids import SessionId, TurnId
from session_core.sandbox.workspace import Workspace
from session_core.service.service import SessionService
from session_core.storage.sqlite import SqliteStore
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import Hang, text
from session_core.vocabulary.commands import RestoreToMessage
from session_core.vocabulary.messages import Message, ToolResultPart
from session_core.vocabulary.replies import RestoredFile, RestoreReply
from tests._needs import needs_sandbox
from tests.session_core.service._family import Scripts, hand_over
from tests.session_core.service._helpers import new_session, say, scripted, transcript, until
from tests.session_core.service._project import FULL_ACCESS, open_project, shell, turn, write
from tests.session_core.service.test_read_only import FailingStore


async def said_by_user(service: SessionService, session_id: SessionId) -> list[Message]:
    return [each for each in (await service.load_session(session_id)).transcript if each.role == "user"]


def done(reply: RestoreReply) -> dict[str, str]:
    """What was done with each file."""
    return {each.path: each.done for each in reply.files}


async def test_the_newest_turn_is_undone(tmp_path: Path) -> None:
    """Without a message named, the last turn's files and words are taken back, and what was said is handed out."""
    async with open_project(tmp_path, {"go": turn(write("a.txt", "new"), write("b.txt", "made"))}) as project:
        project.put("a.txt", "old")
        session_id = await new_session(project.service)
        await say(project.service, session_id, "go")
        assert {"a.txt": "new", "b.txt": "made"} == project.files()

        reply = await project.service.restore_to_message(session_id)

        assert {"a.txt": "old"} == project.files()
        assert ({"a.txt": "restored", "b.txt": "removed"}, (), "go") == (done(reply), reply.remarks, reply.text)
        state = await project.service.load_session(session_id)
        assert ((), None, "idle", None) == (state.transcript, state.head, state.activity.name, state.stop)
        assert 6 == len(state.messages), "what came after stays in the tree"


async def test_several_turns_are_undone_at_once(tmp_path: Path) -> None:
    """Going back to an older message undoes every turn since, and keeps those before."""
    answers = (*turn(write("a", "1")), *turn(write("a", "2"), write("b", "2")), *turn(write("a", "3")))
    async with open_project(tmp_path, {"one": answers}) as project:
        service = project.service
        session_id = await new_session(service)
        for prompt in ("one", "two", "three"):
            await say(service, session_id, prompt)
        second = (await said_by_user(service, session_id))[1]

        reply = await service.restore_to_message(session_id, second.message_id)

        assert ({"a": "1"}, "two") == (project.files(), reply.text)
        assert "one" == (await transcript(service, session_id))[0][1]
        assert ["one"] == [each.text for each in await said_by_user(service, session_id)]


@pytest.mark.parametrize(("files", "conversation"), [(True, False), (False, True)])
async def test_one_half_only(tmp_path: Path, *, files: bool, conversation: bool) -> None:
    """Files can go back without the conversation, and the conversation without the files."""
    async with open_project(tmp_path, {"go": turn(write("a", "new"))}) as project:
        project.put("a", "old")
        session_id = await new_session(project.service)
        await say(project.service, session_id, "go")
        reply = await project.service.restore_to_message(session_id, files=files, conversation=conversation)
        assert {"a": "old" if files else "new"} == project.files()
        assert ({"a": "restored"} if files else {}) == done(reply)
        assert (not conversation) == bool(await transcript(project.service, session_id))


async def test_what_others_changed_refuses_the_whole_undo_unless_forced(tmp_path: Path) -> None:
    """A file that a person has changed since is named, and nothing at all is done; with force it is saved first."""
    async with open_project(tmp_path, {"go": turn(write("a", "new"), write("b", "new"))}) as project:
        project.put("a", "old")
        project.put("b", "old")
        session_id = await new_session(project.service)
        await say(project.service, session_id, "go")
        project.put("a", "mine")

        before = await project.service.load_session(session_id)

        for _ in range(2):
            with pytest.raises(FilesChanged, match=r"nothing was done.*'a': somebody else changed it since") as refused:
                await project.service.restore_to_message(session_id)
            assert "files_changed" == refused.value.code
            assert (("a", "somebody else changed it since"),) == refused.value.files
            assert {"a": "mine", "b": "new"} == project.files()
            assert before == await project.service.load_session(session_id)

        forced = await project.service.restore_to_message(session_id, force=True)
        assert ({"a": "restored", "b": "restored"}, "go") == (done(forced), forced.text)
        assert {"a": "old", "b": "old"} == project.files()
        back = await project.service.take_back_undo(session_id)
        assert {"a": "restored", "b": "restored"} == done(back)
        assert {"a": "mine", "b": "new"} == project.files(), "even a forced undo can be taken back"
        assert before.transcript == (await project.service.load_session(session_id)).transcript


async def test_files_too_large_to_keep_are_told(tmp_path: Path) -> None:
    """A file that was too large to be saved is named as unsaved, and stays as it is."""
    kept = CheckpointStore(tmp_path / "checkpoints", limits=CheckpointLimits(file_bytes=10))
    async with open_project(tmp_path, {"go": turn(write("a", "new"))}, checkpoints=kept) as project:
        project.put("a", "old" * 10)
        session_id = await new_session(project.service)
        await say(project.service, session_id, "go")
        reply = await project.service.restore_to_message(session_id)
        assert (RestoredFile(path="a", done="skipped", why="it has 30 bytes, and files are kept up to 10"),) == (
            reply.files
        )
        assert {"a": "new"} == project.files()


@needs_sandbox
async def test_what_a_command_changed_is_undone(tmp_path: Path) -> None:
    """Files that a shell command has changed, made or removed come back too."""
    command = "echo new > a; echo made > b; rm c"
    async with open_project(tmp_path, {"go": turn(shell(command))}, sandbox=FULL_ACCESS) as project:
        for name in ("a", "c"):
            project.put(name, "old")
        session_id = await new_session(project.service)
        await say(project.service, session_id, "go")
        assert {"a": "new\n", "b": "made\n"} == project.files()
        await project.service.restore_to_message(session_id)
        assert {"a": "old", "c": "old"} == project.files()


async def test_what_helpers_changed_is_undone_with_the_turn(tmp_path: Path) -> None:
    """The files that a turn's helpers have changed belong to that turn: going back in the parent restores them."""
    scripts: Scripts = {"go": turn(hand_over("a", "b")), "a": turn(write("a", "new")), "b": turn(write("b", "made"))}
    async with open_project(tmp_path, scripts) as project:
        project.put("a", "old")
        session_id = await new_session(project.service)
        await say(project.service, session_id, "go")
        assert {"a": "new", "b": "made"} == project.files()
        reply = await project.service.restore_to_message(session_id)
        assert ({"a": "old"}, {"a": "restored", "b": "removed"}) == (project.files(), done(reply))


async def test_another_working_folder_is_not_touched(tmp_path: Path) -> None:
    """After a change of the folder an undo of files is refused, even by force; back in the old folder it works."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "a").write_text("somebody's")
    async with open_project(tmp_path, {"go": turn(write("a", "new"))}) as project:
        project.put("a", "old")
        session_id = await new_session(project.service)
        await say(project.service, session_id, "go")
        await project.service.change_working_directory(session_id, str(other))
        with pytest.raises(Conflict, match="another working folder"):
            await project.service.restore_to_message(session_id, force=True)
        assert ("somebody's", {"a": "new"}) == ((other / "a").read_text(), project.files())
        assert await transcript(project.service, session_id), "nothing was done"
        await project.service.change_working_directory(session_id, str(project.root))
        assert {"a": "restored"} == done(await project.service.restore_to_message(session_id))
        assert {"a": "old"} == project.files()


async def test_after_reopening(tmp_path: Path) -> None:
    """What was done before the service was closed can be undone by the next one."""
    async with open_project(tmp_path, {"go": turn(write("a", "new"))}, store=SqliteStore(tmp_path / "home")) as first:
        first.put("a", "old")
        session_id = await new_session(first.service)
        await say(first.service, session_id, "go")
    async with open_project(tmp_path, {}, store=SqliteStore(tmp_path / "home")) as second:
        reply = await second.service.restore_to_message(session_id)
        assert ({"a": "old"}, {"a": "restored"}) == (second.files(), done(reply))


async def test_refusals(tmp_path: Path) -> None:
    """Nothing to go back to, unknown messages, messages of the model and empty wishes are refused, nothing changes."""
    async with open_project(tmp_path, {"go": turn(write("a", "new"))}) as project:
        service = project.service
        session_id = await new_session(service)
        with pytest.raises(Conflict, match="conversation is empty"):
            await service.restore_to_message(session_id)
        await say(service, session_id, "go")
        before = await service.load_session(session_id)
        with pytest.raises(NotFound, match="there is no message"):
            await service.restore_to_message(session_id, "msg_x")  # type: ignore[arg-type]
        with pytest.raises(Conflict, match="from: assistant"):
            await service.restore_to_message(session_id, before.head)
        with pytest.raises(InvalidInput, match="nothing to do"):
            await service.restore_to_message(session_id, files=False, conversation=False)
        assert before == await service.load_session(session_id)
        assert {"a": "new"} == project.files()


async def test_without_checkpoints_only_the_conversation_goes_back() -> None:
    """A service without checkpoints says so when only files are wanted, and else takes the conversation back."""
    async with open_checked_service(scripted(text("one"))) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        with pytest.raises(Unavailable, match="without checkpoints"):
            await service.restore_to_message(session_id, conversation=False)
        assert "hello" == (await service.restore_to_message(session_id)).text
        assert [] == await transcript(service, session_id)


async def test_not_while_a_turn_runs(tmp_path: Path) -> None:
    """Going back is refused while a turn runs, and nothing is touched."""
    async with open_project(tmp_path, {"go": (write("a", "new"), Hang())}) as project:
        session_id = await new_session(project.service)
        await project.service.send_user_message(session_id, "go")
        await until((project.root / "a").exists)  # there is a file of another name before it
        with pytest.raises(Conflict, match="while a turn is running"):
            await project.service.restore_to_message(session_id)
        assert {"a": "new"} == project.files()


# --- while it runs ----------------------------------------------------------------------------------------------------


class HeldStore(CheckpointStore):
    """A checkpoint store whose restore waits for the test, or fails."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.begun, self.go = threading.Event(), threading.Event()
        self.failure: Exception | None = None

    def restore(
        self, plan: RestorePlan, workspace: Workspace, *, force: bool = False, undoing: UndoDescription | None = None
    ) -> UndoReport:
        self.begun.set()
        assert self.go.wait(300)
        if self.failure is not None:
            raise self.failure
        return super().restore(plan, workspace, force=force, undoing=undoing)

    async def wait_begun(self) -> None:
        assert await trio.to_thread.run_sync(self.begun.wait, 30)


async def test_messages_sent_meanwhile_wait_and_then_start_a_turn(tmp_path: Path) -> None:
    """During an undo other work is refused; a message waits, and starts a turn when the files are back."""
    kept = HeldStore(tmp_path / "checkpoints")
    scripts: Scripts = {"go": turn(write("a", "new")), "next": [text("hi")]}
    async with open_project(tmp_path, scripts, checkpoints=kept) as project, trio.open_nursery() as nursery:
        service, replies = project.service, []
        session_id = await new_session(service)
        await say(service, session_id, "go")

        async def undo() -> None:
            replies.append(await service.restore_to_message(session_id))

        nursery.start_soon(undo)
        await kept.wait_begun()
        with pytest.raises(Conflict, match="while a restore is running"):
            await service.restore_to_message(session_id)
        assert "queued" == (await service.send_user_message(session_id, "next")).disposition
        assert [] == replies
        kept.go.set()
        await until(lambda: replies)
        await service.wait_for_turn(session_id)
        assert [("user", "next"), ("assistant", "hi")] == await transcript(service, session_id)
        assert {} == project.files()


async def test_a_stop_waits_for_the_undo_and_starts_nothing(tmp_path: Path) -> None:
    """A stop during an undo lets it end, says so, and what was sent meanwhile goes on waiting."""
    kept = HeldStore(tmp_path / "checkpoints")
    async with open_project(tmp_path, {"go": turn(write("a", "new"))}, checkpoints=kept) as project:
        service = project.service
        session_id = await new_session(service)
        await say(service, session_id, "go")
        outcomes = []

        async def stop() -> None:
            outcomes.append(await service.request_stop(session_id))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(service.restore_to_message, session_id)
            await kept.wait_begun()
            await service.send_user_message(session_id, "next")
            nursery.start_soon(stop)
            await wait_all_tasks_blocked()
            kept.go.set()
        (outcome,) = outcomes
        assert ("stopped", ["restore"]) == (outcome.result, [each.kind for each in outcome.ended])
        assert 1 == len(outcome.kept)
        state = await service.load_session(session_id)
        assert ("idle", None, 1, {}) == (state.activity.name, state.stop, len(state.queue), project.files())


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_caller_that_leaves_does_not_tear_it(tmp_path: Path, key: str | None) -> None:
    """Whoever asked for an undo may go: it is done to its end, and a retry with the key gets its reply."""
    kept = HeldStore(tmp_path / "checkpoints")
    async with open_project(tmp_path, {"go": turn(write("a", "new"))}, checkpoints=kept) as project:
        service = project.service
        session_id = await new_session(service)
        await say(service, session_id, "go")
        command = RestoreToMessage(session_id=session_id)
        with trio.CancelScope() as impatient:
            impatient.cancel()
            await service.execute(command, idempotency_key=key)
        with trio.move_on_after(60) as leaving:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(lambda: service.execute(command, idempotency_key=key))
                await kept.wait_begun()
                leaving.cancel()
        kept.go.set()
        await until(lambda: service._core.session(session_id).work is None)
        assert ({}, []) == (project.files(), await transcript(service, session_id))
        if key is not None:
            reply = await service.execute(command, idempotency_key=key)
            assert ("go", {"a": "removed"}) == (reply.text, done(reply))


async def test_deleting_the_session_meanwhile(tmp_path: Path) -> None:
    """A session deleted during an undo is gone when the undo has ended, with all that was kept of it."""
    kept = HeldStore(tmp_path / "checkpoints")
    async with open_project(tmp_path, {"go": turn(write("a", "new"))}, checkpoints=kept) as project:
        session_id = await new_session(project.service)
        await say(project.service, session_id, "go")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(project.service.restore_to_message, session_id)
            await kept.wait_begun()
            nursery.start_soon(project.service.delete_session, session_id)
            await wait_all_tasks_blocked()
            kept.go.set()
        assert ({}, 0) == (project.files(), project.service.statistics().sessions)
    assert not (tmp_path / "checkpoints" / session_id).exists()


@pytest.mark.parametrize("failure", [CheckpointFailed("the disk is full"), PermissionError(13, "no entry")])
async def test_a_failing_checkpoint_store(tmp_path: Path, failure: Exception) -> None:
    """When files cannot be brought back the error says why, the conversation stays, and a retry tries again."""
    kept = HeldStore(tmp_path / "checkpoints")
    kept.go.set()
    async with open_project(tmp_path, {"go": turn(write("a", "new"))}, checkpoints=kept) as project:
        service = project.service
        session_id = await new_session(service)
        await say(service, session_id, "go")
        before = await service.load_session(session_id)
        kept.failure = failure
        command = RestoreToMessage(session_id=session_id)
        with pytest.raises(Conflict, match=r"nothing was done: .*(the disk is full|no entry)"):
            await service.execute(command, idempotency_key="k")
        assert before == await service.load_session(session_id)
        kept.failure = None
        first = await service.execute(command, idempotency_key="k")
        assert {"a": "removed"} == done(first)
        assert first == await service.execute(command, idempotency_key="k"), "a retry does not go back once more"


async def test_a_store_that_fails_meanwhile(tmp_path: Path) -> None:
    """If the disk fails during an undo, the conversation stays, and the caller learns that the files are back."""
    kept, store = HeldStore(tmp_path / "checkpoints"), FailingStore()
    async with open_project(tmp_path, {"go": turn(write("a", "new"))}, checkpoints=kept, store=store) as project:
        session_id = await new_session(project.service)
        await say(project.service, session_id, "go")
        before = await project.service.load_session(session_id)

        async def undo() -> None:
            with pytest.raises(ReadOnly, match="the files were restored, the conversation was not"):
                await project.service.restore_to_message(session_id)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(undo)
            await kept.wait_begun()
            store.fail()
            kept.go.set()
        assert before.transcript == (await project.service.load_session(session_id)).transcript
        assert {} == project.files()


# --- checkpoints in tools ---------------------------------------------------------------------------------------------


class FullDisk(CheckpointStore):
    """Cannot save anything."""

    def save_before(self, session_id: SessionId, turn_id: TurnId, workspace: Workspace, path: str) -> None:  # type: ignore[override]
        raise CheckpointFailed("the disk is full")


async def test_a_file_that_cannot_be_saved_is_not_changed(tmp_path: Path) -> None:
    """When the checkpoint cannot be made, the tool is refused, the model is told, and the file is as it was."""
    kept = FullDisk(tmp_path / "checkpoints")
    async with open_project(tmp_path, {"go": turn(write("a", "new"), write("b", "new"))}, checkpoints=kept) as project:
        project.put("a", "old")
        session_id = await new_session(project.service)
        await say(project.service, session_id, "go")
        assert {"a": "old"} == project.files()
        told = [part for message in (await project.service.load_session(session_id)).messages for part in message.parts]
        results = [part for part in told if isinstance(part, ToolResultPart)]
        assert [("error", "the disk is full")] * 2 == [(part.status, part.text) for part in results]


async def test_deleting_a_session_forgets_its_files(tmp_path: Path) -> None:
    """With a session go the contents that were kept for it, and nobody else's."""
    scripts: Scripts = {"go": turn(write("a", "1")), "other": turn(write("b", "1"))}
    async with open_project(tmp_path, scripts) as project:
        gone, stays = await new_session(project.service), await new_session(project.service)
        await say(project.service, gone, "go")
        await say(project.service, stays, "other")
        await project.service.delete_session(gone)
    assert [stays] == [each.name for each in (tmp_path / "checkpoints").iterdir() if each.name.startswith("ses_")]
