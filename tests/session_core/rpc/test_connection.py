"""A connection in memory: both sides ask and answer at once, and every request has exactly one outcome."""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from session_core import limits
from session_core.errors import InvalidInput
from session_core.rpc.connection import RpcConnection, open_connection
from session_core.rpc.failures import CloseReason, RpcClosed, RpcFailed, RpcTimedOut
from session_core.rpc.memory import memory_connection_pair
from session_core.rpc.messages import Notification, Request
from session_core.testing.cancel_sweep import SweepRun, cancel_sweep


async def echo(request: Request) -> Any:
    """Answer with the params."""
    return request.params


async def test_requests_get_their_results() -> None:
    """A request returns what the handler returned, null included."""

    async def handle(request: Request) -> Any:
        return None if request.method == "nothing" else [request.method, request.params]

    async with memory_connection_pair(right_requests=handle) as (left, _):
        assert ["a", {"x": 1}] == await left.request("a", {"x": 1})
        assert None is await left.request("nothing")


@pytest.mark.parametrize(
    ("error", "code", "message", "data"),
    [
        (RpcFailed(-32004, "not allowed", {"group": "kv"}), -32004, "not allowed", {"group": "kv"}),
        (ExceptionGroup("", [RpcFailed(-32001, "no screen")]), -32001, "no screen", None),
        (ValueError("secret"), -32603, "an internal error; see the log of the program that answers", None),
        (
            RpcFailed(1, "x", object()),
            -32603,
            "the answer cannot be sent: this cannot be written as JSON: expected JSON, got a Python object",
            None,
        ),
    ],
)
async def test_errors_of_handlers_are_answers(
    error: Exception, code: int, message: str, data: object, caplog: pytest.LogCaptureFixture
) -> None:
    """An RpcFailed passes through as it is, and of anything else the other side learns nothing but that it failed."""

    async def handle(request: Request) -> Any:
        raise error

    with caplog.at_level(logging.CRITICAL, logger="session_core"):
        async with memory_connection_pair(right_requests=handle) as (left, right):
            with pytest.raises(RpcFailed) as caught:
                await left.request("a")
            assert None is right.closed

    assert (code, message, data) == (caught.value.code, caught.value.message, caught.value.data)


async def test_a_failing_handler_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """What a handler raises by mistake, for a request or a notification, stands in the log and ends nothing."""

    async def handle(request: Request) -> Any:
        raise ValueError("first mistake")

    def note(notification: Notification) -> None:
        raise ValueError("second mistake")

    async with memory_connection_pair(right_requests=handle, right_notifications=note) as (left, _):
        await left.notify("n")
        for _ in range(2):
            with pytest.raises(RpcFailed):
                await left.request("a")

    assert "first mistake" in caplog.text
    assert "second mistake" in caplog.text


async def test_unknown_methods_are_refused() -> None:
    """A side without handlers answers -32601, and passes notifications over."""
    async with memory_connection_pair() as (left, _):
        await left.notify("whatever")
        with pytest.raises(RpcFailed, match="no method 'nonsense'") as caught:
            await left.request("nonsense")

    assert -32601 == caught.value.code


async def test_a_handler_may_ask_back() -> None:
    """Handlers of both sides can ask each other in turn, several levels deep, without a deadlock."""
    sides: list[RpcConnection] = []

    async def handle(request: Request) -> Any:
        depth = request.params["depth"]
        return 0 if not depth else 1 + await sides[depth % 2].request("down", {"depth": depth - 1})

    async with memory_connection_pair(handle, handle) as pair:
        sides.extend(pair)
        assert 7 == await pair[0].request("down", {"depth": 7})


async def test_notifications_come_in_order_before_the_reply() -> None:
    """What a handler tells before it answers is handled before the caller goes on, in order."""
    told: list[Any] = []
    sides: list[RpcConnection] = []

    async def handle(request: Request) -> Any:
        for number in range(50):
            await sides[1].notify("update", {"n": number})
        return "done"

    async with memory_connection_pair(
        right_requests=handle, left_notifications=lambda each: told.append(each.params["n"])
    ) as pair:
        sides.extend(pair)
        assert "done" == await pair[0].request("work")
        assert list(range(50)) == told


