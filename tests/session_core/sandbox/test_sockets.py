"""Sockets of other programs: all of them are hidden or blocked, or nothing is run."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from session_core.sandbox import plan as planning
from session_core.sandbox.open_sockets import (
    MAX_SOCKETS,
    SocketsUnknown,
    TooManySockets,
    cover_sockets,
    open_sockets,
    socket_paths,
)
from session_core.sandbox.plan import CannotConfine, plan_sandbox
from tests.session_core.sandbox._place import world_base

_LONGEST_SOCKET_FOLDER = 90  # the name of a socket has 107 bytes at most
_TABLE = """Num       RefCount Protocol Flags    Type St Inode Path
0000000035725367: 00000003 00000000 00000000 0001 03 2437449
000000005ab2a078: 00000002 00000000 00010000 0001 01   627 /home/me/agent.sock
000000005ab2a079: 00000002 00000000 00010000 0001 01   628 @abstract
000000005ab2a07a: 00000002 00000000 00010000 0001 01   629 /home/me/two  blanks
000000005ab2a07b: 00000002 00000000 00010000 0001 01   630 /home/me/line
end/of it
00000000c0ffee00: 00000002 00000000 00010000 0005 01 631 relative
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that no sandbox covers."""
    folder = world_base() / f"s{os.getpid()}"
    if len(os.fsencode(folder)) > _LONGEST_SOCKET_FOLDER:
        pytest.skip("the path of the tests is too long for a socket; set SANDBOX_TEST_FOLDER to a shorter one")
    folder.mkdir(parents=True)
    yield folder
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def test_the_table_of_the_kernel() -> None:
    """Every path in the table is read, whatever characters it is made of; one odd path does not hide the others."""
    assert list(socket_paths(_TABLE)) == [
        "/home/me/agent.sock", "@abstract", "/home/me/two  blanks", "/home/me/line\nend/of it", "relative",
    ]  # fmt: skip


def test_real_sockets(folder: Path) -> None:
    """Sockets with odd names are found, and those that were made through a link are where they really are."""
    (folder / "link").symlink_to(".")
    names = ("plain", "with blanks", "with\nline end", "link/linked")
    with ExitStack() as stack:
        for name in names:
            ear = stack.enter_context(socket.socket(socket.AF_UNIX))
            ear.bind(str(folder / name))
            ear.listen()
        real = folder.resolve()
        expected = {str(real / Path(name).name) for name in names}
        assert expected <= set(open_sockets())
        plan = plan_sandbox(str(Path(__file__).parent), user_home="/nobody", environment={}, read_only=True)
        assert expected <= set(plan.hidden_files)


def _listen(monkeypatch: pytest.MonkeyPatch, *paths: str) -> None:
    monkeypatch.setattr(planning, "open_sockets", lambda: paths)


def _many(*folders: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{number}.sock" for folder in folders for number in range(MAX_SOCKETS // len(folders)))


@pytest.fixture
def srv(tmp_path: Path) -> str:
    """A folder that another user fills, beside the session's."""
    for name in ("a", "b", "root"):
        (tmp_path / "srv" / name).mkdir(parents=True)
    return str((tmp_path / "srv").resolve())


def test_as_many_sockets_as_can_be_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as there are not too many, each is hidden alone, and those in private folders do not count."""
    many = _many("/srv")
    _listen(monkeypatch, *many, *(f"/tmp/{number}.sock" for number in range(500)))
    plan = plan_sandbox(str(tmp_path), user_home="/nobody", environment={})
    assert set(many) <= set(plan.hidden_files)


def test_too_many_sockets_cover_their_folders() -> None:
    """More sockets than can be hidden one by one hide the folders around them, and no folder that is needed."""
    extra = "/srv/a/extra.sock"
    assert cover_sockets((*_many("/srv/a"), extra), ["/srv/root"], filtered=False) == ["/srv/a"]
    assert cover_sockets((*_many("/srv/a", "/srv/b"), extra), ["/srv/root"], filtered=False) == ["/srv/a", "/srv/b"]
    scattered = [f"/srv/a/{number}/s" for number in range(MAX_SOCKETS + 1)]
    assert cover_sockets(scattered, ["/srv/root"], filtered=False) == ["/srv/a"]
    shallow = ("/srv/x.sock", "/home/y.sock")
    found = cover_sockets((*_many("/srv/a"), *shallow), ["/srv/root", "/home/me"], filtered=False)
    assert found == ["/home/y.sock", "/srv/a", "/srv/x.sock"]


def test_too_many_sockets_beside_the_session() -> None:
    """Sockets whose folder the session needs are left to the filter; without it they are a reason to refuse."""
    inside = [f"/srv/root/{number}.sock" for number in range(MAX_SOCKETS + 1)]
    theirs = (*_many("/opt/a"), "/opt/x.sock")
    assert cover_sockets((*inside, *theirs), ["/srv/root"], filtered=True)[0] == "/opt"
    with pytest.raises(TooManySockets, match="listen on 1002 sockets, and only 1000 can be hidden"):
        cover_sockets((*inside, "/opt/x.sock"), ["/srv/root"], filtered=False)


def test_another_user_cannot_take_the_sandbox_away(srv: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand and five sockets of somebody else leave a plan that hides them, with unix sockets and without."""
    for name in ("PRIVATE", "_OWN"):  # the folders of tests lie in one of these
        monkeypatch.setattr(planning, name, ())
    theirs = tuple(f"{srv}/a/{number}.sock" for number in range(1_005))
    _listen(monkeypatch, *theirs)
    for sockets in (False, True):
        plan = plan_sandbox(
            f"{srv}/root", user_home="/nobody", environment={}, sockets=sockets, filter_file="/the/filter"
        )
        assert f"{srv}/a" in plan.hidden_folders


def test_a_session_full_of_sockets(srv: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where sockets can neither be hidden nor blocked, a command that may use them is refused, and no other one."""
    _listen(monkeypatch, *(f"{srv}/root/{number}.sock" for number in range(1_005)))
    plan_sandbox(f"{srv}/root", user_home="/nobody", environment={}, filter_file="/the/filter")
    for filter_file, sockets in (("/the/filter", True), (None, False)):
        with pytest.raises(CannotConfine, match="listen on 1005 sockets"):
            plan_sandbox(f"{srv}/root", user_home="/nobody", environment={}, sockets=sockets, filter_file=filter_file)


def test_sockets_that_nobody_can_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system does not tell which sockets there are, nothing is said to be confined."""

    def fail() -> tuple[str, ...]:
        raise SocketsUnknown(13, "the system does not list the open sockets")

    monkeypatch.setattr(planning, "open_sockets", fail)
    with pytest.raises(CannotConfine, match="does not list"):
        plan_sandbox(str(tmp_path), user_home="/nobody", environment={})
