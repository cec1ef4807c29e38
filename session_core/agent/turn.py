"""The turn loop: the interpreter of a protocol (`session_core.protocols`).

The driver decides what comes next; everything that happens, happens here: models are asked, tools and code run,
messages of people delivered, limits kept, and the conversation is summarised before it outgrows the model.

Rules:
1. Between two steps, messages sent to steer the turn are read. When the driver wants to end, waiting follow-ups are
   read; only when there are none the turn ends, in the same step (`TurnDesk.finish_unless_more`).
2. Settings are read anew for each model call and each tool call: a change takes effect at the next one.
3. A limit ends the turn with an outcome that names it. So does a fault of the protocol.
4. Cancellation passes through; whoever started the turn closes what is open.
"""

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, assert_never

import attrs
import trio

from session_core import limits
from session_core.agent.active_tools import ActiveTools
from session_core.agent.auto_compaction import RoomMaker
from session_core.agent.before_model_call import BeforeCalls, has_a_word
from session_core.agent.bounds import over_steps
from session_core.agent.budget import LimitReached, spent_out
from session_core.agent.compaction_policy import COMPACT_AT as COMPACT_AT
from session_core.agent.compaction_policy import Summarising
from session_core.agent.direct_model_call import DirectCompletions
from session_core.agent.folder_settings import FolderUnusable, TurnFolder, tools_in
from session_core.agent.hooks import NO_HOOKS, Hooks, on_agent_start, on_message_end
from session_core.agent.model_call import Answered, Diverted, ModelCall, Models, ask_model, shown, withdraw
from session_core.agent.plugin_processes import TurnProcesses
from session_core.agent.protocol_work import ProtocolWork
from session_core.agent.streamed_answer import clean_text
from session_core.agent.tool_runner import ToolRunner, ToolSetting
from session_core.ids import MessageId, SessionId, new_id
from session_core.protocols.contexts import FinishNow, RefuseTurn, SwitchTo
from session_core.protocols.driver import (
    AskModel,
    Checkpoint,
    CheckpointKind,
    CodeDriver,
    Decided,
    DriverCallback,
    DriverView,
    ExecuteCode,
    Finish,
    LeadingOn,
    Remember,
    RunTools,
    SwitchFrame,
    Tell,
)
from session_core.protocols.faults import ExtensionRejected, ProtocolFault
from session_core.protocols.lifecycle import SessionProtocol
from session_core.protocols.structured import fitting
from session_core.session.prompts import newest_prompt
from session_core.session.state import SessionState
from session_core.session.turn_handle import TurnDesk
from session_core.tools.base import Tool
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonValue
from session_core.vocabulary.messages import Message, Role, TextPart
from session_core.vocabulary.sessions import DeliverAs, Settings, TurnStatus
from session_core.vocabulary.tools import ToolSpec

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
    """What every turn of a service shares: models, tools and hooks."""

    models: Models
    tools: Mapping[str, Tool]
    summarising: Summarising
    sources: tuple[ToolSource, ...] = ()
    system_prompt: str | MakePrompt = ""
    hooks: Hooks = NO_HOOKS
    setting: ToolSetting = attrs.field(factory=ToolSetting)
    active: ActiveTools = attrs.field(factory=ActiveTools)

    async def run_turn(self, desk: TurnDesk, protocol: SessionProtocol) -> None:
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
            await _Turn(self, desk, protocol).run()
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
        folder = self.setting.folders.at(state.settings.cwd) if self.setting.folders is not None else None
        if folder is not None:
            tools = tools_in(folder, tools)
        if state.settings.permission_tier == "read_only":
            tools = {name: tool for name, tool in tools.items() if tool.effects <= {"read"}}
        return tools


