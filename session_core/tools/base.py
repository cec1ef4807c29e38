"""The tool interface: a description, its effects, and an async function that is cancelled when the turn stops."""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Final, Literal, Protocol, runtime_checkable

import attrs

from session_core.ids import CallId, SessionId, TurnId
from session_core.sandbox.workspace import Workspace
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ImagePart, ToolProgress
from session_core.vocabulary.sessions import ExtraRight, PlanItem, SandboxPolicy
from session_core.vocabulary.tools import Effect, ToolSpec


@attrs.frozen(kw_only=True)
class ToolOutput:
    """The result of a tool; `details` is for frontends and not shown to the model."""

    text: str
    images: tuple[ImagePart, ...] = ()
    details: JsonObject | None = None


class ToolFailed(Exception):
    """A tool call failed; the message goes to the model as an error result, `details` do not."""

    def __init__(self, message: str = "", *, details: JsonObject | None = None) -> None:
        super().__init__(message)
        self.details = details


@attrs.frozen(kw_only=True)
class CallPreview:
    """The preview of a call, shown to people before they approve it.

    Attributes:
        summary: One line.
        displayed_text: Exactly what will happen: the command with its folder, the change of a file. Approvals are bound
            to it.
        paths: The files it touches, as the workspace names them; rules may match them.
        effects: The effects of this call, if they are fewer than those of the tool.
        command: The command that the call would run, if any; rules may match it.
        grant: What an approval for the whole session covers; by default every call of this tool.
        rights: What the call wants beyond the session's sandbox; it then needs approval in every permission mode.
        always_ask: Why the call needs approval in every permission mode, in words; by default, because of its `rights`.
        state: Identifies the state of what it would change, as far as `displayed_text` does not; approvals are bound
            to it.
    """

    summary: str
    displayed_text: str = ""
    paths: tuple[str, ...] = ()
    effects: frozenset[Effect] | None = None
    command: str | None = None
    grant: str | None = None
    rights: tuple[ExtraRight, ...] = ()
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
    """The services of the running turn for its tools."""

    async def before_write(self, path: str) -> None:
        """Save a file's current state for undo; call it before each change of a file."""
        ...

    async def before_command(self) -> None:
        """Record the state of the folder before a command that may change any of its files."""
        ...

    async def after_call(self) -> None:
        """Record the state of the files after a call."""
        ...

    def watch_background_command(self) -> Callable[[], Awaitable[None]]:
        """Keep watching the folder after this call; await the returned function when the command has ended."""
        ...

    def set_plan(self, plan: tuple[PlanItem, ...]) -> None:
        """Replace the session's plan."""
        ...

    async def run_task(self, task: TaskRequest, report: Callable[[str], None]) -> ToolOutput:
        """Run a child session to its end and return its result."""
        ...


class NoHost:
    """The host of tools that run outside a turn: it records nothing and has no child sessions."""

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


ExclusionReason = Literal["deny", "ask"]
"""Why a call skips a file that it comes across: a rule denies it, or asks for approval of each call that names it."""
PathFilter = Callable[[tuple[str, ...]], ExclusionReason | None]
"""Returns why rules exclude a file, if they do, given all its names: as written, and with links resolved."""


def exclude_nothing(_paths: tuple[str, ...]) -> ExclusionReason | None:
    """Exclude no file: the default without rules about paths."""
    return None


def ignore_progress(_progress: ToolProgress) -> None:
    """Discard progress reports."""


NO_HOST = NoHost()
NO_SESSION, NO_TURN = SessionId(""), TurnId("")
current_turn_id: Final[ContextVar[TurnId | None]] = ContextVar("turn_at_work", default=None)
"""The turn that the current task belongs to, or that started it; this turn waits for every question asked here."""


@attrs.frozen(kw_only=True)
class ToolContext:
    """The context of a running tool; `report` shows live output and never blocks.

    From another thread, call it as `trio.from_thread.run_sync(context.report, text)`. `progress` shows the progress
    of the call in the same way; omitted fields keep their values. `outputs` is the session's own folder for output
    that is too long for a result; tools may read it too. `hidden` places, such as the service's own home, are closed
    to all tools. `rights` are those beyond the sandbox that a person has approved for this call, as its preview named
    them. `approved_state` is the `state` of the approved preview: in any other state, the tool must change nothing.
    `path_filter` says which files a tool skips when it goes through many; files that the call names were checked
    before.
    """

    call_id: CallId
    cwd: str
    sandbox: SandboxPolicy
    report: Callable[[str], None]
    session_id: SessionId = NO_SESSION
    turn_id: TurnId = NO_TURN
    outputs: str | None = None
    hidden: tuple[str, ...] = ()
    rights: frozenset[ExtraRight] = frozenset()
    approved_state: str | None = None
    path_filter: PathFilter = exclude_nothing
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
            may_write_protected="protected" in self.rights,
            hidden=self.hidden,
            readable_at_home=self.sandbox.readable,
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
        """The effects that running it can have."""
        ...

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Run the call."""
        ...


@runtime_checkable
class PreviewingTool(Protocol):
    """A tool that can preview its calls; other tools are shown by their name and arguments."""

    async def preview(self, arguments: JsonObject, context: ToolContext) -> CallPreview:
        """Describe what the call would do, without changing anything; raises `ToolFailed` if it cannot work at all."""
        ...
