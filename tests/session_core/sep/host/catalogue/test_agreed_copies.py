"""What runs is a private copy of what a person agreed to, whatever others do to the files meanwhile."""

import hashlib
import os
import shutil
import stat
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from session_core.sep.host.catalogue import folder_digest
from session_core.sep.host.catalogue.agreed_copies import MAX_COPIES, AgreedCopies, NotAgreed
from session_core.sep.host.catalogue.discovery import DiscoveredExtension
from session_core.sep.host.catalogue.folder_digest import NotDigestible, compute_digest, digest_of
from session_core.sep.protocol.manifest import read_manifest

MANIFEST = 'name = "echo"\nversion = "1"\n[run]\ncommand = "./main.py"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An extension with a program, a library and links of all kinds."""
    folder = tmp_path / "echo"
    (folder / "lib/deep").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / ".git/config").write_text("not pinned")
    (folder / "extension.toml").write_text(MANIFEST)
    (folder / "main.py").write_text("import lib")
    (folder / "main.py").chmod(0o755)
    (folder / "lib/a.py").write_text("good")
    (tmp_path / "outside").write_text("from elsewhere")
    (folder / "plain").symlink_to("lib/a.py")
    (folder / "lib/deep/up").symlink_to("../a.py")
    (folder / "absolute").symlink_to(folder / "lib")
    (folder / "roundabout").symlink_to("../echo/lib/a.py")
    (folder / "outside").symlink_to(tmp_path / "outside")
    (folder / "chain").symlink_to("outside")
    (folder / "later").symlink_to(tmp_path / "later")
    return folder


def found_in(folder: Path) -> DiscoveredExtension:
    return DiscoveredExtension(
        name="echo", folder=folder, scope="user", manifest=read_manifest(folder), digest=digest_of(folder)
    )


class Store:
    """A home with copies, and what is agreed to there."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "agreed"
        self.agreed: set[str] = set()
        self.copies = AgreedCopies(self.folder, lambda: self.agreed)

    def agree(self, folder: Path) -> DiscoveredExtension:
        found = found_in(folder)
        self.agreed.add(found.digest)
        return found

    @property
    def names(self) -> list[str]:
        """What lies there, without the lock."""
        return sorted(each.name for each in self.folder.iterdir() if each.name != ".lock")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "home")


def tree(folder: Path) -> dict[str, object]:
    """All that a folder holds."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        found[name] = f"-> {path.readlink()}" if path.is_symlink() else path.is_dir() or path.read_text()
    return found


def test_a_copy_holds_all_that_counts_and_leads_nowhere_else(folder: Path, store: Store) -> None:
    """Links stay within the copy, files from elsewhere are in it, and what is not pinned or not there is left out."""
    copy = store.copies.copy_extension(store.agree(folder))

    assert tree(copy.path) == {
        "absolute": "-> lib",
        "chain": "-> outside",
        "extension.toml": MANIFEST,
        "lib": True,
        "lib/a.py": "good",
        "lib/deep": True,
        "lib/deep/up": "-> ../a.py",
        "main.py": "import lib",
        "outside": "from elsewhere",
        "plain": "-> lib/a.py",
        "roundabout": "-> lib/a.py",
    }
    modes = {name: stat.S_IMODE((copy.path / name).stat().st_mode) for name in (".", "lib", "lib/a.py", "main.py")}
    assert modes == {".": 0o700, "lib": 0o700, "lib/a.py": 0o400, "main.py": 0o500}
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    assert compute_digest(copy.path).content == compute_digest(folder).content


