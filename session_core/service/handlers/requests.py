"""Requests to people and to the clock: dialogs, answers, wake-ups, stop."""

from session_core import limits
from session_core.errors import Conflict, Forbidden, InvalidInput, NotFound
from session_core.ids import ClientId, RequestId, WakeupId, new_id
from session_core.permissions.answers import explain_refused_decision
from session_core.service.core import ServiceCore
from session_core.service.extension_api import extension_of
from session_core.service.handler_api import Caller, Handlers, PendingReply
from session_core.service.stop import stop
from session_core.service.validation import checked_name, checked_text
from session_core.session.session import ResolvedRequest, Session
from session_core.vocabulary import commands as c
from session_core.vocabulary import events as ev
from session_core.vocabulary import replies as r
from session_core.vocabulary.frozen import freeze_json
from session_core.vocabulary.sessions import Dialog, DialogAnswer, Wakeup
from session_core.wire.codec import encode
from session_core.wire.strict_json import find_fault


def open_dialog(core: ServiceCore, command: c.OpenDialog, caller: Caller) -> PendingReply:
    session = core.session(command.session_id)
    timeout_ms = core.config.approval_timeout_ms if command.timeout_ms is None else command.timeout_ms
    if not 1 <= timeout_ms <= limits.MAX_DELAY_MS:
        msg = f"timeout_ms must be from 1 to {limits.MAX_DELAY_MS}"
        raise InvalidInput(msg, field="timeout_ms")
    if len(command.choices) > limits.MAX_OPEN_REQUESTS or (command.kind == "select" and not command.choices):
        msg = f"choices: at least 1 for a select dialog and at most {limits.MAX_OPEN_REQUESTS}"
        raise InvalidInput(msg, field="choices")
    if len(session.state.dialogs) >= limits.MAX_OPEN_REQUESTS:
        msg = f"{limits.MAX_OPEN_REQUESTS} dialogs are open in this session already"
        raise Conflict(msg, field="session_id")
    asking = _asking_extension(command, caller)
    if asking is not None and _count_dialogs(session, asking) >= limits.MAX_DIALOGS_OF_EXTENSION:
        msg = f"{limits.MAX_DIALOGS_OF_EXTENSION} dialogs of extension {asking!r} are open in this session already"
        raise Conflict(msg, field="session_id")
    now = session.now()
    dialog = Dialog(
        request_id=RequestId(new_id("req")),
        kind=command.kind,
        title=checked_name(command.title, "title"),
        message=checked_text(command.message, "message") if command.message else "",
        choices=tuple(checked_name(choice, "choices") for choice in command.choices),
        opened_at=now,
        expires_at=now + timeout_ms,
        default=checked_text(command.default, "default") if command.default else "",
        extension=asking,
        to=_addressee(core, command.to),
        turn_id=command.turn_id if session.work is not None and session.work.turn_id == command.turn_id else None,
        rights=command.rights,
    )
    if len(encode((*session.state.dialogs, dialog))) > limits.MAX_DIALOG_BYTES:
        msg = f"the open dialogs of a session take at most {limits.MAX_DIALOG_BYTES:,} bytes together"
        raise Conflict(msg, field="session_id")
    session.record(ev.DialogOpened(dialog=dialog), caller.client_id)
    # The service itself keeps the time: a dialog also times out when its opener is gone.
    core.nursery.start_soon(session.wait_resolved, dialog.request_id, timeout_ms)

    async def wait_for_answer() -> r.DialogReply:
        try:
            resolved = await session.wait_resolved(dialog.request_id, timeout_ms)
        finally:
            if dialog.extension is not None:  # close it if its opener has left; else a no-op
                session.resolve_dialog(dialog.request_id, None, "stopped")
        answer = resolved.resolution
        return r.DialogReply(
            request_id=dialog.request_id,
            answered=answer.because == "answered",
            value=answer.value if isinstance(answer, DialogAnswer) else None,
            by=resolved.by,
            cursor=session.cursor,
        )

    return PendingReply(wait_for_answer)


def _asking_extension(command: c.OpenDialog, caller: Caller) -> str | None:
    """Return the extension that asks; an extension cannot impersonate another one."""
    acting = extension_of(caller.client_id)
    if acting is not None or command.extension is None:
        return acting
    return checked_name(command.extension, "extension")


def _count_dialogs(session: Session, extension: str) -> int:
    return sum(1 for dialog in session.state.dialogs if dialog.extension == extension)


def _addressee(core: ServiceCore, client_id: ClientId | None) -> ClientId | None:
    """Check that the addressed client is attached and may answer; it may leave and reconnect meanwhile."""
    if client_id is None:
        return None
    presence = core.recorder.session_list.clients.get(client_id)
    if presence is None or presence.role == "observer":
        why = "is not attached" if presence is None else "only watches"
        raise NotFound(f"the client {client_id!r} {why}, so it cannot be asked", field="to")
    return client_id


