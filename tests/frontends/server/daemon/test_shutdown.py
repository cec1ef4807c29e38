"""Asking a person before something is interrupted, and ending a service that cannot be asked itself."""

import os
from pathlib import Path

import attrs
import pytest
import trio

import session_core as sc
from frontends.server.daemon import shutdown
from frontends.server.daemon.command import listening_lines
from frontends.server.daemon.runtime_paths import Listening, announce_open, format_open_to_others, service_process
from frontends.server.daemon.shutdown import _ask_to_end, _may_interrupt, _terminate
from frontends.server.daemon.status import ServiceReport, report_lines
from frontends.server.server import Server, ServerSettings
from frontends.server.unix_listener import serve_unix
from frontends.shared.output import Output
from frontends.shared.socket_path import socket_path_of_home
from frontends.shared.streams import StandardStreams
from frontends.shared.style import Style
from session_core.service.compact_and_restore import start_restore
from tests.frontends._kept import keep_sessions, summary
from tests.frontends._paper import Paper, written
from tests.frontends._program import PATIENCE_S
from tests.frontends.server.daemon._service import being_the_service, refusing


@pytest.mark.parametrize(
    ("typed", "agreed"), [(b"y\n", True), (b"YES\n", True), (b"\n", False), (b"n\n", False), (b"what\n", False)]
)
async def test_a_person_is_asked(*, typed: bytes, agreed: bool, tmp_path: Path) -> None:
    """Only a clear yes interrupts what runs."""
    reading, writing = os.pipe()
    try:
        os.write(writing, typed)
        with (tmp_path / "err").open("w", encoding="utf-8") as err:
            streams = StandardStreams(out=Output(None), err=Output(err), keyboard=reading)
            assert agreed == await _may_interrupt(tmp_path, ["7k2f", "9x3d"], streams)
    finally:
        os.close(reading)
        os.close(writing)
    asked = await trio.Path(tmp_path / "err").read_text()
    assert "? 2 sessions are at work (7k2f, 9x3d). Interrupt them? [y/N] " == asked


async def test_nobody_can_be_asked(tmp_path: Path) -> None:
    """Without a terminal the answer is no, with what to type instead."""
    streams = StandardStreams(out=Output(None), err=Output(None))
    with pytest.raises(sc.Conflict, match=r"a session is at work \(7k2f\); .* session-core shutdown .*--force"):
        await _may_interrupt(tmp_path, ["7k2f"], streams)


