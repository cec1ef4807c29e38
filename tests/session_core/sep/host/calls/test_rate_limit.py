"""How much an extension may show, post and append."""

from typing import Any

import pytest
from trio.testing import MockClock

from session_core import limits
from session_core.rpc.failures import RpcFailed
from session_core.sep.host.calls.rate_limit import PublishingLimits
from tests.session_core.sep._inbound import SESSION, World, speaking

REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("session/send_message", {"text": "t"}),
    ("session/send_user_message", {"text": "t"}),
    ("session/append_entry", {"entry": {}}),
    ("session/set_model", {"model": "m"}),
    ("ui/request", {"kind": "notify", "message": "m"}),
    ("ui/request", {"kind": "set_status", "status": "s"}),
    ("ui/request", {"kind": "set_title", "title": "t"}),
    ("ui/request", {"kind": "set_widget", "widget": {"kind": "markdown", "text": "t"}}),
]


def test_a_burst_and_then_a_rate() -> None:
    """After a burst only so many come through in a second; each of the others is refused, and all are counted."""
    now, said = [0.0], list[tuple[str, str]]()
    limited = PublishingLimits(lambda *told: said.append(told), rate=10, burst=5, now=lambda: now[0])

    def passed(count: int) -> int:
        refused = 0
        for _ in range(count):
            try:
                limited.spend("one", "ui/request notify")
            except RpcFailed:
                refused += 1
        return count - refused

    assert 5 == passed(20)
    limited.spend("another", "ui/request notify")
    now[0] += 0.25
    assert 2 == passed(20)
    now[0] += 60
    assert 5 == passed(6)
    limit = "an extension may publish 10 times a second, and 5 times in a burst"
    assert [("one", f"requests that were refused: {count}; {limit}") for count in (1, 32)] == said
    with pytest.raises(RpcFailed) as refusal:
        limited.spend("one", "ui/request notify")
    assert (
        -32603,
        f"ui/request notify was refused: {limit}; try again in 100 ms",
        {"code": "rate_limited", "retry_after_ms": 100},
    ) == (refusal.value.code, refusal.value.message, refusal.value.data)


async def test_everything_that_is_published_counts(autojump_clock: MockClock) -> None:
    """All of it comes from one supply per extension: once that is used up, each is refused unseen by the service."""
    world, extension = World(), speaking()
    with world.contexts.dispatch("ext", 1, SESSION) as context, world.contexts.dispatch("two", 1, SESSION) as another:
        for number in range(limits.EXTENSION_PUBLISHES_AT_ONCE):
            method, params = REQUESTS[number % len(REQUESTS)]
            await world.ask(extension, method, {**params, "context": context.wire})
        for method, params in REQUESTS:
            refused = await world.refusal(extension, method, {**params, "context": context.wire})
            assert "100 times a second" in refused.message
        method, params = REQUESTS[0]
        await world.ask(speaking("two"), method, {**params, "context": another.wire})
        await world.ask(extension, "ui/request", {"kind": "confirm", "prompt": "?", "context": context.wire})
        await world.ask(extension, "session/state", {"context": context.wire})
    assert ("ext", "warn") == world.host.logged[0][:2]
