"""Work that is not a turn: manual compaction, and restoring files."""

import logging
from collections.abc import Awaitable, Callable

import trio

from session_core.agent.compaction import Summary, SummaryFailed, build_summary_message
from session_core.agent.model_call import clean_error
from session_core.foreign_faults import FOREIGN_FAULTS, must_propagate
from session_core.ids import ClientId, TurnId, new_id
from session_core.service.core import ServiceCore
from session_core.session.session import Session, Work
from session_core.vocabulary import events as ev

log = logging.getLogger(__name__)


def start_compaction(core: ServiceCore, session: Session, by: ClientId | None) -> None:
    """Start compacting the conversation of an idle session."""
    session.record(ev.CompactionStarted(), by)
    session.work = Work(kind="compaction", turn_id=TurnId(new_id("turn")))
    core.nursery.start_soon(_run_compaction, core, session, session.work, name="compaction")


async def _run_compaction(core: ServiceCore, session: Session, work: Work) -> None:
    summary: Summary | None = None
    error: str | None = None
    try:
        with work.scope:
            handle = core.make_turn_handle(session, work)
            summary = await core.agent.compaction_policy.summarise(handle, automatic=False)
    except SummaryFailed as failure:
        error = clean_error(f"the summary could not be made: {failure}")
    except FOREIGN_FAULTS as failure:
        if must_propagate(failure):
            raise
        log.exception("compaction failed")
        error = clean_error(f"the summary could not be made: {type(failure).__name__}: {failure}")
    finally:
        if work.stop_requested:
            session.close_requests("stopped")
        if summary is None or work.stop_requested:
            session.record(ev.CompactionFinished(status=core.status_after(work, error), error=error))
        else:
            message = build_summary_message(summary, session.state.head, session.now())
            session.record(ev.CompactionFinished(status="completed", summary=message))
        core.after_work(session, work, deliver_queue=True)


def start_restore(core: ServiceCore, session: Session, restore: Callable[[], Awaitable[None]]) -> None:
    """Run `restore`, which restores files, in an idle session.

    `restore` must not be interrupted: it handles its own failures, and neither a stop nor a departing caller ends it.
    """
    session.work = Work(kind="restore", turn_id=TurnId(new_id("turn")))
    core.nursery.start_soon(_run_restore, core, session, session.work, restore, name="restore")


async def _run_restore(core: ServiceCore, session: Session, work: Work, restore: Callable[[], Awaitable[None]]) -> None:
    try:
        with trio.CancelScope(shield=True):
            await restore()
    finally:
        session.work = None
        work.ended.set()
        core.after_work(session, work, deliver_queue=True)
