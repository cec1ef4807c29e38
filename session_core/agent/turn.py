"""The turn loop: the interpreter of a protocol (`session_core.protocols`).

The driver decides what comes next; the turn loop does it: it asks models, runs tools and code, delivers messages of
people, enforces limits, and compacts the conversation before it outgrows the model.

Rules:
1. Between two steps, the turn reads messages sent to steer it. When the driver wants to end, the turn reads queued
   follow-ups; only if there are none does it end, in the same step (`TurnHandle.finish_unless_more`).
2. Settings are read again for each model call and each tool call: a change takes effect at the next one.
3. A limit ends the turn with an outcome that names it. So does a fault of the protocol.
4. Cancellation passes through; the code that started the turn closes what is open.
"""

import logging
import math
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Protocol, assert_never

import attrs
import trio

from session_core import limits
from session_core.agent.budget import LimitReached, limit_reason
from session_core.agent.compaction import CompactionPolicy, SummaryFailed, build_summary_message
from session_core.agent.folder_settings import FolderUnusable, TurnFolder, merge_folder_tools
from session_core.agent.hooks import NO_HOOKS, Hooks, run_agent_start_hook, run_message_end_hook
from session_core.agent.model_call import (
    AskBeforeCall,
    CallDiversion,
    ModelAnswer,
    ModelCall,
    Models,
    ask_model,
    clean_error,
    withdraw_partial,
)
from session_core.agent.protocol_work import ProtocolWork, current_options
from session_core.agent.streamed_answer import replace_surrogates
from session_core.agent.tool_runner import ToolConfig, ToolRunner
from session_core.foreign_faults import FOREIGN_FAULTS, must_propagate
from session_core.ids import MessageId, SessionId, new_id
from session_core.permissions.decision import is_ever_allowed
from session_core.protocols.contexts import FinishNow, RefuseTurn, SwitchTo
from session_core.protocols.driver import (
    AskModel,
    CheckedActions,
    Checkpoint,
    CheckpointKind,
    CodeDriver,
    DriverCallback,
    DriverView,
    ExecuteCode,
    Finish,
    ImmediateAction,
    LeadingAction,
    Remember,
    RunTools,
    SetOptions,
    SwitchFrame,
    Tell,
)
from session_core.protocols.faults import InputRejected, OptionsInvalid, ProtocolFault
from session_core.protocols.lifecycle import SessionProtocol
from session_core.protocols.options import OptionScope
from session_core.protocols.structured import fit_output
from session_core.session.prompts import newest_prompt
from session_core.session.state import SessionState
from session_core.session.turn_handle import TurnHandle
from session_core.tools.base import Tool
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonValue, freeze_json
from session_core.vocabulary.messages import Message, Role, TextPart
from session_core.vocabulary.sessions import DeliverAs, Settings, TurnStatus
from session_core.vocabulary.tools import ToolSpec
from session_core.wire.codec import encode

# --- automatic compaction in the middle of a turn ---------------------------------------------------------------------
log = logging.getLogger(__name__)


class AutoCompaction:
    """Compacts during one turn: at most one compaction at a time, and no second one if the first did not help."""

    def __init__(self, policy: CompactionPolicy, handle: TurnHandle) -> None:
        self._policy = policy
        self._handle = handle
        self._done = False

    def note_answer(self) -> None:
        """Note that the model has answered: the fill level of its context is known again."""
        self._done = self._done and self._policy.is_full(self._handle)

    async def compact_if_full(self, *, forced: bool = False) -> bool:
        """Compact the conversation when it fills the model's context; returns whether it did.

        If compaction fails, the turn continues with the conversation as it is.
        """
        handle = self._handle
        if self._done or not (forced or self._policy.is_full(handle)):
            return False
        if not any(message.role == "assistant" for message in handle.state.transcript):
            return False
        withdraw_partial(handle, "context_too_long")
        self._done = True
        handle.record(ev.CompactionStarted())
        failed: tuple[TurnStatus, str | None] | None = ("stopped", None)
        try:
            summary = await self._policy.summarise(handle, automatic=True)
            pending_prompt = next((each.text for each in reversed(handle.state.transcript) if each.role == "user"), "")
            message = build_summary_message(summary, handle.state.head, handle.now(), pending_prompt=pending_prompt)
            handle.record(ev.CompactionFinished(status="completed", summary=message))
            failed = None
        except FOREIGN_FAULTS as failure:
            if must_propagate(failure):
                raise
            if not isinstance(failure, SummaryFailed):
                log.exception("the conversation could not be summarised")
            failed = ("failed", clean_error(f"the summary could not be made: {failure}"))
        finally:
            if failed is not None:
                handle.record(ev.CompactionFinished(status=failed[0], error=failed[1]))
        return failed is None


