"""Retention: what is due and when, that families go as one, and that the task does it by the usual commands."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from session_core.errors import InternalError, Overloaded, ReadOnly, SessionCoreError
from session_core.ids import LOCAL_CLIENT, ClientId, SessionId
from session_core.service import retention as tested
from session_core.service.config import ServiceConfig
from session_core.service.retention import AT_ONCE, LOOK_EVERY_S, PAUSE_S, find_due_actions
from session_core.service.service import SessionService, open_session_service
from session_core.storage.memory import MemoryStore
from session_core.storage.retention_settings import Retention
from session_core.testing.scripted import Hang, text
from session_core.vocabulary import events as ev
from session_core.vocabulary.commands import ArchiveSession, DeleteSession
from session_core.vocabulary.sessions import Activity
from session_core.vocabulary.snapshots import SessionSummary
from tests.session_core.service._helpers import new_session, say, scripted

DAY_MS = 24 * 3_600_000
NOW = 1_000 * DAY_MS
BOTH = Retention(archive_after_days=30, delete_archived_after_days=90)


def summary(session_id: str, *, days: float, archived: bool = False, parent: str | None = None) -> SessionSummary:
    return SessionSummary(
        session_id=SessionId(session_id),
        name="",
        created_at=0,
        updated_at=NOW - int(days * DAY_MS),
        archived=archived,
        parent_id=SessionId(parent) if parent is not None else None,
        cwd="/",
        model="m",
        activity=Activity(name="idle"),
    )


# --- what is due ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (summary("a", days=30), ("archive", "a")),
        (summary("a", days=29.999), None),
        (summary("a", days=500), ("archive", "a")),
        (summary("a", days=90, archived=True), ("delete", "a")),
        (summary("a", days=89.999, archived=True), None),
        (attrs.evolve(summary("a", days=500), queued=1), None),
        (attrs.evolve(summary("a", days=500), open_requests=1), None),
        (attrs.evolve(summary("a", days=500), wakeups=1), None),
        (attrs.evolve(summary("a", days=500, archived=True), wakeups=1), None),
        (attrs.evolve(summary("a", days=500), activity=Activity(name="streaming")), None),
        (attrs.evolve(summary("a", days=500), activity=Activity(name="errored")), ("archive", "a")),
        (attrs.evolve(summary("a", days=500), activity=Activity(name="interrupted")), ("archive", "a")),
    ],
)
def test_when_a_session_is_due(one: SessionSummary, expected: tuple[str, str] | None) -> None:
    """A session is due to the day after its last change, if nothing in it works or waits."""
    assert ((expected,) if expected else ()) == find_due_actions([one], BOTH, NOW)


def test_each_half_stands_alone() -> None:
    """With only one of the numbers set, the other thing never happens; with none, nothing does."""
    sessions = [summary("a", days=500), summary("b", days=500, archived=True)]

    assert () == find_due_actions(sessions, Retention(), NOW)
    assert (("archive", "a"),) == find_due_actions(sessions, Retention(archive_after_days=1), NOW)
    assert (("delete", "b"),) == find_due_actions(sessions, Retention(delete_archived_after_days=1), NOW)


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        # A child in use keeps its parent, and a parent in use its children.
        ([summary("a", days=99), summary("b", days=1, parent="a")], ()),
        ([summary("a", days=1), summary("b", days=99, parent="a")], ()),
        ([summary("a", days=1), summary("b", days=500, archived=True, parent="a")], ()),
        # Something that waits deep below keeps them all.
        (
            [
                summary("a", days=99),
                summary("b", days=99, parent="a"),
                attrs.evolve(summary("c", days=99, parent="b"), wakeups=1),
            ],
            (),
        ),
        # Together, children first; those archived already, however lately, do not hold the others up.
        (
            [summary("a", days=99), summary("b", days=99, parent="a"), summary("c", days=99, parent="b")],
            (("archive", "c"), ("archive", "b"), ("archive", "a")),
        ),
        ([summary("a", days=99), summary("b", days=0, archived=True, parent="a")], (("archive", "a"),)),
        (
            [summary("a", days=99, archived=True), summary("b", days=99, archived=True, parent="a")],
            (("delete", "b"), ("delete", "a")),
        ),
        ([summary("a", days=99, archived=True), summary("b", days=1, archived=True, parent="a")], ()),
        # Children of a session that is gone are a family still.
        ([summary("b", days=99, parent="gone"), summary("c", days=1, parent="gone")], ()),
        # Two families do not concern each other.
        ([summary("a", days=99), summary("b", days=1)], (("archive", "a"),)),
    ],
)
def test_a_family_goes_as_one(family: list[SessionSummary], expected: tuple[tuple[str, str], ...]) -> None:
    """Nothing of a family is due before all of it is, and then children go before parents, in whatever order listed."""
    assert expected == find_due_actions(family, BOTH, NOW)
    assert expected == find_due_actions(reversed(family), BOTH, NOW)


@given(
    sessions=st.lists(
        st.builds(
            summary,
            st.sampled_from("abcdefgh"),
            days=st.sampled_from([0, 40, 99]),
            archived=st.booleans(),
            parent=st.none() | st.sampled_from("abcdefghx"),
        ),
        unique_by=lambda one: one.session_id,
    ),
    busy=st.sets(st.sampled_from("abcdefgh"), max_size=1),
)
def test_any_list_gives_an_answer(sessions: list[SessionSummary], busy: set[str]) -> None:
    """Whoever is whose parent, also in circles: nothing is due twice, nothing busy or new, and no half of a family."""
    sessions = [attrs.evolve(one, queued=1) if one.session_id in busy else one for one in sessions]
    by_id = {one.session_id: one for one in sessions}

    found = find_due_actions(sessions, BOTH, NOW)

    names = [session_id for _, session_id in found]
    assert len(set(names)) == len(names)
    for action, session_id in found:
        one = by_id[session_id]
        assert one.session_id not in busy
        assert one.archived == (action == "delete")
        assert one.updated_at <= NOW - (30 if action == "archive" else 90) * DAY_MS
        parent = by_id.get(one.parent_id) if one.parent_id is not None else None
        if parent is not None:
            assert parent.session_id not in busy
            assert action == "archive" or ("delete", parent.session_id) in found


# --- the task ---------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def open_with_retention(config: ServiceConfig, retention: Retention) -> AsyncGenerator[SessionService]:
    async with open_session_service(config) as service, trio.open_nursery() as nursery:
        await nursery.start(tested.run, service, retention, config.now)
        yield service
        nursery.cancel_scope.cancel()


class Calendar:
    """A wall clock that a test turns on by days, while the task's own clock only sees its next look."""

    def __init__(self) -> None:
        self.at = 0

    def now(self) -> int:
        return self.at

    async def turn_on(self, days: int) -> None:
        self.at += days * DAY_MS
        await trio.sleep(LOOK_EVERY_S)
        await wait_all_tasks_blocked()


