"""History that is no longer in memory: pages of older messages, search, and switching back to old branches."""

from collections.abc import Iterable

from session_core import limits
from session_core.errors import InvalidInput, NotFound
from session_core.ids import MessageId
from session_core.service.core import ServiceCore
from session_core.service.handler_api import Caller, Handlers, PendingReply
from session_core.service.validation import check_limit, checked_text
from session_core.session.message_window import count_window_bytes
from session_core.session.session import Session
from session_core.vocabulary import commands as c
from session_core.vocabulary import events as ev
from session_core.vocabulary import replies as r
from session_core.vocabulary.messages import Message


def load_messages(core: ServiceCore, command: c.LoadMessages, _: Caller) -> PendingReply:
    check_limit(command.limit)
    state = core.session(command.session_id).state
    total = state.earlier + len(state.messages)
    before = total if command.before is None else command.before
    if not 0 <= before <= total:
        raise InvalidInput(f"before must be from 0 to {total}, the number of messages in this session", field="before")

    async def load_page() -> r.MessagesReply:
        found = await core.store.load_messages(command.session_id, before=before, limit=command.limit)
        left_out = len(found.messages) - _count_fitting(reversed(found.messages))
        page = found.messages[left_out:]
        return r.MessagesReply(first=found.first + left_out, messages=page, cursor=core.stream.cursor)

    return PendingReply(load_page)


def search(core: ServiceCore, command: c.SearchMessages, _: Caller) -> PendingReply:
    check_limit(command.limit)
    text = checked_text(command.text, longest=limits.MAX_NAME_CHARS)

    async def search_store() -> r.SearchReply:
        found = await core.store.search(text, limit=command.limit)
        return r.SearchReply(hits=found, cursor=core.stream.cursor)

    return PendingReply(search_store)


def is_only_in_store(session: Session, message_id: MessageId) -> bool:
    """Return whether a message may be only in the store."""
    return session.state.earlier > 0 and session.state.find_message(message_id) is None


async def load_old_path(session: Session, message_id: MessageId, field: str = "message_id") -> tuple[Message, ...]:
    """Read the path to a message that is no longer in memory, including the message.

    Raises:
        NotFound: The session has no such message.
    """
    path = await session.load_path(message_id)
    if not path:
        raise NotFound(f"there is no message {message_id!r} in this session", field=field)
    return path


def restore_branch(session: Session, path: tuple[Message, ...], caller: Caller) -> None:
    """Show an old branch again: its messages join the newest ones, and its last one is the head."""
    while path:
        count = _count_fitting(path)
        chunk, path = path[:count], path[count:]
        session.record(ev.MessagesImported(messages=chunk, head=chunk[-1].message_id), caller.client_id)


def _count_fitting(messages: Iterable[Message]) -> int:
    """Return how many of the first of these fit into one frame; a single message always does."""
    room, count = limits.MAX_MESSAGE_BYTES, 0
    for message in messages:
        room -= count_window_bytes((message,))
        if room < 0 and count:
            break
        count += 1
    return count


HANDLERS: Handlers = {
    c.LoadMessages: load_messages,
    c.SearchMessages: search,
}
