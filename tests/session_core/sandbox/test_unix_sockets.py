"""Unix sockets in a real sandbox: no name leads to those of other programs, and what ordinary programs need works."""

import atexit
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import trio

from session_core.processes.child import Launch
from session_core.processes.run import run_in_group
from session_core.sandbox.landlock import has_landlock_scopes
from tests._needs import needs, needs_node, needs_program, needs_sandbox
from tests.session_core.sandbox._place import world_base
from tests.session_core.sandbox._sandbox import World, make_world

pytestmark = needs_sandbox
_CONNECT = "import socket; s = socket.socket(socket.AF_UNIX, socket.{kind}); s.connect({name!r}); print('got through')"
_OWN_NETWORK = ("unshare", "--net", "--map-root-user")
needs_own_network = needs(
    None
    if subprocess.run([*_OWN_NETWORK, "true"], capture_output=True, check=False).returncode == 0  # noqa: TID251 - once
    else "no network namespace can be made here"
)
needs_scopes = needs(None if has_landlock_scopes() else "this kernel cannot confine abstract sockets")


@pytest.fixture
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[World]:
    """A project whose path is short enough for sockets in it."""
    place = world_base() / "u" / f"{os.getpid()}-{tmp_path_factory.mktemp('u').name}"
    place.mkdir(parents=True)
    made = await make_world(place.resolve())
    (made.root / "w").mkdir()
    yield made
    # Another test's sandbox may be about to be mounted over a socket in here: it must not vanish just now.
    atexit.register(shutil.rmtree, place, ignore_errors=True)


def _python() -> str:
    system = Path("/usr/bin/python3")
    return str(system if system.exists() else Path(sys.executable).resolve())


async def _run_python(world: World, script: str, *, network: bool = False, sockets: bool = False) -> str:
    plan = world.plan(network=network, sockets=sockets)
    ran = await world.run(script, plan, program=(_python(), "-c"))
    return ran.text


def _listen(name: str, kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket:
    ear = socket.socket(socket.AF_UNIX, kind)
    ear.bind(name)
    if kind is not socket.SOCK_DGRAM:
        ear.listen()
    return ear


def _bind_by_a_relative_path(folder: Path) -> socket.socket:
    before = Path.cwd()
    os.chdir(folder)
    try:
        return _listen("ear")
    finally:
        os.chdir(before)


def _rename_it(folder: Path) -> socket.socket:
    ear = _listen(str(folder / "before"))
    (folder / "before").rename(folder / "ear")
    return ear


def _link_it(folder: Path) -> socket.socket:
    ear = _listen(str(folder / "before"))
    (folder / "ear").hardlink_to(folder / "before")
    return ear


def _move_the_folder(folder: Path) -> socket.socket:
    (folder / "inner").mkdir()
    ear = _listen(str(folder / "inner/ear"))
    (folder / "inner").rename(folder / "moved")
    (folder / "ear").symlink_to("moved/ear")
    return ear


WAYS: dict[str, tuple[str, Callable[[Path], socket.socket]]] = {
    "a relative path": ("SOCK_STREAM", _bind_by_a_relative_path),
    "renamed": ("SOCK_STREAM", _rename_it),
    "a second link": ("SOCK_STREAM", _link_it),
    "its folder renamed": ("SOCK_STREAM", _move_the_folder),
    "seqpacket": ("SOCK_SEQPACKET", lambda folder: _listen(str(folder / "ear"), socket.SOCK_SEQPACKET)),
    "datagrams": ("SOCK_DGRAM", lambda folder: _listen(str(folder / "ear"), socket.SOCK_DGRAM)),
}


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=() if number < 3 else pytest.mark.slow) for number, way in enumerate(WAYS)]
)
async def test_a_socket_that_cannot_be_hidden(world: World, way: str) -> None:
    """Whatever was done to keep a socket out of the kernel's table, a command cannot connect to it."""
    kind, make = WAYS[way]
    folder = world.root / "w"
    with make(folder):
        outside = await trio.run_process(
            [_python(), "-c", _CONNECT.format(kind=kind, name=str(folder / "ear"))], capture_stdout=True
        )
        assert outside.stdout == b"got through\n"
        said = await _run_python(world, _CONNECT.format(kind=kind, name=str(folder / "ear")))
    assert "PermissionError" in said
    assert "got through" not in said


async def test_a_socket_that_opens_after_the_start(world: World) -> None:
    """A command that runs for long cannot reach what begins to listen meanwhile."""
    script = (
        "import os, socket, time\nopen('w/ready', 'w')\nwhile not os.path.exists('w/ear'): time.sleep(0.01)\n"
        "s = socket.socket(socket.AF_UNIX); s.connect('w/ear'); print('got through')"
    )
    said: list[str] = []

    async def run() -> None:
        said.append(await _run_python(world, script))

    with trio.fail_after(300):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            while not (world.root / "w/ready").exists():  # noqa: ASYNC110 - nobody tells us
                await trio.sleep(0.01)
            ear = _listen(str(world.root / "w/ear"))
    ear.close()
    assert "PermissionError" in said[0]


