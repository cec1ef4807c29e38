"""Laws 1 to 3: whatever happens, what a reader folded is what a fresh look shows, and looking changes nothing."""

import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from session_core.ids import Cursor, SessionId
from session_core.service.service import SessionService
from session_core.stream.follower import Snapshot
from session_core.testing.checked import open_checked_service
from session_core.vocabulary.snapshots import ServiceSnapshot, SessionSnapshot
from session_core.wire.codec import decode, encode
from tests.properties._world import ANSWERS, Actor, AnswerKind, FoldingReader, Move, checkpoints, programs, world_config

ACTIONS = (
    *("send",) * 5,
    *("stop", "edit", "queue", "queue", "answer", "answer", "let_time_pass", "let_time_pass"),
    *("switch_branch", "settings", "rest", "shelve", "extend"),
)
QUIET_EVERY = 6


async def run_two_at_once(actor: Actor, program: list[Move]) -> None:
    """Half of the program by one client, half by another, at the same time."""
    async with trio.open_nursery() as nursery:
        for half in (program[::2], program[1::2]):
            nursery.start_soon(run_in_turn, actor, half)


async def run_in_turn(actor: Actor, program: list[Move]) -> None:
    for move in program:
        with trio.move_on_after(5):  # a command may wait for something that only a later one brings about
            await actor.perform(move)


@given(
    program=programs(ACTIONS, sessions=2, max_size=40),
    kinds=st.lists(st.sampled_from(ANSWERS), max_size=8),
    ring=st.sampled_from([1, 2, 3, 5, 64]),
    delays=st.lists(st.integers(0, 25), min_size=4, max_size=4),
    rnd=st.random_module(),
)
async def test_readers_fold_to_the_truth(
    *,
    program: list[Move],
    kinds: list[AnswerKind],
    ring: int,
    delays: list[int],
    rnd: object,
    autojump_clock: MockClock,
) -> None:
    """Slow readers of tiny rings end up with what is true, at every quiet moment of a random program."""
    async with open_checked_service(world_config(kinds, ring=ring)) as service, trio.open_nursery() as nursery:
        sessions = [(await service.create_session()).session_id for _ in range(2)]
        actor = Actor(service, sessions)
        readers: list[FoldingReader] = []
        places: list[SessionId | None] = [sessions[0], sessions[1], None, sessions[0]]
        for start in range(0, max(1, len(program)), QUIET_EVERY):
            if delays:  # readers come at different times
                reader = FoldingReader(service, places[len(delays) - 1], delay=delays.pop())
                readers.append(reader)
                nursery.start_soon(reader.run)
            await run_two_at_once(actor, program[start : start + QUIET_EVERY])
            await wait_all_tasks_blocked()
            for reader in readers:
                await reader.check(service)
        nursery.cancel_scope.cancel()


class Looker:
    """Takes snapshots all the time and compares those taken at one place."""

    def __init__(self, service: SessionService, sessions: list[SessionId]) -> None:
        self.service = service
        self.sessions = sessions
        self.taken: dict[tuple[SessionId | None, Cursor], tuple[Snapshot, bytes]] = {}
        self.compared = 0

    async def run(self, rest: int) -> None:
        while True:
            for session_id in self.sessions:
                self.compare(session_id, await self.service.load_session(session_id))
            self.compare(None, await self.service.load_service())
            await checkpoints(rest)
            if self.compared % 7 == 6:
                await trio.sleep(0.01)

    def compare(self, session_id: SessionId | None, snapshot: Snapshot) -> None:
        encoded = encode(snapshot)
        known, known_bytes = self.taken.setdefault((session_id, snapshot.cursor), (snapshot, encoded))
        assert (known, known_bytes) == (snapshot, encoded)
        self.compared += 1


@given(
    program=programs(ACTIONS, sessions=2, max_size=24),
    kinds=st.lists(st.sampled_from(ANSWERS), max_size=8),
    rest=st.integers(0, 10),
    rnd=st.random_module(),
)
async def test_snapshots_at_one_place_are_equal(
    *, program: list[Move], kinds: list[AnswerKind], rest: int, rnd: object, autojump_clock: MockClock
) -> None:
    """Two snapshots at one cursor are equal to the byte, stay as they were, and taking them changes no count."""
    async with open_checked_service(world_config(kinds)) as service, trio.open_nursery() as nursery:
        sessions = [(await service.create_session()).session_id for _ in range(2)]
        looker = Looker(service, sessions)
        nursery.start_soon(looker.run, rest)
        actor = Actor(service, sessions)
        for move in program:
            with trio.move_on_after(5):
                await actor.perform(move)
            before = service.statistics().stream
            looks = [service._core.session(session_id).snapshot() for session_id in sessions * 2]
            assert service.statistics().stream == before
            assert looks[:2] == looks[2:]
        nursery.cancel_scope.cancel()
        for snapshot, encoded in looker.taken.values():
            assert encode(snapshot) == encoded, "a snapshot changed after it was taken"
            assert (
                decode(encoded, SessionSnapshot if isinstance(snapshot, SessionSnapshot) else ServiceSnapshot)
                == snapshot
            )
