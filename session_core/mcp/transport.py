"""What every transport gives to a connection, and the one exception of this package."""

from typing import TYPE_CHECKING, Final, Protocol

import attrs

from session_core.errors import SessionCoreError
from session_core.limits import MAX_FRAME_BYTES

if TYPE_CHECKING:
    from mcp.shared._stream_protocols import ReadStream, WriteStream
    from mcp.shared.message import SessionMessage

MAX_MESSAGE_BYTES: Final = MAX_FRAME_BYTES
"""One message of a server; what is larger is not read to its end."""


class McpFailed(SessionCoreError):
    """An MCP server could not do what it was asked, or is not there; the message says why in plain words."""

    code = "mcp_failed"


class TransportEndCallback(Protocol):
    """Called once when a transport cannot go on, with the reason."""

    def __call__(self, reason: str) -> None:
        """Take note of it; must not wait."""
        ...


@attrs.frozen(kw_only=True)
class TransportStreams:
    """An open way to a server: messages in and out, for the SDK's session."""

    read: "ReadStream[SessionMessage | Exception]"
    write: "WriteStream[SessionMessage]"
    pid: int | None = None