class _Turn:
    """One turn being driven; `_view` is what the driver knows of it."""

    def __init__(self, agent: Agent, desk: TurnDesk, protocol: SessionProtocol) -> None:
        self._agent = agent
        self._desk = desk
        self._protocol = protocol
        self._work = ProtocolWork(desk, protocol, agent.setting)
        self._folder = TurnFolder(agent.setting.folders, desk)
        self._room = RoomMaker(agent.summarising, desk)
        turn = desk.state.turn
        schema = turn.output_schema if turn is not None else None
        prompt = newest_prompt(desk.state)
        self._view = DriverView(output_schema=schema, frame=self._work.frame.key, prompt=prompt)
        self._processes = TurnProcesses(desk, agent.setting)
        self._before = BeforeCalls(
            desk=desk,
            models=agent.models,
            protocol=protocol,
            direct=DirectCompletions(desk, agent.models),
            processes=lambda: self._processes,
        )
        self._prompt: str | None = None
        self._additions = ""
        self._asked = 0
        self._checkpoints = 0

    async def run(self) -> None:
        """Do what the driver says until it has ended the turn."""
        async with self._processes:
            try:
                await self._begin()
                decided: Decided | None = self._start()
                while decided is not None:
                    decided = await self._perform(*decided)
            except (ProtocolFault, ExtensionRejected) as fault:
                await self._work.keep_after_all()
                self._desk.finish_unless_more("failed", error=shown(str(fault)))
            except FolderUnusable as problem:
                await self._work.keep_after_all()
                self._desk.finish_unless_more("failed", error=shown(f"nothing can run here: {problem.message}"))
            finally:
                self._folder.release()
                if self._desk.state.turn is not None:  # it was stopped, or has failed by a bug
                    await self._work.keep_after_all()  # noqa: ASYNC102 - it shields itself, for a while
                self._protocol.turn_ended(self._desk.state.head)

    async def _begin(self) -> None:
        """Let the protocol become what the session is, and look at what came with the message."""
        desk, protocol = self._desk, self._protocol
        await self._folder.follow()
        await protocol.ready(self._work.frame, desk.conversation)
        extension = desk.state.turn.extension if desk.state.turn is not None else None
        if extension is not None:
            self._additions = (await protocol.check_turn_extension(self._work.frame, extension)).instructions

    def _start(self) -> Decided:
        return self._decided("on_start")

    def _decided(self, callback: DriverCallback, *given: object, **named: object) -> Decided:
        if named.get("more"):
            self._view = attrs.evolve(self._view, prompt=newest_prompt(self._desk.state))
        return self._protocol.decide(callback, self._view, *given, **named)

    def _fault(self, reason: str) -> ProtocolFault:
        return ProtocolFault(self._protocol.record.name, "driver", reason)

    async def _perform(self, first: tuple[Tell | Remember, ...], last: LeadingOn) -> Decided | None:
        """Do what was asked for; returns what the driver asks for next, or None at the end of the turn."""
        tells = any(isinstance(action, Tell) for action in first)
        gives_up = isinstance(last, Finish) and last.status != "completed"
        if self._owes_results() and (tells or not (gives_up or isinstance(last, RunTools))):
            raise self._fault("the driver left tool calls without results")
        if tells or not gives_up:
            withdraw(self._desk, "it is not gone on with")
        self._checkpoints = self._checkpoints + 1 if isinstance(last, Checkpoint) else 0
        for action in first:
            if isinstance(action, Remember):
                self._view = attrs.evolve(self._view, memory=action.memory)
            else:
                self._say("user", action.text, source=self._protocol.record.name)
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
                    raise self._fault("the driver goes round in circles")
                more = self._desk.deliver_waiting(READ_AT[kind])
                return self._decided("on_checkpoint", kind, more=more)
            case Finish():
                return await self._finish(last)
            case _:
                assert_never(last)

    def _say(self, role: Role, text: str, source: str | None = None) -> None:
        desk = self._desk
        message = Message(
            message_id=MessageId(new_id("msg")),
            parent_id=desk.state.head,
            role=role,
            parts=(TextPart(text=clean_text(text[: limits.MAX_TEXT_CHARS])),),
            created_at=desk.now(),
            turn_id=desk.turn_id,
            source=source,
        )
        desk.record(ev.MessageAdded(message=message))

    def _owes_results(self) -> bool:
        """Whether the conversation ends with tool calls that have no results."""
        state = self._desk.state
        head = state.message(state.head) if state.head is not None else None
        return head is not None and head.role == "assistant" and bool(head.tool_calls)

    # --- ends ---------------------------------------------------------------------------------------------------------

    async def _finish(self, action: Finish, said: str | None = None) -> Decided | None:
        action = fitting(action, self._view, said)
        error = shown(action.error) if action.error is not None else None
        if await self._end(action.status, error=error, output=action.output):
            return None
        return self._decided("on_checkpoint", "before_completion", more=True)

    async def _end(self, status: TurnStatus, *, error: str | None = None, output: JsonValue = None) -> bool:
        """End the turn, with what code has left behind, or go on with messages that have come meanwhile."""
        capture, problem = await self._work.capture()
        if problem is not None:
            status, error, output = "failed", shown(problem), None
        self._work.keep(capture)
        ended = self._desk.finish_unless_more(status, error=error, output=output)
        await self._work.settle(capture)
        return ended

    # --- models -------------------------------------------------------------------------------------------------------

    async def _ask(self, action: AskModel) -> Decided | None:
        desk = self._desk
        if (reached := _over_limit(desk)) is None:
            await self._room.make_room()
            reached = _over_limit(desk)
        if reached is not None:
            await self._end("limit_reached", error=reached)
            return None
        if (problem := await self._protocol.probe()) is not None:
            await self._end("failed", error=shown(f"what the code has left behind cannot be kept: {problem}"))
            return None
        self._asked += 1
        if self._asked > limits.MAX_STEPS_PER_TURN:  # a call that never began is not counted as a step
            raise self._fault("the driver asks again and again")
        answer = await ask_model(await self._model_call(action))
        match answer:
            case LimitReached():
                await self._end("limit_reached", error=answer.reason)
                return None
            case Diverted():
                return await self._divert(answer)
            case Answered():
                return await self._answered(answer)
            case _:
                if answer.kind == "context_too_long" and await self._room.make_room(forced=True):
                    return (), action
                return self._decided("on_failure", answer)

    async def _model_call(self, action: AskModel) -> ModelCall:
        agent, bundle = self._agent, self._protocol.bundle
        there = tuple(tool.spec for tool in (await self._tools()).values())
        tools = there if action.with_tools and bundle.native_tools else ()
        return ModelCall(
            desk=self._desk,
            models=agent.models.at(self._desk.state.settings.cwd),
            hooks=agent.hooks,
            system=await self._system_prompt(there),
            tools=tools,
            output_schema=self._view.output_schema if bundle.native_tools else None,
            prose=self._protocol.prose,
            before=self._before.ask if has_a_word(self._protocol) else None,
        )

    async def _answered(self, answer: Answered) -> Decided:
        desk = self._desk
        self._room.answered()
        await on_message_end(self._agent.hooks, desk.state.session_id, answer.message)
        self._view = attrs.evolve(
            self._view,
            step=desk.state.turn.steps if desk.state.turn is not None else 0,
            answer=answer.message,
            stop_reason=answer.finished.stop_reason,
            unreadable=answer.unreadable,
        )
        return self._decided("on_answer")

    async def _divert(self, diverted: Diverted) -> Decided | None:
        """Do what the protocol wants instead of a model call."""
        match diverted.instead:
            case SwitchTo(key=key, task=task, reason=reason):
                return await self._switch(SwitchFrame(key=key, task=task, reason=reason))
            case FinishNow(text=text):
                if text.strip():
                    self._say("assistant", text)
                return await self._finish(Finish(), text)
            case RefuseTurn(reason=reason):
                return await self._finish(Finish(status="failed", error=reason or "the protocol refuses this turn"))

    async def _system_prompt(self, tools: tuple[ToolSpec, ...]) -> str:
        """Make the prompt once per turn: as long as it stays the same, providers need not read it again."""
        if self._prompt is None:
            given, desk = self._agent.system_prompt, self._desk
            prompt = given if isinstance(given, str) else await given(desk.state.settings, tools)
            told = (prompt, self._protocol.instructions(tools), self._additions)
            whole = "\n\n".join(each for each in told if each)
            self._prompt = await on_agent_start(self._agent.hooks, desk.state.session_id, whole)
        return self._prompt

    async def _switch(self, action: SwitchFrame) -> Decided:
        if self._work.switch_frame(action):
            await self._protocol.ready(self._work.frame, self._desk.conversation)
        was = self._view
        self._view = DriverView(
            output_schema=was.output_schema, memory=was.memory, prompt=was.prompt, frame=self._work.frame.key
        )
        return self._start()

    # --- tools and code -----------------------------------------------------------------------------------------------

    async def _tools(self) -> dict[str, Tool]:
        await self._folder.follow()
        tools = self._agent.tools_for(self._desk.state)
        for tool in self._protocol.bundle.tools:
            tools.setdefault(tool.spec.name, tool)
        return tools

    async def _run_tools(self) -> Decided:
        answer = self._view.answer
        if answer is None or not answer.tool_calls or self._desk.state.head != answer.message_id:
            raise self._fault("the driver wants tools run that nobody has called")
        # What no model is shown, none can call.
        tools = await self._tools() if self._protocol.bundle.native_tools else {}
        runner = ToolRunner(self._desk, tools, self._agent.setting)
        await runner.run(answer, self._view.unreadable)
        self._view = attrs.evolve(self._view, results=self._desk.state.message(self._desk.state.head))
        return self._decided("on_results")

    async def _run_cell(self, action: ExecuteCode) -> Decided:
        driver = self._protocol.bundle.driver
        if not isinstance(driver, CodeDriver):
            raise self._fault("the driver wants code run, and has no way to hear what became of it")
        self._view = attrs.evolve(self._view, cell=await self._work.run_cell(action, await self._tools()))
        return self._decided("on_code")


def _over_limit(desk: TurnDesk) -> str | None:
    """Say which limit the running turn has reached, if any."""
    return over_steps(desk.state) or spent_out(desk)
