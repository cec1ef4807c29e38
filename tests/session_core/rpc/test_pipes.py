"""A connection over real pipes: slow readers, floods, garbage, and peers that go away in every way."""

import json
import os
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from session_core import limits
from session_core.rpc.connection import RpcConnection, open_connection
from session_core.rpc.failures import CloseReason, RpcClosed, RpcFailed
from session_core.rpc.messages import Request
from tests.session_core.rpc._pipes import Wire, open_wire


async def answered(wire: Wire, count: int) -> None:
    """Answer so many requests with their own params."""
    for line in await wire.lines(count):
        message = json.loads(line)
        await wire.say(json.dumps({"id": message["id"], "result": message["params"]}).encode() + b"\n")


async def test_a_round_trip_over_pipes() -> None:
    """A request goes out as one line without the writer, and its answer comes back."""
    async with open_wire() as wire, trio.open_nursery() as nursery:
        nursery.start_soon(answered, wire, 1)
        assert {"x": [1, "ü"]} == await wire.connection.request("a", {"x": [1, "ü"]})


async def test_requests_of_one_tick_go_out_in_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that are made in the same tick are written together, the first apart."""
    sizes: list[int] = []
    write = os.write

    def counted(number: int, data: bytes) -> int:
        written = write(number, data)
        if b"ask" in bytes(data):
            sizes.append(bytes(data).count(b"\n"))
        return written

    async with open_wire() as wire:
        monkeypatch.setattr(os, "write", counted)
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(wire.connection.request, "ask")
            nursery.start_soon(answered, wire, 20)
        monkeypatch.undo()

    assert [1, 19] == sizes


async def test_a_slow_reader_holds_requests_back() -> None:
    """While the other side does not read, requests wait with bounded memory; when it reads again, all are answered."""
    size, count = 100_000, 60
    results: list[int] = []

    async def ask(connection: RpcConnection) -> None:
        results.append(len((await connection.request("a", {"text": "x" * size}))["text"]))

    async def answer_all(wire: Wire) -> None:
        kept, seen = b"", 0
        while seen < count:
            *lines, kept = (kept + bytes(await wire.reads.receive_some())).split(b"\n")
            for line in lines:
                message = json.loads(line)
                seen += 1
                await wire.say(json.dumps({"id": message["id"], "result": message["params"]}).encode() + b"\n")

    async with open_wire() as wire, trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(ask, wire.connection)
        await wait_all_tasks_blocked()
        assert wire.connection.statistics()[0].pending < count
        assert wire.connection.statistics()[1].control_bytes < limits.RPC_WAIT_BYTES + 2 * size
        nursery.start_soon(answer_all, wire)

    assert [size] * count == results


async def test_control_overtakes_events_of_a_slow_reader() -> None:
    """With a full pipe and a thousand events behind it, a request is the next thing that is written."""
    async with open_wire() as wire:
        for number in range(2_000):
            wire.connection.push_event("e", {"text": "x" * 500, "n": number})
            await trio.lowlevel.checkpoint()
        await wait_all_tasks_blocked()
        waiting = wire.connection.statistics()[1].events
        assert waiting > 500
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wire.connection.request, "urgent")
            await wait_all_tasks_blocked()
            data = b""
            while b"urgent" not in data:
                data += await wire.reads.receive_some(4_096)
            nursery.cancel_scope.cancel()
        await wire.reads.aclose()  # or the connection would wait a moment for someone to read the rest

    assert data.split(b"urgent")[0].count(b"\n") < 2_000 - waiting


async def test_events_to_a_slow_reader_add_up() -> None:
    """What a slow reader gets of the events and what it is told it has lost make up all that were pushed."""
    async with open_wire() as wire:
        for number in range(3_000):
            wire.connection.push_event("e", {"text": "x" * 300, "n": number})
            await trio.lowlevel.checkpoint()
        data, place, lost = b"", 0, 0
        while place < 3_000:
            *lines, data = (data + bytes(await wire.reads.receive_some())).split(b"\n")
            for line in lines:
                params = json.loads(line)["params"]
                if params["event"] == "events_lost":
                    lost += params["payload"]["lost"]
                    place += params["payload"]["lost"]
                else:
                    assert place == params["seq"]
                    place += 1

    assert lost > 1_000
    assert lost == wire.connection.statistics()[1].shed


async def test_a_peer_that_reads_no_replies_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that asks and never reads ends its connection, with a reason, instead of filling our memory."""
    monkeypatch.setattr(limits, "MAX_RPC_BYTES", 1_000_000)

    async def handle(request: Request) -> Any:
        return "x" * 10_000

    async with open_wire(handle_request=handle) as wire, trio.open_nursery() as nursery:

        async def ask() -> None:
            for number in range(100_000):  # until the pipe is full, as nobody reads it any more
                await wire.say(b'{"id":%d,"method":"a"}\n' % number)

        nursery.start_soon(ask)
        closed = await wire.connection.wait_closed()
        assert CloseReason(kind="not_reading") == closed
        assert wire.connection.statistics()[1].control_bytes <= 1_000_000
        nursery.cancel_scope.cancel()


