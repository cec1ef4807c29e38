"""One service in the background, and what the command line says about it and does by it."""

import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import trio

import session_core as sc
from frontends.client import open_client
from frontends.server.daemon.background import start_in_background
from frontends.server.daemon.status import ServiceReport, report_as_json
from frontends.shared import wait_for_home
from tests._needs import needs_root
from tests.frontends._kept import kept, session_core
from tests.frontends._program import Ended, interrupted_at, program
from tests.frontends.server.daemon._service import Service, begin, has_been, has_begun, runs, service_of

Said = pytest.CaptureFixture[str]
SLOWLY = "count to 1000 slowly"


def mode(path: Path) -> int:
    """Who may do what with a file."""
    return stat.S_IMODE(path.lstat().st_mode)


def test_how_it_starts(service: Service) -> None:
    """It says where it listens and its process, which leads no session, has no terminal, and works in /."""
    process = Path(f"/proc/{service.pid}")
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    parent, group, session, terminal = map(int, fields[1:5])

    assert service.started.out.startswith("serving ")
    assert f"(process {service.pid})\nand at http://127.0.0.1:" in service.started.out
    assert "; to let a browser in: session-core serve --home " in service.started.out
    assert (os.getsid(0), service.pid) != (session, session), "a session of its own, which it does not lead"
    assert session == group
    assert 0 == terminal
    assert os.getpid() != parent
    assert Path("/") == (process / "cwd").resolve()
    assert {"/dev/null"} == {str((process / "fd" / each).resolve()) for each in "012"}


def test_only_its_user_can_reach_it(service: Service) -> None:
    """Socket and log are private, in private folders."""
    private = [service.home, service.socket.parent, service.log.parent]
    assert [0o700] * 3 == [mode(each) for each in private]
    assert (0o600, 0o600) == (mode(service.socket), mode(service.log))


def test_a_second_one_is_refused(service: Service, capfd: Said) -> None:
    """Another service of the same home is not started, in the background or not; the first is named."""
    background = session_core("serve"), capfd.readouterr().err
    foreground = session_core("serve", "--foreground"), capfd.readouterr().err

    for code, said in (background, foreground):
        assert 1 == code
        assert said.startswith(f"session-core: this home already has a service: process {service.pid} (")
        assert "shutdown" in said
        assert 1 == len(said.splitlines())


def test_status(service: Service, capfd: Said) -> None:
    """`status` names the process, the address, those at work and those who watch, for people and for programs."""

    async def ask() -> list[Ended]:
        async with open_client(service.home, name="my laptop", kind="web", role="observer"):
            return [await program("status"), await program("status", "--json")]

    has_begun(service.home, "busy", SLOWLY)
    people, programs = trio.run(ask)
    assert 0 == session_core("stop", "busy")
    capfd.readouterr()

    assert (0, "") == (people.code, people.err)
    assert people.out.startswith(
        f"● A service runs for {service.home}: process {service.pid}, version {sc.__version__}\n"
    )
    assert "  address   http://127.0.0.1:" in people.out
    assert '"busy" answering\n' in people.out
    assert "  clients   my laptop (web, observer)\n" in people.out
    assert "after 15 min 0 s without clients or work" in people.out
    told = json.loads(programs.out)
    assert (True, service.pid, 1) == (told["serving"], told["status"]["pid"], told["status"]["running"])
    assert ["busy"] == [each["name"] for each in told["at_work"]]
    assert 1 == told["status"]["clients"], "without the one that asks, as in the list"
    assert [("my laptop", "web", "observer")] == [
        (each["name"], each["kind"], each["role"]) for each in told["clients"]
    ]


@pytest.mark.parametrize(
    ("idle_ms", "running", "expected"), [(900_000, 0, 1_000_000), (900_000, 1, None), (None, 0, None)]
)
def test_programs_are_told_the_same_end(idle_ms: int | None, running: int, expected: int | None) -> None:
    """`status --json` has the time of the end that people are told, where nothing else puts the end off."""
    status = sc.wire.ServiceStatus(
        version="1",
        pid=7,
        epoch=sc.Epoch("e"),
        started_at=0,
        home="/h",
        sessions=1,
        running=running,
        clients=0,
        idle_ms=idle_ms,
    )
    told = report_as_json(ServiceReport(status=status, sessions=(), clients=()), now=100_000)

    assert expected == sc.wire.from_json(told["status"], sc.wire.ServiceStatus).ends_at


def test_a_home_in_use_by_its_service(service: Service, monkeypatch: pytest.MonkeyPatch, capfd: Said) -> None:
    """A command that needs the home for itself says how to end the service that has it."""
    monkeypatch.setattr(wait_for_home, "MAX_WAIT_S", 0)

    assert 1 == session_core("store", "compact")
    first, second, _ = capfd.readouterr().err.splitlines()
    assert first.startswith(f"session-core: this home is in use by process {service.pid} (")
    assert "  that is the service of this home; to end it: session-core shutdown" == second


