"""What goes wrong between an extension and its host, as exceptions that can be told apart.

What the host refuses is a `HostError`. One that a handler does not catch goes back as the answer to whatever the host
had asked, with its code, so the person who started it all is told the reason.
"""

from typing import Final

from session_core.rpc.failures import INVALID_PARAMS, METHOD_NOT_FOUND, RpcClosed, RpcFailed
from session_core.sep.protocol.names import BLOCKED, CAPABILITY_DISABLED, CONTEXT_VIOLATION, NO_UI, NOT_TRUSTED


class HostError(RpcFailed):
    """The host has answered with an error; `code`, `message` and `data` are as it said."""


class Refused(HostError):
    """A person, a rule or a hook has said no (-32000)."""


class NoUi(HostError):
    """Nobody is watching who could see or answer this (-32001); see `has_ui`."""


class NotTrusted(HostError):
    """The host does not trust this extension so far (-32002)."""


class ContextExpired(HostError):
    """The session was acted in from an event, or after the handler's answer (-32003)."""


class CapabilityDisabled(HostError):
    """The manifest does not enable this, or there is no session it could be about (-32004)."""


class InvalidRequest(HostError):
    """The host does not accept what it was sent (-32602)."""


class NotSupported(HostError):
    """The host does not know the method (-32601)."""


class HostGone(HostError):
    """The host has closed the connection."""


class ToolError(Exception):
    """A handler could not do what it was asked: a model is shown the message, and may try otherwise; so are people.

    Args:
        message: What went wrong, in words that help.
        details: Any JSON beside it, for whoever shows or reads the result.
    """

    def __init__(self, message: str, *, details: object = None) -> None:
        super().__init__(message)
        self.details = details


_BY_CODE: Final[dict[int, type[HostError]]] = {
    BLOCKED: Refused,
    NO_UI: NoUi,
    NOT_TRUSTED: NotTrusted,
    CONTEXT_VIOLATION: ContextExpired,
    CAPABILITY_DISABLED: CapabilityDisabled,
    INVALID_PARAMS: InvalidRequest,
    METHOD_NOT_FOUND: NotSupported,
}


def host_error(failed: RpcFailed) -> HostError:
    """Return the exception that belongs to an error of the host."""
    kind = HostGone if isinstance(failed, RpcClosed) else _BY_CODE.get(failed.code, HostError)
    return kind(failed.code, failed.message, failed.data)
