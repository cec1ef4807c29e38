"""A protocol's work in a turn besides model and tool calls: cells of code, frames, and saving the state of code.

Rules:
1. A cell is a live call, durable before it runs. Its tool calls go through the same gate and hooks as those of a model.
   Its end is one step: the result, and the message that tells the model. If cells should be sandboxed and cannot be,
   each needs approval first, like a command.
2. A frame is opened together with the message that hands over to it, in one step: a crash finds both or neither.
3. The executor's state is saved in one step with the end of the turn, and only if it has changed. If the store did not
   take it, the executor offers it again; what cannot be serialised at all is lost. A stopped or failed turn has an end
   too: the work of its cells is in the conversation.
4. The executor's state belongs to the current point of the conversation. If that state is no longer stored, the
   executor starts empty, and the next cell tells the model.
"""

import logging
from typing import Final

import attrs
import trio

from session_core import limits
from session_core.agent.streamed_answer import replace_surrogates
from session_core.agent.tool_results import Reporter, build_result, limit_text
from session_core.agent.tool_runner import ToolConfig, ToolRunner
from session_core.errors import StorageFailed
from session_core.ids import CallId, MessageId, new_id
from session_core.permissions.decision import may_read_unasked
from session_core.protocols.driver import ExecuteCode, SwitchFrame
from session_core.protocols.execution import Cell, CellResult, Execution, KeptState, StateCapture, compute_digest
from session_core.protocols.faults import ProtocolFault, StateNotKeepable, StateRejected
from session_core.protocols.frames import (
    FrameKeyInvalid,
    OpenNewFrame,
    ReturnToFrame,
    StayInFrame,
    decide_switch,
    first_frame,
)
from session_core.protocols.lifecycle import SessionProtocol
from session_core.session.cells import CELL, build_cell_message, inner_calls
from session_core.session.executor_points import build_state_saved
from session_core.session.state import SessionState
from session_core.session.turn_handle import TurnHandle
from session_core.storage.executor_state import leaf_digests
from session_core.tools.background_jobs import NOTING_S
from session_core.tools.base import CallPreview, Tool, ToolContext, ToolFailed, ToolOutput
from session_core.tools.command_confinement import UNCONFINED, UNCONFINED_DETAILS, explain_no_sandbox
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import Message, TextPart, ToolCallPart, ToolResultPart, ToolStatus
from session_core.vocabulary.protocols import ExecutorState, Frame
from session_core.vocabulary.tools import Effect, ToolSpec

log = logging.getLogger(__name__)

_KEEPING_S: Final = 2.0
_ALL_LOST: Final = (
    "(The conversation was rewound to a point whose variables are no longer stored: nothing that earlier cells defined "
    "or imported was available to this cell.)"
)
_SOME_LOST: Final = (
    "(The conversation was rewound into the middle of a turn: before this cell, the variables were as they had been at "
    "the end of the turn before it.)"
)
_CHANGED: Final = (
    "The settings of this session have changed since this cell was allowed, so it would not run as it was shown. "
    "It was not run; write it again."
)
_NOT_WAITED_FOR: Final = "The cell ended before this was done. It may have had some of its effects."


