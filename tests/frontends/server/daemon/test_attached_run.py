"""`run` as a client of the service that runs, and without one; `ext reload`."""

import os
import signal
from pathlib import Path

import pytest
import trio

import session_core as sc
from frontends.client import open_client
from frontends.commands.run.attached_service import explain_config_problems
from frontends.server.daemon.runtime_paths import service_process
from frontends.shared import wait_for_home
from frontends.shared.parser import UsageError
from tests.frontends._kept import kept, session_core
from tests.frontends._program import PROGRAM, ROOT, environment, interrupted_at, program
from tests.frontends.server.daemon._service import Service

Said = pytest.CaptureFixture[str]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory to work in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "AGENTS.md").write_text("Be kind.\n")
    return tmp_path


async def load(service: Service, session_id: sc.SessionId) -> sc.SessionSnapshot:
    """The state of a session in the service."""
    async with open_client(service.home) as client:
        return await client.load_session(session_id)


@pytest.mark.slow
def test_a_turn_in_the_service(service: Service, here: Path, capfd: Said) -> None:
    """A new session works in this directory, with the bounds that were asked for, and can be gone on with."""
    first = session_core("run", "--max-steps", "7", "count to 3"), capfd.readouterr()
    again = session_core("run", "--continue", "--thinking", "low", "count to 2"), capfd.readouterr()
    made = [each for each in kept(service.home).values() if each.cwd == str(here)]
    state = trio.run(load, service, made[0].session_id)

    assert (0, "1 2 3 Done.\n") == (first[0], first[1].out)
    assert "The offline demo model (demo) answers" in first[1].err
    assert "this folder is not trusted" in first[1].err
    assert "Continue with: session-core run --session " in first[1].err
    assert (0, "1 2 Done.\n") == (again[0], again[1].out)
    assert 1 == len(made), "it was gone on with"
    assert (7, "low") == (state.settings.limits.steps, state.settings.thinking)
    assert 4 == len(state.messages)


def test_for_programs(service: Service, here: Path, capfd: Said) -> None:
    """`--json` gives the same lines as without a service, and `--quiet` nothing but the answer."""
    assert 0 == session_core("run", "--json", "count to 2")
    first, *rest = capfd.readouterr().out.splitlines()
    assert 0 == session_core("run", "--quiet", "count to 2")
    quiet = capfd.readouterr()

    snapshot = sc.wire.decode(first, sc.SessionSnapshot)
    events = [sc.wire.decode(line, sc.SessionEvent) for line in rest]
    assert "1 2 Done." == sc.fold(snapshot, events).transcript[-1].text
    assert ("1 2 Done.\n", "") == (quiet.out, quiet.err)


@pytest.mark.parametrize("option", [("--no-extensions",), ("--flag", "verbose")])
def test_what_comes_too_late_is_told(service: Service, option: tuple[str, ...], capfd: Said) -> None:
    """Options for a service that is yet to start are refused, and nothing is said to a model."""
    before = len(kept(service.home))
    assert 2 == session_core("run", *option, "hello")
    assert f"session-core: {option[0]} works only when a service starts" in capfd.readouterr().err
    assert before == len(kept(service.home))


def test_an_unknown_model_is_told(service: Service, capfd: Said) -> None:
    """A model that the service does not have is refused with how to have it use other keys."""
    assert 2 == session_core("run", "--model", "nosuch", "hello")
    said = capfd.readouterr().err
    assert "there is no model called 'nosuch'" in said
    assert "session-core shutdown" in said


def test_all_that_is_wrong_is_told(home: Path, tmp_path: Path) -> None:
    """Where a service has refused something for the first wrong setting, all of them are told, and what checks them."""
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text('modell = "demo"\nbar = 3\n')

    async def refused() -> None:
        async with explain_config_problems(home, str(tmp_path)):
            raise sc.InvalidInput("modell: there is no such setting (and 1 more)")

    with pytest.raises(UsageError, match="2 settings are wrong") as told:
        trio.run(refused)
    first, second, see = told.value.details
    assert ("line 1: modell" in first, "line 2: bar" in second) == (True, True)
    assert see.endswith("session-core config check")


def test_leaving_it_alone(service: Service, monkeypatch: pytest.MonkeyPatch, capfd: Said) -> None:
    """`--embedded` never attaches, so the home is in use; `--no-save` needs no home."""
    monkeypatch.setattr(wait_for_home, "MAX_WAIT_S", 0.0)
    embedded = session_core("run", "--embedded", "count to 1"), capfd.readouterr().err
    unsaved = session_core("run", "--no-save", "--quiet", "count to 1"), capfd.readouterr().out

    assert 1 == embedded[0]
    assert f"this home is in use by process {service.pid} " in embedded[1]
    assert "; leave out --embedded, or: session-core shutdown\n" in embedded[1]
    assert (0, "1 Done.\n") == unsaved


async def test_a_stop_by_ctrl_c(service: Service, here: Path) -> None:
    """Ctrl-C stops the turn in the service and keeps the partial answer, as it does without one."""
    ended = await interrupted_at(" 2 3", "run", "--cwd", str(here), "count to 1000 slowly")
    async with open_client(service.home) as client:
        (made,) = [each for each in (await client.load_service()).sessions if each.cwd == str(here)]
    assert 130 == ended.code
    assert "■ stopped after " in ended.err
    assert "stopped" == made.activity.name


@pytest.mark.slow
async def test_leaving_says_that_the_turn_goes_on(service: Service, here: Path) -> None:
    """Who is asked to end leaves the turn to the service, and says so, with how to stop it."""
    ended = await interrupted_at(" 2 3", "run", "--cwd", str(here), "count to 1000 slowly", number=signal.SIGTERM)
    async with open_client(service.home) as client:
        (made,) = [each for each in (await client.load_service()).sessions if each.cwd == str(here)]
        stopped = await client.request_stop(made.session_id)
    assert (143, "stopped") == (ended.code, stopped.result)
    assert "the turn continues in the service; to stop it: session-core stop " in ended.err


@pytest.mark.slow
async def test_a_service_that_dies_is_told(own_home: Path, here: Path) -> None:
    """When the service is killed in the middle of an answer, `run` says so in one line instead of waiting for ever."""
    assert 0 == (await program("serve")).code
    holder = service_process(own_home)
    assert holder is not None
    arguments = ["run", "--cwd", str(here), "count to 1000 slowly"]
    process = await trio.lowlevel.open_process(
        [*PROGRAM, *arguments], stdout=-1, stderr=-1, cwd=ROOT, env=environment()
    )
    assert process.stdout is not None
    assert process.stderr is not None
    said = b""
    with trio.fail_after(120):
        async with process.stdout, process.stderr:
            async for chunk in process.stdout:
                said += chunk
                if b"2 3" in said and holder is not None:
                    os.kill(holder.pid, 9)
                    holder = None
            complaint = b"".join([chunk async for chunk in process.stderr]).decode().splitlines()[-1]
        code = await process.wait()
    assert 1 == code
    assert complaint.startswith("session-core: ")
    assert "the turn was interrupted; to continue it: session-core run --session ses_" in complaint


def test_reloading_an_extension(service: Service, capfd: Said) -> None:
    """`ext reload` has the service use the files as they are now; before they are agreed to, nothing is started."""

    async def generation() -> int:
        async with open_client(service.home) as client:
            (info,) = (await client.list_extensions()).extensions
            return info.generation

    before = trio.run(generation)
    code = session_core("ext", "reload", "echo")
    said = capfd.readouterr().err
    after = trio.run(generation)

    assert 0 == code, said
    assert "the running service now uses the new files of echo" in said
    assert before < after
