"""Messages and turns: send, start, edit, switch branch, resume, dismiss, wait, clear, compact."""

from session_core import limits
from session_core.errors import Conflict, NotFound
from session_core.ids import MessageId
from session_core.service.compact_and_restore import start_compaction
from session_core.service.core import ServiceCore
from session_core.service.handler_api import Caller, Handlers, PendingReply, is_overtaken, refuse_if_overtaken
from session_core.service.handlers.history import is_only_in_store, load_old_path, restore_branch
from session_core.service.validation import check_queue_room, checked_json, checked_schema, user_parts
from session_core.session.message_tree import newest_leaf
from session_core.session.session import Session
from session_core.vocabulary import commands as c
from session_core.vocabulary import events as ev
from session_core.vocabulary import replies as r
from session_core.vocabulary.messages import Message, UserPart


def send(core: ServiceCore, command: c.SendUserMessage, caller: Caller) -> r.SendUserMessageReply:
    parts = user_parts(command.text, command.images, command.files)
    schema = checked_schema(command.output_schema)
    if command.extension is not None:
        checked_json(command.extension, "extension", longest=limits.MAX_TURN_JSON_BYTES)
    session = core.session(command.session_id)
    if session.work is not None or command.deliver_as == "next_turn" or is_overtaken(session, caller):
        for field in ("output_schema", "extension"):
            if getattr(command, field) is not None:
                raise Conflict(f"a message with {field} starts its own turn, so the session must be idle", field=field)
        check_queue_room(session, parts)
        restart = not is_overtaken(session, caller)
        item = core.enqueue(session, parts, command.deliver_as, caller.client_id, restart=restart)
        return r.SendUserMessageReply(disposition="queued", queue_item_id=item.item_id, cursor=session.cursor)
    turn_id, message_id = core.start_turn(
        session, caller.client_id, parts, output_schema=schema, extension=command.extension
    )
    return r.SendUserMessageReply(disposition="started", turn_id=turn_id, message_id=message_id, cursor=session.cursor)


def start_if_idle(core: ServiceCore, command: c.StartTurnIfIdle, caller: Caller) -> r.StartTurnReply:
    parts = user_parts(command.text, command.images, command.files)
    session = core.session(command.session_id)
    if session.work is not None or is_overtaken(session, caller):
        return r.StartTurnReply(started=False, cursor=session.cursor)
    turn_id, message_id = core.start_turn(session, caller.client_id, parts)
    return r.StartTurnReply(started=True, turn_id=turn_id, message_id=message_id, cursor=session.cursor)


def edit(core: ServiceCore, command: c.EditMessage, caller: Caller) -> r.SendUserMessageReply | PendingReply:
    parts = user_parts(command.text, command.images, command.files)
    session = core.require_idle_session(command.session_id, "edit a message")
    if not is_only_in_store(session, command.message_id):
        return _start_edited_turn(core, command, parts, caller, (_get_message(session, command.message_id),))

    async def edit_old_message() -> r.SendUserMessageReply:
        path = await load_old_path(session, command.message_id)
        await core.loaded_sessions.load_session(command.session_id)
        core.refuse_if_unsaved()
        return _start_edited_turn(core, command, parts, caller, path)

    return PendingReply(edit_old_message)


def _start_edited_turn(
    core: ServiceCore, command: c.EditMessage, parts: tuple[UserPart, ...], caller: Caller, path: tuple[Message, ...]
) -> r.SendUserMessageReply:
    """Start the turn; for an old message, restore the path to it first."""
    session = core.require_idle_session(command.session_id, "edit a message")
    *before, edited = path
    if edited.role != "user":
        raise Conflict(f"only user messages can be edited; this one is from: {edited.role}", field="message_id")
    refuse_if_overtaken(session, caller)
    restore_branch(session, tuple(before), caller)
    turn_id, message_id = core.start_turn(session, caller.client_id, parts, after=edited.parent_id, branch=True)
    return r.SendUserMessageReply(disposition="started", turn_id=turn_id, message_id=message_id, cursor=session.cursor)


def _get_message(session: Session, message_id: MessageId) -> Message:
    message = session.state.find_message(message_id)
    if message is None:
        raise NotFound(f"there is no message {message_id!r} in this session", field="message_id")
    return message


