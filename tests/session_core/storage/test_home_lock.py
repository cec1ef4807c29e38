"""One process at a time may write to a home."""

import errno
import fcntl
import json
import os
import re
import sys
from pathlib import Path
from typing import cast

import attrs
import pytest
import trio

from session_core.errors import StoreInUse, StoreUnusable
from session_core.storage import home_lock as home_module
from session_core.storage.home import prepare_home
from session_core.storage.home_lock import HomeLock, LockHolder, lock_holder
from session_core.storage.private_files import private_open
from tests.session_core.storage._homes import HOLD, child, mode_of, open_descriptors

UNKNOWN = LockHolder(pid=0, program="", since=0, host="")
IN_USE_BY_SOMEBODY = "this home is in use by another process; wait for it, or stop it"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return prepare_home(tmp_path / "home")


def test_two_locks_in_one_process_conflict(home: Path) -> None:
    """A second lock is refused until the first is released, and releasing twice does not release the next one."""
    first = HomeLock.acquire(home)
    with pytest.raises(StoreInUse, match=f"by process {os.getpid()} ") as refused:
        HomeLock.acquire(home)
    assert "store_in_use" == refused.value.code
    first.release()
    second = HomeLock.acquire(home)
    first.release()
    with pytest.raises(StoreInUse):
        HomeLock.acquire(home)
    second.release()


def test_a_released_lock_is_free_at_once(home: Path) -> None:
    """A copy of the descriptor, as a child has between fork and exec, does not keep a released lock."""
    lock = HomeLock.acquire(home)
    assert lock._descriptor is not None
    copy = os.dup(lock._descriptor)
    lock.release()
    assert lock_holder(home) is None
    assert lock not in home_module._held
    os.close(copy)