async def listed(service: SessionService) -> dict[SessionId, bool]:
    """Which sessions there are, and whether they are archived."""
    return {one.session_id: one.archived for one in (await service.load_service()).sessions}


async def test_sessions_grow_old(autojump_clock: MockClock) -> None:
    """A session nobody touches is archived and deleted in time; one that is used stays, and all see who did it."""
    store, calendar = MemoryStore(), Calendar()
    retention = Retention(archive_after_days=3, delete_archived_after_days=5)
    async with open_with_retention(scripted(text("hi"), store=store, now=calendar.now), retention) as service:
        old, used = await new_session(service), await new_session(service)
        await calendar.turn_on(2)
        await say(service, used)
        await calendar.turn_on(1)

        assert {old: True, used: False} == await listed(service)
        assert [ClientId("retention")] == [
            each.by for each in store.events_of(old) if isinstance(each.event, ev.SessionArchived)
        ]

        await calendar.turn_on(4)
        assert {old: True, used: True} == await listed(service)
        await service.restore_session(used)
        await calendar.turn_on(1)
        assert {used: False} == await listed(service)
        assert () == store.events_of(old)


async def test_the_first_look_is_at_once(autojump_clock: MockClock) -> None:
    """What became due while no service was running is done when one starts, without waiting for an hour."""
    config = scripted()
    async with open_session_service(config) as service:
        session_id = await new_session(service)
    await trio.sleep(DAY_MS / 1000)

    async with open_with_retention(config, Retention(archive_after_days=1)) as service:
        await wait_all_tasks_blocked()
        assert {session_id: True} == await listed(service)


async def test_by_default_nothing_happens(autojump_clock: MockClock) -> None:
    """With the default retention the task ends at once and sessions stay as they are for years."""
    async with open_session_service(scripted()) as service:
        session_id = await new_session(service)
        await tested.run(service, Retention(), lambda: 2**50)

        assert {session_id: False} == await listed(service)


async def test_work_that_takes_days_is_left_alone(autojump_clock: MockClock) -> None:
    """A turn that runs longer than the limit is neither archived nor stopped."""
    calendar = Calendar()
    config = scripted((Hang(),), now=calendar.now)
    async with open_with_retention(config, Retention(archive_after_days=1)) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go on")
        await calendar.turn_on(3)

        snapshot = await service.load_session(session_id)
        assert not snapshot.archived
        assert snapshot.turn is not None


