"""What the answers of a server mean: typed values and typed errors, whatever it has sent."""

from typing import Any, TypeVar

import session_core as sc

T = TypeVar("T")


def result_of(method: str, reply: sc.SuccessReply | sc.FailureReply) -> Any:
    """Return the plain result of a request, or raise the error that the server has answered with."""
    if isinstance(reply, sc.SuccessReply):
        return reply.result
    raise error_of(method, reply)


def error_of(method: str, failure: sc.FailureReply) -> sc.SessionCoreError:
    """Return the typed error that travelled in a reply."""
    if failure.data is not None:
        try:
            return sc.error_from_info(sc.from_json(failure.data, sc.ErrorInfo))
        except sc.ProtocolError:
            pass
    return sc.ProtocolError(f"the server refuses {method}: {failure.message[:500]}")


def reply_to(command: "sc.Command[T]", plain: Any) -> T:
    """Read the reply to a command.

    Raises:
        ProtocolError: It is none.
    """
    expected: Any = sc.reply_type(type(command))
    value: T = sc.from_json(plain, expected)
    return value
