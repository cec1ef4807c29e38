"""Clients that mean no good, over bare sockets."""

import contextlib
import json
import logging
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from frontends.server.http.settings import HttpSettings
from session_core.testing.scripted import text
from tests.frontends.server.http._listener import PLENTY, open_listener, read_all, until


@pytest.fixture(autouse=True)
def no_bug_is_met(caplog: pytest.LogCaptureFixture) -> Generator[None]:
    """Nothing that a client sends is a bug of ours: it would let anybody fill the log."""
    yield
    assert [] == [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def statuses(answer: bytes) -> list[int]:
    """The statuses of all answers in these bytes."""
    return [int(each) for each in re.findall(rb"HTTP/1\.1 (\d\d\d) ", answer)]


async def test_requests_that_two_readers_read_differently_are_refused(tmp_path: Path) -> None:
    """What one server in a row might end elsewhere than the next one is refused, and nothing after it is looked at."""
    hidden = b'{"name":"smuggled"}'
    async with open_listener(tmp_path) as world:
        next_one = world.head(
            "/v1/commands/create_session",
            "Content-Type: application/json",
            f"Content-Length: {len(hidden)}",
            method="POST",
        )
        json_type = "Content-Type: application/json"
        for headers, body in [
            (["Content-Length: 4", "Transfer-Encoding: chunked"], b"0\r\n\r\n"),
            (["Transfer-Encoding: chunked", "Content-Length: 0"], b"0\r\n\r\n"),
            (["Content-Length: 3", "Content-Length: 5"], b"{}   "),
            (["Content-Length: +5"], b"{}   "),
            (["Content-Length: 0x5"], b"{}   "),
            (["Content-Length: " + "9" * 5_000], b"{}   "),
            (["Transfer-Encoding: xchunked"], b"0\r\n\r\n"),
            (["Transfer-Encoding: chunked, identity"], b"0\r\n\r\n"),
            (["Transfer-Encoding : chunked"], b"0\r\n\r\n"),
            (["Transfer-Encoding: chunked"], b"zz\r\n\r\n0\r\n\r\n"),
            (["Host: evil.example"], b""),
            (["a\0b: c"], b""),
            (["bad name: c"], b""),
        ]:
            sent = world.head("/v1/commands/list_sessions", json_type, *headers, method="POST") + body
            answer = await world.exchange(sent + next_one + hidden)
            assert [400] == statuses(answer), (headers, answer)
        assert () == (await world.service.load_service()).sessions


async def test_other_protocols_are_not_spoken(tmp_path: Path) -> None:
    """Neither HTTP/2 without TLS, by upgrade or from the start, nor proxying, nor anything else is taken up."""
    async with open_listener(tmp_path) as world:
        upgrade = world.head(
            "/v1/status", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk"
        )
        upgraded = await world.exchange(upgrade.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))

        assert [200] == statuses(upgraded)
        for sent in [
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            world.head("http://evil.example/v1/status"),
            world.head("*", method="OPTIONS"),
            world.head("evil.example:443", method="CONNECT"),
            b"GET /v1/status HTTP/3.0\r\nHost: x\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"\r\n" * 10 + b"x\r\n\r\n",
            b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET / HTTP/1.1\r\n\r\n",
        ]:
            assert [400] == statuses(await world.exchange(sent)), sent


async def test_an_endless_head_is_refused(tmp_path: Path) -> None:
    """A head of more than its bound is answered with 431, however it comes, and not kept."""
    async with open_listener(tmp_path) as world:
        one_line = await world.exchange(b"GET /" + b"a" * 20_000)
        many_lines = await world.exchange(world.head("/v1/status")[:-2] + b"x: y\r\n" * 5_000)

        assert [431, 431] == statuses(one_line + many_lines)


