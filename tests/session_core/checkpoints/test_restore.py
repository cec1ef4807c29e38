"""Undo: exact bytes and modes come back, and nobody else's work is lost."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.checkpoints.values import CheckpointLimits, UndoDescription
from session_core.ids import TurnId
from session_core.sandbox.workspace import Workspace
from tests.session_core.checkpoints._world import SESSION, World


def test_an_undo_brings_back_bytes_modes_and_absence(world: World) -> None:
    """Changed files get their old bytes and modes, removed ones come back, new ones go."""
    world.user_writes("changed", b"\0old\r\n", 0o755)
    world.user_writes("removed", "removed", 0o600)
    before = world.files()
    world.agent_writes("turn_1", "changed", "new")
    (world.root / "changed").chmod(0o644)
    world.agent_removes("turn_1", "removed")
    world.agent_writes("turn_1", "made/deep/new", "new")
    world.end("turn_1")

    report = world.undo("turn_1")

    assert (("changed",), ("removed",), ("made/deep/new",)) == (report.restored, report.recreated, report.deleted)
    assert () == report.skipped
    assert before == world.files()


def test_an_undo_can_be_undone(world: World) -> None:
    """The undo is a turn of its own; undoing it gives back what the agent had made, and so on."""
    world.user_writes("a", "old", 0o700)
    before = world.files()
    world.agent_writes("turn_1", "a", "new")
    world.agent_writes("turn_1", "b", "b")
    world.end("turn_1")
    after = world.files()
    turn = "turn_1"
    for expected in [before, after, before, after]:
        world.reopen()
        undone = world.undo(turn).undo_turn_id
        assert undone is not None
        assert expected == world.files()
        turn = undone

    assert [False, True, True, True, True] == [each.undo for each in world.store.turns(SESSION)]


def test_several_turns_at_once(world: World) -> None:
    """Undoing several turns gives back how each file was before the first of them."""
    world.user_writes("a", "0")
    world.user_writes("b", "0")
    before = world.files()
    for number, path in enumerate(["a", "b", "a"], start=1):
        world.agent_writes(f"turn_{number}", path, str(number))
        world.end(f"turn_{number}")

    world.undo("turn_1", "turn_2", "turn_3")

    assert before == world.files()


def test_an_earlier_turn_under_a_later_one_is_a_conflict(world: World) -> None:
    """Undoing a turn whose file a later turn has changed again is a conflict."""
    for number in (1, 2):
        world.agent_writes(f"turn_{number}", "a", str(number))
        world.end(f"turn_{number}")

    assert {"a": "conflict"} == world.actions("turn_1")


@pytest.mark.parametrize("how", ["content", "mode", "deleted", "created", "between", "link", "folder", "not noted"])
@pytest.mark.parametrize("force", [False, True])
def test_conflicts_are_only_overwritten_by_force(world: World, how: str, *, force: bool) -> None:
    """A file that somebody else changed stays as it is without force; with force it is saved, then brought back."""
    world.user_writes("a", "old")
    world.user_writes("other", "other")
    if how == "created":
        world.agent_removes("turn_1", "a")
    else:
        world.agent_writes("turn_1", "a", "agent")
    if how != "not noted":
        world.end("turn_1")
    turns = ["turn_1"]
    if how in {"content", "created", "between"}:
        world.user_writes("a", "precious")
    if how == "mode":
        (world.root / "a").chmod(0o755)
    if how in {"deleted", "link", "folder"}:
        (world.root / "a").unlink()
    if how == "link":
        (world.root / "a").symlink_to("other")
    if how == "folder":
        world.user_writes("a/b", "precious")
    if how == "between":
        world.agent_writes("turn_2", "a", "agent again")
        world.end("turn_2")
        turns.append("turn_2")
    mine = world.files()

    assert "conflict" == world.actions(*turns)["a"]
    report = world.undo(*turns, force=force)

    if not force or how in {"link", "folder"}:
        assert (None, ["a"]) == (report.undo_turn_id, [skipped.path for skipped in report.skipped])
        assert mine == world.files()
    else:
        assert ("a",) == (report.recreated if how == "deleted" else report.restored)
        assert (b"old", 0o644) == world.files()["a"]
        assert report.undo_turn_id is not None
        world.undo(report.undo_turn_id)
        assert mine == world.files()
    assert b"other" == world.files()["other"][0]


def test_a_change_after_the_plan_is_not_overwritten(world: World) -> None:
    """What somebody changes between plan and restore is left alone."""
    world.user_writes("a", "old")
    world.agent_writes("turn_1", "a", "agent")
    world.end("turn_1")
    plan = world.store.plan_restore(SESSION, [TurnId("turn_1")], world.workspace)
    world.user_writes("a", "precious")

    report = world.store.restore(plan, world.workspace)

    assert ["it changed after the plan was made; plan again"] == [each.why for each in report.skipped]
    assert b"precious" == world.files()["a"][0]


def test_what_is_as_before_is_left_alone(world: World) -> None:
    """A file that is already as it was before the turn is unchanged, and an undo of only such files is no turn."""
    world.user_writes("a", "old")
    world.agent_writes("turn_1", "a", "new")
    world.end("turn_1")
    world.user_writes("a", "old")

    assert {"a": "unchanged"} == world.actions("turn_1")
    assert None is world.undo("turn_1").undo_turn_id


def test_a_link_put_in_the_way_is_not_followed_out(world: World) -> None:
    """A folder swapped for a link to elsewhere after the turn leads to a conflict; nothing outside is written."""
    outside = world.folder / "outside"
    outside.mkdir()
    (outside / "a").write_text("precious", encoding="utf-8")
    world.user_writes("src/a", "old")
    world.agent_writes("turn_1", "src/a", "new")
    world.end("turn_1")
    (world.root / "src").rename(world.root / "moved")
    (world.root / "src").symlink_to(outside)

    assert {"src/a": "conflict"} == world.actions("turn_1")
    report = world.undo("turn_1", force=True)

    assert ["src/a"] == [each.path for each in report.skipped]
    assert "precious" == (outside / "a").read_text(encoding="utf-8")


def test_a_workspace_that_may_only_read_refuses_the_undo(world: World) -> None:
    """Each file that the workspace refuses to write is reported with its words."""
    world.user_writes("a", "old")
    world.agent_writes("turn_1", "a", "new")
    world.end("turn_1")
    plan = world.store.plan_restore(SESSION, [TurnId("turn_1")], world.workspace)

    report = world.store.restore(plan, Workspace(str(world.root), read_only=True))

    assert (None, ()) == (report.undo_turn_id, report.restored)
    assert "may only read files" in report.skipped[0].why


def test_an_undo_never_drops_what_it_needs(tmp_path: Path) -> None:
    """When saving the present files would push out the turn being undone, they are left alone instead."""
    world = World(folder=tmp_path, limits=CheckpointLimits(session_bytes=25))
    world.user_writes("a", "a" * 10)
    world.user_writes("b", "b" * 10)
    world.agent_writes("turn_1", "a", "A" * 10)
    world.agent_writes("turn_1", "b", "B")
    world.end("turn_1")

    report = world.undo("turn_1")

    assert (("b",), ["a"]) == (report.restored, [each.path for each in report.skipped])
    assert {"a": "restore", "b": "unchanged"} == world.actions("turn_1")


def test_a_path_noted_alone(world: World) -> None:
    """Noting the paths of one call leaves what was noted of the others before."""
    world.user_writes("a", "old")
    world.user_writes("b", "old")
    world.agent_writes("turn_1", "a", "agent")
    world.store.note_after(SESSION, TurnId("turn_1"), world.workspace, paths=["a"])
    world.user_writes("a", "precious")
    world.agent_writes("turn_1", "b", "agent")
    world.store.note_after(SESSION, TurnId("turn_1"), world.workspace, paths=["./b"])

    assert {"a": "conflict", "b": "restore"} == world.actions("turn_1")


PATHS = st.sampled_from(["a", "b", "d/a", "d/e/f", "x.sh"])
CONTENTS = st.binary(max_size=12)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), PATHS, CONTENTS),
        st.tuples(st.just("remove"), PATHS, st.just(b"")),
        st.tuples(st.just("chmod"), PATHS, st.sampled_from([b"6", b"7", b"4"])),
        st.tuples(st.just("end turn"), PATHS, st.just(b"")),
        st.tuples(st.just("reopen"), PATHS, st.just(b"")),
        st.tuples(st.just("snapshot"), PATHS, st.just(b"")),
    ),
    max_size=20,
)
FILES = st.dictionaries(PATHS, st.tuples(CONTENTS, st.sampled_from([0o644, 0o755, 0o600])), max_size=5)


@given(files=FILES, steps=STEPS)
def test_any_work_can_be_undone_exactly(
    files: dict[str, tuple[bytes, int]], steps: list[tuple[str, str, bytes]]
) -> None:
    """Whatever turns write, remove and give other modes, an undo of them all gives back exact bytes and modes."""
    with tempfile.TemporaryDirectory() as folder:
        world = World(folder=Path(folder))
        for path, (content, mode) in files.items():
            world.user_writes(path, content, mode)
        before = world.files()
        turns = ["turn_1"]
        for step, path, content in steps:
            _play(world, turns, step, path, content)
        world.end(turns[-1])
        after = world.files()

        report = world.undo(*turns)

        assert () == report.skipped
        assert before == world.files()
        if report.undo_turn_id is not None:
            world.undo(report.undo_turn_id)
        assert after == world.files()


def _play(world: World, turns: list[str], step: str, path: str, content: bytes) -> None:
    match step:
        case "write":
            world.agent_writes(turns[-1], path, content)
        case "remove" if (world.root / path).exists():
            world.agent_removes(turns[-1], path)
        case "chmod" if (world.root / path).exists():
            world.store.save_before(SESSION, TurnId(turns[-1]), world.workspace, path)
            (world.root / path).chmod(int(content) << 6 | 0o44)
        case "end turn":
            world.end(turns[-1])
            turns.append(f"turn_{len(turns) + 1}")
        case "snapshot":
            world.store.snapshot_tree(SESSION, TurnId(turns[-1]), world.workspace)
        case "reopen":
            world.reopen()
        case _:
            pass


def _turn(world: World, turn: str, content: str) -> None:
    world.agent_writes(turn, "a", content)
    world.end(turn)


@pytest.mark.parametrize("then", ["a turn", "nothing", "taken back", "a turn after all"])
def test_an_undo_in_between_is_nobody_elses_change(world: World, then: str) -> None:
    """Turns of which some were undone alone before are undone together without a conflict."""
    world.user_writes("a", "0")
    _turn(world, "turn_1", "1")
    _turn(world, "turn_2", "2")
    turns = ["turn_1", "turn_2"]
    undo = world.undo(*(turns if then == "a turn after all" else turns[1:]), noted=True).undo_turn_id
    assert undo is not None
    if then == "taken back":
        world.undo(undo, noted=True)
    if then.startswith("a turn"):
        _turn(world, "turn_3", "3")
        turns.append("turn_3")
    world.reopen()

    assert {"a": "restore"} == world.actions(*turns)
    world.undo(*turns)
    assert b"0" == world.files()["a"][0]


def test_what_an_undo_brought_back_of_somebody_else_is_a_conflict(world: World) -> None:
    """Somebody's work that was overwritten by force and brought back again is not taken for a turn's."""
    world.user_writes("a", "0")
    _turn(world, "turn_1", "1")
    _turn(world, "turn_2", "2")
    world.user_writes("a", "precious")
    undo = world.undo("turn_2", force=True, noted=True).undo_turn_id
    assert undo is not None
    world.undo(undo, noted=True)
    assert b"precious" == world.files()["a"][0]

    assert [{"a": "conflict"}] * 2 == [world.actions("turn_1"), world.actions("turn_1", "turn_2")]


def test_an_undo_in_another_folder_does_not_count(world: World) -> None:
    """Files of the same name in another folder explain nothing."""
    world.user_writes("a", "0")
    _turn(world, "turn_1", "1")
    _turn(world, "turn_2", "2")
    plan = world.store.plan_restore(SESSION, [TurnId("turn_2")], world.workspace)
    world.store.restore(plan, world.workspace, undoing=UndoDescription(turn_ids=plan.turn_ids, root="/elsewhere"))

    assert {"a": "conflict"} == world.actions("turn_1", "turn_2")
