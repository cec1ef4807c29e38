"""The tool that reads skills: folders with a `SKILL.md` that tells the model how to do one kind of work.

The prompt names each skill in one sentence; the model reads only what it needs, so a hundred skills cost little.
"""

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal

import attrs
import trio

from session_core.limits import MAX_PATH_CHARS, MAX_TOOL_OUTPUT_CHARS
from session_core.sandbox.file_values import WorkspaceRefused
from session_core.sandbox.trust import MAX_TRUSTED_FILE_BYTES, Fingerprint
from session_core.sandbox.workspace import Workspace
from session_core.storage.ownership import WritableByOthers, refuse_writable_by_others
from session_core.tools.argument_schemas import object_schema, text_schema
from session_core.tools.base import ToolContext, ToolFailed, ToolOutput
from session_core.tools.text_files import cut
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.tools import Effect, ToolSpec

SkillSource = Literal["project", "user", "built_in"]

SKILL_FILE: Final = "SKILL.md"
MAX_SKILL_BYTES: Final = 64_000
"""A longer guide should be split into files beside it, read when they are needed."""
MAX_FILES_LISTED: Final = 100
"""How many files beside a guide are listed; a skill is not an archive."""

_CUT: Final = "cut here: the file is longer"
_FENCE: Final = re.compile(r"-{3,}[ \t]*")


@attrs.frozen(kw_only=True)
class Skill:
    """A skill that was found.

    Attributes:
        root: The folder that the skill's files must not leave: the project, or the skill's own folder.
        folder: The skill's folder beneath `root`; `.` if it is the root itself.
        trust: If given, only files that are exactly what was trusted are read.
    """

    name: str
    description: str
    source: SkillSource
    root: str
    folder: str = "."
    trust: Fingerprint | None = attrs.field(default=None, repr=False)

    def path(self, file: str) -> str:
        """Return the path of a file of this skill in a workspace of `root`."""
        return os.path.normpath(os.path.join(self.folder, file))  # noqa: PTH118 - text; the workspace opens it

    def refuse_writable_by_others(self, file: str) -> None:
        """Refuse a file of the user's own skill that other users could have written; a project's is trusted by content.

        Raises:
            WritableByOthers: They could.
            OSError: It cannot be examined.
        """
        if self.source == "user":
            root = Path(self.root)
            refuse_writable_by_others(root / self.path(file), beneath=root.parent)


class SkillTool:
    """Read a skill's guide, or a file that lies beside it."""

    spec = ToolSpec(
        name="skill",
        description=(
            "Read the guide of a skill named in the instructions, before you start on work it is meant for. The answer "
            "also lists files that lie beside the guide; name one in 'file' to read it."
        ),
        parameters=object_schema(
            required={"name": text_schema("The skill's name.")},
            optional={"file": text_schema("A file of the skill, relative to its folder.")},
        ),
    )
    effects: frozenset[Effect] = frozenset({"read"})

    def __init__(self, skills: Callable[[str], Sequence[Skill]]) -> None:
        """`skills` returns the skills of a working folder; it may block, and is called in a thread."""
        self._skills = skills

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Read the file; on cancel the result is discarded."""
        if unknown := sorted(set(arguments) - {"name", "file"}):
            raise ToolFailed(f"there is no argument {unknown[0]!r}; there are 'name' and 'file'")
        name, file = arguments.get("name"), arguments.get("file")
        if not isinstance(name, str):
            raise ToolFailed("the argument 'name' must be the name of a skill")
        if file is not None and (not isinstance(file, str) or not 0 < len(file) <= MAX_PATH_CHARS):
            raise ToolFailed("the argument 'file' must be a path relative to the skill's folder")
        text = await trio.to_thread.run_sync(
            lambda: _read_answer(self._find(name, context.cwd), file), abandon_on_cancel=True
        )
        return ToolOutput(text=text)

    def _find(self, name: str, cwd: str) -> Skill:
        skills = self._skills(cwd)
        for skill in skills:
            if skill.name == name:
                return skill
        names = ", ".join(sorted(skill.name for skill in skills)) or "none at all"
        raise ToolFailed(f"there is no skill {name[:100]!r}; there are: {names}")


def strip_front_matter(text: str) -> str:
    """Return the text after the front matter of a `SKILL.md`."""
    lines = text.removeprefix("\ufeff").splitlines()
    if lines and _FENCE.fullmatch(lines[0]):
        for number, line in enumerate(lines[1:], start=1):
            if _FENCE.fullmatch(line):
                lines = lines[number + 1 :]
                break
    return "\n".join(lines).strip()


def _read_answer(skill: Skill, file: str | None) -> str:
    try:
        workspace = Workspace(skill.root, read_only=True)
        if file is not None:
            return cut(_read_skill_file(workspace, skill, file), _CUT)
        guide = strip_front_matter(_read_skill_file(workspace, skill, SKILL_FILE))
        beside = _list_skill_files(workspace, skill)
    except (WorkspaceRefused, WritableByOthers) as error:
        raise ToolFailed(str(error)) from None
    except OSError as error:
        what = SKILL_FILE if file is None else file
        raise ToolFailed(f"{what!r} of the skill {skill.name!r} cannot be read: {error.strerror or error}") from None
    return cut(f"{guide}\n\nFiles of this skill:\n{beside}" if beside else guide, _CUT)


def _read_skill_file(workspace: Workspace, skill: Skill, file: str) -> str:
    if file.startswith("/") or os.path.normpath(file).split("/")[0] == "..":
        raise ToolFailed(f"{file!r} is outside of the folder of the skill {skill.name!r}")
    most = MAX_TOOL_OUTPUT_CHARS * 4 if skill.trust is None else MAX_TRUSTED_FILE_BYTES
    data = workspace.read(skill.path(file), max_bytes=most).data
    if skill.trust is not None and not skill.trust.covers(skill.path(file), data):
        raise ToolFailed(f"{file!r} of the skill {skill.name!r} has changed since this folder was trusted")
    skill.refuse_writable_by_others(file)
    if b"\0" in data:
        raise ToolFailed(f"{file!r} of the skill {skill.name!r} is not a text file")
    return data.decode("utf-8", "replace")


def _list_skill_files(workspace: Workspace, skill: Skill) -> str:
    names: list[str] = []
    trusted = None if skill.trust is None else dict(skill.trust.files)
    for path, entry in workspace.walk(skill.folder, ignore=None, limit=10 * MAX_FILES_LISTED):
        name = os.path.relpath(path, skill.folder)
        if entry.kind == "file" and name != SKILL_FILE and (trusted is None or skill.path(name) in trusted):
            names.append(name if name.isprintable() else ascii(name))
        if len(names) > MAX_FILES_LISTED:
            return "\n".join([*names[:MAX_FILES_LISTED], "[and more]"])
    return "\n".join(names)