@needs_own_network
async def test_a_socket_of_another_network(world: World) -> None:
    """A program in a network namespace of its own, as in a container, is not in the table, and out of reach."""
    ear = str(world.root / "w/ear")
    listen = (
        f"import socket; s = socket.socket(socket.AF_UNIX); s.bind({ear!r}); s.listen(); print(1, flush=True); input()"
    )
    async with trio.open_nursery() as nursery:
        container = await trio.lowlevel.open_process(
            [*_OWN_NETWORK, _python(), "-c", listen], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert container.stdout is not None
        with trio.fail_after(300):
            await container.stdout.receive_some()
        outside = await trio.run_process(
            [_python(), "-c", _CONNECT.format(kind="SOCK_STREAM", name=ear)], capture_stdout=True
        )
        said = await _run_python(world, _CONNECT.format(kind="SOCK_STREAM", name=ear))
        container.kill()
        await container.wait()
        nursery.cancel_scope.cancel()
    assert outside.stdout == b"got through\n"
    assert "PermissionError" in said


_ABSTRACT = """
import socket
for kind, call in (("STREAM", "connect"), ("SEQPACKET", "connect"), ("DGRAM", "connect"), ("DGRAM", "sendto")):
    try:
        end = socket.socket(socket.AF_UNIX, getattr(socket, f"SOCK_{kind}"))
        name = f"\\0NAME-{kind}"
        end.connect(name) if call == "connect" else end.sendto(b"x", name)
        print(kind, call, "got through")
    except PermissionError:
        print(kind, call, "refused")
"""
_ABSTRACT_TRIES = ("STREAM connect", "SEQPACKET connect", "DGRAM connect", "DGRAM sendto")


@contextmanager
def _abstract_listeners() -> Iterator[str]:
    """Listen under an abstract name with each kind of socket; gives the script that tries to reach them."""
    name = f"session-core-abstract-{os.getpid()}"
    script = _ABSTRACT.replace("NAME", name)
    with ExitStack() as closing:
        for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM):
            closing.enter_context(_listen(f"\0{name}-{kind.name.removeprefix('SOCK_')}", kind))
        yield script


async def test_abstract_sockets_are_real() -> None:
    """The control: outside of a sandbox each of these tries gets through."""
    with _abstract_listeners() as script:
        outside = await trio.run_process([_python(), "-c", script], capture_stdout=True)
    assert outside.stdout.decode().splitlines() == [f"{each} got through" for each in _ABSTRACT_TRIES]


async def test_abstract_sockets_with_the_network(world: World) -> None:
    """With the network a command still reaches no abstract socket of the host, such as that of a desktop."""
    with _abstract_listeners() as script:
        said = await _run_python(world, script, network=True)
    assert said.splitlines() == [f"{each} refused" for each in _ABSTRACT_TRIES]


@needs_scopes
async def test_abstract_sockets_with_every_right(world: World) -> None:
    """Even with the network and unix sockets, the kernel's second layer keeps abstract sockets of the host away."""
    plan = world.plan(network=True, sockets=True)
    with _abstract_listeners() as script:
        argv = world.argv([_python(), "-c", script], plan)
        outcome = await run_in_group(
            Launch(argv=argv, cwd="/", bubblewrap=world.bubblewrap.path), on_output=lambda _text: None
        )
    assert outcome.output.splitlines() == [f"{each} refused" for each in _ABSTRACT_TRIES]


@needs_scopes
async def test_a_confined_thread_serves_nothing_else(world: World) -> None:
    """What starts a sandbox is confined for good, so no later work of the service is done by the same thread."""
    name = f"\0session-core-thread-{os.getpid()}"
    argv = world.argv(["true"], world.plan())
    with _listen(name):
        for _ in range(3):
            await run_in_group(
                Launch(argv=argv, cwd="/", bubblewrap=world.bubblewrap.path), on_output=lambda _text: None
            )
            reached: list[bool] = []

            def connect(reached: list[bool] = reached) -> None:
                with socket.socket(socket.AF_UNIX) as mouth:
                    mouth.connect(name)
                reached.append(True)

            await trio.to_thread.run_sync(connect)
            assert reached == [True]


REFUSED = {
    "a socket": "socket.socket(socket.AF_UNIX)",
    "a datagram socket": "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)",
    "a pair of datagram sockets": "socket.socketpair(type=socket.SOCK_DGRAM)",
    "a raw pair, which unix sockets take for datagrams": "socket.socketpair(type=socket.SOCK_RAW)",
    "with flags": "socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)",
    "with more bits than a family has": "libc.syscall(41, ctypes.c_long(1 + (1 << 32)), 1, 0)",
    "with more bits than a type has": "libc.syscall(53, 1, ctypes.c_long(2 + (1 << 32)), 0, room)",
}


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers of the calls are those of x86_64")
async def test_calls_that_are_refused(world: World) -> None:
    """No call makes a unix socket that could reach another program; the right to use them allows all of these."""
    lines = ["import ctypes, socket", "libc = ctypes.CDLL(None)", "room = ctypes.create_string_buffer(8)"]
    for name, call in REFUSED.items():
        lines += ["try:", f"  print({name!r}, 'refused' if {call} == -1 else 'made')"]
        lines += ["except PermissionError:", f"  print({name!r}, 'refused')"]
    script = "\n".join(lines)
    assert (await _run_python(world, script)).splitlines() == [f"{name} refused" for name in REFUSED]
    assert (await _run_python(world, script, sockets=True)).splitlines() == [f"{name} made" for name in REFUSED]


