"""Saving files before a change, within bounds, and forgetting them."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from session_core.checkpoints.blobs import digest
from session_core.checkpoints.store import CheckpointStore
from session_core.checkpoints.values import MISSING, CheckpointFailed, CheckpointLimits, UndoDescription
from session_core.errors import InvalidInput
from session_core.ids import SessionId, TurnId
from session_core.sandbox.file_values import OutsideWorkspace
from session_core.sandbox.workspace import Workspace
from tests.session_core.checkpoints._world import SESSION, World

TURN = TurnId("turn_1")


def test_only_the_first_state_of_a_turn_is_saved(world: World) -> None:
    """Saving a path again in the same turn changes nothing, however the path is written."""
    world.user_writes("src/a.txt", "old")
    (world.root / "link.txt").symlink_to("src/a.txt")
    first = world.store.save_before(SESSION, TURN, world.workspace, "src/a.txt")
    world.user_writes("src/a.txt", "new")

    again = [
        world.store.save_before(SESSION, TURN, world.workspace, path)
        for path in ["src/../src/a.txt", "./src/a.txt", "link.txt", str(world.root / "src/a.txt")]
    ]

    assert first.first
    assert [("src/a.txt", first.state, False)] * 4 == [(each.path, each.state, each.first) for each in again]
    assert 1 == world.blobs()


def test_what_a_turn_saved_is_listed(world: World) -> None:
    """A turn lists its files with the state before and after, and a new start of the service finds them again."""
    world.user_writes("a", "A", 0o755)
    world.agent_writes("turn_1", "a", "B")
    world.agent_writes("turn_1", "new", "N")
    world.end("turn_1")
    listed = world.store.turns(SESSION)
    world.reopen()

    [turn] = world.store.turns(SESSION)

    assert [turn] == listed
    assert (TURN, 1_000, False, False, 0) == (turn.turn_id, turn.saved_at, turn.undo, turn.dropped, turn.damaged)
    (a, new) = turn.files
    assert ("a", 0o755, "tool") == (a.path, a.before.mode, a.origin)
    assert ("new", MISSING) == (new.path, new.before)
    assert new.after is not None
    assert "content" == new.after.kind


def test_what_is_saved_is_durable(world: World, disk_that_does_not_wait: list[str]) -> None:
    """Before a write may go ahead, the content, the record, and the names of both are made durable, in this order."""
    world.user_writes("a", "A")

    world.store.save_before(SESSION, TURN, world.workspace, "a")

    kept = world.kept / SESSION
    blob = f"{digest(b'A')[:2]}"
    files = [name.rpartition("/.new-")[0] or name for name in disk_that_does_not_wait]
    assert [
        str(world.kept),
        str(kept),
        str(kept / "turns/00000001.turn_1.jsonl"),
        str(kept / "turns"),
        str(kept),
        str(kept / "blobs"),
        str(kept / "blobs" / blob),
        str(kept / "blobs" / blob),
        str(kept / "turns/00000001.turn_1.jsonl"),
    ] == files


def test_everything_kept_is_private(world: World) -> None:
    """Folders of the store can be entered and files read by their owner alone, whatever the umask."""
    before = os.umask(0)
    try:
        world.user_writes("a", "A")
        world.agent_writes("turn_1", "a", "B")
        world.store.snapshot_tree(SESSION, TURN, world.workspace)
    finally:
        os.umask(before)

    modes = {stat.S_IMODE(path.lstat().st_mode) for path in [world.kept, *world.kept.rglob("*")] if path.is_dir()}
    assert {0o700} == modes
    assert {0o600} == {stat.S_IMODE(path.lstat().st_mode) for path in world.kept.rglob("*") if path.is_file()}


def test_a_large_file_is_noted_and_not_saved(tmp_path: Path) -> None:
    """A file over the limit is noted as too large, and an undo says so and leaves it."""
    world = World(folder=tmp_path, limits=CheckpointLimits(file_bytes=10))
    world.user_writes("fits", b"x" * 10)
    world.user_writes("large", b"x" * 11)

    world.agent_writes("turn_1", "fits", "y")
    world.agent_writes("turn_1", "large", "y")
    world.end("turn_1")

    assert {"fits": "restore", "large": "too_large"} == world.actions("turn_1")
    report = world.undo("turn_1", force=True)
    assert ("fits",) == report.restored
    assert [("large", "it has 11 bytes, and files are kept up to 10")] == [(s.path, s.why) for s in report.skipped]
    assert b"y" == world.files()["large"][0]


def test_old_turns_make_room(tmp_path: Path) -> None:
    """When the bytes are used up the oldest turns are dropped: listed as such, and their contents are gone."""
    world = World(folder=tmp_path, limits=CheckpointLimits(session_bytes=25))
    for number in range(1, 5):
        world.user_writes("a", f"{number}" * 10)
        world.agent_writes(f"turn_{number}", "a", "x")
        world.end(f"turn_{number}")

    for _ in range(2):
        turns = {turn.turn_id: (turn.dropped, len(turn.files)) for turn in world.store.turns(SESSION)}
        assert {"turn_1": (True, 0), "turn_2": (True, 0), "turn_3": (False, 1), "turn_4": (False, 1)} == turns
        assert 2 == world.blobs()
        world.reopen()
    plan = world.store.plan_restore(SESSION, [TurnId("turn_1")], world.workspace)
    assert () == plan.files
    assert "turn_1: it is too long ago" in plan.remarks[0]


def test_the_number_of_files_is_bounded(tmp_path: Path) -> None:
    """More files than a session may note drop old turns first, then are told as not saved."""
    world = World(folder=tmp_path, limits=CheckpointLimits(session_files=3))
    world.agent_writes("turn_1", "a", "x")
    dropped = [
        world.store.save_before(SESSION, TurnId("turn_2"), world.workspace, name).dropped for name in ["b", "c", "d"]
    ]

    beyond = world.store.save_before(SESSION, TurnId("turn_2"), world.workspace, "e")

    assert [(), (), ("turn_1",)] == dropped
    assert "not_saved" == beyond.state.kind
    assert "used up" in beyond.state.why
    turn = world.store.turns(SESSION)[-1]
    assert ["b", "c", "d"] == [file.path for file in turn.files]
    assert "more files were changed than the 3 that can be noted" in turn.remarks


def test_a_turn_that_alone_is_too_much_says_so(tmp_path: Path) -> None:
    """When nothing is left to drop, a further file is noted as not saved, with the reason."""
    world = World(folder=tmp_path, limits=CheckpointLimits(session_bytes=15))
    world.user_writes("a", "a" * 10)
    world.user_writes("b", "b" * 10)

    world.agent_writes("turn_1", "a", "x")
    world.agent_writes("turn_1", "b", "x")
    world.end("turn_1")

    assert {"a": "restore", "b": "not_saved"} == world.actions("turn_1")


def test_long_dropped_turns_are_no_longer_listed(tmp_path: Path) -> None:
    """The list of dropped turns is bounded too."""
    world = World(folder=tmp_path, limits=CheckpointLimits(session_files=1, dropped_turns=2))
    for number in range(1, 7):
        world.agent_writes(f"turn_{number}", "a", str(number))

    assert ["turn_4", "turn_5", "turn_6"] == [turn.turn_id for turn in world.store.turns(SESSION)]
    assert 3 == len(list((world.kept / SESSION / "turns").iterdir()))


def test_a_dropped_undo_is_the_same_on_the_disk(tmp_path: Path) -> None:
    """What is known of an undo that made room does not change when the service starts again."""
    world = World(folder=tmp_path, limits=CheckpointLimits(session_files=2))
    world.agent_writes("turn_1", "a", "1")
    world.end("turn_1")
    undo = world.undo("turn_1", noted=True).undo_turn_id
    assert undo is not None
    world.store.finish_undo(SESSION, undo)
    for number in (2, 3):
        world.agent_writes(f"turn_{number}", "a", str(number))

    listed = world.store.turns(SESSION)

    told = [(each.turn_id, each.dropped, each.finished, each.undoes is not None) for each in listed[:2]]
    assert [("turn_1", True, False, False), (undo, True, True, True)] == told
    world.reopen()
    assert listed == world.store.turns(SESSION)


def test_undos_without_files_are_bounded_and_make_no_room(tmp_path: Path) -> None:
    """Of undos that moved the conversation alone the newest are listed, and none is given up for want of room."""
    world = World(folder=tmp_path, limits=CheckpointLimits(session_files=1, dropped_turns=2))
    undoing = UndoDescription(turn_ids=(), root="/", conversation=True)
    undos = [world.store.note_undo(SESSION, undoing) for _ in range(5)]
    assert undos[2:] == [each.turn_id for each in world.store.turns(SESSION)], "the one begun, and two before it"
    for path in "ab":
        world.agent_writes("turn_1", path, "1")

    for _ in range(2):
        listed = [(each.turn_id, each.dropped) for each in world.store.turns(SESSION)]
        assert [*((each, False) for each in undos[3:]), ("turn_1", False)] == listed
        assert 3 == len(list((world.kept / SESSION / "turns").iterdir()))
        world.reopen()


def test_contents_are_shared_and_counted(tmp_path: Path) -> None:
    """A content that two turns need is kept once, and stays when one of them is dropped."""
    world = World(folder=tmp_path, limits=CheckpointLimits(session_files=2))
    world.user_writes("a", "same")
    world.user_writes("b", "same")
    world.agent_writes("turn_1", "a", "x")
    world.agent_writes("turn_2", "b", "x")
    assert 1 == world.blobs()

    world.agent_writes("turn_3", "c", "x")

    world.end("turn_2")
    assert {"b": "restore"} == world.actions("turn_2")
    assert ("b",) == world.undo("turn_2").restored
    assert b"same" == world.files()["b"][0]


def test_forgetting_deletes_one_session_only(world: World) -> None:
    """Forgetting a session deletes all its files and none of another session, and may be repeated."""
    other = SessionId("ses_2")
    world.user_writes("a", "secret of both")
    world.agent_writes("turn_1", "a", "x")
    world.user_writes("a", "secret of both")
    world.store.save_before(other, TURN, world.workspace, "a")

    world.store.forget(SESSION)
    world.store.forget(SESSION)

    assert ["ses_2"] == [path.name for path in world.kept.iterdir()]
    assert [] == world.store.turns(SESSION)
    assert [TURN] == [turn.turn_id for turn in world.store.turns(other)]
    world.workspace.write("a", b"y")
    world.store.note_after(other, TURN, world.workspace)
    plan = world.store.plan_restore(other, [TURN], world.workspace)
    assert ("a",) == world.store.restore(plan, world.workspace).restored


def test_a_forgetting_cut_short_is_finished_later(world: World) -> None:
    """What a crash in the middle of a deletion left behind is deleted at the next start."""
    (world.kept / ".gone-0123" / "blobs").mkdir(parents=True)
    world.kept.chmod(0o700)

    world.store.turns(SESSION)

    assert [] == list(world.kept.iterdir())


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a\0b", "ses_1\n", "ü", "x" * 101])
def test_ids_cannot_leave_the_store(world: World, name: str) -> None:
    """Ids that are no plain names are refused, wherever they are given."""
    store, workspace = world.store, world.workspace
    calls: list[Callable[[], object]] = [
        lambda: store.save_before(SessionId(name), TURN, workspace, "a"),
        lambda: store.save_before(SESSION, TurnId(name), workspace, "a"),
        lambda: store.snapshot_tree(SESSION, TurnId(name), workspace),
        lambda: store.note_after(SESSION, TurnId(name), workspace),
        lambda: store.turns(SessionId(name)),
        lambda: store.plan_restore(SESSION, [TurnId(name)], workspace),
        lambda: store.forget(SessionId(name)),
    ]
    for call in calls:
        with pytest.raises(InvalidInput):
            call()
    assert not world.kept.exists()


@pytest.mark.parametrize("path", ["../secret", "out", "folder-out/secret", "/etc/passwd", "a\0b", ""])
def test_nothing_outside_is_read(world: World, path: str) -> None:
    """Paths and links that lead out of the workspace are refused, and nothing of them is kept."""
    (world.folder / "secret").write_text("secret", encoding="utf-8")
    (world.root / "out").symlink_to("../secret")
    (world.root / "folder-out").symlink_to(world.folder)

    with pytest.raises(OutsideWorkspace):
        world.store.save_before(SESSION, TURN, world.workspace, path)

    assert [] == world.store.turns(SESSION)
    assert 0 == world.blobs()


@pytest.mark.parametrize("name", ["a b", "-rf", "ä\u202e", "line\nbreak", '"{', os.fsdecode(b"\xff\xfe"), "\x1b[31m"])
def test_odd_names_are_brought_back(world: World, name: str) -> None:
    """Whatever bytes a name has, the file is saved and brought back."""
    world.user_writes(name, "old")
    world.agent_writes("turn_1", name, "new")
    world.end("turn_1")
    world.reopen()

    assert (name,) == world.undo("turn_1").restored
    assert {name: (b"old", 0o644)} == world.files()


def test_folders_and_pipes_are_not_waited_for(world: World) -> None:
    """A folder or a pipe in place of a file is noted as not saved, at once."""
    (world.root / "folder").mkdir()
    os.mkfifo(world.root / "pipe")

    states = [world.store.save_before(SESSION, TURN, world.workspace, name).state for name in ["folder", "pipe"]]

    assert [("not_saved", "it is a folder"), ("not_saved", "it is not an ordinary file")] == [
        (state.kind, state.why) for state in states
    ]


def test_a_failing_disk_stops_the_change(world: World) -> None:
    """When the store cannot be written, the caller is told not to go ahead, in plain words."""
    world.kept.write_text("a file where the folder belongs", encoding="utf-8")

    with pytest.raises(CheckpointFailed) as caught:
        world.agent_writes("turn_1", "a", "x")

    assert "'a' could not be saved before the change, so it must not be changed" in caught.value.message
    assert {} == world.files()


def test_files_outside_the_root_but_allowed(tmp_path: Path) -> None:
    """A file beneath a further root is saved under its whole path and brought back."""
    root, extra = tmp_path / "root", tmp_path / "extra"
    root.mkdir()
    extra.mkdir()
    (extra / "a").write_text("old", encoding="utf-8")
    workspace = Workspace(str(root), extra_roots=(str(extra),))
    store = CheckpointStore(tmp_path / "kept")

    saved = store.save_before(SESSION, TURN, workspace, str(extra / "a"))
    workspace.write(str(extra / "a"), b"new")
    store.note_after(SESSION, TURN, workspace)
    store.restore(store.plan_restore(SESSION, [TURN], workspace), workspace)

    assert str(extra / "a") == saved.path
    assert "old" == (extra / "a").read_text(encoding="utf-8")
