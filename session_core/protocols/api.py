"""The parts of a protocol plugin: a factory, and the bundle that it builds for each session.

Protocol plugins run in this process and are trusted like the service itself. To guard the service, only `lifecycle`
calls plugins: with deadlines, with contexts that expire, and with every fault confined to their own turn.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import attrs

from session_core.protocols.contexts import BeforeCall, BeforeCallContext, BuildContext, SessionContext
from session_core.protocols.driver import Driver
from session_core.protocols.execution import CodeExecutor
from session_core.protocols.faults import InputRejected
from session_core.protocols.options import NoOptions
from session_core.protocols.prose import ProseProjector
from session_core.providers.base import ModelRequest
from session_core.tools.base import Tool
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import Message
from session_core.vocabulary.tools import ToolSpec


@attrs.frozen(kw_only=True)
class TurnAdditions:
    """The additions of a turn extension to its turn: text for the model besides its instructions."""

    instructions: str = ""


class ProtocolSession:
    """The part of a protocol that follows a session; by default every method does nothing, or what is safe."""

    async def initialize(self, context: SessionContext) -> None:
        """Handle that the session was loaded; called once, before `restore`."""

    async def restore(self, context: SessionContext, messages: Sequence[Message]) -> None:
        """Rebuild the state from this conversation, whatever was before; called at least once, possibly more often."""

    async def appended(self, context: SessionContext, operation_id: str, messages: Sequence[Message]) -> None:
        """Handle messages that were added to the conversation between two turns; they are durable already."""

    async def apply_extension(self, context: SessionContext, extension: JsonObject) -> None:
        """Accept input that a caller sends to the protocol itself, outside the conversation.

        Raises:
            InputRejected: It does not accept this input, which is the default.
        """
        raise InputRejected("this protocol accepts no input outside the conversation")

    async def check_turn_extension(self, context: SessionContext, extension: JsonObject) -> TurnAdditions:
        """Check the extension that a caller sends with a message, before any model call; accepted by default.

        Raises:
            InputRejected: The turn must not start with it.
        """
        return TurnAdditions()

    async def before_model_call(self, context: BeforeCallContext, request: ModelRequest) -> BeforeCall:
        """Decide whether a model is asked, and with what; None continues unchanged."""
        return None


@attrs.frozen(kw_only=True)
class ProtocolBundle:
    """One protocol in use by one session.

    Attributes:
        driver: Decides what comes next in a turn.
        session: Follows the session.
        executor: Runs code, if the driver asks for that.
        prose: Decides which part of an answer people see; without it, all of it.
        tools: More tools for the session's models.
        instructions: Builds the models' instructions besides their prompt, given the session's tools.
        native_tools: Whether models get tools through their native interface.
    """

    driver: Driver
    session: ProtocolSession = attrs.field(factory=ProtocolSession)
    executor: CodeExecutor | None = None
    prose: ProseProjector | None = None
    tools: tuple[Tool, ...] = ()
    instructions: Callable[[Sequence[ToolSpec]], str] | None = None
    native_tools: bool = True


class ProtocolFactory(ABC):
    """A protocol, as a service knows it.

    Attributes:
        id: Its name; stable, as sessions record it.
        version: The version of its recorded options; raise it together with `upgrade`.
        options: The class of its options; each of its fields is made by `option`.
    """

    id: str
    version: int = 1
    options: type = NoOptions

    @abstractmethod
    def build(self, context: BuildContext) -> ProtocolBundle:
        """Build what one session needs; synchronous and without any input or output."""

    def upgrade(self, version: int, recorded: JsonObject) -> JsonObject:
        """Convert options that an earlier version has recorded to the current form.

        Raises:
            ValueError: They cannot be converted, which is the default.
        """
        raise ValueError(f"options of version {version} are no longer supported")

    async def aclose(self) -> None:  # noqa: B027 - most have nothing to let go of
        """Release what all sessions share, at the end of the service."""
