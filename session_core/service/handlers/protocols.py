"""Protocols: list them, send input to one, and add messages to a conversation between two turns."""

import hashlib

import attrs

from session_core import limits
from session_core.agent.protocol_work import current_frame
from session_core.errors import Conflict, InvalidInput
from session_core.ids import MessageId, SessionId
from session_core.protocols.faults import InputRejected, ProtocolFault
from session_core.protocols.lifecycle import SessionProtocol
from session_core.service.core import ServiceCore
from session_core.service.handler_api import Caller, Handlers, PendingReply
from session_core.service.protocols import ProtocolUnusable
from session_core.service.validation import checked_text, text_parts
from session_core.session.session import Session
from session_core.vocabulary import commands as c
from session_core.vocabulary import events as ev
from session_core.vocabulary import replies as r
from session_core.vocabulary.messages import Message


def list_protocols(core: ServiceCore, _command: c.ListProtocols, _: Caller) -> r.ListProtocolsReply:
    return r.ListProtocolsReply(
        protocols=core.protocols.registry.names(), default=core.config.protocol, cursor=core.stream.cursor
    )


# --- messages between two turns ---------------------------------------------------------------------------------------


def append(core: ServiceCore, command: c.AppendMessages, caller: Caller) -> r.AppendReply | PendingReply:
    messages = _new_messages(command)
    session = core.require_idle_session(command.session_id, "append messages")
    if not session.state.earlier or session.state.find_message(messages[0].message_id) is not None:
        return _append_now(core, command, messages, caller)

    async def append_after_store_check() -> r.AppendReply:
        """Check the store first: the messages may exist already and no longer be in memory."""
        if await core.store.load_path(command.session_id, messages[0].message_id, max_chars=1):
            await _refuse_unless_all_same(core, command, messages)
            return _replayed(session, messages)
        older = await _find_in_stored_path(core, session, command.after)
        await core.loaded_sessions.load_session(command.session_id)
        core.refuse_if_unsaved()
        return await _await_reply(_append_now(core, command, messages, caller, older=older))

    return PendingReply(append_after_store_check)


async def _refuse_unless_all_same(core: ServiceCore, command: c.AppendMessages, messages: tuple[Message, ...]) -> None:
    """Compare with the messages that an earlier operation of this id left in the store, a step at a time."""
    session_id = command.session_id
    beyond = _derived_id(session_id, command.operation_id, len(messages))
    if await core.store.load_path(session_id, beyond, max_chars=1):
        raise _operation_id_conflict()
    for each in messages:
        path = await core.store.load_path(session_id, each.message_id, max_chars=1)
        _refuse_unless_same(path[-1] if path else None, each)


