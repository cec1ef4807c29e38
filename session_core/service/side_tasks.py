"""Work beside turns: extension commands, logins, reloads.

Rules:
1. A side task does not make its session busy: whatever it does there, messages and turns included, is an ordinary
   command. So it can never wait for itself.
2. It runs in its own task. The caller may leave; only a stop of its session or the end of the service ends it.
3. However it ends, all waiting callers get the same outcome; a failure is a separate object for each.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

import attrs
import trio

from session_core.agent.model_call import clean_error
from session_core.errors import Conflict, ExtensionFailed, InternalError, ServiceClosed, SessionCoreError
from session_core.foreign_faults import FOREIGN_FAULTS, must_propagate
from session_core.ids import SessionId, new_id
from session_core.rpc.failures import RpcFailed

log = logging.getLogger(__name__)
T = TypeVar("T")


@attrs.define(eq=False, kw_only=True)
class SideTask:
    """A task that runs beside turns; once it has ended, it has an `answer` or a `failure`."""

    work_id: str
    what: str
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    ended: trio.Event = attrs.field(factory=trio.Event)
    answer: object = None
    failure: SessionCoreError | None = None

    def stop(self) -> None:
        """End the task and tell its waiting callers."""
        self.scope.cancel(reason="a stop was requested")


class SideTasks:
    """The side tasks by session; those without a session are under None."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._running: dict[SessionId | None, list[SideTask]] = {}

    def running_for(self, session_id: SessionId | None) -> tuple[SideTask, ...]:
        """Return the side tasks of a session."""
        return tuple(self._running.get(session_id, ()))

    def stop(self, session_id: SessionId) -> None:
        """End the side tasks of a session."""
        for work in self.running_for(session_id):
            work.stop()

    def start(
        self, session_id: SessionId | None, what: str, run: Callable[[], Awaitable[T]]
    ) -> Callable[[], Awaitable[T]]:
        """Start a task; the returned function waits for its outcome, and any number of tasks may call it."""
        work = SideTask(work_id=new_id("work"), what=what)
        self._running.setdefault(session_id, []).append(work)
        self._nursery.start_soon(self._run, session_id, work, run, name=what)

        async def ended() -> T:
            await work.ended.wait()
            if work.failure is not None:
                raise work.failure.fresh_copy()
            return cast("T", work.answer)

        return ended

    async def _run(self, session_id: SessionId | None, work: SideTask, run: Callable[[], Awaitable[object]]) -> None:
        work.failure = ServiceClosed("the service was closed before this was done")
        try:
            with work.scope:
                work.answer, work.failure = await run(), None
            if work.scope.cancelled_caught:
                work.failure = Conflict(f"{work.what} was stopped before it was done")
        except SessionCoreError as refused:
            work.failure = refused
        except RpcFailed as failed:
            work.failure = ExtensionFailed(clean_error(failed.message), number=failed.code)
        except FOREIGN_FAULTS as bug:
            if must_propagate(bug):
                raise
            log.exception("%s failed because of a bug", work.what)
            work.failure = InternalError(
                clean_error(f"{work.what} failed because of a bug: {type(bug).__name__}: {bug}")
            )
        finally:
            running = self._running[session_id]
            running.remove(work)
            if not running:
                del self._running[session_id]
            work.ended.set()