@pytest.mark.parametrize(
    "holder",
    [
        sc.setup.LockHolder(pid=0, program="", since=0, host=""),
        sc.setup.LockHolder(pid=1, program="x", since=0, host="far-away"),
    ],
)
def test_only_a_known_process_of_this_machine_is_signalled(
    holder: sc.setup.LockHolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever else a lock file may say, no process is ended by its number alone."""
    sent: list[object] = []
    monkeypatch.setattr(os, "kill", lambda *about: sent.append(about))
    with pytest.raises(sc.Unavailable, match="cannot be asked to end from here"):
        _terminate(holder)
    assert [] == sent


# --- a service that cannot be asked -----------------------------------------------------------------------------------


@pytest.fixture
def signalled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The signals that would have been sent."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)) if number else None)
    return sent


async def ask(home: Path, *, typed: bytes | None = None, force: bool = False) -> tuple[bool | str, str]:
    """Ask this process, which plays a service of another release, to end; returns the answer and what was said."""
    holder = service_process(home)
    assert holder is not None
    keyboard, hand = os.pipe()
    os.write(hand, typed or b"")
    streams = StandardStreams(out=Paper(), err=Paper(), keyboard=None if typed is None else keyboard)
    try:
        answer: bool | str = await _ask_to_end(home, holder, streams, force=force)
    except sc.Conflict as refused:
        answer = refused.message
    finally:
        os.close(keyboard)
        os.close(hand)
    return answer, written(streams)[1]


async def test_one_of_another_release_with_nothing_at_work(home: Path, signalled: list[tuple[int, int]]) -> None:
    """Where the store says that nothing runs, a service of another release is ended politely, and that is said."""
    with being_the_service(home), announce_open(home):
        async with refusing(home):
            answer, said = await ask(home)
    assert (True, [(os.getpid(), 15)]) == (answer, signalled)
    assert said.startswith(f"a service of version {sc.__version__} runs for this home, process {os.getpid()} ")
    assert f"; this program, version {sc.__version__}, cannot talk to it; it was sent SIGTERM" in said


@pytest.mark.parametrize(
    ("typed", "force", "ends"), [(None, False, False), (b"\n", False, False), (b"y\n", False, True), (None, True, True)]
)
@pytest.mark.parametrize("known", [True, False])
async def test_one_of_another_release_that_may_be_at_work(
    home: Path,
    signalled: list[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
    *,
    typed: bytes | None,
    force: bool,
    ends: bool,
    known: bool,
) -> None:
    """If something runs there, or nobody can know, it ends only by a clear yes or --force, which is what is said."""

    async def list_kept(_: Path) -> list[sc.SessionSummary]:
        await trio.lowlevel.checkpoint()
        if not known:
            raise sc.StoreUnusable("it is of another release too")
        return [summary("ses_01m7jyv7dzmenkd548pwn71wzb", activity=sc.Activity(name="streaming"))]

    monkeypatch.setattr(shutdown, "list_stored_sessions", list_kept)
    with being_the_service(home):
        async with refusing(home):
            answer, said = await ask(home, typed=typed, force=force)
    assert ends == bool(signalled) == (answer is True)
    if not force:
        what = "a session is at work (1wzb)" if known else "it is unknown whether something is running there"
        told = f"{answer} {said}".lower()
        assert "service of another version runs for this home, process " in told
        assert what in told
        assert ("session-core shutdown --force" in told) == (typed is None)


async def test_one_whose_socket_was_deleted(home: Path, signalled: list[tuple[int, int]]) -> None:
    """A service that nobody can reach is ended if nothing runs in it, and one that still starts, without a word."""
    await keep_sessions(home, "count to 1")
    with being_the_service(home):
        starting = await ask(home)
        with announce_open(home):
            lost = await ask(home)
    assert ((True, ""), True, 2) == (starting, lost[0], len(signalled))
    assert lost[1].startswith(f"the socket of process {os.getpid()} ")


async def test_work_that_is_no_activity_does_not_keep_it_from_ending(home: Path) -> None:
    """Nobody is asked about an undo of files, which goes on to its end; the service is asked again only once."""
    config, restored = sc.ServiceConfig(store=sc.MemoryStore(), tools=(), cwd="/"), trio.Event()
    with being_the_service(home), trio.fail_after(PATIENCE_S):
        async with sc.open_session_service(config) as service, trio.open_nursery() as nursery:
            server = Server(service, ServerSettings(home=str(home)))
            await nursery.start(serve_unix, server, socket_path_of_home(home))
            session_id = (await service.create_session()).session_id
            start_restore(service.core, service.core.sessions[session_id], restored.wait)
            assert (True, "") == await ask(home)
            assert server.closing
            restored.set()
            nursery.cancel_scope.cancel(reason="the test is over")


@pytest.mark.parametrize(
    ("address", "line"),
    [
        (
            "http://0.0.0.0:80",
            "it by HTTP on all addresses of this machine, port 80, not encrypted by the service; each needs a token",
        ),
        ("https://[::]:8443", "on all addresses of this machine, port 8443, encrypted; "),
        ("https://192.0.2.7:8443", "by HTTP on 192.0.2.7, port 8443, encrypted; "),
    ],
)
def test_how_others_can_come_in_is_said(address: str, line: str) -> None:
    """One line says that other machines can reach the service, where, and whether what they say is encrypted."""
    assert line in format_open_to_others(address)
    status = sc.wire.ServiceStatus(
        version="1", pid=1, epoch=sc.Epoch("e"), started_at=0, home="/", sessions=0, running=0, clients=0
    )
    near, far = (
        report_lines(Style(), ServiceReport(status=each, sessions=(), clients=()), now=0)
        for each in (status, attrs.evolve(status, open_to_others=address))
    )
    assert 1 == len(far) - len(near)
    assert any(line in each for each in far)
    listening = Listening(pid=1, socket=Path("/s"), address="http://127.0.0.1:80", open_to_others=address)
    assert line in listening_lines(Path("/"), listening)[-1]
