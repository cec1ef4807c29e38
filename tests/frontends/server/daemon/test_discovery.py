"""Finding the service of a home or starting it, however many do so at once and whatever was left there."""

import os
import socket
import sys
from pathlib import Path

import pytest
import trio

import session_core as sc
from frontends.client import open_client
from frontends.server.daemon import attached_client, background, discovery
from frontends.server.daemon.attached_client import connect_if_running
from frontends.server.daemon.background import NotStarted, start_in_background
from frontends.server.daemon.command import IDLE_S
from frontends.server.daemon.discovery import find_or_start, find_service
from frontends.server.daemon.runtime_paths import announce_open, log_file, run_folder, service_process
from frontends.shared.socket_path import short_socket_name, socket_path_of_home
from tests.frontends._kept import session_core
from tests.frontends._program import environment
from tests.frontends.server.daemon._service import begin, being_the_service, kill, refusing
from tests.frontends.server.http._listener import until

pytestmark = pytest.mark.usefixtures("own_home")


def test_nothing_is_found_or_made_where_nothing_runs(home: Path) -> None:
    """Looking for a service leaves no trace, not even of the home."""
    assert trio.run(find_service, home) is None
    assert not home.exists()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell a process's umask")
async def test_commands_make_files_as_the_person_does(home: Path) -> None:
    """A service has the umask of the program that started it, as a run in its own process does."""
    before = os.umask(0o027)
    try:
        await find_or_start(home)
    finally:
        os.umask(before)
    holder = service_process(home)
    assert holder is not None
    status = await trio.Path(f"/proc/{holder.pid}/status").read_text()
    assert "Umask:\t0027" in status


def starts_in_log(home: Path) -> list[str]:
    return [line for line in log_file(home).read_text().splitlines() if " starts, process " in line]


@pytest.mark.slow
async def test_a_crowd_starts_one_and_finds_the_next_after_its_death(home: Path) -> None:
    """Twenty who look at once get one service, and so do twenty more after its death, though its socket is left."""
    found: list[Path] = []
    pids: list[int] = []
    session_id = sc.SessionId("")

    async def look() -> None:
        found.append(await find_or_start(home))

    for _ in range(2):
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(look)
        holder = service_process(home)
        assert holder is not None
        pids.append(holder.pid)
        if len(pids) == 1:
            session_id = await begin(home, "cut short", "count to 1000 slowly")
            await kill(home)
            assert socket_path_of_home(home).exists(), "left behind, in nobody's way"

    await until(lambda: len(starts_in_log(home)) >= 2)  # a thread writes the log
    assert [socket_path_of_home(home)] * 40 == found
    assert 2 == len(set(pids)) == len(starts_in_log(home))
    async with open_client(home) as client:
        assert "interrupted" == (await client.load_session(session_id)).activity.name
        assert (await client.status()).idle_ms == IDLE_S * 1_000, "nobody has to remember to end it"


@pytest.mark.slow
async def test_a_crowd_of_processes_starts_one(home: Path) -> None:
    """Twenty programs that look at once, each on its own, get one and the same service."""
    code = "import sys, trio; from pathlib import Path; from frontends.server.daemon.discovery import find_or_start; "
    code += "print(trio.run(find_or_start, Path(sys.argv[1])))"
    said: list[bytes] = []

    async def look() -> None:
        done = await trio.run_process(
            [sys.executable, "-c", code, str(home)], capture_stdout=True, env=environment(), cwd="/"
        )
        said.append(done.stdout)

    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(look)
    await until(lambda: starts_in_log(home))
    assert [f"{socket_path_of_home(home)}\n".encode()] * 20 == said
    assert 1 == len(starts_in_log(home))


def test_a_start_that_fails_says_why(home: Path) -> None:
    """What is wrong with the configuration is told to whoever wanted a service, with its place, and nothing runs."""
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text('modell = "demo"\n')
    with pytest.raises(NotStarted) as refused:
        trio.run(find_or_start, home)
    assert "config.toml" in "\n".join([refused.value.message, *refused.value.details])
    assert "modell" in "\n".join([refused.value.message, *refused.value.details])
    assert service_process(home) is None


