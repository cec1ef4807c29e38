"""The skill tool: guides and files of skills, and nothing else."""

import os
from pathlib import Path
from typing import Any

import pytest

from session_core.ids import CallId
from session_core.limits import MAX_TOOL_OUTPUT_CHARS
from session_core.sandbox.trust import take_fingerprint
from session_core.sandbox.workspace import Workspace
from session_core.tools.base import ToolContext, ToolFailed
from session_core.tools.skills import MAX_FILES_LISTED, Skill, SkillTool, strip_front_matter
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.sessions import SandboxPolicy


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with a skill in it, and a secret beside the skill and one outside."""
    folder = tmp_path / "project/.agents/skills/bake"
    (folder / "notes").mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: bake\ndescription: d\n---\n\n# Bake\n\n---\nHot.\n", encoding="utf-8")
    (folder / "notes/oven.md").write_text("220 degrees", encoding="utf-8")
    (folder.parent / "secret").write_text("secret", encoding="utf-8")
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    return folder


def tool_for(folder: Path) -> SkillTool:
    root = folder.parents[2]
    skill = Skill(name="bake", description="d", source="project", root=str(root), folder=".agents/skills/bake")
    alone = Skill(name="alone", description="d", source="user", root=str(folder))
    return SkillTool(lambda _folder: (skill, alone))


async def run(folder: Path, **arguments: Any) -> str:
    context = ToolContext(call_id=CallId("call_1"), cwd="/", sandbox=SandboxPolicy(), report=lambda _: None)
    return (await tool_for(folder).run(JsonObject(arguments), context)).text


async def refusal(folder: Path, **arguments: Any) -> str:
    with pytest.raises(ToolFailed) as caught:
        await run(folder, **arguments)
    return str(caught.value)


@pytest.mark.parametrize("name", ["bake", "alone"])
async def test_a_guide_and_its_files(folder: Path, name: str) -> None:
    """The guide comes without its head, with the files beside it, and each of them can be read."""
    assert "# Bake\n\n---\nHot.\n\nFiles of this skill:\nnotes/oven.md" == await run(folder, name=name)
    assert "220 degrees" == await run(folder, name=name, file="notes/../notes/oven.md")


async def test_only_what_was_trusted_is_read(folder: Path) -> None:
    """Of a trusted project's skill the bytes that are read must be those that were trusted; no new file is listed."""
    root = folder.parents[2]
    trust = take_fingerprint(Workspace(str(root)))
    skill = Skill(
        name="bake", description="d", source="project", root=str(root), folder=".agents/skills/bake", trust=trust
    )
    tool = SkillTool(lambda _folder: (skill,))
    context = ToolContext(call_id=CallId("call_1"), cwd="/", sandbox=SandboxPolicy(), report=lambda _: None)

    async def read(**arguments: str) -> str:
        return (await tool.run(JsonObject({"name": "bake", **arguments}), context)).text

    assert "220 degrees" == await read(file="notes/oven.md")
    (folder / "notes/new.md").write_text("evil", encoding="utf-8")
    (folder / "notes/oven.md").write_text("evil", encoding="utf-8")
    assert "new.md" not in await read()
    for file in ("notes/oven.md", "notes/new.md"):
        with pytest.raises(ToolFailed, match="has changed since this folder was trusted"):
            await read(file=file)
    (folder / "SKILL.md").write_text("evil", encoding="utf-8")
    with pytest.raises(ToolFailed, match="has changed since this folder was trusted"):
        await read()


def test_it_only_reads() -> None:
    """Reading is all that the tool can do."""
    assert frozenset({"read"}) == SkillTool(lambda _folder: ()).effects


@pytest.mark.parametrize("name", ["bake", "alone"])
@pytest.mark.parametrize("file", ["../secret", "/etc/passwd", "notes/../../secret", "out", "notes", "missing", "a\0b"])
async def test_nothing_else_is_read(folder: Path, name: str, file: str) -> None:
    """Paths and links out of the skill, folders and missing files are refused, without a word of what is there."""
    (folder / "out").symlink_to(folder.parents[3] / "secret")

    assert "secret" not in (await refusal(folder, name=name, file=file)).replace("/secret'", "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "'name' must be"),
        ({"name": 3}, "'name' must be"),
        ({"name": "cook"}, "there is no skill 'cook'; there are: alone, bake"),
        ({"name": "bake", "file": ""}, "'file' must be"),
        ({"name": "bake", "file": 3}, "'file' must be"),
        ({"name": "bake", "more": 1}, "there is no argument 'more'"),
    ],
)
async def test_wrong_arguments_are_named(folder: Path, arguments: dict[str, Any], words: str) -> None:
    """Each wrong argument is named, and a wrong name is answered with the right ones."""
    assert words in await refusal(folder, **arguments)


async def test_long_and_binary_files(folder: Path) -> None:
    """Long texts are cut with a remark, other bytes are refused, pipes do not hang."""
    (folder / "long").write_text("x" * (MAX_TOOL_OUTPUT_CHARS + 1), encoding="utf-8")
    (folder / "binary").write_bytes(b"\0\1")
    os.mkfifo(folder / "pipe")

    text = await run(folder, name="bake", file="long")

    assert MAX_TOOL_OUTPUT_CHARS == len(text)
    assert text.endswith("[cut here: the file is longer]")
    assert "is not a text file" in await refusal(folder, name="bake", file="binary")
    assert "cannot be read" in await refusal(folder, name="bake", file="pipe")


async def test_the_list_of_files_is_bounded_and_harmless(folder: Path) -> None:
    """At most a hundred files are named, and names with control characters are shown in a plain form."""
    (folder / "a\x1b[31m").touch()
    for number in range(MAX_FILES_LISTED):
        (folder / f"f{number}").touch()

    lines = (await run(folder, name="bake")).splitlines()

    assert "'a\\x1b[31m'" in lines
    assert MAX_FILES_LISTED == len(lines[lines.index("Files of this skill:") + 1 : -1])
    assert "[and more]" == lines[-1]


@pytest.mark.parametrize(
    ("text", "guide"),
    [("no head\n", "no head"), ("---\nx: y\n---\nguide", "guide"), ("---\nnever ends", "---\nnever ends")],
)
def test_what_counts_as_the_guide(text: str, guide: str) -> None:
    """The guide is what follows the head; without a head it is everything."""
    assert guide == strip_front_matter(text)