def test_closing_a_frontend_leaves_the_work_running(service: Service, capfd: Said) -> None:
    """A turn goes on without anybody, `stop` ends it from elsewhere, and says what it did and what there was to do."""
    has_begun(service.home, "alone", SLOWLY)
    before = kept(service.home)["alone"]
    stopped = session_core("stop", "alone"), capfd.readouterr().out
    again = session_core("stop", "alone", "--scope", "session"), capfd.readouterr().out

    assert not before.activity.is_at_rest
    assert 0 == stopped[0]
    assert stopped[1].startswith("■ ")
    assert stopped[1].endswith(' "alone" was stopped\n  ended: the turn\n')
    assert 3 == again[0]
    assert again[1].endswith(' "alone": nothing was running\n')
    assert "stopped" == kept(service.home)["alone"].activity.name


def test_stopping_the_last_used_one(service: Service, monkeypatch: pytest.MonkeyPatch, capfd: Said) -> None:
    """`stop` without an id means the last used session of this directory, as `watch` does."""
    has_begun(service.home, "the last one", SLOWLY)
    monkeypatch.chdir(service.home.parent)
    assert 0 == session_core("stop")
    assert '"the last one" was stopped' in capfd.readouterr().out


def test_changing_sessions_goes_through_it(service: Service, capfd: Said) -> None:
    """`rename`, `archive`, `restore`, `fork`, `undo` and `delete` work while the service holds the home."""
    has_been(service.home, "first", "count to 1")
    codes = [
        session_core("rename", "first", "second"),
        session_core("archive", "second"),
        session_core("restore", "second"),
        session_core("fork", "second", "--name", "third"),
        session_core("undo", "second", "--conversation-only"),
        session_core("delete", "third", "--yes"),
    ]
    said = capfd.readouterr().out

    assert [0] * 6 == codes, said
    assert {"first", "third"}.isdisjoint(kept(service.home))
    assert 'the conversation is where it was before "count to 1"' in said


def test_a_refusal_of_the_service_is_told(service: Service, capfd: Said) -> None:
    """A typed error of the service reaches the user as one line, as it does without one."""
    has_begun(service.home, "named", "count to 1")
    assert 2 == session_core("rename", "named", "x" * 5000)
    said = capfd.readouterr().err
    assert said.startswith("session-core: name ")
    assert 1 == len(said.splitlines())


def test_tokens_and_logins(service: Service, capfd: Said) -> None:
    """`--token` and `--rotate-token` print the token of the home, and `--login` a link at the service's address."""
    assert 0 == session_core("serve", "--token")
    first = capfd.readouterr().out
    assert 0 == session_core("serve", "--rotate-token")
    second = capfd.readouterr().out
    assert 0 == session_core("serve", "--token")
    third = capfd.readouterr().out
    assert 0 == session_core("serve", "--login")
    link = capfd.readouterr().out

    assert first != second == third
    assert link.startswith("http://127.0.0.1:")
    assert "/login?code=" in link
    assert second.strip() not in service.log.read_text(), "the log holds no secret"


@needs_root
def test_another_user_cannot_connect(service: Service) -> None:
    """A program of another user is kept out by the mode of the socket, and turned away if it gets past that."""
    with tempfile.TemporaryDirectory(dir=service.socket.parent) as public:
        Path(public).chmod(0o755)
        way_in = Path(public, "way-in")  # past the private folder, which has a test of its own
        os.link(service.socket, way_in)
        try:
            first = _heard_by_nobody(way_in)
            way_in.chmod(0o666)
            second = _heard_by_nobody(way_in)
        finally:
            way_in.chmod(0o600)
    assert "PermissionError" == first
    assert "b''" == second, "closed without a word"
    trio.run(_until_logged, service, "a program of another user tried to connect")


STRANGER = """
import os, socket, sys
os.chdir(sys.argv[1])  # the way there is none of its business
try:
    os.setgroups([])
    os.setresgid(65_534, 65_534, 65_534)
    os.setresuid(65_534, 65_534, 65_534)
except OSError:
    sys.exit(77)
stranger = socket.socket(socket.AF_UNIX)
stranger.settimeout(60)
try:
    stranger.connect(sys.argv[2])
    print(stranger.recv(1000))
except OSError as error:
    print(type(error).__name__)
"""