async def test_garbage_does_not_disturb() -> None:
    """Text, broken bytes, scalars and lines that are too long go by, and the answers among them arrive."""
    async with open_wire(max_line=1_000) as wire, trio.open_nursery() as nursery:

        async def answer() -> None:
            await wire.lines(1)
            await wire.say(
                b"hello\n\n\xff\xfe\nnull\n5\n[]\n{}\n" + b"x" * 50_000 + b"\n" + b'{"id":1,"result":"here"}\n'
            )

        nursery.start_soon(answer)
        assert "here" == await wire.connection.request("a")
        statistics = wire.connection.statistics()[0]

    assert (1, 6, 1) == (statistics.blank, statistics.garbage, statistics.oversized)


async def test_an_oversized_reply_fails_its_request_only() -> None:
    """The request whose answer is too large fails at once, and the one behind it gets its own."""
    async with open_wire(max_line=1_000) as wire, trio.open_nursery() as nursery:

        async def answer() -> None:
            await wire.lines(1)
            await wire.say(b'{"jsonrpc":"2.0","id":1,"result":"' + b"x" * 2_000 + b'"}\n')
            await wire.lines(1)
            await wire.say(b'{"id":2,"result":2}\n')

        nursery.start_soon(answer)
        with pytest.raises(RpcFailed, match="too large") as caught:
            await wire.connection.request("a")
        assert 2 == await wire.connection.request("b")

    assert -32603 == caught.value.code


async def test_a_flood_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line without an end is not read for ever."""
    monkeypatch.setattr(limits, "MAX_RPC_SKIPPED", 500_000)
    async with open_wire(max_line=1_000) as wire, trio.open_nursery() as nursery:
        nursery.start_soon(wire.say, b"x" * 550_000)
        assert CloseReason(kind="flooded") == await wire.connection.wait_closed()
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("lines", [b"x\n\n" * 20_000, b"{x}\n" * 10_000, b"\n" * 60_000])
async def test_endless_nonsense_ends_the_connection(lines: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that never stops writing what is no message is given up, with a sentence that says so."""
    monkeypatch.setattr(limits, "MAX_RPC_NOISE", 200_000)
    async with open_wire() as wire, trio.open_nursery() as nursery:

        async def flood() -> None:
            while True:
                await wire.say(lines)

        nursery.start_soon(flood)
        closed = await wire.connection.wait_closed()
        nursery.cancel_scope.cancel()

    assert ("flooded", "it writes too much that is not a message") == (closed.kind, closed.message)


@pytest.mark.parametrize("line", [b"x", b"{x}", b'{"method":"n"}', b'{"id":0,"result":0}'])
async def test_others_have_their_turn_during_a_flood(line: bytes) -> None:
    """While a pipe full of short lines is looked at, everybody else runs again and again."""
    turns, over = 0, False

    async def take_turns() -> None:
        nonlocal turns
        while not over:
            turns += 1
            await trio.lowlevel.checkpoint()

    count = 60_000 // (len(line) + 1)
    async with open_wire() as wire:
        async with trio.open_nursery() as nursery:
            await wait_all_tasks_blocked()
            os.write(wire.writes.fileno(), (line + b"\n") * count + b'{"id":"last","method":"a"}\n')
            nursery.start_soon(take_turns)
            await wire.lines(1)  # the refusal of the last request
            over = True

    assert turns > count / 130


