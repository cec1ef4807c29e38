"""What a tool is: a description, its effects, and an async function that is cancelled when the turn stops."""

from collections.abc import Callable
from typing import Protocol

import attrs

from session_core.ids import CallId
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ImagePart
from session_core.vocabulary.sessions import SandboxPolicy
from session_core.vocabulary.tools import Effect, ToolSpec


@attrs.frozen(kw_only=True)
class ToolOutput:
    """What a tool found out; `details` is for frontends and not shown to the model."""

    text: str
    images: tuple[ImagePart, ...] = ()
    details: JsonObject | None = None


class ToolFailed(Exception):
    """A tool could not do what it was asked; the message goes to the model as an error result."""


@attrs.frozen(kw_only=True)
class ToolContext:
    """What a running tool gets to know and to use; `report` shows live output and never waits.

    From another thread, call it as `trio.from_thread.run_sync(context.report, text)`.
    """

    call_id: CallId
    cwd: str
    sandbox: SandboxPolicy
    report: Callable[[str], None]


class Tool(Protocol):
    """A tool.

    Contract of `run`: raise `ToolFailed` for anything the model should know; on cancellation end everything that was
    started, child processes included, before letting `Cancelled` through.
    """

    @property
    def spec(self) -> ToolSpec:
        """Name, description and parameters for the model."""
        ...

    @property
    def effects(self) -> frozenset[Effect]:
        """What running it can do to the world."""
        ...

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Do it."""
        ...
