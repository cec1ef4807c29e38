"""Finds skills: folders with a `SKILL.md` in the project, in the user's `~/.agents/skills`, and the built-in ones.

A project's skill hides the user's skill of the same name, and both hide a built-in one; the user is told. The head of a
`SKILL.md` looks like YAML, but only `key: value` is supported: no more is needed, and a full parser for untrusted files
is a risk of its own.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs

from session_core.agent.instructions import is_there
from session_core.sandbox.file_values import FolderEntry, WorkspaceRefused
from session_core.sandbox.trust import Fingerprint
from session_core.sandbox.workspace import Workspace
from session_core.storage.ownership import WritableByOthers
from session_core.tools.skills import MAX_SKILL_BYTES, SKILL_FILE, Skill, SkillSource

BUILT_IN_SKILLS: Final = str(Path(__file__).resolve().parents[1] / "skills")
PROJECT_SKILLS: Final = ".agents/skills"

MAX_SKILLS: Final = 100
"""The limit per place; each skill costs a line in every prompt."""
MAX_SKILL_NAME_CHARS: Final = 64
MAX_DESCRIPTION_CHARS: Final = 1_024
MAX_CATALOGUE_CHARS: Final = 20_000
"""The limit for the lines of all skills in the prompt."""

_NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)
_FENCE: Final = re.compile(r"-{3,}[ \t]*")
_KEY: Final = re.compile(r"([A-Za-z][A-Za-z0-9_-]*):(?:[ \t]+(.*)|[ \t]*)")
_PLACES: Final[dict[SkillSource, str]] = {"project": "the project", "user": "your own", "built_in": "the built-in"}


@attrs.frozen(kw_only=True)
class FoundSkills:
    """The usable skills by name, and remarks for people about faulty or hidden ones."""

    skills: tuple[Skill, ...]
    problems: tuple[str, ...] = ()


class _BadHead(ValueError):
    """The head of a `SKILL.md` is invalid; the message says why."""


def discover_skills(
    project: str | None,
    *,
    trust: Fingerprint | None,
    user_folder: str | None = None,
    more_folders: Sequence[str] = (),
    built_in_folder: str | None = BUILT_IN_SKILLS,
) -> FoundSkills:
    """Find all skills; blocks.

    Args:
        project: The project's root folder, in whose `.agents/skills` to look.
        trust: What the user trusts in the project: its skills must be exactly that. Without it they are not even read.
        user_folder: The folder of the user's skills; by default `~/.agents/skills`.
        more_folders: Further folders with the user's skills.
        built_in_folder: The folder of the built-in skills; None leaves them out.
    """
    found: dict[str, Skill] = {}
    problems: list[str] = []
    if user_folder is None:
        user_folder = os.path.expanduser(f"~/{PROJECT_SKILLS}")  # noqa: PTH111 - unlike Path, it never fails
    if project is not None and trust is None and is_there(project, PROJECT_SKILLS):
        problems.append("the skills of this project are not used, because the folder is not trusted")
    places: list[tuple[SkillSource, Iterator[Skill | str]]] = []
    if project is not None and trust is not None:
        places.append(("project", _skills_of_project(project, trust)))
    for each in (user_folder, *more_folders):
        places.append(("user", _skills_in(os.path.expanduser(each), "user")))  # noqa: PERF401, PTH111 - for the types
    if built_in_folder is not None:
        places.append(("built_in", _skills_in(built_in_folder, "built_in")))
    for source, skills in places:
        for skill in skills:
            if isinstance(skill, str):
                problems.append(skill)
            elif (other := found.get(skill.name)) is None:
                found[skill.name] = skill
            else:
                problems.append(
                    f"the skill {skill.name!r} of {_PLACES[other.source]} hides the one of {_PLACES[source]}"
                )
    return FoundSkills(skills=tuple(found[name] for name in sorted(found)), problems=tuple(problems))


def skills_catalogue(skills: Sequence[Skill]) -> str:
    """Return one line per skill for the prompt, the same bytes for the same skills; empty if there are none."""
    lines: list[str] = []
    room = MAX_CATALOGUE_CHARS
    for number, skill in enumerate(skills):
        line = f"- {skill.name}: {skill.description}"
        room -= len(line) + 1
        if room < 0:
            lines.append(f"- [{len(skills) - number} more are not listed, there is no room]")
            break
        lines.append(line)
    return "\n".join(lines)


def parse_head(text: str) -> dict[str, str]:
    """Read the head of a `SKILL.md`: lines of `key: value` between two lines of dashes.

    A value may be quoted, or be a block of indented lines after `>` or `|`. Indented lines after other keys are
    skipped: they are meant for programs that support more.

    Raises:
        ValueError: The head is invalid; the message says why.
    """
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or not _FENCE.fullmatch(lines[0]):
        raise _BadHead("it does not begin with a line of ---")
    values: dict[str, str] = {}
    key: str | None = None
    for number, line in enumerate(lines[1:], start=2):
        if _FENCE.fullmatch(line):
            return {name: _parse_value(raw) for name, raw in values.items()}
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if line[0] in " \t" or line.startswith("- "):
            if key is None:
                raise _BadHead(f"line {number} does not follow a key")
            values[key] += "\n" + line.strip()
            continue
        match = _KEY.fullmatch(line)
        if match is None:
            raise _BadHead(f"line {number} is not of the form 'key: value'")
        key = str(match[1])
        if key in values:
            raise _BadHead(f"line {number} repeats the key {key!r}")
        values[key] = (match[2] or "").strip()
    raise _BadHead("the closing --- is missing")


def _parse_value(raw: str) -> str:
    first, *rest = raw.split("\n")
    if first in {">", ">-", "|", "|-"}:
        return " ".join(rest)
    joined = " ".join([first, *rest]).strip()
    for quote in ('"', "'"):
        if joined.startswith(quote):
            if len(joined) < 2 or not joined.endswith(quote):
                raise _BadHead(f"a value begins with {quote} and does not end with it")
            inner = joined[1:-1]
            return inner.replace('\\"', '"').replace("\\\\", "\\") if quote == '"' else inner.replace("''", "'")
    return joined


def _skills_of_project(project: str, trust: Fingerprint) -> Iterator[Skill | str]:
    """Find the project's skills; all files are opened beneath it, so no link can show the model other files."""
    workspace = Workspace(project, read_only=True)
    for entry in _folders(workspace, PROJECT_SKILLS):
        folder = f"{PROJECT_SKILLS}/{entry.name}"
        skill = Skill(name=entry.name, description="", source="project", root=project, folder=folder, trust=trust)
        yield _load(skill)


