"""A short connection to a service: how long it waits for an answer."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair

import session_core as sc
from frontends.server.daemon.attached_client import ServiceUnreachable, Talk

HEARTBEAT_MS = 5_000


async def test_a_service_that_falls_silent_is_not_waited_for(autojump_clock: MockClock) -> None:
    """A request may take as long as the service gives signs of life; two missed heartbeats end it."""

    async def answer(request: sc.wire.Request) -> Any:
        if request.method == "hello":
            welcome = sc.wire.Welcome(
                contract=sc.wire.CONTRACT,
                version="1",
                epoch=sc.Epoch("e"),
                client_id=sc.ClientId("cli-1"),
                role="controller",
                heartbeat_ms=HEARTBEAT_MS,
            )
            return sc.wire.to_json(welcome)
        return await trio.sleep_forever()

    ours, theirs = memory_stream_pair()
    talk = Talk()
    async with (
        sc.wire.open_connection(theirs, theirs, handle_request=answer) as service,
        sc.wire.open_connection(ours, ours, handle_notification=talk.hear) as connection,
    ):
        await talk.greet(connection, sc.wire.Hello(name="a test"))
        began = trio.current_time()

        async def beat() -> None:
            for _ in range(6):
                await trio.sleep(HEARTBEAT_MS / 1000)
                service.notify_now("heartbeat", sc.wire.to_json(sc.wire.Heartbeat(at=0, feeds=())))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(beat)
            with pytest.raises(ServiceUnreachable, match="did not answer within 10 seconds"):
                await talk.status()
        assert ("cli-1", 40) == (talk.client_id, round(trio.current_time() - began))
