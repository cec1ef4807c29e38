"""What a tool is: a description, its effects, and an async function that is cancelled when the turn stops."""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Final, Literal, Protocol, runtime_checkable

import attrs

from session_core.ids import CallId, SessionId, TurnId
from session_core.sandbox.workspace import Workspace
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ImagePart, ToolProgress
from session_core.vocabulary.sessions import PlanItem, SandboxPolicy
from session_core.vocabulary.tools import Effect, ToolSpec


@attrs.frozen(kw_only=True)
class ToolOutput:
    """What a tool found out; `details` is for frontends and not shown to the model."""

    text: str
    images: tuple[ImagePart, ...] = ()
    details: JsonObject | None = None


class ToolFailed(Exception):
    """A tool could not do what it was asked; the message goes to the model as an error result, `details` do not."""

    def __init__(self, message: str = "", *, details: JsonObject | None = None) -> None:
        super().__init__(message)
        self.details = details


@attrs.frozen(kw_only=True)
class CallPreview:
    """What a call would do, as people are shown it before they say yes.

    Attributes:
        summary: One line.
        shown: Exactly what will happen: the command with its folder, the change of a file. An answer is bound to it.
        paths: The files it touches, as the workspace names them; rules may decide by them.
        effects: What this very call can do, when that is less than what the tool can do.
        command: What would be run, if that is what the call does; rules may decide by it.
        grant: What a yes for the whole session covers; left out, every call of this tool.
        always_ask: Why a person must be asked whatever the mode says, such as a protected file.
        state: Stands for the state of what it would change, as far as that is not shown; a yes is bound to it.
    """

    summary: str
    displayed_text: str = ""
    paths: tuple[str, ...] = ()
    effects: frozenset[Effect] | None = None
    command: str | None = None
    grant: str | None = None
    always_ask: str | None = None
    state: str | None = None


@attrs.frozen(kw_only=True)
class TaskRequest:
    """Work for a child session."""

    title: str
    prompt: str
    read_only: bool = False
    model: str | None = None


class ToolHost(Protocol):
    """What the running turn does for its tools."""

    async def before_write(self, path: str) -> None:
        """Keep a file as it is now, so that the change can be undone; call it before each change of a file."""
        ...

    async def before_command(self) -> None:
        """Remember the folder before something runs that may change any of its files."""
        ...

    async def after_call(self) -> None:
        """Note how a call has left the files."""
        ...

    def watch_background_command(self) -> Callable[[], Awaitable[None]]:
        """Go on watching the folder after this call; what is returned is awaited when the command has ended."""
        ...

    def set_plan(self, plan: tuple[PlanItem, ...]) -> None:
        """Replace the session's plan."""
        ...

    async def run_task(self, task: TaskRequest, report: Callable[[str], None]) -> ToolOutput:
        """Run a child session to its end and return what it found out."""
        ...


class NoHost:
    """For tools that run outside a turn: nothing is kept, and there are no child sessions."""

    async def before_write(self, path: str) -> None:
        """Keep nothing."""

    async def before_command(self) -> None:
        """Keep nothing."""

    async def after_call(self) -> None:
        """Keep nothing."""

    def watch_background_command(self) -> Callable[[], Awaitable[None]]:
        """Keep nothing."""
        return self.after_call

    def set_plan(self, plan: tuple[PlanItem, ...]) -> None:
        """Keep nothing."""

    async def run_task(self, task: TaskRequest, report: Callable[[str], None]) -> ToolOutput:
        """Refuse."""
        raise ToolFailed("child sessions are not available here")


WithholdReason = Literal["deny", "ask"]
"""Why a file that a call comes across is not for it: a rule denies it, or wants it to be asked for by its name."""
WithholdRule = Callable[[tuple[str, ...]], WithholdReason | None]
"""Tells whether rules withhold a file, which is given by all its names: as it is written, and behind links."""


def withhold_nothing(_paths: tuple[str, ...]) -> WithholdReason | None:
    """There are no rules about paths."""
    return None


def ignore_progress(_progress: ToolProgress) -> None:
    """Show it to nobody."""


NO_HOST = NoHost()
NO_SESSION, NO_TURN = SessionId(""), TurnId("")
current_turn_id: Final[ContextVar[TurnId | None]] = ContextVar("turn_at_work", default=None)
"""The turn whose task this is, or which has begun it: whatever is asked for here, that turn waits for."""


@attrs.frozen(kw_only=True)
class ToolContext:
    """What a running tool gets to know and to use; `report` shows live output and never waits.

    From another thread, call it as `trio.from_thread.run_sync(context.report, text)`. `progress` shows how far the
    call is, in the same way; what is left out in it stays as it was. `outputs` is a folder for output
    that is too long for a result; tools may read it too. `hidden` places are closed to all tools, such as the service's
    own home. `approved` says that a person has agreed to this very call, although it must always be asked for. `agreed`
    is the `state` of the preview that a person has agreed to: in any other, nothing may be changed. `withheld` says
    which files a tool that comes across many of them leaves out; those that the call names were judged before.
    """

    call_id: CallId
    cwd: str
    sandbox: SandboxPolicy
    report: Callable[[str], None]
    session_id: SessionId = NO_SESSION
    turn_id: TurnId = NO_TURN
    outputs: str | None = None
    hidden: tuple[str, ...] = ()
    approved: bool = False
    approved_state: str | None = None
    withheld: WithholdRule = withhold_nothing
    progress: Callable[[ToolProgress], None] = ignore_progress
    host: ToolHost = NO_HOST

    @property
    def workspace(self) -> Workspace:
        """The files this call may touch."""
        everywhere = ("/",) if self.sandbox.mode == "full_access" else ()
        return Workspace(
            self.cwd,
            extra_roots=(*self.sandbox.writable_roots, *everywhere),
            readable_roots=(self.outputs,) if self.outputs is not None else (),
            read_only=self.sandbox.mode == "read_only",
            may_write_protected=self.approved,
            hidden=self.hidden,
        )


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


@runtime_checkable
class PreviewingTool(Protocol):
    """A tool that can tell beforehand what a call would do; others are shown by their name and arguments."""

    async def preview(self, arguments: JsonObject, context: ToolContext) -> CallPreview:
        """Look, change nothing, and say what would happen; raises `ToolFailed` when the call could not work at all."""
        ...
