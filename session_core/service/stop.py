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

import trio

from session_core.ids import SessionId
from session_core.service.core import ServiceCore
from session_core.service.handler_api import Caller, PendingReply
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
    """Stop the session, and others with it as far as the scope reaches; all in this step.

    The reply comes when the stopped work has ended, or after the stop patience.
    """
    scope, jobs = command.scope, core.config.jobs
    session = core.session(command.session_id)
    children = list(core.tree.subtree(command.session_id))  # all of them, stopped or not
    targets = [session, *(core.tree.subagents(session) if scope == "turn" else children)]
    work = [each for target in targets for each in _list_running(core, target)]
    endings = [target.work.ended for target in targets if target.work is not None]
    endings += [task.ended for target in targets for task in core.side_tasks.running_for(target.state.session_id)]
    withheld = _withhold_waiting_commands(core, targets, caller)
    returned = _return_queue(targets, command, caller)
    for target in targets:
        for elsewhere, approval in core.tree.find_forwarded_approvals(target):
            elsewhere.resolve_approval(approval.request_id, "deny", "stopped", caller.client_id)
        core.side_tasks.stop(target.state.session_id)
        if not target.request_stop(scope, caller.client_id):
            target.close_requests("stopped", caller.client_id)
        if scope == "session":
            work += [*_list_wakeups(target), *_list_jobs(core, target)]
            if jobs is not None:
                jobs.cancel_session(target.state.session_id)
            for wakeup in target.state.wakeups:
                core.cancel_wakeup(target, wakeup.wakeup_id, caller.client_id)

    async def wait_for_outcome() -> r.StopOutcome:
        """Wait for the stopped work to end, at most for the stop patience, and report what happened."""
        await trio.lowlevel.checkpoint()
        with trio.move_on_after(core.config.stop_patience_ms / 1000):
            for ended in endings:
                await ended.wait()
            if scope == "session" and jobs is not None:
                for target in targets:
                    await jobs.stop_session(target.state.session_id)
        scheduled = [each for target in targets for each in (*_list_wakeups(target), *_list_jobs(core, target))]
        alive = {*scheduled, *(each for target in targets for each in _list_running(core, target))}
        gone = tuple(each for each in work if each not in alive)
        survived = [each for each in work if each in alive]  # did not end in time; the others were left alone
        if scope != "session":
            survived += scheduled
        if scope == "turn":
            survived += [each for child in children if child not in targets for each in _list_running(core, child)]
        stuck = any(not ended.is_set() for ended in endings) or (
            scope == "session" and any(_list_jobs(core, target) for target in targets)
        )
        return r.StopOutcome(
            session_id=command.session_id,
            scope=scope,
            result="still_stopping" if stuck else "stopped" if gone else "nothing_running",
            ended=gone,
            survived=tuple(survived),
            kept=tuple(item for target in targets for item in target.state.queue),
            returned=returned,
            withheld=withheld,
            cursor=session.cursor,
        )

    return PendingReply(wait_for_outcome)


def _withhold_waiting_commands(core: ServiceCore, targets: list[Session], caller: Caller) -> int:
    """Mark the targets: commands already waiting must start nothing. Returns how many those are."""
    for target in targets:
        target.stop_mark = caller.number
    ids = {target.state.session_id for target in targets}
    return sum(
        1
        for request in core.list_waiting_commands()
        if isinstance(request.command, STARTS_WORK)
        and request.command.session_id in ids
        and not (isinstance(request.command, c.SendUserMessage) and request.command.deliver_as == "next_turn")
    )


def _return_queue(targets: list[Session], command: c.RequestStop, caller: Caller) -> tuple[QueueItem, ...]:
    if command.queue == "keep":
        return ()
    returned: list[QueueItem] = []
    for target in targets:
        returned.extend(target.state.queue)
        target.take_from_queue(target.state.queue, "returned", caller.client_id)
    return tuple(returned)


def _list_running(core: ServiceCore, session: Session) -> list[StoppedWork]:
    """Return what runs or waits in a session and would end if it were stopped."""
    state, session_id = session.state, session.state.session_id
    found: list[StoppedWork] = []
    if session.work is not None:
        found.append(_build_entry(session.work.kind, session_id, session.work.turn_id))
    found += [_build_entry("tool_call", session_id, tool.call_id) for tool in state.tools if tool.result is None]
    found += [_build_entry("approval", session_id, approval.request_id) for approval in state.approvals]
    found += [_build_entry("dialog", session_id, dialog.request_id) for dialog in state.dialogs]
    found += [_build_entry("command", session_id, task.work_id) for task in core.side_tasks.running_for(session_id)]
    return found


def _list_jobs(core: ServiceCore, session: Session) -> list[StoppedWork]:
    session_id = session.state.session_id
    jobs = core.config.jobs.list(session_id) if core.config.jobs is not None else ()
    return [_build_entry("job", session_id, job.job_id) for job in jobs if job.state == "running"]


def _list_wakeups(session: Session) -> list[StoppedWork]:
    return [_build_entry("wakeup", session.state.session_id, each.wakeup_id) for each in session.state.wakeups]


def _build_entry(kind: StoppedKind, session_id: SessionId, name: str) -> StoppedWork:
    return StoppedWork(kind=kind, session_id=session_id, id=name)