def test_the_holder_is_known_while_it_holds(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`lock_holder` tells who holds the lock and since when, and nobody before, after, or without a home."""
    monkeypatch.setattr(home_module, "now_ms", lambda: 1_700_000_000_000)
    monkeypatch.setattr(sys, "argv", ["/usr/bin/session-core", "serve"])
    before = open_descriptors()
    assert lock_holder(home) is None
    lock = HomeLock.acquire(home)
    expected = LockHolder(
        pid=os.getpid(), program="session-core serve", since=1_700_000_000_000, host=os.uname().nodename
    )
    assert expected == lock_holder(home)
    assert 0o600 == mode_of(home / "lock")
    lock.release()
    assert lock_holder(home) is None
    assert lock_holder(home / "missing") is None
    assert before == open_descriptors()


def test_a_file_left_by_a_holder_means_nothing(home: Path) -> None:
    """A lock file that names a living process which holds no lock keeps nobody out."""
    said = {"pid": os.getppid(), "program": "x", "since": 1, "host": os.uname().nodename}
    (home / "lock").write_text(json.dumps(said), encoding="utf-8")
    assert lock_holder(home) is None
    HomeLock.acquire(home).release()


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"{",
        b"\xff\0",
        b"null",
        b"[1, 2]",
        b'{"pid": 7}',
        b'{"pid": true, "program": "x", "since": 1, "host": "elsewhere"}',
        b'{"pid": -1, "program": "x", "since": 1, "host": "elsewhere"}',
        b'{"pid": 7, "program": "x", "since": 1e400, "host": "elsewhere"}',
        b'{"pid": 7, "program": "x", "since": 99999999999999999, "host": "elsewhere"}',
        b'{"pid": 7, "program": "\\u001b[2J", "since": 1, "host": "elsewhere"}',
        b"[" * 100_000,
    ],
    ids=lambda garbage: repr(garbage[:40]),
)
def test_garbage_in_the_file_does_not_matter(home: Path, garbage: bytes) -> None:
    """Whatever the file says, a held lock is held, by another process if need be."""
    lock = HomeLock.acquire(home)
    (home / "lock").write_bytes(garbage)
    assert UNKNOWN == lock_holder(home)
    with pytest.raises(StoreInUse, match=f"^{IN_USE_BY_SOMEBODY}$"):
        HomeLock.acquire(home)
    lock.release()
    (home / "lock").write_bytes(garbage)
    HomeLock.acquire(home).release()


async def test_a_dead_process_is_never_named(home: Path) -> None:
    """A holder that has not yet written its own name is not taken for the dead one before it."""
    async with child(home, HOLD + "say(lock_holder(home).pid)\nsignal.pause()") as dead:
        pid = await dead.heard()
        await dead.kill()
    left = (home / "lock").read_bytes()
    assert pid == json.loads(left)["pid"]
    lock = HomeLock.acquire(home)
    (home / "lock").write_bytes(left)
    assert UNKNOWN == lock_holder(home)
    lock.release()


def test_a_holder_is_shown_with_what_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time stands alone on the same day, with its date otherwise, and another machine is named."""
    monkeypatch.setattr(home_module, "now_ms", lambda: 1_700_000_000_000)
    holder = LockHolder(pid=7, program="x", since=1_700_000_000_000, host=os.uname().nodename)
    assert re.fullmatch(r"process 7 \(x, since \d\d:\d\d\)", str(holder))
    before = attrs.evolve(holder, since=1_690_000_000_000, host="elsewhere")
    assert re.fullmatch(r"process 7 on elsewhere \(x, since 2023-07-2\d \d\d:\d\d\)", str(before))


@pytest.mark.parametrize(
    ("argv", "program"),
    [
        (["/opt/bin/session-core", "run", "my secret"], "session-core run"),
        (["session-core", "--token=abc"], "session-core"),
        (["session-core", "-x"], "session-core"),
        (["session-core", "tell me a secret"], "session-core"),
        (["session-core", "sk-123"], "session-core"),
        (["session-core"], "session-core"),
        (["/x/script.py", "hunter"], "script.py"),
        (["/x/package/__main__.py", "hunter"], "package"),
        (["-c", "hunter"], "python"),
        ([""], "python"),
        ([], "python"),
        (["/x/\x1b[2Jevil" + "l" * 100], "[2Jevil" + "l" * 53),
    ],
)
def test_the_program_is_named_without_its_secrets(argv: list[str], program: str) -> None:
    """A program is named by its file, and by its subcommand only where that can be nothing else."""
    assert program == home_module._describe_program(argv)


async def test_a_second_process_is_refused(home: Path) -> None:
    """A second process is told the first one's number, program and start, and nothing else of its arguments."""
    async with child(home, HOLD + "say('held')\nsignal.pause()") as first:
        assert "held" == await first.heard()
        ask = "try: HomeLock.acquire(home)\nexcept StoreInUse as error: say(error.message)"
        async with child(home, ask) as second:
            message = await second.heard()
        assert isinstance(message, str)
        shown = rf"process {first.process.pid} \(session-core run, since [-\d ]*\d\d:\d\d\)"
        assert re.fullmatch(rf"this home is in use by {shown}; wait for it, or stop it", message)
        assert b"secret" not in (home / "lock").read_bytes()


async def test_a_killed_process_holds_nothing(home: Path) -> None:
    """The lock is free the moment its holder is killed."""
    async with child(home, HOLD + "say('held')\nsignal.pause()") as first:
        assert "held" == await first.heard()
        with pytest.raises(StoreInUse):
            HomeLock.acquire(home)
        await first.kill()
        HomeLock.acquire(home).release()


@pytest.mark.parametrize(
    "start",
    [
        "subprocess.Popen(['cat'], close_fds=False)",
        "os.posix_spawnp('cat', ['cat'], os.environ)",
        "if os.fork() == 0: os.execvp('cat', ['cat'])",
        "if os.fork() == 0:\n    for line in sys.stdin: print(line, end='', flush=True)\n    os._exit(0)",
    ],
    ids=["subprocess", "spawn", "fork and exec", "fork alone"],
)
async def test_a_child_that_outlives_the_holder_holds_nothing(home: Path, start: str) -> None:
    """However a child was started, it has no part in the lock when its parent is killed."""
    async with child(home, HOLD + start + "\nsay('started')\nsignal.pause()") as holder:
        assert "started" == await holder.heard()
        await holder.tell("before")
        assert "before" == await holder.heard()
        with pytest.raises(StoreInUse):
            HomeLock.acquire(home)
        await holder.kill()
        lock = HomeLock.acquire(home)
        await holder.tell("still alive")
        assert "still alive" == await holder.heard()
        lock.release()


async def test_a_forked_child_cannot_release_the_lock(home: Path) -> None:
    """Releasing in a forked child leaves the parent's lock alone, and any thread of either can tell who has it."""
    code = """
from threading import Thread
def look(): say(lock_holder(home).pid)
def look_in_thread():
    thread = Thread(target=look, daemon=True)
    thread.start()
    thread.join(300)
if (forked := os.fork()) == 0:
    lock.release()
    look_in_thread()
    os._exit(0)
os.waitpid(forked, 0)
look_in_thread()
say("done")
signal.pause()
"""
    async with child(home, HOLD + code) as parent:
        assert parent.process.pid == await parent.heard()
        assert parent.process.pid == await parent.heard()
        assert "done" == await parent.heard()
        with pytest.raises(StoreInUse):
            HomeLock.acquire(home)


async def test_of_many_processes_one_wins(tmp_path: Path) -> None:
    """Of eight processes that want the same homes at once and look at them too, exactly one gets each."""
    rounds = 50
    homes = [prepare_home(tmp_path / str(number)) for number in range(rounds)]
    code = f"""
locks = []
def won(home):
    lock_holder(home)
    try: locks.append(HomeLock.acquire(home))
    except StoreInUse: return 0
    lock_holder(home)
    return 1
say("ready")
sys.stdin.readline()
say([won(home / str(number)) for number in range({rounds})])
sys.stdin.read()
"""
    results: list[list[int]] = []
    everybody_ready, everybody_done = trio.Event(), trio.Event()
    ready = 0

    async def contend() -> None:
        nonlocal ready
        async with child(tmp_path, code) as contender:
            assert "ready" == await contender.heard()
            ready += 1
            if ready == 8:
                everybody_ready.set()
            await everybody_ready.wait()
            await contender.tell("go")
            results.append(cast(list[int], await contender.heard()))
            if len(results) == 8:
                everybody_done.set()
            await everybody_done.wait()

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(contend)
    wins = [sum(column) for column in zip(*results, strict=True)]
    assert [1] * rounds == wins
    assert [None] * rounds == [lock_holder(each) for each in homes]


# What comes in between.


@pytest.mark.parametrize("replaced", [False, True], ids=["deleted", "replaced"])
def test_a_lock_file_that_vanishes_meanwhile(home: Path, monkeypatch: pytest.MonkeyPatch, *, replaced: bool) -> None:
    """A file deleted or replaced between opening and locking is let go, and the one of that name is locked."""
    opened: list[Path] = []

    def open_and_lose(path: Path, flags: int) -> int:
        descriptor = private_open(path, flags)
        opened.append(path)
        if len(opened) == 1:
            path.unlink()
            if replaced:
                path.touch()
        return descriptor

    monkeypatch.setattr(home_module, "private_open", open_and_lose)
    before = open_descriptors()
    lock = HomeLock.acquire(home)
    assert [home / "lock"] * 2 == opened
    with pytest.raises(StoreInUse):
        HomeLock.acquire(home)
    lock.release()
    assert before == open_descriptors()


def test_an_onlooker_is_waited_for(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who looks at the lock just now does not keep us from getting it."""
    onlooker = private_open(home / "lock", os.O_RDONLY | os.O_CREAT)
    fcntl.flock(onlooker, fcntl.LOCK_SH)
    pauses: list[None] = []

    def let_go() -> None:
        pauses.append(None)
        fcntl.flock(onlooker, fcntl.LOCK_UN)

    monkeypatch.setattr(home_module, "_pause", let_go)
    HomeLock.acquire(home).release()
    assert [None] == pauses
    os.close(onlooker)


def test_an_onlooker_that_stays_is_not_waited_for_for_ever(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An onlooker that does not let go ends in an error that says so."""
    monkeypatch.setattr(home_module, "_PATIENCE_S", 0)
    onlooker = private_open(home / "lock", os.O_RDONLY | os.O_CREAT)
    fcntl.flock(onlooker, fcntl.LOCK_SH)
    with pytest.raises(StoreInUse, match="another process keeps the lock of this home busy"):
        HomeLock.acquire(home)
    os.close(onlooker)
    HomeLock.acquire(home).release()


@pytest.mark.parametrize(
    ("function", "number", "words"),
    [
        (
            "os.open",
            errno.ENOSPC,
            "lock' cannot be opened: the disk is full; free some space, or choose another folder",
        ),
        ("os.pwrite", errno.ENOSPC, "lock' cannot be written: the disk is full"),
        ("os.pwrite", errno.EDQUOT, "quota is used up"),
        ("os.open", errno.EROFS, "is read-only; make it writable"),
        ("fcntl.flock", errno.ENOLCK, "lock' cannot be locked: its file system cannot lock files"),
        ("os.ftruncate", errno.EIO, "lock' cannot be written: Input/output error"),
    ],
)
def test_what_the_disk_refuses_is_told(
    home: Path, monkeypatch: pytest.MonkeyPatch, function: str, number: int, words: str
) -> None:
    """A disk that is full, read-only, failing or without locks is an unusable store, and leaves no lock behind."""

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    before = open_descriptors()
    with monkeypatch.context() as patched:
        patched.setattr(function, refuse)
        with pytest.raises(StoreUnusable, match=words):
            HomeLock.acquire(home)
    assert before == open_descriptors()
    HomeLock.acquire(home).release()


def test_a_home_that_is_no_directory_cannot_be_locked(tmp_path: Path) -> None:
    """A file, nothing at all, or a directory in place of the lock file are each told."""
    (tmp_path / "file").touch()
    (tmp_path / "home" / "lock").mkdir(parents=True)
    for name, words in [
        ("file", "a file is where a folder should be"),
        ("nothing", "a parent folder is missing"),
        ("home", "a folder is where a file should be"),
    ]:
        with pytest.raises(StoreUnusable, match=words):
            HomeLock.acquire(tmp_path / name)
