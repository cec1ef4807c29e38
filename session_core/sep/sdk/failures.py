"""Errors between an extension and its host, as distinct exceptions.

When the host refuses something, it is a `HostError`. If a handler does not catch it, it becomes the answer to the
host's own request, code included, so the person who started the request sees the reason.
"""

from typing import Final

from session_core.rpc.failures import INVALID_PARAMS, METHOD_NOT_FOUND, RpcClosed, RpcFailed
from session_core.sep.protocol.names import BLOCKED, CAPABILITY_DISABLED, CONTEXT_VIOLATION, NO_UI, NOT_TRUSTED


class HostError(RpcFailed):
    """The host answered with an error; `code`, `message` and `data` are the host's."""


class Refused(HostError):
    """A person, a rule or a hook refused this (-32000)."""


class NoUi(HostError):
    """No attached client can show or answer this (-32001); see `Context.has_ui`."""


class NotTrusted(HostError):
    """The host does not trust this extension yet (-32002)."""


class ContextExpired(HostError):
    """A handler acted in a session from an event, or after it had answered (-32003)."""


class CapabilityDisabled(HostError):
    """The manifest does not enable this, or there is no session to apply it to (-32004)."""


class InvalidRequest(HostError):
    """The host rejected the params (-32602)."""


class NotSupported(HostError):
    """The host does not know the method (-32601)."""


class HostGone(HostError):
    """The host has closed the connection."""


class ToolError(Exception):
    """A handler could not do its work. The model and people see the message, and the model may try something else.

    Args:
        message: What went wrong, worded to help the reader.
        details: Any additional JSON, for frontends and other readers of the result.
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
    """Return the exception that matches an error of the host."""
    kind = HostGone if isinstance(failed, RpcClosed) else _BY_CODE.get(failed.code, HostError)
    return kind(failed.code, failed.message, failed.data)
