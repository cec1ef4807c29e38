"""The queue of waiting messages: list, edit, reorder, remove, take."""

from session_core.errors import InvalidInput, NotFound
from session_core.ids import QueueItemId
from session_core.service.core import ServiceCore
from session_core.service.handler_api import Caller, Handlers
from session_core.service.validation import check_queue_room, user_parts
from session_core.session.session import Session
from session_core.vocabulary import commands as c
from session_core.vocabulary import events as ev
from session_core.vocabulary import replies as r
from session_core.vocabulary.messages import FilePart
from session_core.vocabulary.sessions import QueueItem


def list_queue(core: ServiceCore, command: c.ListQueue, _: Caller) -> r.QueueReply:
    session = core.session(command.session_id)
    return r.QueueReply(items=session.state.queue, cursor=session.cursor)


def edit(core: ServiceCore, command: c.EditQueueItem, caller: Caller) -> r.Acknowledged:
    parts = user_parts(command.text, command.images)
    session = core.session(command.session_id)
    item = _get_item(session, command.item_id)
    files = (part for part in item.parts if isinstance(part, FilePart))  # the command cannot name them, so they stay
    parts = (*parts, *files)
    check_queue_room(session, parts, instead_of=item.item_id)
    session.record(ev.QueueItemEdited(item_id=item.item_id, parts=parts), caller.client_id)
    return r.Acknowledged(cursor=session.cursor)


def reorder(core: ServiceCore, command: c.ReorderQueue, caller: Caller) -> r.Acknowledged:
    session = core.session(command.session_id)
    waiting = [item.item_id for item in session.state.queue]
    if sorted(waiting) != sorted(command.item_ids):
        raise InvalidInput(
            "item_ids must name every waiting message exactly once; list the queue and try again", field="item_ids"
        )
    session.record(ev.QueueReordered(item_ids=command.item_ids), caller.client_id)
    return r.Acknowledged(cursor=session.cursor)


def remove(core: ServiceCore, command: c.RemoveQueueItem, caller: Caller) -> r.Acknowledged:
    session = core.session(command.session_id)
    session.take_from_queue((_get_item(session, command.item_id),), "removed", caller.client_id)
    return r.Acknowledged(cursor=session.cursor)


def take(core: ServiceCore, command: c.TakeQueue, caller: Caller) -> r.QueueReply:
    session = core.session(command.session_id)
    items = session.state.queue if command.item_id is None else (_get_item(session, command.item_id),)
    session.take_from_queue(items, "taken", caller.client_id)
    return r.QueueReply(items=items, cursor=session.cursor)


def _get_item(session: Session, item_id: QueueItemId) -> QueueItem:
    item = next((each for each in session.state.queue if each.item_id == item_id), None)
    if item is None:
        raise NotFound(f"no message {item_id!r} is waiting; it may have been delivered just now", field="item_id")
    return item


HANDLERS: Handlers = {
    c.ListQueue: list_queue,
    c.EditQueueItem: edit,
    c.ReorderQueue: reorder,
    c.RemoveQueueItem: remove,
    c.TakeQueue: take,
}