async def test_a_body_that_is_too_large_is_refused_however_it_comes(tmp_path: Path) -> None:
    """Announced or not, a body over its bound gets 413, even while the client goes on sending, and nothing is done."""
    bounds = attrs.evolve(PLENTY, body_bytes=100_000)
    body = json.dumps({"name": "x" * 200_000}).encode()
    address, kind = "/v1/commands/create_session", "Content-Type: application/json"
    async with open_listener(tmp_path, settings=HttpSettings(bounds=bounds)) as world:
        length = f"Content-Length: {len(body)}"
        announced = world.head(address, kind, length, "Connection: close", method="POST") + body
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in [body[:65_000], body[65_000:130_000], body])
        chunked = world.head(address, kind, "Transfer-Encoding: chunked", "Connection: close", method="POST") + chunks
        endless = world.head(address, kind, "Content-Length: 99999999", method="POST") + body

        for sent in [announced, chunked, endless]:
            answer = await world.exchange(sent)
            assert [413] == statuses(answer)
            assert b'"code":"invalid_input"' in answer
        assert () == (await world.service.load_service()).sessions


async def test_slow_requests_have_their_time(tmp_path: Path) -> None:
    """Who sends nothing, half a head, half a body, or rests too long between two requests, is disconnected."""
    for bound in ("head_s", "body_s", "idle_s"):
        short: dict[str, Any] = {bound: 0.3}
        bounds = attrs.evolve(PLENTY, **short)  # all others are longer than anybody waits here
        async with open_listener(tmp_path, settings=HttpSettings(bounds=bounds)) as world:
            kind, length = "Content-Type: application/json", "Content-Length: 10"
            half = world.head("/v1/commands", kind, length, method="POST") + b"{"
            slow: dict[str, list[tuple[bytes, list[int]]]] = {
                "head_s": [(b"", []), (b"GET / HT", []), (world.head("/v1/status")[:-2], [])],
                "body_s": [(half, [])],
                "idle_s": [(world.head("/v1/status"), [200])],
            }
            for sent, answers in slow[bound]:
                assert answers == statuses(await world.exchange(sent)), sent


async def test_a_drop_at_a_time_does_not_put_off_the_end(tmp_path: Path) -> None:
    """A head that comes one byte at a time has the same time in all as one that does not come."""
    bounds = attrs.evolve(PLENTY, head_s=0.5)
    async with open_listener(tmp_path, settings=HttpSettings(bounds=bounds)) as world, await world.raw() as stream:
        with trio.fail_after(300), contextlib.suppress(trio.BrokenResourceError):
            while True:
                await stream.send_all(b"x")
                await trio.sleep(0.02)  # a drop at a time; more of them than make a head that is too long take minutes


async def test_an_answer_that_nobody_reads_has_its_time(tmp_path: Path) -> None:
    """A client that asks for much and reads nothing is disconnected after a while."""
    much = text(*["x" * 1_000_000] * 12)
    bounds = attrs.evolve(PLENTY, write_s=0.5)
    async with open_listener(tmp_path, much, settings=HttpSettings(bounds=bounds)) as world:
        made = (await world.service.create_session(name="x")).session_id
        await world.service.send_user_message(made, "go")
        await world.service.wait_for_turn(made)
        async with await world.raw() as stream:
            await stream.send_all(world.head(f"/v1/sessions/{made}"))
            assert b"H" == await stream.receive_some(1)
            await until(lambda: not world.listener.connections)
            assert len(await read_all(stream)) < 12_000_000


async def test_only_so_many_may_connect(tmp_path: Path) -> None:
    """One connection too many is told so and closed; when another one leaves there is room again."""
    bounds = attrs.evolve(PLENTY, connections_per_address=3)
    async with open_listener(tmp_path, settings=HttpSettings(bounds=bounds)) as world:
        held = [await world.raw() for _ in range(3)]
        for stream in held:
            await stream.send_all(world.head("/healthz"))
            assert (await stream.receive_some(10_000)).startswith(b"HTTP/1.1 200 ")
        refused = await world.exchange(b"")
        await held.pop().aclose()
        await until(lambda: len(world.listener.connections) == 2)
        again = await world.exchange(world.head("/healthz", "Connection: close"))
        for stream in held:
            await stream.aclose()

        assert [429] == statuses(refused)
        assert b"retry-after: 1\r\n" in refused
        assert [200] == statuses(again)
        assert 1 == world.listener.connections.refused