class ProtocolWork:
    """The work of a protocol in one turn."""

    def __init__(self, handle: TurnHandle, protocol: SessionProtocol, config: ToolConfig) -> None:
        self._handle = handle
        self._protocol = protocol
        self._config = config
        self._cells = 0
        self._switches = 0
        if protocol.executor_base != handle.state.executor:
            protocol.executor_current = False

    @property
    def frame(self) -> Frame:
        """The frame that the turn is in."""
        return current_frame(self._handle.state)

    # --- code ---------------------------------------------------------------------------------------------------------

    async def run_cell(self, action: ExecuteCode, tools: dict[str, Tool]) -> CellResult:
        """Run a cell and add its result to the conversation.

        Raises:
            ProtocolFault: There is no executor for it, or the executor has failed.
            FolderUnusable: The settings of the session's folder are wrong.

        Cancellation: a running cell is ended, and gets its result when the turn's work is closed. One that still
            waits for approval has not begun.
        """
        handle, protocol = self._handle, self._protocol
        lost = await self._restore_executor()
        self._cells += 1
        call = ToolCallPart(
            call_id=CallId(new_id("call")), name=CELL, arguments=JsonObject({"code": replace_surrogates(action.code)})
        )
        runner, one_at_a_time = ToolRunner(handle, tools, self._config), trio.Lock()

        async def call_tool(name: str, arguments: JsonObject) -> ToolResultPart:
            """Run a tool call of the cell; it is judged after the effects of those before it."""
            async with one_at_a_time:
                inner = ToolCallPart(call_id=CallId(new_id("call")), name=name, arguments=arguments)
                return await runner.run_inner(inner)

        settings = handle.state.settings
        rules = await self._config.load_rules(settings.cwd)
        execution = Execution(
            session_id=handle.state.session_id,
            turn_id=handle.turn_id,
            cwd=settings.cwd,
            sandbox=settings.sandbox,
            tools=tuple(tool.spec for tool in tools.values()),
            call_tool=call_tool,
            report=Reporter(handle, call.call_id),
            hidden=self._config.hidden,
            may_read=may_read_unasked(settings.permission_mode, rules),
        )
        cell = Cell(language=action.language, code=action.code, number=self._cells)
        refused = None
        if (reason := await protocol.why_unconfined(execution)) is not None:
            refused = await runner.check_permission(_UnconfinedCell(reason, settings.cwd), call)
            if refused is None and handle.state.settings != settings:
                refused = build_result(call, "error", _CHANGED)
            execution = attrs.evolve(execution, unconfined=refused is None)
            cell = attrs.evolve(cell, code=str(call.arguments["code"]))  # exactly what was shown
        handle.record(ev.ToolCallStarted(call_id=call.call_id, name=CELL, arguments=call.arguments))
        await handle.wait_until_durable()
        if refused is not None:
            result = CellResult(error=refused.text)
        else:
            result = await self._execute(cell, execution, call.call_id)
        self._answer_inner_calls()
        result_text = _render_result(result, lost)
        ended: ToolStatus = "success" if result.error is None else "error"
        part = build_result(call, ended if refused is None else refused.status, result_text)
        details = UNCONFINED_DETAILS if refused is None and not _is_confined(execution) else None
        handle.record(ev.ToolCallFinished(result=attrs.evolve(part, images=result.images, details=details)))
        live = next(each for each in handle.state.tools if each.call_id == call.call_id)
        handle.record(build_cell_message(handle.state, live, handle.turn_id, handle.now()))
        return result

    async def _execute(self, cell: Cell, execution: Execution, call_id: CallId) -> CellResult:
        """Run a cell. If it has no sandbox, record its changes for an undo, however it ends."""
        if _is_confined(execution):
            return await self._protocol.execute(cell, execution)
        host = self._config.make_host(self._handle, call_id)
        try:
            await host.before_command()
        except ToolFailed as failure:
            return CellResult(error=str(failure))
        try:
            return await self._protocol.execute(cell, execution)
        finally:
            with trio.move_on_after(NOTING_S, shield=True):
                await host.after_call()

    def _answer_inner_calls(self) -> None:
        """Give a result to every call that the cell did not wait for; those were cancelled with it."""
        for live in inner_calls(self._handle.state):
            if live.result is None:
                call = ToolCallPart(call_id=live.call_id, name=live.name, arguments=live.arguments)
                self._handle.record(ev.ToolCallFinished(result=build_result(call, "cancelled", _NOT_WAITED_FOR)))

    async def _restore_executor(self) -> str:
        """Restore the executor to the state of this point; returns what the model must be told about that."""
        protocol, state = self._protocol, self._handle.state.executor
        if protocol.executor is None or protocol.executor_current:
            return ""
        lost = (_ALL_LOST if state is None else _SOME_LOST) if self._handle.state.executor_lost else ""
        try:
            await protocol.restore_executor(None if state is None else await self._load_saved_state(state))
        except StateRejected as rejected:
            why = f"{rejected.message}; clear the context to start its code from an empty state"
            raise ProtocolFault(protocol.record.name, "restore", why) from rejected
        protocol.executor_current, protocol.executor_base = True, state
        return lost

    async def _load_saved_state(self, state: ExecutorState) -> KeptState:
        found = await self._handle.load_leaves(tuple(leaf.digest for leaf in state.leaves))
        leaves: dict[str, bytes] = {}
        for leaf in state.leaves:
            data = found.get(leaf.digest)
            if data is None or compute_digest(data) != leaf.digest:
                what = "is missing" if data is None else "differs from what was stored"
                raise StateRejected(f"a part of the executor's stored state {what}: {leaf.name}")
            leaves[leaf.name] = data
        return KeptState(state=state, leaves=leaves)

    # --- frames -------------------------------------------------------------------------------------------------------

    def switch_frame(self, action: SwitchFrame) -> bool:
        """Continue in another frame; returns whether it differs from the current one.

        Raises:
            ProtocolFault: The key is invalid, or the turn has switched too often.
        """
        handle, name = self._handle, self._protocol.record.name
        here = self.frame
        try:
            switch = decide_switch(
                handle.state.session_id,
                handle.state.frames,
                here.frame_id,
                action.key,
                reason=action.reason,
                now=handle.now(),
            )
        except FrameKeyInvalid as error:
            raise ProtocolFault(name, "driver", str(error)) from error
        self._switches += 1  # staying counts as well: a driver that keeps asking for it is in a loop
        if self._switches > limits.MAX_FRAME_SWITCHES:
            raise ProtocolFault(name, "driver", f"it has switched {limits.MAX_FRAME_SWITCHES} times in one turn")
        if isinstance(switch, StayInFrame):
            return False
        left_frame = attrs.evolve(here, last_message_id=handle.state.head)
        match switch:
            case OpenNewFrame(frame=frame):
                message = self._build_task_message(action, None)
                opened = attrs.evolve(frame, first_message_id=message.message_id)
                handle.record(ev.FrameOpened(frame=opened, message=message, left=left_frame))
            case ReturnToFrame(frame=frame):
                message = self._build_task_message(action, frame.last_message_id)
                handle.record(ev.FrameEntered(frame_id=frame.frame_id, message=message, left=left_frame))
        self._protocol.invalidate_all()
        return True

    def _build_task_message(self, action: SwitchFrame, parent_id: MessageId | None) -> Message:
        """Build the message that hands over; one that begins a frame hides what came before it, like a summary."""
        handle = self._handle
        return Message(
            message_id=MessageId(new_id("msg")),
            parent_id=handle.state.head if parent_id is None else parent_id,
            role="summary" if parent_id is None else "user",
            parts=(TextPart(text=replace_surrogates(action.task[: limits.MAX_TEXT_CHARS])),),
            created_at=handle.now(),
            turn_id=handle.turn_id,
            source=self._protocol.record.name,
        )

    # --- saving state -------------------------------------------------------------------------------------------------

    async def capture(self) -> tuple[StateCapture | None, str | None]:
        """Return the state to save with the end of the turn, or why it cannot be saved."""
        try:
            return await self._protocol.capture(leaf_digests(self._handle.state.executor)), None
        except StateNotKeepable as reason:
            self._protocol.executor_current = False  # it continues from the last saved state
            return None, f"what the code has left behind cannot be kept: {reason}"

    async def save_unfinished(self) -> None:
        """Save the state that cells have left in a turn that ends early.

        Cancellation: it is still saved, unless that takes longer than a stop waits.
        """
        if not self._protocol.dirty:
            return
        with trio.move_on_after(_KEEPING_S, shield=True):
            try:
                capture, problem = await self.capture()
            except ProtocolFault as fault:
                capture, problem = None, str(fault)
            if problem is not None:
                log.warning("session %s: %s", self._handle.state.session_id, problem)
            self.save_capture(capture)
            await self.settle(capture)

    def save_capture(self, capture: StateCapture | None) -> None:
        """Hand a capture to the store, in the step that ends the turn."""
        if capture is not None:
            self._handle.keep_leaves(capture.new)
            self._handle.record(build_state_saved(self._handle.state, capture.state))
            self._protocol.executor_base = capture.state

    async def settle(self, capture: StateCapture | None) -> None:
        """Tell the executor whether the store has the offered state.

        Cancellation: still waits; a store answers or fails.
        """
        if capture is None:
            return
        with trio.CancelScope(shield=True):
            try:
                await self._handle.wait_until_durable()
            except StorageFailed:
                self._protocol.settle(capture, is_stored=False)
                raise
            self._protocol.settle(capture, is_stored=True)


