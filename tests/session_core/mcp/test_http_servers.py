"""Servers over streamable HTTP, on loopback."""

import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import trio

from session_core.mcp.client import open_mcp_servers
from session_core.mcp.config import HttpServer
from tests.session_core.mcp._harness import (
    PATIENCE,
    QUICK,
    Called,
    call,
    failure,
    far,
    http_workshop,
    ready,
    tool_named,
)


async def test_a_server_over_http_works_and_comes_back() -> None:
    """Calls, progress, cancelling and changed lists work; a server that was killed is connected again."""
    async with http_workshop("locked") as (process, port):
        config = far(port, headers={"x-key": "open sesame"})
        async with open_mcp_servers([config], pace=QUICK) as servers:
            await ready(servers, "far")
            called = Called()
            assert "counted to 3" == (await call(servers, "mcp__far__count", called, to=3)).text
            assert called.texts
            assert frozenset({"read", "network"}) == tool_named(servers, "mcp__far__count").effects
            hanging = Called()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(call, servers, "mcp__far__hang", hanging)
                await hanging.happened.wait()
                nursery.cancel_scope.cancel()
            assert "grew" == (await call(servers, "mcp__far__grow")).text
            with trio.fail_after(PATIENCE):
                await servers._connection("far").wait_for_status(lambda status: status.tools == 8)
            process.kill()
            await process.wait()
            # Whichever notices first: the call, or the stream on which the server would tell us things.
            told = await failure(servers, "mcp__far__count", to=1)
            assert told.startswith(
                ("the MCP server 'far' was lost before it answered", "the MCP server 'far' is not available")
            )
            async with http_workshop("locked", str(port)):
                servers.reconnect("far")
                await servers._connection("far").wait_for_status(
                    lambda status: status.state == "ready" and status.tools == 7
                )
                assert "counted to 1" == (await call(servers, "mcp__far__count", to=1)).text


async def test_a_server_that_does_not_let_us_in_says_so() -> None:
    """The reason holds the status of the answer."""
    async with http_workshop("locked") as (_process, port), open_mcp_servers([far(port)], pace=QUICK) as servers:
        with trio.fail_after(PATIENCE):
            assert "HTTP 401" in (await servers.wait_for_state("far", "failed")).reason


async def test_a_server_that_is_not_there_says_so() -> None:
    """Nobody listens at the address: failed, with a reason, and never an exception."""
    with socket.socket() as bound:  # so that nobody else gets this port; nobody listens either
        bound.bind(("127.0.0.1", 0))
        async with open_mcp_servers([far(bound.getsockname()[1])], pace=QUICK) as servers:
            with trio.fail_after(PATIENCE):
                assert "connect" in (await servers.wait_for_state("far", "failed")).reason.lower()


@asynccontextmanager
async def answering(answer: bytes) -> AsyncGenerator[tuple[int, list[bytes]]]:
    """Answer every connection with the same bytes; gives the port and what was asked."""
    asked: list[bytes] = []

    async def serve(stream: trio.SocketStream) -> None:
        asked.append(bytes(await stream.receive_some(65_536)))
        with trio.move_on_after(PATIENCE):
            with suppress(trio.BrokenResourceError):
                await stream.send_all(answer)
                await stream.send_eof()
                async for _ in stream:  # closed with something unread, a socket throws away what the other has not read
                    pass
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, serve, 0)
        yield listeners[0].socket.getsockname()[1], asked
        nursery.cancel_scope.cancel()


async def test_secrets_are_not_redirected() -> None:
    """A redirect to another port of the same host is another origin: it is not followed, and the reason names it."""
    async with answering(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n") as (elsewhere, stolen):
        redirect = f"HTTP/1.1 307 Go\r\nlocation: http://127.0.0.1:{elsewhere}/\r\ncontent-length: 0\r\n\r\n"
        async with answering(redirect.encode()) as (port, asked):
            config = far(port, headers={"authorization": "Bearer s3cret"})
            async with open_mcp_servers([config], pace=QUICK) as servers:
                with trio.fail_after(PATIENCE):
                    reason = (await servers.wait_for_state("far", "failed")).reason
        assert "not followed" in reason
        assert b"Bearer s3cret" in asked[0]
        assert [] == stolen


async def test_an_endless_answer_is_cut_off() -> None:
    """A body beyond the bound, or one that is compressed against our wish, ends the attempt and not our memory."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
    async with answering(head + b"\r\n" + b" " * 17_000_000) as (port, _):
        async with open_mcp_servers([far(port)], pace=QUICK) as servers:
            with trio.fail_after(PATIENCE):
                assert "more than 16,777,216 bytes" in (await servers.wait_for_state("far", "failed")).reason
    async with answering(head + b"content-encoding: gzip\r\n\r\n" + b"\x1f\x8b") as (port, _):
        async with open_mcp_servers([far(port)], pace=QUICK) as servers:
            with trio.fail_after(PATIENCE):
                assert "compresses its answers" in (await servers.wait_for_state("far", "failed")).reason


async def test_headers_are_not_shown() -> None:
    """Neither headers nor environments appear when a configuration is printed."""
    config = HttpServer(name="far", url="https://example.org/mcp", headers={"authorization": "Bearer s3cret"})
    assert "s3cret" not in repr(config)
    assert "s3cret" in json.dumps(dict(config.headers))