# --- the tools that a session's model sees, when an extension has narrowed them ---------------------------------------
_MOST_SESSIONS = 4_096  # the longest unchanged are dropped first, and get all their tools again


class ActiveTools:
    """A choice of tools per session; it can only leave tools out, and lasts as long as the service."""

    def __init__(self) -> None:
        self._chosen: dict[SessionId, frozenset[str]] = {}

    def choose(self, session_id: SessionId, names: Collection[str]) -> None:
        """Show a session's model only these tools, from its next call on."""
        self._chosen.pop(session_id, None)
        self._chosen[session_id] = frozenset(names)
        if len(self._chosen) > _MOST_SESSIONS:
            del self._chosen[next(iter(self._chosen))]

    def forget(self, session_id: SessionId) -> None:
        """Show all tools again."""
        self._chosen.pop(session_id, None)

    def filter_tools(self, session_id: SessionId, tools: Mapping[str, Tool]) -> dict[str, Tool]:
        """Return those of a session's tools that its model sees."""
        chosen = self._chosen.get(session_id)
        return dict(tools) if chosen is None else {name: tool for name, tool in tools.items() if name in chosen}


# --- turn -------------------------------------------------------------------------------------------------------------

MOST_CHECKPOINTS = 16
"""Checkpoints in a row after which a driver is considered to be in a loop."""

DELIVERED_AT_CHECKPOINT: dict[CheckpointKind, tuple[DeliverAs, ...]] = {
    "after_work": ("steer",),
    "before_completion": ("steer", "follow_up"),
}
"""The queued messages that are read at each kind of checkpoint."""

MakePrompt = Callable[[Settings, tuple[ToolSpec, ...]], Awaitable[str]]
"""Builds the system prompt; called once per turn."""


class ToolSource(Protocol):
    """Tools that come and go while the service runs."""

    def tools(self, session_id: SessionId) -> Sequence[Tool]:
        """Return the tools that a session has right now."""
        ...


@attrs.frozen(kw_only=True)
class Agent:
    """What every turn of a service shares: models, tools and hooks."""

    models: Models
    tools: Mapping[str, Tool]
    compaction_policy: CompactionPolicy
    sources: tuple[ToolSource, ...] = ()
    system_prompt: str | MakePrompt = ""
    hooks: Hooks = NO_HOOKS
    tool_config: ToolConfig = attrs.field(factory=ToolConfig)
    active: ActiveTools = attrs.field(factory=ActiveTools)

    async def run_turn(self, handle: TurnHandle, protocol: SessionProtocol) -> None:
        """Run the turn until it has ended and its end is recorded.

        Cancellation: leaves the turn open; the caller closes it.
        """
        began = trio.current_time()
        with trio.CancelScope() as clock:

            def apply_limits() -> None:
                time_ms = handle.state.settings.limits.time_ms
                clock.deadline = math.inf if time_ms is None else began + time_ms / 1000
                handle.work.notify_budget_changed()

            apply_limits()
            handle.work.on_limits_changed = apply_limits
            await _Turn(self, handle, protocol).run()
        if clock.cancelled_caught:
            seconds = (handle.state.settings.limits.time_ms or 0) / 1000
            handle.finish_unless_more("limit_reached", error=f"stopped after {seconds:g} seconds, the time it had")

    def tools_for(self, state: SessionState) -> dict[str, Tool]:
        """Return the tools that a session's model sees now."""
        return self.active.filter_tools(state.session_id, self.allowed_tools(state))

    def allowed_tools(self, state: SessionState) -> dict[str, Tool]:
        """Return the tools that a session may use at all; in a read-only one, those that change nothing."""
        tools = dict(self.tools)
        for source in self.sources:
            for tool in source.tools(state.session_id):
                tools.setdefault(tool.spec.name, tool)
        folder = self.tool_config.folders.get_known(state.settings.cwd)
        if folder is not None:
            tools = merge_folder_tools(folder, tools)
        mode = state.settings.permission_mode
        return {name: tool for name, tool in tools.items() if is_ever_allowed(mode, tool.effects)}


