"""Commands that run side by side or on in the background: every change is in the checkpoint of its turn."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.checkpoints.store import CheckpointStore
from session_core.checkpoints.values import CheckpointFailed
from session_core.ids import SessionId, TurnId
from session_core.sandbox.workspace import Workspace
from tests.session_core.checkpoints._world import SESSION, World

TURN, NEXT = TurnId("turn_1"), TurnId("turn_2")


def begin(world: World, command: str, turn: TurnId = TURN) -> None:
    world.store.snapshot_tree(SESSION, turn, world.workspace, command=command)


def end(world: World, command: str, turn: TurnId = TURN, *, runs_on: bool = False, certain: bool = True) -> None:
    world.store.note_after(SESSION, turn, world.workspace, paths=[], command=command, runs_on=runs_on, certain=certain)


def test_a_command_that_ends_does_not_hide_another(world: World) -> None:
    """What a command changes after one beside it has ended is undone too."""
    world.user_writes("a", "old")
    before = world.files()
    begin(world, "one")
    begin(world, "two")
    world.user_writes("b", "by one")
    end(world, "one")
    world.user_writes("a", "by two")
    world.user_writes("c", "by two")
    end(world, "two")

    assert {"a": "restore", "b": "delete", "c": "delete"} == world.actions("turn_1")
    world.undo("turn_1")
    assert before == world.files()


def test_a_tool_beside_a_command(world: World) -> None:
    """A file that a running command has changed before a tool writes it comes back as it was before the command."""
    world.user_writes("a", "old")
    begin(world, "one")
    world.user_writes("a", "by the command")
    world.user_writes("new", "by the command")
    for path in ("a", "new"):
        world.agent_writes("turn_1", path, "by the tool")
    world.store.note_after(SESSION, TURN, world.workspace, paths=["a", "new"], command="a call of a tool")
    end(world, "one")

    assert {"a": "restore", "new": "delete"} == world.actions("turn_1")
    world.undo("turn_1")
    assert {"a": (b"old", 0o644)} == world.files()


def test_a_file_has_one_name_with_the_whole_disk_open(world: World) -> None:
    """When the session may change any file of the disk, a tool and a command note a file under the same name."""
    world.user_writes("a", "old")
    workspace = Workspace(str(world.root), extra_roots=("/",))
    world.store.save_before(SESSION, TURN, workspace, "a")
    workspace.write("a", b"by a tool")
    world.store.note_after(SESSION, TURN, workspace, paths=["a"], command="a call of a tool")
    world.store.snapshot_tree(SESSION, TURN, workspace, command="one")
    world.user_writes("a", "by a command")
    world.store.note_after(SESSION, TURN, workspace, paths=[], command="one")

    plan = world.store.plan_restore(SESSION, [TURN], workspace)

    assert [("a", "restore")] == [(each.path, each.action) for each in plan.files]


def test_many_sessions_at_once(world: World) -> None:
    """However many other sessions work meanwhile, it is known which commands still run."""
    begin(world, "one")
    begin(world, "two")
    for number in range(40):
        world.store.snapshot_tree(SessionId(f"ses_other{number}"), TURN, world.workspace)
    end(world, "one")
    world.user_writes("a", "by two")
    end(world, "two")

    assert {"a": "delete"} == world.actions("turn_1")


def test_two_folders_at_once(world: World) -> None:
    """Commands of one session in two folders are told apart, and neither takes the other's files for gone."""
    other = world.folder / "other"
    other.mkdir()
    world.user_writes("a", "old")
    begin(world, "here")
    world.store.snapshot_tree(SESSION, TurnId("turn_1-other"), Workspace(str(other)), command="there")
    world.user_writes("a", "new")
    (other / "b").write_text("new", encoding="utf-8")
    world.store.note_after(SESSION, TurnId("turn_1-other"), Workspace(str(other)), paths=[], command="there")
    end(world, "here")

    assert {"a": "restore"} == world.actions("turn_1")
    plan = world.store.plan_restore(SESSION, [TurnId("turn_1-other")], Workspace(str(other)))
    assert [("b", "delete")] == [(each.path, each.action) for each in plan.files]


def test_a_background_command_within_its_turn(world: World) -> None:
    """What a command in the background does while its turn runs is undone like anything else."""
    world.user_writes("a", "old")
    begin(world, "job")
    end(world, "job", runs_on=True)
    world.user_writes("a", "by the job")
    end(world, "job")
    world.user_writes("later", "by a person")

    assert {"a": "restore"} == world.actions("turn_1")


@pytest.mark.parametrize("ended", [True, False])
def test_a_background_command_after_its_turn(world: World, *, ended: bool) -> None:
    """What changes after the turn beside its command is noted, but overwritten by force alone: people work too."""
    world.user_writes("a", "old")
    world.user_writes("b", "old")
    begin(world, "job")
    end(world, "job", runs_on=True)
    world.user_writes("a", "by the job, or by a person")
    if ended:
        end(world, "job", certain=False)
        world.user_writes("b", "certainly by a person")

    plan = world.store.plan_restore(SESSION, [TURN], world.workspace)

    [file] = plan.files
    assert ("a", "conflict") == (file.path, file.action)
    assert "kept running in the background" in file.why
    assert (not ended) == any("still runs in the background" in remark for remark in plan.remarks)
    world.undo("turn_1", force=True)
    assert b"old" == world.files()["a"][0]


