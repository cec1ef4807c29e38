"""An extension as a supervised process: real children, good and hostile."""

import os
import signal
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from session_core import limits
from session_core.rpc.failures import INTERNAL_ERROR, RpcClosed, RpcFailed
from session_core.sep.host.calls.contexts import Contexts
from session_core.sep.host.catalogue.discovery import DiscoveredExtension
from session_core.sep.host.extension import HostedExtension, ReloadFailed
from session_core.sep.host.process.extension_log import ExtensionLog
from session_core.sep.host.process.process_session import ExtensionTimeouts
from tests._mostly_slow import mostly_slow
from tests.session_core.sep._children import (
    PATIENCE,
    QUICK,
    Host,
    is_alive,
    own_descriptors,
    pids_with_argument,
    running,
    script,
)


def texts(log: ExtensionLog, source: str) -> list[str]:
    return [line.text for line in log.lines() if line.source == source]


async def test_an_extension_starts_answers_and_ends(tmp_path: Path) -> None:
    """A process is greeted, answers, hears events, is asked to go and leaves no process and no descriptor behind."""
    before = own_descriptors()
    async with running(script(tmp_path, "plain")) as (extension, host):
        assert (extension.state, extension.problem, extension.generation) == ("ready", None, 1)
        assert [tool.name for tool in extension.registrations.tools] == ["echo"]
        assert extension.subscriptions == {"turn_start", "turn_end"}
        assert extension.hooks == frozenset({"tool_call"})
        assert extension.can_veto_when_dead
        params = {"tool": "echo", "arguments": {"text": "ä"}, "call_id": "1"}
        assert await extension.request("tool/execute", params, timeout=300) == {"content": "ä"}
        assert await extension.request("descriptors", timeout=300) == [0, 1, 2, 3]  # the last is that of the listing
        extension.push_event("turn_start", {}, Contexts().for_event("tried", 1, None))
        extension.push_event("turn_end", {"no": object()}, Contexts().for_event("tried", 1, None))
        await host.until(lambda: (1, "registry/update") in host.notifications)
    assert host.history == [("ready", None), ("stopped", None)]
    assert (tmp_path / "events").read_text() == "turn_start\n"
    assert (tmp_path / "tidied").read_text() == "yes"
    assert own_descriptors() == before
    assert pids_with_argument(str(tmp_path)) == []
    assert texts(extension.log, "host")[0] == "it calls itself 'another'; here it is 'tried', as its manifest says"
    with pytest.raises(RpcFailed, match="the extension tried is not running") as failed:
        await extension.request("ping", timeout=1)
    assert failed.value.code == INTERNAL_ERROR