async def test_a_timeout_tells_the_other_side(autojump_clock: trio.testing.MockClock) -> None:
    """After a timeout the handler is cancelled, and its late answer is dropped."""
    ended: list[str] = []

    async def handle(request: Request) -> Any:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(request.method)

    async with memory_connection_pair(right_requests=handle) as (left, _):
        with pytest.raises(RpcTimedOut, match="no answer to slow within 3 s"):
            await left.request("slow", timeout=3)
        await wait_all_tasks_blocked()

        assert ["slow"] == ended
        assert (0, 1) == (left.statistics()[0].pending, left.statistics()[0].late)


async def test_a_cancelled_request_is_answered_as_such() -> None:
    """The other side's `$/cancel` ends the handler, and the answer is -32800 even if it returned a value."""
    answers: list[Any] = []

    async def handle(request: Request) -> Any:
        with trio.CancelScope() as scope:
            scope.shield = request.method == "stubborn"
            if scope.shield:
                await go_on.wait()
                return "done all the same"
        return await trio.sleep_forever()

    async def ask(left: RpcConnection, method: str) -> None:
        with pytest.raises(RpcFailed) as caught:
            await left.request(method)
        answers.append((method, caught.value.code))

    go_on = trio.Event()
    async with memory_connection_pair(right_requests=handle) as (left, _), trio.open_nursery() as nursery:
        nursery.start_soon(ask, left, "meek")
        await wait_all_tasks_blocked()
        nursery.start_soon(ask, left, "stubborn")
        await wait_all_tasks_blocked()
        for number in (1, 2, 3, "1", None, True):
            await left.notify("$/cancel", {"id": number})
        await wait_all_tasks_blocked()
        assert [("meek", -32800)] == answers
        go_on.set()

    assert [("meek", -32800), ("stubborn", -32800)] == answers


