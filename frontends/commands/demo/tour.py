"""`session-core demo`: plays the scenes on a live service, then prints figures; exit code 0 only if all claims held."""

import shutil
import sys

import trio

import session_core as sc
from frontends.commands.demo.scenes import SCENES, SESSION_CAPACITY, Tour
from frontends.commands.demo.viewer import Stage
from frontends.shared.figures import duration, format_count
from frontends.shared.output import Output

EXIT_OK, EXIT_FAILED = 0, 1
PACE_MS, FAST_PACE_MS = 25, 1
PATIENCE_SECONDS = 120


def main(*, fast: bool = False) -> int:
    """Play the tour on stdout and return the exit code."""
    return trio.run(play, Stage(Output(sys.stdout)), fast)


async def play(stage: Stage, fast: bool) -> int:  # noqa: FBT001 - passed by trio.run
    """Play the whole tour."""
    style = stage.style
    config = sc.ServiceConfig(
        models={"demo": sc.DemoProvider(pace_ms=FAST_PACE_MS if fast else PACE_MS)},
        session_stream_capacity=SESSION_CAPACITY,
        store=sc.MemoryStore(),
    )
    await stage.say(f"{style.bold('session-core')}: a tour with the offline demo model; nothing leaves this process.")
    begun = trio.current_time()
    with trio.move_on_after(PATIENCE_SECONDS) as time_limit:
        async with sc.open_session_service(config) as service, trio.open_nursery() as nursery:
            tour = Tour(service, stage, nursery, fast)
            witnessed = service.subscribe()
            nursery.start_soon(tour.witness.run, witnessed)
            nursery.start_soon(stage.keep_showing)
            for scene in SCENES:
                await scene(tour)
            await figures(tour, trio.current_time() - begun)
            nursery.cancel_scope.cancel(reason="the tour is over")
    if time_limit.cancelled_caught:
        await stage.check(f"the tour ends within {PATIENCE_SECONDS} seconds", holds=False)
    await stage.say()
    if stage.broken:
        await stage.say(style.red(f"{stage.broken} of {stage.checked} claims did not hold."))
        return EXIT_FAILED
    await stage.say(f'{style.green(f"All {stage.checked} claims held.")} Next: {_program()} run "list the files"')
    return EXIT_OK


def _program() -> str:
    """Return how to call this program from here: by its name if the shell would find it."""
    return "session-core" if shutil.which("session-core") else sys.argv[0]


async def figures(tour: Tour, seconds: float) -> None:
    """Print the figures, and check that they add up."""
    say, witness = tour.stage.say, tour.witness
    viewers = [*tour.viewers.values(), *tour.extra]
    published = tour.service.statistics().stream.published
    with trio.move_on_after(5):
        await tour.stage.wait_until(lambda: witness.delivered + witness.missed >= published)
    statistics = tour.service.statistics()
    missed = sum(viewer.missed for viewer in viewers) + witness.missed
    await tour.begin("The figures.")
    await say(f"     events published        {published:>8,}")
    await say(
        f"     events delivered        {sum(v.delivered for v in viewers) + witness.delivered:>8,}"
        f"   to {format_count(len(viewers) + 1, 'reader')}"
    )
    await say(f"     events missed           {missed:>8,}   every one was reported")
    await say(f"     resyncs                 {sum(v.resyncs for v in viewers):>8,}")
    await say(f"     from stop to stopped    {duration(tour.stop_ms):>8}")
    await say(f"     commands performed      {statistics.mailbox.performed:>8,}   {statistics.mailbox.refused} refused")
    await say(f"     time                    {duration(seconds * 1000):>8}")
    await tour.stage.check(
        "the reader of everything: delivered + missed = published",
        holds=witness.delivered + witness.missed == published,
    )
    await tour.stage.check(
        "readers were told exactly the losses that the stream counted", holds=missed == statistics.stream.lagged
    )
