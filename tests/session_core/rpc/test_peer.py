"""The bookkeeping: each request has one outcome, and what comes in without sense is counted."""

import time
from functools import partial
from itertools import pairwise
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core import limits
from session_core.errors import InvalidInput
from session_core.rpc.messages import FailureReply, Notification, Request, SuccessReply
from session_core.rpc.peer import RefusedRequest, RpcPeer, RpcStatistics, SettledRequest

NOTHING = RpcStatistics(pending=0, blank=0, garbage=0, oversized=0, late=0, unknown=0)


def counts(peer: RpcPeer[str]) -> dict[str, int]:
    """Those counts that are not zero."""
    return {name: count for name, count in attrs.asdict(peer.statistics()).items() if count}


def understood(peer: RpcPeer[Any]) -> list[Any]:
    """All that was received, portion by portion."""
    found: list[Any] = []
    while peer.has_unread:
        found += peer.take_portion()
    return found


def received(peer: RpcPeer[Any], data: bytes) -> list[Any]:
    """What these bytes mean."""
    peer.receive(data)
    return understood(peer)


def note(heard: list[tuple[str, bytes]], line: bytes, reason: str) -> None:
    """Remember a line that could not be used."""
    heard.append((reason, line))


def test_ids_are_our_own() -> None:
    """Ids count up from 1, and what the other side numbers in the same way is not confused with them."""
    peer = RpcPeer[str]()

    assert (1, b'{"jsonrpc":"2.0","id":1,"method":"a","params":{}}\n') == peer.request("a", None, "first")
    assert 2 == peer.request("b", {"x": 1}, "second")[0]
    assert [
        Request(id=1, method="theirs", params={}),
        Notification(method="told", params={}),
        SettledRequest(waiter="second", reply=SuccessReply(id=2, result="r")),
        SettledRequest(waiter="first", reply=FailureReply(id=1, code=5, message="m")),
    ] == received(
        peer,
        b'{"id":1,"method":"theirs"}\n{"method":"told"}\n{"id":2,"result":"r"}\n'
        b'{"id":1,"error":{"code":5,"message":"m"}}\n',
    )
    assert NOTHING == peer.statistics()


def test_a_request_that_cannot_be_written_is_not_opened() -> None:
    """Params that are no JSON open nothing and use no id."""
    peer = RpcPeer[str]()
    with pytest.raises(InvalidInput):
        peer.request("a", {"x": object()}, "waiter")

    assert NOTHING == peer.statistics()
    assert 1 == peer.request("a", None, "waiter")[0]


def test_late_double_and_unknown_replies_are_counted() -> None:
    """A reply to a request that was given up, to one already answered, and to none at all settle nothing."""
    peer = RpcPeer[str]()
    peer.request("a", None, "given up")
    peer.request("b", None, "answered")

    assert b'{"jsonrpc":"2.0","method":"$/cancel","params":{"id":1}}\n' == peer.give_up(1)
    assert None is peer.give_up(1)
    assert 1 == len(received(peer, b'{"id":2,"result":1}\n'))
    assert [] == received(
        peer, b'{"id":1,"result":1}\n{"id":2,"result":1}\n{"id":3,"result":1}\n{"id":"1","result":1}\n'
    )
    assert [] == received(peer, b'{"id":null,"error":{"code":-32700,"message":"what?"}}\n')
    assert {"late": 2, "unknown": 3} == counts(peer)


def test_garbage_is_counted_and_passed_over() -> None:
    """Blank lines, text that is no message and broken bytes leave the messages around them alone."""
    peer = RpcPeer[str]()

    found = received(peer, b'\n \nListening on port 80\n\xff\xfe\n[]\nnull\n5\n{"method":"ok"}\n')

    assert [Notification(method="ok", params={})] == found
    assert {"blank": 2, "garbage": 5} == counts(peer)


