"""Attempts to break out of a real sandbox; each of them must fail."""

import atexit
import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path

import attrs
import pytest
import trio

from session_core.sandbox.bubblewrap import sandbox_argv
from session_core.sandbox.plan import ResourceLimits, SandboxPlan, plan_sandbox
from tests._mostly_slow import mostly_slow
from tests.session_core.sandbox._place import world_base
from tests.session_core.sandbox._sandbox import CANARY, World, make_world, open_argv

_LONGEST_BASE = 50
"""A socket has a path of 107 bytes at the most, and the worlds of the tests lie some folders deeper."""
_CALL = "import ctypes,os; c=ctypes.CDLL(None,use_errno=True); r=c.{}; print(r, ctypes.get_errno()); exit(r != -1)"


@pytest.fixture
def room_for_sockets() -> None:
    """Skip the test where the kernel takes no path that long for a socket."""
    if len(str(world_base().resolve())) > _LONGEST_BASE:
        pytest.skip("the path of the tests is too long for a socket; set SANDBOX_TEST_FOLDER to a shorter one")


@pytest.fixture
async def world(require_sandbox: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[World]:
    """A home outside of /tmp, so that it is not hidden by the private /tmp already."""
    base = world_base()
    place = base / "sandbox" / f"{os.getpid()}-{tmp_path_factory.mktemp('w').name}"
    place.mkdir(parents=True)
    try:
        yield await make_world(place.resolve())
    finally:
        # Another test's sandbox may be about to be mounted over a socket in here: it must not vanish just now.
        if any(path.is_socket() for path in place.rglob("*.sock")):
            atexit.register(shutil.rmtree, place, ignore_errors=True)
        else:
            shutil.rmtree(place)


def _state(world: World) -> dict[str, bytes]:
    """Everything around and in the project that must stay as it is."""
    return {
        str(path.relative_to(world.base)): path.read_bytes() if path.is_file() else b"folder"
        for path in world.base.rglob("*")
        if "work" not in path.relative_to(world.base).parts
    }


# Each of them succeeds (ends with 0) only if it got through.
WRITES = {
    "hook": "echo evil > .git/hooks/pre-commit",
    "git config": "echo evil >> .git/config",
    "git commondir": "echo ../evil > .git/commondir",
    "present protected file": "echo evil > .envrc",
    "remove protected file": "rm -f .envrc",
    "rename protected file": "mv .envrc other",
    "rename over protected file": "cp file work/x; mv work/x .envrc",
    "hard link to protected file": "ln .envrc work/link",
    "rename folder of hooks": "mv .git work/old",
    "missing folder renamed": "mv .vscode work/v",
    "missing folder removed": "rmdir .vscode",
    "missing folder made by link": "ln -sfn work .cursor/x",
    "outside the root": "echo evil > ../notes",
    "new file outside": "echo evil > ../new",
    "shell start file": "echo evil >> ~/.bashrc",
    "through a link": "ln -s ../../notes work/notes; echo evil > work/notes",
    "through dot dot": "cd work/../..; echo evil > notes",
    "through proc root": "echo evil > /proc/1/root$PWD/../notes",
    "through proc cwd": "echo evil > /proc/self/cwd/.git/config",
    "root moved": "mv ../project ../other",
    "etc": "echo evil > /etc/evil",
    "usr": "touch /usr/bin/evil",
    "remount": "mount -o remount,rw /",
    "remount root of project": "mount -o remount,rw,bind $PWD/.git",
    "unmount of a mask": "umount $PWD/.vscode || umount -l ~/.ssh",
    "new mount": "mount -t tmpfs none work",
    "user namespace": "unshare -Ur true",
    "mount namespace": "unshare -m true",
    "nested sandbox": "bwrap --bind / / true",
    "chroot": "chroot / true",
    "kernel settings": "exec 3<> /proc/sys/kernel/core_pattern",
    "kernel trigger": "exec 3> /proc/sysrq-trigger",
    "own score": "exec 3> /proc/1/oom_score_adj",
    "sys": "exec 3> /sys/kernel/uevent_seqnum || exec 3> /sys/power/state || mkdir /sys/fs/cgroup/evil",
    "cgroup": "mkdir /sys/fs/cgroup/evil || mkdir /sys/fs/cgroup/pids/evil",
    "device": "mknod work/disk b 8 0",
    "disk": "ls /dev/sda /dev/vda /dev/nvme0n1 /dev/mem /dev/kmsg 2>/dev/null | grep .",
    "set uid": "cp /bin/sh work/sh; chmod 4755 work/sh; chown 1234 work/sh",
    "change of limits": "ulimit -c unlimited || ulimit -u 999999 || ulimit -n 999999",
    "cores": "test $(ulimit -c) != 0",
    "big file": "dd if=/dev/zero of=work/big bs=1M count=3 2>/dev/null",
    "capabilities": "grep -qE 'Cap(Eff|Prm|Bnd|Amb):.*[1-9a-f]' /proc/self/status",
    "new privileges": "grep -q 'NoNewPrivs:.0' /proc/self/status",
    "no filter": "grep -q 'Seccomp:.0' /proc/self/status",
}
READS = {
    "ssh key": "cat ~/.ssh/id_ed25519",
    "cloud key": "cat ~/.aws/credentials",
    "hub token": "cat ~/.config/gh/hosts.yml",
    "netrc": "cat ~/.netrc",
    "docker": "cat ~/.docker/config.json",
    "token of the service": "cat ~/.local/service/token",
    "key through proc": "cat /proc/1/root$HOME/.ssh/id_ed25519 /proc/self/root$HOME/.netrc",
    "key through a link": "ln -s ~/.ssh work/s; cat work/s/id_ed25519",
    "all of the home": "grep -r canary ~",
    "own environment": "env",
    "environment of all processes": "cat /proc/[0-9]*/environ | tr '\\0' '\\n'",
    "memory of the parent": "cat /proc/1/mem | head -c 1000; cat /proc/1/cmdline",
    "filter file by descriptor": "ls -l /proc/1/fd /proc/self/fd | grep -E 'service|filter|bpf' && echo canary-7f3a9",
    "kernel log": "dmesg && echo canary-7f3a9",
}
CALLS = {
    "ptrace": "ptrace(0,0,0,0)",
    "process_vm_readv": "syscall(310,1,0,0,0,0,0)",
    "io_uring": "syscall(425,1,0)",
    "keyctl": "syscall(250,0,-3,0)",
    "bpf": "syscall(321,0,0,0)",
    "perf": "syscall(298,0,0,0,0,0)",
    "userfaultfd": "syscall(323,0)",
    "setns": "setns(0,0)",
    "unshare": "unshare(0x10000000)",
    "mount": "mount(b'none',b'/tmp',b'tmpfs',0,0)",
    "open_by_handle_at": "syscall(304,0,0,0)",
    "type into the terminal": "ioctl(0,0x5412,b'x')",
    "type by console": "ioctl(0,0x541C,b'x')",
    "socket to the host of the machine": "socket(40,1,0)",
    "socket of packets": "socket(17,3,0)",
    "raw socket": "socket(2,3,1)",
    "other call numbers": "syscall(0x40000000+39)",
}


async def test_honest_work(world: World) -> None:
    """What a program should be able to do, it can: work in the root, use /tmp, start others, read the system."""
    (world.root / "work").mkdir()
    ran = await world.run(
        "set -e; echo new > file; mkdir -p a/b; echo x > a/b/c; echo y > /tmp/t; cat /tmp/t ~/.gitconfig;"
        " ls /usr > /dev/null; sleep 0 & wait; git init -q work && (cd work && git status --short); echo fine"
    )
    assert (ran.code, ran.text) == (0, "y\n[user]\n\tname = me\nfine\n")
    assert (world.root / "file").read_text() == "new\n"
    assert (world.root / "a/b/c").read_text() == "x\n"
    assert not list(world.root.glob(".vscode"))


@pytest.mark.parametrize("name", mostly_slow(WRITES, quick=20))
async def test_writes(world: World, name: str) -> None:
    """The attempt fails, and everything that must stay is as it was."""
    (world.root / "work").mkdir()
    plan = attrs.evolve(world.plan(), limits=ResourceLimits(file_bytes=2 * 1024**2, open_files=200, processes=100))
    before = _state(world)
    ran = await world.run(f"{{ {WRITES[name]}; }} 2>&1; exit $?", plan)
    assert ran.code not in {0, 126, 127}, ran
    assert _state(world) == before


@pytest.mark.parametrize("name", READS)
async def test_reads(world: World, name: str) -> None:
    """No secret comes out."""
    (world.root / "work").mkdir()
    ran = await world.run(f"echo started; {READS[name]}")
    assert ran.text.startswith("started\n"), ran
    assert CANARY not in ran.text


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers of the calls are those of x86_64")
async def test_calls(world: World, name: str) -> None:
    """The system call is refused."""
    ran = await world.run(_CALL.format(CALLS[name]), program=(_python(), "-c"))
    result, number = ran.text.split()
    assert (ran.code, result) == (0, "-1")
    assert int(number) in {1, 38, 97}, ran  # EPERM, ENOSYS, EAFNOSUPPORT


def _python() -> str:
    """A Python outside of any folder that a sandbox hides."""
    system = Path("/usr/bin/python3")
    return str(system if system.exists() else Path(sys.executable).resolve())


COVERED = [folder for folder in ("/run", "/var/lib/docker", "/var/lib/containerd") if Path(folder).is_dir()]


async def test_rest_of_the_disk(world: World) -> None:
    """The system can be read; `/run` and the folders of container engines look empty."""
    listed = "; ".join(f"ls -A {folder} && echo {folder}" for folder in COVERED)
    ran = await world.run(f"head -c 1 /etc/passwd > /dev/null && ls /usr > /dev/null && echo read; {listed}")
    assert ran.text.split() == ["read", *COVERED]


async def test_network(world: World) -> None:
    """A listener of the host is out of reach by any name, unless the plan shares the network."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        script = f"exec 3<>/dev/tcp/127.0.0.1/{port}"
        assert (await world.run(script)).code != 0
        assert (await world.run(script, world.plan(network=True))).code == 0


@pytest.mark.parametrize("place", ["user/agent.sock", "user/project/work/app.sock", "user/.local/service/s.sock"])
async def test_unix_sockets(room_for_sockets: None, world: World, place: str) -> None:
    """Sockets on which programs of the host listen cannot be reached, wherever in the file system they are."""
    (world.root / "work").mkdir()
    path = world.base / place
    connect = (
        f"import socket,os; os.chdir({str(path.parent)!r}); s = socket.socket(socket.AF_UNIX);"
        f" s.connect({path.name!r}); print('got through')"
    )
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        outside = await trio.run_process([_python(), "-c", connect], capture_stdout=True)
        assert outside.stdout == b"got through\n"
        for sockets in (False, True):  # the second layer holds alone as well
            ran = await world.run(connect, world.plan(sockets=sockets), program=(_python(), "-c"))
            assert ran.code == 1
            assert "got through" not in ran.text


def test_sockets_of_a_project_in_a_private_folder() -> None:
    """A project beneath /tmp is shown although /tmp is not, and a socket in it is hidden like any other."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, socket.socket(socket.AF_UNIX) as server:
        path = str(Path(folder).resolve() / "ear.sock")
        server.bind(path)
        server.listen()
        plan = plan_sandbox(folder, user_home=str(Path.home()), environment={})
        elsewhere = plan_sandbox(str(Path.cwd()), user_home=str(Path.home()), environment={})
    assert path in plan.hidden_files
    assert path not in elsewhere.hidden_files, "there it is hidden already"


async def test_abstract_sockets(world: World) -> None:
    """A socket without a file, such as that of a desktop, cannot be reached."""
    name = f"\0session-core-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        connect = f"import socket; socket.socket(socket.AF_UNIX).connect({name!r})"
        for sockets, error in ((False, "PermissionError"), (True, "ConnectionRefused")):
            ran = await world.run(connect, world.plan(sockets=sockets), program=(_python(), "-c"))
            assert ran.code != 0
            assert error in ran.text


async def test_private_tmp(world: World) -> None:
    """What a program writes to /tmp is not seen outside, and what is there outside is not seen by it."""
    outside = trio.Path(f"/tmp/session-core-{os.getpid()}")
    made = outside.with_suffix(".new")
    await outside.write_text(CANARY)
    try:
        ran = await world.run(f"cat {outside}; echo mine > {outside}; echo mine > {made}; ls {made}")
        assert CANARY not in ran.text
        assert ran.code == 0
        assert await outside.read_text() == CANARY
        assert not await made.exists()
    finally:
        Path(outside).unlink()  # noqa: ASYNC240 - must happen even when the test is cancelled


async def test_other_processes(world: World) -> None:
    """Processes of the host are neither seen nor reached by signals, the parent included."""
    async with trio.open_nursery() as nursery:
        canary = await nursery.start(trio.run_process, ["sleep", "1000"])
        try:
            ran = await world.run(
                f"ls /proc | grep -x {canary.pid} && echo seen; kill -9 {canary.pid} {os.getpid()} && echo killed;"
                " kill -0 $PPID && echo 'own first process'; ps -e 2>/dev/null | grep -c pytest"
            )
            assert "seen" not in ran.text
            assert "killed" not in ran.text
            assert canary.poll() is None
        finally:
            nursery.cancel_scope.cancel()


async def test_nothing_survives(world: World) -> None:
    """A process that left its session and its parent dies with the sandbox, also when that is killed."""
    (world.root / "work").mkdir()
    script = (
        "setsid sh -c 'echo $$ > work/started; while :; do echo x >> work/alive; sleep 0.01; done' > /dev/null 2>&1 &"
    )
    await world.run(f"{script} while [ ! -s work/alive ]; do sleep 0.01; done")
    await _assert_quiet(world)
    (world.root / "work/alive").unlink(missing_ok=True)
    plan = world.plan()
    argv = sandbox_argv(["sh", "-c", f"{script} sleep 1000"], plan, world.bubblewrap)
    with open_argv(argv, world.bubblewrap) as (words, opened):
        process = await trio.lowlevel.open_process(words, stdin=subprocess.DEVNULL, pass_fds=opened)
        with trio.fail_after(300):
            while not (world.root / "work/alive").exists():  # noqa: ASYNC110 - nobody tells us
                await trio.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()
        await _assert_quiet(world)


async def _assert_quiet(world: World) -> None:
    """Wait until nothing in the project's folder is being written to any more."""
    with trio.fail_after(300):
        while _users_of(str(world.root)):  # noqa: ASYNC110 - nobody tells us of the end of processes that are not ours
            await trio.sleep(0.01)


def _users_of(folder: str) -> list[str]:
    users = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):  # it ends while we look
            if entry.name.isdigit() and b"work/alive" in (entry / "cmdline").read_bytes():
                if str((entry / "cwd").readlink()) == folder:
                    users.append(entry.name)
    return users


