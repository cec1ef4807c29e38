"""Plan an undo, file by file, and carry it out.

A file is restored only if it is exactly as the undone turns left it. Any other state is a conflict, because it may be
a person's work.
"""

from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise

import attrs

from session_core.checkpoints.blobs import BlobLost
from session_core.checkpoints.file_state import present_state, read_file_state, set_mode
from session_core.checkpoints.manifest import TurnRecord
from session_core.checkpoints.session_folder import SessionFolder
from session_core.checkpoints.values import (
    CheckpointLimits,
    FileState,
    Origin,
    PlannedFile,
    RestorePlan,
    SkippedFile,
    UndoDescription,
    UndoReport,
)
from session_core.ids import SessionId, TurnId, new_id
from session_core.sandbox.file_values import FileStatus, WorkspaceRefused
from session_core.sandbox.workspace import Workspace


@attrs.frozen
class _RecordedChange:
    """The change of a file in one record; the number gives the order."""

    number: int
    before: FileState
    after: FileState | None
    origin: Origin


def build_plan(
    folder: SessionFolder,
    session_id: SessionId,
    turn_ids: Sequence[TurnId],
    workspace: Workspace,
    limits: CheckpointLimits,
) -> RestorePlan:
    """Compare the current files with how the turns left them, and plan what can be restored."""
    chosen = [record for record in folder.turns.values() if record.turn_id in set(turn_ids)]
    steps: dict[str, list[_RecordedChange]] = {}
    for record in chosen:
        for path in record.before:
            steps.setdefault(path, []).append(_find_change(record, path))
    files = [_plan_file(folder, path, steps[path], workspace, limits) for path in sorted(steps)]
    return RestorePlan(
        session_id=session_id,
        turn_ids=tuple(record.turn_id for record in chosen),
        files=tuple(files),
        remarks=tuple(remark for record in chosen for remark in _collect_remarks(record)),
    )