def test_programs_of_the_system_keep_their_place(folder: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link to a file that nobody but the system can change stays a link: it finds its libraries from there."""
    monkeypatch.setattr(folder_digest, "_can_change", lambda _path: False)
    copy = store.copies.copy_extension(store.agree(folder))
    assert (copy.path / "outside").readlink() == folder.parent / "outside"
    again = store.copies.copy_extension(found_in(folder))
    assert again.path.stat().st_ino == copy.path.stat().st_ino


def evil_content(folder: Path) -> None:
    (folder / "lib/a.py").write_text("evil")


def evil_link(folder: Path) -> None:
    (folder / "plain").unlink()
    (folder / "plain").symlink_to("../evil.py")


def evil_roundabout(folder: Path) -> None:
    (folder / "roundabout").unlink()
    (folder / "roundabout").symlink_to("../echo/main.py")


def evil_folder(folder: Path) -> None:
    shutil.rmtree(folder / "lib")
    (folder / "lib").symlink_to(folder.parent)


def evil_outside(folder: Path) -> None:
    (folder.parent / "outside").write_text("evil")


def evil_rights(folder: Path) -> None:
    (folder / "lib/a.py").chmod(0o755)


@pytest.mark.parametrize("swap", [evil_content, evil_link, evil_roundabout, evil_folder, evil_outside, evil_rights])
def test_what_changes_while_it_is_read_is_refused(
    folder: Path, store: Store, monkeypatch: pytest.MonkeyPatch, swap: Callable[[Path], None]
) -> None:
    """What is swapped after the listing and before the reading is not what was agreed to, and nothing is left of it."""
    found, scandir = store.agree(folder), os.scandir
    swapped: list[bool] = []

    def swapping(place: int) -> object:
        listing = scandir(place)
        if not swapped:
            swapped.append(True)
            swap(folder)
        return listing

    monkeypatch.setattr(os, "scandir", swapping)
    with pytest.raises((NotAgreed, NotDigestible)):
        store.copies.copy_extension(found)
    monkeypatch.undo()
    assert store.names == []


def test_a_file_that_is_added_while_it_is_read_is_not_in_the_copy(
    folder: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy holds what was listed and hashed; a module that appears beside it is not found by the program."""
    found, readlink = store.agree(folder), os.readlink

    def adding(name: str, *, dir_fd: int | None = None) -> str:
        (folder / "json.py").write_text("evil")
        return readlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "readlink", adding)
    copy = store.copies.copy_extension(found)
    assert (folder / "json.py").exists()
    assert "json.py" not in tree(copy.path)


def test_a_copy_is_made_once(folder: Path, store: Store) -> None:
    """The next start uses the same copy, as long as the original is the one that was agreed to."""
    found = store.agree(folder)
    first = store.copies.copy_extension(found)
    second = store.copies.copy_extension(found)
    assert first.path.stat().st_ino == second.path.stat().st_ino
    assert store.names == [f"echo-{found.digest}"]
    (folder / "lib/a.py").write_text("evil")
    with pytest.raises(NotAgreed, match="have changed since it was agreed to"):
        store.copies.copy_extension(found)


def alter(copy: Path) -> None:
    (copy / "lib/a.py").chmod(0o600)
    (copy / "lib/a.py").write_text("evil")


def add(copy: Path) -> None:
    (copy / "lib/json.py").write_text("evil")


def turn_link(copy: Path) -> None:
    (copy / "plain").unlink()
    (copy / "plain").symlink_to("/etc/passwd")


def replace_whole(copy: Path) -> None:
    copy.rename(copy.with_name("aside"))
    copy.symlink_to("aside")


def make_it_a_file(copy: Path) -> None:
    shutil.rmtree(copy)
    copy.write_text("evil")


@pytest.mark.parametrize("harm", [alter, add, turn_link, replace_whole, make_it_a_file])
def test_an_altered_copy_is_not_used_again(folder: Path, store: Store, harm: Callable[[Path], None]) -> None:
    """A copy that does not hold what it should is put aside and made anew; nothing else is left in the end."""
    found = store.agree(folder)
    first = store.copies.copy_extension(found)
    expected, path = tree(first.path), first.path
    first.release()
    harm(path)

    again = store.copies.copy_extension(found)

    assert tree(again.path) == expected
    assert not again.path.is_symlink()
    assert store.names == [f"echo-{found.digest}"]


def test_copies_that_nobody_agrees_to_go_when_they_are_not_in_use(folder: Path, store: Store) -> None:
    """The copy of an older version stays while a process runs from it, and is removed after that."""
    old = store.agree(folder)
    used = store.copies.copy_extension(old)
    store.agreed.clear()
    (folder / "lib/a.py").write_text("better")
    new = store.agree(folder)
    store.copies.copy_extension(new)
    assert store.names == sorted([f"echo-{old.digest}", f"echo-{new.digest}"])

    used.release()
    store.copies.remove_unused()

    assert store.names == [f"echo-{new.digest}"]


