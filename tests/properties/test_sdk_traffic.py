"""Any traffic, right or wrong, between an extension made with the SDK and the host's own parts.

A tap lies on the line between them. It counts every request and every reply that passes, in both directions, and puts
in lines that neither side has written.
"""

import json
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from random import Random
from typing import Any

import attrs
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from session_core.errors import NotFound
from session_core.sep.sdk import Context, Extension, HostError, ToolError, block, patch
from session_core.sep.sdk.testing import TestHost, UnusableAnswer
from session_core.sep.sdk.testing_link import ExtensionEndpoint

LONG = 100_000
DEPTH = 2
"""How often a dialog may have a command run that opens a dialog."""
BAD_LINES = [
    b"null",
    b"5",
    b"[]",
    b"words",
    b"\xff\xfe",
    b"{",
    b"{}",
    b'{"id": 1}',
    b'{"id": true, "method": "ping"}',
    b'{"id": 1, "result": {}, "error": {"code": 1, "message": ""}}',
    b'{"id": 1, "error": 5}',
    b'{"id": null, "error": {"code": -32700, "message": "what?"}}',
    b'{"method": "event", "params": {"event": 5, "payload": [], "context": 7}}',
    b'{"method": "event", "params": {"event": "turn_end", "payload": [], "context": 7}}',
    b'{"method": "event", "params": []}',
    b'{"method": "$/cancel", "params": {"id": 3}}',
    b'{"method": "$/cancel", "params": {"id": "none"}}',
    b'{"method": "tool/update", "params": {"call_id": 5}}',
    b'{"method": "no/such"}',
    b'{"id": 1, "result": "again"}',
    b'{"id": 1, "error": {"code": -32603, "message": "again"}}',
]
ASKED = ["ping", "no/such", "initialize", "tool/execute", "command/complete", "hook", "provider/complete", "kv/get"]
PARAMS: list[Any] = [
    {},
    None,
    [],
    5,
    {"tool": "act", "arguments": {"steps": ["keep"]}},
    {"tool": "act", "arguments": [1]},
    {"tool": "act", "context": "forged"},
    {"hook": "input", "input": {"steps": ["raise"]}},
    {"command": "go", "partial": 5},
    {"provider": "p", "messages": 7, "request_id": []},
    {"key": "k"},
    {"context": {"token": "x", "tier": "command"}, "key": 5},
]


class Ledger:
    """Who has asked what, and how often it was answered."""

    def __init__(self) -> None:
        self.asked: Counter[Any] = Counter()
        self.answered: Counter[Any] = Counter()
        self._rest = b""

    def read(self, data: bytes, other: "Ledger") -> None:
        """Look at what one side writes: its requests are its own, its replies belong to the other's."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in filter(None, lines):
            message = json.loads(line)
            if "id" in message and "method" in message:
                self.asked[message["id"]] += 1
            elif "id" in message and message["id"] is not None:
                other.answered[message["id"]] += 1


class Tap(trio.abc.SendStream, trio.abc.ReceiveStream):
    """The host's end of the line; `to_host` and `to_extension` count what each side has asked for."""

    def __init__(self, inner: ExtensionEndpoint) -> None:
        self._inner = inner
        self._sending = trio.Lock()
        self._waiting: deque[bytes] = deque()
        self._at_line = True
        self.of_host, self.of_extension = Ledger(), Ledger()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self.of_host.read(bytes(data), self.of_extension)
        async with self._sending:
            await self._inner.sink.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        if self._at_line and self._waiting:
            await trio.lowlevel.checkpoint()
            return self._waiting.popleft()
        data = bytes(await self._inner.source.receive_some(max_bytes))
        self._at_line = data.endswith(b"\n")
        self.of_extension.read(data, self.of_host)
        return data

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()

    async def put_to_extension(self, line: bytes) -> None:
        """Write as if the host had."""
        _count_in(line, self.of_host)
        async with self._sending:
            await self._inner.sink.send_all(line + b"\n")

    def put_to_host(self, line: bytes) -> None:
        """Write as if the extension had; it arrives with what the extension says next."""
        _count_in(line, self.of_extension)
        self._waiting.append(line + b"\n")

    @property
    def balanced(self) -> bool:
        return all(each.asked == each.answered for each in (self.of_host, self.of_extension))


