"""A session's protocol while the session is in memory. This module alone calls the code of plugins.

Order: options are resolved and recorded with the opening; `build`; then, before the first callback that needs it,
`initialize` and `restore` once. Whenever a callback has failed half-way, or the conversation has gone another way than
the plugin knows it, `restore` comes again before the next one.

Rules:
1. Every callback has a deadline, and a context that ends with it. Those about the session come one after the other.
2. Whatever a callback raises, or gives back that it should not, is a `ProtocolFault`, named after the plugin and the
   callback. Cancellation passes.
3. A callback that never gives control back, or shields itself from cancellation, cannot be ended: plugins are code of
   this process, and trusted like it.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from inspect import isawaitable
from typing import Final, TypeVar

import trio

from session_core import limits
from session_core.foreign_faults import FOREIGN_FAULTS, passes_through
from session_core.ids import MessageId, SessionId
from session_core.protocols.api import ProtocolBundle, ProtocolFactory, ProtocolSession, TurnAdditions
from session_core.protocols.contexts import (
    BeforeCall,
    BeforeCallContext,
    BuildContext,
    Lease,
    SessionContext,
    is_before_call,
    leased,
    leased_execution,
)
from session_core.protocols.driver import Decided, DriverCallback, DriverFault, DriverView, checked_actions
from session_core.protocols.execution import Cell, CellResult, CodeExecutor, Execution, KeptState, StateCapture
from session_core.protocols.faults import Callback, ExtensionRejected, ProtocolFault, StateNotKeepable, StateRejected
from session_core.protocols.guarded_prose import GuardedProse
from session_core.protocols.options import Materialization
from session_core.protocols.prose import ProseProjector
from session_core.protocols.result_checks import (
    is_large,
    problem_of_bundle,
    problem_of_capture,
    problem_of_result,
    problem_of_text,
)
from session_core.providers.base import ModelRequest
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import Message
from session_core.vocabulary.protocols import ExecutorState, Frame, ProtocolRecord
from session_core.vocabulary.tools import ToolSpec

log = logging.getLogger(__name__)

CALLBACK_SECONDS: Final = limits.PROTOCOL_CALLBACK_MS / 1000
CAPTURE_SECONDS: Final = limits.PROTOCOL_CAPTURE_MS / 1000

T = TypeVar("T")


class _NotAsync(Exception):
    """A callback was called and gave back nothing to wait for."""


class SessionProtocol:
    """One protocol at work in one session.

    Raises:
        ProtocolFault: The plugin could not build what the session needs.
    """

    def __init__(self, factory: ProtocolFactory, record: ProtocolRecord, opening: Materialization) -> None:
        self.record = record
        self.session_id: SessionId = opening.session_id
        self._plugin = factory.id
        self._initialized = False
        self._restored = False
        self._known: MessageId | None = None
        """The end of the conversation as the plugin knows it."""
        self._frame_id: str | None = None
        self._one_by_one = trio.Lock()
        self.executor_current = False
        """Whether the executor has what belongs to this session and frame; if not, it is restored before it is used."""
        self.executor_base: ExecutorState | None = None
        """What it was restored from, or has last had kept; what it has done since comes on top."""
        self.bundle = self._build(factory, opening)

    def _build(self, factory: ProtocolFactory, opening: Materialization) -> ProtocolBundle:
        context = BuildContext(session_id=opening.session_id, options=self.record.options, is_root=opening.is_root)
        try:
            bundle: object = factory.build(context)
        except FOREIGN_FAULTS as error:
            if passes_through(error):
                raise
            raise self._fault("build", error) from error
        if not isinstance(bundle, ProtocolBundle):
            told = f"it built no bundle with a driver, but {type(bundle).__name__}"
            raise ProtocolFault(self._plugin, "build", told)
        try:
            problem = problem_of_bundle(bundle)
        except FOREIGN_FAULTS as error:  # looking at a property is calling it
            if passes_through(error):
                raise
            raise self._fault("build", error) from error
        if problem is not None:
            raise ProtocolFault(self._plugin, "build", problem)
        return bundle

    # --- the session --------------------------------------------------------------------------------------------------

    async def ready(self, frame: Frame, messages: Callable[[], Awaitable[Sequence[Message]]]) -> None:
        """See to it that the plugin is what follows from the conversation; does nothing when it is already."""
        session = self.bundle.session
        if type(session) is ProtocolSession:  # nothing follows the session, so that the turn goes on at once
            self._enter(frame)
            self._initialized = self._restored = True
            return
        async with self._one_by_one:
            self._enter(frame)
            if not self._initialized:
                await self._call("initialize", lambda lease: session.initialize(self._context(frame, lease)))
                self._initialized = True
            follows = type(session).restore is not ProtocolSession.restore
            if self._restored and not follows:
                return
            said = await messages()
            goes_on = self._known is None or any(each.message_id == self._known for each in reversed(said))
            if self._restored and goes_on:
                return
            await self._call("restore", lambda lease: session.restore(self._context(frame, lease), said))
            self._restored = True
            self._known = said[-1].message_id if said else None

    def begin_anew(self) -> None:
        """Have everything restored before its next use: the conversation, or its frame, is another one."""
        self.executor_current = False
        self.invalidate()

    def _enter(self, frame: Frame) -> None:
        """Forget what belongs to another frame."""
        if self._frame_id not in {None, frame.frame_id}:
            self.executor_current = False
            self._restored = False
        self._frame_id = frame.frame_id

    def invalidate(self) -> None:
        """Have the plugin restored before it is asked anything again."""
        self._restored = False

    def turn_ended(self, head: MessageId | None) -> None:
        """Note how far the plugin knows the conversation: whatever goes on elsewhere, it is restored for."""
        self._known = head

    async def appended(self, frame: Frame, operation_id: str, messages: Sequence[Message]) -> None:
        """Tell of messages that were put into the conversation, and are durable.

        A plugin that is to be restored before its next use is not told: it will find them in the conversation.
        """
        session = self.bundle.session
        async with self._one_by_one:
            if self._restored:
                await self._call(
                    "appended", lambda lease: session.appended(self._context(frame, lease), operation_id, messages)
                )
                self._known = messages[-1].message_id if messages else self._known

    async def apply_extension(self, frame: Frame, extension: JsonObject) -> None:
        """Hand something over that is not part of the conversation; raises `ExtensionRejected`."""
        session = self.bundle.session
        async with self._one_by_one:
            await self._call(
                "apply_extension",
                lambda lease: session.apply_extension(self._context(frame, lease), extension),
                expected=ExtensionRejected,
            )

    async def check_turn_extension(self, frame: Frame, extension: JsonObject) -> TurnAdditions:
        """Ask what something that came with a message adds to its turn; raises `ExtensionRejected`."""
        session = self.bundle.session
        async with self._one_by_one:
            found: object = await self._call(
                "check_turn_extension",
                lambda lease: session.check_turn_extension(self._context(frame, lease), extension),
                expected=ExtensionRejected,
            )
        if not isinstance(found, TurnAdditions):
            raise self._broken("check_turn_extension", "it gave back no TurnAdditions")
        if (problem := problem_of_text(found.instructions)) is not None:
            raise self._broken("check_turn_extension", f"it gave back no TurnAdditions for a model: {problem}")
        return found

    # --- turns --------------------------------------------------------------------------------------------------------

    def decide(self, callback: DriverCallback, view: DriverView, *given: object, **named: object) -> Decided:
        """Let the driver decide."""
        try:
            return checked_actions(getattr(self.bundle.driver, callback)(view, *given, **named))
        except DriverFault as fault:
            raise ProtocolFault(self._plugin, "driver", f"{fault} (in {callback})") from fault
        except FOREIGN_FAULTS as error:
            if passes_through(error):
                raise
            raise self._fault("driver", error, where=f" (in {callback})") from error

    def instructions(self, tools: Sequence[ToolSpec]) -> str:
        """Return what models are told beside their prompt."""
        if self.bundle.instructions is None:
            return ""
        try:
            told: object = self.bundle.instructions(tools)
        except FOREIGN_FAULTS as error:
            if passes_through(error):
                raise
            raise self._fault("instructions", error) from error
        if (problem := problem_of_text(told)) is not None:
            raise self._broken("instructions", problem)
        return str(told)

    @property
    def prose(self) -> ProseProjector | None:
        """What divides answers, if the protocol has that."""
        return None if self.bundle.prose is None else GuardedProse(self.bundle.prose, self._plugin)

    async def before_model_call(
        self, make_context: Callable[[Lease], BeforeCallContext], request: ModelRequest
    ) -> BeforeCall:
        """Ask whether, and what, a model is to be asked."""
        session = self.bundle.session
        async with self._one_by_one:
            decided = await self._call(
                "before_model_call",
                lambda lease: session.before_model_call(make_context(lease), request),
                seconds=limits.PROTOCOL_BEFORE_CALL_MS / 1000,
            )
        if not is_before_call(decided):
            raise self._broken(
                "before_model_call",
                f"it gave back {type(decided).__name__}, and not None, nor a ReplaceRequest, SwitchTo, FinishNow or "
                "RefuseTurn with fields of the right types",
            )
        return decided

    # --- code ---------------------------------------------------------------------------------------------------------

    @property
    def executor(self) -> CodeExecutor | None:
        """What runs code, if the protocol has that."""
        return self.bundle.executor

    async def why_unconfined(self, execution: Execution) -> str | None:
        """Say why cells cannot be confined here although they should be; None if there is no reason to ask a person."""
        executor = self._executor("execute")
        reason = await self._call(
            "execute", lambda lease: executor.why_unconfined(leased_execution(execution, lease)), seconds=None
        )
        if reason is not None and not isinstance(reason, str):
            raise self._broken("execute", f"its why_unconfined returned {type(reason).__name__} instead of a string")
        return reason

    async def execute(self, cell: Cell, execution: Execution) -> CellResult:
        """Run a cell; how long it may take is the executor's own affair."""
        executor = self._executor("execute")
        if cell.language != executor.language:
            raise ProtocolFault(self._plugin, "execute", f"its executor runs {executor.language}, not {cell.language}")
        result = await self._call(
            "execute", lambda lease: executor.execute(cell, leased_execution(execution, lease)), seconds=None
        )
        if (problem := problem_of_result(result)) is not None:
            raise self._broken("execute", problem)
        return result

    @property
    def dirty(self) -> bool:
        """Whether the executor has anything of this session that the store does not have; true in doubt."""
        if self.executor is None or not self.executor_current:
            return False
        try:
            return bool(self.executor.dirty)
        except FOREIGN_FAULTS as error:
            if passes_through(error):
                raise
            log.exception("an executor cannot tell whether it has anything to keep")
            return True

    async def probe(self) -> str | None:
        """Say what keeps the executor's state from being kept; None if nothing does."""
        executor = self.executor
        if executor is None or not self.dirty:
            return None
        try:
            await self._call(
                "probe", lambda _lease: executor.probe(), seconds=CAPTURE_SECONDS, expected=StateNotKeepable
            )
        except StateNotKeepable as reason:
            self.executor_current = False  # it goes on from what was kept before
            return str(reason)
        return None

    async def capture(self, there: Collection[str] = ()) -> StateCapture | None:
        """Return what has to be kept of the executor; None if there is nothing new.

        `there` are the digests of the leaves that the store has.

        Raises:
            StateNotKeepable: It cannot be written down.
        """
        executor = self.executor
        if executor is None or not self.dirty:
            return None
        found = await self._call(
            "capture", lambda _lease: executor.capture(), seconds=CAPTURE_SECONDS, expected=StateNotKeepable
        )
        look = partial(problem_of_capture, found, executor.engine, there)
        problem = await trio.to_thread.run_sync(look) if is_large(found) else look()
        if problem is not None:
            raise self._broken("capture", problem)
        return found

    def settle(self, capture: StateCapture, *, kept: bool) -> None:
        """Tell the executor whether the store has what it offered; if it fails in that, it is restored next."""
        if self.executor is None:
            return
        try:
            (self.executor.acknowledge if kept else self.executor.abort)(capture)
        except FOREIGN_FAULTS as error:
            if passes_through(error):
                raise
            self._fault("capture", error)

    async def restore_executor(self, kept: KeptState | None) -> None:
        """Bring the executor to what was kept; raises `StateRejected`."""
        executor = self._executor("restore")
        await self._call(
            "restore", lambda _lease: executor.restore(kept), seconds=CAPTURE_SECONDS, expected=StateRejected
        )

    def _executor(self, callback: Callback) -> CodeExecutor:
        if self.executor is None:
            raise ProtocolFault(self._plugin, callback, "it has no executor, and wants code run")
        return self.executor

    async def aclose(self) -> None:
        """End whatever the executor runs; a fault in that is logged, as nobody waits for it."""
        if self.executor is not None:
            executor = self.executor
            try:
                await self._call("close", lambda _lease: executor.aclose())
            except ProtocolFault:
                log.exception("the executor of a session could not be closed")

    # --- calling ------------------------------------------------------------------------------------------------------

    def _context(self, frame: Frame, lease: Lease) -> SessionContext:
        return SessionContext(session_id=self.session_id, frame=frame, lease=lease)

    async def _call(
        self,
        callback: Callback,
        call: Callable[[Lease], Awaitable[T]],
        *,
        seconds: float | None = CALLBACK_SECONDS,
        expected: type[Exception] | tuple[()] = (),
    ) -> T:
        try:
            with trio.CancelScope() as scope, leased() as lease:
                if seconds is not None:
                    scope.deadline = trio.current_time() + seconds
                waited = call(lease)
                if not isawaitable(waited):
                    raise _NotAsync
                return await waited
        except expected:
            raise
        except _NotAsync as error:
            raise self._broken(callback, "it is a plain function and must be async: write `async def`") from error
        except FOREIGN_FAULTS as error:
            if passes_through(error):
                raise
            raise self._fault(callback, error) from error
        raise self._broken(callback, f"it took longer than {seconds:g} s")

    def _fault(self, callback: Callback, error: BaseException, *, where: str = "") -> ProtocolFault:
        log.error("the protocol %s failed in %s", self._plugin, callback, exc_info=error)
        return self._broken(callback, f"{type(error).__name__}: {error}{where}")

    def _broken(self, callback: Callback, reason: str) -> ProtocolFault:
        """Note that the plugin may be in any state, and say why."""
        self._restored = False
        if callback in {"execute", "probe", "capture"}:
            self.executor_current = False
        return ProtocolFault(self._plugin, callback, reason)
