"""Instructions are found where they should be, bounded, and never taken from strangers."""

import os
from pathlib import Path

import pytest

from session_core.agent.instructions import (
    MAX_ALL_INSTRUCTION_CHARS,
    MAX_INSTRUCTION_BYTES,
    Instructions,
    collect_instructions,
    project_root,
)
from session_core.sandbox.trust import take_fingerprint
from session_core.sandbox.workspace import Workspace


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A user's home with a project in it, whose root is known by its .git."""
    home = tmp_path / "home"
    (home / "code/project/.git").mkdir(parents=True)
    (home / "code/project/src/deep").mkdir(parents=True)
    return home


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def texts(found: Instructions) -> list[str]:
    return [each.text for each in found.texts]


def collect(home: Path, folder: Path, *, trusted: bool = True) -> Instructions:
    places = [folder, *folder.parents] if trusted else []
    trust = {str(each): take_fingerprint(Workspace(str(each)), ["AGENTS.md"]) for each in places}
    return collect_instructions(str(folder), trust=trust, home=str(home))


def test_from_the_general_to_the_near(home: Path) -> None:
    """The user's file comes first, then the project's from its root down; nothing above the root is read."""
    project = home / "code/project"
    write(home / ".agents/AGENTS.md", "user")
    write(home / "AGENTS.md", "not asked for")
    write(home / "code/AGENTS.md", "above the root")
    write(project / "AGENTS.md", "\ufeffproject\n")
    write(project / "src/AGENTS.md", "src")
    write(project / "src/deep/AGENTS.md", "below")

    found = collect(home, project / "src")

    assert ["user", "project", "src"] == texts(found)
    assert ["user", "project", "project"] == [each.source for each in found.texts]
    assert [str(home / ".agents/AGENTS.md"), str(project / "AGENTS.md"), str(project / "src/AGENTS.md")] == [
        each.path for each in found.texts
    ]
    assert () == found.remarks


def test_an_untrusted_folder_gives_nothing_and_people_are_told(home: Path) -> None:
    """Without trust only the user's own file is used, with a remark if the project has one."""
    project = home / "code/project"
    write(home / ".agents/AGENTS.md", "user")
    assert () == collect(home, project, trusted=False).remarks
    write(project / "AGENTS.md", "hostile")

    found = collect(home, project, trusted=False)

    assert ["user"] == texts(found)
    assert ("the AGENTS.md of this project is not used, because the folder is not trusted",) == found.remarks


def test_without_git_the_search_ends_below_the_home(home: Path) -> None:
    """In a folder without git, folders above count up to the home, which itself does not."""
    folder = home / "notes/letters"
    folder.mkdir(parents=True)
    write(home / "AGENTS.md", "home")
    write(home / "notes/AGENTS.md", "notes")
    write(folder / "AGENTS.md", "letters")

    assert ["notes", "letters"] == texts(collect(home, folder))


def test_a_shared_place_above_is_not_believed(tmp_path: Path, home: Path) -> None:
    """A .git and instructions in a folder that others may write to are not those of a project inside of it."""
    shared = tmp_path / "shared"
    mine = shared / "mine"
    mine.mkdir(parents=True)
    (shared / ".git").mkdir()
    write(shared / "AGENTS.md", "hostile")
    write(mine / "AGENTS.md", "mine")
    shared.chmod(0o1777)

    assert str(mine) == project_root(str(mine), home=str(home))
    assert ["mine"] == texts(collect(home, mine))


def test_links_lead_nowhere_outside(home: Path, tmp_path: Path) -> None:
    """A link inside the project is read, one that leads out of it is not."""
    project = home / "code/project"
    write(tmp_path / "secret", "secret")
    write(project / "CLAUDE.md", "the same for all")
    (project / "AGENTS.md").symlink_to("CLAUDE.md")
    (project / "src/AGENTS.md").symlink_to(tmp_path / "secret")
    (project / "src/deep/AGENTS.md").symlink_to("../../../../../secret")

    assert ["the same for all"] == texts(collect(home, project / "src/deep"))


def test_the_users_own_file_may_be_a_link(home: Path, tmp_path: Path) -> None:
    """People who keep their settings elsewhere may link to them."""
    write(tmp_path / "dotfiles/AGENTS.md", "mine")
    (home / ".agents").mkdir()
    (home / ".agents/AGENTS.md").symlink_to(tmp_path / "dotfiles/AGENTS.md")

    assert ["mine"] == texts(collect(home, home / "code/project"))


def test_long_files_are_cut_and_told(home: Path) -> None:
    """A file over the limit is cut with a remark in the text and one for people."""
    project = home / "code/project"
    write(project / "AGENTS.md", "x" * (MAX_INSTRUCTION_BYTES + 1))

    found = collect(home, project)

    [text] = texts(found)
    assert text.startswith("x" * MAX_INSTRUCTION_BYTES + "\n[cut here")
    assert 1 == len(found.remarks)


def test_all_together_are_bounded(home: Path) -> None:
    """When all files together are too long, those that do not fit are named as not used."""
    project = home / "code/project"
    folder = project
    for _ in range(5):
        write(folder / "AGENTS.md", "x" * (MAX_INSTRUCTION_BYTES - 10))
        folder /= "in"
    folder.mkdir()

    found = collect(home, folder)

    assert MAX_ALL_INSTRUCTION_CHARS >= sum(map(len, texts(found)))
    assert (3, 1) == (len(found.texts), len(found.remarks))
    assert str(project / "in/in/in/AGENTS.md") in found.remarks[0]


def test_what_is_no_text_does_no_harm(home: Path) -> None:
    """Pipes, folders, empty files and bytes that are no UTF-8 neither hang nor fail."""
    project = home / "code/project"
    os.mkfifo(project / "AGENTS.md")
    (project / "src/AGENTS.md").mkdir()
    (project / "src/deep/AGENTS.md").write_bytes(b"a\xffb\0c")

    assert ["a\ufffdbc"] == texts(collect(home, project / "src/deep"))


def test_only_what_was_trusted_is_read(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is swapped for the time of the reading, and back for each check, has no say."""
    project = home / "code/project"
    write(project / "AGENTS.md", "kind")
    write(project / "src/AGENTS.md", "kind too")
    trust = {str(each): take_fingerprint(Workspace(str(each)), ["AGENTS.md"]) for each in (project, project / "src")}
    read = Workspace.read

    def swapped(self: Workspace, path: str, **settings: int) -> object:
        if self.root != str(project):
            return read(self, path, **settings)
        write(project / "AGENTS.md", "evil")
        try:
            return read(self, path, **settings)
        finally:
            write(project / "AGENTS.md", "kind")

    monkeypatch.setattr(Workspace, "read", swapped)
    assert ["kind too"] == texts(collect_instructions(str(project / "src"), trust=trust, home=str(home)))