def _count_in(line: bytes, recorder: Ledger) -> None:
    """Count a request of ours that must be answered, though perhaps not well."""
    with suppress(ValueError):
        message = json.loads(line)
        if isinstance(message, dict) and isinstance(message.get("id"), str) and "method" in message:
            recorder.asked[message["id"]] += 1


class TappedHost(TestHost):
    """A host with a tap on its line."""

    tap: Tap

    def _open_endpoint(self) -> AbstractAsyncContextManager[ExtensionEndpoint]:
        return self._tapped(super()._open_endpoint())

    @asynccontextmanager
    async def _tapped(self, plain: AbstractAsyncContextManager[ExtensionEndpoint]) -> AsyncGenerator[ExtensionEndpoint]:
        async with plain as far:
            self.tap = Tap(far)
            yield attrs.evolve(far, source=self.tap, sink=self.tap)


# --- the extension ----------------------------------------------------------------------------------------------------


async def _give_up(ctx: Context) -> None:
    with trio.move_on_after(1):
        await ctx.ui.select("nobody answers this", ["a"])


async def _pause() -> None:
    await trio.sleep(1)


async def _register(ctx: Context) -> None:
    ctx._extension.flag("later")
    await ctx.update_registry()


async def _fail(error: Exception) -> None:
    await trio.lowlevel.checkpoint()
    raise error


STEPS: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "keep": lambda ctx: ctx.kv.set("k", 1),
    "look": lambda ctx: ctx.kv.get("k"),
    "post": lambda ctx: ctx.session.send_message("hi"),
    "state": lambda ctx: ctx.state(),
    "confirm": lambda ctx: ctx.ui.confirm("go on?"),
    "give_up": _give_up,
    "notify": lambda ctx: ctx.ui.notify("look"),
    "nobody": lambda ctx: ctx.ui.input("?"),
    "program": lambda ctx: ctx.exec("true"),
    "publish": lambda ctx: ctx.bus.publish("t"),
    "register": _register,
    "unknown": lambda ctx: ctx._link.ask("no/such", {}),
    "host_only": lambda ctx: ctx._link.ask("tool/execute", {"tool": "act"}),
    "wrong": lambda ctx: ctx._link.ask("kv/get", {"key": 5}),
    "forged": lambda ctx: ctx._link.ask("session/state", {"context": {"token": "t", "tier": "command"}}),
    "no_json": lambda ctx: ctx.kv.set("k", object()),
    "pause": lambda ctx: _pause(),
    "raise": lambda ctx: _fail(ValueError("broken")),
    "tool_error": lambda ctx: _fail(ToolError("no")),
    "leave": lambda ctx: _fail(RuntimeError("left")),
}


async def _perform(ctx: Context, steps: list[Any]) -> None:
    for step in steps:
        act = STEPS.get(step) if isinstance(step, str) else None
        if act is not None:
            with suppress(HostError):
                await act(ctx)


def acting() -> Extension:
    """An extension that does what it is told, wherever it is asked."""
    ext = Extension("acting")

    @ext.tool
    async def act(ctx: Any, steps: list[str]) -> str:
        """Do these things."""
        ctx.progress(0.5)
        ctx.log.info("acting")
        await _perform(ctx, steps)
        return "done"

    @ext.command
    async def go(ctx: Any) -> str:
        await _perform(ctx, ctx.args.get("steps", []))
        return "gone"

    @go.complete
    async def complete(ctx: Any, partial: str) -> list[str]:
        await _perform(ctx, [partial])
        return [partial]

    @ext.hook("input")
    async def judge(ctx: Any) -> Any:
        await _perform(ctx, ctx.input.get("steps", []))
        return [None, block("no"), patch(text="x")][len(ctx.input) % 3]

    @ext.provider("p", models=["m"])
    async def answer(ctx: Any, request: Any) -> AsyncGenerator[str]:
        for message in request.messages:
            yield "a"
            await _perform(ctx, [message.get("content")])

    @ext.on("turn_end")
    async def observe(ctx: Any) -> None:
        await _perform(ctx, ctx.payload.get("steps", []))

    return ext


# --- the host ---------------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Move:
    """One thing that the host, or somebody on the line, does; `patience` is how long it waits for an answer."""

    kind: str
    steps: tuple[str, ...] = ()
    line: bytes = b""
    patience: float | None = None


