"""Resume a feed: a recent cursor resumes without a gap, and after a long absence there is one new snapshot.

    python examples/resume_after_lag.py

A frontend does this after a lost connection. The stream is very short here, so a reader falls behind quickly.
"""

import trio

import session_core as sc


async def read_until_rest(feed: sc.Feed, state: sc.SessionSnapshot | None) -> sc.SessionSnapshot:
    """Fold all events into the state until the session is at rest."""
    while True:
        for item in await feed.receive_batch():
            if isinstance(item, sc.SessionSnapshot):
                state = item  # a snapshot replaces everything
            elif isinstance(item, sc.SessionEvent) and state is not None:
                state = sc.apply(state, item)
        if state is not None and state.activity.is_at_rest:
            return state


async def ask(service: sc.SessionService, session_id: sc.SessionId, text: str) -> None:
    """Send a message and wait for the end of its turn."""
    await service.send_user_message(session_id, text)
    await service.wait_for_turn(session_id)


async def main() -> None:
    """Disconnect twice, for a short and for a long time."""
    demo = sc.DemoProvider(pace_ms=0)
    config = sc.ServiceConfig(models={"demo": demo}, session_stream_capacity=64, store=sc.MemoryStore())
    async with sc.open_session_service(config) as service:
        session_id = (await service.create_session(name="long story")).session_id

        async with service.follow(session_id) as feed:
            state = await read_until_rest(feed, None)
            cursor = feed.cursor
        print(f"first visit:  {feed.resyncs} snapshot, {len(state.transcript)} messages")

        await ask(service, session_id, "count to 3")  # few enough events: the stream still holds them all
        async with service.follow(session_id, after=cursor) as feed:
            state = await read_until_rest(feed, state)
            cursor = feed.cursor
        print(f"short absence: {feed.resyncs} snapshots, {len(state.transcript)} messages")

        await ask(service, session_id, "count to 300")  # far more than the stream holds
        async with service.follow(session_id, after=cursor) as feed:
            state = await read_until_rest(feed, state)
            print(f"long absence: {feed.resyncs} snapshot, because the cursor was: {feed.last_resync}")

            # The same without disconnecting: a reader that pauses while 300 words are published.
            await ask(service, session_id, "count to 300")
            state = await read_until_rest(feed, state)
            print(f"slow reader:  {feed.resyncs - 1} more, because: {feed.last_resync}")

        fresh = await service.load_session(session_id)
        print("what was followed equals a fresh look:", state.messages == fresh.messages)


if __name__ == "__main__":
    trio.run(main)
