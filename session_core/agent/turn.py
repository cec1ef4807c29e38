"""The turn loop: the interpreter of a driver (`session_core.protocols`).

The driver decides what comes next; everything that happens, happens here: models are asked, tools run, messages of
people delivered, limits kept, and the conversation is summarised before it outgrows the model.

Rules:
1. Between two steps, messages sent to steer the turn are read. When the driver wants to end, waiting follow-ups are
   read; only when there are none the turn ends, in the same step (`TurnDesk.finish_unless_more`).
2. Settings are read anew for each model call and each tool call: a change takes effect at the next one.
3. A limit ends the turn with an outcome that names it.
4. Cancellation passes through; whoever started the turn closes what is open.
"""

import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, assert_never

import attrs
import trio

from session_core import limits
from session_core.agent.active_tools import ActiveTools
from session_core.agent.answer import clean_text
from session_core.agent.bounds import over_steps
from session_core.agent.budget import LimitReached, spent_out
from session_core.agent.compaction import Compactor, Summary, SummaryFailed, summarise_at, summary_message
from session_core.agent.faults import FOREIGN_FAULTS, passes_through
from session_core.agent.hooks import NO_HOOKS, Hooks, may_compact, on_agent_start, on_message_end
from session_core.agent.model_call import Answered, ModelCall, Models, ask_model, shown, withdraw
from session_core.agent.tool_runner import ToolRunner, ToolSetting
from session_core.ids import MessageId, SessionId, new_id
from session_core.protocols.driver import (
    Actions,
    AskModel,
    Checkpoint,
    CheckpointKind,
    Decided,
    Driver,
    DriverFault,
    DriverView,
    Finish,
    LeadingOn,
    Remember,
    RunTools,
    Tell,
    checked_actions,
)
from session_core.protocols.standard import NativeToolDriver
from session_core.session.desk import TurnDesk
from session_core.session.state import SessionState
from session_core.tools.base import Tool
from session_core.vocabulary import events as ev
from session_core.vocabulary.messages import Message, TextPart
from session_core.vocabulary.sessions import DeliverAs, Settings, TurnStatus
from session_core.vocabulary.tools import ToolSpec

log = logging.getLogger(__name__)

COMPACT_AT = 0.8
"""How full a model's context may be before the conversation is summarised."""

MOST_CHECKPOINTS = 16
"""Checkpoints in a row after which a driver is taken to go round in circles."""

READ_AT: dict[CheckpointKind, tuple[DeliverAs, ...]] = {
    "after_work": ("steer",),
    "before_completion": ("steer", "follow_up"),
}
"""Which waiting messages are read at a checkpoint."""

MakePrompt = Callable[[Settings, tuple[ToolSpec, ...]], Awaitable[str]]
"""Makes what a model is told first; asked once per turn."""


class ToolSource(Protocol):
    """Tools that come and go while the service runs."""

    def tools(self, session_id: SessionId) -> Sequence[Tool]:
        """Return those that a session has right now."""
        ...


@attrs.frozen(kw_only=True)
class Agent:
    """What every turn of a service shares: models, tools, hooks, and the driver."""

    models: Models
    tools: Mapping[str, Tool]
    sources: tuple[ToolSource, ...] = ()
    system_prompt: str | MakePrompt = ""
    hooks: Hooks = NO_HOOKS
    setting: ToolSetting = attrs.field(factory=ToolSetting)
    driver: Driver = attrs.field(factory=NativeToolDriver)
    compactor: Compactor | None = None
    compact_at: float = COMPACT_AT
    active: ActiveTools = attrs.field(factory=ActiveTools)

    async def run_turn(self, desk: TurnDesk) -> None:
        """Work until the turn has ended and is recorded as ended.

        Cancellation: leaves the turn open; the caller closes it.
        """
        began = trio.current_time()
        with trio.CancelScope() as clock:

            def look_at_limits() -> None:
                time_ms = desk.state.settings.limits.time_ms
                clock.deadline = math.inf if time_ms is None else began + time_ms / 1000
                desk.work.tell_room_made()

            look_at_limits()
            desk.work.on_limits_changed = look_at_limits
            await _Turn(self, desk).run()
        if clock.cancelled_caught:
            seconds = (desk.state.settings.limits.time_ms or 0) / 1000
            desk.finish_unless_more("limit_reached", error=f"stopped after {seconds:g} seconds, the time it had")

    def tools_for(self, state: SessionState) -> dict[str, Tool]:
        """Return the tools that a session's model is shown now."""
        return self.active.among(state.session_id, self.allowed_tools(state))

    def allowed_tools(self, state: SessionState) -> dict[str, Tool]:
        """Return the tools that a session may use at all; in a read-only one, those that change nothing."""
        tools = dict(self.tools)
        for source in self.sources:
            for tool in source.tools(state.session_id):
                tools.setdefault(tool.spec.name, tool)
        if state.settings.permission_tier == "read_only":
            tools = {name: tool for name, tool in tools.items() if tool.effects <= {"read"}}
        return tools

    async def summarise(self, desk: TurnDesk, *, automatic: bool) -> Summary:
        """Make a summary of the conversation and count what that uses; raises `SummaryFailed`.

        The caller puts it in place.
        """
        if (no := await may_compact(self.hooks, desk.state.session_id, automatic=automatic)) is not None:
            raise SummaryFailed(f"an extension does not want it: {no.reason}")
        return await summarise_at(desk, self.models, compactor=self.compactor)


