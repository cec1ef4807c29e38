"""The cost of an event among ten sessions and among a thousand: unrelated sessions must not add to it."""

import random
from collections.abc import Awaitable, Callable

import trio
import trio.testing

from bench.limits_of_trio import Audience
from bench.material import DELTA, new_recorder, streaming_session
from bench.measure import Result, best_times
from session_core.ids import SessionId
from session_core.stream.event_stream import EventStream
from session_core.stream.subscription import Subscription

EVENTS = 2_000
ROUNDS = 8


def measure_sessions() -> Result:
    """An event costs nearly the same among a thousand sessions as among ten."""
    return trio.run(_sessions)


async def _sessions() -> Result:
    async with trio.open_nursery() as nursery:
        works = [await _work(nursery, count, whole=whole) for whole in (False, True) for count in (10, 1_000)]
        await trio.testing.wait_all_tasks_blocked()
        seconds = await best_times(ROUNDS, *works)
        nursery.cancel_scope.cancel()
    few, many, few_whole, many_whole = (each / EVENTS * 1e6 for each in seconds)
    return Result(
        name="sessions",
        title="cost of an event among 1,000 sessions / among 10, one reader each",
        ratio=max(many / few, many_whole / few_whole),
        target=2,
        comparison="at most",
        details={
            "event stream, 10 sessions, µs per event": few,
            "event stream, 1,000 sessions, µs per event": many,
            "event stream, ratio": many / few,
            "Session.record, 10 sessions, µs per event": few_whole,
            "Session.record, 1,000 sessions, µs per event": many_whole,
            "Session.record, ratio": many_whole / few_whole,
        },
    )


async def _work(nursery: trio.Nursery, count: int, *, whole: bool) -> Callable[[], Awaitable[None]]:
    """Open a stream with sessions and a reader for each; return a function that sends events to random ones.

    With `whole`, events go through `Session.record` (journal, fold, publish), else into the stream directly.
    """
    stream, audience = EventStream(), Audience(1)
    await nursery.start(stream.run)
    recorder = new_recorder(stream)
    ids = [SessionId(f"ses_{number}") for number in range(count)]
    sessions = {each: streaming_session(recorder, each) for each in ids} if whole else {}
    for each in ids:
        nursery.start_soon(_read, stream.subscribe(each), audience)
    targets = random.Random(count).choices(ids, k=EVENTS)

    async def send() -> None:
        audience.expect(EVENTS)
        for session_id in targets:
            if whole:
                sessions[session_id].record(DELTA)
            else:
                stream.publish(session_id, DELTA)
            await trio.lowlevel.checkpoint()
        await audience.caught_up()

    return send


async def _read(subscription: Subscription, audience: Audience) -> None:
    while True:
        audience.took(len(await subscription.receive_batch()))