@attrs.define(kw_only=True)
class UndoRun:
    """Carries out a plan: for each file, saves the current content, writes or deletes it, and notes the result.

    `interrupted_record` is the record of the undo if it is being resumed.
    """

    session_folder: SessionFolder
    plan: RestorePlan
    workspace: Workspace
    limits: CheckpointLimits
    started_at: int
    force: bool = False
    undoing: UndoDescription | None = None
    _record: TurnRecord | None = attrs.field(default=None, alias="interrupted_record")

    def run(self) -> UndoReport:
        """Run the undo; the report names files that had to be left alone."""
        if self.undoing is not None:
            self._record = self._find_interrupted_record() or self._begin_record()
        done: dict[str, list[str]] = {"restored": [], "recreated": [], "deleted": []}
        skipped: list[SkippedFile] = []
        # Delete first: a file may be where a folder belongs.
        for planned in sorted(self.plan.files, key=lambda each: each.target.kind != "missing"):
            if planned.action == "unchanged":
                self._note_done(planned)
                continue
            try:
                done[self._restore_file(planned)].append(planned.path)
            except _FileSkipped as refusal:
                skipped.append(SkippedFile(path=planned.path, why=str(refusal)))
        changed = any(done.values())
        return UndoReport(
            undo_turn_id=self._record.turn_id if self._record and (changed or self.undoing) else None,
            restored=tuple(done["restored"]),
            recreated=tuple(done["recreated"]),
            deleted=tuple(done["deleted"]),
            skipped=tuple(skipped),
        )

    def roll_back(self) -> tuple[SkippedFile, ...]:
        """Leave nothing half done: restore what the undo found in each file, and return the files where that failed.

        Nothing is recorded meanwhile, because the disk may be full: the current content is what the undo has written.
        """
        record, failed_files = self._record, list[SkippedFile]()
        if record is None:
            return ()
        targets = {each.path: each.target for each in self.plan.files}
        for path in reversed(record.before):
            try:
                self._roll_back_file(path, record.before[path][0], record.after.get(path) or targets.get(path))
            except (_FileSkipped, BlobLost, WorkspaceRefused) as error:
                failed_files.append(SkippedFile(path=path, why=str(error)))
            except OSError as error:
                failed_files.append(SkippedFile(path=path, why=f"it cannot be changed: {error.strerror or error}"))
        if not failed_files:
            with suppress(OSError):  # then it stays listed, and reverting it changes nothing
                self.session_folder.discard(record)
        return tuple(failed_files)

    def _roll_back_file(self, path: str, found: FileState, brought: FileState | None) -> None:
        status = self.workspace.stat(path)
        present, _ = read_file_state(self.workspace, path, limit=self.limits.file_bytes)
        if present.same_as(found):
            return
        # The mode is ignored, because a file is written first and gets its mode afterwards.
        if brought is None or (present.kind, present.sha256) != (brought.kind, brought.sha256):
            raise _FileSkipped("somebody else changed it meanwhile")
        content = self.session_folder.blobs.get(found.sha256 or "") if found.kind == "content" else None
        _write_file(self.workspace, path, content, found.mode, status)

    def _begin_record(self) -> TurnRecord:
        return self.session_folder.begin_turn(
            TurnId(new_id("undo")), saved_at=self.started_at, undo=True, undoes=self.undoing
        )

    def _find_interrupted_record(self) -> TurnRecord | None:
        """Return the record of the same undo if it was interrupted and each file is as it left it, or put back."""
        newest = next(reversed(self.session_folder.turns.values()), None)
        if newest is None or newest.finished or newest.dropped or newest.undoes != self.undoing:
            return None
        touched = [each for each in self.plan.files if each.action != "unchanged" and each.path in newest.before]
        fits = (
            each.present.same_as(newest.before[each.path][0])
            or _is_interrupted_undo(newest, each.path, each.target, each.present)
            for each in touched
        )
        return newest if all(fits) else None

    def _note_done(self, planned: PlannedFile) -> None:
        """Note a file that was written just before the service died, or it could not be reverted."""
        record = self._record
        if record is not None and planned.path in record.before and planned.path not in record.after:
            self.session_folder.add_after(record, [(planned.path, planned.present)])

    def _restore_file(self, planned: PlannedFile) -> str:
        action = planned.action
        if action in {"not_saved", "too_large"} or planned.stuck or (action == "conflict" and not self.force):
            raise _FileSkipped(planned.why)
        path, target, workspace, folder = planned.path, planned.target, self.workspace, self.session_folder
        try:
            status = workspace.stat(path)
            present, data = read_file_state(workspace, path, limit=self.limits.file_bytes)
            if not self.force and not present.same_as(planned.present):
                raise _FileSkipped("it changed after the plan was made; plan again")
            if present.kind not in {"content", "missing"}:
                raise _FileSkipped(f"its current content could not be saved first: {present.why}")
            content = folder.blobs.get(target.sha256 or "") if target.kind == "content" else None
            if self._record is None:
                self._record = self._begin_record()
            if path not in self._record.before:
                saved, _ = folder.save(self._record, path, present, data, keep=self.plan.turn_ids)
                if saved.kind not in {"content", "missing"}:
                    raise _FileSkipped(f"its current content could not be saved first: {saved.why}")
            _write_file(workspace, path, content, target.mode, status)
            folder.add_after(self._record, [(path, read_file_state(workspace, path, limit=self.limits.file_bytes)[0])])
        except (BlobLost, WorkspaceRefused) as error:
            raise _FileSkipped(str(error)) from error
        if content is None:
            return "deleted"
        return "recreated" if status is None else "restored"


def _is_interrupted_undo(record: TurnRecord, path: str, target: FileState, present: FileState) -> bool:
    """Return whether an undo died before it wrote a file, or between writing it and setting its mode."""
    if path not in record.before or path in record.after:
        return False
    written = present.kind == "content" and present.sha256 == target.sha256
    return written or present.same_as(record.before[path][0])


class _FileSkipped(Exception):
    """A file is not touched; the message is for people."""


