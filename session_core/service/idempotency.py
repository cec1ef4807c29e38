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
            raise InvalidInput(
                f"an idempotency key has 1 to {limits.MAX_NAME_CHARS} characters", field="idempotency_key"
            )
        check_encodable(key, "idempotency_key")
        found = self._replies.get((request.client_id, key))
        if found is None:
            return None
        fingerprint, reply = found
        if fingerprint != _fingerprint(request):
            raise Conflict(f"the idempotency key {key!r} was already used for another command", field="idempotency_key")
        return reply

    def knows(self, client_id: ClientId, key: str | None) -> bool:
        """Return whether a command with this key was sent before."""
        return key is not None and (client_id, key) in self._replies

    def remember(self, request: CommandRequest, reply: object) -> object:
        """Store a reply, if it has a key, and drop the oldest when there are too many. Returns the reply to send."""
        if request.idempotency_key is None or request.command.reads_only:
            return reply
        fingerprint = _fingerprint(request)
        if isinstance(reply, PendingReply):
            reply = self._share(request, fingerprint, reply)
        self._put(request, fingerprint, reply)
        if len(self._replies) > limits.IDEMPOTENCY_CAPACITY:
            self._replies.popitem(last=False)
        return reply

    def _share(self, request: CommandRequest, fingerprint: bytes, later: PendingReply) -> PendingReply:
        """Return a reply for all callers that send the key: the work of a command that takes time is done once.

        If it fails, it is forgotten: the command may be retried with its key.

        Cancellation: the next waiting caller starts over, as if the cancelled one had never come.
        """
        key, waiting, replies = (request.client_id, request.idempotency_key or ""), trio.Lock(), list[object]()

        async def wait() -> object:
            async with waiting:
                if not replies:
                    try:
                        replies.append(await later.wait())
                    except Exception:
                        if self._replies.get(key) == (fingerprint, shared):
                            del self._replies[key]
                        raise
                    if self._replies.get(key) == (fingerprint, shared):  # else it was dropped as too old
                        self._put(request, fingerprint, replies[0])
                return replies[0]

        shared = PendingReply(wait)
        return shared

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


def _fingerprint(request: CommandRequest) -> bytes:
    """Return a digest that identifies a command without storing it: a prompt may be a megabyte long."""
    command = request.sent if isinstance(request, SeenRequest) else request.command
    return blake2b(repr(command).encode("utf-8", "surrogatepass"), digest_size=16).digest()