def test_what_a_killed_service_left_is_removed(folder: Path, store: Store) -> None:
    """An unfinished copy disappears with the next start."""
    found = store.agree(folder)
    (store.folder / ".new-abc/lib").mkdir(parents=True)
    store.copies.copy_extension(found)
    assert store.names == [f"echo-{found.digest}"]


def test_the_number_of_copies_is_bounded(folder: Path, store: Store) -> None:
    """Of too many copies that are not in use, those used longest ago are removed, agreed to or not."""
    store.folder.mkdir(parents=True)
    for number in range(MAX_COPIES + 3):
        digest = hashlib.sha256(b"%d" % number).hexdigest()
        store.agreed.add(digest)
        (store.folder / f"x-{digest}").mkdir()
        os.utime(store.folder / f"x-{digest}", (number, number))
    kept = store.copies.copy_extension(store.agree(folder))
    assert len(store.names) == MAX_COPIES
    assert kept.path.name in store.names
    assert f"x-{hashlib.sha256(b'0').hexdigest()}" not in store.names


def test_too_large_ones_leave_nothing(folder: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What grows beyond the bound while it is copied is refused, and its copy is removed."""
    found = store.agree(folder)
    monkeypatch.setattr(folder_digest, "MAX_BYTES", 30)
    with pytest.raises(NotDigestible, match="larger than 30 bytes"):
        store.copies.copy_extension(found)
    assert store.names == []


def test_many_starts_at_once_share_one_copy(folder: Path, store: Store) -> None:
    """Whoever is first makes the copy, and all run from it."""
    found, gate = store.agree(folder), threading.Barrier(4)

    def start(_: int) -> object:
        gate.wait()
        return store.copies.copy_extension(found)

    with ThreadPoolExecutor(4) as pool:
        copies = list(pool.map(start, range(4)))
    assert {each.path for each in copies} == {store.folder / f"echo-{found.digest}"}  # type: ignore[attr-defined]
    assert store.names == [f"echo-{found.digest}"]


def test_without_a_home_a_copy_is_temporary(folder: Path) -> None:
    """Where nothing is to be stored, the copy is private, and goes when it is released or forgotten."""
    copy = AgreedCopies().copy_extension(found_in(folder))
    path = copy.path
    assert (path / "lib/a.py").read_text() == "good"
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    copy.release()
    copy.release()
    assert not path.exists()
    other = AgreedCopies().copy_extension(found_in(folder)).path
    assert not other.exists()


def test_a_pinned_program_is_copied_while_it_is_hashed(tmp_path: Path, store: Store) -> None:
    """What is compared with the pin is what will run; another program, or an altered copy of it, is not used."""
    program = tmp_path / "tool"
    program.write_bytes(b"good")
    digest = hashlib.sha256(b"good").hexdigest()
    first = store.copies.copy_program(str(program), digest)
    (first.path / "tool").chmod(0o700)
    (first.path / "tool").write_bytes(b"evil")
    second = store.copies.copy_program(str(program), digest)
    assert (second.path / "tool").read_bytes() == b"good"
    program.write_bytes(b"evil")
    with pytest.raises(NotAgreed, match="is not the pinned program"):
        store.copies.copy_program(str(program), digest)
    assert (second.path / "tool").read_bytes() == b"good"


def test_the_copy_of_a_pinned_program_stays_with_its_extension(tmp_path: Path, folder: Path, store: Store) -> None:
    """A pinned program is copied once, and its copy goes when nobody agrees to an extension that pins it any more."""
    program = tmp_path / "tool"
    program.write_bytes(b"good")
    pin = hashlib.sha256(b"good").hexdigest()
    (folder / "extension.toml").write_text(f'{MANIFEST}sha256 = "{pin.upper()}"\n')
    found = store.agree(folder)
    copies = [store.copies.copy_extension(found), store.copies.copy_program(str(program), pin)]
    for copy in copies:
        copy.release()
    store.copies.remove_unused()
    assert store.names == sorted([f"echo-{found.digest}", f"program-{pin}"])
    (store.folder / f"echo-{found.digest}/extension.toml").chmod(0o600)
    (store.folder / f"echo-{found.digest}/extension.toml").write_text("not a manifest")
    store.copies.remove_unused()
    assert store.names == [f"echo-{found.digest}"]
    store.agreed.clear()
    store.copies.remove_unused()
    assert store.names == []