class _Turn:
    """One turn being driven; `_view` is what the driver knows of it."""

    def __init__(self, agent: Agent, desk: TurnDesk) -> None:
        self._agent = agent
        self._desk = desk
        turn = desk.state.turn
        self._view = DriverView(output_schema=turn.output_schema if turn is not None else None)
        self._prompt: str | None = None
        self._compacted = False
        self._asked = 0
        self._checkpoints = 0

    async def run(self) -> None:
        """Do what the driver says until it has ended the turn."""
        try:
            decided: Decided | None = self._decided(lambda driver, view: driver.on_start(view))
            while decided is not None:
                decided = await self._perform(*decided)
        except DriverFault as fault:
            self._desk.finish_unless_more("failed", error=shown(f"the protocol failed: {fault}"))

    def _decided(self, decide: Callable[[Driver, DriverView], Actions]) -> Decided:
        """Let the driver decide; whatever it raises is a fault of its own."""
        try:
            return checked_actions(decide(self._agent.driver, self._view))
        except FOREIGN_FAULTS as bug:
            if passes_through(bug) or isinstance(bug, DriverFault):
                raise
            log.exception("a driver failed")
            raise DriverFault(f"{type(bug).__name__}: {bug}") from bug

    async def _perform(self, first: tuple[Tell | Remember, ...], last: LeadingOn) -> Decided | None:
        """Do what was asked for; returns what the driver asks for next, or None at the end of the turn."""
        tells = any(isinstance(action, Tell) for action in first)
        gives_up = isinstance(last, Finish) and last.status != "completed"
        if self._owes_results() and (tells or not (gives_up or isinstance(last, RunTools))):
            raise DriverFault("the driver left tool calls without results")
        if tells or not gives_up:
            withdraw(self._desk, "it is not gone on with")
        self._checkpoints = self._checkpoints + 1 if isinstance(last, Checkpoint) else 0
        for action in first:
            if isinstance(action, Remember):
                self._view = attrs.evolve(self._view, memory=action.memory)
            else:
                self._tell(action)
        match last:
            case AskModel():
                return await self._ask(last)
            case RunTools():
                return await self._run_tools()
            case Checkpoint(kind=kind):
                if self._checkpoints > MOST_CHECKPOINTS:
                    raise DriverFault("the driver goes round in circles")
                more = self._desk.deliver_waiting(READ_AT[kind])
                return self._decided(lambda driver, view: driver.on_checkpoint(view, kind, more=more))
            case Finish():
                return self._finish(last)
            case _:
                assert_never(last)

    def _tell(self, action: Tell) -> None:
        desk = self._desk
        message = Message(
            message_id=MessageId(new_id("msg")),
            parent_id=desk.state.head,
            role="user",
            parts=(TextPart(text=clean_text(action.text[: limits.MAX_TEXT_CHARS])),),
            created_at=desk.now(),
            turn_id=desk.turn_id,
        )
        desk.record(ev.MessageAdded(message=message))

    def _finish(self, action: Finish) -> Decided | None:
        error = shown(action.error) if action.error is not None else None
        if self._desk.finish_unless_more(action.status, error=error, output=action.output):
            return None
        return self._decided(lambda driver, view: driver.on_checkpoint(view, "before_completion", more=True))

    def _owes_results(self) -> bool:
        """Whether the conversation ends with tool calls that have no results."""
        state = self._desk.state
        head = state.message(state.head) if state.head is not None else None
        return head is not None and head.role == "assistant" and bool(head.tool_calls)

    # --- models -------------------------------------------------------------------------------------------------------

    async def _ask(self, action: AskModel) -> Decided | None:
        desk, agent = self._desk, self._agent
        if (reached := _over_limit(desk)) is None:
            await self._make_room()
            reached = _over_limit(desk)
        if reached is not None:
            desk.finish_unless_more("limit_reached", error=reached)
            return None
        self._asked += 1
        if self._asked > limits.MAX_STEPS_PER_TURN:  # a call that never began is not counted as a step
            raise DriverFault("the driver asks again and again")
        tools = tuple(tool.spec for tool in agent.tools_for(desk.state).values()) if action.with_tools else ()
        call = ModelCall(
            desk=desk,
            models=agent.models,
            hooks=agent.hooks,
            system=await self._system_prompt(tools),
            tools=tools,
            output_schema=self._view.output_schema,
        )
        answer = await ask_model(call)
        if isinstance(answer, LimitReached):
            desk.finish_unless_more("limit_reached", error=answer.reason)
            return None
        if not isinstance(answer, Answered):
            if answer.kind == "context_too_long" and await self._make_room(forced=True):
                return (), action
            return self._decided(lambda driver, view: driver.on_failure(view, answer))
        self._compacted = self._compacted and self._is_full()  # another summary, unless the last one was of no help
        await on_message_end(agent.hooks, desk.state.session_id, answer.message)
        self._view = attrs.evolve(
            self._view,
            step=desk.state.turn.steps if desk.state.turn is not None else 0,
            answer=answer.message,
            stop_reason=answer.finished.stop_reason,
            unreadable=answer.unreadable,
        )
        return self._decided(lambda driver, view: driver.on_answer(view))

    async def _system_prompt(self, tools: tuple[ToolSpec, ...]) -> str:
        """Make the prompt once per turn: as long as it stays the same, providers need not read it again."""
        if self._prompt is None:
            given, desk = self._agent.system_prompt, self._desk
            prompt = given if isinstance(given, str) else await given(desk.state.settings, tools)
            self._prompt = await on_agent_start(self._agent.hooks, desk.state.session_id, prompt)
        return self._prompt

    async def _make_room(self, *, forced: bool = False) -> bool:
        """Summarise the conversation when it fills the model's context; returns whether that was done.

        Failing that, the turn goes on with the conversation as it is.
        """
        desk, agent = self._desk, self._agent
        if self._compacted or not (forced or self._is_full()):
            return False
        if not any(message.role == "assistant" for message in desk.state.transcript):
            return False
        withdraw(desk, "context_too_long")
        self._compacted = True
        desk.record(ev.CompactionStarted())
        failed: tuple[TurnStatus, str | None] | None = ("stopped", None)
        try:
            summary = await agent.summarise(desk, automatic=True)
            asked = next((each.text for each in reversed(desk.state.transcript) if each.role == "user"), "")
            message = summary_message(summary, desk.state.head, desk.now(), asked=asked)
            desk.record(ev.CompactionFinished(status="completed", summary=message))
            failed = None
        except FOREIGN_FAULTS as failure:
            if passes_through(failure):
                raise
            if not isinstance(failure, SummaryFailed):
                log.exception("the conversation could not be summarised")
            failed = ("failed", shown(f"the summary could not be made: {failure}"))
        finally:
            if failed is not None:
                desk.record(ev.CompactionFinished(status=failed[0], error=failed[1]))
        return failed is None

    def _is_full(self) -> bool:
        state = self._desk.state
        info = self._agent.models.infos.get(state.settings.model)
        return info is not None and state.context_tokens >= self._agent.compact_at * info.context_tokens

    # --- tools --------------------------------------------------------------------------------------------------------

    async def _run_tools(self) -> Decided:
        answer = self._view.answer
        if answer is None or not answer.tool_calls or self._desk.state.head != answer.message_id:
            raise DriverFault("the driver wants tools run that nobody has called")
        runner = ToolRunner(self._desk, self._agent.tools_for(self._desk.state), self._agent.setting)
        await runner.run(answer, self._view.unreadable)
        self._view = attrs.evolve(self._view, results=self._desk.state.message(self._desk.state.head))
        return self._decided(lambda driver, view: driver.on_results(view))


def _over_limit(desk: TurnDesk) -> str | None:
    """Say which limit the running turn has reached, if any."""
    return over_steps(desk.state) or spent_out(desk)
