"""The methods of the commands about protocols; `methods.SessionMethods` has them all."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TypeVar

from session_core.ids import MessageId, SessionId
from session_core.vocabulary import protocol_commands as c
from session_core.vocabulary import replies as r
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.protocols import NewMessage
from session_core.vocabulary.session_commands import Command

R = TypeVar("R")


class ProtocolMethods(ABC):
    """What a client can ask about the protocols of a service; each method's contract is that of its command."""

    @abstractmethod
    async def execute(self, command: Command[R], *, idempotency_key: str | None = None) -> R:
        """Run a command and return its reply, or raise one typed error."""

    async def list_protocols(self) -> r.ListProtocolsReply:
        """List the ways in which models can act in a turn."""
        return await self.execute(c.ListProtocols())

    async def append_messages(
        self,
        session_id: SessionId,
        operation_id: str,
        messages: Iterable[NewMessage],
        *,
        after: MessageId | None = None,
    ) -> r.AppendReply:
        """Put messages at the end of a conversation at rest, without asking any model."""
        return await self.execute(
            c.AppendMessages(session_id=session_id, operation_id=operation_id, messages=tuple(messages), after=after)
        )

    async def apply_extension(self, session_id: SessionId, extension: JsonObject) -> r.Acknowledged:
        """Give the protocol of a session something beside the conversation."""
        return await self.execute(c.ApplyExtension(session_id=session_id, extension=extension))
