"""New extensions: safe names, a folder that is there whole or not at all, and all templates in a real service."""

import sys
import tomllib
from pathlib import Path

import pytest
import trio

from session_core.errors import Conflict, InvalidInput
from session_core.sep.scaffold.template import KINDS, module_name, scaffold_extension
from session_core.testing.scripted import ScriptedTool, text, tool_call
from session_core.vocabulary.messages import ToolResultPart
from tests.session_core.sep._service import Home, open_world


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("words", "words"),
        ("my-words", "my_words"),
        ("9lives", "extension_9lives"),
        ("calendar", "calendar_extension"),
        ("class", "class_extension"),
        ("match", "match_extension"),
        ("trio", "trio_extension"),
        ("session_core", "session_core_extension"),
        ("session-core", "session_core_extension"),
        ("conftest", "conftest_extension"),
    ],
)
def test_no_module_is_hidden(name: str, module: str) -> None:
    """The source has a name that can be imported, and that neither Python nor an installed package has."""
    assert module == module_name(name)


def test_what_lies_around_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that happens to lie where somebody works takes no name away."""
    (tmp_path / "words.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    assert "words" == module_name("words")
    monkeypatch.chdir("/")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "words_extension" == module_name("words")


@pytest.mark.parametrize(
    ("python", "command"),
    [
        ('/opt/a folder/py"thon\\3', '/opt/a folder/py"thon\\3'),
        ("/opt/größe/python", "/opt/größe/python"),
        ("/opt/\udcff/python", "python3"),
        ("/opt/\x7f/python", "python3"),
        ("", "python3"),
    ],
)
def test_the_interpreter(python: str, command: str, tmp_path: Path) -> None:
    """The manifest names the interpreter as it is, or the usual one if it cannot be written down."""
    scaffold_extension("words", "tool", tmp_path / "words", python=python)
    assert command == tomllib.loads((tmp_path / "words" / "extension.toml").read_text("utf-8"))["run"]["command"]


def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a file cannot be written, neither the folder nor half of it is there."""
    write = Path.write_text

    def full_disk(self: Path, data: str, encoding: str) -> int:
        if self.name == "README.md":
            raise OSError(28, "No space left on device")
        return write(self, data, encoding=encoding)

    monkeypatch.setattr(Path, "write_text", full_disk)
    with pytest.raises(InvalidInput, match="cannot be made: No space left on device"):
        scaffold_extension("words", "tool", tmp_path / "words")
    assert [] == list(tmp_path.iterdir())


def test_somebody_is_quicker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another process puts there meanwhile is left as it is."""
    rename = Path.rename

    def late(self: Path, target: Path) -> Path:
        target.mkdir()
        (target / "theirs").touch()
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", late)
    with pytest.raises(Conflict, match="already"):
        scaffold_extension("words", "tool", tmp_path / "words")
    assert ["words", "words/theirs"] == sorted(str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*"))


def test_an_unknown_template(tmp_path: Path) -> None:
    """A template that there is not is refused with those that there are."""
    with pytest.raises(InvalidInput, match="known: tool, command, permission-gate, provider, widget") as refused:
        scaffold_extension("words", "game", tmp_path / "words")
    assert "template" == refused.value.field


@pytest.mark.slow
async def test_all_of_them_in_a_service(tmp_path: Path) -> None:
    """In a real service the tool counts, the command keeps and tells, the gate says no, the model answers."""
    home = Home(tmp_path)

    def install() -> None:
        for template in KINDS:
            folder = home.path / "extensions" / template
            scaffold_extension(template, template, folder, python=sys.executable)
            home.agree(template, folder)

    await trio.to_thread.run_sync(install)
    answers = (
        tool_call("tool.count_words", {"text": "to be or not to be", "top": 0}),
        tool_call("bash", {"command": "rm -rf build"}),
        text("Done."),
    )
    async with open_world(home, *answers, tools=(ScriptedTool("bash"),), permission_mode="full") as world:
        kept = await world.service.run_command(world.session_id, "command", "style Plain words.")
        await world.service.run_command(world.session_id, "command", "style")
        count = await world.service.run_command(world.session_id, "widget")
        await world.turn("Go on.")
        snapshot = await world.service.load_session(world.session_id)
        await world.service.switch_model(world.session_id, "provider/echo")
        echoed = await world.turn("Hello there")

    assert ("kept as style", "count: 0 (widgets cannot be shown here)") == (kept.content, count.content)
    assert "style: Plain words." == snapshot.messages[0].text
    parts = [part for message in snapshot.messages for part in message.parts]
    assert [
        '{"lines": 1, "words": 6, "characters": 18, "frequent": []}',
        "Blocked by an extension: permission-gate: this is dangerous, and nobody is here to be asked",
    ] == [part.text for part in parts if isinstance(part, ToolResultPart)]
    assert "Hello there" == echoed