class _Turn:
    """One running turn; `_view` is what the driver knows about it."""

    def __init__(self, agent: Agent, handle: TurnHandle, protocol: SessionProtocol) -> None:
        self._agent = agent
        self._handle = handle
        self._protocol = protocol
        self._work = ProtocolWork(handle, protocol, agent.tool_config)
        self._folder = TurnFolder(agent.tool_config.folders, handle)
        self._compaction = AutoCompaction(agent.compaction_policy, handle)
        turn = handle.state.turn
        schema = turn.output_schema if turn is not None else None
        prompt = newest_prompt(handle.state)
        self._view = DriverView(
            output_schema=schema, frame=self._work.frame.key, prompt=prompt, memory=handle.state.driver_memory
        )
        self._ask_before_call: AskBeforeCall | None = None
        self._prompt: str | None = None
        self._additions = ""
        self._model_calls = 0
        self._checkpoints = 0

    async def run(self) -> None:
        """Perform the driver's actions until it has ended the turn."""
        if not self._protocol.has_before_call_hook:
            await self._run()
            return
        from session_core.agent.plugin_support.before_call import open_before_call_hook

        agent = self._agent
        async with open_before_call_hook(self._handle, self._protocol, agent.models, agent.tool_config) as ask:
            self._ask_before_call = ask
            await self._run()

    async def _run(self) -> None:
        try:
            await self._begin()
            decided: CheckedActions | None = self._ask_driver("on_start")
            while decided is not None:
                decided = await self._perform(*decided)
        except (ProtocolFault, InputRejected) as fault:
            self._remember(None)  # it may be what led to the fault
            await self._work.save_unfinished()
            self._handle.finish_unless_more("failed", error=clean_error(str(fault)))
        except FolderUnusable as problem:
            await self._work.save_unfinished()
            self._handle.finish_unless_more("failed", error=clean_error(f"nothing can run here: {problem.message}"))
        finally:
            self._folder.release()
            if self._handle.state.turn is not None:  # it was stopped, or has failed because of a bug
                await self._work.save_unfinished()  # noqa: ASYNC102 - it shields itself, for a while
            self._protocol.note_turn_end(self._handle.state.head)

    async def _begin(self) -> None:
        """Bring the protocol to the session's state, and check the extension that came with the message."""
        handle, protocol = self._handle, self._protocol
        await self._folder.hold_current()
        await protocol.prepare(self._work.frame, handle.conversation)
        extension = handle.state.turn.extension if handle.state.turn is not None else None
        if extension is not None:
            self._additions = (await protocol.check_turn_extension(self._work.frame, extension)).instructions

    def _ask_driver(self, callback: DriverCallback, *given: object, **named: object) -> CheckedActions:
        if named.get("more"):
            self._view = attrs.evolve(self._view, prompt=newest_prompt(self._handle.state))
        if (options := current_options(self._handle.state)) is not self._view.options:
            self._view = attrs.evolve(self._view, options=options)
        return self._protocol.decide(callback, self._view, *given, **named)

    def _build_fault(self, reason: str) -> ProtocolFault:
        return ProtocolFault(self._protocol.record.name, "driver", reason)

    async def _perform(self, first: tuple[ImmediateAction, ...], last: LeadingAction) -> CheckedActions | None:
        """Perform actions; returns the driver's next actions, or None at the end of the turn."""
        tells = any(isinstance(action, Tell) for action in first)
        gives_up = isinstance(last, Finish) and last.status != "completed"
        if self._has_unanswered_calls() and (tells or not (gives_up or isinstance(last, RunTools))):
            raise self._build_fault("the driver left tool calls without results")
        if tells or not gives_up:
            withdraw_partial(self._handle, "the turn does not continue with it")
        self._checkpoints = self._checkpoints + 1 if isinstance(last, Checkpoint) else 0
        for action in first:
            match action:
                case Remember(memory=memory):
                    self._remember(memory)
                case SetOptions(options=options, scope=scope):
                    self._set_options(options, scope)
                case Tell(text=text):
                    self._add_message("user", text, source=self._protocol.record.name)
        match last:
            case AskModel():
                return await self._ask(last)
            case RunTools():
                return await self._run_tools()
            case ExecuteCode():
                return await self._run_cell(last)
            case SwitchFrame():
                return await self._switch(last)
            case Checkpoint(kind=kind):
                if self._checkpoints > MOST_CHECKPOINTS:
                    raise self._build_fault("the driver keeps returning checkpoints")
                more = self._handle.deliver_waiting(DELIVERED_AT_CHECKPOINT[kind])
                return self._ask_driver("on_checkpoint", kind, more=more)
            case Finish():
                return await self._finish(last)
            case _:
                assert_never(last)

    def _add_message(self, role: Role, text: str, source: str | None = None) -> None:
        handle = self._handle
        message = Message(
            message_id=MessageId(new_id("msg")),
            parent_id=handle.state.head,
            role=role,
            parts=(TextPart(text=replace_surrogates(text[: limits.MAX_TEXT_CHARS])),),
            created_at=handle.now(),
            turn_id=handle.turn_id,
            source=source,
        )
        handle.record(ev.MessageAdded(message=message))

    def _remember(self, memory: JsonValue) -> None:
        memory = freeze_json(memory)
        if encode(memory) != encode(self._handle.state.driver_memory):  # 1 equals True, and is another value
            self._handle.record(ev.DriverRemembered(memory=memory))
        self._view = attrs.evolve(self._view, memory=memory)

    def _set_options(self, options: Mapping[str, JsonValue], scope: OptionScope) -> None:
        try:
            self._protocol.own.change(options, scope)
        except OptionsInvalid as refused:
            raise self._build_fault(refused.message) from refused

    def _has_unanswered_calls(self) -> bool:
        """Return whether the conversation ends with tool calls that have no results."""
        state = self._handle.state
        head = state.find_message(state.head) if state.head is not None else None
        return head is not None and head.role == "assistant" and bool(head.tool_calls)

    # --- ends ---------------------------------------------------------------------------------------------------------

    async def _finish(self, action: Finish, answer_text: str | None = None) -> CheckedActions | None:
        action = fit_output(action, self._view, answer_text)
        error = clean_error(action.error) if action.error is not None else None
        if await self._end(action.status, error=error, output=action.output):
            return None
        return self._ask_driver("on_checkpoint", "before_completion", more=True)

    async def _end(self, status: TurnStatus, *, error: str | None = None, output: JsonValue = None) -> bool:
        """End the turn and save the state of code, or continue with messages that have arrived meanwhile."""
        capture, problem = await self._work.capture()
        if problem is not None:
            status, error, output = "failed", clean_error(problem), None
        self._work.save_capture(capture)
        ended = self._handle.finish_unless_more(status, error=error, output=output)
        await self._work.settle(capture)
        return ended

    # --- models -------------------------------------------------------------------------------------------------------

    async def _ask(self, action: AskModel) -> CheckedActions | None:
        handle = self._handle
        if (reached := limit_reason(handle)) is None:
            await self._compaction.compact_if_full()
            reached = limit_reason(handle)
        if reached is not None:
            await self._end("limit_reached", error=reached)
            return None
        if (problem := await self._protocol.probe()) is not None:
            await self._end("failed", error=clean_error(f"what the code has left behind cannot be kept: {problem}"))
            return None
        self._model_calls += 1
        if self._model_calls > limits.MAX_STEPS_PER_TURN:  # a call that never began is not counted as a step
            raise self._build_fault("the driver keeps asking the model")
        answer = await ask_model(await self._build_model_call(action))
        match answer:
            case LimitReached():
                await self._end("limit_reached", error=answer.reason)
                return None
            case CallDiversion():
                return await self._divert(answer)
            case ModelAnswer():
                return await self._handle_answer(answer)
            case _:
                if answer.kind == "context_too_long" and await self._compaction.compact_if_full(forced=True):
                    return (), action
                return self._ask_driver("on_failure", answer)

    async def _build_model_call(self, action: AskModel) -> ModelCall:
        agent, bundle = self._agent, self._protocol.bundle
        specs = tuple(tool.spec for tool in (await self._tools()).values())
        tools = specs if action.with_tools and bundle.native_tools else ()
        return ModelCall(
            handle=self._handle,
            models=agent.models.with_folder_models(self._handle.state.settings.cwd),
            hooks=agent.hooks,
            system=await self._system_prompt(specs),
            tools=tools,
            output_schema=self._view.output_schema if bundle.native_tools else None,
            prose=self._protocol.prose,
            before=self._ask_before_call,
        )

    async def _handle_answer(self, answer: ModelAnswer) -> CheckedActions:
        handle = self._handle
        self._compaction.note_answer()
        await run_message_end_hook(self._agent.hooks, handle.state.session_id, answer.message)
        self._view = attrs.evolve(
            self._view,
            step=handle.state.turn.steps if handle.state.turn is not None else 0,
            answer=answer.message,
            stop_reason=answer.finished.stop_reason,
            unreadable=answer.unreadable,
        )
        return self._ask_driver("on_answer")

    async def _divert(self, diverted: CallDiversion) -> CheckedActions | None:
        """Perform what the protocol wants instead of a model call."""
        match diverted.instead:
            case SwitchTo(key=key, task=task, reason=reason):
                return await self._switch(SwitchFrame(key=key, task=task, reason=reason))
            case FinishNow(text=text):
                if text.strip():
                    self._add_message("assistant", text)
                return await self._finish(Finish(), text)
            case RefuseTurn(reason=reason):
                return await self._finish(Finish(status="failed", error=reason or "the protocol refuses this turn"))

    async def _system_prompt(self, tools: tuple[ToolSpec, ...]) -> str:
        """Build the prompt once per turn: while it stays the same, providers' caches hit."""
        if self._prompt is None:
            given, handle = self._agent.system_prompt, self._handle
            prompt = given if isinstance(given, str) else await given(handle.state.settings, tools)
            sections = (prompt, self._protocol.instructions(tools), self._additions)
            whole = "\n\n".join(each for each in sections if each)
            self._prompt = await run_agent_start_hook(self._agent.hooks, handle.state.session_id, whole)
        return self._prompt

    async def _switch(self, action: SwitchFrame) -> CheckedActions:
        if self._work.switch_frame(action):
            await self._protocol.prepare(self._work.frame, self._handle.conversation)
        was = self._view
        self._view = DriverView(
            output_schema=was.output_schema, memory=was.memory, prompt=was.prompt, frame=self._work.frame.key
        )
        return self._ask_driver("on_start")

    # --- tools and code -----------------------------------------------------------------------------------------------

    async def _tools(self) -> dict[str, Tool]:
        await self._folder.hold_current()
        tools = self._agent.tools_for(self._handle.state)
        for tool in self._protocol.bundle.tools:
            tools.setdefault(tool.spec.name, tool)
        return tools

    async def _run_tools(self) -> CheckedActions:
        answer = self._view.answer
        if answer is None or not answer.tool_calls or self._handle.state.head != answer.message_id:
            raise self._build_fault("the driver asked to run tools, but the model has called none")
        # A model can only call tools that it sees.
        tools = await self._tools() if self._protocol.bundle.native_tools else {}
        runner = ToolRunner(self._handle, tools, self._agent.tool_config)
        await runner.run(answer, self._view.unreadable)
        self._view = attrs.evolve(self._view, results=self._handle.state.find_message(self._handle.state.head))
        return self._ask_driver("on_results")

    async def _run_cell(self, action: ExecuteCode) -> CheckedActions:
        driver = self._protocol.bundle.driver
        if not isinstance(driver, CodeDriver):
            raise self._build_fault("the driver asked to run code, but has no on_code callback")
        self._view = attrs.evolve(self._view, cell=await self._work.run_cell(action, await self._tools()))
        return self._ask_driver("on_code")