async def test_pipelined_requests_are_answered_in_order(tmp_path: Path) -> None:
    """Requests sent ahead are answered one after the other, and none of them is lost."""
    async with open_listener(tmp_path) as world:
        many = world.head("/healthz") * 20 + world.head("/nothing", "Connection: close")

        assert [200] * 20 + [404] == statuses(await world.exchange(many))


UPGRADE = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: " + "A" * 22 + "==",
)


async def test_a_websocket_message_that_is_too_long_ends_it(tmp_path: Path) -> None:
    """A message over the bound is told so (1009) and the connection ends; compression is not taken up."""
    bounds = attrs.evolve(PLENTY, body_bytes=1_000)
    async with open_listener(tmp_path, settings=HttpSettings(bounds=bounds)) as world:
        frame = b"\x81\xfe" + (2_000).to_bytes(2, "big") + b"\0\0\0\0" + b"x" * 2_000
        head = world.head("/v1/ws", *UPGRADE, "Sec-WebSocket-Extensions: permessage-deflate")
        async with await world.raw() as stream:
            await stream.send_all(head)
            accepted = await stream.receive_some(10_000)
            await stream.send_all(frame)
            answer = await read_all(stream)

        assert [101] == statuses(accepted)
        assert b"extensions" not in accepted
        assert b"\x88\x02\x03\xf1" in answer


async def test_broken_websockets_are_refused(tmp_path: Path) -> None:
    """An upgrade that is not complete and frames that break the rules end the connection, and nothing else."""
    async with open_listener(tmp_path) as world:
        no_key = await world.exchange(world.head("/v1/ws", *UPGRADE[:3]))
        elsewhere = await world.exchange(world.head("/v1/status", *UPGRADE))
        for frame in [
            b"\x81\x02{}",  # no mask
            b"\x81\x82\0\0\0\0\xff\xfe",  # not UTF-8
            b"\xf1\x82\0\0\0\0{}",  # bits that mean nothing
            b"\x83\x82\0\0\0\0{}",  # a kind that means nothing
            b"\x80\x82\0\0\0\0{}",  # goes on with what has not begun
            b"\x89\xfe\x01\x00\0\0\0\0" + b"x" * 256,  # a ping that is too long
            b"\x81\xff" + b"\xff" * 8 + b"\0\0\0\0",  # a length without an end
            b"\x88\x81\0\0\0\0x",  # half a code
            b"\x88\x80\0\0\0\0",  # leaves
        ]:
            async with await world.raw() as stream:
                await stream.send_all(world.head("/v1/ws", *UPGRADE))
                assert [101] == statuses(await stream.receive_some(10_000))
                await stream.send_all(frame)
                assert (await read_all(stream))[:1] in {b"", b"\x88"}, frame

        assert [400, 404] == statuses(no_key + elsewhere)
        await until(lambda: not world.server.connections)


async def test_requests_beyond_the_bound_of_large_bodies_wait(tmp_path: Path) -> None:
    """Only so many large bodies are in memory at once; another one waits and is read when there is room."""
    bounds = attrs.evolve(PLENTY, large_bodies=1)
    body = json.dumps({"name": "x" * 1_500_000}).encode()
    head_of = ("/v1/commands/create_session", "Content-Type: application/json", f"Content-Length: {len(body)}")
    async with open_listener(tmp_path, settings=HttpSettings(bounds=bounds)) as world:
        head = world.head(*head_of, "Connection: close", method="POST")
        async with await world.raw() as slow:
            await slow.send_all(head + body[:-1])
            done: list[bytes] = []

            async def other() -> None:
                done.append(await world.exchange(head + body))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(other)
                await until(lambda: world.listener.app.routes.large.statistics().tasks_waiting == 1)
                assert [] == done
                await slow.send_all(body[-1:])
                assert [400] == statuses(await read_all(slow))  # the name is too long
        assert [400] == statuses(done[0])
