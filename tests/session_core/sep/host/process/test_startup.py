"""The beginning of a life, with processes in memory: faults, versions, rights, and what comes too early."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from session_core import limits
from session_core.rpc.messages import Request
from session_core.sep.host.catalogue.discovery import DiscoveredExtension
from session_core.sep.host.extension import HostedExtension
from session_core.sep.host.process.extension_log import ExtensionLog
from session_core.sep.host.process.launch_command import ExtensionLaunch, LaunchRefused
from tests.session_core.sep._children import Host
from tests.session_core.sep._stand_in import FOUND, StandIn, StandIns, no_preparation


@asynccontextmanager
async def running(
    processes: StandIns, prepare: Callable[[DiscoveredExtension], Awaitable[ExtensionLaunch]] = no_preparation
) -> AsyncGenerator[tuple[HostedExtension, Host]]:
    host = Host()
    extension = HostedExtension(FOUND, host, ExtensionLog(), open_process=processes.open, prepare=prepare)
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


@pytest.mark.parametrize(
    ("greeting", "state", "problem"),
    [
        ({"protocol_version": 1}, "ready", None),
        ({"protocol_version": 2}, "ready", None),
        ({"protocol_version": 2**53 - 1}, "ready", None),
        ({"protocol_version": 0}, "failed", "it speaks version 0 of the protocol, and this host version 1"),
        ({"protocol_version": -1}, "failed", "it speaks version -1 of the protocol, and this host version 1"),
        ({"protocol_version": True}, "failed", "it speaks no version of the protocol, and this host version 1"),
        ({"protocol_version": "1"}, "failed", "it speaks no version of the protocol, and this host version 1"),
        ({}, "failed", "it speaks no version of the protocol, and this host version 1"),
    ],
)
async def test_which_versions_are_understood(
    autojump_clock: MockClock, greeting: dict[str, Any], state: str, problem: str | None
) -> None:
    """Every version from the first on is good enough, as the lower one of both counts; anything else is final."""
    processes = StandIns()

    async def answer(process: StandIn, request: Request) -> Any:
        return greeting if request.method == "initialize" else await StandIns().answer_well(process, request)

    processes.answer = answer
    async with running(processes) as (extension, _):
        assert (extension.state, extension.problem) == (state, problem)


async def test_rights_come_with_the_process_that_has_them(autojump_clock: MockClock) -> None:
    """While a reload is under way, each process has the manifest that it was started with; a failed one leaves none."""
    processes, greeted = StandIns(), list[str]()

    class Greeting(Host):
        def initialize_params(self, found: DiscoveredExtension) -> dict[str, Any]:
            greeted.append(found.manifest.version)
            return super().initialize_params(found)

    def versions() -> list[str]:
        return [each.version for each in (extension.manifest, extension.manifest_of(1), extension.manifest_of(2))]

    newer = attrs.evolve(FOUND, manifest=attrs.evolve(FOUND.manifest, version="2"))
    extension = HostedExtension(FOUND, Greeting(), ExtensionLog(), prepare=no_preparation, open_process=processes.open)
    async with trio.open_nursery() as nursery:
        await nursery.start(extension.run)
        processes.answer = others_hang("initialize", "slow")
        async with trio.open_nursery() as reloading:
            reloading.start_soon(extension.reload, newer)
            await wait_all_tasks_blocked()
            assert (extension.state, versions()) == ("reloading", ["1", "1", "2"])
            reloading.cancel_scope.cancel()
        assert (extension.found, versions()) == (FOUND, ["1", "1", "1"])
        processes.answer = others_hang("slow")
        async with trio.open_nursery() as reloading:
            reloading.start_soon(partial(extension.request, "slow", timeout=None))
            await wait_all_tasks_blocked()
            reloading.start_soon(extension.reload, newer)
            await wait_all_tasks_blocked()
            assert (extension.state, extension.generation, extension.found) == ("ready", 3, newer)
            assert versions()[:2] == ["2", "1"]  # the old one is still at work, with its old rights
            reloading.cancel_scope.cancel()
        await extension.stop()
    assert greeted == ["1", "2", "2"]


async def test_early_notifications_are_bounded(autojump_clock: MockClock) -> None:
    """What a process tells before its first answer is kept up to a number and a size; of the rest only the number."""
    processes = StandIns()
    large = {"text": ["x" * 1_000] * 100}

    async def answer(process: StandIn, request: Request) -> Any:
        if request.method == "initialize":
            for _ in range(15):
                await process.theirs.notify("large", large)
            await process.theirs.notify("huge", {"text": "x" * limits.EXTENSION_EARLY_BYTES})
            for _ in range(300):
                await process.theirs.notify("small", {})
            await process.theirs.flush()
        return await StandIns().answer_well(process, request)

    processes.answer = answer
    async with running(processes) as (extension, host):
        assert [method for _, method in host.notifications] == ["large"] * 9 + ["small"] * 247
        told = "notifications that came too early and were dropped: 60"
        assert [line.text for line in extension.log.lines()] == [told]


@pytest.mark.parametrize("when", ["prepare", "open", "greet", "close"])
async def test_a_fault_at_a_start_is_a_crash_of_that_extension(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, when: str
) -> None:
    """Whatever goes wrong while a process is started or kept, the extension is tried again, and nothing else ends."""
    processes, faults = StandIns(), [when]

    def stumble(where: str) -> None:
        if where in faults:
            faults.remove(where)
            raise RuntimeError("a bug")

    async def prepare(found: DiscoveredExtension) -> ExtensionLaunch:
        stumble("prepare")
        return await no_preparation(found)

    @asynccontextmanager
    async def open_process(*args: Any, **others: Any) -> AsyncGenerator[StandIn]:
        stumble("open")
        async with processes.open(*args, **others) as process:
            yield process
        stumble("close")

    class Stumbling(Host):
        def initialize_params(self, found: DiscoveredExtension) -> dict[str, Any]:
            stumble("greet")
            return super().initialize_params(found)

    host = Stumbling()
    extension = HostedExtension(FOUND, host, ExtensionLog(), prepare=prepare, open_process=open_process)
    async with trio.open_nursery() as nursery:
        await nursery.start(extension.run)
        if when == "close":
            processes.all[0].crash()
            await host.until(lambda: extension.state == "restarting")
        else:
            assert (extension.state, extension.problem) == (
                "restarting",
                "this service could not run it: RuntimeError: a bug",
            )
        await host.until(lambda: extension.state == "ready")
        await extension.stop()
    assert "a bug" in caplog.text


async def test_a_launch_that_fails_for_now_is_tried_again(autojump_clock: MockClock) -> None:
    """A refusal that may pass by itself counts as a crash, and the next start succeeds."""
    processes, refusals = StandIns(), [LaunchRefused("too many open files", final=False)]

    async def prepare(found: DiscoveredExtension) -> ExtensionLaunch:
        if refusals:
            raise refusals.pop()
        return await no_preparation(found)

    async with running(processes, prepare=prepare) as (extension, host):
        assert (extension.state, extension.problem) == ("restarting", "too many open files")
        await host.until(lambda: extension.state == "ready")
        assert trio.current_time() == 1
