"""Snapshots of long sessions, and encoding events for many readers."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

import trio
import trio.testing

from bench.limits_of_trio import Audience
from bench.material import DELTA, session_with_deltas, session_with_messages
from bench.measure import Result, best_calls, collector_off
from session_core.ids import SessionId
from session_core.stream.event_stream import EventStream
from session_core.stream.subscription import Subscription
from session_core.vocabulary.events import SessionEvent
from session_core.wire import codec

# --- snapshots --------------------------------------------------------------------------------------------------------


def measure_snapshot() -> Result:
    """A snapshot of a very long session costs as much as one of a short session."""
    few, many = session_with_messages(10), session_with_messages(100_000)
    begun, long = session_with_deltas(10), session_with_deltas(100_000)
    messages = list(many.state.messages)
    snapshots = best_calls(40, 300, few.snapshot, many.snapshot, begun.snapshot, long.snapshot)
    (list_copy,) = best_calls(10, 10, messages.copy)
    return Result(
        name="snapshot",
        title="snapshot of a session with 100,000 messages / with 10",
        ratio=max(snapshots[1] / snapshots[0], snapshots[3] / snapshots[2]),
        target=1.5,
        comparison="at most",
        details={
            "10 messages, µs": snapshots[0],
            "100,000 messages, µs": snapshots[1],
            "unfinished answer of 10 pieces, µs": snapshots[2],
            "unfinished answer of 100,000 pieces, µs": snapshots[3],
            "messages held, of 100,000": len(messages),
            "copy of a list of the messages held, µs": list_copy,
            "list copy / snapshot, at 100,000 messages": list_copy / snapshots[1],
        },
    )


# --- encoding ---------------------------------------------------------------------------------------------------------

READERS = 1_000
EVENTS = 64
SESSION = SessionId("ses_measured")


def measure_encode() -> Result:
    """However many network readers there are, each event is encoded once."""
    return trio.run(_encode)


async def _encode() -> Result:
    stream, audience = EventStream(), Audience(READERS)
    with counted_encodings() as encodings:
        async with trio.open_nursery() as nursery:
            await nursery.start(stream.run)
            for _ in range(READERS):
                nursery.start_soon(_read, stream.subscribe(SESSION, max_bytes=1_000_000), audience)
            await trio.testing.wait_all_tasks_blocked()
            audience.expect(READERS * EVENTS)
            events = [stream.publish(SESSION, DELTA) for _ in range(EVENTS)]
            await audience.caught_up()
            nursery.cancel_scope.cancel()
        real = encodings()
    shared = _seconds_for_all(codec.encode_event, [SessionEvent(e.seq, e.sseq, SESSION, e.at, DELTA) for e in events])
    each = _seconds_for_all(codec.encode, events)
    deliveries = READERS * EVENTS
    return Result(
        name="encode",
        title="encodings per event, 1,000 network readers",
        ratio=real / EVENTS,
        target=1,
        comparison="at most",
        details={
            "events": EVENTS,
            "encodings": real,
            "one encoding for all readers, µs per delivery": shared / deliveries * 1e6,
            "an encoding for each reader, µs per delivery": each / deliveries * 1e6,
            "times faster than encoding for each": each / shared,
        },
    )


async def _read(subscription: Subscription, audience: Audience) -> None:
    while True:
        batch = await subscription.receive_batch()
        b"\n".join([codec.encode_event(event) for event in batch])
        audience.took(len(batch))


@contextmanager
def counted_encodings() -> Generator[Callable[[], int]]:
    """Count how often the codec encodes something during the block."""
    count, original = 0, codec.encode

    def counting(value: object) -> bytes:
        nonlocal count
        count += 1
        return original(value)

    codec.encode = counting
    try:
        yield lambda: count
    finally:
        codec.encode = original


def _seconds_for_all(encode: Callable[[SessionEvent], bytes], events: list[SessionEvent]) -> float:
    with collector_off():
        started = time.process_time()
        for _ in range(READERS):
            b"\n".join([encode(event) for event in events])
        return time.process_time() - started