async def test_the_environment_is_scrubbed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child sees a few harmless variables, what its manifest sets and our mark, and no secret of ours."""
    monkeypatch.setenv("SECRET_KEY", "do not tell")
    monkeypatch.setenv("LANG", "C.UTF-8")
    async with running(script(tmp_path, "plain")) as (extension, _):
        seen = await extension.request("environment", timeout=300)
    assert seen["LANG"] == "C.UTF-8"
    assert set(seen) - {"LC_ALL", "LC_CTYPE", "TMPDIR", "TERM", "HOME"} == {
        "LANG",
        "PATH",
        "PYTHONDONTWRITEBYTECODE",
        "SESSION_CORE_EXTENSION",
    }


@pytest.mark.parametrize(
    ("way", "problem"),
    mostly_slow(
        [
            ("exits_at_start", "its process ended with exit status 3, before it was ready; it said: no luck today"),
            ("exits_in_initialize", "its process ended with exit status 4, before it was ready"),
            ("exits_when_ready", "its process ended with exit status 5; it said: enough of this"),
            ("refuses", "it answered initialize with an error: not with you (-32000)"),
            ("speaks_version_0", "it speaks version 0 of the protocol, and this host version 1"),
            ("closes_stdout", "the other side has closed its output"),
            ("leaves_a_grandchild", "its process ended with exit status 0"),
            ("floods_stdout", "it writes too much that is not a message"),
        ],
        quick=4,
    ),
)
async def test_a_process_that_fails_is_told_and_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, problem: str
) -> None:
    """Whatever way a process fails, people are told which, and nothing of it is left, grandchildren included."""
    if "exit" in way:  # on a busy machine, much may come between the end of its pipes and its own
        monkeypatch.setattr("session_core.sep.host.process.process._GRACE", PATIENCE)
    before = own_descriptors()
    async with running(script(tmp_path, "hostile", way)) as (extension, host):
        await host.until(lambda: extension.state == "failed" and extension.problem == problem)
        assert not extension.running
    assert pids_with_argument(str(tmp_path)) == []
    assert own_descriptors() == before


async def test_a_later_version_of_the_protocol_is_no_obstacle(tmp_path: Path) -> None:
    """Who speaks a version that is not known here goes on with ours, the lower one of both."""
    async with running(script(tmp_path, "hostile", "speaks_version_99")) as (extension, _):
        assert (extension.state, extension.problem) == ("ready", None)
        assert await extension.request("ping", timeout=300) == {}


async def test_a_process_that_hangs_in_initialize_is_given_up(tmp_path: Path) -> None:
    """A greeting that is never answered ends after its time, and so does the process."""
    found = script(tmp_path, "hostile", "hangs_in_initialize")
    async with running(found, pace=attrs.evolve(QUICK, start=0.3)) as (extension, _):
        assert (extension.state, extension.problem) == ("failed", "it did not answer initialize within 0.3 s")
        assert pids_with_argument(str(tmp_path)) == []


async def test_nonsense_in_registrations_is_final(tmp_path: Path) -> None:
    """What cannot be used fails at once, naming the place, and is not tried again."""
    async with running(script(tmp_path, "hostile", "registers_nonsense"), pace=ExtensionTimeouts()) as (
        extension,
        host,
    ):
        assert extension.state == "failed"
        assert str(extension.problem).startswith("what it registers cannot be used at tools[0].name: ")
    assert host.states == ["failed", "stopped"]


async def test_a_process_that_closes_its_stdin_is_noticed_with_the_next_request(tmp_path: Path) -> None:
    """A request that cannot be written fails at once, and the process is taken for crashed."""
    async with running(script(tmp_path, "hostile", "closes_stdin")) as (extension, host):
        while not (tmp_path / "closed").exists():  # noqa: ASYNC110 - another process does it
            await trio.sleep(0.01)
        with pytest.raises(RpcClosed):
            await extension.request("ping", timeout=300)
        await host.until(lambda: extension.state == "failed")
        assert extension.problem == "nothing can be written to it any more: Broken pipe"
    assert pids_with_argument(str(tmp_path)) == []


async def test_a_crash_fails_the_request_and_is_followed_by_a_restart(tmp_path: Path) -> None:
    """A request under way fails when the process dies, and the next process answers under a new generation."""
    found = script(tmp_path, "hostile", "exits_when_asked")
    async with running(found, pace=ExtensionTimeouts(backoffs=(0, 0))) as (extension, host):
        for generation in (1, 2):
            assert extension.generation == generation
            with pytest.raises(RpcClosed):
                await extension.request("anything", timeout=300)
            await host.until(lambda generation=generation: extension.generation == generation + 1)  # type: ignore[misc]
    assert host.states == ["ready", "restarting", "ready", "restarting", "ready", "stopped"]
    assert host.history[1] == ("restarting", "its process was ended by SIGKILL")


async def test_who_ignores_everything_is_killed(tmp_path: Path) -> None:
    """A process that neither answers shutdown nor ends by SIGTERM is killed when its time is over."""
    found = script(tmp_path, "hostile", "ignores_sigterm")
    async with running(found, pace=attrs.evolve(QUICK, stop=0.2)):
        while not (tmp_path / "child").exists():  # noqa: ASYNC110 - another process does it
            await trio.sleep(0.01)
        child = int((tmp_path / "child").read_text())
        assert is_alive(child)
    assert not is_alive(child)


async def test_cancelling_kills_the_group(tmp_path: Path) -> None:
    """When the task of an extension is cancelled, its process is gone at the end of it, without having been asked."""
    extension = HostedExtension(script(tmp_path, "plain"), Host(), ExtensionLog(), pace=QUICK)
    async with trio.open_nursery() as nursery:
        await nursery.start(extension.run)
        assert pids_with_argument(str(tmp_path)) != []
        nursery.cancel_scope.cancel()
    assert pids_with_argument(str(tmp_path)) == []
    assert extension.state == "stopped"


async def test_stderr_without_end_is_read_and_bounded(tmp_path: Path) -> None:
    """Megabytes on stderr hang neither the child nor us; the end of them is kept, in memory and in a small file."""
    log = ExtensionLog(tmp_path / "logs" / "tried.log")
    async with running(script(tmp_path, "hostile", "floods_stderr"), log=log) as (extension, _):
        assert extension.state == "ready"
        await extension.request("ping", timeout=300)
    lines = texts(log, "stderr")
    assert lines[-1] == "the end of it"
    assert len(log.lines()) <= limits.EXTENSION_LOG_LINES
    assert max(map(len, lines)) <= limits.EXTENSION_LOG_CHARS + 4
    files = sorted((tmp_path / "logs").iterdir())
    assert "the end of it" in (tmp_path / "logs" / "tried.log").read_text()
    assert all(file.stat().st_size <= limits.EXTENSION_LOG_BYTES for file in files)
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in files)
    assert len(files) <= 2


async def test_a_line_of_a_hundred_megabytes_fails_its_request_only(tmp_path: Path) -> None:
    """An answer that is far too long fails the request it belongs to, and the next one is answered."""
    async with running(script(tmp_path, "hostile", "sends_a_long_line")) as (extension, _):
        with pytest.raises(RpcFailed, match="the answer cannot be used: the message is too large"):
            await extension.request("ping", timeout=60)
        assert await extension.request("ping", timeout=300) == {}
        assert extension.state == "ready"
    [noted] = texts(extension.log, "stdout")
    assert noted.startswith("not a message (the message is too large: 1")


async def test_prints_on_stdout_go_to_the_log(tmp_path: Path) -> None:
    """What a program prints on its stdout, before the greeting and later, is passed over and can be read in the log."""
    async with running(script(tmp_path, "hostile", "prints_first")) as (extension, _):
        assert extension.state == "ready"
        await extension.request("ping", timeout=300)
    assert texts(extension.log, "stdout") == [
        "hello, I am a program",
        "null",
        "[1]",
        "and I print without an end",
        "debug: \N{REPLACEMENT CHARACTER}[2Jready",
    ]


async def test_a_daemon_that_left_the_group_is_found(tmp_path: Path) -> None:
    """A process that has forked twice and leads a session of its own is ended with the extension."""
    async with running(script(tmp_path, "hostile", "forks_twice")) as (extension, _):
        await extension.request("ping", timeout=300)
        daemon = int((tmp_path / "daemon").read_text())
        assert is_alive(daemon)
        [parent] = [pid for pid in pids_with_argument(str(tmp_path)) if pid != daemon]
        assert os.getsid(daemon) != os.getsid(parent)
    assert not is_alive(daemon)


@pytest.mark.parametrize("way", mostly_slow(["tidies_up_late", "waits_for_the_end_of_stdin"], quick=1))
async def test_a_process_may_tidy_up_after_its_last_answer(tmp_path: Path, way: str) -> None:
    """Shutting down waits for the exit and not only for the answer, and closes stdin for those who wait for that."""
    async with running(script(tmp_path, "hostile", way), pace=attrs.evolve(QUICK, stop=10)):
        pass
    assert (tmp_path / "tidied").read_text() == "yes"


async def test_reload_replaces_the_process(tmp_path: Path) -> None:
    """A reload brings a new process and generation; the old one has heard session_shutdown, tidied up, and is gone."""
    async with running(script(tmp_path, "plain")) as (extension, host):
        old = await extension.request("pid", timeout=300)
        await extension.reload()
        assert (extension.state, extension.generation) == ("ready", 2)
        assert await extension.request("pid", timeout=300) != old
        assert not is_alive(old)
        assert (tmp_path / "events").read_text() == "session_shutdown\n"
        assert (tmp_path / "tidied").read_text() == "yes"
    assert host.states == ["ready", "reloading", "ready", "stopped"]


async def test_a_failed_reload_keeps_the_old_process(tmp_path: Path) -> None:
    """If the new process does not start, the reload says why and the old one goes on as if nothing had happened."""
    async with running(script(tmp_path / "good", "plain")) as (extension, host):
        (tmp_path / "bad").mkdir()
        old, found = await extension.request("pid", timeout=300), extension.found
        with pytest.raises(
            ReloadFailed, match="tried was not reloaded: its process ended with exit status 4"
        ) as failed:
            await extension.reload(script(tmp_path / "bad", "hostile", "exits_in_initialize"))
        assert failed.value.code == "extension_failed"
        assert (extension.state, extension.generation, extension.found) == ("ready", 1, found)
        assert await extension.request("pid", timeout=300) == old
    assert host.states == ["ready", "reloading", "ready", "stopped"]
    assert not (tmp_path / "good" / "events").exists()


async def test_reload_revives_what_has_failed(tmp_path: Path) -> None:
    """An extension that was given up is tried again by a reload."""
    (tmp_path / "good").mkdir()
    async with running(script(tmp_path, "hostile", "exits_at_start")) as (extension, host):
        assert extension.state == "failed"
        await extension.reload(script(tmp_path / "good", "plain"))
        assert (extension.state, extension.problem) == ("ready", None)
        os.kill(await extension.request("pid", timeout=300), signal.SIGKILL)
        await host.until(lambda: extension.state == "failed")


async def test_changed_files_are_not_started_again(tmp_path: Path) -> None:
    """A restart after a crash refuses files that are not those a person agreed to."""
    found = script(tmp_path, "plain")
    async with running(found, pace=ExtensionTimeouts(backoffs=(0,))) as (extension, host):
        (found.folder / "more.py").write_text("print('something else')")
        os.kill(await extension.request("pid", timeout=300), signal.SIGKILL)
        await host.until(lambda: extension.state == "failed")
        assert extension.problem == "its files have changed since it was agreed to; look at them and agree again"


async def test_stopping_while_it_starts_leaves_nothing(tmp_path: Path) -> None:
    """An extension that is stopped before it has answered its greeting ends at once."""
    found = script(tmp_path, "hostile", "hangs_in_initialize")
    extension = HostedExtension(found, Host(), ExtensionLog(), pace=QUICK)
    with trio.fail_after(PATIENCE / 2):  # the greeting alone would take twice as long
        async with trio.open_nursery() as nursery:
            nursery.start_soon(extension.run)
            while not pids_with_argument(str(tmp_path)):  # noqa: ASYNC110 - another process does it
                await trio.sleep(0.01)
            await extension.stop()
    assert pids_with_argument(str(tmp_path)) == []
    with pytest.raises(ReloadFailed, match="it is not in use"):
        await extension.reload()


async def test_stopping_before_the_start(tmp_path: Path) -> None:
    """An extension that is stopped before it runs starts no process, and its task ends."""

    async def no_launch(found: DiscoveredExtension) -> Any:
        raise AssertionError("nothing is to be started")

    extension = HostedExtension(script(tmp_path, "plain"), Host(), ExtensionLog(), prepare=no_launch)
    await extension.stop()
    async with trio.open_nursery() as nursery:  # noqa: ASYNC112 - that it has started counts too
        await nursery.start(extension.run)
    assert extension.state == "stopped"
