"""Writing whole files: what it says, what it keeps, and what it will not touch."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest
import trio

from session_core.sandbox.workspace import Workspace
from session_core.tools.base import ToolFailed
from session_core.tools.write import WriteTool
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.sessions import SandboxPolicy
from tests.session_core.tools._calls import EVERY_RIGHT
from tests.session_core.tools._running import NotingHost, answer, context, names, preview, refusal, run


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder to write in."""
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


async def test_a_new_file(root: Path) -> None:
    """A new file is made with the folders on the way to it, and the answer says how large it is."""
    assert "created src/new/a.py: 2 lines, 8 bytes" == await answer(
        WriteTool(), root, path="src/new/a.py", content="a\nb = ä"
    )
    assert "a\nb = ä" == (root / "src/new/a.py").read_text(encoding="utf-8")


async def test_a_file_is_replaced(root: Path) -> None:
    """Replacing a file says what was there, keeps its mode, and tells frontends the difference."""
    file = root / "run.sh"
    file.write_text("one\ntwo\n", encoding="utf-8")
    file.chmod(0o750)

    output = await run(WriteTool(), root, path="./run.sh", content="one\n2\n3\n")

    assert "replaced run.sh: 3 lines, 8 bytes (+2 -1); it had 2 lines, 8 bytes" == output.text
    assert (0o750, b"one\n2\n3\n") == (stat.S_IMODE(file.stat().st_mode), file.read_bytes())
    assert output.details is not None
    assert {"path": "run.sh", "created": False, "added": 2, "removed": 1} == {
        name: output.details[name] for name in ("path", "created", "added", "removed")
    }
    assert "-two\n+2\n+3" in str(output.details["diff"])


async def test_content_is_written_as_it_is(root: Path) -> None:
    """Not a byte is added or changed: line ends, marks and odd characters stay."""
    content = "\ufeffa\r\nb\x1b[0m\n\n\ud7ff𝄞"

    await run(WriteTool(), root, path="f", content=content)

    assert content.encode() == (root / "f").read_bytes()


async def test_other_answers(root: Path) -> None:
    """Writing the same again, an empty file, or over a binary file is told as such."""
    (root / "bin").write_bytes(b"\0\1")

    assert "created f: 0 lines, 0 bytes" == await answer(WriteTool(), root, path="f", content="")
    assert "f is unchanged: it had this content already" == await answer(WriteTool(), root, path="f", content="")
    assert "replaced bin, which was not text: 1 line, 1 byte; it had 2 bytes" == (
        await answer(WriteTool(), root, path="bin", content="x")
    )


async def test_the_old_content_is_kept_first(root: Path) -> None:
    """The host hears of every change before it is made, by the path as the workspace names it."""
    (root / "a").write_text("old", encoding="utf-8")
    host = NotingHost(root)

    await WriteTool().run(JsonObject({"path": f"{root}/a", "content": "new"}), context(root, host=host))
    await WriteTool().run(JsonObject({"path": "x/../b", "content": "new"}), context(root, host=host))

    assert [("a", b"old"), ("b", None)] == host.noted


async def test_a_preview_changes_nothing(root: Path) -> None:
    """A preview shows the difference and the path, and leaves the disk alone."""
    (root / "a").write_text("old\n", encoding="utf-8")

    shown = await preview(WriteTool(), root, path="a", content="new\n")
    new = await preview(WriteTool(), root, path="folder/b", content="")

    assert ("write a (+1 -1)", ("a",), None) == (shown.summary, shown.paths, shown.always_ask)
    assert "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-old\n+new" == shown.displayed_text
    assert ("write folder/b (new file, +0 -0)", "folder/b is made, empty") == (new.summary, new.displayed_text)
    assert ["a"] == names(root)


@pytest.mark.parametrize("path", [".git/hooks/pre-commit", ".vscode/tasks.json", ".envrc", ".GIT/config"])
async def test_protected_files_need_a_person(root: Path, path: str) -> None:
    """A protected file is always asked for, and is written only once a person has agreed."""
    shown = await preview(WriteTool(), root, path=path, content="x")

    assert f"{path} is a protected file" == shown.always_ask
    assert "a person has to agree" in await refusal(WriteTool(), root, path=path, content="x")
    assert not (root / path).exists()
    await WriteTool().run(JsonObject({"path": path, "content": "x"}), context(root, rights=EVERY_RIGHT))
    assert (root / path).exists()


async def test_what_cannot_be_written(root: Path) -> None:
    """Folders, pipes, links that lead out, paths outside and read-only sessions are refused with a sentence."""
    (root / "folder").mkdir()
    (root / "file").touch()
    (root / "out").symlink_to("../secret.txt")
    (root / "up").symlink_to("..")
    os.mkfifo(root / "pipe")

    assert "'folder' is a folder, not a file" == await refusal(WriteTool(), root, path="folder", content="x")
    assert "cannot write 'file/x': Not a directory" == await refusal(WriteTool(), root, path="file/x", content="x")
    assert "not an ordinary file" in await refusal(WriteTool(), root, path="pipe", content="x")
    for path in ("out", "up/x", "../x", "/tmp/session-core-outside"):
        assert "tools may use" in await refusal(WriteTool(), root, path=path, content="x")
    assert ["root"] == names(root.parent)

    read_only = context(root, sandbox=SandboxPolicy(mode="read_only"))
    with pytest.raises(ToolFailed, match="may only read files"):
        await WriteTool().run(JsonObject({"path": "x", "content": ""}), read_only)