_LEAD_ASTRAY = """
import ctypes, socket
libc = ctypes.CDLL(None)
a, b = socket.socketpair(type=socket.KIND)
a.sendall(b"x"); assert b.recv(1) == b"x"
def forget(end):
    libc.connect(end.fileno(), bytes(16), 16)
def act(end, *calls):
    for call in calls:
        try:
            call(end)
        except OSError:
            pass
def everything(end):
    act(end, lambda e: e.connect("w/ear"), lambda e: e.sendto(b"x", "w/ear"),
        lambda e: e.sendmsg([b"x"], [], 0, "w/ear"), lambda e: e.bind("w/mine"),
        lambda e: e.listen() or print("listens"), forget, lambda e: e.connect("w/ear"), lambda e: e.shutdown(2),
        forget, lambda e: e.connect("w/ear"), lambda e: e.listen() or print("listens"))
everything(a); b.close(); everything(a)
print("tried")
"""


@pytest.mark.parametrize("kind", ["SOCK_STREAM", "SOCK_SEQPACKET"])
async def test_a_pair_reaches_nothing_else(world: World, kind: str) -> None:
    """An end of a pair cannot be led to another program, whatever is called on it, nor be made to listen."""
    with _rename_it(world.root / "w") as ear:
        assert await _run_python(world, _LEAD_ASTRAY.replace("KIND", kind)) == "tried\n"
        ear.setblocking(False)
        with pytest.raises(BlockingIOError):
            ear.accept()


async def test_sockets_that_were_allowed(world: World) -> None:
    """A command with the right to unix sockets may use those of its own, and reaches what was opened for it."""
    script = (
        "import socket, threading; s = socket.socket(socket.AF_UNIX); s.bind('/tmp/own'); s.listen();"
        "c = socket.socket(socket.AF_UNIX); c.connect('/tmp/own'); print('fine')"
    )
    assert await _run_python(world, script, sockets=True) == "fine\n"


_ASYNCIO = """
import asyncio
async def main():
    process = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
    assert (await process.communicate(b"x"))[0] == b"x"
asyncio.run(main())
"""
_PAIR = 'import socket; a, b = socket.socketpair(); a.send(b"x"); assert b.recv(1) == b"x"'
WORKS = {
    "pipes": "set -o pipefail; seq 3 | tail -1 | grep -q 3",
    "subprocess": f"{_python()} -c \"import subprocess; assert subprocess.run(['true']).returncode == 0\"",
    "stream pairs": f"{_python()} -c '{_PAIR}'",
    "asyncio": f"{_python()} -c '{_ASYNCIO}'",
    "make -j": "printf 'all: a b\\na b:\\n\\t@sleep 0\\n' > w/Makefile && make -s -j4 -C w",
    "git": "git init -q w && git -C w status --short > /dev/null",
    "users by name": "id > /dev/null && getent passwd root > /dev/null",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKS)
async def test_what_needs_no_sockets(world: World, name: str) -> None:
    """Ordinary programs start others and talk to them."""
    ran = await world.run(WORKS[name])
    assert (ran.code, ran.text) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
async def test_python_processes(world: World, method: str) -> None:
    """Python's processes, queues and pools work without unix sockets of their own."""
    (world.root / "w/pool.py").write_text(
        "import multiprocessing as m\n\ndef twice(n):\n    return 2 * n\n\nif __name__ == '__main__':\n"
        f"    m.set_start_method({method!r})\n    with m.Pool(2) as pool:\n"
        "        print(sum(pool.map(twice, range(10))))\n"
    )
    assert (await world.run(f"{_python()} w/pool.py")).text == "90\n"


@needs_node
async def test_node_processes(world: World) -> None:
    """Node starts processes, and talks to its own children."""
    (world.root / "w/parent.js").write_text(
        "const { fork, execFileSync } = require('child_process');\n"
        "if (process.argv[2]) { process.on('message', (n) => { process.send(n + 1); process.disconnect(); }); }\n"
        "else { const child = fork(__filename, ['child']);\n"
        "  child.on('message', (n) => console.log(n, execFileSync('echo', ['hi']).toString().trim()));\n"
        "  child.send(1); }\n"
    )
    assert (await world.run("node w/parent.js")).text == "2 hi\n"


@pytest.mark.slow
@needs_program("perl")
async def test_perl(world: World) -> None:
    """Perl opens pipes to other programs."""
    assert (await world.run('perl -e \'open(my $p, "-|", "echo hi"); print <$p>\'')).text == "hi\n"
