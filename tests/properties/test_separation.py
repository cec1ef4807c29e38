"""No event crosses sessions: every reader sees its own session's events and nothing of any other."""

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from session_core.errors import InvalidInput, NotFound
from session_core.ids import Cursor, SessionId
from session_core.providers.base import ModelRequest
from session_core.service.service import SessionService
from session_core.session.state import apply
from session_core.stream.follower import FeedItem
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import ScriptedProvider, ScriptItem, TaskSwitch, text, tool_call
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.snapshots import SessionSnapshot
from session_core.wire.codec import encode
from tests.properties._world import Actor, Move, checkpoints, programs, world_config

SESSIONS = 3
ACTIONS = ("send", "send", "send", "stop", "edit", "queue", "settings", "answer", "rest", "let_time_pass")


class EchoingProvider(ScriptedProvider):
    """Answers with the mark found in the conversation, sometimes through a tool."""

    def __init__(self) -> None:
        def answer(request: ModelRequest) -> tuple[ScriptItem, ...]:
            mark = request.messages[0].text.partition(" ")[0]
            if len(request.messages) % 4 == 1:
                return tool_call("change", {"mark": mark})
            return (TaskSwitch(), *text(mark, " says ", "this", thinking=mark))

        super().__init__(*[answer] * 100)


@attrs.define
class MarkingActor(Actor):
    """Says nothing without the mark of the session it says it in."""

    current: SessionId | None = None

    async def perform(self, move: Move) -> None:
        self.current = self.sessions[move.session]
        await super().perform(move)

    def next_text(self) -> str:
        assert self.current is not None
        return f"{mark_of(self.sessions.index(self.current))} {super().next_text()}"


def mark_of(number: int) -> str:
    return f"<mark-{number}>"


class Watcher:
    """Follows one session, leaving and coming back with its cursor again and again."""

    def __init__(self, service: SessionService, session_id: SessionId, stays: list[int]) -> None:
        self.service = service
        self.session_id = session_id
        self.stays = stays
        self.items: list[FeedItem] = []
        self.resumed = 0

    async def run(self) -> None:
        cursor: Cursor | None = None
        for stay in [*self.stays, 10_000]:
            self.resumed += cursor is not None
            async with self.service.follow(self.session_id, after=cursor) as feed:
                for _ in range(stay):
                    self.items.append(await anext(feed))
                cursor = feed.cursor
            await checkpoints(stay)

    def check(self, fresh: SessionSnapshot, others: list[str]) -> None:
        state: SessionSnapshot | None = None
        for item in self.items:
            assert item.session_id == self.session_id  # type: ignore[union-attr]
            shown = encode(item).decode()
            assert not [mark for mark in others if mark in shown], "the text of another session"
            if isinstance(item, SessionSnapshot):
                state = item
            else:
                assert isinstance(item, SessionEvent)
                assert state is not None
                assert item.sseq == state.sseq + item.merged, "a resumed reader goes on where it was"
                state = apply(state, item)
        assert state is not None
        assert attrs.evolve(state, cursor=fresh.cursor) == fresh


@given(
    program=programs(ACTIONS, sessions=SESSIONS, max_size=24),
    ring=st.sampled_from([1, 3, 2_048]),
    stays=st.lists(st.lists(st.integers(1, 5), max_size=5), min_size=SESSIONS, max_size=SESSIONS),
    rnd=st.random_module(),
)
async def test_no_event_crosses_sessions(
    *, program: list[Move], ring: int, stays: list[list[int]], rnd: object, autojump_clock: MockClock
) -> None:
    """Readers of three busy sessions, leaving and resuming, get all of their own session and nothing of the others."""
    config = world_config(ring=ring, provider=EchoingProvider(), approval_timeout_ms=40)
    async with open_checked_service(config) as service, trio.open_nursery() as nursery:
        sessions = [(await service.create_session(name=mark_of(n))).session_id for n in range(SESSIONS)]
        watchers = [Watcher(service, *each) for each in zip(sessions, stays, strict=True)]
        for watcher in watchers:
            nursery.start_soon(watcher.run)
        # One client per session: only so each can know in which session it speaks.
        for number, session_id in enumerate(sessions):
            nursery.start_soon(
                act, MarkingActor(service, sessions), [move for move in program if move.session == number]
            )
            assert session_id == session_id
        await trio.sleep(60)
        await wait_all_tasks_blocked()
        for number, watcher in enumerate(watchers):
            others = [mark_of(other) for other in range(SESSIONS) if other != number]
            watcher.check(await service.load_session(sessions[number]), others)
        nursery.cancel_scope.cancel()


async def act(actor: Actor, program: list[Move]) -> None:
    for move in program:
        await actor.perform(move)


@given(wrong=st.text(max_size=40), rnd=st.random_module())
async def test_unknown_sessions_show_nothing(wrong: str, rnd: object, autojump_clock: MockClock) -> None:
    """Whatever text is given for a session's id, only the id itself opens it."""
    async with open_checked_service(world_config()) as service:
        session_id = (await service.create_session()).session_id
        for guess in (wrong, session_id[:-1], session_id + wrong, session_id.upper(), ""):
            if guess != session_id:
                for open_it in (service.follow, service.subscribe):
                    with pytest.raises(NotFound):
                        open_it(SessionId(guess))
                with pytest.raises((NotFound, InvalidInput)):
                    await service.load_session(SessionId(guess))
        assert service.statistics().stream.subscribers == 0
