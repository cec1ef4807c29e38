"""What the service does for extensions. The host has checked who asks, and the shape of what is asked."""

from collections.abc import Mapping
from typing import Any, Literal, Protocol

import attrs

from session_core.ids import SessionId, TurnId
from session_core.sep.protocol.names import UiKind

Role = Literal["user", "assistant"]
DeliverAs = Literal["steer", "follow_up", "next_turn"]


@attrs.frozen(kw_only=True)
class ExtensionCaller:
    """On whose behalf something is done: an extension, within a dispatch that concerns a session.

    What comes is to be done: a session action that is sent again within its dispatch does not get this far. `turn_id`
    is the turn that waits for the dispatch, if one does.
    """

    extension: str
    session_id: SessionId
    turn_id: TurnId | None = None


@attrs.frozen(kw_only=True)
class ProgramResult:
    """What a program said, and how it ended."""

    stdout: str
    stderr: str
    exit_code: int


class Delegate(Protocol):
    """The service, as extensions reach it. Every method may raise `RpcFailed`; errors of the service become one."""

    def ui_kinds(self) -> frozenset[UiKind]:
        """Which kinds of dialogs and displays somebody watching can deal with now."""
        ...

    async def send_message(self, asker: ExtensionCaller, text: str, role: Role) -> None:
        """Put a message into the conversation."""
        ...

    async def send_user_message(self, asker: ExtensionCaller, text: str, deliver_as: DeliverAs) -> None:
        """Say something as if the user had typed it."""
        ...

    async def append_entry(self, asker: ExtensionCaller, entry: Mapping[str, Any]) -> None:
        """Keep something with the session that no model is ever shown."""
        ...

    async def set_model(self, asker: ExtensionCaller, model: str, provider: str | None, thinking: str | None) -> None:
        """Choose the session's model."""
        ...

    async def state(self, asker: ExtensionCaller) -> Mapping[str, Any]:
        """Tell how the session is."""
        ...

    async def ask(self, asker: ExtensionCaller, kind: UiKind, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Open a dialog and wait for its answer, or show something; `{"cancelled": True}` when it was dismissed."""
        ...

    async def run_program(
        self, asker: ExtensionCaller, command: str, args: tuple[str, ...], cwd: str | None
    ) -> ProgramResult:
        """Run a program through the same gate and confinement as the shell tool."""
        ...

    def active_tools(self, asker: ExtensionCaller, wanted: tuple[str, ...]) -> tuple[str, ...]:
        """Narrow which tools the session's model is shown; returns those that are, never more than it is allowed."""
        ...

    async def kv_get(self, extension: str, key: str) -> Any:
        """Return what an extension has kept under a key; nothing when there is none."""
        ...

    async def kv_set(self, extension: str, key: str, value: Any) -> None:
        """Keep a value, durably."""
        ...

    async def kv_delete(self, extension: str, key: str) -> None:
        """Let go of a value."""
        ...

    async def kv_list(self, extension: str, prefix: str) -> tuple[str, ...]:
        """Return the keys that begin so."""
        ...
