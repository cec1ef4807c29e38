"""The extension that is shown in three languages: the files of two of them are what the page shows, and work."""

import shutil
import sys
from pathlib import Path

import pytest
import trio

import session_core as sc
from session_core.testing.scripted import text, tool_call
from session_core.tools.read import ReadTool
from session_core.vocabulary.messages import ToolResultPart
from tests.docs._documents import ROOT, blocks
from tests.session_core.sep._children import PATIENCE
from tests.session_core.sep._service import Home, open_world

EXAMPLE = ROOT / "examples" / "keep_out"
RULE = "no tool call may mention secrets.txt"
both = pytest.mark.parametrize("language", ["python", "shell"])


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch) -> str:
    """A PATH whose `python3` has session-core."""
    found = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    monkeypatch.setenv("PATH", found)
    return found


def test_the_page_shows_the_files() -> None:
    """Each file stands on the page, byte for byte; the two manifests differ only in what they start."""
    shown = blocks((ROOT / "docs" / "extension-languages.md").read_text(encoding="utf-8"))
    assert ["toml", "typescript", "python", "sh", "sh"] == [each.language for each in shown]
    manifest, _, python, shell, _ = (each.text for each in shown)
    assert manifest == (EXAMPLE / "python" / "extension.toml").read_text(encoding="utf-8")
    assert python == (EXAMPLE / "python" / "keep_out.py").read_text(encoding="utf-8")
    assert shell == (EXAMPLE / "shell" / "keep_out.sh").read_text(encoding="utf-8")
    other = manifest.replace("python3", "sh").replace("keep_out.py", "keep_out.sh")
    assert other == (EXAMPLE / "shell" / "extension.toml").read_text(encoding="utf-8")


@both
async def test_it_keeps_to_the_protocol(language: str, path: str) -> None:
    """The whole check finds nothing to change, and nothing to advise."""
    with trio.fail_after(PATIENCE):
        report = await sc.extensions.check_extension(EXAMPLE / language)
    assert ([], 0) == ([*report.failures], report.counts["warned"])


@both
async def test_it_guards_and_tells(language: str, path: str, tmp_path: Path) -> None:
    """In a service its command tells the rule, and its hook blocks the calls that break it and no other."""
    home = Home(tmp_path)
    home.environ["PATH"] = path
    folder = home.path / "extensions" / "keep-out"
    shutil.copytree(EXAMPLE / language, folder, ignore=shutil.ignore_patterns("__pycache__"))
    home.agree("keep-out", folder)
    (home.folder / "notes.txt").write_text("tea", encoding="utf-8")
    (home.folder / "secrets.txt").write_text("1234", encoding="utf-8")
    answers = (tool_call("read", {"path": "secrets.txt"}), tool_call("read", {"path": "notes.txt"}), text("Done."))
    async with open_world(home, *answers, tools=(ReadTool(),), permission_mode="full") as world:
        said = await world.service.run_command(world.session_id, "keep-out", "")
        await world.turn("Go on.")
        snapshot = await world.service.load_session(world.session_id)

    assert RULE == said.content
    parts = [part for message in snapshot.messages for part in message.parts]
    results = [part.text for part in parts if isinstance(part, ToolResultPart)]
    assert 2 == len(results)
    assert f"Blocked by an extension: keep-out: {RULE}" == results[0]
    assert "tea" in results[1]