def _plan_file(
    folder: SessionFolder, path: str, steps: list[_RecordedChange], workspace: Workspace, limits: CheckpointLimits
) -> PlannedFile:
    target = steps[0].before
    present = present_state(workspace, path, limits)
    if present.same_as(target):
        return PlannedFile(path=path, action="unchanged", target=target, present=present)
    if target.kind in ("too_large", "not_saved"):
        return PlannedFile(path=path, action=target.kind, target=target, present=present, why=target.why)
    if target.kind == "content":
        try:
            folder.blobs.get(target.sha256 or "")
        except BlobLost as error:
            return PlannedFile(path=path, action="not_saved", target=target, present=present, why=str(error))
    as_planned = PlannedFile(
        path=path, action="delete" if target.kind == "missing" else "restore", target=target, present=present
    )
    if present.kind not in {"content", "missing"}:
        why = f"its current content could not be saved first: {present.why}"
        return attrs.evolve(as_planned, action="conflict", why=why, stuck=True)
    if any(
        each.undo
        and not each.finished
        and present.sha256 == target.sha256
        and _is_interrupted_undo(each, path, target, present)
        for each in folder.turns.values()
    ):
        return as_planned
    chosen = {each.number for each in steps}
    undos = [
        _find_change(each, path)
        for each in folder.turns.values()
        if each.number not in chosen and path in each.before and _is_undo_in(each, workspace.root)
    ]
    conflict = _find_conflict(steps, undos, present)
    return as_planned if conflict is None else attrs.evolve(as_planned, action="conflict", why=conflict)


def _find_change(record: TurnRecord, path: str) -> _RecordedChange:
    before, origin = record.before[path]
    return _RecordedChange(record.number, before, record.after.get(path), origin)


def _is_undo_in(record: TurnRecord, root: str) -> bool:
    return record.undo and (record.undoes is None or record.undoes.root == root)


def _find_conflict(steps: list[_RecordedChange], undos: list[_RecordedChange], present: FileState) -> str | None:
    # A forced undo may have restored another person's work: only states known to the turns are safe to overwrite.
    known = [steps[0].before, *(each.after for each in steps if each.after is not None)]
    undos = [each for each in undos if each.after is not None and any(each.after.same_as(state) for state in known)]
    for step, later in pairwise(steps):
        between = [each for each in undos if step.number < each.number < later.number]
        if step.after is None or not _leads_to(step.after, between, later.before):
            return "somebody else changed it between these turns"
    last_state = steps[-1].after
    if last_state is None and steps[-1].origin == "background":
        return "a command kept running in the background, and it is not known whether it or somebody else changed it"
    if last_state is None:
        return "the turn ended before it could record this file's final state"
    if _leads_to(last_state, [each for each in undos if each.number > steps[-1].number], present):
        return None
    if present.kind == "missing":
        return "somebody else deleted it since"
    return "somebody else changed it since"


def _leads_to(state: FileState, undos: list[_RecordedChange], end: FileState) -> bool:
    """Return whether only undos brought a file from one state to another."""
    if state.same_as(end):
        return True
    for undo in undos:
        if undo.after is not None and state.same_as(undo.before):
            state = undo.after
    return state.same_as(end)


def _write_file(workspace: Workspace, path: str, content: bytes | None, mode: int, found: FileStatus | None) -> None:
    try:
        if content is not None:
            workspace.write(path, content, expected=found.version if found else None)
            set_mode(workspace, path, mode)
        elif found is not None:
            workspace.remove(path)
    except OSError as error:
        raise _FileSkipped(f"it cannot be changed: {error.strerror or error}") from error


def _collect_remarks(record: TurnRecord) -> list[str]:
    found = [f"{record.turn_id}: {remark}" for remark in record.remarks]
    if record.dropped:
        found.append(f"{record.turn_id}: it is too long ago, its files had to make room for later ones")
    if record.damaged:
        found.append(f"{record.turn_id}: {record.damaged} lines of its record are damaged, files may be missing here")
    return found