@pytest.mark.parametrize(
    ("line", "counted"),
    [
        (b'{"id":1,"result":"' + b"x" * 200 + b'"}', "oversized"),
        (b'{"id":1,"result":NaN}', "garbage"),
        (b'{"id":1,"error":{"message":"no code"}}', "garbage"),
    ],
)
def test_an_unreadable_reply_fails_its_request(line: bytes, counted: str) -> None:
    """Whoever waits for a reply that cannot be used is told at once, and only once."""
    peer = RpcPeer[str](max_line=100)
    peer.request("a", None, "waiter")

    [settled] = received(peer, line + b"\n" + line + b"\n")

    assert isinstance(settled, SettledRequest)
    assert isinstance(settled.reply, FailureReply)
    assert ("waiter", -32603) == (settled.waiter, settled.reply.code)
    assert {counted: 2} == counts(peer)


def test_an_unreadable_request_is_refused() -> None:
    """Whoever sends a request that cannot be used is told, if it can be seen who."""
    peer = RpcPeer[str](max_line=100)

    found = received(
        peer,
        b'{"id":"q","method":"a","params":{"x":"' + b"x" * 100 + b'"}}\n{"id":8,"method":"a","params":[]}\n'
        b'{"method":"a","params":[]}\n' + b"x" * 200 + b"\n",
    )

    assert ["q", 8] == [item.id for item in found if isinstance(item, RefusedRequest)]
    assert 2 == len(found)
    assert {"oversized": 2, "garbage": 2} == counts(peer)


MESSAGE = b'{"method":"sense"}\n'