async def _find_in_stored_path(core: ServiceCore, session: Session, after: MessageId | None) -> MessageId | None:
    """Return `after` if it is only in the store, and on the path to the messages in memory."""
    way = session.state.transcript
    if after is None or session.state.find_message(after) is not None:
        return None
    before = way[0].parent_id if way else session.state.head
    while before is not None:
        path = await core.store.load_path(session.state.session_id, before, max_chars=limits.CONVERSATION_CHARS // 2)
        if any(message.message_id == after for message in path):
            return after
        before = path[0].parent_id if path else None
    return None


async def _await_reply(reply: r.AppendReply | PendingReply) -> r.AppendReply:
    if isinstance(reply, r.AppendReply):
        return reply
    waited = await reply.wait()
    assert isinstance(waited, r.AppendReply)
    return waited


def _new_messages(command: c.AppendMessages) -> tuple[Message, ...]:
    if not command.operation_id.strip() or len(command.operation_id) > limits.MAX_NAME_CHARS:
        raise InvalidInput(
            f"operation_id must have 1 to {limits.MAX_NAME_CHARS} characters that are not all blank",
            field="operation_id",
        )
    if not 1 <= len(command.messages) <= limits.MAX_PAGE:
        raise InvalidInput(f"there must be 1 to {limits.MAX_PAGE} messages", field="messages")
    return tuple(
        Message(
            message_id=_derived_id(command.session_id, command.operation_id, number),
            parent_id=None,
            role=each.role,
            parts=text_parts(checked_text(each.text, f"messages[{number}].text")),
            created_at=0,
        )
        for number, each in enumerate(command.messages)
    )


def _derived_id(session_id: SessionId, operation_id: str, number: int) -> MessageId:
    """Return a deterministic id: a repeated operation finds what it has done before."""
    return MessageId("msg_" + hashlib.sha256(f"{session_id}\n{number}\n{operation_id}".encode()).hexdigest()[:26])


def _append_now(
    core: ServiceCore,
    command: c.AppendMessages,
    messages: tuple[Message, ...],
    caller: Caller,
    *,
    older: MessageId | None = None,
) -> r.AppendReply | PendingReply:
    session = core.require_idle_session(command.session_id, "append messages")
    state = session.state
    known = [(state.find_message(each.message_id), each) for each in messages]
    if any(before is not None for before, _ in known):
        if state.find_message(_derived_id(command.session_id, command.operation_id, len(messages))) is not None:
            raise _operation_id_conflict()  # the earlier operation had more messages
        for before, each in known:
            _refuse_unless_same(before, each)
        return _replayed(session, messages)
    on_the_way = {older, *(message.message_id for message in state.transcript)}
    if command.after is not None and command.after not in on_the_way:
        return r.AppendReply(outcome="stale_branch", message_ids=(), cursor=session.cursor)
    added: list[Message] = []
    for each in messages:
        message = attrs.evolve(each, parent_id=state.head, created_at=session.now())
        session.record(ev.MessageAdded(message=message), caller.client_id)
        added.append(message)
    protocol = core.protocols.find_live(command.session_id)
    reply = r.AppendReply(
        outcome="appended", message_ids=tuple(each.message_id for each in added), cursor=session.cursor
    )
    if protocol is None:
        return reply  # the protocol is restored from the whole conversation before its first use

    async def tell_and_reply() -> r.AppendReply:
        await _tell_protocol(core, session, protocol, command.operation_id, tuple(added))
        return reply

    return PendingReply(tell_and_reply)


def _refuse_unless_same(before: Message | None, each: Message) -> None:
    if before is None or (before.role, before.parts) != (each.role, each.parts):
        raise _operation_id_conflict()


def _operation_id_conflict() -> Conflict:
    return Conflict("this operation_id was used for other messages", field="operation_id")


def _replayed(session: Session, messages: tuple[Message, ...]) -> r.AppendReply:
    return r.AppendReply(
        outcome="replayed", message_ids=tuple(each.message_id for each in messages), cursor=session.cursor
    )


async def _tell_protocol(
    core: ServiceCore, session: Session, protocol: SessionProtocol, operation_id: str, messages: tuple[Message, ...]
) -> None:
    """Tell a protocol of durable messages; if that fails, they stay and the protocol is restored before its next use.

    Cancellation: the protocol may not have been told, and is restored as well.
    """
    is_delivered = False
    try:
        await session.wait_until_durable()
        await protocol.note_appended(current_frame(session.state), operation_id, messages)
        is_delivered = True
    except ProtocolFault as fault:
        if core.sessions.get(session.state.session_id) is session:  # it may have been deleted meanwhile
            session.record(ev.ProtocolFailed(protocol=fault.plugin, callback=fault.callback, reason=fault.reason))
    finally:
        if not is_delivered:
            protocol.invalidate()


# --- input outside the conversation -----------------------------------------------------------------------------------


def apply_extension(core: ServiceCore, command: c.ApplyExtension, _: Caller) -> PendingReply:
    session = core.require_idle_session(command.session_id, "send input to the protocol")
    protocol = core.protocols.get_protocol(session)

    async def apply_and_reply() -> r.Acknowledged:
        try:
            await protocol.prepare(current_frame(session.state), session.conversation)
            await protocol.apply_extension(current_frame(session.state), command.extension)
        except InputRejected as rejected:
            raise InvalidInput(
                str(rejected) or "the protocol does not accept this input", field="extension"
            ) from rejected
        except ProtocolFault as fault:
            raise ProtocolUnusable(str(fault), field="session_id") from fault
        return r.Acknowledged(cursor=session.cursor)

    return PendingReply(apply_and_reply)


HANDLERS: Handlers = {
    c.ListProtocols: list_protocols,
    c.AppendMessages: append,
    c.ApplyExtension: apply_extension,
}
