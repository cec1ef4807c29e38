"""Decoding of a server's replies: typed values and typed errors, whatever it has sent."""

from typing import Any, TypeVar

import session_core as sc

T = TypeVar("T")


def result_of(method: str, reply: sc.wire.SuccessReply | sc.wire.FailureReply) -> Any:
    """Return the plain result of a request, or raise the server's error."""
    if isinstance(reply, sc.wire.SuccessReply):
        return reply.result
    raise error_of(method, reply)


def error_of(method: str, failure: sc.wire.FailureReply | sc.wire.RpcFailed) -> sc.SessionCoreError:
    """Return the typed error of a reply."""
    if failure.data is not None:
        try:
            return sc.wire.error_from_info(sc.wire.from_json(failure.data, sc.wire.ErrorInfo))
        except sc.ProtocolError:
            pass
    return sc.ProtocolError(f"the server refuses {method}: {failure.message[:500]}")


def reply_to(command: "sc.Command[T]", plain: Any) -> T:
    """Read the reply to a command.

    Raises:
        ProtocolError: It is not a valid reply.
    """
    expected: Any = sc.wire.reply_type(type(command))
    value: T = sc.wire.from_json(plain, expected)
    return value
