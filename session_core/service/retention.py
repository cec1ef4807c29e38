"""Archives and deletes sessions that have not changed for long, if the settings of the home ask for it.

Rules:
1. Due actions are the usual commands, sent by the client "retention": all clients see them happen, and to observers
   they look like those of a person.
2. A family (a session, its child sessions and theirs) is handled as one. While anything in it works, waits for a person
   or the clock, or has queued messages, nothing in it is due. The unarchived ones are archived when all of them are old
   enough; all are deleted when all are archived and old enough. Children go before their parents. A fork is a family of
   its own.
3. A few at a time, one after the other: a first pass over a large home must not crowd out other clients, nor load a
   thousand sessions into memory.
4. An action that fails is retried later: a session that refuses is left alone until the next hour.

Age is the time since the last recorded change. So an old session that was archived just now counts as new, and an
imported one keeps the age it had at its origin.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, Protocol, TypeVar

import trio

from session_core.errors import Overloaded, ReadOnly, ServiceClosed, SessionCoreError, StorageFailed
from session_core.ids import ClientId, SessionId
from session_core.session.restore import needs_memory
from session_core.storage.retention_settings import Retention
from session_core.vocabulary.commands import ArchiveSession, Command, DeleteSession
from session_core.vocabulary.snapshots import SessionSummary

log = logging.getLogger(__name__)
R = TypeVar("R")

CLIENT = ClientId("retention")
LOOK_EVERY_S = 3_600.0
AT_ONCE = 32
"""Sessions per pass: archived ones stay in memory for some minutes, like any session that was used."""
PAUSE_S = 60.0
"""The pause between two passes when one pass was not enough."""

_DAY_MS = 24 * 3_600_000

Action = Literal["archive", "delete"]
Due = tuple[Action, SessionId]


class Executor(Protocol):
    """The part of a service that retention needs."""

    async def execute(self, command: Command[R], *, client_id: ClientId = ...) -> R:
        """Run a command and return its reply."""
        ...

    def list_all_sessions(self) -> tuple[SessionSummary, ...]:
        """Return all sessions, oldest first, including those that a snapshot no longer lists."""
        ...


def find_due_actions(summaries: Iterable[SessionSummary], retention: Retention, now: int) -> tuple[Due, ...]:
    """Return the actions due at the time `now`, families with the oldest ids first, children before parents."""
    if retention.keeps_everything:
        return ()
    listed = {summary.session_id: summary for summary in summaries}
    families: dict[SessionId, list[tuple[int, SessionSummary]]] = {}
    places: dict[SessionId, tuple[SessionId, int]] = {}
    for summary in listed.values():
        root, depth = _find_root(summary.session_id, listed, places)
        families.setdefault(root, []).append((-depth, summary))
    found: list[Due] = []
    for members in families.values():
        members.sort(key=lambda member: (member[0], member[1].session_id))
        found += _due_in_family([summary for _, summary in members], retention, now)
    return tuple(found)


def _due_in_family(family: list[SessionSummary], retention: Retention, now: int) -> list[Due]:
    if any(needs_memory(summary) for summary in family):
        return []
    in_use = [summary for summary in family if not summary.archived]
    if in_use:
        old = _are_old(in_use, retention.archive_after_days, now)
        return [("archive", summary.session_id) for summary in in_use] if old else []
    old = _are_old(family, retention.delete_archived_after_days, now)
    return [("delete", summary.session_id) for summary in family] if old else []


def _are_old(family: list[SessionSummary], days: int | None, now: int) -> bool:
    return days is not None and all(summary.updated_at <= now - days * _DAY_MS for summary in family)


def _find_root(
    session_id: SessionId, listed: Mapping[SessionId, SessionSummary], places: dict[SessionId, tuple[SessionId, int]]
) -> tuple[SessionId, int]:
    """Return the root of a session's family and the session's depth below it, recording both for all on the way.

    The root need not be in the list: children of a deleted session stay together. A cycle of parents, which only an
    imported file can contain, is a family as well.
    """
    way: dict[SessionId, None] = {}
    top: SessionId = session_id
    while top not in places and top not in way:
        way[top] = None
        above = listed[top].parent_id if top in listed else None
        if above is None:
            break
        top = above
    root, depth = places.get(top, (top, -1))
    for each in reversed(way):
        depth += 1
        places[each] = root, depth
    return places[session_id]


async def run(
    service: Executor,
    retention: Retention,
    now: Callable[[], int],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Do what is due now and check again every hour, until cancelled; returns if there can never be anything to do."""
    task_status.started()
    if retention.keeps_everything:
        return
    refused: set[SessionId] = set()
    while True:
        try:
            finished = await _apply_due_actions(service, retention, now, refused)
        except (ReadOnly, StorageFailed, ServiceClosed) as end:
            log.warning("retention has ended: %s", end.message)
            return
        except SessionCoreError as error:
            log.warning("retention has to wait: %s", error.message)
            finished = False
        if finished:
            refused.clear()
        await trio.sleep(LOOK_EVERY_S if finished else PAUSE_S)


async def _apply_due_actions(
    service: Executor, retention: Retention, now: Callable[[], int], refused: set[SessionId]
) -> bool:
    """Do a few of the due actions; returns whether only refused ones are left."""
    found = [each for each in find_due_actions(service.list_all_sessions(), retention, now()) if each[1] not in refused]
    few = found[:AT_ONCE]
    chosen = {session_id for _, session_id in few}
    for action, session_id in few:
        # Check these again, as a user may have returned meanwhile; only these, to be quick.
        still = [summary for summary in service.list_all_sessions() if summary.session_id in chosen]
        if (action, session_id) not in find_due_actions(still, retention, now()):
            continue
        try:
            await _apply(service, action, session_id)
        except _NOT_ABOUT_ONE_SESSION:
            raise
        except SessionCoreError as error:
            refused.add(session_id)
            log.warning("retention cannot %s session %s now: %s", action, session_id, error.message)
    return len(few) == len(found)


async def _apply(service: Executor, action: Action, session_id: SessionId) -> None:
    command = ArchiveSession if action == "archive" else DeleteSession
    await service.execute(command(session_id=session_id), client_id=CLIENT)


_NOT_ABOUT_ONE_SESSION = (Overloaded, ReadOnly, StorageFailed, ServiceClosed)
