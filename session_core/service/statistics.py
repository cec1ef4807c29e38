"""Counts of a service, for people and tests."""

import attrs

from session_core.service.core import ServiceCore
from session_core.service.mailbox import Mailbox, MailboxStatistics
from session_core.stream.event_stream import StreamStatistics


@attrs.frozen(kw_only=True)
class ServiceStatistics:
    """Counts for people and tests."""

    sessions: int
    in_memory: int
    running: int
    clients: int
    mailbox: MailboxStatistics
    stream: StreamStatistics
    read_only: str | None = None


def statistics_of(core: ServiceCore, mailbox: Mailbox) -> ServiceStatistics:
    """Return the counts of this moment."""
    fleet = core.ledger.fleet
    return ServiceStatistics(
        sessions=len(fleet.sessions),
        in_memory=len(core.sessions),
        read_only=fleet.read_only,
        running=sum(1 for session in core.sessions.values() if session.work is not None),
        clients=len(fleet.clients),
        mailbox=mailbox.statistics(),
        stream=core.stream.statistics(),
    )
