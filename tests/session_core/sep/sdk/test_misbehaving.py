"""Authors who do what one should not: handlers that leave by odd doors, block, and speak from threads of their own."""

import asyncio  # noqa: TID251 - handlers may use it, and raise what it raises
import json
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import memory_stream_pair

from session_core.sep.sdk import Context, EventContext, Extension, HostGone, ToolCallContext, ToolError
from session_core.sep.sdk.link import MOST_HANDED_OVER, THREADS
from session_core.sep.sdk.runtime import OBSERVERS_SECONDS
from session_core.sep.sdk.testing import HostError, TestHost

CANCELLED = -32800


class Leaving(BaseException):
    """What no `except Exception` catches."""


async def _within_a_nursery(error: BaseException) -> None:
    async with trio.open_nursery():
        raise error


def _plainly(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize("leave", [_within_a_nursery, _plainly])
@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (ToolError("try another name"), -32603, "try another name"),
        (HostError(-32042, "no such thing"), -32042, "no such thing"),
        (ValueError("five"), -32603, "ValueError: five"),
        (SystemExit(3), -32603, "RuntimeError: a handler called sys.exit(3)"),
        (asyncio.CancelledError(), -32603, "RuntimeError: a handler has raised CancelledError()"),
        (Leaving("x"), -32603, "RuntimeError: a handler has raised Leaving('x')"),
    ],
)
async def test_whatever_is_raised(leave: Callable[..., Any], error: BaseException, code: int, sentence: str) -> None:
    """What a handler raises is its answer with its own code, out of nurseries too, and ends nobody else's work."""
    ext = Extension("odd")
    observed: list[str] = []

    @ext.command
    async def go(ctx: object) -> None:
        await _called(leave, error)

    @ext.on("turn_end")
    async def hear(ctx: object) -> None:
        observed.append("heard")
        await _called(leave, error)

    async with TestHost(ext, observers_may_fail=True) as host:
        with pytest.raises(HostError) as caught:
            await host.run_command("go")
        assert (caught.value.code, caught.value.message) == (code, sentence)
        for _ in range(2):
            await host.send_event("turn_end")
        await host.settled()
    assert observed == ["heard", "heard"]


async def _called(leave: Callable[..., Any], error: BaseException) -> None:
    if leave is _plainly:
        await trio.to_thread.run_sync(leave, error)
    else:
        await leave(error)


async def test_what_a_tool_raises_within_a_nursery() -> None:
    """A model is shown the sentence of a `ToolError`, however many nurseries it has come through."""
    ext = Extension("odd")

    @ext.tool
    async def look() -> None:
        """Look."""
        async with trio.open_nursery():
            await _within_a_nursery(ToolError("there is no such file", details={"path": "x"}))

    async with TestHost(ext) as host:
        result = await host.call_tool("look")
    assert (result.content, result.is_error, result.details) == ("there is no such file", True, {"path": "x"})