async def test_a_program_that_cannot_even_begin_is_shown(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure before the service can say anything itself is told with its last words."""
    monkeypatch.setattr(background, "_program", lambda: [sys.executable, "-c", "raise SystemExit('no luck today')"])
    with pytest.raises(NotStarted, match="the service did not start: no luck today"):
        await start_in_background(home)
    monkeypatch.setattr(background, "_program", lambda: [sys.executable, "-c", "pass"])
    with pytest.raises(NotStarted, match="did not say why"):
        await start_in_background(home)
    monkeypatch.setattr(background, "_program", lambda: [str(home / "missing")])
    with pytest.raises(NotStarted, match="No such file"):
        await start_in_background(home)


async def test_a_home_in_other_hands_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that uses the home without being a service is named; none is started beside it."""
    monkeypatch.setattr(discovery, "MAX_WAIT_S", 0.0)
    lock = sc.setup.HomeLock.acquire(sc.setup.prepare_home(home))
    try:
        with pytest.raises(sc.StoreInUse, match=rf"in use by process {os.getpid()} .* not a service"):
            await find_or_start(home)
    finally:
        lock.release()
    assert service_process(home) is None


async def test_one_that_ends_is_waited_for(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service without a socket is looked at again until its process is gone, and only then there is none."""
    looks: list[sc.setup.LockHolder | None] = []
    sc.setup.prepare_home(home)
    lock = sc.setup.HomeLock.acquire(sc.setup.prepare_home(run_folder(home)))

    def look(place: Path) -> sc.setup.LockHolder | None:
        if len(looks) == 3:
            lock.release()
        looks.append(service_process(place))
        return looks[-1]

    monkeypatch.setattr(attached_client, "service_process", look)
    assert await find_service(home) is None
    assert [True, True, True, False] == [each is not None for each in looks]


async def test_one_that_hangs_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that lets nobody in is named after a while, instead of being waited for for ever."""
    monkeypatch.setattr(attached_client, "START_S", 0.0)
    with being_the_service(home), pytest.raises(sc.Disconnected, match=rf"process {os.getpid()} .* does not accept"):
        await find_service(home)


async def test_a_deleted_socket_is_told_at_once(home: Path) -> None:
    """A service whose socket somebody has deleted is named with what helps, without a wait."""
    with being_the_service(home), announce_open(home):
        with pytest.raises(sc.Disconnected, match=r"its socket was deleted; .* shutdown.* serve"):
            await find_service(home)
        with pytest.raises(sc.Disconnected, match=rf"process {os.getpid()} .* its socket was deleted"):
            async with connect_if_running(home, name="a test"):
                raise AssertionError("nobody can be let in")


def test_one_that_does_not_answer_is_told(
    home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A service that takes connections and says nothing is named by `status` and `shutdown`, with what can be done."""
    monkeypatch.setattr(attached_client, "ANSWER_S", 0.05)
    with being_the_service(home), socket.socket(socket.AF_UNIX) as listening:
        with short_socket_name(socket_path_of_home(home)) as name:
            listening.bind(name)
        listening.listen()
        codes = [session_core("status"), session_core("shutdown")]
    first, second = capfd.readouterr().err.splitlines()
    assert [1, 1] == codes
    assert f"did not answer within 0.05 seconds: process {os.getpid()} (" in first
    assert "to have its process end: session-core shutdown --force" in second


async def test_one_of_another_release_is_told(home: Path) -> None:
    """A service that speaks another contract is told as such to whoever looks for it, with what to do about it."""
    with being_the_service(home):
        async with refusing(home):
            with pytest.raises(sc.Conflict, match=r"speaks version 9 .* session-core shutdown"):
                await find_or_start(home)
            with pytest.raises(sc.Conflict, match=r"speaks version 9 .* session-core shutdown"):
                async with connect_if_running(home, name="a test"):
                    raise AssertionError("it does not let us in")


# --- attaching --------------------------------------------------------------------------------------------------------


async def test_nobody_attaches_where_nothing_runs(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a service there is no client; one that is about to end is waited for, and then there is none either."""
    async with connect_if_running(home, name="a test") as client:
        assert client is None
    looks: list[sc.setup.LockHolder | None] = []
    sc.setup.prepare_home(home)
    lock = sc.setup.HomeLock.acquire(sc.setup.prepare_home(run_folder(home)))

    def look(place: Path) -> sc.setup.LockHolder | None:
        if len(looks) == 2:
            lock.release()
        looks.append(service_process(place))
        return looks[-1]

    monkeypatch.setattr(attached_client, "service_process", look)
    async with connect_if_running(home, name="a test") as client:
        assert client is None
    assert [True, True, False] == [each is not None for each in looks]


async def test_one_that_lets_nobody_in_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that is there and does not answer is an error after a while, not a reason to do without it."""
    monkeypatch.setattr(attached_client, "START_S", 0.0)
    with being_the_service(home), pytest.raises(sc.Disconnected):
        async with connect_if_running(home, name="a test"):
            raise AssertionError("it does not let us in")
