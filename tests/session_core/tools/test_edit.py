"""Edits of files: what is kept, what is said, all or nothing."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from session_core.sandbox.workspace import Workspace
from session_core.tools.base import ToolFailed
from session_core.tools.edit import MAX_EDITS, EditTool, MultiEditTool
from session_core.tools.text_files import MAX_FILE_BYTES
from session_core.vocabulary.frozen import JsonObject
from tests.session_core.tools._running import NotingHost, answer, context, names, preview, refusal, run

CODE = "def f():\n    return 1\n\n\ndef g():\n    return 2\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with one file in it."""
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "a.py").write_text(CODE, encoding="utf-8")
    return folder


def now(root: Path) -> str:
    return (root / "a.py").read_bytes().decode()


def change(old: str, new: str, **more: Any) -> dict[str, Any]:
    return {"old_text": old, "new_text": new, **more}


async def test_an_edit(root: Path) -> None:
    """An edit replaces its place, and the answer counts the lines."""
    output = await run(EditTool(), root, path="a.py", **change("return 1", "x = 1\n    return x"))

    assert "edited a.py: 1 place (+2 -1)" == output.text
    assert CODE.replace("return 1", "x = 1\n    return x") == now(root)
    assert output.details is not None
    assert (2, 1) == (output.details["added"], output.details["removed"])


async def test_every_place(root: Path) -> None:
    """With replace_all every place is replaced; without it, two places are refused with their lines."""
    said = await refusal(EditTool(), root, path="a.py", **change("return", "yield"))
    assert "cannot edit a.py: old_text occurs 2 times, beginning in lines 2, 6" in said
    assert CODE == now(root)

    text = await answer(EditTool(), root, path="a.py", **change("return", "yield", replace_all=True))

    assert "edited a.py: 2 places (+2 -2)" == text
    assert CODE.replace("return", "yield") == now(root)


async def test_a_lenient_match_is_told(root: Path) -> None:
    """When the text was not there exactly, the answer says what was overlooked."""
    text = await answer(
        EditTool(), root, path="a.py", **change("  def g():\n      return 2", "  def g():\n      return 3")
    )

    assert text.endswith("\n[old_text does not occur exactly; it matched one place, ignoring indentation]")
    assert CODE.replace("2", "3") == now(root)


async def test_bytes_around_the_place_are_kept(root: Path) -> None:
    """Byte order mark, CR LF and a missing last line end survive an edit given with LF."""
    (root / "a.py").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\nthree")

    await run(EditTool(), root, path="a.py", **change("one\ntwo\n", "1\n2\n2.5\n"))

    assert b"\xef\xbb\xbf1\r\n2\r\n2.5\r\nthree" == (root / "a.py").read_bytes()


async def test_several_edits_build_on_each_other(root: Path) -> None:
    """Edits are made in order, each in what the one before has left, and written once."""
    host = NotingHost(root)
    edits = [change("def f", "def first"), change("def first():", "def first(x):"), change("2", "3")]

    output = await MultiEditTool().run(JsonObject({"path": "a.py", "edits": edits}), context(root, host=host))

    assert "edited a.py: 3 places (+2 -2)" == output.text
    assert CODE.replace("def f()", "def first(x)").replace("2", "3") == now(root)
    assert [("a.py", CODE.encode())] == host.noted


async def test_all_or_nothing(root: Path) -> None:
    """If one of several edits cannot be made, none is, and the answer says which."""
    host = NotingHost(root)
    arguments = JsonObject({"path": "a.py", "edits": [change("def f", "def h"), change("def k", "def l")]})

    with pytest.raises(ToolFailed, match=r"none of the edits was made: edit 2 of 2: old_text is not in the file"):
        await MultiEditTool().run(arguments, context(root, host=host))

    assert CODE == now(root)
    assert [] == host.noted


async def test_previews(root: Path) -> None:
    """A preview shows the exact difference, or fails as the call would; nothing is changed."""
    shown = await preview(EditTool(), root, path="a.py", **change("return 1", "return 0"))
    both = await preview(MultiEditTool(), root, path="a.py", edits=[change("1", "0"), change("2", "0")])

    assert ("edit a.py (+1 -1)", ("a.py",), None) == (shown.summary, shown.paths, shown.always_ask)
    assert shown.displayed_text.endswith("-    return 1\n+    return 0\n \n \n def g():")
    assert "edit a.py (+2 -2)" == both.summary
    assert CODE == now(root)
    with pytest.raises(ToolFailed, match="not in the file"):
        await preview(EditTool(), root, path="a.py", **change("nothing", "x"))


async def test_protected_files_need_a_person(root: Path) -> None:
    """An edit of a protected file is always asked for and refused without an answer."""
    (root / ".envrc").write_text("export A=1\n", encoding="utf-8")

    shown = await preview(EditTool(), root, path=".envrc", **change("A=1", "A=2"))

    assert ".envrc is a protected file" == shown.always_ask
    assert "a person has to agree" in await refusal(EditTool(), root, path=".envrc", **change("A=1", "A=2"))


async def test_a_file_that_changes_meanwhile_is_left_alone(root: Path) -> None:
    """When somebody changes the file between reading and writing, the edit fails and their change stays."""

    class Meddler(NotingHost):
        async def before_write(self, path: str) -> None:
            await super().before_write(path)
            (root / path).write_text(f"# from somebody else\n{CODE}", encoding="utf-8")

    host = Meddler(root)
    with pytest.raises(
        ToolFailed, match=r"'a\.py' has changed since it was read, so nothing was written; read it again"
    ):
        await EditTool().run(JsonObject({"path": "a.py", **change("return 1", "return 0")}), context(root, host=host))

    assert 1 == len(host.noted)
    assert f"# from somebody else\n{CODE}" == now(root)


