"""Answers over HTTP that are left halfway."""

from typing import Any

import httpx2

from session_core.httpx2_workaround import hold_body
from tests.session_core.providers._replay_server import STALL, Reply, open_replay_server


async def test_a_body_left_halfway_is_closed_to_its_core() -> None:
    """Closing a response of which one piece was read closes the innermost generator too; holding it twice is fine."""
    async with open_replay_server(Reply(body=(b"data: one\n\n", STALL))) as server, httpx2.AsyncClient() as client:
        response = await client.send(client.build_request("GET", server.base_url), stream=True)
        hold_body(response)
        stream: Any = response.stream
        held = stream._stream._httpcore_stream
        hold_body(response)
        assert held is stream._stream._httpcore_stream
        pieces = response.aiter_raw()
        assert b"data: one\n\n" == await anext(pieces)
        innermost = held._pieces
        assert innermost.ag_frame is not None
        await pieces.aclose()
        await response.aclose()
        await server.wait_until_closed()
        assert innermost.ag_frame is None


def test_a_response_of_another_make_is_left_as_it_is() -> None:
    """A response that holds no such generator is not touched."""
    response = httpx2.Response(200, content=b"whole")
    before = response.stream
    hold_body(response)
    assert response.stream is before
