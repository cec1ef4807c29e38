"""The home directory is where it should be, and private."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from session_core.errors import StoreUnusable
from session_core.storage.home import default_home, prepare_home
from session_core.storage.private_files import private_open
from tests.session_core.storage._homes import child, mode_of, open_descriptors


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return prepare_home(tmp_path / "home")


@pytest.fixture(params=[0o000, 0o022, 0o077, 0o777], ids=oct)
def any_umask(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """Set a umask; the folder of the test is asked for first, so that it is made without."""
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.fixture
def give_away(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Make a file or link somebody else's; who may not do that becomes somebody else instead."""

    def give(path: Path) -> None:
        try:
            os.chown(path, os.geteuid() + 1, -1, follow_symlinks=False)
        except OSError:  # only root may, and not everywhere
            us = os.geteuid()
            monkeypatch.setattr(os, "geteuid", lambda: us + 1)

    return give


# Where it lies.


def test_the_variable_says_where_the_home_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """SESSION_CORE_HOME is taken as it is, with ~ written out."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SESSION_CORE_HOME", "/srv/x y")
    assert Path("/srv/x y") == default_home()
    monkeypatch.setenv("SESSION_CORE_HOME", "~/data")
    assert tmp_path / "data" == default_home()


@pytest.mark.parametrize("chosen", ["data", "./data", " /srv", "~no-such-user-here/x"])
def test_a_home_that_depends_on_the_present_directory_is_refused(monkeypatch: pytest.MonkeyPatch, chosen: str) -> None:
    """A path that is not absolute is refused, and the message names the variable and the value."""
    monkeypatch.setenv("SESSION_CORE_HOME", chosen)
    with pytest.raises(StoreUnusable, match=f"^SESSION_CORE_HOME is {re.escape(repr(chosen))}, which is not an abs"):
        default_home()


@pytest.mark.parametrize("value", [None, ""])
def test_without_the_variable_the_system_decides(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str | None
) -> None:
    """Unset or empty, the variable leaves the choice to the place where the system keeps a user's data."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("SESSION_CORE_HOME", raising=False)
    if value is not None:
        monkeypatch.setenv("SESSION_CORE_HOME", value)
    found = default_home()
    assert found.is_relative_to(tmp_path)
    assert "session-core" == found.name


# That it is private.


@pytest.mark.usefixtures("any_umask")
def test_a_new_home_is_private(tmp_path: Path) -> None:
    """Whatever the umask, a new home and the parents made for it have mode 0700, and older parents keep theirs."""
    tmp_path.chmod(0o755)
    made = prepare_home(tmp_path / "a" / "b" / "home")
    assert tmp_path / "a" / "b" / "home" == made
    assert [0o700] * 3 == [mode_of(path) for path in (made, made.parent, made.parent.parent)]
    assert 0o755 == mode_of(tmp_path)
    (made / "file").touch()
    assert made == prepare_home(made)


@pytest.mark.parametrize(("before", "after"), [(0o755, 0o700), (0o710, 0o700), (0o701, 0o700), (0o550, 0o500)])
def test_an_open_home_is_closed_to_others(tmp_path: Path, before: int, after: int) -> None:
    """A home others may enter is closed to them, and the owner is given no right he had taken from himself."""
    tmp_path.chmod(before)
    assert tmp_path == prepare_home(tmp_path)
    assert after == mode_of(tmp_path)
    tmp_path.chmod(0o700)


def test_a_shared_directory_is_not_closed_to_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A sticky directory, the user's own one and those around it are refused and keep their modes."""
    sticky, user = tmp_path / "tmp", tmp_path / "homes" / "me"
    for path in (sticky, user):
        path.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(user))
    for path, mode in ((sticky, 0o1777), (user, 0o755), (user.parent, 0o755)):
        path.chmod(mode)
        with pytest.raises(StoreUnusable, match="contains more than sessions"):
            prepare_home(path)
        assert mode == mode_of(path)


