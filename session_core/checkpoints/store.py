"""`CheckpointStore`: the API for files saved before the agent changes them.

Everything here blocks; call it in a worker thread. Calls for one session wait for each other, those for different
sessions do not (but for a few that share a lock by chance).
"""

import os
import re
import secrets
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import attrs

from session_core.checkpoints import restore
from session_core.checkpoints.blobs import sync_folder
from session_core.checkpoints.command_changes import CommandWatch, RunningCommands
from session_core.checkpoints.file_state import present_state, read_file_state, remembered_name
from session_core.checkpoints.manifest import TurnRecord
from session_core.checkpoints.session_folder import SessionFolder
from session_core.checkpoints.values import (
    CheckpointFailed,
    CheckpointLimits,
    FileSaveResult,
    RestorePlan,
    SkippedFile,
    TreeSnapshot,
    TurnCheckpoint,
    UndoDescription,
    UndoReport,
)
from session_core.errors import InvalidInput, StoreUnusable
from session_core.ids import SessionId, TurnId, new_id, now_ms
from session_core.sandbox.ignore import IgnoreRules
from session_core.sandbox.workspace import Workspace
from session_core.storage.home import prepare_home

_LOCKS: Final = 32
_REMEMBERED_SESSIONS: Final = 16
_GONE: Final = ".gone-"
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,100}", re.ASCII)