async def test_a_few_at_a_time(autojump_clock: MockClock) -> None:
    """A first look at many old sessions does a few, and goes on after a pause until all are done."""
    config = scripted()
    async with open_session_service(config) as service:
        for _ in range(2 * AT_ONCE + 1):
            await new_session(service)
    await trio.sleep(DAY_MS / 1000)

    async with open_with_retention(config, Retention(archive_after_days=1)) as service:
        counts = []
        for _ in range(3):
            await wait_all_tasks_blocked()
            counts.append(sum((await listed(service)).values()))
            await trio.sleep(
                PAUSE_S
            )  # the task wakes up at the same moment, and the next turn of the loop waits for it

    assert [AT_ONCE, 2 * AT_ONCE, 2 * AT_ONCE + 1] == counts


class StubbornService:
    """Holds a list of sessions; `answer` may refuse a command, or do something before it is carried out."""

    def __init__(self, *sessions: SessionSummary, answer: Callable[[Any], None]) -> None:
        self.sessions = {one.session_id: one for one in sessions}
        self.asked: list[tuple[str, SessionId, float]] = []
        self._answer = answer

    def list_all_sessions(self) -> tuple[SessionSummary, ...]:
        return tuple(self.sessions.values())

    async def execute(self, command: Any, *, client_id: ClientId = LOCAL_CLIENT) -> Any:
        await trio.lowlevel.checkpoint()
        assert client_id == "retention"
        assert isinstance(command, ArchiveSession | DeleteSession)
        session_id = command.session_id
        self.asked.append((type(command).__name__, session_id, trio.current_time()))
        self._answer(command)
        before = self.sessions.pop(session_id)
        if isinstance(command, ArchiveSession):
            self.sessions[session_id] = attrs.evolve(before, archived=True, updated_at=NOW)
        return None


def refuses(session_id: str, error: SessionCoreError, *, times: int = 1) -> Callable[[Any], None]:
    left = [error] * times

    def answer(command: Any) -> None:
        if command.session_id == session_id and left:
            raise left.pop()

    return answer


async def look_for(seconds: float, service: StubbornService) -> None:
    with trio.move_on_after(seconds):
        await tested.run(service, BOTH, lambda: NOW)


async def test_a_refusal_holds_up_nobody(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    """A session that cannot be archived now is tried again after an hour, and the others need not wait for it."""
    service = StubbornService(summary("a", days=50), summary("b", days=50), answer=refuses("a", InternalError("a bug")))
    start = trio.current_time()

    await look_for(LOOK_EVERY_S * 1.5, service)

    assert [("a", 0.0), ("b", 0.0), ("a", LOOK_EVERY_S)] == [
        (session_id, at - start) for _, session_id, at in service.asked
    ]
    assert ["retention cannot archive session a now: a bug"] == [record.getMessage() for record in caplog.records]


@pytest.mark.usefixtures("quiet_log")
async def test_many_refusals_hold_up_nobody(autojump_clock: MockClock) -> None:
    """As many refusals as one look has room for are passed over by the next, so what comes after them is done."""

    def answer(command: Any) -> None:
        if command.session_id != "last":
            raise InternalError("a bug")

    stubborn = [summary(f"a{number:02}", days=50) for number in range(AT_ONCE)]
    service = StubbornService(*stubborn, summary("last", days=50), answer=answer)

    await look_for(LOOK_EVERY_S / 2, service)

    assert [*(one.session_id for one in stubborn), "last"] == [session_id for _, session_id, _ in service.asked]


async def test_a_busy_service_is_left_in_peace(autojump_clock: MockClock) -> None:
    """When the service is overloaded, the look ends and is taken up after a pause."""
    service = StubbornService(summary("a", days=50), summary("b", days=50), answer=refuses("a", Overloaded("too much")))
    start = trio.current_time()

    await look_for(LOOK_EVERY_S / 2, service)

    assert [("a", 0.0), ("a", PAUSE_S), ("b", PAUSE_S)] == [
        (session_id, at - start) for _, session_id, at in service.asked
    ]


async def test_a_failed_disk_ends_it(autojump_clock: MockClock) -> None:
    """When nothing can be saved any more the task ends, and the service is not asked again."""
    service = StubbornService(
        summary("a", days=50), summary("b", days=50), answer=refuses("a", ReadOnly("the disk has failed"))
    )

    await tested.run(service, BOTH, lambda: NOW)

    assert ["a"] == [session_id for _, session_id, _ in service.asked]


async def test_who_comes_back_in_time_keeps_the_session(autojump_clock: MockClock) -> None:
    """A session that is used while others are being deleted is looked at once more, and stays."""

    def answer(command: Any) -> None:
        if command.session_id == "a":
            service.sessions[SessionId("b")] = attrs.evolve(service.sessions[SessionId("b")], updated_at=NOW)

    service = StubbornService(summary("a", days=99, archived=True), summary("b", days=99, archived=True), answer=answer)

    await look_for(LOOK_EVERY_S / 2, service)

    assert [("DeleteSession", "a")] == [(name, session_id) for name, session_id, _ in service.asked]
    assert ["b"] == list(service.sessions)
