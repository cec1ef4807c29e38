"""The contexts that plugins get: narrow, frozen, and usable only while their callback runs.

A context has no reference to the service: each thing a plugin may do is a function in it, guarded by a lease. The lease
ends with the callback; every later use raises `CallbackContextExpired`, from any task.
"""

import math
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import attrs
import trio

from session_core.ids import MessageId, SessionId, TurnId
from session_core.protocols.execution import Execution
from session_core.protocols.faults import CallbackContextExpired
from session_core.protocols.frames import is_label
from session_core.protocols.options import OptionScope
from session_core.providers.base import ModelRequest, ThinkingEffort
from session_core.tools.base import TaskRequest
from session_core.vocabulary.argument_checks import build_check
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import Message, TextPart, ToolResultPart, Usage
from session_core.vocabulary.protocols import Frame
from session_core.vocabulary.sessions import SandboxPolicy
from session_core.vocabulary.snapshots import SessionSnapshot
from session_core.vocabulary.tools import ToolSpec

T = TypeVar("T")


@attrs.define(eq=False)
class Lease:
    """Whether a context may still be used; its end cancels what is still in progress."""

    over: bool = False
    clock: trio.CancelScope | None = None
    """Has the deadline of the callback, if there is one."""
    _clock_stops: int = attrs.field(default=0, init=False)
    _seconds_left: float = attrs.field(default=0, init=False)
    _under_way: set[trio.CancelScope] = attrs.field(factory=set, init=False)

    def check(self) -> None:
        """Raise `CallbackContextExpired` if the lease has ended."""
        if self.over:
            raise CallbackContextExpired("this context belonged to a callback that has ended")

    async def run_work(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run something that takes a while, as long as the context may be used."""
        self.check()
        with trio.CancelScope() as scope:
            self._under_way.add(scope)
            try:
                return await work()
            finally:
                self._under_way.discard(scope)
        self.check()
        raise AssertionError("only the end of the lease cancels it")

    @contextmanager
    def stop_clock(self) -> Generator[None]:
        """Within the block, the time of the callback does not pass."""
        clock = self.clock or trio.CancelScope()
        if self._clock_stops == 0:
            self._seconds_left, clock.deadline = clock.deadline - trio.current_time(), math.inf
        self._clock_stops += 1
        try:
            yield
        finally:
            self._clock_stops -= 1
            if self._clock_stops == 0:
                clock.deadline = trio.current_time() + self._seconds_left

    def end(self) -> None:
        """End the use of the context."""
        self.over = True
        for scope in self._under_way:
            scope.cancel(reason="the callback has ended")


@contextmanager
def open_lease(clock: trio.CancelScope | None = None) -> Generator[Lease]:
    """Open a lease within the block; `clock` is what limits the time of its callback."""
    lease = Lease(clock=clock)
    try:
        yield lease
    finally:
        lease.end()


def lease_execution(execution: Execution, lease: Lease) -> Execution:
    """Let an executor call tools only while its cell runs."""

    async def call_tool(name: str, arguments: JsonObject) -> ToolResultPart:
        return await lease.run_work(lambda: execution.call_tool(name, arguments))

    return attrs.evolve(execution, call_tool=call_tool)


@attrs.frozen(kw_only=True)
class BuildContext:
    """The read-only data that a factory builds from.

    Attributes:
        options: The options that hold in all frames.
        is_root: Whether the session works for no other one; so does a fork.
    """

    session_id: SessionId
    options: JsonObject
    is_root: bool


class OwnOptions(Protocol):
    """The options of a session's protocol, where they are recorded."""

    @property
    def current(self) -> JsonObject:
        """The options as they hold in the current frame."""
        ...

    def change(self, changes: Mapping[str, Any], scope: OptionScope) -> None:
        """Record changes of options that the protocol sets itself; raises `OptionsInvalid`."""
        ...

    async def wait_until_durable(self) -> None:
        """Wait until the changes would survive a crash."""
        ...


@attrs.frozen(kw_only=True)
class _ContextWithOptions:
    """What all contexts of callbacks offer.

    Attributes:
        is_root: Whether the session works for no other one; so does a fork.
    """

    session_id: SessionId
    frame: Frame
    is_root: bool
    _lease: Lease = attrs.field(alias="lease")
    _own: OwnOptions = attrs.field(alias="own")

    @property
    def options(self) -> JsonObject:
        """The options of the protocol as they hold in the current frame; read them with `read_options`."""
        self._lease.check()
        return self._own.current

    async def set_options(self, changes: Mapping[str, Any], *, scope: OptionScope = "all_frames") -> None:
        """Set options of the kind `own`, and wait until that is durable.

        For all frames of the session, where they also replace what single frames had, or for the current one.

        Raises:
            CallbackContextExpired: The callback has ended.
            OptionsInvalid: They have the wrong shape, or others decide them.

        Cancellation: they are set, and may not be durable yet.
        """
        self._lease.check()
        self._own.change(changes, scope)
        await self._lease.run_work(self._own.wait_until_durable)


@attrs.frozen(kw_only=True)
class SessionContext(_ContextWithOptions):
    """A session, as a callback outside of a model call sees it."""

    def check(self) -> None:
        """Raise `CallbackContextExpired` once the callback is over."""
        self._lease.check()


@attrs.frozen(kw_only=True)
class DirectRequest:
    """A question to a model outside the conversation."""

    messages: tuple[Message, ...]
    system: str = ""
    model: str | None = None
    """The model; by default the session's own."""
    thinking: ThinkingEffort = "off"
    max_output_tokens: int | None = None

    @classmethod
    def from_text(cls, text: str, *, system: str = "", model: str | None = None) -> "DirectRequest":
        """Build a question from text, as if the user asked; the same text is the same question."""
        message = Message(
            message_id=MessageId("msg_direct"), parent_id=None, role="user", parts=(TextPart(text=text),), created_at=0
        )
        return cls(messages=(message,), system=system, model=model)


@attrs.frozen(kw_only=True)
class DirectAnswer:
    """The model's answer and its usage."""

    text: str
    model: str
    usage: Usage


Complete = Callable[[DirectRequest, str, str], Awaitable[DirectAnswer]]
"""Asks a model: the request, the source that its usage counts for, and the key of the question."""


@attrs.frozen(kw_only=True)
class ProcessInfo:
    """A program that a protocol has started in this turn."""

    process_id: str
    argv: tuple[str, ...]
    running: bool
    exit_code: int | None = None
    output: str = ""
    """Its output so far, or the end of it."""


class Processes(Protocol):
    """Programs of a turn: sandboxed like the model's commands, and ended with the turn."""

    async def start(self, argv: Sequence[str], *, cwd: str | None = None, env: Mapping[str, str] | None = None) -> str:
        """Start a program and return its id.

        Raises:
            ToolFailed: It cannot be started, or too many run.
        """
        ...

    def list(self) -> tuple[ProcessInfo, ...]:
        """Return all programs of the turn, including ended ones."""
        ...

    async def wait(self, process_id: str) -> ProcessInfo:
        """Wait until a program has ended; raises `KeyError` if none has this id."""
        ...

    def signal(self, process_id: str, number: int) -> None:
        """Send a signal to a program and all it has started."""
        ...

    async def cancel(self, process_id: str) -> ProcessInfo:
        """End a program and all it has started, and wait for that."""
        ...


@attrs.frozen(kw_only=True)
class ChildAnswer:
    """What a child session has answered, as text; a value that its turn ended with is JSON."""

    session_id: SessionId
    text: str


RunChild = Callable[[TaskRequest], Awaitable[ChildAnswer]]
LoadConversation = Callable[[], Awaitable[tuple[Message, ...]]]


@attrs.frozen(kw_only=True)
class BeforeCallContext(_ContextWithOptions):
    """A turn, right before a model call.

    Attributes:
        step: How many model calls the turn has had.
        usage: What the turn has used so far.
        context_tokens: How full the model's context was at its last answer.
    """

    turn_id: TurnId
    step: int
    usage: Usage
    context_tokens: int
    cwd: str
    sandbox: SandboxPolicy
    tools: tuple[ToolSpec, ...]
    _complete: Complete = attrs.field(alias="complete")
    _processes: Processes = attrs.field(alias="processes")
    _take_view: Callable[[], SessionSnapshot] = attrs.field(alias="take_view")
    _load_conversation: LoadConversation = attrs.field(alias="load_conversation")
    _run_child: RunChild = attrs.field(alias="run_child")

    @property
    def view(self) -> SessionSnapshot:
        """The session as it is now, to read; it never changes, so ask again to see what has happened since."""
        self._lease.check()
        return self._take_view()

    async def conversation(self) -> tuple[Message, ...]:
        """Return all messages that lead to the end of the conversation, also those that a view has no room for."""
        return await self._lease.run_work(self._load_conversation)

    async def run_child(
        self, title: str, prompt: str, *, model: str | None = None, read_only: bool = False
    ) -> ChildAnswer:
        """Run a child session to its end, with this session's protocol and settings, and return its answer.

        The child knows nothing of this conversation. It counts against the limits of the turn, asks people in this
        session, and is never allowed more. Its time does not count as time of the callback.

        Raises:
            CallbackContextExpired: The callback has ended.
            ChildFailed: It could not be started, or has not completed its turn.

        Cancellation: stops the child, and waits until it has ended.
        """
        task = TaskRequest(title=title, prompt=prompt, model=model, read_only=read_only)
        self._lease.check()
        with self._lease.stop_clock():
            return await self._lease.run_work(lambda: self._run_child(task))

    async def complete(self, request: DirectRequest, *, source: str, key: str) -> DirectAnswer:
        """Ask a model outside the conversation.

        Its usage counts for `source`. The same key with the same request is answered and paid for once per turn; with
        another request it is refused.

        Raises:
            CallbackContextExpired: The callback has ended.
            Conflict: The key belongs to another request of this turn, or is being asked right now.
            DirectFailed: The model could not be asked; `TooManyQuestions` if the turn has asked enough already.
        """
        return await self._lease.run_work(lambda: self._complete(request, source, key))

    @property
    def processes(self) -> Processes:
        """Programs of this turn; they continue after the callback, and the next callback finds them again."""
        self._lease.check()
        return _LeasedProcesses(self._processes, self._lease)


@attrs.frozen
class _LeasedProcesses:
    """Programs of a turn, unusable after the end of the callback."""

    _processes: Processes
    _lease: Lease

    async def start(self, argv: Sequence[str], *, cwd: str | None = None, env: Mapping[str, str] | None = None) -> str:
        return await self._lease.run_work(lambda: self._processes.start(argv, cwd=cwd, env=env))

    def list(self) -> tuple[ProcessInfo, ...]:
        self._lease.check()
        return self._processes.list()

    async def wait(self, process_id: str) -> ProcessInfo:
        return await self._lease.run_work(lambda: self._processes.wait(process_id))

    def signal(self, process_id: str, number: int) -> None:
        self._lease.check()
        self._processes.signal(process_id, number)

    async def cancel(self, process_id: str) -> ProcessInfo:
        return await self._lease.run_work(lambda: self._processes.cancel(process_id))


class ChildFailed(Exception):
    """A child session has no answer; the message says why."""


class DirectFailed(Exception):
    """A model could not be asked outside the conversation; the message says why."""


class TooManyQuestions(DirectFailed):
    """The turn has asked as many direct questions as it may."""


# --- decisions of a plugin before a model call ------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class ReplaceRequest:
    """Ask something else instead; the model, its tools and its limits stay within what the session allows."""

    request: ModelRequest


@attrs.frozen(kw_only=True)
class SwitchTo:
    """Do not ask: continue in another frame, which begins with a task."""

    key: str
    task: str
    reason: str = "switch"


@attrs.frozen(kw_only=True)
class FinishNow:
    """Do not ask: the turn is done, and this is its answer."""

    text: str = ""


@attrs.frozen(kw_only=True)
class RefuseTurn:
    """Do not ask: the turn fails, for this reason."""

    reason: str


BeforeCall = ReplaceRequest | SwitchTo | FinishNow | RefuseTurn | None
"""A decision; None continues unchanged."""


def _is_bound(tokens: int | None) -> bool:
    return tokens is None or tokens > 0


def is_before_call(decided: object) -> bool:
    """Return whether a plugin's decision is valid; not all plugins are type-checked."""
    match decided:
        case None:
            return True
        case ReplaceRequest(request=request):
            return build_check(ModelRequest)(request) and _is_bound(request.max_output_tokens)
        case SwitchTo():
            given: tuple[object, ...] = (decided.key, decided.task)
            return is_label(decided.reason) and all(isinstance(each, str) and bool(each.strip()) for each in given)
        case FinishNow(text=text):
            return isinstance(text, str)
        case RefuseTurn(reason=reason):
            return isinstance(reason, str)
        case _:
            return False