async def test_a_link_inside_stays_a_link(root: Path) -> None:
    """Writing through a link inside the folder changes its target and keeps the link."""
    (root / "real").write_text("old", encoding="utf-8")
    (root / "link").symlink_to("real")

    await run(WriteTool(), root, path="link", content="new")

    assert (root / "link").is_symlink()
    assert "new" == (root / "real").read_text(encoding="utf-8")


async def test_names_with_escape_codes_are_harmless(root: Path) -> None:
    """A name with control characters is shown without them, and the file has its name."""
    shown = await preview(WriteTool(), root, path="a\x1b[31m\nb", content="x\n")
    text = await answer(WriteTool(), root, path="a\x1b[31m\nb", content="x\n")

    assert "write a\ufffd[31m\ufffdb (new file, +1 -0)" == shown.summary
    assert "\x1b" not in shown.displayed_text
    assert "created a\ufffd[31m\ufffdb: 1 line, 2 bytes" == text
    assert (root / "a\x1b[31m\nb").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"content": "x"}, "the argument 'path' is missing"),
        ({"path": "a"}, "the argument 'content' is missing"),
        ({"path": "a", "content": 5}, "the argument 'content' must be text"),
        ({"path": "a", "content": "\ud800"}, "unpaired surrogate"),
        ({"path": "a", "text": "x"}, "write has no argument 'text'; it takes path, content"),
    ],
)
async def test_bad_arguments_are_named(root: Path, arguments: dict[str, Any], said: str) -> None:
    """An argument that is missing, unknown or wrong is named, and nothing is written."""
    assert said in await refusal(WriteTool(), root, **arguments)
    assert [] == names(root)


async def test_a_file_that_changes_meanwhile_is_not_overwritten(root: Path) -> None:
    """What somebody else wrote between the look and the write is not lost unseen."""

    class Meddler(NotingHost):
        async def before_write(self, path: str) -> None:
            (root / path).write_text("from somebody else", encoding="utf-8")

    with pytest.raises(ToolFailed, match="read it again"):
        await WriteTool().run(JsonObject({"path": "a", "content": "mine"}), context(root, host=Meddler(root)))

    assert "from somebody else" == (root / "a").read_text(encoding="utf-8")


async def test_a_stop_comes_before_or_after(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a stop comes while the file is being written, the tool lets go only after it is written."""
    started, real = trio.Event(), Workspace.write
    scope = trio.CancelScope()

    def slow(self: Workspace, *arguments: Any, **options: Any) -> None:
        trio.from_thread.run_sync(started.set)
        trio.from_thread.run_sync(scope.cancel)
        real(self, *arguments, **options)

    monkeypatch.setattr(Workspace, "write", slow)
    with scope:
        await run(WriteTool(), root, path="a", content="whole")

    assert started.is_set()
    assert "whole" == (root / "a").read_text(encoding="utf-8")


async def test_a_stop_before_writes_nothing(root: Path) -> None:
    """A call that is cancelled before it writes leaves no file."""
    with trio.CancelScope() as scope:
        scope.cancel()
        await run(WriteTool(), root, path="a", content="x")

    assert scope.cancelled_caught
    assert [] == names(root)


@pytest.mark.parametrize("before", [None, "old\n"])
async def test_a_yes_is_for_the_file_that_was_shown(root: Path, before: str | None) -> None:
    """A file that was made or changed after a person agreed is not overwritten, nor one at another place."""
    (root / "one").mkdir()
    (root / "two").mkdir()
    (root / "folder").symlink_to("one")
    arguments = JsonObject({"path": "folder/f", "content": "new\n"})
    for folder in ("one", "two") if before is not None else ():
        (root / folder / "f").write_text(before or "", encoding="utf-8")
    agreed = (await WriteTool().preview(arguments, context(root))).state

    (root / "folder").unlink()
    (root / "folder").symlink_to("two")
    with pytest.raises(ToolFailed, match="'folder/f' has changed since this call was allowed, so nothing was written"):
        await WriteTool().run(arguments, context(root, approved_state=agreed))
    (root / "folder").unlink()
    (root / "folder").symlink_to("one")
    (root / "one/f").write_text("somebody's\n", encoding="utf-8")
    with pytest.raises(ToolFailed, match="read it again and make a new call"):
        await WriteTool().run(arguments, context(root, approved_state=agreed))

    assert "somebody's\n" == (root / "one/f").read_text(encoding="utf-8")
    assert (before is not None) == (root / "two/f").exists()