def moves() -> st.SearchStrategy[Move]:
    steps = st.lists(st.sampled_from(sorted(STEPS)), max_size=4).map(tuple)
    requests = st.builds(
        lambda method, params, number: json.dumps({"id": f"put-{number}", "method": method, "params": params}).encode(),
        st.sampled_from(ASKED),
        st.sampled_from(PARAMS),
        st.integers(0, 3),
    )
    lines = st.sampled_from(BAD_LINES) | requests
    asking = st.sampled_from(["tool", "command", "complete", "hook", "model", "ping", "unknown", "events", "press"])
    return st.one_of(
        st.builds(Move, kind=asking, steps=steps, patience=st.sampled_from([None, 0, 0.5, 1.5])),
        st.builds(Move, kind=st.sampled_from(["put_to_host", "put_to_extension"]), line=lines),
    )


class Traffic:
    """Makes the moves, each in a task of its own."""

    def __init__(self, host: TappedHost, random: Random) -> None:
        self.host = host
        self._random = random
        self._depth = 0

    async def make(self, move: Move) -> None:
        await trio.sleep(self._random.choice([0, 0.5, 1]))
        match move.kind:
            case "put_to_host":
                self.host.tap.put_to_host(move.line)
            case "put_to_extension":
                await self.host.tap.put_to_extension(move.line)
            case "events":
                for number in range(self._random.choice([1, 20, 2_000])):
                    await self.host.send_event("turn_end", {"steps": list(move.steps) if number < 3 else []})
            case _ if move.patience is None:
                await self._ask(move)
            case _ if self._random.random() < 0.5:
                with trio.move_on_after(move.patience):  # nobody waits any more, as when a turn is stopped
                    await self._ask(move)
            case _:
                running = self.host.start(self._ask, move)
                await trio.sleep(move.patience)
                running.cancel()
                await running.result()

    async def _ask(self, move: Move) -> None:
        host, steps = self.host, list(move.steps)
        with suppress(HostError, UnusableAnswer, NotFound):
            match move.kind:
                case "tool":
                    await host.call_tool("act", steps=steps)
                case "command":
                    await host.run_command("go", {"steps": steps})
                case "complete":
                    await host.complete_command("go", steps[0] if steps else "")
                case "hook":
                    await host.call_hook("input", {"steps": steps, "text": ""})
                case "model":
                    await host.complete("p", "m", [{"role": "user", "content": step} for step in steps])
                case "unknown":
                    await host.request("no/such", {"a": 1})
                case _:
                    await host.ping()

    @staticmethod
    async def never(_: Any) -> None:
        """Leave a dialog open."""
        await trio.sleep_forever()

    async def confirm(self, _: Any) -> bool:
        """Answer a dialog, sometimes by way of the extension itself."""
        if self._depth < DEPTH and self._random.random() < 0.5:
            self._depth += 1
            try:
                await self._ask(Move(kind="command", steps=("look", "confirm", "post")))
            finally:
                self._depth -= 1
        await trio.sleep(self._random.choice([0, 1]))
        return True


@given(plan=st.lists(moves(), min_size=1, max_size=8), seed=st.integers(0, 10**6), schedule=st.random_module())
@settings(max_examples=min(settings().max_examples, 1_000))
async def test_every_request_has_one_answer(
    *, plan: list[Move], seed: int, schedule: object, quiet_log: None, autojump_clock: MockClock
) -> None:
    """Whatever passes between them, both sides answer every request once, and are still there afterwards."""
    with trio.fail_after(LONG):
        async with TappedHost(acting(), exec="", observers_may_fail=True) as host:
            traffic = Traffic(host, Random(seed))
            host.ui.update({"confirm": traffic.confirm, "select": traffic.never, "notify": None})
            async with trio.open_nursery() as nursery:
                for move in plan:
                    nursery.start_soon(traffic.make, move)
            await host.settled()
            while not host.tap.balanced:
                await trio.sleep(1)
                await host.ping()  # brings along what was put in for the host
            await host.ping()
        assert host.tap.balanced


async def test_the_tap_sees_what_is_missing(autojump_clock: MockClock) -> None:
    """A request that is never answered, or twice, would be noticed."""
    seen: list[bool] = []
    async with TappedHost(acting(), observers_may_fail=True) as host:
        host.start(host.call_tool, "act", steps=["pause"])
        await trio.testing.wait_all_tasks_blocked()
        seen.append(host.tap.balanced)
        await trio.sleep(2)
        seen.append(host.tap.balanced)
        host.tap.of_extension.read(b'{"id": 1, "result": {}}\n', host.tap.of_host)
        seen.append(host.tap.balanced)
    assert seen == [False, True, False]
