"""Killed at any moment, a service loses nothing it has acknowledged, does nothing twice and leaves nothing running."""

from pathlib import Path
from random import Random

import pytest
import trio

from session_core.errors import NotFound
from session_core.ids import now_ms
from session_core.service.config import ServiceConfig
from session_core.service.idempotency import QUOTING
from session_core.service.service import SessionService, open_session_service
from session_core.storage.sqlite import SqliteStore
from session_core.testing.scripted import ScriptedProvider, ScriptedTool
from session_core.vocabulary import commands as c
from session_core.vocabulary import events as ev
from tests.durability._clients import LATER_MS, Promises
from tests.durability._evidence import check_kept, effects
from tests.durability._kept import (
    Kept,
    check_at_rest,
    check_consistent,
    check_home,
    check_live,
    read_all,
    read_home,
)
from tests.durability._killing import START_UP_S, Moment, kill_at, promises_in
from tests.durability._victim import PACE_S

ORDINARY, THOROUGH = 2, 500
HALF_A_SECOND = 0.5
PATIENCE_S = 180
"""Opening and checking takes a second at most: who is not done by then hangs."""


def some(ordinary: int, thorough: int) -> list[object]:
    """Seeds of the ordinary run, and those that only the slow run plays."""
    return [pytest.param(seed, marks=[pytest.mark.slow] if seed >= ordinary else []) for seed in range(thorough)]


def config_after(home: Path) -> ServiceConfig:
    """A service like the one that was killed, whose model and tools take no time."""
    provider = ScriptedProvider()
    return ServiceConfig(
        models={"quick": provider, "other": provider},
        tools=(ScriptedTool("look"), ScriptedTool("change", effects=("write",))),
        cwd="/",
        store=SqliteStore(home),
    )


@pytest.mark.parametrize("seed", some(ORDINARY, THOROUGH))
async def test_killed_at_any_moment(seed: int, tmp_path: Path) -> None:
    """All that was acknowledged is there, once; all that ran is interrupted and can go on; what waits still waits."""
    random = Random(seed)
    home, traces = tmp_path / "home", tmp_path / "effects"
    reports = [await kill_at(Moment.drawn(random), "clients", str(home), f"{seed}.0", str(traces))]
    if random.random() < 0.2:  # once more, while it recovers from the first kill
        again = Moment(after="opening", count=1, delay_s=random.uniform(0, START_UP_S))
        reports.append(await kill_at(again, "clients", str(home), f"{seed}.1", str(traces)))
    promises = promises_in(*reports)

    with trio.fail_after(PATIENCE_S):
        await check_all(home, traces, promises)


async def check_all(home: Path, traces: Path, promises: Promises) -> None:
    """Prove, by a new service on this home, everything that was promised."""
    before = await read_home(home)
    if before:
        check_home(home)
    check_traces(traces, before, promises)
    async with open_session_service(config_after(home)) as service:
        found = await read_all(service._core.store)
        check_brought_to_rest(before, found)
        await until_woken(service, found)
        check_kept(promises, await read_all(service._core.store))
        await check_resuming(service, before)
        await check_retries(service, promises)
        await check_live(service, await read_all(service._core.store))
    check_home(home)
    reopened = SqliteStore(home)
    async with reopened.open():
        after = await check_consistent(reopened)
    check_kept(promises, after)
    for session in after.values():
        check_at_rest(session)


def check_traces(traces: Path, before: Kept, promises: Promises) -> None:
    """Every tool that has done something had its start written down before."""
    started = {
        envelope.event.call_id
        for session in before.values()
        for envelope in session.events
        if isinstance(envelope.event, ev.ToolCallStarted)
    }
    deleted = {sent.command.session_id for sent in promises.asked.values() if isinstance(sent.command, c.DeleteSession)}
    for line in traces.read_text().splitlines() if traces.exists() else ():
        call_id, session_id = line.split()
        assert call_id in started or session_id in deleted - set(before), f"{line} ran, and nobody knows"


