"""Power lost at any moment: what was acknowledged is there, and of the rest each step as a whole or not at all."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import attrs
import pytest
import trio

from session_core import limits
from session_core.errors import StorageFailed, StoreDamaged, StoreUnusable
from session_core.ids import SessionId
from session_core.service.config import ServiceConfig
from session_core.service.service import open_session_service
from session_core.storage.base import StoredReply
from session_core.storage.sqlite import SqliteStore
from session_core.testing.scripted import ScriptedAnswer, ScriptedProvider, ScriptedTool, TaskSwitch, text, tool_calls
from session_core.vocabulary.events import TRANSIENT_EVENTS, SessionEvent
from tests._needs import needs
from tests.durability._clients import ACTIONS, Promises, RandomClient, Shared
from tests.durability._evidence import check_kept
from tests.durability._faulty_disk import FaultyDisk, available
from tests.durability._kept import check_at_rest, check_consistent, check_home, on_disk, read_all

pytestmark = [
    needs(available()),
    pytest.mark.usefixtures("quiet_log"),
]

RUNS_PER_TEST = 25
ORDINARY, THOROUGH = 50, 10_000
CLIENTS, COMMANDS = 2, 8
LONGEST = 280
"""Calls to the disk in most lives; power that would fail later fails at the end."""

PATIENCE_S = 300
"""A run takes a fraction of a second: who is not done by then hangs."""

Journals = dict[SessionId, list[SessionEvent]]
HandedOver = SessionEvent | StoredReply | SessionId
"""An event, a reply to remember, or a session to forget."""


class StepCounter(trio.abc.Instrument):
    """Counts the steps of all tasks: what happens in one of them happens without a checkpoint inside."""

    def __init__(self) -> None:
        self.steps = 0

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.steps += 1


class WatchedStore(SqliteStore):
    """Notes what is handed over, and in which step."""

    def __init__(self, home: Path, disk: FaultyDisk, counter: StepCounter) -> None:
        super().__init__(home, connect=on_disk(disk))
        self.handed_over: list[tuple[int, HandedOver]] = []
        self._counter = counter

    def append(self, event: SessionEvent) -> None:
        super().append(event)
        if event.session_id is not None and not isinstance(event.event, TRANSIENT_EVENTS):
            self.handed_over.append((self._counter.steps, event))

    def forget(self, session_id: SessionId) -> None:
        super().forget(session_id)
        self.handed_over.append((self._counter.steps, session_id))

    def remember(self, reply: StoredReply) -> None:
        super().remember(reply)
        self.handed_over.append((self._counter.steps, reply))


@attrs.frozen(kw_only=True)
class Content:
    """What a store holds: the journals, and the replies in the order of their commands."""

    journals: Journals = attrs.field(factory=dict)
    replies: list[StoredReply] = attrs.field(factory=list)

    def after_each_step(self, handed_over: list[tuple[int, HandedOver]]) -> "Iterator[Content]":
        """What it may hold later: everything up to the end of a step, for each step."""
        journals = {session_id: list(events) for session_id, events in self.journals.items()}
        replies = list(self.replies)
        now = Content(journals=journals, replies=replies)
        yield now
        for place, (step, what) in enumerate(handed_over):
            match what:
                case SessionEvent(session_id=str(session_id)):
                    journals.setdefault(session_id, []).append(what)
                case StoredReply():
                    replies.append(what)
                case str(session_id):
                    del journals[session_id]
                    replies[:] = [reply for reply in replies if reply.session_id != session_id]
                case _:
                    pass
            if place + 1 == len(handed_over) or handed_over[place + 1][0] != step:
                yield now


def answers(random: Random) -> Iterator[ScriptedAnswer]:
    """Short answers and tool calls, none of which takes time."""
    for _ in range(CLIENTS * COMMANDS * 2):
        yield random.choice(
            (
                text("some ", "words ", str(random.random())),
                (*text("slowly ")[:1], TaskSwitch(), TaskSwitch(), *text("spoken")),
                tool_calls(("look", {}), ("change", {})),
                text("long" * 5_000),
            )
        )


def config_on(store: SqliteStore, random: Random) -> ServiceConfig:
    """A small world without clocks."""
    provider = ScriptedProvider(*answers(random))
    return ServiceConfig(
        models={"quick": provider, "other": provider},
        tools=(ScriptedTool("look"), ScriptedTool("change", effects=("write",))),
        cwd="/",
        store=store,
        stop_patience_ms=100,
    )


class World:
    """A home over several losses of power."""

    def __init__(self, home: Path, seed: int) -> None:
        self.promises = Promises()
        self._home = home
        self._random = Random(seed)
        self._shared = Shared()
        self._content = Content()

    async def live_until_power_fails(self, disk: FaultyDisk) -> FaultyDisk:
        """Let clients work until the disk answers no more; returns the disk as it is when the power is back."""
        disk.fail("EIO", at=self._random.randrange(1, LONGEST), sticky=True)
        counter = StepCounter()
        store = WatchedStore(self._home, disk, counter)
        trio.lowlevel.add_instrument(counter)
        try:
            with suppress(StorageFailed, StoreUnusable):
                await self._live(store)
        finally:
            trio.lowlevel.remove_instrument(counter)
        after = disk.lose_power(self._random)
        with after:
            await self._check_whole_steps(after, store)
            return after

    async def _live(self, store: SqliteStore) -> None:
        async with open_session_service(config_on(store, self._random)) as service:
            self._shared.sessions = [each.session_id for each in (await service.load_service()).sessions]
            async with trio.open_nursery() as questions:
                async with trio.open_nursery() as nursery:
                    for number in range(CLIENTS):
                        client = RandomClient(service, f"client {number}", self._shared, self.promises)
                        nursery.start_soon(self._be_client, client, Random(self._random.random()), questions)
                questions.cancel_scope.cancel()

    @staticmethod
    async def _be_client(client: RandomClient, random: Random, questions: trio.Nursery) -> None:
        for _ in range(COMMANDS):
            action = random.choice(ACTIONS)
            if action == "ask":
                questions.start_soon(client.perform, action, Random(random.random()))
            elif not await client.perform(action, random):
                return
            for _ in range(random.choice((0, 0, 1, 5))):
                await trio.lowlevel.checkpoint()

    async def _check_whole_steps(self, disk: FaultyDisk, store: WatchedStore) -> None:
        """Prove that the store holds everything up to the end of some step, and nothing of later ones."""
        reopened = SqliteStore(self._home, connect=on_disk(disk))
        async with reopened.open() as opened:
            kept = await read_all(reopened)
        found = Content(
            journals={session_id: list(session.events) for session_id, session in kept.items()},
            replies=list(opened.replies),
        )
        assert any(found == possible for possible in self._content.after_each_step(store.handed_over))
        self._content = found

    async def check_recovery(self, disk: FaultyDisk) -> None:
        """Prove that a service goes on from here with all that was acknowledged, and that the file is sound."""
        store = SqliteStore(self._home, connect=on_disk(disk))
        async with open_session_service(config_on(store, self._random)):
            pass
        store = SqliteStore(self._home, connect=on_disk(disk))
        async with store.open():
            kept = await check_consistent(store)
        for session in kept.values():
            check_at_rest(session)
        check_kept(self.promises, kept)
        check_home(self._home, disk)


async def lose_power_once_or_twice(home: Path, seed: int, *, fsync_lies: bool = False) -> Promises:
    """Play one run and prove that nothing was lost."""
    world = World(home, seed)
    with FaultyDisk() as disk:
        disk.fsync_lies = fsync_lies
        after = await world.live_until_power_fails(disk)
    if seed % 3 == 0:
        with after:
            after.fsync_lies = fsync_lies
            after = await world.live_until_power_fails(after)
    with after:
        await world.check_recovery(after)
    return world.promises


def chunks() -> Iterator[object]:
    """Seeds of the ordinary run, and those that only the slow run plays."""
    for first in range(0, THOROUGH, RUNS_PER_TEST):
        yield pytest.param(first, marks=[pytest.mark.slow] if first >= ORDINARY else [])


@pytest.mark.parametrize("first", list(chunks()))
async def test_power_lost_at_any_moment(first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the disk had not yet got hold of: all that was acknowledged is there, and no step is half there."""
    if first // RUNS_PER_TEST % 2:  # so that states are saved, and messages leave memory, within a short run
        monkeypatch.setattr(limits, "WINDOW_MESSAGES", 6)
        monkeypatch.setattr(limits, "STATE_EVERY_EVENTS", 8)
    acknowledged = 0
    for seed in range(first, first + RUNS_PER_TEST):
        try:
            with trio.fail_after(PATIENCE_S):
                acknowledged += len((await lose_power_once_or_twice(tmp_path / str(seed), seed)).replies)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
    assert acknowledged > RUNS_PER_TEST, "something was at stake"


@pytest.mark.slow
async def test_a_disk_that_lies_is_found_out(tmp_path: Path) -> None:
    """On a disk that only says it has synced, the same runs find losses: the test would notice."""
    found = 0
    for seed in range(20):
        try:
            await lose_power_once_or_twice(tmp_path / str(seed), seed, fsync_lies=True)
        except (AssertionError, StoreDamaged, StoreUnusable):
            found += 1
    assert found > 5