def test_a_later_turn_takes_the_watch_over(world: World) -> None:
    """A turn that begins while an earlier one's command runs gets what changes from then on, and both come back."""
    world.user_writes("a", "old")
    world.user_writes("b", "old")
    before = world.files()
    begin(world, "job")
    end(world, "job", runs_on=True)
    world.user_writes("a", "by the job")
    world.agent_writes("turn_2", "c", "by a tool")
    world.store.note_after(SESSION, NEXT, world.workspace, paths=["c"], command="a call of a tool")
    begin(world, "two", NEXT)
    world.user_writes("b", "by two")
    end(world, "two", NEXT)

    assert ({"a": "conflict"}, {"b": "restore", "c": "delete"}) == (world.actions("turn_1"), world.actions("turn_2"))
    world.undo("turn_2")
    assert {"a", "b"} == set(world.files())
    end(world, "job", certain=False)
    world.undo("turn_1", force=True)
    assert before == world.files()


def test_an_undo_beside_a_running_command_is_nobodys_change(world: World) -> None:
    """What an undo does while a command still runs is not taken for the work of the command."""
    world.user_writes("a", "old")
    world.agent_writes("turn_1", "a", "by a tool")
    world.agent_writes("turn_1", "b", "by a tool")
    world.end("turn_1")
    begin(world, "job", NEXT)
    end(world, "job", NEXT, runs_on=True)
    world.undo("turn_1")
    end(world, "job", NEXT)

    assert {} == world.actions("turn_2")


def test_a_file_that_a_command_puts_back(world: World) -> None:
    """A file that a command changed and put back is as an earlier command of the turn left it: no conflict."""
    world.user_writes("a", "old")
    begin(world, "one")
    world.user_writes("a", "left by one")
    end(world, "one")
    begin(world, "two")
    begin(world, "three")
    world.user_writes("a", "for a moment")
    end(world, "two")
    world.user_writes("a", "left by one")
    end(world, "three")

    assert {"a": "restore"} == world.actions("turn_1")


def test_a_failed_note_closes_the_command(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the end of a command cannot be noted, it does not count as running for ever, and its change is not lost."""
    world.user_writes("a", "old")
    begin(world, "one")
    world.user_writes("a", "by one")
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", _no_disk)
        with pytest.raises(CheckpointFailed, match="could not be noted"):
            end(world, "one")
    begin(world, "two", NEXT)
    end(world, "two", NEXT)

    assert ({"a": "conflict"}, {}) == (world.actions("turn_1"), world.actions("turn_2"))
    assert () == world.store.plan_restore(SESSION, [NEXT], world.workspace).remarks


def _no_disk(*_: object) -> int:
    raise OSError(5, "Input/output error")


COMMANDS = st.sampled_from(["one", "two", "three"])
PATHS = st.sampled_from(["a", "b", "d/c", "new", "d/new"])
STEPS = st.lists(
    st.tuples(st.sampled_from(["begin", "end", "runs on", "change", "remove", "tool", "person"]), COMMANDS, PATHS),
    max_size=25,
)


@given(steps=STEPS)
def test_every_change_in_any_interleaving(steps: list[tuple[str, str, str]]) -> None:
    """However commands and tools of a turn interleave, an undo brings all of it back, and nothing of a person's."""
    with tempfile.TemporaryDirectory() as folder:
        world = World(folder=Path(folder))
        world.store = CheckpointStore(world.kept, clock=lambda: 0.0)
        for path in ("a", "b", "d/c"):
            world.user_writes(path, f"old {path}")
        before, persons = world.files(), {}
        running: set[str] = set()
        for number, (step, command, path) in enumerate(steps):
            here = (world.root / path).exists()
            match step:
                case "begin" if command not in running:
                    begin(world, command)
                    running.add(command)
                case "end" if command in running:
                    end(world, command)
                    running.discard(command)
                case "runs on" if command in running:
                    end(world, command, runs_on=True)
                case "change" if running:
                    world.user_writes(path, f"{number} by a command")
                case "remove" if running and here:
                    (world.root / path).unlink()
                case "tool":
                    world.agent_writes("turn_1", path, f"{number} by a tool")
                    world.store.note_after(SESSION, TURN, world.workspace, paths=[path], command="a call of a tool")
                case "person" if not running:
                    world.user_writes(f"mine {number}", "by a person")
                    persons[f"mine {number}"] = (b"by a person", 0o644)
                case _:
                    pass
        for command in sorted(running):
            end(world, command)

        assert () == world.undo("turn_1").skipped
        assert before | persons == world.files()
