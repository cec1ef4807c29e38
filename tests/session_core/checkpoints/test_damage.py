"""Damaged and torn records: what can be read still counts, and nothing false is ever written into a project."""

import json
import tempfile
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.checkpoints.blobs import digest
from session_core.checkpoints.manifest import MAX_LINE_BYTES
from session_core.ids import TurnId
from tests.session_core.checkpoints._world import SESSION, World


def prepared(folder: Path) -> tuple[World, Path]:
    """A turn that changed two files and made one; and its record."""
    world = World(folder=folder)
    world.user_writes("a", "old a")
    world.user_writes("b", "old b")
    for name in ["a", "b", "new"]:
        world.agent_writes("turn_1", name, f"new {name}")
    world.end("turn_1")
    [record] = (world.kept / SESSION / "turns").iterdir()
    return world, record


def line_of(fields: dict[str, Any]) -> bytes:
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return json.dumps({"check": zlib.crc32(text.encode()), "fields": fields}).encode() + b"\n"


def before(path: str, **changes: object) -> dict[str, Any]:
    state = {"kind": "content", "sha256": digest(b"old a"), "size": 5, "mode": 0o644, "mtime_ns": 0, "why": ""}
    return {"line": "before", "path": path, "origin": "tool", "state": state | changes}


@given(cut=st.integers(min_value=0))
def test_a_record_torn_anywhere_is_read_up_to_there(cut: int) -> None:
    """However much of a record is lost at its end, the rest counts as sound, and lines can be added."""
    with tempfile.TemporaryDirectory() as folder:
        world, record = prepared(Path(folder))
        data = record.read_bytes()
        data = data[: cut % (len(data) + 1)]
        record.write_bytes(data)
        world.reopen()

        [turn] = world.store.turns(SESSION)
        world.agent_writes("turn_1", "later", "x")
        world.reopen()
        [longer] = world.store.turns(SESSION)

        lines = [json.loads(line)["fields"] for line in data.split(b"\n")[:-1]]
        assert [each["path"] for each in lines if each["line"] == "before"] == [file.path for file in turn.files]
        assert 0 == turn.damaged
        assert [*(file.path for file in turn.files), "later"] == [file.path for file in longer.files]


@given(place=st.integers(min_value=0), byte=st.integers(min_value=0, max_value=255))
def test_one_wrong_byte_never_writes_false_content(place: int, byte: int) -> None:
    """One wrong byte anywhere in a record is noticed, and each file ends as it was before or as the agent left it."""
    with tempfile.TemporaryDirectory() as folder:
        world, record = prepared(Path(folder))
        data = bytearray(record.read_bytes())
        data[place % len(data)] = byte
        record.write_bytes(data)
        world.reopen()

        world.undo("turn_1", force=True)

        allowed = {"a": {b"old a", b"new a"}, "b": {b"old b", b"new b"}, "new": {b"new new"}}
        assert all(content in allowed[name] for name, (content, _) in world.files().items())
        assert {"a", "b"} <= world.files().keys()


def test_a_damaged_line_costs_only_its_file(tmp_path: Path) -> None:
    """A damaged line in the middle is counted and told; the other files are brought back."""
    world, record = prepared(tmp_path)
    record.write_bytes(record.read_bytes().replace(b'"path":"a"', b'"path":"x"'))
    world.reopen()

    plan = world.store.plan_restore(SESSION, [TurnId("turn_1")], world.workspace)

    assert ("turn_1: 2 lines of its record are damaged, files may be missing here",) == plan.remarks
    assert {"b": "restore", "new": "delete"} == {each.path: each.action for each in plan.files}


@pytest.mark.parametrize(
    "line",
    [
        b"{}\n",
        b"[]\n",
        b"null\n",
        b"\xff\n",
        b"[" * 100_000 + b"\n",
        b'"' + b"x" * MAX_LINE_BYTES + b'"\n',
        line_of({"line": "other"}),
        line_of({"line": "before"}),
        line_of(before("c", sha256="../../../etc/passwd")),
        line_of(before("c", sha256=None)),
        line_of(before("c", size=-1)),
        line_of(before("c", mode="7")),
        line_of(before("c", kind="else")),
        line_of(before("c", more=1)),
        line_of(before("c") | {"path": 3}),
    ],
    ids=range(15),
)
def test_a_line_that_nobody_here_wrote_is_left_out(tmp_path: Path, line: bytes) -> None:
    """Lines of any other form are counted as damaged and otherwise ignored."""
    world, record = prepared(tmp_path)
    record.write_bytes(record.read_bytes() + line)
    world.reopen()

    [turn] = world.store.turns(SESSION)

    assert (1, ["a", "b", "new"]) == (turn.damaged, [file.path for file in turn.files])


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "a\0", "link/outside"])
def test_a_forged_path_leads_nowhere(tmp_path: Path, path: str) -> None:
    """A record that names a file outside of the workspace cannot make an undo write there, not even by force."""
    world, record = prepared(tmp_path)
    (tmp_path / "outside").write_text("precious", encoding="utf-8")
    (world.root / "link").symlink_to(tmp_path)
    record.write_bytes(record.read_bytes() + line_of(before(path)))
    world.reopen()

    report = world.undo("turn_1", force=True)

    assert [path] == [each.path for each in report.skipped]
    assert "precious" == (tmp_path / "outside").read_text(encoding="utf-8")


def test_a_forged_mode_gives_no_privilege(tmp_path: Path) -> None:
    """Special bits in a record, such as set-uid, are never given to a file."""
    world, record = prepared(tmp_path)
    record.write_bytes(record.read_bytes() + line_of(before("c", mode=0o4755)))
    world.reopen()

    world.undo("turn_1", force=True)

    assert 0o755 == (world.root / "c").stat().st_mode & 0o7777


@pytest.mark.parametrize("damage", [b"", b"old A", None])
def test_a_damaged_content_is_not_written(tmp_path: Path, damage: bytes | None) -> None:
    """A kept content that is lost or not what it was is told, and the file is left as it is."""
    world, _ = prepared(tmp_path)
    name = digest(b"old a")
    blob = world.kept / SESSION / "blobs" / name[:2] / name
    if damage is None:
        blob.unlink()
    else:
        blob.write_bytes(damage)

    assert "not_saved" == world.actions("turn_1")["a"]
    report = world.undo("turn_1", force=True)
    assert ["a"] == [each.path for each in report.skipped]
    assert b"new a" == world.files()["a"][0]


def test_a_damaged_content_is_mended_when_it_is_seen_again(tmp_path: Path) -> None:
    """Saving the same content again after damage writes it anew."""
    world, _ = prepared(tmp_path)
    name = digest(b"old a")
    (world.kept / SESSION / "blobs" / name[:2] / name).write_bytes(b"")
    world.reopen()
    world.user_writes("again", "old a")

    world.agent_writes("turn_2", "again", "x")

    assert "restore" == world.actions("turn_1")["a"]


def test_what_a_crash_left_over_is_swept_away(tmp_path: Path) -> None:
    """Contents that no record names and files that were not finished are deleted at the next start."""
    world, _ = prepared(tmp_path)
    name = digest(b"nobody needs this")
    folder = world.kept / SESSION / "blobs" / name[:2]
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"nobody needs this")
    (folder / ".new-0123").write_bytes(b"nobody")
    assert 4 == world.blobs()
    world.reopen()

    world.store.turns(SESSION)

    assert 2 == world.blobs()