def check_brought_to_rest(before: Kept, found: Kept) -> None:
    """What ran is interrupted, what was open is closed, what waited waits."""
    assert list(before) == list(found)
    for session_id, session in found.items():
        was = before[session_id].state
        if any(wakeup.due_at <= now_ms() for wakeup in was.wakeups):
            continue  # it is awake already
        check_at_rest(session)
        assert (session.state.queue, session.state.wakeups) == (was.queue, was.wakeups)
        if was.turn is not None:
            outcome = session.state.last_outcome
            assert outcome is not None
            assert (outcome.turn_id, outcome.status) == (was.turn.turn_id, "interrupted")
            assert session.state.activity.name == "interrupted"
        denied = [
            envelope.event.request_id
            for envelope in session.events[len(before[session_id].events) :]
            if isinstance(envelope.event, ev.ApprovalResolved) and envelope.event.decision == "deny"
        ]
        assert denied == [approval.request_id for approval in was.approvals]


async def until_woken(service: SessionService, found: Kept) -> None:
    """Wait until every wake-up whose time had come was delivered, and what it started is done."""
    soon = now_ms() + LATER_MS // 2
    for session_id in found:
        async with service.follow(session_id) as feed:
            with trio.fail_after(300):
                while any(each.due_at < soon for each in (await service.load_session(session_id)).wakeups):
                    await feed.receive_batch()
    await until_at_rest(service)


async def until_at_rest(service: SessionService) -> None:
    """Wait until nothing runs in any session; nobody allows anything."""
    while running := (await service.list_sessions(running=True, archived=None, limit=500)).sessions:
        session_id = running[0].session_id
        for approval in (await service.load_session(session_id)).approvals:
            await service.answer_approval(session_id, approval.request_id, "deny")
        with trio.move_on_after(0.01):
            await service.wait_for_turn(session_id)


async def check_retries(service: SessionService, promises: Promises) -> None:
    """A command sent again with its key has its first reply and no second effect, acknowledged or not."""
    before = service.statistics().stream.published
    for sent, reply in promises.kept:
        if sent.key is not None:
            try:
                again = await service.execute(sent.command, idempotency_key=sent.key, client_id=sent.client_id)
            except NotFound:  # what quotes a deleted session is deleted with it
                assert isinstance(reply, QUOTING), f"{sent} is not known any more"
            else:
                assert again == reply, f"{sent} was answered differently"
    assert service.statistics().stream.published == before, "a retry does nothing"
    retried = [sent for sent in promises.in_flight if sent.key is not None]
    done = []
    for sent in retried:
        try:
            await service.execute(sent.command, idempotency_key=sent.key, client_id=sent.client_id)
        except NotFound:
            continue  # its session, or what it concerned, is gone by another command
        done.append(sent)
    await until_at_rest(service)
    kept = await read_all(service._core.store)
    for sent in done:
        if isinstance(sent.command, c.DeleteSession):
            assert sent.command.session_id not in kept
        elif sent.command.session_id in {None, *kept}:
            assert effects(sent, kept) == 1, f"{sent} was done once"


async def check_resuming(service: SessionService, before: Kept) -> None:
    """A turn that was interrupted by the kill can go on to its end."""
    for session_id, session in before.items():
        shown = await service.load_session(session_id)
        if session.state.turn is not None and shown.activity.name == "interrupted":
            resumed = await service.resume_session(session_id)
            await until_at_rest(service)
            outcome = (await service.wait_for_turn(session_id, resumed.turn_id)).outcome
            assert outcome.status == "completed"


@pytest.mark.parametrize("seed", some(1, 20))
async def test_little_of_an_unfinished_answer_is_lost(seed: int, tmp_path: Path) -> None:
    """Of an answer being written, a kill loses at most the words of the last half second."""
    random = Random(seed)
    home = tmp_path / "home"
    moment = Moment(after="published", count=random.randrange(1, 250), delay_s=0)
    report = await kill_at(moment, "stream", str(home), str(seed), str(tmp_path / "effects"))
    published = [line["published"] for line in report if "published" in line]

    async with open_session_service(config_after(home)) as service:
        (summary,) = (await service.load_service()).sessions
        shown = await service.load_session(summary.session_id)
        said = [message.text for message in shown.messages if message.role == "assistant"]

    kept = said[0] if said else ""
    counted = "".join(f"{number} " for number in range(len(published) + 1_000))
    assert counted.startswith(kept)
    lost = counted[len(kept) : published[-1]].split()
    assert len(lost) * PACE_S <= HALF_A_SECOND, "a slow machine says fewer words in that time, and never more"
