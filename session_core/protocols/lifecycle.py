"""A session's protocol while the session is in memory. Only this module calls the code of plugins.

Order: options are resolved and recorded with the opening; `build`; then, before the first callback that needs it,
`initialize` and `restore` once. After a callback has failed half-way, or the conversation has diverged from what the
plugin knows, `restore` runs again before the next one.

Rules:
1. Every callback has a deadline, and a context that ends with it. Session callbacks run one after the other.
2. Any exception or invalid return value of a callback is a `ProtocolFault`, named after the plugin and the callback.
   Cancellation passes through.
3. A callback that never yields, or shields itself from cancellation, cannot be ended: plugins are code of this process,
   and trusted like it.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from inspect import isawaitable
from typing import Any, Final, TypeVar

import attrs
import trio

from session_core import limits
from session_core.foreign_faults import FOREIGN_FAULTS, must_propagate
from session_core.ids import MessageId, SessionId
from session_core.protocols.api import ProtocolBundle, ProtocolFactory, ProtocolSession, TurnAdditions
from session_core.protocols.contexts import (
    BeforeCall,
    BeforeCallContext,
    BuildContext,
    Lease,
    OwnOptions,
    SessionContext,
    is_before_call,
    lease_execution,
    open_lease,
)
from session_core.protocols.driver import CheckedActions, DriverCallback, DriverFault, DriverView, check_actions
from session_core.protocols.execution import Cell, CellResult, CodeExecutor, Execution, KeptState, StateCapture
from session_core.protocols.faults import (
    Callback,
    InputRejected,
    OptionsInvalid,
    ProtocolFault,
    StateNotKeepable,
    StateRejected,
)
from session_core.protocols.options import Materialization, OptionScope
from session_core.protocols.prose import ProseProjector, ProseStream, Span
from session_core.protocols.result_checks import (
    find_bundle_problem,
    find_capture_problem,
    find_result_problem,
    find_text_problem,
    is_large,
)
from session_core.providers.base import ModelRequest
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import Message
from session_core.vocabulary.protocols import ExecutorState, Frame, ProtocolRecord
from session_core.vocabulary.tools import ToolSpec

# Guards a protocol's projector: its faults become faults of the protocol, and it can neither lose nor invent text.
T = TypeVar("T")


class GuardedProse:
    """Wraps the projector of a plugin."""

    def __init__(self, prose: ProseProjector, plugin: str) -> None:
        self._prose = prose
        self._plugin = plugin

    def open(self) -> ProseStream:
        """Begin an answer."""
        return _GuardedStream(_call_guarded(self._plugin, self._prose.open), self._plugin)


class _GuardedStream:
    def __init__(self, stream: ProseStream, plugin: str) -> None:
        self._stream = stream
        self._plugin = plugin
        self._held = ""
        """Text that was fed and not returned yet."""

    def feed(self, text: str) -> tuple[Span, ...]:
        self._held += text
        return self._check_spans(lambda: self._stream.feed(text))

    def close(self) -> tuple[Span, ...]:
        spans = self._check_spans(lambda: self._stream.close())  # noqa: PLW0108 - there may be no such method
        if self._held:
            raise ProtocolFault(self._plugin, "prose", "it lost a part of an answer")
        return spans

    def _check_spans(self, call: Callable[[], tuple[Span, ...]]) -> tuple[Span, ...]:
        spans: tuple[Span, ...] = _call_guarded(self._plugin, lambda: tuple(call()))
        for span in spans:
            if not _is_span(span):
                raise ProtocolFault(self._plugin, "prose", "it divided an answer into something that is not text")
            if not self._held.startswith(span[1]):
                raise ProtocolFault(self._plugin, "prose", "it returned text that differs from the answer")
            self._held = self._held[len(span[1]) :]
        return spans


def _is_span(span: object) -> bool:
    return isinstance(span, tuple) and len(span) == 2 and span[0] in ("text", "code") and isinstance(span[1], str)


def _call_guarded(plugin: str, call: Callable[[], T]) -> T:
    try:
        return call()
    except FOREIGN_FAULTS as error:
        if must_propagate(error):
            raise
        raise ProtocolFault(plugin, "prose", f"{type(error).__name__}: {error}") from error


# --- lifecycle --------------------------------------------------------------------------------------------------------

log = logging.getLogger(__name__)

CALLBACK_SECONDS: Final = limits.PROTOCOL_CALLBACK_MS / 1000
CAPTURE_SECONDS: Final = limits.PROTOCOL_CAPTURE_MS / 1000


class _NotAsync(Exception):
    """A callback returned nothing awaitable."""


@attrs.frozen
class _BuiltOptions:
    """The options of a session that is not created yet: nothing can be set."""

    current: JsonObject

    def change(self, changes: Mapping[str, Any], scope: OptionScope) -> None:
        raise OptionsInvalid("the options of a session can be set once it exists", field="options")

    async def wait_until_durable(self) -> None:
        pass


class SessionProtocol:
    """One protocol in use by one session.

    Raises:
        ProtocolFault: The plugin could not build what the session needs.
    """

    def __init__(self, factory: ProtocolFactory, record: ProtocolRecord, opening: Materialization) -> None:
        self.record = record
        self.session_id: SessionId = opening.session_id
        self._plugin = factory.id
        self._initialized = False
        self._restored = False
        self._known_head: MessageId | None = None
        """The end of the conversation as the plugin knows it."""
        self._frame_id: str | None = None
        self._lock = trio.Lock()
        self.executor_current = False
        """Whether the executor has the state of this session and frame; if not, it is restored before its next use."""
        self.executor_base: ExecutorState | None = None
        """The state that it was last restored from or saved as; later work comes on top."""
        self.options_class = factory.options
        self.is_root = opening.is_root
        self.own: OwnOptions = _BuiltOptions(record.options)
        self.bundle = self._build(factory, opening)

    def _build(self, factory: ProtocolFactory, opening: Materialization) -> ProtocolBundle:
        context = BuildContext(session_id=opening.session_id, options=self.record.options, is_root=opening.is_root)
        try:
            bundle: object = factory.build(context)
        except FOREIGN_FAULTS as error:
            if must_propagate(error):
                raise
            raise self._log_fault("build", error) from error
        if not isinstance(bundle, ProtocolBundle):
            reason = f"it built no bundle with a driver, but {type(bundle).__name__}"
            raise ProtocolFault(self._plugin, "build", reason)
        try:
            problem = find_bundle_problem(bundle)
        except FOREIGN_FAULTS as error:  # reading a property runs its code
            if must_propagate(error):
                raise
            raise self._log_fault("build", error) from error
        if problem is not None:
            raise ProtocolFault(self._plugin, "build", problem)
        return bundle

    # --- the session --------------------------------------------------------------------------------------------------

    async def prepare(self, frame: Frame, messages: Callable[[], Awaitable[Sequence[Message]]]) -> None:
        """Bring the plugin to the state of the conversation; does nothing if it is current."""
        session = self.bundle.session
        if type(session) is ProtocolSession:  # nothing follows the session: the turn continues at once
            self._enter(frame)
            self._initialized = self._restored = True
            return
        async with self._lock:
            self._enter(frame)
            if not self._initialized:
                await self._call("initialize", lambda lease: session.initialize(self._context(frame, lease)))
                self._initialized = True
            follows = type(session).restore is not ProtocolSession.restore
            if self._restored and not follows:
                return
            conversation = await messages()
            goes_on = self._known_head is None or any(
                each.message_id == self._known_head for each in reversed(conversation)
            )
            if self._restored and goes_on:
                return
            await self._call("restore", lambda lease: session.restore(self._context(frame, lease), conversation))
            self._restored = True
            self._known_head = conversation[-1].message_id if conversation else None

    def invalidate_all(self) -> None:
        """Have everything restored before its next use: the conversation or its frame has changed."""
        self.executor_current = False
        self.invalidate()

    def _enter(self, frame: Frame) -> None:
        """Drop the state of another frame."""
        if self._frame_id not in {None, frame.frame_id}:
            self.executor_current = False
            self._restored = False
        self._frame_id = frame.frame_id

    def invalidate(self) -> None:
        """Have the plugin restored before its next callback."""
        self._restored = False

    def note_turn_end(self, head: MessageId | None) -> None:
        """Note how far the plugin knows the conversation; if it continues elsewhere, the plugin is restored."""
        self._known_head = head

    async def note_appended(self, frame: Frame, operation_id: str, messages: Sequence[Message]) -> None:
        """Tell the plugin of durable messages that were added to the conversation.

        A plugin that will be restored before its next use is not told: it will find them in the conversation.
        """
        session = self.bundle.session
        async with self._lock:
            if self._restored:
                await self._call(
                    "appended", lambda lease: session.appended(self._context(frame, lease), operation_id, messages)
                )
                self._known_head = messages[-1].message_id if messages else self._known_head

    async def apply_extension(self, frame: Frame, extension: JsonObject) -> None:
        """Pass on input that is not part of the conversation; raises `InputRejected`."""
        session = self.bundle.session
        async with self._lock:
            await self._call(
                "apply_extension",
                lambda lease: session.apply_extension(self._context(frame, lease), extension),
                expected=InputRejected,
            )

    async def check_turn_extension(self, frame: Frame, extension: JsonObject) -> TurnAdditions:
        """Ask what a message's extension adds to its turn; raises `InputRejected`."""
        session = self.bundle.session
        async with self._lock:
            found: object = await self._call(
                "check_turn_extension",
                lambda lease: session.check_turn_extension(self._context(frame, lease), extension),
                expected=InputRejected,
            )
        if not isinstance(found, TurnAdditions):
            raise self._mark_broken("check_turn_extension", "it returned no TurnAdditions")
        if (problem := find_text_problem(found.instructions)) is not None:
            raise self._mark_broken("check_turn_extension", f"it returned no TurnAdditions for a model: {problem}")
        return found

    # --- turns --------------------------------------------------------------------------------------------------------

    def decide(self, callback: DriverCallback, view: DriverView, *given: object, **named: object) -> CheckedActions:
        """Let the driver decide."""
        try:
            return check_actions(getattr(self.bundle.driver, callback)(view, *given, **named))
        except DriverFault as fault:
            raise ProtocolFault(self._plugin, "driver", f"{fault} (in {callback})") from fault
        except FOREIGN_FAULTS as error:
            if must_propagate(error):
                raise
            raise self._log_fault("driver", error, where=f" (in {callback})") from error

    def instructions(self, tools: Sequence[ToolSpec]) -> str:
        """Return the models' instructions besides their prompt."""
        if self.bundle.instructions is None:
            return ""
        try:
            text: object = self.bundle.instructions(tools)
        except FOREIGN_FAULTS as error:
            if must_propagate(error):
                raise
            raise self._log_fault("instructions", error) from error
        if (problem := find_text_problem(text)) is not None:
            raise self._mark_broken("instructions", problem)
        return str(text)

    @property
    def prose(self) -> ProseProjector | None:
        """The projector of answers, if the protocol has one."""
        return None if self.bundle.prose is None else GuardedProse(self.bundle.prose, self._plugin)

    @property
    def has_before_call_hook(self) -> bool:
        """Whether the protocol wants to be asked before model calls at all; most do not, and pay nothing for it."""
        return type(self.bundle.session).before_model_call is not ProtocolSession.before_model_call

    async def before_model_call(
        self, make_context: Callable[[Lease], BeforeCallContext], request: ModelRequest
    ) -> BeforeCall:
        """Ask whether to call a model, and with what."""
        session = self.bundle.session
        async with self._lock:
            decided = await self._call(
                "before_model_call",
                lambda lease: session.before_model_call(make_context(lease), request),
                seconds=limits.PROTOCOL_BEFORE_CALL_MS / 1000,
            )
        if not is_before_call(decided):
            raise self._mark_broken(
                "before_model_call",
                f"it returned {type(decided).__name__}, but must return None, or a ReplaceRequest, SwitchTo, FinishNow "
                "or RefuseTurn with fields of the right types",
            )
        return decided

    # --- code ---------------------------------------------------------------------------------------------------------

    @property
    def executor(self) -> CodeExecutor | None:
        """The executor of code, if the protocol has one."""
        return self.bundle.executor

    async def why_unconfined(self, execution: Execution) -> str | None:
        """Describe why cells cannot be sandboxed here although they should be; None if no approval is needed."""
        executor = self._require_executor("execute")
        reason = await self._call(
            "execute", lambda lease: executor.why_unconfined(lease_execution(execution, lease)), seconds=None
        )
        if reason is not None and not isinstance(reason, str):
            raise self._mark_broken(
                "execute", f"its why_unconfined returned {type(reason).__name__} instead of a string"
            )
        return reason

    async def execute(self, cell: Cell, execution: Execution) -> CellResult:
        """Run a cell; the executor itself limits its time."""
        executor = self._require_executor("execute")
        if cell.language != executor.language:
            raise ProtocolFault(self._plugin, "execute", f"its executor runs {executor.language}, not {cell.language}")
        result = await self._call(
            "execute", lambda lease: executor.execute(cell, lease_execution(execution, lease)), seconds=None
        )
        if (problem := find_result_problem(result)) is not None:
            raise self._mark_broken("execute", problem)
        return result

    @property
    def dirty(self) -> bool:
        """Whether the executor has state of this session that the store does not have; true in doubt."""
        if self.executor is None or not self.executor_current:
            return False
        try:
            return bool(self.executor.dirty)
        except FOREIGN_FAULTS as error:
            if must_propagate(error):
                raise
            log.exception("an executor failed to report whether it has state to save")
            return True

    async def probe(self) -> str | None:
        """Describe what prevents saving the executor's state; None if nothing does."""
        executor = self.executor
        if executor is None or not self.dirty:
            return None
        try:
            await self._call(
                "probe", lambda _lease: executor.probe(), seconds=CAPTURE_SECONDS, expected=StateNotKeepable
            )
        except StateNotKeepable as reason:
            self.executor_current = False  # it continues from the last saved state
            return str(reason)
        return None

    async def capture(self, stored_digests: Collection[str] = ()) -> StateCapture | None:
        """Return the executor's state to save; None if there is nothing new.

        `stored_digests` are the digests of the leaves that the store has.

        Raises:
            StateNotKeepable: It cannot be saved.
        """
        executor = self.executor
        if executor is None or not self.dirty:
            return None
        found = await self._call(
            "capture", lambda _lease: executor.capture(), seconds=CAPTURE_SECONDS, expected=StateNotKeepable
        )
        look = partial(find_capture_problem, found, executor.engine, stored_digests)
        problem = await trio.to_thread.run_sync(look) if is_large(found) else look()
        if problem is not None:
            raise self._mark_broken("capture", problem)
        return found

    def settle(self, capture: StateCapture, *, is_stored: bool) -> None:
        """Tell the executor whether the store has its capture; if that fails, it is restored next."""
        if self.executor is None:
            return
        try:
            (self.executor.acknowledge if is_stored else self.executor.abort)(capture)
        except FOREIGN_FAULTS as error:
            if must_propagate(error):
                raise
            self._log_fault("capture", error)

    async def restore_executor(self, saved: KeptState | None) -> None:
        """Restore the executor to the stored state; raises `StateRejected`."""
        executor = self._require_executor("restore")
        await self._call(
            "restore", lambda _lease: executor.restore(saved), seconds=CAPTURE_SECONDS, expected=StateRejected
        )

    def _require_executor(self, callback: Callback) -> CodeExecutor:
        if self.executor is None:
            raise ProtocolFault(self._plugin, callback, "it asked to run code, but has no executor")
        return self.executor

    async def aclose(self) -> None:
        """End whatever the executor runs; a fault is logged, as no caller waits for it."""
        if self.executor is not None:
            executor = self.executor
            try:
                await self._call("close", lambda _lease: executor.aclose())
            except ProtocolFault:
                log.exception("the executor of a session could not be closed")

    # --- calling ------------------------------------------------------------------------------------------------------

    def _context(self, frame: Frame, lease: Lease) -> SessionContext:
        return SessionContext(session_id=self.session_id, frame=frame, is_root=self.is_root, lease=lease, own=self.own)

    async def _call(
        self,
        callback: Callback,
        call: Callable[[Lease], Awaitable[T]],
        *,
        seconds: float | None = CALLBACK_SECONDS,
        expected: type[Exception] | tuple[()] = (),
    ) -> T:
        try:
            with trio.CancelScope() as scope, open_lease(scope) as lease:
                if seconds is not None:
                    scope.deadline = trio.current_time() + seconds
                waited = call(lease)
                if not isawaitable(waited):
                    raise _NotAsync
                return await waited
        except expected:
            raise
        except _NotAsync as error:
            raise self._mark_broken(callback, "it is a plain function and must be async: write `async def`") from error
        except FOREIGN_FAULTS as error:
            if must_propagate(error):
                raise
            raise self._log_fault(callback, error) from error
        raise self._mark_broken(callback, f"it took longer than {seconds:g} s")

    def _log_fault(self, callback: Callback, error: BaseException, *, where: str = "") -> ProtocolFault:
        log.error("the protocol %s failed in %s", self._plugin, callback, exc_info=error)
        return self._mark_broken(callback, f"{type(error).__name__}: {error}{where}")

    def _mark_broken(self, callback: Callback, reason: str) -> ProtocolFault:
        """Note that the plugin may be in any state, and return the fault."""
        self._restored = False
        if callback in {"execute", "probe", "capture"}:
            self.executor_current = False
        return ProtocolFault(self._plugin, callback, reason)
