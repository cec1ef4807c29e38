"""Long lines of a peer whose messages are bounded: parsed in order, in a thread, unless they hold too much."""

import json
from typing import Any

import pytest
import trio
from hypothesis import example, given
from hypothesis import strategies as st

from session_core import limits
from session_core.rpc.failures import RpcFailed
from session_core.rpc.fast_json import has_more_values
from session_core.rpc.messages import Notification
from tests.session_core.rpc._pipes import open_wire
from tests.strategies import plain_json

LONG = "x" * (2 * limits.RPC_LONG_LINE)


def line(**message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


def count_values(plain: object) -> int:
    """The separators that JSON needs: one for each value but the first of a container, and one for each container."""
    if isinstance(plain, dict | list):
        members = list(plain.values()) if isinstance(plain, dict) else plain
        return 1 + max(0, len(members) - 1) + sum(map(count_values, members))
    return 0


@given(plain=plain_json, most=st.integers(0, 30))
@example(plain=['a "quoted, [text]"', "{\\", ","], most=3)
def test_values_are_counted_without_what_stands_in_texts(plain: Any, most: int) -> None:
    """A document has more values than allowed if its own commas and brackets say so, whatever its texts hold."""
    assert (count_values(plain) > most) == has_more_values(json.dumps(plain).encode(), most)


@pytest.mark.parametrize("text", [b'"' + b'\\"' * 300_000, b'["' * 300_000, b'"\\', b"[,{" * 300_000])
def test_a_broken_line_is_counted_at_once(text: bytes) -> None:
    """Texts without an end are passed over once, however many quotes they hold."""
    assert has_more_values(text, 0) == text.startswith(b"[")


async def test_long_lines_keep_their_place() -> None:
    """Short messages before and behind long ones are handled in the order in which they came."""
    heard: list[Notification] = []
    async with open_wire(handle_notification=heard.append, max_values=100) as wire:
        sent = [str(number) + (LONG if number % 2 else "") for number in range(6)]
        await wire.say(b"".join(line(method=method) for method in sent))
        await wire.writes.aclose()
        await wire.connection.wait_closed()

    assert sent == [each.method for each in heard]


async def test_a_message_that_holds_too_much_is_refused() -> None:
    """A request and a reply with too many values are not parsed: the sender and the caller are told why."""
    values: list[list[int]] = [[]] * limits.RPC_LONG_LINE
    async with open_wire(max_values=1_000) as wire:
        await wire.say(line(id=1, method="m", params={"values": values}))
        (refusal,) = [json.loads(each) for each in await wire.lines(1)]

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wire.say, line(id=1, result=values))
            with pytest.raises(RpcFailed, match=r"the message has more than 1,000 values"):
                await wire.connection.request("ask")

    assert "the message has more than 1,000 values" == refusal["error"]["message"]
