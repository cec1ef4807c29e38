"""The stored data of one session: its turns, the contents they need, and the state of the folder before a command.

All turns of the session share contents by reference count: dropping a turn deletes those that no other turn needs.
Each session has its own contents, so forgetting one session never affects another.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import attrs

from session_core.checkpoints import manifest
from session_core.checkpoints.blobs import Blobs
from session_core.checkpoints.folder_snapshot import TreeIndex, read_index
from session_core.checkpoints.manifest import TurnRecord
from session_core.checkpoints.values import CheckpointLimits, FileState, Origin, UndoDescription
from session_core.ids import TurnId

_MOST_TREES: Final = 4
"""Folders of one session whose state before a command is kept; there is more than one if the session moved."""


class SessionFolder:
    """The folder of one session. Not safe for several threads at once: the store holds a lock."""

    def __init__(self, folder: Path, limits: CheckpointLimits) -> None:
        self._folder = folder
        self._limits = limits
        self.blobs = Blobs(folder / "blobs")
        self.turns: dict[TurnId, TurnRecord] = {}
        self.trees: dict[str, TreeIndex] = self._read_trees()
        self._needed: Counter[str] = Counter()  # number of lines that need each content
        self._sizes: dict[str, int] = {}
        for record in self._read_turns():
            self.turns[record.turn_id] = record
            for state, _ in record.before.values():
                self._count(state)
        self._sizes |= self.tree_contents()
        self._sweep()

    @property
    def stored_bytes(self) -> int:
        """Size of all contents."""
        return sum(self._sizes.values())

    @property
    def noted_files(self) -> int:
        """Files in all turns."""
        return sum(len(record.before) for record in self.turns.values())

    def begin_turn(
        self, turn_id: TurnId, *, saved_at: int, undo: bool = False, undoes: UndoDescription | None = None
    ) -> TurnRecord:
        """Return the record of a turn, creating it if needed."""
        record = self.turns.get(turn_id)
        if record is None:
            number = max((each.number for each in self.turns.values()), default=0) + 1
            record = TurnRecord(turn_id=turn_id, number=number, saved_at=saved_at, undo=undo, undoes=undoes)
            says = [] if undoes is None else [manifest.undoes_line(undoes)]
            self._append(record, [manifest.turn_line(saved_at=saved_at, undo=undo), *says])
            self.turns[turn_id] = record
            self._forget_bare({turn_id})
        return record

    def discard(self, record: TurnRecord) -> None:
        """Forget an undo that has nothing left to revert."""
        self._file(record).unlink(missing_ok=True)
        del self.turns[record.turn_id]
        self._let_go(record)

    def save(
        self, record: TurnRecord, path: str, state: FileState, data: bytes | None, *, keep: Collection[TurnId] = ()
    ) -> tuple[FileState, tuple[TurnId, ...]]:
        """Save the state of a file durably; return what could be saved and which turns were dropped to make room.

        The turns to `keep` are never dropped: an undo must not lose what it is about to restore.
        """
        new_bytes = len(data) if data is not None and state.sha256 not in self._sizes else 0
        dropped = self._make_room({record.turn_id, *keep}, new_bytes)
        if self.noted_files >= self._limits.session_files:
            self.add_remark(
                record, f"more files were changed than the {self._limits.session_files:,} that can be noted"
            )
            return out_of_room_state(state), dropped
        if state.kind == "content" and not self._has_room(new_bytes):
            state = out_of_room_state(state)
        if state.kind == "content" and data is not None:
            self.blobs.put(data, durable=True)
        self.add_before(record, [(path, state)], "tool")
        return state, dropped

    def add_before(self, record: TurnRecord, files: Iterable[tuple[str, FileState]], origin: Origin) -> None:
        """Record files whose contents are already stored."""
        files = [(path, state) for path, state in files if path not in record.before]
        self._append(record, [manifest.before_line(path, state, origin) for path, state in files])
        for path, state in files:
            record.before[path] = (state, origin)
            self._count(state)

    def add_after(self, record: TurnRecord, files: Iterable[tuple[str, FileState]]) -> None:
        """Record how a turn left files, if that is new information."""
        news = [(path, state) for path, state in files if record.after.get(path) != state]
        self._append(record, [manifest.after_line(path, state) for path, state in news])
        record.after.update(news)

    def add_remark(self, record: TurnRecord, text: str) -> None:
        """Record a remark to people about a turn."""
        if text not in record.remarks:
            self._append(record, [manifest.remark_line(text)])
            record.remarks.append(text)

    def finish(self, record: TurnRecord) -> None:
        """Record that an undo is finished."""
        if not record.finished:
            self._append(record, [manifest.finished_line()])
            record.finished = True

    def tree_contents(self) -> dict[str, int]:
        """Return the contents that folder snapshots need, with their sizes."""
        files = (each for tree in self.trees.values() for each in tree.files.values())
        return {each.sha256: each.size for each in files if each.kind == "content" and each.sha256 is not None}

    def set_tree(self, tree: TreeIndex) -> None:
        """Replace the state of a folder; contents no longer needed are deleted."""
        gone = self.tree_contents().keys()
        manifest.replace(self._tree_file(tree.root), tree.lines())
        self.trees.pop(tree.root, None)
        self.trees[tree.root] = tree
        settled = [root for root, each in self.trees.items() if each.settled and root != tree.root]
        for root in settled[: max(0, len(self.trees) - _MOST_TREES)]:
            self._tree_file(root).unlink(missing_ok=True)
            del self.trees[root]
        self._sizes |= self.tree_contents()
        self._release(gone)

    def room_for_tree(self, turn_id: TurnId) -> int:
        """Make room for the result of a walk; return the number of bytes available."""
        self._make_room({turn_id}, self._limits.tree_bytes)
        return max(0, min(self._limits.tree_bytes, self._limits.session_bytes - self.stored_bytes))

    def room_for_files(self, turn_id: TurnId, count: int) -> int:
        """Make room for more lines; return the number of lines available."""
        while self.noted_files + count > self._limits.session_files and self._drop_oldest({turn_id}) is not None:
            pass
        return max(0, self._limits.session_files - self.noted_files)

    def _tree_file(self, root: str) -> Path:
        name = sha256(root.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return self._folder / f"tree-{name}.jsonl"

    def _read_trees(self) -> dict[str, TreeIndex]:
        found = (read_index(file) for file in sorted(self._folder.glob("tree-*.jsonl")))
        return {tree.root: tree for tree in found if tree is not None}

    def _file(self, record: TurnRecord) -> Path:
        return self._folder / "turns" / manifest.file_name(record)

    def _read_turns(self) -> list[TurnRecord]:
        files = sorted((self._folder / "turns").glob("*.jsonl"))
        return [record for file in files if (record := manifest.read_turn(file)) is not None]

    def _append(self, record: TurnRecord, lines: list[dict[str, Any]]) -> None:
        if lines:
            manifest.append(self._file(record), lines)

    def _count(self, state: FileState) -> None:
        if state.kind == "content" and state.sha256 is not None:
            self._needed[state.sha256] += 1
            self._sizes[state.sha256] = state.size

    def _has_room(self, new_bytes: int) -> bool:
        fits = self.stored_bytes + new_bytes <= self._limits.session_bytes
        return fits and self.noted_files + 1 <= self._limits.session_files

    def _make_room(self, keep: Collection[TurnId], new_bytes: int) -> tuple[TurnId, ...]:
        dropped: list[TurnId] = []
        while not self._has_room(new_bytes) and (turn_id := self._drop_oldest(keep)) is not None:
            dropped.append(turn_id)
        return tuple(dropped)

    def _drop_oldest(self, keep: Collection[TurnId]) -> TurnId | None:
        """Drop the oldest turn except these, and note that in its record."""
        for record in self.turns.values():
            if record.turn_id not in keep and record.before:
                lines = [manifest.turn_line(saved_at=record.saved_at, undo=record.undo, dropped=True)]
                # As long as undos are listed, it must be known which one reverted which.
                lines += [] if record.undoes is None else [manifest.undoes_line(record.undoes)]
                lines += [manifest.finished_line()] if record.finished else []
                manifest.replace(self._file(record), lines)
                record.dropped, record.damaged = True, 0
                record.remarks.clear()
                self._let_go(record)
                self._forget_bare(keep)
                return record.turn_id
        return None

    def _let_go(self, record: TurnRecord) -> None:
        """Delete the contents that only this record needs."""
        names = [state.sha256 for state, _ in record.before.values() if state.kind == "content" and state.sha256]
        record.before.clear()
        record.after.clear()
        self._needed.subtract(names)
        self._release(names)

    def _forget_bare(self, keep: Collection[TurnId]) -> None:
        """Keep the list short: forget the oldest records without files, whether dropped or always empty."""
        empty = (each for each in self.turns.values() if not each.before and each.turn_id not in keep)
        bare = [each for each in empty if each.dropped or not each.damaged]  # a damaged one may become readable one day
        for record in bare[: max(0, len(bare) - self._limits.dropped_turns)]:
            self._file(record).unlink(missing_ok=True)
            del self.turns[record.turn_id]

    def _release(self, names: Iterable[str]) -> None:
        held = self.tree_contents().keys()
        for name in set(names) - held:
            if self._needed[name] <= 0:
                self.blobs.drop(name)
                self._sizes.pop(name, None)

    def _sweep(self) -> None:
        """Delete contents that no line names, left by a crash."""
        held = self.tree_contents().keys()
        for name in list(self.blobs.names()):
            if name not in held and self._needed[name] <= 0:
                self.blobs.drop(name)


def out_of_room_state(state: FileState) -> FileState:
    """Return the state of a file that could not be saved for lack of room."""
    why = "the room for this session's checkpoints is used up by this one turn"
    return attrs.evolve(state, kind="not_saved", mtime_ns=0, why=why)
