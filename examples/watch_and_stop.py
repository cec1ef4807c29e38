"""Two sessions work at once: one is followed on the screen, the other is stopped in the background.

    python examples/watch_and_stop.py

Shows that a stop reaches exactly one session, keeps the half-finished answer, and reports what it did.
"""

import trio

import session_core as sc


async def watch(feed: sc.Feed) -> None:
    """Print the answer of one session as it comes, until its turn has ended."""
    async for item in feed:
        match item:
            case sc.SessionSnapshot(name=name):
                print(f"watching {name!r}")
            case sc.SessionEvent(event=sc.events.PartDelta(text=text)):
                print(text, end="", flush=True)
            case sc.SessionEvent(event=sc.events.TurnEnded(outcome=outcome)):
                print(f"\nthe watched turn {outcome.status}")
                return
            case _:
                pass  # a real frontend would show more


async def stop_when_it_speaks(service: sc.SessionService, session_id: sc.SessionId) -> None:
    """Wait for the first words of a session, then stop it."""
    async with service.follow(session_id) as feed:
        async for item in feed:
            if isinstance(item, sc.SessionEvent) and isinstance(item.event, sc.events.PartDelta):
                break
    outcome = await service.request_stop(session_id)
    ended = ", ".join(work.kind for work in outcome.ended)
    print(f"\n[background] result: {outcome.result}; ended: {ended}")


async def main() -> None:
    """Run both sessions side by side."""
    config = sc.ServiceConfig(models={"demo": sc.DemoProvider(pace_ms=5)}, store=sc.MemoryStore())
    async with sc.open_session_service(config) as service:
        watched = await service.create_session(name="watched")
        background = await service.create_session(name="background")
        async with trio.open_nursery() as nursery, service.follow(watched.session_id) as feed:
            nursery.start_soon(stop_when_it_speaks, service, background.session_id)
            await service.send_user_message(background.session_id, "count to 1000 slowly")
            await service.send_user_message(watched.session_id, "count to 50")
            await watch(feed)

        kept = (await service.load_session(background.session_id)).transcript[-1]
        print(f"the stopped session kept its half answer, marked as interrupted: {kept.is_interrupted}")
        for summary in (await service.load_service()).sessions:
            print(f"{summary.name}: {summary.activity.name}")


if __name__ == "__main__":
    trio.run(main)
