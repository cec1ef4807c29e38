"""What an undo would do, file by file, and doing it.

A file is brought back only if it is exactly as the undone turns left it. Anything else is a conflict: somebody's work.
"""

from collections.abc import Sequence
from itertools import pairwise

import attrs

from session_core.checkpoints.blobs import BlobLost
from session_core.checkpoints.looking import look, set_mode
from session_core.checkpoints.manifest import TurnRecord
from session_core.checkpoints.session_folder import SessionFolder
from session_core.checkpoints.values import (
    CheckpointLimits,
    FileState,
    PlannedFile,
    RestorePlan,
    RestoreReport,
    SkippedFile,
)
from session_core.confine.contents import FileStatus, OutsideWorkspace, WorkspaceRefused
from session_core.confine.workspace import Workspace
from session_core.ids import SessionId, TurnId

_Step = tuple[FileState, FileState | None]


def plan(
    kept: SessionFolder,
    session_id: SessionId,
    turn_ids: Sequence[TurnId],
    workspace: Workspace,
    limits: CheckpointLimits,
) -> RestorePlan:
    """Compare what is there with what the turns left, and say what can be brought back."""
    chosen = [record for record in kept.turns.values() if record.turn_id in set(turn_ids)]
    steps: dict[str, list[_Step]] = {}
    for record in chosen:
        for path, (before, _) in record.before.items():
            steps.setdefault(path, []).append((before, record.after.get(path)))
    files = [_planned(kept, path, steps[path], workspace, limits) for path in sorted(steps)]
    return RestorePlan(
        session_id=session_id,
        turn_ids=tuple(record.turn_id for record in chosen),
        files=tuple(files),
        remarks=tuple(remark for record in chosen for remark in _remarks(record)),
    )


def restore(
    kept: SessionFolder,
    plan: RestorePlan,
    workspace: Workspace,
    limits: CheckpointLimits,
    *,
    undo: TurnId,
    at: int,
    force: bool,
) -> RestoreReport:
    """Carry out a plan: for each file save what is there, then write or delete, then note how it was left."""
    restored: list[str] = []
    deleted: list[str] = []
    skipped: list[SkippedFile] = []
    # What is to go makes way first: a file may stand where a folder belongs.
    for planned in sorted(plan.files, key=lambda each: each.target.kind != "missing"):
        if planned.action == "unchanged":
            continue
        try:
            _bring_back(kept, plan, planned, workspace, limits, undo=undo, at=at, force=force)
        except _LeftAlone as left:
            skipped.append(SkippedFile(path=planned.path, why=str(left)))
        else:
            (deleted if planned.target.kind == "missing" else restored).append(planned.path)
    return RestoreReport(
        undo_turn_id=undo if restored or deleted else None,
        restored=tuple(restored),
        deleted=tuple(deleted),
        skipped=tuple(skipped),
    )


class _LeftAlone(Exception):
    """A file is not touched; the message is for people."""


def _planned(
    kept: SessionFolder, path: str, steps: list[_Step], workspace: Workspace, limits: CheckpointLimits
) -> PlannedFile:
    target = steps[0][0]
    try:
        present, _ = look(workspace, path, limit=limits.file_bytes)
    except OutsideWorkspace as error:
        present = FileState(kind="not_saved", why=str(error))
    if present.same_as(target):
        return PlannedFile(path=path, action="unchanged", target=target, present=present)
    if target.kind in ("too_large", "not_saved"):
        return PlannedFile(path=path, action=target.kind, target=target, present=present, why=target.why)
    if target.kind == "content":
        try:
            kept.blobs.get(target.sha256 or "")
        except BlobLost as error:
            return PlannedFile(path=path, action="not_saved", target=target, present=present, why=str(error))
    as_planned = PlannedFile(
        path=path, action="delete" if target.kind == "missing" else "restore", target=target, present=present
    )
    if present.kind not in {"content", "missing"}:
        why = f"what is there now could not be saved first: {present.why}"
        return attrs.evolve(as_planned, action="conflict", why=why, stuck=True)
    conflict = _conflict(steps, present)
    return as_planned if conflict is None else attrs.evolve(as_planned, action="conflict", why=conflict)


def _conflict(steps: list[_Step], present: FileState) -> str | None:
    for (_, after), (before, _) in pairwise(steps):
        if after is None or not after.same_as(before):
            return "somebody else changed it between these turns"
    left = steps[-1][1]
    if left is None:
        return "the turn ended too suddenly to note how it left this file"
    if left.same_as(present):
        return None
    if present.kind == "missing":
        return "somebody else deleted it since"
    return "somebody else changed it since"


def _bring_back(
    kept: SessionFolder,
    plan: RestorePlan,
    planned: PlannedFile,
    workspace: Workspace,
    limits: CheckpointLimits,
    *,
    undo: TurnId,
    at: int,
    force: bool,
) -> None:
    if planned.action in {"not_saved", "too_large"} or planned.stuck or (planned.action == "conflict" and not force):
        raise _LeftAlone(planned.why)
    path, target = planned.path, planned.target
    try:
        status = workspace.stat(path)
        present, data = look(workspace, path, limit=limits.file_bytes)
        if not force and not present.same_as(planned.present):
            raise _LeftAlone("it changed after the plan was made; plan again")
        if present.kind not in {"content", "missing"}:
            raise _LeftAlone(f"what is there now could not be saved first: {present.why}")
        content = kept.blobs.get(target.sha256 or "") if target.kind == "content" else None
        record = kept.turn(undo, at=at, undo=True)
        saved, _ = kept.save(record, path, present, data, keep=plan.turn_ids)
        if saved.kind not in {"content", "missing"}:
            raise _LeftAlone(f"what is there now could not be saved first: {saved.why}")
        _put(workspace, path, content, target.mode, status)
        kept.add_after(record, [(path, look(workspace, path, limit=limits.file_bytes)[0])])
    except (BlobLost, WorkspaceRefused) as error:
        raise _LeftAlone(str(error)) from error


def _put(workspace: Workspace, path: str, content: bytes | None, mode: int, found: FileStatus | None) -> None:
    try:
        if content is not None:
            workspace.write(path, content, expected=found.version if found else None)
            set_mode(workspace, path, mode)
        elif found is not None:
            workspace.remove(path)
    except OSError as error:
        raise _LeftAlone(f"it cannot be changed: {error.strerror or error}") from error


def _remarks(record: TurnRecord) -> list[str]:
    found = [f"{record.turn_id}: {remark}" for remark in record.remarks]
    if record.dropped:
        found.append(f"{record.turn_id}: it is too long ago, its files had to make room for later ones")
    if record.damaged:
        found.append(f"{record.turn_id}: {record.damaged} lines of its record are damaged, files may be missing here")
    return found
