"""A workspace and a checkpoint store to play with."""

import os
from pathlib import Path

import attrs

from session_core.checkpoints.store import CheckpointStore
from session_core.checkpoints.values import CheckpointLimits, UndoDescription, UndoReport
from session_core.ids import SessionId, TurnId
from session_core.sandbox.workspace import Workspace

SESSION = SessionId("ses_1")


@attrs.define(kw_only=True)
class World:
    """Files of a user, the agent that changes them, and what is kept."""

    folder: Path
    limits: CheckpointLimits = attrs.field(factory=CheckpointLimits)
    store: CheckpointStore = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.root.mkdir(exist_ok=True)
        self.reopen()

    @property
    def root(self) -> Path:
        return self.folder / "project"

    @property
    def kept(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def workspace(self) -> Workspace:
        return Workspace(str(self.root))

    def reopen(self) -> None:
        """As after a new start of the service. Its clock stands still: on a slow machine no time runs out."""
        self.store = CheckpointStore(self.kept, limits=self.limits, now=lambda: 1_000, clock=lambda: 0.0)

    def user_writes(self, path: str, content: bytes | str, mode: int = 0o644) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        file.chmod(mode)

    def agent_writes(self, turn: str, path: str, content: bytes | str) -> None:
        self.store.save_before(SESSION, TurnId(turn), self.workspace, path)
        self.workspace.write(path, content.encode() if isinstance(content, str) else content)

    def agent_removes(self, turn: str, path: str) -> None:
        self.store.save_before(SESSION, TurnId(turn), self.workspace, path)
        self.workspace.remove(path)

    def end(self, turn: str) -> None:
        self.store.note_after(SESSION, TurnId(turn), self.workspace)

    def actions(self, *turns: str) -> dict[str, str]:
        """What a plan would do with each file."""
        plan = self.store.plan_restore(SESSION, [TurnId(turn) for turn in turns], self.workspace)
        return {each.path: each.action for each in plan.files}

    def undo(self, *turns: str, force: bool = False, noted: bool = False) -> UndoReport:
        plan = self.store.plan_restore(SESSION, [TurnId(turn) for turn in turns], self.workspace)
        undoing = UndoDescription(turn_ids=plan.turn_ids, root=str(self.root)) if noted else None
        return self.store.restore(plan, self.workspace, force=force, undoing=undoing)

    def files(self) -> dict[str, tuple[bytes, int]]:
        """Every file of the user with its content and mode."""
        found = (path for path in sorted(self.root.rglob("*")) if path.is_file() and not path.is_symlink())
        return {str(path.relative_to(self.root)): (path.read_bytes(), path.stat().st_mode & 0o777) for path in found}

    def blobs(self) -> int:
        """How many contents are kept."""
        return sum(len(files) for _, _, files in os.walk(self.kept / SESSION / "blobs"))
