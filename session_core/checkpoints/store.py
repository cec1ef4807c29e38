"""`CheckpointStore`: the door to what is kept of files before the agent changes them.

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
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs

from session_core.checkpoints import restoring
from session_core.checkpoints.blobs import sync_folder
from session_core.checkpoints.looking import look, remembered_name
from session_core.checkpoints.manifest import TurnRecord
from session_core.checkpoints.session_folder import SessionFolder
from session_core.checkpoints.tree import Walker, changes_since, take_index
from session_core.checkpoints.values import (
    CheckpointFailed,
    CheckpointLimits,
    FileState,
    RestorePlan,
    RestoreReport,
    Saved,
    TreeSnapshot,
    TurnCheckpoint,
)
from session_core.confine.contents import OutsideWorkspace
from session_core.confine.ignore import IgnoreRules
from session_core.confine.workspace import Workspace
from session_core.errors import InvalidInput, StoreUnusable
from session_core.ids import SessionId, TurnId, new_id, now_ms
from session_core.storage.home import prepare_home

_LOCKS: Final = 32
_REMEMBERED_SESSIONS: Final = 16
_GONE: Final = ".gone-"
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,100}", re.ASCII)


class CheckpointStore:
    """Saves files before they change and brings them back; one process at a time uses a folder."""

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
        self._remembering = threading.Lock()
        self._prepared = False

    def save_before(self, session_id: SessionId, turn_id: TurnId, workspace: Workspace, path: str) -> Saved:
        """Save a file as it is, unless this turn has done so already; when it returns, the write may go ahead.

        Raises:
            OutsideWorkspace: The path leads out of the workspace.
            CheckpointFailed: It could not be saved, so it must not be changed.
        """
        _check_id(turn_id, "turn_id")
        name = remembered_name(workspace, path)
        with self._session(
            session_id, f"{name!r} could not be saved before the change, so it must not be changed"
        ) as kept:
            known = kept.turns.get(turn_id)
            if known is not None and name in known.before:
                return Saved(path=name, state=known.before[name][0], first=False)
            state, data = look(workspace, name, limit=self._limits.file_bytes)
            record = kept.turn(turn_id, at=self._now())
            saved, dropped = kept.save(record, name, state, data)
            return Saved(path=name, state=saved, first=True, dropped=dropped)

    def snapshot_tree(
        self, session_id: SessionId, turn_id: TurnId, workspace: Workspace, ignore: IgnoreRules | None = None
    ) -> TreeSnapshot:
        """Remember the files of the workspace before a command that may change any of them.

        Bounded in files, bytes and time; the answer says whether all of it is remembered. Ignored files are left out.

        Raises:
            CheckpointFailed: Nothing could be saved.
        """
        _check_id(turn_id, "turn_id")
        ignore = ignore or IgnoreRules.load(workspace)
        with self._session(session_id, "the folder could not be saved before the command") as kept:
            self._settle(kept, workspace, ignore, turn_id)
            walker = Walker(workspace, ignore, self._limits, self._clock)
            index, spent = take_index(
                workspace,
                walker,
                self._limits,
                turn_id=turn_id,
                now_ns=self._now() * 1_000_000,
                known=kept.tree,
                room=kept.room_for_tree(turn_id),
                keep=lambda data: kept.blobs.put(data, durable=False),
            )
            kept.set_tree(index)
            if walker.why:
                record = kept.turn(turn_id, at=self._now())
                kept.add_remark(record, f"a command may have changed files that are not here: {walker.why}")
            return TreeSnapshot(files=len(index.files), saved_bytes=spent, complete=index.complete, why=walker.why)

    def note_after(
        self,
        session_id: SessionId,
        turn_id: TurnId,
        workspace: Workspace,
        *,
        paths: Sequence[str] | None = None,
        ignore: IgnoreRules | None = None,
    ) -> None:
        """Note how the turn left its files, so that later changes by others are told apart.

        Without `paths`, all files of the turn are noted: for the end of a turn. With the paths of one call, right after
        it, less of what others do meanwhile is mistaken for the turn's work, and a crash later on does no harm.
        What commands changed since the last `snapshot_tree` is always noted. What is not noted counts as changed by
        others.

        Raises:
            CheckpointFailed: It could not be noted.
        """
        _check_id(turn_id, "turn_id")
        with self._session(session_id, "how the turn left its files could not be noted") as kept:
            if kept.tree is not None and not kept.tree.settled:
                self._settle(kept, workspace, ignore or IgnoreRules.load(workspace), turn_id)
            if (record := kept.turns.get(turn_id)) is not None:
                named = record.before if paths is None else {remembered_name(workspace, path) for path in paths}
                kept.add_after(
                    record, [(path, self._state(workspace, path)) for path in record.before if path in named]
                )

    def turns(self, session_id: SessionId) -> list[TurnCheckpoint]:
        """All turns of a session that saved something, the oldest first."""
        with self._session(session_id, "the checkpoints cannot be read") as kept:
            return [_checkpoint(record) for record in kept.turns.values()]

    def plan_restore(self, session_id: SessionId, turn_ids: Sequence[TurnId], workspace: Workspace) -> RestorePlan:
        """Say what undoing these turns would do with each file; nothing of the user's is changed.

        Raises:
            CheckpointFailed: The checkpoints cannot be read.
        """
        for turn_id in turn_ids:
            _check_id(turn_id, "turn_ids")
        with self._session(session_id, "the checkpoints cannot be read") as kept:
            if kept.tree is not None and not kept.tree.settled:
                self._settle(kept, workspace, IgnoreRules.load(workspace), None)
            return restoring.plan(kept, session_id, turn_ids, workspace, self._limits)

    def restore(self, plan: RestorePlan, workspace: Workspace, *, force: bool = False) -> RestoreReport:
        """Carry out a plan; what is there is saved first, as a turn of its own.

        Files that changed since the plan was made, and conflicts, are left alone unless `force` is given.

        Raises:
            CheckpointFailed: The present contents could not be saved; what is not in the report was not changed.
        """
        with self._session(plan.session_id, "the present files could not be saved, so the undo stopped") as kept:
            undo = TurnId(new_id("undo"))
            return restoring.restore(kept, plan, workspace, self._limits, undo=undo, at=self._now(), force=force)

    def forget(self, session_id: SessionId) -> None:
        """Delete all that is kept of a session.

        Raises:
            CheckpointFailed: It could not be deleted.
        """
        _check_id(session_id, "session_id")
        with self._lock(session_id):
            try:
                self._prepare()
                with self._remembering:
                    self._remembered.pop(session_id, None)
                # The new name hides it at once; a crash leaves a name that the next start removes.
                gone = self._folder / (_GONE + secrets.token_hex(8))
                try:
                    (self._folder / session_id).rename(gone)
                except FileNotFoundError:
                    return
                shutil.rmtree(gone)
                sync_folder(self._folder)
            except OSError as error:
                raise CheckpointFailed(f"the checkpoints could not be deleted: {error.strerror or error}") from error

    def _settle(self, kept: SessionFolder, workspace: Workspace, ignore: IgnoreRules, turn_id: TurnId | None) -> None:
        """Record what a command changed; how it left the files is only known if its turn is still the present one."""
        index = kept.tree
        if index is None or index.settled:
            return
        walker = Walker(workspace, ignore, self._limits, self._clock)
        changes = changes_since(index, workspace, walker, self._limits)
        known = kept.turns.get(index.turn_id)
        new = [each for each in changes if known is None or each.path not in known.before]
        if changes or walker.why:
            record = kept.turn(index.turn_id, at=self._now())
            room = kept.room_for_files(index.turn_id, len(new))
            kept.add_before(record, [(each.path, each.before) for each in new[:room]], "command")
            if turn_id == index.turn_id:
                noted = [(each.path, each.after) for each in changes if each.path in record.before]
                kept.add_after(record, noted)
            if len(new) > room:
                kept.add_remark(record, f"a command changed {len(new) - room:,} more files than can be noted")
            if walker.why:
                kept.add_remark(record, f"a command may have made files that are not here: {walker.why}")
        kept.set_tree(attrs.evolve(index, settled=True))

    def _state(self, workspace: Workspace, path: str) -> FileState:
        try:
            return look(workspace, path, limit=self._limits.file_bytes)[0]
        except OutsideWorkspace as error:
            return FileState(kind="not_saved", why=str(error))

    @contextmanager
    def _session(self, session_id: SessionId, failure: str) -> Generator[SessionFolder]:
        _check_id(session_id, "session_id")
        with self._lock(session_id):
            try:
                self._prepare()
                yield self._remember(session_id)
            except (OSError, StoreUnusable) as error:
                self._mistrust(session_id)
                why = error.message if isinstance(error, StoreUnusable) else error.strerror or str(error)
                raise CheckpointFailed(f"{failure}: {why}") from error
            except BaseException:
                self._mistrust(session_id)
                raise

    def _lock(self, session_id: SessionId) -> threading.RLock:
        return self._locks[hash(session_id) % _LOCKS]

    def _remember(self, session_id: SessionId) -> SessionFolder:
        with self._remembering:
            kept = self._remembered.get(session_id)
        if kept is None:
            kept = SessionFolder(self._folder / session_id, self._limits)
        with self._remembering:
            self._remembered[session_id] = kept
            self._remembered.move_to_end(session_id)
            while len(self._remembered) > _REMEMBERED_SESSIONS:
                self._remembered.popitem(last=False)
        return kept

    def _mistrust(self, session_id: SessionId) -> None:
        """After a failure the disk knows better than we do: read it again next time."""
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


def _checkpoint(record: TurnRecord) -> TurnCheckpoint:
    return TurnCheckpoint(
        turn_id=record.turn_id,
        saved_at=record.saved_at,
        files=record.files(),
        undo=record.undo,
        dropped=record.dropped,
        damaged=record.damaged,
        remarks=tuple(record.remarks),
    )


def _check_id(text: str, field: str) -> None:
    if not _ID.fullmatch(text):
        raise InvalidInput("an id has letters, digits, '_' and '-', and at most 100 of them", field=field)
