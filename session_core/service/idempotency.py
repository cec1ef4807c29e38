"""Replies remembered by idempotency key, so that sending a command twice does it once."""

from collections import OrderedDict
from hashlib import blake2b

from session_core import limits
from session_core.errors import Conflict, InvalidInput
from session_core.ids import ClientId
from session_core.service.core import Later
from session_core.vocabulary.commands import CommandRequest

_Key = tuple[ClientId, str]


class RememberedReplies:
    """The replies to the newest keyed commands; each client has keys of its own."""

    def __init__(self) -> None:
        self._replies: OrderedDict[_Key, tuple[bytes, object]] = OrderedDict()

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
        found = self._replies.get((request.client_id, key))
        if found is None:
            return None
        fingerprint, reply = found
        if fingerprint != _fingerprint(request):
            msg = f"the idempotency key {key!r} was already used for another command"
            raise Conflict(msg, field="idempotency_key")
        return reply

    def settle(self, request: CommandRequest, reply: object) -> object:
        """Return the reply of a command that took time: the first one to be had, for everybody who sent its key."""
        if request.idempotency_key is None:
            return reply
        key = (request.client_id, request.idempotency_key)
        fingerprint, known = self._replies.get(key, (b"", reply))
        if not isinstance(known, Later):
            return known
        self._replies[key] = (fingerprint, reply)
        return reply

    def remember(self, request: CommandRequest, reply: object) -> None:
        """Keep a reply, if it has a key; the oldest goes when there are too many."""
        if request.idempotency_key is not None and not request.command.reads_only:
            self._replies[request.client_id, request.idempotency_key] = (_fingerprint(request), reply)
            if len(self._replies) > limits.IDEMPOTENCY_CAPACITY:
                self._replies.popitem(last=False)


def _fingerprint(request: CommandRequest) -> bytes:
    """Tell commands apart without keeping them: a prompt may be a megabyte long."""
    return blake2b(repr(request.command).encode("utf-8", "surrogatepass"), digest_size=16).digest()
