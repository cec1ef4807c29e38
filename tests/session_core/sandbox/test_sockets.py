"""Sockets of other programs: all of them are hidden, or nothing is run."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from session_core.sandbox import plan as planning
from session_core.sandbox.plan import CannotConfine, SocketsUnknown, open_sockets, plan_sandbox, socket_paths
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


def test_too_many_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More sockets than can be hidden are no reason to leave some open: then there is no sandbox, and that is said."""
    many = tuple(f"/srv/{number}.sock" for number in range(planning.MAX_SOCKETS))
    covered = tuple(f"/tmp/{number}.sock" for number in range(500))
    monkeypatch.setattr(planning, "open_sockets", lambda: (*many, *covered))
    plan = plan_sandbox(str(tmp_path), user_home="/nobody", environment={})
    assert set(many) <= set(plan.hidden_files)
    monkeypatch.setattr(planning, "open_sockets", lambda: (*many, "/srv/one-more.sock", *covered))
    with pytest.raises(CannotConfine, match="listen on 1001 sockets, and only 1000 can be hidden"):
        plan_sandbox(str(tmp_path), user_home="/nobody", environment={})


def test_sockets_that_nobody_can_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system does not tell which sockets there are, nothing is said to be confined."""

    def fail() -> tuple[str, ...]:
        raise SocketsUnknown(13, "the system does not list the open sockets")

    monkeypatch.setattr(planning, "open_sockets", fail)
    with pytest.raises(CannotConfine, match="does not list"):
        plan_sandbox(str(tmp_path), user_home="/nobody", environment={})
