"""What the host of an extension does for it."""

from typing import TYPE_CHECKING, Any, Protocol

from session_core.rpc.messages import Notification, Request

if TYPE_CHECKING:
    from session_core.sep.host.extension import Extension


class Callbacks(Protocol):
    """What the host does for an extension."""

    def initialize_params(self, extension: "Extension") -> dict[str, Any]:
        """Return what a process is greeted with."""
        ...

    async def on_request(self, extension: "Extension", generation: int, request: Request) -> Any:
        """Answer a request of a process; raises `RpcFailed` to answer with an error."""
        ...

    def on_notification(self, extension: "Extension", generation: int, notification: Notification) -> None:
        """Take a notification of a process; must not wait."""
        ...

    def on_changed(self, extension: "Extension") -> None:
        """Hear that the state, the generation or what is registered has changed; must not wait."""
        ...
