"""The socket of a home can be bound and reached, however long its path is."""

import os
import socket
from pathlib import Path

import pytest

import session_core as sc
from frontends.shared import socket_path
from frontends.shared.socket_path import MAX_SOCKET_PATH, short_socket_name, socket_path_of_home


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("length", [MAX_SOCKET_PATH - 1, MAX_SOCKET_PATH, MAX_SOCKET_PATH + 1, 600])
def test_any_length(tmp_path: Path, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket is bound and connected to by names that fit, whatever the length of its path."""
    monkeypatch.chdir(tmp_path)
    home = Path("home")  # so that it can be as short as it must
    room = length - len(os.fsencode(socket_path_of_home(home)))
    while room > 200:
        home, room = home / ("x" * 99), room - 100
    home /= "y" * (room - 1)
    path = socket_path_of_home(home)
    path.parent.mkdir(parents=True)
    assert length == len(os.fsencode(path))
    before = open_files()
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as client:
        with short_socket_name(path) as name:
            listening.bind(name)
        listening.listen()
        assert path.is_socket()
        with short_socket_name(path) as name:
            assert (name == str(path)) == (length <= MAX_SOCKET_PATH)
            client.connect(name)
    assert before == open_files()


def test_no_names_for_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system has no names for opened folders, a path that is too long is refused with advice."""
    monkeypatch.setattr(socket_path, "_DESCRIPTORS", tmp_path / "none")
    with pytest.raises(sc.Unavailable, match="shorter path"), short_socket_name(tmp_path / ("x" * 200) / "s"):
        pass


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """A long path into nowhere is the error of the system."""
    with pytest.raises(FileNotFoundError), short_socket_name(tmp_path / ("x" * 200) / "s"):
        pass
