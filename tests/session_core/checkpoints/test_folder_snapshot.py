"""What commands change is noticed and can be undone, within bounds."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from session_core.checkpoints.store import CheckpointStore
from session_core.checkpoints.values import CheckpointLimits
from session_core.ids import TurnId
from tests.session_core.checkpoints._world import SESSION, World

TURN = TurnId("turn_1")
LONG_AGO = 1_000_000_000


def age(world: World) -> None:
    """Make every file old, as in a project that nobody has touched for a while."""
    for path in world.root.rglob("*"):
        if path.is_file():
            os.utime(path, ns=(LONG_AGO, LONG_AGO))


def reopen_with_real_time(world: World) -> None:
    world.store = CheckpointStore(world.kept, limits=world.limits, clock=lambda: 0.0)


@pytest.mark.parametrize("old", [True, False])
def test_what_a_command_did_can_be_undone(world: World, *, old: bool) -> None:
    """Files that a command changed, removed, made or gave another mode are as before after an undo."""
    for name in ["changed", "removed", "same-size", "kept", "script"]:
        world.user_writes(name, f"{name} old")
    if old:
        age(world)
    reopen_with_real_time(world)
    before = world.files()
    snapshot = world.store.snapshot_tree(SESSION, TURN, world.workspace)
    world.user_writes("changed", "much longer than it was")
    world.user_writes("same-size", "same-size new")
    (world.root / "removed").unlink()
    (world.root / "script").chmod(0o755)
    world.user_writes("deep/new", "new")
    after = world.files()
    world.end("turn_1")

    actions = world.actions("turn_1")
    report = world.undo("turn_1")

    assert (5, True, "") == (snapshot.files, snapshot.complete, snapshot.why)
    assert {
        "changed": "restore",
        "removed": "restore",
        "same-size": "restore",
        "script": "restore",
        "deep/new": "delete",
    } == actions
    assert before == world.files()
    assert report.undo_turn_id is not None
    world.undo(report.undo_turn_id)
    assert after == world.files()


def test_unchanged_files_are_not_noted(world: World) -> None:
    """A command that changes nothing leaves no turn behind."""
    world.user_writes("a", "a")
    world.store.snapshot_tree(SESSION, TURN, world.workspace)
    world.end("turn_1")

    assert [] == world.store.turns(SESSION)


def test_ignored_files_are_neither_kept_nor_deleted(world: World) -> None:
    """What the ignore files name is left out: not saved before, and not taken for new afterwards."""
    world.user_writes(".gitignore", "*.log\nbuild/\n")
    world.user_writes("old.log", "log")
    world.user_writes("src", "src")
    snapshot = world.store.snapshot_tree(SESSION, TURN, world.workspace)
    for path in ["old.log", "new.log", "build/out"]:
        world.user_writes(path, "made by the command")
    world.user_writes("made", "made by the command")
    world.end("turn_1")

    assert 2 == snapshot.files
    assert {"made": "delete"} == world.actions("turn_1")


def test_files_that_were_ignored_before_are_never_deleted(world: World) -> None:
    """When a command changes the ignore rules, files that come to light are not taken for new ones."""
    world.user_writes(".gitignore", ".env\n")
    world.user_writes(".env", "KEY=1")
    world.store.snapshot_tree(SESSION, TURN, world.workspace)
    world.user_writes(".gitignore", "\n")
    world.user_writes(".env", "KEY=2")
    world.end("turn_1")

    assert {".gitignore": "restore", ".env": "not_saved"} == world.actions("turn_1")
    world.undo("turn_1", force=True)
    assert b"KEY=2" == world.files()[".env"][0]


def test_a_tool_after_a_command_keeps_the_first_state(world: World) -> None:
    """A file changed by a command and then by a tool is brought back to how it was before the command."""
    world.user_writes("a", "first")
    world.store.snapshot_tree(SESSION, TURN, world.workspace)
    world.user_writes("a", "second")
    world.store.note_after(SESSION, TURN, world.workspace, paths=[])
    world.agent_writes("turn_1", "a", "third")
    world.end("turn_1")

    world.undo("turn_1")

    assert b"first" == world.files()["a"][0]


def test_two_commands_in_one_turn(world: World) -> None:
    """The state before the first command of a turn counts, with or without a note in between."""
    world.user_writes("a", "first")
    world.store.snapshot_tree(SESSION, TURN, world.workspace)
    world.user_writes("a", "second")
    world.user_writes("new", "1")
    world.store.snapshot_tree(SESSION, TURN, world.workspace)
    world.user_writes("a", "third")
    world.user_writes("new", "2")
    world.end("turn_1")

    assert {"a": "restore", "new": "delete"} == world.actions("turn_1")
    world.undo("turn_1")
    assert {"a": (b"first", 0o644)} == world.files()


def test_files_at_rest_are_not_read_again(world: World) -> None:
    """A file that nobody has touched keeps the content of the first snapshot through later ones, and comes back."""
    world.user_writes("a", "old")
    age(world)
    reopen_with_real_time(world)
    for number in (1, 2):
        world.store.snapshot_tree(SESSION, TurnId(f"turn_{number}"), world.workspace)
        if number == 1:
            world.end("turn_1")
    world.user_writes("a", "new")
    world.end("turn_2")

    world.undo("turn_2")

    assert b"old" == world.files()["a"][0]


def test_after_a_crash_the_change_is_a_conflict(world: World) -> None:
    """If the service died while a command ran, its changes are found later, and overwritten by force alone."""
    world.user_writes("a", "old")
    world.store.snapshot_tree(SESSION, TURN, world.workspace)
    world.user_writes("a", "by the command, or by a person since")
    world.reopen()

    assert {"a": "conflict"} == world.actions("turn_1")
    assert () == world.undo("turn_1").restored
    world.undo("turn_1", force=True)
    assert b"old" == world.files()["a"][0]


def test_after_a_crash_a_later_turn_does_not_take_the_blame(world: World) -> None:
    """What changed before a later turn's command belongs to the turn that died."""
    world.user_writes("a", "old")
    world.store.snapshot_tree(SESSION, TURN, world.workspace)
    world.user_writes("a", "changed")
    world.reopen()
    world.store.snapshot_tree(SESSION, TurnId("turn_2"), world.workspace)
    world.end("turn_2")

    assert ({"a": "conflict"}, {}) == (world.actions("turn_1"), world.actions("turn_2"))


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        (CheckpointLimits(tree_files=3), "only 3 files are remembered"),
        (CheckpointLimits(tree_bytes=25), "only 25 bytes are kept"),
        (CheckpointLimits(tree_entries=3), "only the first 3 names are examined"),
        (CheckpointLimits(tree_seconds=0), "looking at the files took longer than 0 s"),
        (CheckpointLimits(session_bytes=15), "only 15 bytes are kept"),
    ],
)
def test_bounds_are_told(tmp_path: Path, limits: CheckpointLimits, why: str) -> None:
    """When a bound is met the snapshot says so, the turn says so, and files that were not seen are never deleted."""
    world = World(folder=tmp_path, limits=limits)
    for name in "abcde":
        world.user_writes(name, name * 10)

    snapshot = world.store.snapshot_tree(SESSION, TURN, world.workspace)
    for name in "abcdef":
        world.user_writes(name, "changed")
    world.end("turn_1")

    assert (False, why) == (snapshot.complete, snapshot.why)
    plan = world.store.plan_restore(SESSION, [TURN], world.workspace)
    assert {"restore"} >= {each.action for each in plan.files}
    assert f"turn_1: a command may have changed files that are not here: {why}" in plan.remarks


