"""What a confined program may use of the machine's memory, and where it may put it."""

import os
import resource
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from session_core.sandbox.plan import ResourceLimits, default_data_bytes
from tests._needs import needs_node, needs_program
from tests.session_core.sandbox._place import world_base
from tests.session_core.sandbox._sandbox import World, make_world

_MEBIBYTE = 1024**2


@pytest.fixture
async def world(require_sandbox: None, tmp_path_factory: pytest.TempPathFactory) -> World:
    """A project that a sandbox can see."""
    return await make_world((world_base() / "b" / f"{os.getpid()}-{tmp_path_factory.mktemp('b').name}").resolve())


@pytest.fixture(autouse=True, scope="module")
def _gone() -> Iterator[None]:
    yield
    for path in (world_base() / "b").glob(f"{os.getpid()}-*"):
        shutil.rmtree(path, ignore_errors=True)


def _python() -> str:
    system = Path("/usr/bin/python3")
    return str(system if system.exists() else Path(sys.executable).resolve())


@pytest.mark.parametrize("folder", ["/dev/shm", "/tmp", "/var/tmp"])
async def test_memory_by_files(world: World, folder: str) -> None:
    """Each folder in memory is the sandbox's own and holds no more than its size; shared memory works in it."""
    plan = attrs.evolve(world.plan(), limits=ResourceLimits(private_bytes=4 * _MEBIBYTE))
    ran = await world.run(
        f"ls -A {folder}; head -c 1M /dev/zero > {folder}/fits && echo fits;"
        f" head -c 8M /dev/zero > {folder}/more; stat -c %s {folder}/more",
        plan,
    )
    assert ran.text.startswith("fits\n")
    assert "No space left on device" in ran.text
    assert int(ran.text.split()[-1]) < 4 * _MEBIBYTE


FOLDERS_WITHOUT_A_SIZE = ("/dev", "/dev/pts", "/run", "/proc", "/sys", "/", "/root", "~", "/sys/firmware")


async def test_no_other_memory_by_files(world: World) -> None:
    """No other folder that is in memory takes a file."""
    tries = "; ".join(
        f"(head -c 1k /dev/zero > {folder}/new) 2>&- && echo {folder}" for folder in FOLDERS_WITHOUT_A_SIZE
    )
    assert (await world.run(f"{tries}; ls -A /dev > /dev/null && echo done")).text == "done\n"


async def test_the_devices_work(world: World) -> None:
    """That nothing can be put into /dev does not keep anybody from using what is there."""
    ran = await world.run("head -c 3 /dev/zero | wc -c; echo x > /dev/null; echo y > /dev/stdout; test -c /dev/urandom")
    assert (ran.code, ran.text) == (0, "3\ny\n")


async def test_memory_of_a_process(world: World) -> None:
    """A process that wants more memory than it may have is refused; it cannot raise the limit, nor can its children."""
    plan = attrs.evolve(world.plan(), limits=ResourceLimits(data_bytes=256 * _MEBIBYTE))
    hungry = f"{_python()} -c 'x = bytearray(400 << 20)'"
    ran = await world.run(f'{hungry}; (ulimit -d unlimited; {hungry}); sh -c "{hungry}"; ulimit -d', plan)
    assert ran.text.count("MemoryError") == 3
    assert ran.text.endswith(f"{256 * 1024}\n")
    assert (await world.run(f"{_python()} -c 'x = bytearray(100 << 20)' && echo fine", plan)).text == "fine\n"


async def test_lower_limits_of_the_machine(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the machine allows less than we do, a command runs with what the machine allows."""
    hard = {
        resource.RLIMIT_FSIZE: 64 * _MEBIBYTE,
        resource.RLIMIT_NOFILE: 128,
        resource.RLIMIT_NPROC: 900,
        resource.RLIMIT_DATA: 512 * _MEBIBYTE,
    }
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1, hard[which]))
    ran = await world.run("ulimit -f; ulimit -n; ulimit -u; ulimit -d")
    assert ran.text.split() == [str(64 * 1024), "128", "900", str(512 * 1024)]


def test_the_default_is_generous() -> None:
    """One process may have most of a machine's memory, and on a small machine enough for any build."""
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert default_data_bytes() == max(4 * 1024**3, installed * 3 // 4)
    assert ResourceLimits().data_bytes == default_data_bytes()


async def test_default_limits(world: World) -> None:
    """A command has 1,024 processes, 4,096 open files, files of 4 GB and a gigabyte in each private folder."""
    plan = world.plan()
    sizes = "; ".join(f"df -B1 --output=size {folder} | tail -n 1 | tr -d ' '" for folder in plan.private)
    ran = await world.run(f"ulimit -u; ulimit -n; ulimit -f; {sizes}", plan)
    kibibytes = 4 * 1024**2
    assert ran.text.split() == ["1024", "4096", str(kibibytes), *[str(1024**3)] * 3]
    assert plan.private == ("/tmp", "/var/tmp", "/dev/shm")


_SMALLEST = ResourceLimits(data_bytes=4 * 1024**3)
"""What a small machine allows; these reserve much more address space than they use."""


@pytest.mark.slow
@needs_node
async def test_node_has_room(world: World) -> None:
    """Node starts, with threads and with code of WebAssembly, which reserves gigabytes."""
    script = (
        "const { Worker } = require('worker_threads'); new WebAssembly.Memory({ initial: 1, maximum: 65536 });"
        "const w = new Worker('require(\"worker_threads\").parentPort.postMessage(1)', { eval: true });"
        "w.on('message', () => console.log('fine'));"
    )
    plan = attrs.evolve(world.plan(), limits=_SMALLEST)
    assert (await world.run(script, plan, program=("node", "-e"))).text == "fine\n"


@pytest.mark.slow
@needs_program("javac")
async def test_java_has_room(world: World) -> None:
    """Java compiles and runs with its usual heap."""
    (world.root / "A.java").write_text(
        'class A { public static void main(String[] a) { System.out.println("fine"); } }'
    )
    plan = attrs.evolve(world.plan(), limits=_SMALLEST)
    assert (await world.run("javac A.java && java A", plan)).text == "fine\n"
