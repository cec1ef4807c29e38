"""The interface of every transport, and the one exception of this package."""

from typing import TYPE_CHECKING, Final, Protocol

import attrs

from session_core.errors import SessionCoreError
from session_core.limits import MAX_FRAME_BYTES

if TYPE_CHECKING:
    from mcp.shared._stream_protocols import ReadStream, WriteStream
    from mcp.shared.message import SessionMessage

MAX_MESSAGE_BYTES: Final = MAX_FRAME_BYTES
"""The largest message of a server; a larger one is not read to its end."""


class McpFailed(SessionCoreError):
    """A request to an MCP server failed, or the server is not available; the message says why in plain words."""

    code = "mcp_failed"


class TransportEndCallback(Protocol):
    """Called once when a transport cannot continue, with the reason."""

    def __call__(self, reason: str) -> None:
        """Record the end; must not block."""
        ...


@attrs.frozen(kw_only=True)
class TransportStreams:
    """An open connection to a server: messages in and out, for the SDK's session."""

    read: "ReadStream[SessionMessage | Exception]"
    write: "WriteStream[SessionMessage]"
    pid: int | None = None
