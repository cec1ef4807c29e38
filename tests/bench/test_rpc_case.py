"""The measurement of requests to another program: it measures what it says, against a real program."""

import math

import pytest

from bench import rpc
from tests._needs import needs_node


@pytest.mark.slow
@needs_node
async def test_requests_are_measured() -> None:
    """The case, in small, gives a ratio and figures that were really measured."""
    result = await rpc._rpc(64, 1)

    assert "rpc" == result.name
    assert all(figure > 0 and math.isfinite(figure) for figure in (result.ratio, *result.details.values()))


@needs_node
async def test_all_ways_ask_the_same() -> None:
    """Our connection, the obvious one and the bare loop get the same answer to the same question."""
    async with rpc.running_peer() as one, rpc.running_peer() as two, rpc.running_peer() as three:
        async with rpc._our_way(one) as ours, rpc._obvious_way(two) as obvious:
            assert [rpc.PARAMS] * 3 == [await ours(), await obvious(), await rpc._bare_way(three)()]