async def test_many_processes(world: World) -> None:
    """A program that starts processes without end is stopped by its limit."""
    bomb = (
        "import os, signal\nn = 0\ntry:\n  while n < 400:\n    if os.fork() == 0: signal.pause()\n    n += 1\n"
        "except OSError as error: print(error.errno, end=' ')\nprint(n, flush=True)\nos.kill(-1, 9)"
    )
    plan = SandboxPlan(cwd="/", limits=ResourceLimits(processes=40), environment=(("PATH", "/usr/bin"),))
    nobody = 65_534 if os.geteuid() == 0 else None  # the limit does not bind root
    with trio.fail_after(300):
        done = await trio.run_process(
            sandbox_argv([_python(), "-c", bomb], plan, world.bubblewrap),
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            user=nobody,
            group=nobody,
            extra_groups=None if nobody is None else [],
        )
    number, count = done.stdout.decode().split()
    assert int(number) == errno.EAGAIN
    assert 0 < int(count) < 40


async def test_full_private_folder(world: World) -> None:
    """A program cannot fill the memory of the host through its /tmp."""
    plan = attrs.evolve(world.plan(), limits=ResourceLimits(private_bytes=1024**2))
    ran = await world.run("dd if=/dev/zero of=/tmp/big bs=64k count=64", plan)
    assert ran.code != 0
    assert "No space left" in ran.text


async def test_read_only(world: World) -> None:
    """A read-only plan lets a program read the project and change nothing in it."""
    before = _state(world)
    ran = await world.run(
        "cat file; echo new > file; touch new; rm file; touch /tmp/x && echo ok", world.plan(read_only=True)
    )
    assert ran.text.startswith("old")
    assert ran.text.endswith("ok\n")
    assert _state(world) == before


async def test_swap_of_a_folder_meanwhile(world: World) -> None:
    """A program that swaps folders for links while the next sandbox is started gains nothing by it."""
    (world.root / "work").mkdir()
    script = (
        "for i in $(seq 40); do rm -rf .vscode .idea; ln -s work .vscode; ln -s work .idea; mv .git work/g;"
        " ln -sfn work .git; done; true"
    )
    before = _state(world)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.run, script)
        for _ in range(3):
            await world.run("echo evil > .vscode/settings.json; echo evil > .git/hooks/x; ls -la work")
    assert _state(world) == before
