"""What a protocol plugin is: a factory, and the bundle that it builds for each session.

Protocol plugins run in this process and are trusted like the service itself. What guards the service is that plugins
are only ever called by `lifecycle`: with deadlines, with contexts that expire, and with every fault turned into one of
their own turn.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import attrs

from session_core.protocols.contexts import BeforeCall, BeforeCallContext, BuildContext, SessionContext
from session_core.protocols.driver import Driver
from session_core.protocols.execution import CodeExecutor
from session_core.protocols.faults import ExtensionRejected
from session_core.protocols.options import NoOptions
from session_core.protocols.prose import ProseProjector
from session_core.providers.base import ModelRequest
from session_core.tools.base import Tool
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import Message
from session_core.vocabulary.tools import ToolSpec


@attrs.frozen(kw_only=True)
class TurnAdditions:
    """What the extension of a turn adds to that turn: a text for the model beside its instructions."""

    instructions: str = ""


class ProtocolSession:
    """The part of a protocol that follows a session; every method does nothing, or what is safe, by default."""

    async def initialize(self, context: SessionContext) -> None:
        """The session has come into memory; called once, before `restore`."""

    async def restore(self, context: SessionContext, messages: Sequence[Message]) -> None:
        """Become what follows from this conversation, whatever was before; called at least once, and again at will."""

    async def appended(self, context: SessionContext, operation_id: str, messages: Sequence[Message]) -> None:
        """Messages were put into the conversation between two turns; they are durable already."""

    async def apply_extension(self, context: SessionContext, extension: JsonObject) -> None:
        """Take something that a caller gives to the protocol itself, beside the conversation.

        Raises:
            ExtensionRejected: It takes no such thing, which is the default.
        """
        raise ExtensionRejected("this protocol takes nothing beside the conversation")

    async def check_turn_extension(self, context: SessionContext, extension: JsonObject) -> TurnAdditions:
        """Look at what a caller gives with a message, before the turn asks any model; accepted by default.

        Raises:
            ExtensionRejected: The turn must not start with it.
        """
        return TurnAdditions()

    async def before_model_call(self, context: BeforeCallContext, request: ModelRequest) -> BeforeCall:
        """Say whether, and what, a model is asked; None goes on."""
        return None


@attrs.frozen(kw_only=True)
class ProtocolBundle:
    """One protocol at work in one session.

    Attributes:
        driver: Decides what comes next in a turn.
        session: Follows the session.
        executor: Runs code, if the driver asks for that.
        prose: Says which part of an answer people see; all of it without one.
        tools: More tools for the session's models.
        instructions: Makes what models are told beside their prompt, given the tools that the session has.
        native_tools: Whether models are shown tools by the means of their own interface.
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
        version: In which form it records its options; raise it with `upgrade`.
        options: The class of its options, each of its fields made by `option`.
    """

    id: str
    version: int = 1
    options: type = NoOptions

    @abstractmethod
    def build(self, context: BuildContext) -> ProtocolBundle:
        """Make what one session needs; synchronous and without any input or output."""

    def upgrade(self, version: int, recorded: JsonObject) -> JsonObject:
        """Bring options that an earlier version has recorded into the present form.

        Raises:
            ValueError: There is no way, which is the default.
        """
        raise ValueError(f"options of version {version} are not understood any more")

    async def aclose(self) -> None:  # noqa: B027 - most have nothing to let go of
        """Let go of what all sessions share, at the end of the service."""