def answer_dialog(core: ServiceCore, command: c.AnswerDialog, caller: Caller) -> r.AnswerReply:
    session = core.session(command.session_id)
    dialog = next((each for each in session.state.dialogs if each.request_id == command.request_id), None)
    if dialog is not None and dialog.to not in {None, caller.client_id}:
        raise Forbidden(f"this dialog is for the client {dialog.to!r}", field="request_id")
    if dialog is not None and dialog.kind == "select" and command.value not in (None, *dialog.choices):
        raise InvalidInput(f"value must be one of: {', '.join(dialog.choices)}", field="value")
    if (fault := find_fault(command.value, limits.MAX_OPEN_JSON_DEPTH)) is not None:
        raise InvalidInput(f"value{fault.path}: {fault.reason}", field="value")
    answer = freeze_json(command.value)
    if len(encode(answer)) > limits.MAX_TEXT_CHARS:
        msg = f"value has more than {limits.MAX_TEXT_CHARS:,} bytes"
        raise InvalidInput(msg, field="value")
    accepted = session.resolve_dialog(command.request_id, answer, "answered", caller.client_id)
    resolved = _find_resolved(session, command.request_id)
    value = resolved.resolution.value if isinstance(resolved.resolution, DialogAnswer) else None
    return r.AnswerReply(
        request_id=command.request_id, accepted=accepted, value=value, by=resolved.by, cursor=session.cursor
    )


def answer_approval(core: ServiceCore, command: c.AnswerApproval, caller: Caller) -> r.AnswerReply:
    session = core.session(command.session_id)
    message = checked_text(command.message, "message", longest=limits.MAX_ERROR_CHARS) if command.message else ""
    approval = next((each for each in session.state.approvals if each.request_id == command.request_id), None)
    if approval is not None and command.fingerprint not in (None, approval.fingerprint):
        raise Conflict("this answer does not match the open approval: read the approval again", field="fingerprint")
    if approval is not None and (refused := explain_refused_decision(command.decision, approval.rights)) is not None:
        raise Forbidden(refused, field="decision")
    accepted = session.resolve_approval(
        command.request_id, command.decision, "answered", caller.client_id, message=message
    )
    resolved = _find_resolved(session, command.request_id)
    decision = resolved.resolution.decision if isinstance(resolved.resolution, ev.ApprovalResolved) else None
    return r.AnswerReply(
        request_id=command.request_id, accepted=accepted, decision=decision, by=resolved.by, cursor=session.cursor
    )


def _find_resolved(session: Session, request_id: RequestId) -> ResolvedRequest:
    resolved = session.find_resolved(request_id)
    if resolved is None:
        raise NotFound(f"there is no open request {request_id!r} in this session", field="request_id")
    return resolved


def schedule(core: ServiceCore, command: c.ScheduleWakeup, caller: Caller) -> r.ScheduleWakeupReply:
    session = core.session(command.session_id)
    text = checked_text(command.text)
    if not 1 <= command.delay_ms <= limits.MAX_DELAY_MS:
        msg = f"delay_ms must be from 1 to {limits.MAX_DELAY_MS} (a week)"
        raise InvalidInput(msg, field="delay_ms")
    if len(session.state.wakeups) >= limits.MAX_WAKEUPS:
        msg = f"{limits.MAX_WAKEUPS} wake-ups are armed in this session already"
        raise Conflict(msg, field="session_id")
    if sum(len(each.text) for each in session.state.wakeups) + len(text) > limits.MAX_WAKEUP_CHARS:
        msg = f"the wake-ups of a session hold at most {limits.MAX_WAKEUP_CHARS:,} characters together"
        raise Conflict(msg, field="session_id")
    wakeup = Wakeup(wakeup_id=WakeupId(new_id("wake")), text=text, due_at=session.now() + command.delay_ms)
    session.record(ev.WakeupScheduled(wakeup=wakeup), caller.client_id)
    core.wakeups.arm(command.session_id, wakeup.wakeup_id, wakeup.due_at)
    return r.ScheduleWakeupReply(wakeup_id=wakeup.wakeup_id, due_at=wakeup.due_at, cursor=session.cursor)


def cancel_wakeup(core: ServiceCore, command: c.CancelWakeup, caller: Caller) -> r.Acknowledged:
    session = core.session(command.session_id)
    if not any(each.wakeup_id == command.wakeup_id for each in session.state.wakeups):
        raise NotFound(
            f"there is no wake-up {command.wakeup_id!r} in this session; it may have fired", field="wakeup_id"
        )
    core.cancel_wakeup(session, command.wakeup_id, caller.client_id)
    return r.Acknowledged(cursor=session.cursor)


HANDLERS: Handlers = {
    c.OpenDialog: open_dialog,
    c.AnswerDialog: answer_dialog,
    c.AnswerApproval: answer_approval,
    c.ScheduleWakeup: schedule,
    c.CancelWakeup: cancel_wakeup,
    c.RequestStop: stop,
}
