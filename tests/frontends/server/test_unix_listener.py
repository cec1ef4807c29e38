"""The home's own socket."""

import os
import socket
import stat
from pathlib import Path

import pytest
import trio

import session_core as sc
from frontends.server.unix_listener import serve_unix
from frontends.shared.socket_path import short_socket_name, socket_path_of_home
from tests.frontends.server._world import World, open_world


async def _connected(path: Path) -> trio.SocketStream:
    with short_socket_name(path) as name:
        return await trio.open_unix_socket(name)


async def _greeted(path: Path) -> sc.wire.Welcome:
    async with await _connected(path) as stream, sc.wire.open_connection(stream, stream) as connection:
        return sc.wire.from_json(await connection.request("hello"), sc.wire.Welcome)


async def _serve(world: World, path: Path) -> None:
    await world.nursery.start(serve_unix, world.server, path)


async def test_the_socket_is_private(tmp_path: Path) -> None:
    """The socket can be used by its owner only, lies in a folder of its own, and is gone with the server."""
    path = socket_path_of_home(tmp_path)
    async with open_world() as world:
        await _serve(world, path)
        assert (0o600, 0o700) == tuple(stat.S_IMODE(each.stat().st_mode) for each in (path, path.parent))
        assert sc.__version__ == (await _greeted(path)).version
    assert not path.exists()


async def test_a_socket_that_was_left_is_no_obstacle(tmp_path: Path) -> None:
    """A server starts although the socket of one that was killed is still there."""
    path = socket_path_of_home(tmp_path)
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as left:
        with short_socket_name(path) as name:
            left.bind(name)
    async with open_world() as world:
        await _serve(world, path)
        await _greeted(path)


async def test_something_else_in_its_place_stays(tmp_path: Path) -> None:
    """A file in the place of the socket is not removed: the server refuses to start and names it."""
    path = socket_path_of_home(tmp_path)
    path.parent.mkdir(mode=0o700)
    path.write_text("mine")
    async with open_world() as world:
        with pytest.raises(sc.StoreUnusable, match="is not a socket"):
            await _serve(world, path)
    assert "mine" == path.read_text()


async def test_a_folder_of_others_is_closed_to_them(tmp_path: Path) -> None:
    """A folder for the socket that others could enter is made private before the socket is there."""
    path = socket_path_of_home(tmp_path)
    path.parent.mkdir()
    path.parent.chmod(0o755)
    async with open_world() as world:
        await _serve(world, path)
        assert 0o700 == stat.S_IMODE(path.parent.stat().st_mode)


async def test_programs_of_other_users_are_turned_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection of another user is closed without a word, whatever it says."""
    path = socket_path_of_home(tmp_path)
    async with open_world() as world:
        await _serve(world, path)
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        async with await _connected(path) as stream:
            assert b"" == await stream.receive_some(100)
        monkeypatch.undo()
        await _greeted(path)


async def test_a_home_with_a_long_path_has_a_socket_too(tmp_path: Path) -> None:
    """A path that is too long for the address of a socket is no obstacle to the server, nor to its clients."""
    path = socket_path_of_home(tmp_path / ("x" * 120))
    async with open_world() as world:
        await _serve(world, path)
        await _greeted(path)