def _skills_in(place: str, source: SkillSource) -> Iterator[Skill | str]:
    """Find the skills of a folder. The user's own folders may be links; inside each, no link leads out."""
    for entry in _folders(Workspace(place, read_only=True), "."):
        root = os.path.realpath(os.path.join(place, entry.name))  # noqa: PTH118
        yield _load(Skill(name=entry.name, description="", source=source, root=root))


def _folders(workspace: Workspace, path: str) -> list[FolderEntry]:
    try:
        entries = list(workspace.scan(path, limit=10 * MAX_SKILLS))
    except (WorkspaceRefused, OSError):
        return []
    kinds = {"folder", "link"}
    return [each for each in entries if each.kind in kinds and not each.name.startswith(".")][:MAX_SKILLS]


def _load(skill: Skill) -> Skill | str:
    """Read the head of a skill; returns a sentence that says what is wrong if it is invalid."""
    label = f"the skill in {_format_place(skill)}"
    if not _NAME.fullmatch(skill.name) or len(skill.name) > MAX_SKILL_NAME_CHARS:
        rule = (
            f"a name must be at most {MAX_SKILL_NAME_CHARS} lower-case letters and digits, separated by single hyphens"
        )
        return f"{label} is not used: {rule}"
    try:
        skill.refuse_writable_by_others(SKILL_FILE)
        content = Workspace(skill.root, read_only=True).read(skill.path(SKILL_FILE), max_bytes=MAX_SKILL_BYTES)
        if content.truncated:
            return f"{label} is not used: its {SKILL_FILE} has more than {MAX_SKILL_BYTES:,} bytes"
        if skill.trust is not None and not skill.trust.covers(skill.path(SKILL_FILE), content.data):
            return f"{label} is not used: its {SKILL_FILE} has changed since this folder was trusted"
        head = parse_head(content.data.decode("utf-8"))
    except FileNotFoundError:
        return f"{label} is not used: it has no {SKILL_FILE}"
    except UnicodeDecodeError:
        return f"{label} is not used: its {SKILL_FILE} is not UTF-8 text"
    except _BadHead as error:
        return f"{label} is not used: {error}"
    except WritableByOthers as error:
        return f"{label} is not used: {error.message}"
    except (WorkspaceRefused, OSError) as error:
        return f"{label} is not used: {getattr(error, 'strerror', None) or error}"
    description = " ".join(head.get("description", "").split())
    if head.get("name") != skill.name:
        return f"{label} is not used: its {SKILL_FILE} must say 'name: {skill.name}', like the folder"
    if not description or not description.isprintable() or len(description) > MAX_DESCRIPTION_CHARS:
        return f"{label} is not used: 'description' must be plain text of at most {MAX_DESCRIPTION_CHARS:,} characters"
    return attrs.evolve(skill, description=description)


def _format_place(skill: Skill) -> str:
    where = skill.folder if skill.source == "project" else skill.root
    return where if where.isprintable() else ascii(where)
