"""The interface of every transport, what they share, and the one exception of this package."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import attrs

from session_core.errors import SessionCoreError
from session_core.limits import MAX_FRAME_BYTES

if TYPE_CHECKING:
    from mcp.shared._stream_protocols import ReadStream, WriteStream
    from mcp.shared.message import SessionMessage
    from mcp_types import JSONRPCMessage, RequestId

MAX_MESSAGE_BYTES: Final = MAX_FRAME_BYTES
"""The largest message of a server; a larger one is not read to its end."""


class McpFailed(SessionCoreError):
    """A request to an MCP server failed, or the server is not available; the message says why in plain words."""

    code = "mcp_failed"


OnTransportEnd = Callable[[str], None]
"""Called once when a transport cannot continue, with the reason; must not block."""


@attrs.frozen(kw_only=True)
class TransportStreams:
    """An open connection to a server: messages in and out, for the SDK's session."""

    read: "ReadStream[SessionMessage | Exception]"
    write: "WriteStream[SessionMessage]"
    pid: int | None = None


def parse_message(data: bytes) -> "JSONRPCMessage | None":
    """Return a message, or None if it is anything else."""
    from mcp_types import jsonrpc_message_adapter

    try:
        return jsonrpc_message_adapter.validate_json(data, by_name=False)
    except ValueError:
        return None


def as_json(message: "JSONRPCMessage") -> bytes:
    """Return the wire form of a message."""
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode()


def build_failure(number: "RequestId", code: int, text: str, data: object = None) -> "SessionMessage":
    """Build the answer that a request has failed, for when its server gives none that can be used."""
    from mcp.shared.message import SessionMessage
    from mcp_types import ErrorData, JSONRPCError

    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=code, message=text, data=data)))
