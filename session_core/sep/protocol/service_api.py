"""What the service does for extensions. The host has already checked the caller and the shape of the request."""

from collections.abc import Mapping
from typing import Any, Literal, Protocol

import attrs

from session_core.ids import SessionId, TurnId
from session_core.sep.protocol.names import UiKind

Role = Literal["user", "assistant"]
DeliverAs = Literal["steer", "follow_up", "next_turn"]


@attrs.frozen(kw_only=True)
class ExtensionCaller:
    """The caller: an extension, within a dispatch that belongs to a session.

    Every call must be carried out: repeated session actions within a dispatch do not get this far. `turn_id` is the
    turn that waits for the dispatch, if any.
    """

    extension: str
    session_id: SessionId
    turn_id: TurnId | None = None


@attrs.frozen(kw_only=True)
class ProgramResult:
    """The output and exit code of a program."""

    stdout: str
    stderr: str
    exit_code: int


class Delegate(Protocol):
    """The service, as extensions reach it. Every method may raise `RpcFailed`; the service's errors become one."""

    def ui_kinds(self) -> frozenset[UiKind]:
        """Return the kinds of dialogs and displays that some attached client can handle now."""
        ...

    def tell_people(self, extension: str, message: str) -> None:
        """Show people a notice about an extension, where they were last at work with it."""
        ...

    async def send_message(self, caller: ExtensionCaller, text: str, role: Role) -> None:
        """Add a message to the conversation."""
        ...

    async def send_user_message(self, caller: ExtensionCaller, text: str, deliver_as: DeliverAs) -> None:
        """Send a message as if the user had typed it."""
        ...

    async def append_entry(self, caller: ExtensionCaller, entry: Mapping[str, Any]) -> None:
        """Store an entry with the session; models never see it."""
        ...

    async def set_model(self, caller: ExtensionCaller, model: str, provider: str | None, thinking: str | None) -> None:
        """Set the session's model."""
        ...

    async def state(self, caller: ExtensionCaller) -> Mapping[str, Any]:
        """Return the state of the session."""
        ...

    async def ask(self, caller: ExtensionCaller, kind: UiKind, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Open a dialog and wait for its answer, or show something; `{"cancelled": True}` if it was dismissed."""
        ...

    async def run_program(
        self, caller: ExtensionCaller, command: str, args: tuple[str, ...], cwd: str | None
    ) -> ProgramResult:
        """Run a program through the same permission checks and sandbox as the shell tool."""
        ...

    def active_tools(self, caller: ExtensionCaller, wanted: tuple[str, ...]) -> tuple[str, ...]:
        """Narrow the tools that the session's model sees; returns those it sees, never more than it is allowed."""
        ...

    async def kv_get(self, extension: str, key: str) -> Any:
        """Return an extension's value for a key; None if there is none."""
        ...

    async def kv_set(self, extension: str, key: str, value: Any) -> None:
        """Store a value durably."""
        ...

    async def kv_delete(self, extension: str, key: str) -> None:
        """Delete a value."""
        ...

    async def kv_list(self, extension: str, prefix: str) -> tuple[str, ...]:
        """Return the keys that start with a prefix."""
        ...
