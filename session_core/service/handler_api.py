"""What a handler gets and gives: the caller, who may have been overtaken by a stop, and a reply now or later."""

from collections.abc import Awaitable, Callable
from typing import Any

import attrs

from session_core.errors import Conflict
from session_core.ids import ClientId
from session_core.session.session import Session
from session_core.vocabulary.commands import Command

Handlers = dict[type[Command[Any]], Callable[..., object]]
"""The function that handles each type of command."""


@attrs.frozen(kw_only=True)
class Caller:
    """The sender of the command being handled, and its place in the order of all commands.

    A command that does not go through the mailbox has the place of the newest command sent so far.
    """

    client_id: ClientId
    number: int


def is_overtaken(session: Session, caller: Caller) -> bool:
    """Return whether a stop came after this command was sent: then it must not start anything."""
    return caller.number <= session.stop_mark


def refuse_if_overtaken(session: Session, caller: Caller) -> None:
    """Refuse a command that a stop has overtaken."""
    if is_overtaken(session, caller):
        raise Conflict("a stop was requested after this command was sent, so nothing was started", field="session_id")


@attrs.frozen
class PendingReply:
    """A reply that takes time: the caller waits for it in its own task, the actor does not."""

    wait: Callable[[], Awaitable[object]]
