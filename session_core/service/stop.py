"""The stop contract.

Rules:
1. A stop acts in the step in which it is called: it sets the flag (the reason) and cancels the scope (the force)
   before it awaits anything, whatever waits in the mailbox.
2. It acts on the named session and the subagents its turn waits for, with `subtree` and `session` on all its child
   sessions, and on nothing else. Extension commands that run for these sessions end with it.
   `session` also cancels wake-ups and ends background commands.
3. Messages already sent but not yet handled when the stop comes do not start anything: they wait in the queue.
4. The outcome is accurate: what ended, what survived, and whether something did not end in time.
"""

from collections.abc import Iterator

import trio

from session_core.ids import SessionId
from session_core.service.core import Caller, PendingReply, ServiceCore
from session_core.session.session import Session
from session_core.vocabulary import commands as c
from session_core.vocabulary import replies as r
from session_core.vocabulary.sessions import QueueItem, StoppedKind, StoppedWork

STARTS_WORK = (
    c.SendUserMessage,
    c.StartTurnIfIdle,
    c.RunShellLine,
    c.EditMessage,
    c.ResumeSession,
    c.CompactContext,
    c.RunCommand,
    c.LoginToProvider,
)


def stop(core: ServiceCore, command: c.RequestStop, caller: Caller) -> PendingReply:
    """Stop now; the reply comes when the stopped work has ended, or after the stop patience."""
    return PendingReply(_Stop(core, command, caller).outcome)


class _Stop:
    """One stop: it acts on construction and reports the outcome afterwards."""

    def __init__(self, core: ServiceCore, command: c.RequestStop, caller: Caller) -> None:
        self._command = command
        self._patience_ms = core.config.stop_patience_ms
        self._session = core.session(command.session_id)
        self._children = list(core.tree.subtree(command.session_id))
        below = core.tree.subagents(self._session) if command.scope == "turn" else self._children
        self._targets = [self._session, *below]
        self._jobs = core.config.jobs
        self._side = core.side_tasks
        self._before = [work for target in self._targets for work in self._list_running(target)]
        self._ended = [target.work.ended for target in self._targets if target.work is not None]
        self._ended += [
            work.ended for target in self._targets for work in core.side_tasks.running_for(target.state.session_id)
        ]
        self._withheld = _withhold_waiting_commands(core, self._targets)
        self._returned = _return_queue(self._targets, command, caller)
        for target in self._targets:
            for elsewhere, approval in core.tree.find_forwarded_approvals(target):
                elsewhere.resolve_approval(approval.request_id, "deny", "stopped", caller.client_id)
            core.side_tasks.stop(target.state.session_id)
            if not target.request_stop(command.scope, caller.client_id):
                target.close_requests("stopped", caller.client_id)
            if command.scope == "session":
                self._before += [*_list_wakeups(target), *self._list_jobs(target)]
                if self._jobs is not None:
                    self._jobs.cancel_session(target.state.session_id)
                for wakeup in target.state.wakeups:
                    core.cancel_wakeup(target, wakeup.wakeup_id, caller.client_id)

    async def outcome(self) -> r.StopOutcome:
        """Wait for the stopped work to end, at most for the stop patience, and report what happened."""
        await trio.lowlevel.checkpoint()
        with trio.move_on_after(self._patience_ms / 1000):
            for ended in self._ended:
                await ended.wait()
            if self._command.scope == "session" and self._jobs is not None:
                for target in self._targets:
                    await self._jobs.stop_session(target.state.session_id)
        still_there = {
            each
            for target in self._targets
            for each in (*self._list_running(target), *_list_wakeups(target), *self._list_jobs(target))
        }
        gone = tuple(each for each in self._before if each not in still_there)
        stuck = any(not ended.is_set() for ended in self._ended) or (
            self._command.scope == "session" and any(map(self._list_jobs, self._targets))
        )
        return r.StopOutcome(
            session_id=self._command.session_id,
            scope=self._command.scope,
            result="still_stopping" if stuck else "stopped" if gone else "nothing_running",
            ended=gone,
            survived=tuple(self._survivors(still_there)),
            kept=tuple(item for target in self._targets for item in target.state.queue),
            returned=self._returned,
            withheld=self._withheld,
            cursor=self._session.cursor,
        )

    def _list_jobs(self, session: Session) -> list[StoppedWork]:
        if self._jobs is None:
            return []
        session_id = session.state.session_id
        running = [job for job in self._jobs.list(session_id) if job.state == "running"]
        return [_build_entry("job", session_id, job.job_id) for job in running]

    def _survivors(self, still_there: set[StoppedWork]) -> Iterator[StoppedWork]:
        """Return the session's work that is still alive: outside the chosen scope, or not ended in time."""
        yield from (each for each in self._before if each in still_there)
        if self._command.scope != "session":
            yield from (each for target in self._targets for each in (*_list_wakeups(target), *self._list_jobs(target)))
        if self._command.scope == "turn":
            others = (child for child in self._children if child not in self._targets)
            yield from (each for child in others for each in self._list_running(child))

    def _list_running(self, session: Session) -> list[StoppedWork]:
        """Return what runs or waits in a session and would end if it were stopped."""
        side = self._side.running_for(session.state.session_id)
        beside = [_build_entry("command", session.state.session_id, work.work_id) for work in side]
        return [*_list_session_work(session), *beside]


def _withhold_waiting_commands(core: ServiceCore, targets: list[Session]) -> int:
    """Mark the targets: commands already waiting must start nothing. Returns how many those are."""
    for target in targets:
        target.stop_mark = core.last_command_number()
    ids = {target.state.session_id for target in targets}
    return sum(
        1
        for request in core.waiting_commands()
        if isinstance(request.command, STARTS_WORK)
        and request.command.session_id in ids
        and getattr(request.command, "deliver_as", None) != "next_turn"
    )


def _return_queue(targets: list[Session], command: c.RequestStop, caller: Caller) -> tuple[QueueItem, ...]:
    if command.queue == "keep":
        return ()
    returned: list[QueueItem] = []
    for target in targets:
        returned.extend(target.state.queue)
        target.take_from_queue(target.state.queue, "returned", caller.client_id)
    return tuple(returned)


def _list_session_work(session: Session) -> list[StoppedWork]:
    state, session_id = session.state, session.state.session_id
    found: list[StoppedWork] = []
    if session.work is not None:
        found.append(_build_entry(session.work.kind, session_id, session.work.turn_id))
    found += [_build_entry("tool_call", session_id, tool.call_id) for tool in state.tools if tool.result is None]
    found += [_build_entry("approval", session_id, approval.request_id) for approval in state.approvals]
    found += [_build_entry("dialog", session_id, dialog.request_id) for dialog in state.dialogs]
    return found


def _list_wakeups(session: Session) -> list[StoppedWork]:
    return [_build_entry("wakeup", session.state.session_id, each.wakeup_id) for each in session.state.wakeups]


def _build_entry(kind: StoppedKind, session_id: SessionId, name: str) -> StoppedWork:
    return StoppedWork(kind=kind, session_id=session_id, id=name)