@pytest.mark.parametrize(
    ("piece", "bound"),
    [
        (b"x" * 16_000, "MAX_RPC_SKIPPED"),
        (b"x" * 16_000 + b"\n", "MAX_RPC_SKIPPED"),
        (b"x" * 935 + b"\n" + b"\n", "MAX_RPC_NOISE"),
        (b"{" + b"x" * 935 + b"}\n", "MAX_RPC_NOISE"),
        (b" \t\r\n\n" * 200, "MAX_RPC_NOISE"),
        (b"\n" * 1_000, "MAX_RPC_NOISE"),
        (b"\r\n{x\n{}\n[]\n" * 5, "MAX_RPC_NOISE"),
        (b'{"id":1,"result":0}\n' * 8 + b'{"id":2,"result":0}\n' * 8, "MAX_RPC_NOISE"),
    ],
    ids=["one line", "long lines", "text", "broken", "blank", "empty", "mixed", "replies"],
)
def test_a_flood_is_noticed(piece: bytes, bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Far too much of no use between two messages is a flood, whatever it is; a message starts it anew."""
    monkeypatch.setattr(limits, bound, 16 * (16_000 if bound == "MAX_RPC_SKIPPED" else 1_000))
    peer = RpcPeer[str](max_line=1_000)
    peer.request("a", None, "waiter")
    assert 1 == len(received(peer, b'{"id":1,"result":0}\n'))
    for _ in range(2):
        for _ in range(12):
            received(peer, piece)
        assert not peer.is_flooded
        assert 1 == len(received(peer, b"\n" + MESSAGE))
        assert not peer.is_flooded
    for _ in range(17):
        received(peer, piece)

    assert peer.is_flooded


def test_large_replies_that_come_late_are_no_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer whose answers nobody wanted to wait for is not given up for their size."""
    monkeypatch.setattr(limits, "MAX_RPC_NOISE", 10_000)
    peer = RpcPeer[str]()
    for number in range(1, 101):
        peer.request("a", None, "waiter")
        peer.give_up(number)
        received(peer, b'{"id":%d,"result":"%s"}\n' % (number, b"x" * 5_000))

    assert {"late": 100} == counts(peer)
    assert not peer.is_flooded


@pytest.mark.parametrize(
    ("line", "most"), [(b"x", 64), (b"{x}", 64), (MESSAGE.strip(), 64), (b"x" * 1_000, 9), (b"x" * 40_000, 1)]
)
def test_a_portion_is_small(line: bytes, most: int) -> None:
    """However many lines came at once, a portion is of few of them and of few bytes, and no line is left out."""
    heard: list[bytes] = []
    peer = RpcPeer[str](handle_unusable=lambda line, _: heard.append(line))
    count = 3 * most + 1
    peer.receive((line + b"\n") * count + MESSAGE)
    sizes, found = [], 0
    while peer.has_unread:
        before = found + len(heard)
        found += len(peer.take_portion())
        sizes.append(found + len(heard) - before)

    assert [most] * 3 == sizes[:3]
    assert max(sizes) == most
    assert count + 1 == sum(sizes)


@pytest.mark.parametrize(
    "piece",
    [b"\n" * 65_536, b" \r\n" * 21_845, b"x\n" * 32_768, b"{x\n" * 21_845],
    ids=["empty", "blank", "text", "open"],
)
def test_tiny_lines_are_cheap(piece: bytes) -> None:
    """What is no message at first sight costs no parsing: a pipe full of it takes milliseconds, not a second."""
    peer = RpcPeer[str]()
    times: list[float] = []
    for _ in range(3):
        begin = time.process_time()
        received(peer, piece)
        times.append(time.process_time() - begin)

    assert min(times) < 0.2


def test_what_is_of_no_use_is_told() -> None:
    """Each line that is no message, or the beginning of a long one, is handed to who wants it, with the reason."""
    heard: list[tuple[bytes, str]] = []
    peer = RpcPeer[str](max_line=10_000, handle_unusable=lambda line, reason: heard.append((line, reason)))
    received(peer, b"hello\n \n\n" + MESSAGE + b'{"id":7}\n{"a":\n' + b"y" * 9_000 + b"\n" + b"z" * 11_000 + b"\n")

    assert [
        (b"hello", "not a JSON object"),
        (b'{"id":7}', "neither method, result nor error is there"),
        (b'{"a":', "the JSON object has no end"),
        (b"y" * limits.RPC_HEAD_BYTES, "not a JSON object"),
        (b"z" * limits.RPC_HEAD_BYTES, "the message is too large: 11,000 bytes"),
    ] == heard


def test_the_end_gives_back_all_who_wait() -> None:
    """At the end all waiters come back once, and an unfinished last line still counts if it is whole."""
    peer = RpcPeer[str]()
    peer.request("a", None, "one")
    peer.request("b", None, "two")
    assert [] == received(peer, b'{"id":2,"result":1}')
    peer.finish()

    assert [SettledRequest(waiter="two", reply=SuccessReply(id=2, result=1))] == understood(peer)
    assert ["one"] == peer.close()
    assert [] == peer.close()


@given(
    lines=st.lists(
        st.integers(-1, 9).map(lambda number: b'{"id":%d,"result":0}' % number)
        | st.binary(max_size=70).map(lambda line: line.replace(b"\n", b"{"))
        | st.sampled_from(
            [b"", b" \r", b"junk", b'{"method":"n"}', b'{"id":1,"error":1}', b'{"id":2,"result":"' + b"x" * 90]
        )
    ),
    given_up=st.sets(st.integers(1, 6)),
    places=st.lists(st.integers(0, 1 << 16), max_size=8),
)
def test_every_line_is_accounted_for(lines: list[bytes], given_up: set[int], places: list[int]) -> None:
    """However the bytes are cut, each request settles at most once and every line is a message or is counted."""
    outcomes: list[Any] = []
    for cuts in ([], places):
        heard: list[tuple[str, bytes]] = []
        peer = RpcPeer[int](max_line=60, handle_unusable=partial(note, heard))
        for number in range(1, 7):
            peer.request("m", None, number)
        for number in given_up:
            peer.give_up(number)
        data = b"".join(line + b"\n" for line in lines)
        edges = [0, *sorted(place % (len(data) + 1) for place in cuts), len(data)]
        found = [item for start, end in pairwise(edges) for item in received(peer, data[start:end])]
        outcomes.append((found, peer.statistics(), heard))

    assert outcomes[0] == outcomes[1]
    found, statistics, heard = outcomes[0]
    settled = [item.waiter for item in found if isinstance(item, SettledRequest)]
    assert len(settled) == len(set(settled))
    assert not given_up & set(settled)
    assert 6 - len(given_up) == len(settled) + statistics.pending
    assert statistics.garbage + statistics.oversized == len(heard)
    of_use = [item for item in found if not isinstance(getattr(item, "reply", item), RefusedRequest | FailureReply)]
    counted = attrs.asdict(statistics)
    assert len(lines) == len(of_use) + sum(counted.values()) - statistics.pending
