"""Changes by commands that run side by side or in the background.

The folder is recorded before the first command, and that snapshot stays until the last command has ended: a newer one
could mistake a change that another command has just made for old content. Each check compares the folder with the
snapshot and records the differences.

When a later turn begins to change files while a command of an earlier turn still runs, the watch is handed over:
differences up to then belong to the earlier turn, later ones to the later turn, and none is lost in between.

While a turn runs, all changes count as its work. Afterwards a person may be working next to a background command, so
only the state before is recorded, and an undo asks instead of overwriting.
"""

from collections.abc import Callable

import attrs

from session_core.checkpoints.file_state import present_state
from session_core.checkpoints.folder_snapshot import (
    FolderChange,
    FolderWalker,
    TreeIndex,
    changes_between,
    changes_since,
    find_change,
    take_index,
)
from session_core.checkpoints.session_folder import SessionFolder
from session_core.checkpoints.values import CheckpointLimits, FileState, TreeSnapshot
from session_core.ids import TurnId
from session_core.sandbox.ignore import IgnoreRules
from session_core.sandbox.workspace import Workspace


@attrs.define
class RunningCommands:
    """The commands that run in one folder for one session, and their observed changes."""

    commands: set[str] = attrs.field(factory=set)
    changed: set[str] = attrs.field(factory=set)


@attrs.define(kw_only=True)
class CommandWatch:
    """The watch over one folder, for the duration of one call of the store."""

    session_folder: SessionFolder
    workspace: Workspace
    limits: CheckpointLimits
    clock: Callable[[], float]
    now: Callable[[], int]
    running: RunningCommands
    ignore: IgnoreRules | None = None

    @property
    def index(self) -> TreeIndex | None:
        """The state before the commands, unless all of them have ended and are recorded."""
        index = self.session_folder.trees.get(self.workspace.root)
        return None if index is None or index.settled else index

    def begin(self, turn_id: TurnId, command: str) -> TreeSnapshot:
        """Record the folder before a command, unless a command of this turn is already running."""
        index, live = self.index, bool(self.running.commands)
        if index is not None and live and index.turn_id == turn_id:
            self.running.commands.add(command)
            why = "" if index.complete else "the turn says what is missing"
            return TreeSnapshot(files=len(index.files), saved_bytes=0, complete=index.complete, why=why)
        if index is not None and not live:
            self.record_changes(turn_id, certain=True)
            self.settle()
        taken, spent, why = self._take(turn_id)
        if index is not None and live:
            self._leave_to(index, taken)
        self.session_folder.set_tree(taken)
        self.running.changed.clear()
        self.running.commands.add(command)
        return TreeSnapshot(files=len(taken.files), saved_bytes=spent, complete=taken.complete, why=why)

    def hand_over(self, turn_id: TurnId) -> None:
        """Hand the watch over to a later turn while a command of an earlier one still runs."""
        index = self.index
        if index is not None and index.turn_id != turn_id and self.running.commands:
            taken, _, _ = self._take(turn_id)
            self._leave_to(index, taken)
            self.session_folder.set_tree(taken)
            self.running.changed.clear()

    def state_before(self, turn_id: TurnId, path: str, present: FileState) -> FileState | None:
        """Return a file's state before this turn's running commands changed it, if they did; a tool is about to."""
        index = self.index
        if index is None or index.turn_id != turn_id:
            return None
        if path in index.files:
            change = find_change(index, path, self.workspace, self.limits)
        elif present.kind == "missing":
            return None
        else:
            changes = changes_since(index, self.workspace, self._walker(), self.limits)
            change = next((each for each in changes if each.path == path), None)
        return None if change is None else change.before

    def record_changes(self, turn_id: TurnId | None, *, certain: bool) -> None:
        """Record the differences; the state afterwards only if the change is `certain` to be this turn's work."""
        index = self.index
        if index is None:
            return
        walker = self._walker()
        changes = changes_since(index, self.workspace, walker, self.limits)
        certain = certain and turn_id == index.turn_id
        self._record(index, changes, walker.why, certain=certain)
        if certain:
            self._note_returned(index, changes)

    def settle(self) -> None:
        """Close the watch: all commands have ended."""
        if (index := self.index) is not None:
            self.session_folder.set_tree(attrs.evolve(index, settled=True))
        self.running.changed.clear()

    def rebase(self, paths: list[str]) -> None:
        """Exclude the changes of an undo from the comparison: no command made them."""
        if (index := self.index) is None:
            return
        files, times = dict(index.files), dict(index.times)
        for path in (each for each in paths if not each.startswith("/")):
            files.pop(path, None)
            times.pop(path, None)
            state = self._state(path)
            if state.kind != "missing":
                files[path], times[path] = state, 0
        self.session_folder.set_tree(attrs.evolve(index, files=files, times=times))
        self.running.changed.difference_update(paths)

    def _take(self, turn_id: TurnId) -> tuple[TreeIndex, int, str]:
        walker = self._walker()
        index, spent = take_index(
            self.workspace,
            walker,
            self.limits,
            turn_id=turn_id,
            now_ns=self.now() * 1_000_000,
            known=self.session_folder.trees.get(self.workspace.root),
            room=self.session_folder.room_for_tree(turn_id),
            keep=lambda data: self.session_folder.blobs.put(data, durable=False),
        )
        if walker.why:
            record = self.session_folder.begin_turn(turn_id, saved_at=self.now())
            self.session_folder.add_remark(record, f"a command may have changed files that are not here: {walker.why}")
        return index, spent, walker.why

    def _leave_to(self, earlier: TreeIndex, later: TreeIndex) -> None:
        """Record the differences between both states for the earlier turn: one walk serves both turns."""
        changes = changes_between(earlier, later, self.workspace, self.limits)
        self._record(earlier, changes, "", certain=False)

    def _record(self, index: TreeIndex, changes: list[FolderChange], why: str, *, certain: bool) -> None:
        if not changes and not why:
            return
        folder, turn_id = self.session_folder, index.turn_id
        known = folder.turns.get(turn_id)
        new = [each for each in changes if known is None or each.path not in known.before]
        record = folder.begin_turn(turn_id, saved_at=self.now())
        room = folder.room_for_files(turn_id, len(new))
        on_its_own = bool(self.running.commands) and not certain
        folder.add_before(
            record, [(each.path, each.before) for each in new[:room]], "background" if on_its_own else "command"
        )
        if certain:
            noted = [(each.path, each.after) for each in changes if each.path in record.before]
            folder.add_after(record, noted)
            self.running.changed.update(path for path, _ in noted)
        if len(new) > room:
            folder.add_remark(record, f"a command changed {len(new) - room:,} more files than can be noted")
        if why:
            folder.add_remark(record, f"a command may have made files that are not here: {why}")

    def _note_returned(self, index: TreeIndex, changes: list[FolderChange]) -> None:
        """Make sure that a file which a command changed and then restored is not recorded as changed."""
        record = self.session_folder.turns.get(index.turn_id)
        returned = self.running.changed - {each.path for each in changes}
        if record is not None and returned:
            self.session_folder.add_after(record, [(path, self._state(path)) for path in sorted(returned)])

    def _walker(self) -> FolderWalker:
        if self.ignore is None:
            self.ignore = IgnoreRules.load(self.workspace)
        return FolderWalker(self.workspace, self.ignore, self.limits, self.clock)

    def _state(self, path: str) -> FileState:
        return present_state(self.workspace, path, self.limits)