def switch_branch(core: ServiceCore, command: c.SwitchBranch, caller: Caller) -> r.Acknowledged | PendingReply:
    session = core.require_idle_session(command.session_id, "switch the branch")
    if is_only_in_store(session, command.message_id):
        return PendingReply(lambda: _switch_to_old_branch(core, command, caller))
    message = _get_message(session, command.message_id)
    leaf = newest_leaf(session.state.messages, message.message_id)
    session.record(ev.BranchSwitched(head=leaf), caller.client_id)
    return r.Acknowledged(cursor=session.cursor)


async def _switch_to_old_branch(core: ServiceCore, command: c.SwitchBranch, caller: Caller) -> r.Acknowledged:
    session = core.session(command.session_id)
    leaf = await core.store.newest_leaf(command.session_id, command.message_id)
    path = await load_old_path(session, leaf or command.message_id)
    await core.loaded_sessions.load_session(command.session_id)
    core.refuse_if_unsaved()
    session = core.require_idle_session(command.session_id, "switch the branch")
    if leaf is not None and not is_only_in_store(session, leaf):
        session.record(ev.BranchSwitched(head=leaf), caller.client_id)
    else:
        restore_branch(session, path, caller)
    return r.Acknowledged(cursor=session.cursor)


def resume(core: ServiceCore, command: c.ResumeSession, caller: Caller) -> r.StartTurnReply:
    session = core.require_idle_session(command.session_id, "resume the session")
    if session.state.activity.name == "idle":
        raise Conflict("there is nothing to resume: the last turn completed", field="session_id")
    head = session.state.find_message(session.state.head)
    if head is None or (head.role == "assistant" and not head.is_interrupted and head.source is None):
        raise Conflict(
            "there is nothing to resume: the conversation is empty, or the model has answered to its end",
            field="session_id",
        )
    refuse_if_overtaken(session, caller)
    turn_id, _ = core.start_turn(session, caller.client_id, resumes=True)
    return r.StartTurnReply(started=True, turn_id=turn_id, cursor=session.cursor)


def dismiss(core: ServiceCore, command: c.DismissOutcome, caller: Caller) -> r.Acknowledged:
    session = core.require_idle_session(command.session_id, "dismiss an outcome")
    session.record(ev.OutcomeDismissed(), caller.client_id)
    return r.Acknowledged(cursor=session.cursor)


def wait_for_turn(core: ServiceCore, command: c.WaitForTurn, _: Caller) -> r.WaitForTurnReply | PendingReply:
    session = core.session(command.session_id)
    work = session.work if session.work is not None and session.work.kind == "turn" else None
    newest = work or session.state.last_outcome
    turn_id = command.turn_id or (newest.turn_id if newest is not None else None)
    if turn_id is None:
        raise Conflict("this session has had no turn yet", field="session_id")
    if work is not None and work.turn_id == turn_id:

        async def wait_for_outcome() -> r.WaitForTurnReply:
            await work.ended.wait()
            return r.WaitForTurnReply(outcome=session.outcomes[turn_id], cursor=session.cursor)

        return PendingReply(wait_for_outcome)
    if turn_id not in session.outcomes:
        raise NotFound(f"there is no turn {turn_id!r} in this session, or it ended long ago", field="turn_id")
    return r.WaitForTurnReply(outcome=session.outcomes[turn_id], cursor=session.cursor)


def clear(core: ServiceCore, command: c.ClearContext, caller: Caller) -> r.Acknowledged:
    session = core.require_idle_session(command.session_id, "clear the conversation")
    session.record(ev.ContextCleared(), caller.client_id)
    if session.state.executor_points:
        session.record(ev.ExecutorStateSaved(state=None), caller.client_id)
    protocol = core.protocols.find_live(command.session_id)
    if protocol is not None:
        protocol.invalidate_all()
    return r.Acknowledged(cursor=session.cursor)


def compact(core: ServiceCore, command: c.CompactContext, caller: Caller) -> r.Acknowledged:
    session = core.require_idle_session(command.session_id, "compact the conversation")
    if not session.state.transcript:
        raise Conflict("there is nothing to compact: the conversation is empty", field="session_id")
    refuse_if_overtaken(session, caller)
    start_compaction(core, session, caller.client_id)
    return r.Acknowledged(cursor=session.cursor)


HANDLERS: Handlers = {
    c.SendUserMessage: send,
    c.StartTurnIfIdle: start_if_idle,
    c.EditMessage: edit,
    c.SwitchBranch: switch_branch,
    c.ResumeSession: resume,
    c.DismissOutcome: dismiss,
    c.WaitForTurn: wait_for_turn,
    c.ClearContext: clear,
    c.CompactContext: compact,
}
