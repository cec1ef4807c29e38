"""The conversation of a session, read message by message from the store, and where other branches leave it."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping

import attrs

import session_core as sc

PAGE = 8
"""Messages read at once: each may be megabytes."""
LOOK_AHEAD = 8
"""Messages kept until the results of a call are found: they follow it, with little in between."""


@attrs.frozen(kw_only=True)
class MessageTree:
    """How the messages of a session are linked.

    Attributes:
        snapshot: The state of the session, which holds its newest messages.
        shown_numbers: The numbers of the messages on the path to the head.
        branches: How many hidden messages hang on a shown one, by its id.
        elsewhere: How many belong to a conversation that was abandoned from its very beginning.
    """

    snapshot: sc.SessionSnapshot
    shown_numbers: frozenset[int]
    branches: Mapping[sc.MessageId, int]
    elsewhere: int


async def read_tree(reader: sc.SqliteReader, snapshot: sc.SessionSnapshot) -> MessageTree:
    """Find out which messages are shown; keeps only the id and the parent id of each."""
    hung = [(message.message_id, message.parent_id) async for _, message in _read_numbered(reader, snapshot)]
    shown_numbers: set[int] = set()
    wanted = snapshot.head
    for number in range(len(hung) - 1, -1, -1):  # parents come before their children, even if repeated
        if wanted is not None and hung[number][0] == wanted:
            shown_numbers.add(number)
            wanted = hung[number][1]
    path = {hung[number][0] for number in shown_numbers}
    leaves_at: dict[sc.MessageId, sc.MessageId | None] = {}
    for message_id, parent_id in hung:
        if message_id in path:
            continue
        on_path = parent_id is not None and parent_id in path
        leaves_at[message_id] = parent_id if on_path or parent_id is None else leaves_at.get(parent_id)
    branches: dict[sc.MessageId, int] = {}
    for parent in leaves_at.values():
        if parent is not None:
            branches[parent] = branches.get(parent, 0) + 1
    elsewhere = sum(1 for parent in leaves_at.values() if parent is None)
    return MessageTree(
        snapshot=snapshot, shown_numbers=frozenset(shown_numbers), branches=branches, elsewhere=elsewhere
    )


async def shown_messages(reader: sc.SqliteReader, tree: MessageTree) -> AsyncGenerator[sc.Message]:
    """Yield the messages of the conversation, oldest first.

    Raises:
        NotFound: The session was deleted meanwhile.
    """
    async for number, message in _read_numbered(reader, tree.snapshot, tree.shown_numbers):
        if number in tree.shown_numbers:
            yield message


async def group_with_results(messages: AsyncIterator[sc.Message]) -> AsyncGenerator[list[sc.Message]]:
    """Yield messages in groups: one that calls tools comes together with those up to its results."""
    group: list[sc.Message] = []
    unanswered: set[sc.CallId] = set()
    async for message in messages:
        if group and (message.role == "assistant" or len(group) == LOOK_AHEAD):
            yield group
            group, unanswered = [], set()
        group.append(message)
        unanswered.update(call.call_id for call in message.tool_calls)
        unanswered.difference_update(part.call_id for part in message.parts if isinstance(part, sc.ToolResultPart))
        if not unanswered:
            yield group
            group = []
    if group:
        yield group


async def _read_numbered(
    reader: sc.SqliteReader, snapshot: sc.SessionSnapshot, only: frozenset[int] | None = None
) -> AsyncGenerator[tuple[int, sc.Message]]:
    """Yield messages with their numbers; skips pages with no wanted message."""
    for first in range(0, snapshot.earlier, PAGE):
        end = min(first + PAGE, snapshot.earlier)
        if only is not None and only.isdisjoint(range(first, end)):
            continue
        page = await reader.load_messages(snapshot.session_id, before=end, limit=end - first)
        if page.first != first or len(page.messages) != end - first:
            msg = f"session {snapshot.session_id!r} was deleted while it was read"
            raise sc.NotFound(msg, field="session_id")
        for place, message in enumerate(page.messages):
            yield first + place, message
    for place, message in enumerate(snapshot.messages):
        yield snapshot.earlier + place, message
