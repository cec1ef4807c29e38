"""Law 4: commands run in the order they were sent, and each gets exactly one reply."""

import attrs
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from session_core.errors import Overloaded
from session_core.ids import ClientId, Cursor, SessionId
from session_core.service.service import AttachedClient, SessionService
from session_core.testing.checked import open_checked_service
from session_core.vocabulary.events import SessionEvent, SessionRenamed
from tests.properties._world import checkpoints, world_config


@attrs.frozen
class Plan:
    """One command: how long its client rests before it, whether the client waits for its reply before it goes on,
    and after how many checkpoints the command is cancelled, if at all."""

    rest: int
    wait: bool
    cancel_after: int | None


plans = st.builds(Plan, st.integers(0, 3), st.booleans(), st.none() | st.integers(0, 4))
clients = st.lists(st.lists(plans, max_size=6), min_size=1, max_size=8)


@attrs.define
class Log:
    """What was sent, in the order it was sent, and the one thing that came back for each."""

    sent: list[str] = attrs.field(factory=list)
    replies: dict[str, list[object]] = attrs.field(factory=dict)

    def replied(self, name: str, reply: object) -> None:
        self.replies.setdefault(name, []).append(reply)

    def names(self, kind: type | str) -> list[str]:
        return [
            name
            for name, (reply,) in self.replies.items()
            if reply == kind or (isinstance(kind, type) and isinstance(reply, kind))
        ]


async def send(client: AttachedClient, session: SessionId, name: str, plan: Plan, log: Log) -> None:
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            if plan.cancel_after is not None:
                nursery.start_soon(cancel_later, scope, plan.cancel_after)
            log.sent.append(name)
            try:
                reply = await client.rename_session(session, name)
            except Overloaded as refused:
                log.replied(name, refused)
            else:
                log.replied(name, reply.cursor)
            nursery.cancel_scope.cancel()
    if name not in log.replies:
        log.replied(name, "cancelled")


async def cancel_later(scope: trio.CancelScope, delay: int) -> None:
    await checkpoints(delay)
    scope.cancel()


async def run_client(service: SessionService, number: int, session: SessionId, plan: list[Plan], log: Log) -> None:
    with service.attach(f"client {number}") as client:
        async with trio.open_nursery() as nursery:
            for count, each in enumerate(plan):
                await checkpoints(each.rest)
                name = f"{number}.{count}"
                if each.wait:
                    await send(client, session, name, each, log)
                else:
                    nursery.start_soon(send, client, session, name, each, log)


@given(plan=clients, mailbox=st.sampled_from([1, 2, 3, 50]), sessions=st.integers(1, 2), rnd=st.random_module())
async def test_in_order_with_one_reply_each(
    *, plan: list[list[Plan]], mailbox: int, sessions: int, rnd: object, autojump_clock: MockClock
) -> None:
    """Many clients at once, a mailbox of any size, cancellations: done in the order sent, one reply each."""
    log = Log()
    async with open_checked_service(world_config(mailbox=mailbox)) as service:
        ids = [(await service.create_session()).session_id for _ in range(sessions)]
        before = service.statistics().mailbox
        async with service.subscribe() as events:
            async with trio.open_nursery() as nursery:
                for number, each in enumerate(plan):
                    nursery.start_soon(run_client, service, number, ids[number % sessions], each, log)
            done = {name_of(e): e for e in await events.receive_batch() if isinstance(e.event, SessionRenamed)}
        after = service.statistics().mailbox

    answered = log.names(Cursor)
    assert list(done) == [name for name in log.sent if name in done], "done in the order of sending"
    assert sorted(log.replies) == sorted(log.sent), "one reply each"
    assert set(answered) <= set(done) <= {*answered, *log.names("cancelled")}, "refused commands did nothing"
    assert [log.replies[name][0] for name in answered] == [
        Cursor(epoch=service.statistics().stream.epoch, seq=done[name].seq) for name in answered
    ], "the reply names the event it produced"
    assert all(done[name].by == ClientId(f"client {name.partition('.')[0]}") for name in done)
    assert (after.waiting, after.performed - before.performed) == (0, len(done))
    told = len(log.names(Overloaded))
    assert told <= after.refused - before.refused <= told + len(log.names("cancelled"))


def name_of(event: SessionEvent) -> str:
    assert isinstance(event.event, SessionRenamed)
    return event.event.name
