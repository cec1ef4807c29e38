"""Skills are found, checked and listed; a stranger's are not even read."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.agent.skills import (
    MAX_CATALOGUE_CHARS,
    MAX_SKILLS,
    FoundSkills,
    discover_skills,
    parse_head,
    skills_catalogue,
)
from session_core.sandbox.trust import take_fingerprint
from session_core.sandbox.workspace import Workspace
from session_core.tools.skills import MAX_SKILL_BYTES, Skill


def make(folder: Path, name: str, description: str = "What it is for.", *, text: str | None = None) -> None:
    (folder / name).mkdir(parents=True)
    head = f"---\nname: {name}\ndescription: {description}\n---\nDo it.\n"
    (folder / name / "SKILL.md").write_text(head if text is None else text, encoding="utf-8")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An empty project."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def discover(project: Path, *, trusted: bool = True, built_in: Path | None = None) -> FoundSkills:
    return discover_skills(
        str(project),
        trust=take_fingerprint(Workspace(str(project))) if trusted else None,
        user_folder=str(project.parent / "user"),
        built_in_folder=None if built_in is None else str(built_in),
    )


def test_the_nearest_hides_the_others(project: Path) -> None:
    """A project's skill hides the user's of the same name, and that a built-in one; each time people are told."""
    built_in = project.parent / "built-in"
    for folder, names in [(project / ".agents/skills", "a"), (project.parent / "user", "ab"), (built_in, "abc")]:
        for name in names:
            make(folder, name)

    found = discover(project, built_in=built_in)

    assert [("a", "project"), ("b", "user"), ("c", "built_in")] == [(s.name, s.source) for s in found.skills]
    assert (
        "the skill 'a' of the project hides the one of your own",
        "the skill 'a' of the project hides the one of the built-in",
        "the skill 'b' of your own hides the one of the built-in",
    ) == found.problems


def test_an_untrusted_project_gives_none(project: Path) -> None:
    """Skills of a folder that is not trusted are not used, and people are told that there are some."""
    assert FoundSkills(skills=()) == discover(project, trusted=False)
    make(project / ".agents/skills", "hostile")

    found = discover(project, trusted=False)

    assert () == found.skills
    assert ("the skills of this project are not used, because the folder is not trusted",) == found.problems


def test_the_built_in_skills_are_sound() -> None:
    """Every skill that comes with us can be used."""
    found = discover_skills(None, trust=None, user_folder="/nonexistent")

    assert ["debug-failure", "review-change", "write-tests"] == [skill.name for skill in found.skills]
    assert () == found.problems


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "does not begin with a line of ---"),
        ("name: x\n", "does not begin with a line of ---"),
        ("---\nname: bad\n", "the closing --- is missing"),
        ("---\nname: other\ndescription: d\n---\n", "must say 'name: bad'"),
        ("---\ndescription: d\n---\n", "must say 'name: bad'"),
        ("---\nname: bad\n---\n", "'description' must be plain text"),
        ("---\nname: bad\ndescription: a\x1b[31m\n---\n", "'description' must be plain text"),
        ("---\nname: bad\ndescription: " + "d" * 1025 + "\n---\n", "'description' must be plain text"),
        ("---\nname: bad\nname: bad\n---\n", "line 3 repeats the key 'name'"),
        ("---\n  name: bad\n---\n", "line 2 does not follow a key"),
        ("---\n!!python/object\n---\n", "line 2 is not of the form 'key: value'"),
        ('---\nname: "bad\n---\n', 'begins with " and does not end'),
        ("---\nname: bad\ndescription: d\n---\n" + "x" * MAX_SKILL_BYTES, "has more than 64,000 bytes"),
    ],
)
def test_what_is_wrong_is_told(project: Path, text: str, problem: str) -> None:
    """A skill that cannot be used is left out with its place and a reason; the others stay."""
    make(project / ".agents/skills", "bad", text=text)
    make(project / ".agents/skills", "good")

    found = discover(project)

    assert ["good"] == [skill.name for skill in found.skills]
    [told] = found.problems
    assert told.startswith("the skill in .agents/skills/bad is not used: ")
    assert problem in told


@pytest.mark.parametrize("name", ["Bad", "a--b", "-a", "a_b", "a b", "ä", "x" * 65, "a\nb", "..a"])
def test_names_are_checked(project: Path, name: str) -> None:
    """Folders whose names are no plain names are left out; the reason shows no control characters."""
    make(project / ".agents/skills", name)

    found = discover(project)

    assert () == found.skills
    assert all(problem.isprintable() for problem in found.problems)


def test_files_that_are_no_text_or_missing(project: Path) -> None:
    """A folder without a SKILL.md, or with one that is no text, is told."""
    skills = project / ".agents/skills"
    (skills / "empty").mkdir(parents=True)
    make(skills, "noise", text="")
    (skills / "noise/SKILL.md").write_bytes(b"---\nname: \xff\n---\n")

    assert (
        "the skill in .agents/skills/empty is not used: it has no SKILL.md",
        "the skill in .agents/skills/noise is not used: its SKILL.md is not UTF-8 text",
    ) == discover(project).problems


def test_no_link_of_a_project_leads_out(project: Path) -> None:
    """A project cannot show files of elsewhere as skills; the user may link as they like."""
    elsewhere = project.parent / "elsewhere"
    make(elsewhere, "linked")
    make(elsewhere, "mine")
    (project / ".agents/skills").mkdir(parents=True)
    (project / ".agents/skills/linked").symlink_to(elsewhere / "linked")
    (project.parent / "user").mkdir()
    (project.parent / "user/mine").symlink_to(elsewhere / "mine")

    found = discover(project)

    assert ["mine"] == [skill.name for skill in found.skills]
    assert 1 == len(found.problems)


def test_the_number_is_bounded(project: Path) -> None:
    """No more than a hundred skills of one place are read."""
    for number in range(MAX_SKILLS + 5):
        make(project / ".agents/skills", f"s{number}")

    assert MAX_SKILLS == len(discover(project).skills)


def test_the_catalogue_is_bounded() -> None:
    """The list for the prompt has one line per skill, and says how many had no room."""
    skills = [Skill(name=f"s{n}", description="d" * 1000, source="user", root="/s") for n in range(30)]

    text = skills_catalogue(skills)

    assert "" == skills_catalogue([])
    assert f"- s0: {'d' * 1000}" == text.splitlines()[0]
    assert len(text) <= MAX_CATALOGUE_CHARS + 100
    assert "- [11 more are not listed, there is no room]" == text.splitlines()[-1]


def test_heads_as_people_write_them() -> None:
    """Quotes, comments, blocks and keys for other programs are understood or passed over."""
    head = (
        "---\nname: 'it''s'\n# a remark\ndescription: >-\n  several\n  lines\n\nmetadata:\n  author: me\n"
        'tags:\n- one\n- two\nlicense: "a \\"b\\""\nempty:\n---\n'
    )

    assert {
        "name": "it's",
        "description": "several lines",
        "metadata": "author: me",
        "tags": "- one - two",
        "license": 'a "b"',
        "empty": "",
    } == parse_head(head)


@given(st.text())
def test_any_text_is_a_head_or_a_plain_error(text: str) -> None:
    """Whatever stands in a file, reading its head gives texts or a sentence."""
    for attempt in (text, f"---\n{text}\n---\n"):
        try:
            assert all(isinstance(value, str) for value in parse_head(attempt).values())
        except ValueError as error:
            assert str(error)  # noqa: PT017 - either way is right