async def test_too_many_requests_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request too many is refused at once while the others run on, and there is room again when they end."""
    monkeypatch.setattr(limits, "MAX_RPC_REQUESTS", 3)
    go_on = trio.Event()

    async def handle(request: Request) -> Any:
        await go_on.wait()
        return "ok"

    results: list[Any] = []

    async def ask(left: RpcConnection) -> None:
        results.append(await left.request("a"))

    async with memory_connection_pair(right_requests=handle) as (left, _):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ask, left)
            await wait_all_tasks_blocked()
            with pytest.raises(RpcFailed, match="too many requests") as caught:
                await left.request("a")
            assert -32603 == caught.value.code
            go_on.set()
        assert ["ok"] * 3 == results
        assert "ok" == await left.request("a")


async def test_an_id_in_use_is_refused() -> None:
    """A second request with the id of one that still runs is refused, and the first one goes on."""
    ours, theirs = trio.testing.memory_stream_pair()
    go_on = trio.Event()

    async def handle(request: Request) -> Any:
        await go_on.wait()

    async with open_connection(ours, ours, handle_request=handle):
        await theirs.send_all(b'{"id":"x","method":"a"}\n' * 2)
        refused = bytes(await theirs.receive_some())
        go_on.set()
        answered = bytes(await theirs.receive_some())

    assert b"still running" in refused
    assert b'{"jsonrpc":"2.0","id":"x","result":null}\n' == answered


async def test_the_end_fails_all_who_wait() -> None:
    """When the other side closes its output, pending and later requests fail at once, and handlers are cancelled."""
    ours, theirs = trio.testing.memory_stream_pair()
    failed: list[Any] = []
    ended: list[str] = []

    async def handle(request: Request) -> Any:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(request.method)

    async def ask(connection: RpcConnection) -> None:
        with pytest.raises(RpcClosed) as caught:
            await connection.request("a")
        failed.append((caught.value.code, caught.value.message, caught.value.data, caught.value.closed))

    async with open_connection(ours, ours, handle_request=handle) as connection:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ask, connection)
            await theirs.send_all(b'{"id":1,"method":"theirs"}\n')
            await wait_all_tasks_blocked()
            assert not ended
            await theirs.send_eof()
        assert CloseReason(kind="ended") == await connection.wait_closed() == connection.closed
        await ask(connection)
        with pytest.raises(RpcClosed):
            await connection.notify("a")
        await connection.flush()

    assert [(-32603, "connection closed", {"reason": "ended"}, CloseReason(kind="ended"))] * 4 == failed
    assert ["theirs"] == ended


async def test_the_block_keeps_its_own_error() -> None:
    """What the block raises comes out as it is, and what it had sent goes out only if it is left in peace."""
    ours, theirs = trio.testing.memory_stream_pair()
    with pytest.raises(KeyError, match="mine"):
        async with open_connection(ours, ours):
            raise KeyError("mine")
    async with open_connection(ours, ours) as connection:
        await connection.notify("last words")

    assert b"last words" in await theirs.receive_some()
    assert CloseReason(kind="left") == connection.closed


async def test_bad_params_send_nothing() -> None:
    """Params that are no JSON are refused before anything is sent, with a typed error."""
    async with memory_connection_pair(right_requests=echo) as (left, right):
        for send in (left.request, left.notify):
            with pytest.raises(InvalidInput):
                await send("a", {"x": object()})
        with pytest.raises(InvalidInput):
            left.push_event("e", {"x": {1: 2}})
        assert {} == await left.request("a")
        assert 0 == right.statistics()[0].garbage


async def test_events_are_told_with_their_loss() -> None:
    """1027 events pushed at once arrive as a marker for 3 lost ones and 1024 events from seq 3."""
    told: list[dict[str, Any]] = []
    all_told = trio.Event()

    def take(event: Notification) -> None:
        told.append(event.params)
        if event.params.get("seq") == 1_026:
            all_told.set()

    async with memory_connection_pair(right_requests=echo, right_notifications=take) as (left, _):
        for number in range(1_027):
            left.push_event("e", {"n": number}, context={"token": "t", "tier": "event"})
        await left.request("barrier")  # overtakes the events
        assert len(told) < 1_025
        await left.flush()
        await all_told.wait()  # a reader that got little time pauses in between

    context = {"token": "t", "tier": "event"}
    assert [
        {"event": "events_lost", "context": context, "payload": {"lost": 3}},
        *({"event": "e", "seq": n, "context": context, "payload": {"n": n}} for n in range(3, 1_027)),
    ] == told


@given(
    plans=st.lists(
        st.tuples(st.booleans(), st.integers(0, 3), st.sampled_from([None, 0.0, 1.0, 2.5]), st.integers(0, 3)),
        min_size=1,
        max_size=12,
    ),
    rnd=st.random_module(),
)
async def test_random_conversations_always_end(
    plans: list[tuple[bool, int, float | None, int]], rnd: object, autojump_clock: trio.testing.MockClock
) -> None:
    """Requests both ways, nested, slow, timed out or cancelled, all end, each with its own result or its own error."""
    sides: list[RpcConnection] = []
    outcomes = 0

    async def handle(request: Request) -> Any:
        params = request.params
        await trio.sleep(params["sleep"])
        if params["depth"]:
            inner = {**params, "depth": params["depth"] - 1, "side": 1 - params["side"]}
            return 1 + await sides[params["side"]].request("deeper", inner)
        return 0

    async def ask(side: int, depth: int, patience: float | None, sleep: int) -> None:
        nonlocal outcomes
        with trio.move_on_after(4 + sleep):
            try:
                params = {"depth": depth, "sleep": sleep, "side": 1 - side}
                assert depth == await sides[side].request("ask", params, timeout=patience)
                assert patience is None or sleep * (depth + 1) <= patience
            except RpcTimedOut:
                assert patience is not None
                assert sleep * (depth + 1) >= patience
        outcomes += 1

    async with memory_connection_pair(handle, handle) as pair:
        sides.extend(pair)
        async with trio.open_nursery() as nursery:
            for is_left, depth, patience, sleep in plans:
                nursery.start_soon(ask, int(is_left), depth, patience, sleep)
        await wait_all_tasks_blocked()
        assert len(plans) == outcomes
        for side in pair:
            assert 0 == side.statistics()[0].pending
            assert 0 == side.statistics()[0].unknown
            assert 0 == side._request_tasks.running


async def test_a_request_can_be_cancelled_anywhere() -> None:
    """A request cancelled at any of its steps leaves nothing pending or running, and the connection works on."""

    @asynccontextmanager
    async def prepare() -> AsyncGenerator[tuple[RpcConnection, RpcConnection, list[Any]]]:
        results: list[Any] = []
        async with memory_connection_pair(right_requests=echo) as (left, right):
            yield left, right, results

    async def operation(world: tuple[RpcConnection, RpcConnection, list[Any]]) -> None:
        left, _, results = world
        results.append(await left.request("a", {"n": 1}))
        await left.notify("b")
        results.append(await left.request("c", {"n": 2}, timeout=10))

    async def check(world: tuple[RpcConnection, RpcConnection, list[Any]], run: SweepRun) -> None:
        left, right, results = world
        assert [{"n": 1}, {"n": 2}][: len(results)] == results
        assert run.cancelled or 2 == len(results)
        assert {"n": 3} == await left.request("d", {"n": 3})
        await wait_all_tasks_blocked()
        assert (0, 0) == (left.statistics()[0].pending, right._request_tasks.running)
        assert 0 == left.statistics()[0].unknown + left.statistics()[0].garbage

    assert await cancel_sweep(prepare, operation, check) > 3


async def test_opening_can_be_cancelled_anywhere() -> None:
    """A block cancelled at any of its steps ends the connection, and the streams can be used by another one."""

    @asynccontextmanager
    async def prepare() -> AsyncGenerator[tuple[trio.abc.Stream, trio.abc.Stream]]:
        ours, theirs = trio.testing.memory_stream_pair()
        async with ours, theirs:
            yield ours, theirs

    async def operation(world: tuple[trio.abc.Stream, trio.abc.Stream]) -> None:
        ours, _ = world
        async with open_connection(ours, ours) as connection:
            await connection.notify("a")
            connection.push_event("b")

    async def check(world: tuple[trio.abc.Stream, trio.abc.Stream], run: SweepRun) -> None:
        ours, theirs = world
        async with (
            open_connection(ours, ours) as one,
            open_connection(theirs, theirs, handle_request=echo),
        ):
            assert {} == await one.request("again")

    assert await cancel_sweep(prepare, operation, check) > 3


async def test_a_request_that_cannot_be_used_is_answered() -> None:
    """Requests that are too large or malformed get an error with their id, and the connection goes on."""
    ours, theirs = trio.testing.memory_stream_pair()
    async with open_connection(ours, ours, handle_request=echo, max_line=200):
        await theirs.send_all(b'{"id":1,"method":"a","params":{"x":"' + b"x" * 300 + b'"}}\n')
        too_large = bytes(await theirs.receive_some())
        await theirs.send_all(b'{"id":"q","method":"a","params":[]}\n{"id":3,"method":"a"}\n')
        answers = b""
        while answers.count(b"\n") < 2:
            answers += await theirs.receive_some()

    assert (
        b'{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"the message is too large: 339 bytes"}}\n'
        == too_large
    )
    assert answers == (
        b'{"jsonrpc":"2.0","id":"q","error":{"code":-32600,"message":"params must be an object"}}\n'
        b'{"jsonrpc":"2.0","id":3,"result":{}}\n'
    )


async def test_a_broken_stream_is_an_end() -> None:
    """A stream that cannot be written any more ends the connection, with a sentence that says so."""
    ours, theirs = trio.testing.memory_stream_pair()
    async with open_connection(ours, ours) as connection:
        await theirs.receive_stream.aclose()
        with pytest.raises(RpcClosed):
            await connection.request("a")

    assert connection.closed is not None
    assert "write_failed" == connection.closed.kind
    assert connection.closed.message.startswith("nothing can be written to it any more")
