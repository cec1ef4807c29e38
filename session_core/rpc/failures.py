"""Error codes of JSON-RPC and of the extension protocol, the exceptions that carry them, and why connections end."""

from typing import Any, Final, Literal

import attrs

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
CANCELLED: Final = -32800

ClosedKind = Literal["left", "ended", "read_failed", "write_failed", "not_reading", "flooded"]

_SENTENCES: Final[dict[ClosedKind, str]] = {
    "left": "we have closed the connection",
    "ended": "the other side has closed its output",
    "read_failed": "its output cannot be read",
    "write_failed": "nothing can be written to it any more",
    "not_reading": "it does not read its input",
    "flooded": "it writes too much that is not a message",
}


@attrs.frozen(kw_only=True)
class CloseReason:
    """Why a connection has ended.

    Attributes:
        kind: One of a few stable words.
        detail: The message of the system, if any.
    """

    kind: ClosedKind
    detail: str = ""

    @property
    def message(self) -> str:
        """The reason in one sentence, for people."""
        return _SENTENCES[self.kind] + (f": {self.detail}" if self.detail else "")


class RpcFailed(Exception):
    """A request was answered with an error; a handler raises it to answer with one.

    Attributes:
        code: A number, see above; protocols define further ones.
        message: One sentence.
        data: Any plain JSON; None if it is missing.
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message
        self.data = data


class RpcTimedOut(RpcFailed):
    """No answer came in time; the other side was told that it is no longer wanted."""

    def __init__(self, method: str, seconds: float) -> None:
        super().__init__(INTERNAL_ERROR, f"no answer to {method} within {seconds:g} s")


class RpcClosed(RpcFailed):
    """The connection ended before the request or while it waited for the answer."""

    def __init__(self, closed: CloseReason) -> None:
        super().__init__(INTERNAL_ERROR, "connection closed", {"reason": closed.kind})
        self.closed = closed


def method_not_found(method: str) -> RpcFailed:
    """Return the error that a handler raises for an unknown method."""
    return RpcFailed(METHOD_NOT_FOUND, f"there is no method {method[:100]!r}")
