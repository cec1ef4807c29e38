"""Finds our message again after missed events, even if it has left the newest messages."""

import session_core as sc
from frontends.commands.run.attached_service import Client
from frontends.commands.run.own_turn import OwnTurn

_PAGE = 100


async def messages_since(service: Client, own: OwnTurn, snapshot: sc.SessionSnapshot) -> tuple[sc.Message, ...]:
    """Return the messages of a snapshot, and as many before them as needed to find ours.

    Raises:
        SessionCoreError: The request to the service failed.
    """
    found, before = tuple(snapshot.messages), snapshot.earlier
    page = found
    while before > own.since and own.is_missing_in(snapshot, page):
        limit = min(_PAGE, before - own.since)
        reply = await service.load_messages(snapshot.session_id, before=before, limit=limit)
        if not reply.messages:
            break
        page, before = reply.messages, reply.first
        found = (*page, *found)
    return found