async def test_a_handler_of_nonsense_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    """What fails in hearing of an unusable line stands in the log, and the next message is handled as usual."""

    def hear(line: bytes, reason: str) -> None:
        raise ValueError(f"{line!r}: {reason}")

    async with open_wire(handle_unusable=hear) as wire:
        await wire.say(b'hello\n{"id":1,"method":"a"}\n')
        assert b"-32601" in (await wire.lines(1))[0]

    assert "b'hello': not a JSON object" in caplog.text


async def test_a_peer_that_closes_its_input_is_gone() -> None:
    """A peer that lives but closed its stdin fails requests at once, and not at their timeout."""
    async with open_wire() as wire:
        await wire.reads.aclose()
        with pytest.raises(RpcClosed) as caught:
            await wire.connection.request("a")
        assert CloseReason(kind="write_failed", detail="Broken pipe") == caught.value.closed == wire.connection.closed


@pytest.mark.parametrize("noise", [b"", b"x\n" * 1_000], ids=["at once", "behind noise"])
@pytest.mark.parametrize("behind_others", [False, True])
async def test_what_was_said_before_the_end_counts(behind_others: bool, noise: bytes) -> None:  # noqa: FBT001
    """A reply that a dying peer had already written is delivered, although the next write finds the peer gone."""
    results: dict[str, Any] = {}

    async def ask(connection: RpcConnection, method: str) -> None:
        try:
            results[method] = await connection.request(method)
        except RpcClosed as error:
            results[method] = error.closed.kind

    async with open_wire() as wire, trio.open_nursery() as nursery:
        nursery.start_soon(ask, wire.connection, "first")
        await wire.lines(1)
        await wait_all_tasks_blocked()
        if behind_others:
            nursery.start_soon(ask, wire.connection, "unanswered")
            await wire.lines(1)
        await wire.reads.aclose()
        # At once, so that nobody has read it yet.
        os.write(wire.writes.fileno(), noise + b'{"id":1,"result":"last words"}\n')
        wire.connection._send(b"{}\n")

    assert {"first": "last words", **({"unanswered": "write_failed"} if behind_others else {})} == results


async def test_plain_descriptors_keep_their_mode() -> None:
    """Descriptors given by number do not block while the connection uses them, and are as before afterwards."""
    reads, writes = os.pipe()
    try:
        async with open_connection(reads, writes) as connection:
            assert (False, False) == (os.get_blocking(reads), os.get_blocking(writes))
            with pytest.raises(RpcFailed, match="no method"):  # it talks to itself
                await connection.request("a", timeout=10)
        assert (True, True) == (os.get_blocking(reads), os.get_blocking(writes))
    finally:
        os.close(reads)
        os.close(writes)


async def test_sockets_are_fine_too() -> None:
    """Over a pair of sockets both sides ask at once, with messages larger than any buffer of the system."""

    async def handle(request: Request) -> Any:
        return request.params

    ours, theirs = trio.socket.socketpair()
    async with trio.SocketStream(ours) as left, trio.SocketStream(theirs) as right:
        connect = partial(open_connection, handle_request=handle)
        async with connect(left, left) as one, connect(right, right) as other, trio.open_nursery() as nursery:

            async def ask(connection: RpcConnection, size: int) -> None:
                params = {"text": "x" * size}
                assert params == await connection.request("a", params)

            for size in (1, 1_000_000, 10):
                nursery.start_soon(ask, one, size)
                nursery.start_soon(ask, other, size)


async def test_a_closed_stream_is_an_end() -> None:
    """Closing our own streams under the connection ends it with a reason, and touches no other descriptor."""
    their_in, our_out = os.pipe()
    our_in, their_out = os.pipe()
    async with trio.lowlevel.FdStream(their_in), trio.lowlevel.FdStream(their_out):
        async with trio.lowlevel.FdStream(our_in) as source, trio.lowlevel.FdStream(our_out) as sink:
            async with open_connection(source, sink) as connection:
                await wait_all_tasks_blocked()
                await source.aclose()
                assert "read_failed" == (await connection.wait_closed()).kind
                await sink.aclose()
                with pytest.raises(RpcClosed):
                    await connection.request("a")
