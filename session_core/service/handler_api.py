"""What a handler gets and gives: the caller, and a reply now or later."""

from collections.abc import Awaitable, Callable
from typing import Any

import attrs

from session_core.ids import ClientId
from session_core.vocabulary.commands import Command

Handlers = dict[type[Command[Any]], Callable[..., object]]
"""The function that handles each command."""


@attrs.frozen(kw_only=True)
class Caller:
    """The sender of the command being handled, and its place in the order of all commands.

    A command beside the mailbox has the place of the newest command sent so far.
    """

    client_id: ClientId
    number: int


@attrs.frozen
class PendingReply:
    """A reply that takes time: the caller waits for it in its own task, the actor does not."""

    wait: Callable[[], Awaitable[object]]
