"""Replies remembered by idempotency key: a command that is sent twice runs once."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from hashlib import blake2b

import trio

from session_core import limits
from session_core.errors import Conflict, InvalidInput
from session_core.ids import ClientId
from session_core.service.handler_api import PendingReply
from session_core.service.preparation import SeenRequest
from session_core.service.validation import check_encodable
from session_core.storage.base import StoredReply
from session_core.vocabulary.commands import CommandRequest
from session_core.vocabulary.replies import AnswerReply, DialogReply, QueueReply, RunCommandReply, StopOutcome

_Key = tuple[ClientId, str]


class RememberedReplies:
    """The replies to the newest keyed commands; each client has its own keys."""

    def __init__(self, keep: Callable[[StoredReply], None]) -> None:
        self._replies: OrderedDict[_Key, tuple[bytes, object]] = OrderedDict()
        self._keep = keep

    def restore(self, stored_replies: Iterable[StoredReply]) -> None:
        """Load the replies of an earlier run of the service."""
        for each in stored_replies:
            self._replies[each.client_id, each.key] = (each.fingerprint, each.reply)

    def recall(self, request: CommandRequest) -> object | None:
        """Return the first reply to this key, or None when it is new.

        Raises:
            Conflict: The key was used for another command.
        """
        key = request.idempotency_key
        if key is None:
            return None
        if not key or len(key) > limits.MAX_NAME_CHARS:
            msg = f"an idempotency key has 1 to {limits.MAX_NAME_CHARS} characters"
            raise InvalidInput(msg, field="idempotency_key")
        check_encodable(key, "idempotency_key")
        found = self._replies.get((request.client_id, key))
        if found is None:
            return None
        fingerprint, reply = found
        if fingerprint != _fingerprint(request):
            msg = f"the idempotency key {key!r} was already used for another command"
            raise Conflict(msg, field="idempotency_key")
        return reply

    def knows(self, client_id: ClientId, key: str | None) -> bool:
        """Return whether a command with this key was sent before."""
        return key is not None and (client_id, key) in self._replies

    def settle(self, request: CommandRequest, reply: object) -> object:
        """Return the reply of a command that took time: every caller that sent its key gets the first one."""
        if request.idempotency_key is None:
            return reply
        key = (request.client_id, request.idempotency_key)
        fingerprint, known = self._replies.get(key, (b"", reply))
        if not isinstance(known, PendingReply):
            return known
        self._put(request, fingerprint, reply)
        return reply

    def forget(self, request: CommandRequest) -> None:
        """Forget a command that took time and failed: it may be retried with its key."""
        key = (request.client_id, request.idempotency_key or "")
        if isinstance(self._replies.get(key, (b"", None))[1], PendingReply):
            del self._replies[key]

    def remember(self, request: CommandRequest, reply: object) -> object:
        """Store a reply, if it has a key, and drop the oldest when there are too many. Returns the reply to send."""
        if request.idempotency_key is None or request.command.reads_only:
            return reply
        if isinstance(reply, PendingReply):
            reply = PendingReply(_SharedReply(reply).wait)
        self._put(request, _fingerprint(request), reply)
        if len(self._replies) > limits.IDEMPOTENCY_CAPACITY:
            self._replies.popitem(last=False)
        return reply

    def _put(self, request: CommandRequest, fingerprint: bytes, reply: object) -> None:
        client_id, key = request.client_id, request.idempotency_key
        assert key is not None
        self._replies[client_id, key] = (fingerprint, reply)
        if not isinstance(reply, PendingReply):
            about = request.command.session_id if isinstance(reply, QUOTING) else None
            self._keep(
                StoredReply(client_id=client_id, key=key, fingerprint=fingerprint, reply=reply, session_id=about)
            )


QUOTING = (QueueReply, StopOutcome, DialogReply, AnswerReply, RunCommandReply)
"""Replies that quote what users wrote: they are deleted with their session, unlike those that only name ids."""


class _SharedReply:
    """A reply that takes time, shared by all callers that sent its key: its work is done once.

    Cancellation: the next waiting caller starts over, as if the cancelled one had never come.
    """

    def __init__(self, later: PendingReply) -> None:
        self._later = later
        self._waiting = trio.Lock()
        self._replies: list[object] = []

    async def wait(self) -> object:
        async with self._waiting:
            if not self._replies:
                self._replies.append(await self._later.wait())
            return self._replies[0]


def _fingerprint(request: CommandRequest) -> bytes:
    """Return a digest that identifies a command without storing it: a prompt may be a megabyte long."""
    command = request.sent if isinstance(request, SeenRequest) else request.command
    return blake2b(repr(command).encode("utf-8", "surrogatepass"), digest_size=16).digest()
