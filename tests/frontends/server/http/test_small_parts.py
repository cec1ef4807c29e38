"""RateLimits, the inbox of a handler, and what is written to the log."""

import logging

import pytest
import trio

from frontends.server.http.access_log import WHOLE, AccessLog, redact
from frontends.server.http.hypercorn_guards import Inbox
from frontends.server.http.rate_limits import RateLimits


def test_a_bucket_lets_a_burst_through_and_then_a_steady_rate() -> None:
    """A client may send its burst at once, then one per refill, and is told how long to wait."""
    buckets = RateLimits(per_s=2, at_once=3)

    assert [0, 0, 0] == [buckets.take("a", 10.0) for _ in range(3)]
    assert 0.5 == pytest.approx(buckets.take("a", 10.0))
    assert 0 == buckets.take("b", 10.0)
    assert 0 == buckets.take("a", 10.5)
    assert buckets.take("a", 10.5) > 0
    assert [0, 0, 0] == [buckets.take("a", 1_000.0) for _ in range(3)]
    assert buckets.take("a", 1_000.0) > 0


def test_the_number_of_buckets_is_bounded() -> None:
    """An endless row of new clients does not fill the memory, and those seen lately keep their bucket."""
    buckets = RateLimits(per_s=0.001, at_once=1)
    for number in range(10_000):
        buckets.take("regular", 0.0)
        buckets.take(f"client {number}", 0.0)

    assert 4_096 == len(buckets)
    assert buckets.take("regular", 0.0) > 0


async def test_the_inbox_holds_back_who_sends_too_much(autojump_clock: trio.testing.MockClock) -> None:
    """A reader waits while its handler does not take what came, and goes on when it does."""
    inbox = Inbox()
    put = 0

    async def send() -> None:
        nonlocal put
        for number in range(20):
            await inbox.put({"type": "http.request", "body": number})
            put += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        await trio.testing.wait_all_tasks_blocked()
        assert 8 == put
        assert list(range(20)) == [(await inbox.receive())["body"] for _ in range(20)]


async def test_the_end_passes_a_full_inbox(autojump_clock: trio.testing.MockClock) -> None:
    """The end never waits, lets the waiting reader go, and comes after what was there before."""
    inbox = Inbox()
    async with trio.open_nursery() as nursery:
        for number in range(12):
            nursery.start_soon(inbox.put, {"type": "http.request", "body": number})
        await trio.testing.wait_all_tasks_blocked()
        with trio.fail_after(1):
            await inbox.put({"type": "http.disconnect"})

    await inbox.put({"type": "http.request", "body": "late"})
    taken = [await inbox.receive() for _ in range(10)]

    assert inbox.ended
    assert ["http.request"] * 8 + ["http.disconnect"] * 2 == [message["type"] for message in taken]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/login?code=abc", "/login?code=***"),
        ("/x?a=1&token=abc&b=2", "/x?a=1&token=***&b=2"),
        ("/x?TOKEN=abc", "/x?TOKEN=***"),
        ("Authorization: Bearer sct_abc", "Authorization: Bearer ***"),
        ("cookie: session-core-1=abc", "cookie: ***"),
        ('{"token": "abc"}', '{"token": "***"}'),
        ("/x?encode=abc&decoded=1", "/x?encode=abc&decoded=1"),
        ("/x\r\n127.0.0.1 GET /", "/x\\x0d\\x0a127.0.0.1 GET /"),
    ],
)
def test_secrets_do_not_reach_the_log(text: str, shown: str) -> None:
    """The values of codes, tokens, Authorization and cookies are taken out, and no request can forge a line."""
    assert shown == redact(text)


async def test_a_request_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A client that leaves with its whole answer makes one line with the status, and one that leaves early another."""
    caplog.set_level(logging.INFO, logger="frontends.server.http.access")
    for whole in ({WHOLE: 200}, {}):
        request = {"method": "HEAD", "path": "/healthz", "query_string": b"", "client": ("127.0.0.1", 5), **whole}
        await AccessLog().access(request, None, 0.001)
        await AccessLog().access(request, {"status": 200}, 0.001)

    lines = [record.getMessage() for record in caplog.records]
    assert ["127.0.0.1 HEAD /healthz 200 1.0 ms", "127.0.0.1 HEAD /healthz left 1.0 ms"] == lines


async def test_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """A request makes one line: who, what, how it ended, how long it took; no header and no secret."""
    caplog.set_level(logging.INFO, logger="frontends.server.http.access")
    request = {
        "method": "GET",
        "path": "/login",
        "query_string": b"code=hush",
        "client": ("127.0.0.1", 5),
        "headers": [(b"authorization", b"Bearer hush")],
    }

    await AccessLog().access(request, {"status": 303}, 0.0012)

    assert ["127.0.0.1 GET /login?code=*** 303 1.2 ms"] == [record.getMessage() for record in caplog.records]