def _heard_by_nobody(path: Path) -> str:
    """Connect as another user and tell what came of it; in a process of its own, as there is no way back."""
    done = subprocess.run(  # noqa: TID251 - there is no loop here
        [sys.executable, "-c", STRANGER, path.parent, path.name],
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    if done.returncode == 77:
        pytest.skip("root may not switch users here")
    assert (0, "") == (done.returncode, done.stderr)
    return done.stdout.strip()


async def _until_logged(service: Service, words: str) -> None:
    """Wait until a thread of the service has written something to its log, and nobody tells when."""
    with trio.fail_after(300):
        while words not in service.log.read_text():  # noqa: ASYNC110 - a small file, and nothing else to do
            await trio.sleep(0.01)


@pytest.mark.slow
def test_it_refuses_to_end_while_something_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Said) -> None:
    """`shutdown` leaves a busy service alone; forced, it is gone at once, and the turn says that it was interrupted."""
    home = tmp_path / "other"
    monkeypatch.setenv("SESSION_CORE_HOME", str(home))
    with service_of(home) as busy:
        made = has_begun(home, "cut short", SLOWLY)
        pid = busy.pid
        refused = session_core("shutdown"), capfd.readouterr().err
        ended = session_core("shutdown", "--force"), capfd.readouterr().out
        nothing = session_core("shutdown"), capfd.readouterr().out
        status = session_core("status"), capfd.readouterr().out

    assert 1 == refused[0]
    assert refused[1].startswith(f"session-core: a session is at work ({made[-4:]}); stop it first, ")
    assert (0, f"the service has ended (process {pid})\n") == ended
    assert not runs(pid)
    assert not busy.socket.exists()
    assert 3 == nothing[0] == status[0]
    assert status[1].startswith(f"No service runs for {home}.\nTo start one: session-core serve")
    assert "interrupted" == kept(home)["cut short"].activity.name


async def test_a_terminated_service_ends_cleanly(tmp_path: Path) -> None:
    """SIGTERM in the foreground says goodbye, leaves no socket, and exits with 0."""
    home = tmp_path / "front"
    ended = await interrupted_at("serving ", "serve", "--foreground", "--home", str(home), number=signal.SIGTERM)
    assert (0, "") == (ended.code, ended.err.removesuffix("the service has ended\n"))
    assert [] == [each.name for each in (home / "run").iterdir() if each.suffix == ".sock"]
    assert "asked to end by SIGTERM" in (home / "logs" / "service.log").read_text()


@pytest.mark.slow
def test_watching_several_until_nothing_runs(service: Service, capfd: Said) -> None:
    """`watch` shows each session's lines under its id, and leaves with 0 when none of them runs any more."""
    number = 3
    while True:
        ids = [has_begun(service.home, f"{name} {number}", f"count to {number} slowly") for name in ("left", "right")]
        code = session_core("watch", *ids, "--until-idle")
        said = capfd.readouterr()
        if said.out.count("✓ completed in ") == 2 or number > 100:
            break
        number *= 10  # a slow machine has begun to watch when it was over

    assert (0, "") == (code, said.err)
    for session_id in ids:
        lines = [line.removeprefix(f"{session_id[-4:]} ") for line in said.out.splitlines() if session_id[-4:] in line]
        assert lines[0].startswith("Watching ")
        assert lines[-2].endswith(f" {number} Done.")
        assert lines[-1].startswith("✓ completed in ")


@pytest.mark.slow
def test_watching_all_as_json(service: Service, capfd: Said) -> None:
    """`watch --all --json` gives a snapshot and then events, one per line, that fold to what the service has."""
    number = 2
    while True:
        has_begun(service.home, name := f"jsonned {number}", f"count to {number} slowly")
        assert 0 == session_core("watch", "--all", "--json", "--until-idle")
        first, *rest = capfd.readouterr().out.splitlines()
        snapshot = sc.wire.decode(first, sc.ServiceSnapshot)
        if name in {each.name for each in snapshot.sessions if not each.activity.is_at_rest} or number > 100:
            break
        number *= 10  # a slow machine has begun to watch when it was over

    state = sc.SessionListState.from_snapshot(snapshot)
    for line in rest:
        state.apply(sc.wire.decode(line, sc.SessionEvent))
    doing = {each.name: each.activity for each in state.sessions.values()}
    assert name in {each.name for each in snapshot.sessions if not each.activity.is_at_rest}
    assert sc.Activity(name="idle") == doing[name]


@pytest.mark.slow
async def test_leaving_a_watch_leaves_the_work(service: Service) -> None:
    """Ctrl-C ends the watching with 0, and the session works on."""
    session_id = await begin(service.home, "watched", SLOWLY)
    ended = await interrupted_at(" 2 3 ", "watch", "watched")
    async with open_client(service.home) as client:
        after = (await client.load_session(session_id)).activity
        stopped = await client.request_stop(session_id)

    assert (0, "") == (ended.code, ended.err)
    assert ended.out.startswith("Watching ")
    assert ended.out.endswith("\n")
    assert "streaming" == after.name
    assert "stopped" == stopped.result


@pytest.mark.slow
async def test_a_watch_ends_with_its_service(own_home: Path) -> None:
    """When the service is shut down, those who watch are told, and leave with 1."""
    await start_in_background(own_home, ["--idle", "60"])
    await begin(own_home, "watched", SLOWLY)
    ended: list[Ended] = []

    async def watch() -> None:
        ended.append(await program("watch", "watched"))

    async with trio.open_nursery() as nursery, open_client(own_home) as client:
        async with client.follow() as feed:
            nursery.start_soon(watch)
            async for item in feed:
                if isinstance(item, sc.SessionEvent) and getattr(item.event, "name", "") == "watch":
                    break
        await client.shutdown(force=True)
    assert 1 == ended[0].code
    assert "(the service has ended)\n" in ended[0].err
