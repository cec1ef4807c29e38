"""Reading the bodies of HTTP answers: bounded, and without leaving a generator behind."""

from types import TracebackType
from typing import TYPE_CHECKING, Self

import trio

from session_core.mcp.transport import MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    import httpx2
    from mcp_types import JSONRPCMessage


class UnusableAnswer(Exception):
    """An answer that cannot be read; the message says why."""


class Reading:
    """A scope for reading a body that may be given up in the middle.

    Breaking out of the loop would leave the client's generators to the garbage collection, of which trio complains. A
    cancelled read unwinds them all.
    """

    def __init__(self, response: "httpx2.Response") -> None:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise UnusableAnswer("it compresses its answers although it was asked not to")
        self._scope = trio.CancelScope()
        self._reason = ""

    def give_up(self, reason: str) -> None:
        """Let the next read be the end; the reason is raised when the scope is left."""
        self._reason = reason
        self._scope.cancel()

    def __enter__(self) -> Self:
        self._scope.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        swallowed = bool(self._scope.__exit__(kind, error, traceback))
        if self._reason and (swallowed or error is None):
            raise UnusableAnswer(self._reason)
        return swallowed


async def whole_body(response: "httpx2.Response") -> bytes:
    """Return a body that is not too large; raises `UnusableAnswer`."""
    body = bytearray()
    with Reading(response) as reading:
        async for chunk in response.aiter_raw():
            if len(body) + len(chunk) > MAX_MESSAGE_BYTES:
                reading.give_up(f"the answer has more than {MAX_MESSAGE_BYTES:,} bytes")
            else:
                body += chunk
    return bytes(body)


def parsed(data: bytes) -> "JSONRPCMessage | None":
    """Return a message, or None if it is anything else."""
    from mcp_types import jsonrpc_message_adapter

    try:
        return jsonrpc_message_adapter.validate_json(data, by_name=False)
    except ValueError:
        return None


def as_json(message: "JSONRPCMessage") -> bytes:
    """Return a message as it goes over the wire."""
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode()