def test_a_relative_home_becomes_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The path that comes back stays right when the process changes its directory."""
    monkeypatch.chdir(tmp_path)
    assert tmp_path / "x" == prepare_home(Path("x"))


@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_a_home_of_somebody_else_is_refused(home: Path, give_away: Callable[[Path], None], mode: int) -> None:
    """The message says whose it is and how to choose another, and the directory stays as it was."""
    home.chmod(mode)
    give_away(home)
    with pytest.raises(StoreUnusable, match=r"belongs to user .*, but you are user .*SESSION_CORE_HOME"):
        prepare_home(home)
    assert mode == mode_of(home)


def test_what_is_no_directory_is_refused(tmp_path: Path) -> None:
    """A file in place of the home or of a parent, an impossible name and a circle of links are each told."""
    (tmp_path / "file").touch()
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for path, words in [
        (tmp_path / "file", "is not a folder; move it away"),
        (tmp_path / "file" / "home", "a file is where a folder should be"),
        (tmp_path / "nul\0", "null"),
        (tmp_path / ("x" * 300), "File name too long"),
        (tmp_path / "circle", "loop"),
    ]:
        with pytest.raises(StoreUnusable, match=words):
            prepare_home(path)


def test_a_link_of_ours_is_followed(tmp_path: Path, home: Path) -> None:
    """A home moved elsewhere and linked is the home it leads to, under its true name and just as private."""
    home.chmod(0o755)
    (tmp_path / "link").symlink_to(home)
    assert home.resolve() == prepare_home(tmp_path / "link")
    assert 0o700 == mode_of(home)


def test_a_link_to_nowhere_is_refused(tmp_path: Path) -> None:
    """Nothing is made behind a link that leads nowhere, for a disk may just not be mounted."""
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    with pytest.raises(StoreUnusable, match="disk', which is missing; mount or create it"):
        prepare_home(tmp_path / "link")
    assert not (tmp_path / "disk").exists()


def test_a_link_of_somebody_else_is_refused(tmp_path: Path, home: Path, give_away: Callable[[Path], None]) -> None:
    """Nobody else may lead us to a directory, even one of ours."""
    (tmp_path / "link").symlink_to(home)
    give_away(tmp_path / "link")
    # Who may give it away is not its maker any more, nor is anybody else now.
    with pytest.raises(StoreUnusable, match="is a link that another user made"):
        prepare_home(tmp_path / "link")


# File modes do not stop root, and a process that drops its privileges cannot get them back. So a child process drops
# them, and then file modes apply to it.
WITHOUT_PERMISSION = """
import ctypes
from session_core.errors import StoreUnusable
from session_core.storage.home import prepare_home
if os.geteuid() == 0:
    version_and_pid, nothing = (0x20080522).to_bytes(4, sys.byteorder) + bytes(4), bytes(24)
    assert 0 == ctypes.CDLL(None).capset(version_and_pid, nothing)
def refusal(function, *arguments):
    try:
        function(*arguments)
    except StoreUnusable as error:
        return error.message
say(refusal(prepare_home, home / "home"))
say(str(prepare_home(home)))
say(refusal(HomeLock.acquire, home))
say(lock_holder(home))
"""


async def test_a_place_without_permission_is_told(tmp_path: Path) -> None:
    """A home that cannot be made, and a lock that cannot be made in a read-only home, are unusable stores."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    async with child(closed, WITHOUT_PERMISSION) as it:
        unusable, itself, unlocked, holder = [await it.heard() for _ in range(4)]
    assert "home' cannot be used: permission is denied; check the owner and the mode" in str(unusable)
    assert str(closed) == itself
    assert "lock' cannot be opened: permission is denied" in str(unlocked)
    assert holder is None
    assert [] == list(closed.iterdir())


# Files in it.


@pytest.mark.usefixtures("any_umask")
def test_a_new_file_is_private(home: Path) -> None:
    """Whatever the umask, a new file has mode 0600, and its descriptor blocks and is not inherited."""
    descriptor = private_open(home / "file", os.O_RDWR | os.O_CREAT | os.O_EXCL)
    try:
        assert 0o600 == mode_of(home / "file")
        assert not os.get_inheritable(descriptor)
        assert os.get_blocking(descriptor)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    ("flags", "before", "after"),
    [(os.O_RDWR, 0o644, 0o600), (os.O_RDONLY, 0o444, 0o400), (os.O_RDWR | os.O_CREAT, 0o666, 0o600)],
)
def test_an_open_file_is_closed_to_others(home: Path, flags: int, before: int, after: int) -> None:
    """A file others may read is closed to them and keeps its content."""
    path = home / "file"
    path.write_bytes(b"kept")
    path.chmod(before)
    os.close(private_open(path, flags))
    assert after == mode_of(path)
    assert b"kept" == path.read_bytes()


def test_a_file_is_emptied_only_if_it_is_ours(home: Path, give_away: Callable[[Path], None]) -> None:
    """O_TRUNC empties a file of ours, and one of somebody else is refused with its content untouched."""
    path = home / "file"
    path.write_bytes(b"old")
    os.close(private_open(path, os.O_WRONLY | os.O_TRUNC))
    assert b"" == path.read_bytes()
    path.write_bytes(b"theirs")
    give_away(path)
    with pytest.raises(StoreUnusable, match=r"^the file .* belongs to user"):
        private_open(path, os.O_WRONLY | os.O_TRUNC)
    assert b"theirs" == path.read_bytes()


def test_what_is_no_file_is_refused(home: Path) -> None:
    """Links, pipes and directories are refused without hanging or leaving a descriptor open."""
    (home / "link").symlink_to(home / "target")
    os.mkfifo(home / "pipe")
    (home / "folder").mkdir()
    before = open_descriptors()
    for name, flags, words in [
        ("link", os.O_RDWR | os.O_CREAT, "there is a link where a file or folder is expected"),
        ("pipe", os.O_RDONLY, "is not an ordinary file"),
        ("pipe", os.O_WRONLY, "is not an ordinary file"),
        ("folder", os.O_RDONLY, "is not an ordinary file"),
        ("folder", os.O_RDWR | os.O_CREAT, "a folder is where a file should be"),
    ]:
        with pytest.raises(StoreUnusable, match=words):
            private_open(home / name, flags)
    assert before == open_descriptors()
    assert not (home / "target").exists()
