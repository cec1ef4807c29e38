"""Two frontends show one session while another is stopped in the background: `python examples/two_frontends.py`.

One frontend reads all the time. The other one stalls, misses events, and is given a new snapshot when it reads again.
In the end both show the same state as the service. The model is a small class in this file.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

import trio

import session_core as sc

KEPT = 32  # events kept for readers of one session: very few, so a reader falls behind quickly
HALF = 200  # words in half an answer: far more than that


class Reciter:
    """A model that streams words; any class with such a `stream` method is an `sc.Provider`.

    In the middle of its answer it sets `halfway`, and waits until the `gate` is opened.
    """

    def __init__(self) -> None:
        self.halfway = trio.Event()
        self.gate = trio.Event()

    @asynccontextmanager
    async def stream(self, request: sc.ModelRequest) -> AsyncIterator[AsyncIterator[sc.ProviderEvent]]:
        """Answer one request; a stop cancels it at any checkpoint."""
        async with aclosing(self._answer()) as answer:
            yield answer

    async def _answer(self) -> AsyncGenerator[sc.ProviderEvent, None]:
        for number in range(2 * HALF):
            if number == HALF:
                self.halfway.set()
                await self.gate.wait()
            await trio.lowlevel.checkpoint()  # lets other tasks run between two words
            yield sc.TextChunk(text=f"word{number} ")
        yield sc.ModelFinished()


class Frontend:
    """Shows one session: it folds its feed into a state."""

    def __init__(self) -> None:
        self.state: sc.SessionSnapshot | None = None
        self.resyncs: list[sc.Resync] = []  # the reason of each snapshot
        self.may_read = trio.Event()  # until this is set, it stalls after its first snapshot
        self.has_read = trio.Event()

    async def run(self, service: sc.SessionService, followed: sc.SessionId, task_status: trio.TaskStatus[None]) -> None:
        """Follow the session until its turn has ended."""
        async with service.follow(followed) as feed:
            await self._read(feed)  # the first thing on a feed is a snapshot
            task_status.started()
            await self.may_read.wait()
            while self.state is None or self.state.last_outcome is None:
                await self._read(feed)
                self.has_read.set()

    async def _read(self, feed: sc.Feed) -> None:
        for item in await feed.receive_batch():
            if isinstance(item, sc.SessionSnapshot):
                self.state = item  # a snapshot replaces everything
                assert feed.last_resync is not None
                self.resyncs.append(feed.last_resync)
            elif isinstance(item, sc.SessionEvent) and self.state is not None:
                self.state = sc.apply(self.state, item)


async def stop_one(service: sc.SessionService, background: sc.SessionId, foreground: sc.SessionId) -> None:
    """Stop the background session in the middle of its answer, and check that nothing else happens."""
    running, before = await service.load_session(background), await service.load_session(foreground)
    assert running.turn is not None
    assert running.activity.name == before.activity.name == "streaming"
    outcome = await service.request_stop(background)
    assert outcome.result == "stopped"
    assert outcome.ended == (sc.StoppedWork(kind="turn", session_id=background, id=running.turn.turn_id),)
    kept = (await service.load_session(background)).transcript[-1]
    assert kept.is_interrupted
    assert len(kept.text.split()) == HALF
    print(f"background: {outcome.result}; the {HALF} words it had said are kept")

    # A session numbers its own events (`sseq`), so an equal number means that nothing happened in it.
    after = await service.load_session(foreground)
    assert (after.sseq, after.activity) == (before.sseq, before.activity)
    print(f"foreground: still {after.activity.name}, the stop has not touched it")


async def main() -> None:
    """Bring both sessions to the middle of their answers, stop one, and let the other one finish."""
    near, far = Reciter(), Reciter()
    config = sc.ServiceConfig(models={"near": near, "far": far}, session_stream_capacity=KEPT, store=sc.MemoryStore())
    steady, slow = Frontend(), Frontend()
    steady.may_read.set()
    async with sc.open_session_service(config) as service:
        foreground = (await service.create_session(name="foreground", model="near")).session_id
        background = (await service.create_session(name="background", model="far")).session_id
        with trio.fail_after(10):  # if something never happens, this program fails instead of hanging
            async with trio.open_nursery() as nursery:
                for frontend in (steady, slow):
                    await nursery.start(frontend.run, service, foreground)  # returns once it has its first snapshot
                for session_id, model in ((foreground, near), (background, far)):
                    await service.send_user_message(session_id, "recite")
                    await model.halfway.wait()

                slow.may_read.set()
                await slow.has_read.wait()
                assert [resync.reason for resync in slow.resyncs] == ["initial", "lagged"]
                print(f"slow frontend: missed {slow.resyncs[1].missed} events and was given a second snapshot")

                await stop_one(service, background, foreground)
                near.gate.set()  # the other gate stays closed: the stop ended that wait

        assert len(steady.resyncs) == 1
        print("steady frontend: has needed no snapshot but its first")
        fresh = await service.load_session(foreground)
        assert fresh.activity.name == "idle"
        assert len(fresh.transcript[-1].text.split()) == 2 * HALF
        print(f"foreground: idle again, after {2 * HALF} words")
        assert steady.state == slow.state == fresh  # in every field, even the cursor, because nothing came afterwards
        print("both frontends and a fresh snapshot say the same")


if __name__ == "__main__":
    trio.run(main)