@pytest.mark.parametrize(
    "meanwhile", [f"{CODE}# far away from the shown lines\n", CODE.replace("2", "3"), "", None], ids=str
)
async def test_a_yes_is_for_the_file_that_was_shown(root: Path, meanwhile: str | None) -> None:
    """What a person has agreed to is not done to a file that has changed since, wherever and by however little."""
    arguments = JsonObject({"path": "a.py", **change("return 1", "return 0")})
    host = NotingHost(root)
    agreed = (await EditTool().preview(arguments, context(root))).state
    stamp = (root / "a.py").stat()
    if meanwhile is None:
        (root / "a.py").unlink()
    else:
        (root / "a.py").write_text(meanwhile, encoding="utf-8")
        os.utime(root / "a.py", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    before = {name: (root / name).read_bytes() for name in names(root)}

    with pytest.raises(ToolFailed, match=r"has changed since this call was allowed|not in the file|there is no"):
        await EditTool().run(arguments, context(root, host=host, approved_state=agreed))

    assert before == {name: (root / name).read_bytes() for name in names(root)}
    assert [] == host.noted


async def test_a_yes_for_a_file_that_stayed(root: Path) -> None:
    """What a person has agreed to is done if the file is as it was, even if somebody has saved it again."""
    arguments = JsonObject({"path": "a.py", **change("return 1", "return 0")})
    agreed = (await EditTool().preview(arguments, context(root))).state
    (root / "a.py").write_text(CODE, encoding="utf-8")

    await EditTool().run(arguments, context(root, approved_state=agreed))

    assert CODE.replace("1", "0") == now(root)


async def test_a_file_that_vanishes(root: Path) -> None:
    """A file that is removed between reading and writing is not made again."""

    class Remover(NotingHost):
        async def before_write(self, path: str) -> None:
            (root / path).unlink(missing_ok=True)

    with pytest.raises(ToolFailed, match=r"'a\.py' has changed since it was read"):
        await EditTool().run(JsonObject({"path": "a.py", **change("1", "0")}), context(root, host=Remover(root)))

    assert [] == names(root)


async def test_what_cannot_be_edited(root: Path) -> None:
    """Missing, binary and foreign files are refused with a plain sentence."""
    (root / "bin").write_bytes(b"a\0b")
    (root / "out").symlink_to("/etc/hostname")
    with (root / "huge").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)

    assert "there is no 'gone' in the working folder" == await refusal(
        EditTool(), root, path="gone", **change("a", "b")
    )
    assert "'bin' is a binary file, not text" == await refusal(EditTool(), root, path="bin", **change("a", "b"))
    assert "tools may use" in await refusal(EditTool(), root, path="out", **change("a", "b"))
    assert "too large" in await refusal(EditTool(), root, path="huge", **change("a", "b"))


async def test_a_folder_without_permission(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that refuses is a sentence that says why, and the file stays."""

    def refuse(self: Workspace, path: str, data: bytes, **options: Any) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(Workspace, "write", refuse)

    assert "cannot write 'a.py': Permission denied" == await refusal(EditTool(), root, path="a.py", **change("1", "0"))
    assert CODE == now(root)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"path": "a.py", "edits": []}, "the argument 'edits' must be a non-empty list of objects"),
        ({"path": "a.py", "edits": [1]}, "the argument 'edits' must be a list of objects"),
        ({"path": "a.py", "edits": [{"old_text": "x"}]}, "edits[0]: the argument 'new_text' is missing"),
        ({"path": "a.py", "edits": [change("1", "2", x=1)]}, "unknown field 'x' in 'edits[0]'"),
        ({"path": "a.py", "edits": [change("1", "2", replace_all="yes")]}, "'replace_all' must be true or false"),
        ({"path": "a.py", "edits": [change("1", "2")] * (MAX_EDITS + 1)}, f"the maximum is {MAX_EDITS}"),
        ({"path": "a.py", "edits": [change("", "2")]}, "old_text is empty"),
        ({"path": "a.py", "edits": [change("1", "1")]}, "nothing to change"),
    ],
)
async def test_bad_arguments_are_named(root: Path, arguments: dict[str, Any], said: str) -> None:
    """What is wrong with which edit is said, and nothing is written."""
    assert said in await refusal(MultiEditTool(), root, **arguments)
    assert CODE == now(root)


texts = st.lists(st.sampled_from(["a", "b", "\n", "  c", "“q”"]), max_size=12).map("".join)


@given(before=texts, old=texts.filter(bool), after=texts, new=texts, bom=st.booleans(), rand=st.random_module())
async def test_what_is_on_disk_is_what_was_meant(
    before: str, old: str, after: str, new: str, *, bom: bool, rand: object, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """An edit of a text that is there once is on disk afterwards, in the encoding and with the mark it had."""
    text = before + old + after
    assume(old != new and sum(text.startswith(old, place) for place in range(len(text))) == 1)
    folder = tmp_path_factory.getbasetemp() / "edits"
    folder.mkdir(exist_ok=True)
    mark = b"\xef\xbb\xbf" if bom else b""
    (folder / "f").write_bytes(mark + text.encode())

    await run(EditTool(), folder, path="f", old_text=old, new_text=new)

    assert mark + (before + new + after).encode() == (folder / "f").read_bytes()
