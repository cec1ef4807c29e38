"""One digest stands for everything that an extension could load, and for nothing that changes by itself."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from session_core.sep.host.catalogue import folder_digest
from session_core.sep.host.catalogue.folder_digest import NotDigestible, compute_digest, digest_of
from session_core.sep.protocol.manifest import read_manifest

MANIFEST = 'name = "echo"\nversion = "1"\n[run]\ncommand = "./main.py"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An extension with a program, a library and a link."""
    folder = tmp_path / "echo"
    (folder / "lib").mkdir(parents=True)
    (folder / "extension.toml").write_text(MANIFEST)
    (folder / "main.py").write_text("import lib")
    (folder / "lib/a.py").write_text("a = 1")
    (folder / "lib/b.py").write_text("")
    (folder / "bin").symlink_to("lib")
    return folder


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def replace_by_link(path: Path, target: str) -> None:
    path.unlink()
    path.symlink_to(target)


def changed_later(folder: Path) -> None:
    os.utime(folder / "main.py", (1, 1))


def fetched(folder: Path) -> None:
    (folder / ".git/objects").mkdir(parents=True)
    (folder / ".git/objects/x").write_text("x")


def opened_to_others(folder: Path) -> None:
    (folder / "lib/a.py").chmod(0o664)


@pytest.mark.parametrize("change", [changed_later, fetched, opened_to_others])
def test_what_does_not_count(folder: Path, change: Callable[[Path], None]) -> None:
    """Times, the rights of others to read and what git keeps for itself leave the digest as it is."""
    before = digest_of(folder)
    change(folder)
    assert before == digest_of(folder)


def test_the_place_does_not_count(folder: Path, tmp_path: Path) -> None:
    """The same files elsewhere, or seen through a link to their folder, have the same digest."""
    before = digest_of(folder)
    (tmp_path / "link").symlink_to(folder)
    assert before == digest_of(tmp_path / "link")
    folder.rename(tmp_path / "moved")
    assert before == digest_of(tmp_path / "moved")


CHANGES: dict[str, Callable[[Path], object]] = {
    "manifest": lambda folder: (folder / "extension.toml").write_text(MANIFEST + " "),
    "content": lambda folder: (folder / "lib/a.py").write_text("a = 2"),
    "bytes moved to the next file": lambda folder: [
        (folder / "lib/a.py").write_text("a ="),
        (folder / "lib/b.py").write_text(" 1"),
    ],
    "new file": lambda folder: (folder / "lib/__pycache__").mkdir(),
    "new hidden file": lambda folder: (folder / ".env").write_text(""),
    "removed": lambda folder: (folder / "lib/b.py").unlink(),
    "renamed": lambda folder: (folder / "lib/b.py").rename(folder / "lib/c.py"),
    "executable": lambda folder: (folder / "main.py").chmod(0o755),
    "link turned": lambda folder: replace_by_link(folder / "bin", "main.py"),
    "file turned into a link": lambda folder: replace_by_link(folder / "lib/b.py", "../extension.toml"),
    "a nested .git": lambda folder: (folder / "lib/.git").write_text("x"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_seen(folder: Path, change: str) -> None:
    """Any change of what a program could load gives another digest."""
    before = digest_of(folder)
    CHANGES[change](folder)
    assert before != digest_of(folder)


def test_a_file_outside_counts_through_a_link(folder: Path, tmp_path: Path) -> None:
    """A link to an interpreter elsewhere is pinned with the content that it leads to."""
    interpreter = tmp_path / "python"
    interpreter.write_text("one")
    (folder / "python").symlink_to(interpreter)
    before = digest_of(folder)
    interpreter.write_text("two")
    assert before != digest_of(folder)


def test_links_to_nothing_and_in_circles_count(folder: Path, tmp_path: Path) -> None:
    """A link that leads nowhere yet is pinned too, so that what appears there later is noticed."""
    (folder / "circle").symlink_to("circle")
    (folder / "later").symlink_to(tmp_path / "later")
    before = digest_of(folder)
    (tmp_path / "later").write_text("here I am")
    assert before != digest_of(folder)


def outside_folder(folder: Path) -> None:
    (folder / "node_modules").symlink_to(folder.parent)


def into_git(folder: Path) -> None:
    fetched(folder)
    (folder / "code").symlink_to(".git/objects")


def pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe")


def pipe_outside(folder: Path) -> None:
    os.mkfifo(folder.parent / "pipe")
    (folder / "pipe").symlink_to(folder.parent / "pipe")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (outside_folder, "'node_modules' leads to a folder outside"),
        (into_git, "'code' leads into .git"),
        (pipe, "'pipe' is neither a file nor a folder"),
        (pipe_outside, "'pipe' is no ordinary file"),
    ],
)
def test_what_cannot_be_pinned_is_refused(folder: Path, make: Callable[[Path], None], words: str) -> None:
    """What could change unnoticed is refused by its name, and nothing stays open."""
    make(folder)
    before = open_files()
    with pytest.raises(NotDigestible) as caught:
        digest_of(folder)
    assert words in caught.value.message
    assert ("not_digestible", before) == (caught.value.code, open_files())


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    """A folder that is not there is the same typed error."""
    with pytest.raises(NotDigestible, match="No such file"):
        digest_of(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("bound", "value", "words"),
    [("MAX_FILES", 5, "more than 5 files"), ("MAX_BYTES", 60, "larger than 60 bytes"), ("_MAX_DEPTH", 1, "too deeply")],
)
def test_too_much_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch, bound: str, value: int, words: str) -> None:
    """Too many files, bytes or levels are refused before they cost more time."""
    digest_of(folder)
    (folder / "lib/deep/er").mkdir(parents=True)
    monkeypatch.setattr(folder_digest, bound, value)
    with pytest.raises(NotDigestible, match=words):
        digest_of(folder)


def test_the_manifest_within_is_the_one_that_was_read(folder: Path) -> None:
    """The digest tells which manifest was part of it, so that a swap in between can be noticed."""
    manifest = read_manifest(folder)
    assert manifest.digest == compute_digest(folder).manifest
    (folder / "extension.toml").write_text(MANIFEST + " ")
    assert manifest.digest != compute_digest(folder).manifest