class CheckpointStore:
    """Saves files before they change and restores them; one process at a time uses a folder."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        limits: CheckpointLimits | None = None,
        now: Callable[[], int] = now_ms,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = Path(folder)
        self._limits = limits or CheckpointLimits()
        self._now = now
        self._clock = clock
        self._locks = [threading.RLock() for _ in range(_LOCKS)]
        self._remembered: OrderedDict[SessionId, SessionFolder] = OrderedDict()
        self._running: dict[tuple[SessionId, str], RunningCommands] = {}  # by session and folder
        self._remembering = threading.Lock()
        self._prepared = False

    def save_before(self, session_id: SessionId, turn_id: TurnId, workspace: Workspace, path: str) -> FileSaveResult:
        """Save a file as it is, unless this turn has already done so; when it returns, the write may go ahead.

        Raises:
            OutsideWorkspace: The path leads out of the workspace.
            CheckpointFailed: It could not be saved, so it must not be changed.
        """
        _check_id(turn_id, "turn_id")
        name = remembered_name(workspace, path)
        with self._session(
            session_id, f"{name!r} could not be saved before the change, so it must not be changed"
        ) as folder:
            known = folder.turns.get(turn_id)
            if known is not None and name in known.before:
                return FileSaveResult(path=name, state=known.before[name][0], first=False)
            with self._watch(session_id, folder, workspace) as watch:
                watch.hand_over(turn_id)
                state, data = read_file_state(workspace, name, limit=self._limits.file_bytes)
                before = watch.state_before(turn_id, name, state)
            record = folder.begin_turn(turn_id, saved_at=self._now())
            if before is not None and folder.room_for_files(turn_id, 1):
                folder.add_before(record, [(name, before)], "command")
                return FileSaveResult(path=name, state=before, first=True)
            saved, dropped = folder.save(record, name, state, data)
            return FileSaveResult(path=name, state=saved, first=True, dropped=dropped)

    def snapshot_tree(
        self,
        session_id: SessionId,
        turn_id: TurnId,
        workspace: Workspace,
        ignore: IgnoreRules | None = None,
        *,
        command: str = "",
    ) -> TreeSnapshot:
        """Record the files of the workspace before a command that may change any of them.

        Bounded in files, bytes and time; the result says whether everything was recorded. Ignored files are left out.
        `command` identifies it among commands that run side by side, until `note_after` reports its end.

        Raises:
            CheckpointFailed: Nothing could be saved.
        """
        _check_id(turn_id, "turn_id")
        with (
            self._session(session_id, "the folder could not be saved before the command") as folder,
            self._watch(session_id, folder, workspace, ignore) as watch,
        ):
            return watch.begin(turn_id, command)

    def note_after(
        self,
        session_id: SessionId,
        turn_id: TurnId,
        workspace: Workspace,
        *,
        paths: Sequence[str] | None = None,
        ignore: IgnoreRules | None = None,
        command: str = "",
        runs_on: bool = False,
        certain: bool = True,
    ) -> None:
        """Record how the turn left its files, to distinguish later changes by others.

        Without `paths`, all files of the turn are noted: for the end of a turn. With the paths of one call, right after
        it, fewer changes by others are mistaken for the turn's work, and a later crash does no harm. Changes by
        commands are always noted. Changes that are not noted count as made by others.

        `command` has ended, if it was running, unless it `runs_on` in the background: then call this again when it has
        ended. If that is after its turn, others may have been working at the same time: without `certain` its changes
        are noted, but an undo asks before it overwrites them.

        Raises:
            CheckpointFailed: It could not be noted.
        """
        _check_id(turn_id, "turn_id")
        with self._session(session_id, "how the turn left its files could not be noted") as folder:
            with self._watch(session_id, folder, workspace, ignore) as watch:
                try:
                    watch.record_changes(turn_id, certain=certain)
                    if not watch.running.commands - (set() if runs_on else {command}):
                        watch.settle()
                finally:
                    if not runs_on:
                        watch.running.commands.discard(command)
            if (record := folder.turns.get(turn_id)) is not None:
                named = record.before if paths is None else {remembered_name(workspace, path) for path in paths}
                folder.add_after(
                    record,
                    [(path, present_state(workspace, path, self._limits)) for path in record.before if path in named],
                )

    def turns(self, session_id: SessionId) -> list[TurnCheckpoint]:
        """Return all turns of a session that saved something, oldest first."""
        with self._session(session_id, "the checkpoints cannot be read") as folder:
            return [_to_turn_checkpoint(record) for record in folder.turns.values()]

    def plan_restore(self, session_id: SessionId, turn_ids: Sequence[TurnId], workspace: Workspace) -> RestorePlan:
        """Plan what undoing these turns would do with each file; changes none of the user's files.

        Raises:
            CheckpointFailed: The checkpoints cannot be read.
        """
        for turn_id in turn_ids:
            _check_id(turn_id, "turn_ids")
        with self._session(session_id, "the checkpoints cannot be read") as folder:
            with self._watch(session_id, folder, workspace) as watch:
                watch.record_changes(None, certain=False)
                runs_on = bool(watch.running.commands)
                if not runs_on:
                    watch.settle()
            plan = restore.build_plan(folder, session_id, turn_ids, workspace, self._limits)
            remark = "a command still runs in the background, and may change files again"
            return attrs.evolve(plan, remarks=(*plan.remarks, remark)) if runs_on else plan

    def restore(
        self, plan: RestorePlan, workspace: Workspace, *, force: bool = False, undoing: UndoDescription | None = None
    ) -> UndoReport:
        """Carry out a plan; the current contents are saved first, as a separate turn.

        Files that changed since the plan was made, and conflicts, are left alone unless `force` is given. With
        `undoing` there is such a turn even if no file changes, and an interrupted undo is resumed.

        Raises:
            CheckpointFailed: The current contents could not be saved. All files are as they were, except for those in
                its `unrestored`: repeating the same undo resumes with them.
        """
        with self._session(plan.session_id, "the present files could not be saved, so the undo stopped") as folder:
            undo = restore.UndoRun(
                session_folder=folder,
                plan=plan,
                workspace=workspace,
                limits=self._limits,
                started_at=self._now(),
                force=force,
                undoing=undoing,
            )
            try:
                report = undo.run()
                with self._watch(plan.session_id, folder, workspace) as watch:
                    watch.rebase([*report.restored, *report.recreated, *report.deleted])
            except OSError as error:
                if unrestored := undo.roll_back():
                    msg = f"the present files could not be saved, so the undo stopped: {error.strerror or error}"
                    raise CheckpointFailed(msg, unrestored=unrestored) from error
                raise
            return report

    def abandon_undo(self, plan: RestorePlan, workspace: Workspace, undo_turn_id: TurnId) -> tuple[SkippedFile, ...]:
        """Roll back what an undo has just done by this plan; return the files where that failed.

        Raises:
            CheckpointFailed: The checkpoints cannot be read.
        """
        _check_id(undo_turn_id, "undo_turn_id")
        with self._session(plan.session_id, "the undo could not be put back") as folder:
            undo = restore.UndoRun(
                session_folder=folder,
                plan=plan,
                workspace=workspace,
                limits=self._limits,
                started_at=self._now(),
                interrupted_record=folder.turns.get(undo_turn_id),
            )
            unrestored = undo.roll_back()
            with self._watch(plan.session_id, folder, workspace) as watch, suppress(OSError):
                watch.rebase([each.path for each in plan.files])
            return unrestored

    def note_undo(self, session_id: SessionId, undoing: UndoDescription) -> TurnId:
        """Record an undo that restores no files, so it can still be reverted.

        Raises:
            CheckpointFailed: It could not be noted.
        """
        with self._session(session_id, "the undo could not be noted") as folder:
            return folder.begin_turn(TurnId(new_id("undo")), saved_at=self._now(), undo=True, undoes=undoing).turn_id

    def finish_undo(self, session_id: SessionId, undo_turn_id: TurnId) -> None:
        """Record that an undo is complete, including the conversation, so it is not resumed.

        Raises:
            CheckpointFailed: It could not be noted.
        """
        _check_id(undo_turn_id, "undo_turn_id")
        with self._session(session_id, "the end of the undo could not be noted") as folder:
            if (record := folder.turns.get(undo_turn_id)) is not None and record.undo:
                folder.finish(record)

    def forget(self, session_id: SessionId) -> None:
        """Delete all stored data of a session.

        Raises:
            CheckpointFailed: It could not be deleted.
        """
        _check_id(session_id, "session_id")
        with self._lock(session_id):
            try:
                self._prepare()
                with self._remembering:
                    self._remembered.pop(session_id, None)
                    for each in [key for key in self._running if key[0] == session_id]:
                        del self._running[each]
                # The new name hides it at once; after a crash, the next start removes folders with such names.
                gone = self._folder / (_GONE + secrets.token_hex(8))
                try:
                    (self._folder / session_id).rename(gone)
                except FileNotFoundError:
                    return
                shutil.rmtree(gone)
                sync_folder(self._folder)
            except OSError as error:
                raise CheckpointFailed(f"the checkpoints could not be deleted: {error.strerror or error}") from error

    @contextmanager
    def _watch(
        self, session_id: SessionId, folder: SessionFolder, workspace: Workspace, ignore: IgnoreRules | None = None
    ) -> Generator[CommandWatch]:
        key = (session_id, workspace.root)
        with self._remembering:
            running = self._running.setdefault(key, RunningCommands())
        try:
            yield CommandWatch(
                session_folder=folder,
                workspace=workspace,
                limits=self._limits,
                clock=self._clock,
                now=self._now,
                running=running,
                ignore=ignore,
            )
        finally:
            with self._remembering:
                if not running.commands:
                    self._running.pop(key, None)

    @contextmanager
    def _session(self, session_id: SessionId, failure: str) -> Generator[SessionFolder]:
        _check_id(session_id, "session_id")
        with self._lock(session_id):
            try:
                self._prepare()
                yield self._load_folder(session_id)
            except (OSError, StoreUnusable) as error:
                self._discard_cached_folder(session_id)
                why = error.message if isinstance(error, StoreUnusable) else error.strerror or str(error)
                raise CheckpointFailed(f"{failure}: {why}") from error
            except BaseException:
                self._discard_cached_folder(session_id)
                raise

    def _lock(self, session_id: SessionId) -> threading.RLock:
        return self._locks[hash(session_id) % _LOCKS]

    def _load_folder(self, session_id: SessionId) -> SessionFolder:
        with self._remembering:
            folder = self._remembered.get(session_id)
        if folder is None:
            folder = SessionFolder(self._folder / session_id, self._limits)
        with self._remembering:
            self._remembered[session_id] = folder
            self._remembered.move_to_end(session_id)
            while len(self._remembered) > _REMEMBERED_SESSIONS:
                self._remembered.popitem(last=False)
        return folder

    def _discard_cached_folder(self, session_id: SessionId) -> None:
        """Forget the cached folder after a failure, so it is read from disk again next time."""
        with self._remembering:
            self._remembered.pop(session_id, None)

    def _prepare(self) -> None:
        with self._remembering:
            if self._prepared:
                return
            prepare_home(self._folder)
            for gone in self._folder.glob(_GONE + "*"):
                shutil.rmtree(gone, ignore_errors=True)
            self._prepared = True


def _to_turn_checkpoint(record: TurnRecord) -> TurnCheckpoint:
    return TurnCheckpoint(
        turn_id=record.turn_id,
        saved_at=record.saved_at,
        files=record.files(),
        undo=record.undo,
        undoes=record.undoes,
        finished=record.finished,
        dropped=record.dropped,
        damaged=record.damaged,
        remarks=tuple(record.remarks),
    )


def _check_id(text: str, field: str) -> None:
    if not _ID.fullmatch(text):
        raise InvalidInput("an id has letters, digits, '_' and '-', and at most 100 of them", field=field)