def test_binary_and_large_files_are_noted_without_content(tmp_path: Path) -> None:
    """Binary and large files are not kept before a command; when it changes them, that is told."""
    world = World(folder=tmp_path, limits=CheckpointLimits(tree_file_bytes=100))
    world.user_writes("picture", b"\x89PNG\0\0")
    world.user_writes("large", b"x" * 101)
    world.user_writes("untouched-large", b"x" * 101)
    snapshot = world.store.snapshot_tree(SESSION, TURN, world.workspace)
    world.user_writes("picture", b"\x89PNG\0\1")
    world.user_writes("large", b"y")
    world.end("turn_1")

    assert (3, 0) == (snapshot.files, snapshot.saved_bytes)
    assert {"picture": "not_saved", "large": "too_large"} == world.actions("turn_1")


def test_links_are_not_followed(world: World) -> None:
    """A snapshot keeps nothing that only a link leads to."""
    (world.folder / "secret").write_text("secret", encoding="utf-8")
    (world.root / "out").symlink_to(world.folder / "secret")
    (world.root / "folder-out").symlink_to(world.folder)

    assert 0 == world.store.snapshot_tree(SESSION, TURN, world.workspace).files
    assert 0 == world.blobs()


def test_contents_of_old_snapshots_are_deleted(world: World) -> None:
    """Only the newest snapshot and what turns need is kept, however many commands there are."""
    for number in range(5):
        world.user_writes("a", f"version {number}")
        world.user_writes("b", "always the same")
        turn = TurnId(f"turn_{number}")
        world.store.snapshot_tree(SESSION, turn, world.workspace)
        world.end(turn)

    assert [] == world.store.turns(SESSION)
    assert 2 == world.blobs()
    world.reopen()
    world.store.turns(SESSION)
    assert 2 == world.blobs()


def damage_header(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b'"complete":true', b'"complete":false', 1))


def cut_last_line(file: Path) -> None:
    file.write_bytes(b"\n".join(file.read_bytes().split(b"\n")[:-2]) + b"\n")


def fill_with_noise(file: Path) -> None:
    file.write_bytes(b"\xff" * 100)


@pytest.mark.parametrize("damage", [damage_header, cut_last_line, fill_with_noise, Path.unlink])
def test_a_damaged_snapshot_claims_nothing(world: World, damage: Callable[[Path], None]) -> None:
    """A snapshot that was damaged or cut counts as none: nothing is taken for new and deleted."""
    world.user_writes("a", "a")
    world.user_writes("b", "b")
    world.store.snapshot_tree(SESSION, TURN, world.workspace)
    damage(next((world.kept / SESSION).glob("tree-*.jsonl")))
    world.reopen()
    world.user_writes("b", "changed")
    world.end("turn_1")

    assert {} == world.actions("turn_1")
