"""Restarts, pings and reloads, with processes in memory and a clock that jumps."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from session_core.rpc.failures import RpcClosed, RpcFailed
from session_core.rpc.messages import Request
from session_core.sep.host.calls.contexts import Contexts
from session_core.sep.host.catalogue.discovery import DiscoveredExtension
from session_core.sep.host.extension import HostedExtension, ReloadFailed
from session_core.sep.host.process.extension_log import ExtensionLog
from session_core.sep.host.process.process_session import ExtensionTimeouts
from session_core.testing.cancel_sweep import SweepRun, cancel_sweep
from tests.session_core.sep._children import Host
from tests.session_core.sep._stand_in import FOUND, StandIn, StandIns, no_preparation


@asynccontextmanager
async def running(processes: StandIns, **settings: Any) -> AsyncGenerator[tuple[HostedExtension, Host]]:
    host = Host()
    settings.setdefault("prepare", no_preparation)
    extension = HostedExtension(FOUND, host, ExtensionLog(), open_process=processes.open, **settings)
    async with trio.open_nursery() as nursery:
        await nursery.start(extension.run)
        yield extension, host
        await extension.stop()


def others_hang(*methods: str) -> Any:
    """Answer everything but these, which are never answered."""

    async def answer(process: StandIn, request: Request) -> Any:
        if request.method in methods:
            await trio.sleep_forever()
        return await StandIns().answer_well(process, request)

    return answer


async def test_crashes_are_followed_by_restarts_after_growing_waits(autojump_clock: MockClock) -> None:
    """It is started again after 1, 5 and 25 seconds; after the fourth crash it has failed, and stays so."""
    processes = StandIns()
    async with running(processes) as (extension, host):
        for number in range(4):
            await host.until(lambda number=number: extension.generation == number + 1)  # type: ignore[misc]
            assert extension.state == "ready"
            processes.all[number].crash()
            await host.until(lambda: extension.state != "ready")
            with pytest.raises(RpcFailed, match="is not running"):
                await extension.request("ping", timeout=1)
        await trio.sleep(3_600)
        assert (extension.state, extension.problem, len(processes.all)) == ("failed", "it fell over", 4)
    assert [process.begin - processes.all[0].begin for process in processes.all] == [0, 1, 6, 31]
    assert host.states == ["ready", "restarting"] * 3 + ["ready", "failed", "stopped"]


async def test_a_while_of_health_makes_up_for_earlier_crashes(autojump_clock: MockClock) -> None:
    """A process that has run for five minutes counts as healthy: its crash is the first one again."""
    processes = StandIns()
    async with running(processes) as (extension, host):
        for number in range(6):
            await host.until(lambda number=number: extension.generation == number + 1)  # type: ignore[misc]
            await trio.sleep(301)
            processes.all[number].crash()
            await host.until(lambda: extension.state != "ready")
        assert extension.state == "restarting"
    starts = [process.begin for process in processes.all]
    assert [later - earlier for earlier, later in pairwise(starts)] == [302] * 5


async def test_starts_that_fail_count_as_crashes(autojump_clock: MockClock) -> None:
    """A greeting that is never answered is tried again like a crash, ten seconds each."""
    processes = StandIns()
    processes.answer = others_hang("initialize")
    async with running(processes) as (extension, host):
        await host.until(lambda: extension.state == "failed")
    assert processes.times("initialize") == [0, 11, 26, 61]
    assert host.history[0] == ("restarting", "it did not answer initialize within 10 s")
    assert processes.gone == [0, 1, 2, 3]


async def test_who_is_silent_is_pinged_and_given_up_after_two_misses(autojump_clock: MockClock) -> None:
    """After a minute without a word comes a ping; the second one without an answer is the end."""
    processes = StandIns()
    processes.answer = others_hang("ping")
    async with running(processes, pace=ExtensionTimeouts(backoffs=())) as (extension, host):
        await host.until(lambda: extension.state == "failed")
        assert trio.current_time() == 80
        assert extension.problem == "it did not answer two pings in a row"
    assert processes.times("ping") == [60, 70]


async def test_an_answered_ping_is_a_sign_of_life(autojump_clock: MockClock) -> None:
    """Pongs, even errors, and any other word put the next ping off by a minute; one miss alone does no harm."""
    processes, pings = StandIns(), 0

    async def answer(process: StandIn, request: Request) -> Any:
        nonlocal pings
        if request.method == "ping":
            pings += 1
            if pings == 2:
                await trio.sleep_forever()
            raise RpcFailed(-32601, "what is a ping?")
        return await StandIns().answer_well(process, request)

    processes.answer = answer
    async with running(processes) as (extension, _):
        await trio.sleep(50)
        await processes.all[0].theirs.notify("log", {"message": "hello"})
        await trio.sleep(300)
        assert (extension.state, extension.generation) == ("ready", 1)
    assert processes.times("ping") == [110, 170, 180, 240, 300]


async def test_nobody_is_pinged_at_work(autojump_clock: MockClock) -> None:
    """While a request is under way, in either direction, there is no ping: one who can do only one thing lives on."""
    processes = StandIns()

    async def answer(process: StandIn, request: Request) -> Any:
        if request.method == "tool/execute":
            await trio.sleep(500)
        return await StandIns().answer_well(process, request)

    processes.answer = answer
    async with running(processes) as (extension, _):
        await extension.request("tool/execute", {}, timeout=1_000)
        assert processes.times("ping") == []
        await trio.sleep(59)
        assert processes.times("ping") == []
        await trio.sleep(2)
        assert processes.times("ping") == [560]


async def test_what_comes_right_behind_the_greeting_is_not_lost(autojump_clock: MockClock) -> None:
    """Notifications sent before the answer to initialize is known to us are taken after it, and log at once."""
    processes = StandIns()

    async def answer(process: StandIn, request: Request) -> Any:
        if request.method == "initialize":
            await process.theirs.notify("registry/update", {})
            await process.theirs.notify("log", {"message": "starting"})
            assert await process.theirs.request("kv/get", {"key": "x"}) == {"asked": "kv/get"}
        return await StandIns().answer_well(process, request)

    processes.answer = answer
    async with running(processes) as (_, host):
        assert host.notifications == [(1, "log"), (1, "registry/update")]
        assert host.requests == [(1, "kv/get")]


async def test_requests_under_way_may_end_before_a_reload_does(autojump_clock: MockClock) -> None:
    """The process that was replaced is shut down once its requests have ended, and still reports on them."""
    processes = StandIns()

    async def answer(process: StandIn, request: Request) -> Any:
        if request.method == "tool/execute":
            await trio.sleep(3)
            await process.theirs.notify("tool/update", {})
            await process.theirs.notify("registry/update", {})
            return "done"
        return await StandIns().answer_well(process, request)

    processes.answer = answer
    results: list[Any] = []

    async def execute() -> None:
        results.append(await extension.request("tool/execute", {}, timeout=60))

    async with running(processes) as (extension, host), trio.open_nursery() as nursery:
        nursery.start_soon(execute)
        await wait_all_tasks_blocked()
        await extension.reload()
        assert results == ["done"]
    assert processes.heard(0) == ["initialize", "tool/execute", "session_shutdown", "shutdown"]
    assert processes.heard(1) == ["initialize", "shutdown"]
    assert host.notifications == [(1, "tool/update")]


async def test_a_request_that_never_ends_does_not_hold_a_reload_up(autojump_clock: MockClock) -> None:
    """What is still under way after five seconds fails with the old process, which had five more to shut down."""
    processes = StandIns()
    processes.answer = others_hang("tool/execute", "shutdown")

    async def execute() -> None:
        with pytest.raises(RpcClosed):
            await extension.request("tool/execute", {}, timeout=600)

    async with running(processes) as (extension, _), trio.open_nursery() as nursery:
        nursery.start_soon(execute)
        await wait_all_tasks_blocked()
        await extension.reload()
        assert trio.current_time() == 10
        assert (extension.state, extension.generation, processes.gone) == ("ready", 2, [0])


async def test_a_crash_during_a_reload_is_made_up_for_by_it(autojump_clock: MockClock) -> None:
    """If the old process falls over while the new one starts, the new one takes its place and nothing is restarted."""
    processes = StandIns()

    async def answer(process: StandIn, request: Request) -> Any:
        if request.method == "initialize" and len(processes.all) == 2:
            processes.all[0].crash()
            await trio.sleep(2)
        return await StandIns().answer_well(process, request)

    processes.answer = answer
    async with running(processes) as (extension, _):
        await extension.reload()
        await trio.sleep(30)
        assert (extension.state, extension.generation, len(processes.all)) == ("ready", 2, 2)


async def test_stopping_during_a_reload_ends_both(autojump_clock: MockClock) -> None:
    """Who stops an extension while it is reloaded does not wait for the new process, and leaves none."""
    processes = StandIns()
    refused: list[str] = []

    async def reload() -> None:
        with pytest.raises(ReloadFailed) as failed:
            await extension.reload()
        refused.append(failed.value.message)

    async with trio.open_nursery() as nursery:
        async with running(processes) as (extension, _):
            processes.answer = others_hang("initialize")
            nursery.start_soon(reload)
            await wait_all_tasks_blocked()
            assert extension.state == "reloading"
            assert await extension.request("anything", timeout=1) == {}
    assert refused == ["the extension tried was not reloaded: it is being stopped"]
    assert (trio.current_time(), sorted(processes.gone), extension.state) == (0, [0, 1], "stopped")


async def test_the_last_events_are_heard_before_the_end(autojump_clock: MockClock) -> None:
    """Events that were pushed right before the stop reach the process before it is asked to go."""
    processes = StandIns()
    async with running(processes) as (extension, _):
        for name in (*["turn_end"] * 50, "session_shutdown"):
            extension.push_event(name, {}, Contexts().for_event("tried", 1, None))
    assert processes.heard(0) == ["initialize", *["turn_end"] * 50, "session_shutdown", "shutdown"]


async def test_a_reload_does_not_wait_for_the_next_restart(autojump_clock: MockClock) -> None:
    """Who reloads an extension that has crashed need not wait, and the restart that was due does not happen."""
    processes = StandIns()
    async with running(processes, pace=ExtensionTimeouts(backoffs=(20, 20))) as (extension, host):
        processes.all[0].crash()
        await host.until(lambda: extension.state == "restarting")
        await extension.reload()
        assert (extension.state, extension.generation, trio.current_time()) == ("ready", 2, 0)
        await trio.sleep(50)
        assert (extension.state, extension.generation, len(processes.all)) == ("ready", 2, 2)


async def test_what_cannot_be_sent_is_a_failure_of_that_extension(autojump_clock: MockClock) -> None:
    """Params of a greeting that have no form in JSON fail the start, and nothing else."""
    processes = StandIns()

    class BadHost(Host):
        def initialize_params(self, found: DiscoveredExtension) -> dict[str, Any]:
            return {"flags": {"x": object()}}

    extension = HostedExtension(FOUND, BadHost(), ExtensionLog(), prepare=no_preparation, open_process=processes.open)
    async with trio.open_nursery() as nursery:
        await nursery.start(extension.run)
        assert extension.state == "failed"
        assert str(extension.problem).startswith("initialize cannot be sent: ")
        await extension.stop()


async def test_a_cancelled_reload_tears_nothing(autojump_clock: MockClock) -> None:
    """Cancelled at any of its steps, a reload has happened or has not; one process answers, and it can be stopped."""

    @asynccontextmanager
    async def prepare() -> AsyncGenerator[tuple[HostedExtension, StandIns]]:
        processes = StandIns()
        async with running(processes) as (extension, _):
            yield extension, processes
        assert sorted(processes.gone) == list(range(len(processes.all)))

    async def operation(world: tuple[HostedExtension, StandIns]) -> None:
        await world[0].reload()

    async def check(world: tuple[HostedExtension, StandIns], run: SweepRun) -> None:
        extension, processes = world
        assert extension.state == "ready"
        assert extension.generation in {1, 2}
        assert await extension.request("anything", timeout=1) == {}
        answered = [number for number, _, method in processes.asked if method == "anything"]
        assert answered == [extension.generation - 1]
        if not run.cancelled:
            assert extension.generation == 2

    await cancel_sweep(prepare, operation, check)


@pytest.mark.parametrize(
    ("hooks", "before", "after"),
    [(["tool_call"], True, True), (["context"], False, False), ([], False, True)],
)
async def test_whose_silence_means_no(
    autojump_clock: MockClock, hooks: list[str], before: object, after: object
) -> None:
    """A dead extension stands in the way if it said that it guards something, or said nothing and has done so once."""
    processes = StandIns()
    processes.registrations = {"hooks": hooks}
    async with running(processes, pace=ExtensionTimeouts(backoffs=())) as (extension, host):
        processes.all[0].crash()
        await host.until(lambda: extension.state == "failed")
        assert extension.can_veto_when_dead == before
        extension.remember_veto()
        assert extension.can_veto_when_dead == after