async def test_a_cancelled_handler_that_raises_too(autojump_clock: object) -> None:
    """A handler that is cancelled, and leaves by an odd door on its way, is answered as cancelled, and ends nothing."""
    ext = Extension("odd")

    async def leave_when_cancelled() -> None:
        try:
            await trio.sleep_forever()
        finally:
            sys.exit(5)

    @ext.tool
    async def slow(ctx: ToolCallContext) -> None:
        """Wait."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(leave_when_cancelled)
            ctx.progress(0.5)
            await trio.sleep_forever()

    async with TestHost(ext) as host:
        running = host.start(host.call_tool, "slow")
        while not host.progress:
            await host.ping()
        running.cancel()
        with pytest.raises(HostError) as caught:
            await running.result()
        assert caught.value.code == CANCELLED
        await host.ping()


@pytest.mark.parametrize("error", [SystemExit(1), asyncio.CancelledError(), ValueError("no")], ids=repr)
async def test_functions_for_the_end_that_raise(error: BaseException) -> None:
    """Whatever a function for the end raises, the others are called, and the host hears that it is done."""
    ext = Extension("odd")
    done: list[str] = []
    ext.on_shutdown(lambda: done.append("first"))
    ext.on_shutdown(lambda: _plainly(error))
    async with TestHost(ext):
        pass
    assert done == ["first"]


async def test_the_end_of_one_that_is_cancelled() -> None:
    """Functions for the end are called when all around the extension is cancelled, too."""
    ext = Extension("odd")
    done: list[str] = []

    @ext.on_shutdown
    async def clean_up() -> None:
        await trio.lowlevel.checkpoint()
        done.append("cleaned up")

    with trio.CancelScope() as scope:
        async with TestHost(ext):
            scope.cancel()
            await trio.sleep_forever()
    assert done == ["cleaned up"]


async def test_observers_finish_before_the_end() -> None:
    """Who is told that a session ends can still do something about it, though the host says goodbye at once."""
    ext = Extension("odd")
    going_on = trio.Event()

    @ext.on("session_shutdown")
    async def keep(ctx: Context) -> None:
        await ctx.kv.set("begun", True)
        going_on.set()
        await ctx.kv.set("done", True)

    @ext.on("session_shutdown")
    async def follow(ctx: Context) -> None:
        await going_on.wait()

    async with TestHost(ext) as host:
        for _ in range(3):
            await host.send_event("session_shutdown", {"reason": "reload"})
    assert host.kv == {"begun": True, "done": True}


async def test_many_events_at_once() -> None:
    """An observer that is quick enough misses nothing, however many events come in one go."""
    ext = Extension("odd")
    seen: list[int | None] = []

    @ext.on("turn_end")
    async def hear(ctx: EventContext) -> None:
        seen.append(ctx.seq)

    def line(**message: Any) -> bytes:
        return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"

    ours, theirs = memory_stream_pair()
    async with ours, theirs, trio.open_nursery() as nursery:
        nursery.start_soon(ext.run, theirs, theirs)
        await ours.send_all(line(id=1, method="initialize", params={"protocol_version": 1}))
        await ours.receive_some()
        events = (line(method="event", params={"event": "turn_end", "seq": number}) for number in range(10_000))
        await ours.send_all(b"".join(events) + line(id=2, method="shutdown"))
    assert seen == list(range(10_000))


async def test_observers_that_hang(autojump_clock: object) -> None:
    """An observer that never ends holds the end up for a moment only."""
    ext = Extension("odd")
    done: list[str] = []

    @ext.on_shutdown
    async def clean_up() -> None:
        done.append("cleaned up")

    @ext.on("turn_end")
    async def hang(ctx: object) -> None:
        await trio.sleep_forever()

    began = trio.current_time()
    async with TestHost(ext) as host:
        await host.send_event("turn_end")
        await host.ping()
    assert (done, trio.current_time() - began) == (["cleaned up"], OBSERVERS_SECONDS)


async def test_functions_for_the_end_that_come_late() -> None:
    """A function for the end that is registered while the extension runs is called too, once for each run."""
    ext = Extension("odd")
    done: list[str] = []
    ext.on_shutdown(lambda: done.append("early"))

    @ext.command
    async def go(ctx: object) -> None:
        ext.on_shutdown(lambda: done.append("late"))

    async with TestHost(ext) as host:
        await host.run_command("go")
    assert done == ["late", "early"]
    async with TestHost(ext):
        pass
    assert done == ["late", "early", "late", "early"]


async def test_threads_that_hang() -> None:
    """Plain handlers that never return take the place of none, so others and the end have their turn."""
    ext = Extension("odd")
    going_on, done = threading.Event(), list[str]()
    ext.on_shutdown(lambda: done.append("cleaned up"))

    @ext.tool
    def hang(ctx: ToolCallContext) -> None:
        """Hang."""
        ctx.progress(0.5)
        going_on.wait()

    @ext.hook("tool_call")
    def gate(ctx: object) -> None:
        done.append("asked")

    try:
        async with TestHost(ext) as host:
            calls = [host.start(host.call_tool, "hang") for _ in range(64)]  # more than trio has threads by itself
            while len(host.progress) < len(calls):
                await host.ping()
            for call in calls:
                call.cancel()
            for call in calls:
                with pytest.raises(HostError):
                    await call.result()
            await host.call_hook("tool_call", tool="read", arguments={})
    finally:
        going_on.set()
    assert (done, THREADS >= len(calls)) == (["asked", "cleaned up"], True)


async def test_details_that_change() -> None:
    """What a thread tells is told as it was then, and may change at once, without harm to anybody."""
    ext = Extension("odd")

    @ext.tool
    def work(ctx: ToolCallContext) -> None:
        """Work."""
        seen: dict[str, int] = {}
        for number in range(300):
            seen[str(number)] = number
            ctx.progress(details={"seen": seen})

    async with TestHost(ext) as host:
        await host.call_tool("work")
        told = [len(each.details["seen"]) for each in host.progress]
    assert told[0] == 1
    assert told == sorted(set(told))


async def test_a_thread_that_tells_too_much() -> None:
    """A thread that tells more than can be sent on has the rest left out, so what waits is bounded."""
    ext = Extension("odd")

    @ext.command
    async def block(ctx: Any) -> None:
        def tell() -> None:
            for number in range(4 * MOST_HANDED_OVER):
                ctx.log.info(str(number))

        _in_a_thread(tell)  # which nobody should wait for here: nothing is sent meanwhile

    async with TestHost(ext) as host:
        await host.run_command("block")
        await host.settled()
        assert [line.message for line in host.logs] == [str(number) for number in range(MOST_HANDED_OVER)]


async def test_threads_of_its_own() -> None:
    """A thread that an author has started reaches the host as handlers do, and after the end learns that it is over."""
    ext = Extension("odd")
    kept: list[ToolCallContext] = []

    @ext.tool
    def keep(ctx: ToolCallContext) -> Any:
        """Keep the context."""
        kept.append(ctx)
        return _in_a_thread(lambda: ctx.wait(ctx.kv.get, "colour"))

    async with TestHost(ext, kv={"colour": "red"}) as host:
        result = await host.call_tool("keep")
    assert result.content == "red"
    (ctx,) = kept

    def after_the_end() -> Any:
        ctx.log.info("left out")
        ctx.progress(1)
        with pytest.raises(HostGone):
            ctx.wait(ctx.kv.get, "colour")
        return "over"

    assert await trio.to_thread.run_sync(_in_a_thread, after_the_end) == "over"


def test_after_the_run() -> None:
    """A thread that outlives all of it may still tell things, which reach nobody, and is told so when it asks."""
    ext = Extension("odd")
    kept: list[ToolCallContext] = []

    @ext.tool
    def keep(ctx: ToolCallContext) -> None:
        """Keep the context."""
        kept.append(ctx)

    async def main() -> None:
        async with TestHost(ext) as host:
            await host.call_tool("keep")

    trio.run(main)
    (ctx,) = kept

    def after_the_run() -> str:
        ctx.log.info("left out")
        with pytest.raises(HostGone):
            ctx.wait(ctx.kv.get, "colour")
        return "over"

    assert _in_a_thread(after_the_run) == "over"


def _in_a_thread(function: Callable[[], Any]) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


async def test_registering_while_the_host_is_told() -> None:
    """What is registered while an update is on its way to the host is told with the next one."""
    ext = Extension("odd")

    @ext.command
    async def go(ctx: ToolCallContext) -> None:
        ext.tool(name="early", description="")(lambda: "")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ctx.update_registry)
            await trio.lowlevel.checkpoint()
            ext.tool(name="late", description="")(lambda: "")
        await ctx.update_registry()

    for _ in range(8):  # trio shuffles who goes first
        ext.registry.tools.clear()
        async with TestHost(ext) as host:
            await host.run_command("go")
            await host.settled()
            assert [tool.name for tool in host.registrations.tools] == ["early", "late"]