class _UnconfinedCell:
    """A cell without a sandbox, as shown for approval: a program that can do anything the user can do."""

    spec = ToolSpec(name=CELL, description="Run Python.", parameters=JsonObject({"type": "object"}))
    effects: frozenset[Effect] = frozenset({"execute"})

    def __init__(self, reason: str, folder: str) -> None:
        self._reason = reason
        self._folder = folder

    async def preview(self, arguments: JsonObject, _context: ToolContext) -> CallPreview:
        """Show the code and what it runs in."""
        code = str(arguments["code"])
        first, *more = code.strip().splitlines() or [""]
        return CallPreview(
            summary=f"run Python: {first[:200]}{' ...' if more or len(first) > 200 else ''}",
            displayed_text=f"{code.rstrip()}\n\nfolder: {self._folder}\n{UNCONFINED}",
            grant=f"run Python in {self._folder}: {code}",
            rights=("unconfined",),
            always_ask=explain_no_sandbox("cell", self._reason),
        )

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Refuse: the executor runs cells."""
        raise ToolFailed("cells are run by an executor")


def _is_confined(execution: Execution) -> bool:
    return execution.sandbox.mode != "full_access" and not execution.unconfined


def _render_result(result: CellResult, lost: str) -> str:
    """Describe the result of a cell for the model, and the state that was lost."""
    parts = [each for each in (lost, result.output) if each]
    if result.error is not None:
        parts.append(result.error)
    return limit_text("\n".join(parts))


def current_frame(state: SessionState) -> Frame:
    """Return the frame that a session is in."""
    first = first_frame(state.session_id, state.created_at)
    wanted = state.frame_id or first.frame_id
    return next((each for each in state.frames if each.frame_id == wanted), first)


def current_options(state: SessionState) -> JsonObject:
    """Return the options of a session's protocol as they hold in its current frame."""
    if not state.frames or not (own := current_frame(state).options):
        return state.protocol.options
    return JsonObject({**state.protocol.options, **own})
