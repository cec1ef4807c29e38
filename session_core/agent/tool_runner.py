"""Runs the tool calls of one step.

Rules:
1. A call is prepared after earlier calls that change something have ended, so it is shown as it will run: looked up,
   passed to the hooks, checked against its schema, judged by the permissions, and approved where those require it.
   A call that cannot run gets its result at once.
2. Neighbouring calls that only read run concurrently; a call with other effects runs alone, in its place. Example: of
   read, read, write, read, the first two run together, then the write, then the last read.
3. A call's start is durable before it runs, and every call gets exactly one result. Results join the conversation
   together, in the order of the calls.
4. Only what a person has approved runs: if a call would now do something else, it is refused.
5. A call is judged and run in the same folder: if the session moves to another meanwhile, it is refused.
6. Whatever a tool does, raising included, ends as a result; only cancellation passes through.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence

import attrs
import trio

from session_core import limits
from session_core.agent.call_preview import build_preview
from session_core.agent.folder_settings import NO_FOLDER_FILES, FolderSettingsSource, FolderUnusable
from session_core.agent.hooks import NO_HOOKS, Blocked, Hooks, run_tool_call_hook, run_tool_result_hook
from session_core.agent.tool_results import Reporter, build_result, check_output, limit_result
from session_core.foreign_faults import FOREIGN_FAULTS, must_propagate
from session_core.ids import CallId, MessageId, new_id
from session_core.permissions.call_facts import fingerprint_call, judge_call
from session_core.permissions.decision import CallerKind, Grants
from session_core.permissions.path_filter import build_path_filter
from session_core.permissions.rules import PermissionRule
from session_core.permissions.standing_grants import StandingGrants
from session_core.session.turn_handle import ApprovalPrompt, TurnHandle
from session_core.tools.arguments import check_arguments
from session_core.tools.background_jobs import NOTING_S
from session_core.tools.base import (
    NoHost,
    Tool,
    ToolContext,
    ToolFailed,
    ToolHost,
    ToolOutput,
)
from session_core.tools.output_files import FindOutputs, no_outputs
from session_core.vocabulary import events as ev
from session_core.vocabulary.added_messages import shorten_result
from session_core.vocabulary.messages import Message, Refusal, ToolCallPart, ToolResultPart, ToolStatus
from session_core.vocabulary.sessions import ExtraRight
from session_core.vocabulary.tools import present_name
from session_core.wire.codec import encode

log = logging.getLogger(__name__)

_REMARK_BYTES = 1_024  # what a shortened result takes besides its text

MakeHost = Callable[[TurnHandle, CallId], ToolHost]


@attrs.frozen
class _PreparedCall:
    call: ToolCallPart
    tool: Tool
    effects: frozenset[str]
    cwd: str
    """The folder whose rules have admitted the call."""
    agreed: str | None = None
    """The fingerprint of what a person has approved."""
    rights: frozenset[ExtraRight] = frozenset()
    """What they have approved beyond the sandbox."""
    paths: tuple[str, ...] = ()
    """The files that the call names."""
    state: str | None = None
    """The state of what it changes at the time of the approval."""

    @property
    def only_reads(self) -> bool:
        return self.effects <= {"read"}


@attrs.frozen
class _RejectedCall:
    """Why a call does not run; the model reads the text. Without a refusal the call was wrong."""

    text: str
    refusal: Refusal | None = None

    def build_result(self, call: ToolCallPart) -> ToolResultPart:
        status: ToolStatus = "error" if self.refusal is None else "denied"
        return build_result(call, status, self.text, refusal=self.refusal)


def _describe_block(blocked: Blocked) -> _RejectedCall:
    refusal = Refusal(by="extension", reason=blocked.reason)
    return _RejectedCall(f"Blocked by an extension: {blocked.reason}", refusal)


@attrs.frozen(kw_only=True)
class ToolConfig:
    """What all tool calls of a service share besides the tools; each folder may add its own rules."""

    rules: Sequence[PermissionRule] = ()
    folders: FolderSettingsSource = NO_FOLDER_FILES
    hooks: Hooks = NO_HOOKS
    standing: StandingGrants = attrs.field(factory=StandingGrants)
    find_outputs: FindOutputs = no_outputs
    hidden: tuple[str, ...] = ()
    make_host: MakeHost = lambda _handle, _call_id: NoHost()

    async def load_rules(self, cwd: str) -> Sequence[PermissionRule]:
        """Return the current rules for calls in a folder.

        Raises:
            FolderUnusable: The settings of the folder are wrong, so nothing may run there.
        """
        folder = await self.folders.load(cwd)
        return tuple(dict.fromkeys((*self.rules, *folder.rules)))

    def build_context(self, handle: TurnHandle, call_id: CallId, report: Callable[[str], None]) -> ToolContext:
        """Return the context in which a call of a turn runs now."""
        settings, session_id = handle.state.settings, handle.state.session_id
        return ToolContext(
            call_id=call_id,
            cwd=settings.cwd,
            sandbox=settings.sandbox,
            report=report,
            session_id=session_id,
            turn_id=handle.turn_id,
            outputs=self.find_outputs(session_id),
            hidden=self.hidden,
            host=self.make_host(handle, call_id),
        )


class ToolRunner:
    """Runs the tool calls of one turn."""

    def __init__(self, handle: TurnHandle, tools: Mapping[str, Tool], config: ToolConfig | None = None) -> None:
        self._handle = handle
        self._tools = tools
        self._config = config or ToolConfig()
        self._argument_bytes = self._result_bytes = 0  # of the calls of one message, or of one cell

    async def run(self, message: Message, unreadable: Collection[CallId]) -> None:
        """Run all calls of a message and commit their results.

        Cancellation: running tools are cancelled; calls without a result get one when the turn's work is closed.
        """
        reading: list[_PreparedCall] = []
        for call in message.tool_calls:
            prepared = await self._prepare(call, unreadable)
            if isinstance(prepared, _RejectedCall):
                self._record_result(prepared.build_result(call))
            elif prepared.only_reads:
                reading.append(prepared)
            else:
                await self._run_group(reading)
                await self._run_group([prepared])
                reading = []
        await self._run_group(reading)
        self._handle.record(
            ev.ToolResultsCommitted(
                message_id=MessageId(new_id("msg")),
                parent_id=message.message_id,
                turn_id=self._handle.turn_id,
                call_ids=tuple(call.call_id for call in message.tool_calls),
            )
        )

    async def run_for_person(self, call: ToolCallPart) -> None:
        """Run a call that a person has made; its result stays with the live call, nothing is committed.

        Cancellation: the tool is cancelled, and the call is left without a result.
        """
        tool = self._tools[call.name]
        prepared = await self._judge(tool, call, caller="person")
        if isinstance(prepared, _RejectedCall):
            self._record_result(prepared.build_result(call))
        else:
            await self._run_group([prepared])

    async def run_inner(self, call: ToolCallPart) -> ToolResultPart:
        """Run a call made by the model's code, and return its result, which stays with the live call too.

        Cancellation: the tool is cancelled, and the call is left without a result.
        """
        prepared = await self._prepare(call, ())
        if isinstance(prepared, _RejectedCall):
            return self._record_result(prepared.build_result(call))
        await self._run_group([prepared])
        live = next(each for each in self._handle.state.tools if each.call_id == call.call_id)
        assert live.result is not None
        return live.result

    async def check_permission(self, tool: Tool, call: ToolCallPart) -> ToolResultPart | None:
        """Check a call that other code will run, and ask for approval if needed.

        Returns the result to record if the call must not run; None if it may.

        Cancellation: nothing has been approved.
        """
        arguments = await run_tool_call_hook(self._config.hooks, self._handle.state.session_id, call)
        prepared: _PreparedCall | _RejectedCall
        if isinstance(arguments, Blocked):
            prepared = _describe_block(arguments)
        elif arguments != call.arguments:
            text = "An extension wants something else to run; this runs as it is or not at all."
            prepared = _RejectedCall(text, Refusal(by="extension", reason="it wants something else to run"))
        else:
            prepared = await self._judge(tool, call)
        return prepared.build_result(call) if isinstance(prepared, _RejectedCall) else None

    # --- preparing ----------------------------------------------------------------------------------------------------

    async def _prepare(self, call: ToolCallPart, unreadable: Collection[CallId]) -> _PreparedCall | _RejectedCall:
        # A model repeats the names in its conversation, also those that tools had long ago.
        call = attrs.evolve(call, name=present_name(call.name, self._tools))
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(sorted(self._tools)) or "none"
            return _RejectedCall(f"There is no tool called {call.name!r}. Tools: {known}.")
        if call.call_id in unreadable:
            return _RejectedCall("The arguments were not a JSON object; call the tool again with valid JSON.")
        arguments = await run_tool_call_hook(self._config.hooks, self._handle.state.session_id, call)
        if isinstance(arguments, Blocked):
            return _describe_block(arguments)
        call = attrs.evolve(call, arguments=arguments)
        size = len(encode(arguments))
        if self._argument_bytes + size > limits.MAX_STEP_ARGUMENTS_BYTES:
            return _RejectedCall("The arguments of these calls are too large together; make fewer calls at once.")
        self._argument_bytes += size
        if (fault := check_arguments(tool.spec, arguments)) is not None:
            return _RejectedCall(f"The call could not be made: {fault}.")
        return await self._judge(tool, call)

    async def _load_rules(self, cwd: str) -> Sequence[PermissionRule]:
        try:
            return await self._config.load_rules(cwd)
        except FolderUnusable as problem:
            raise ToolFailed(f"Nothing can run in this folder: {problem.message}") from problem

    async def _judge(
        self, tool: Tool, call: ToolCallPart, *, caller: CallerKind = "model"
    ) -> _PreparedCall | _RejectedCall:
        cwd = self._handle.state.settings.cwd
        try:
            rules = await self._load_rules(cwd)
            preview = await build_preview(tool, call, self._build_context(call))
            self._check_same_folder(cwd)
        except ToolFailed as failure:
            return _RejectedCall(str(failure) or "The tool failed.")
        judged = judge_call(
            tool,
            call,
            preview,
            self._handle.state.settings,
            rules=rules,
            grants=Grants(session=self._handle.grants, standing=self._config.standing),
            caller=caller,
        )
        facts, verdict = judged.facts, judged.verdict
        fingerprint = judged.call.fingerprint
        ready = _PreparedCall(call, tool, facts.effects, cwd, paths=preview.paths)
        if verdict.decision == "deny":
            refusal = Refusal(by=verdict.by, reason=verdict.reason)
            return _RejectedCall(f"This call was not allowed: {verdict.reason}. Do not try it again.", refusal)
        if verdict.decision == "ask":
            await trio.lowlevel.checkpoint_if_cancelled()  # a cancelled call asks no person
            approval_request = ApprovalPrompt(
                call=call,
                summary=preview.summary,
                displayed_text=preview.displayed_text,
                fingerprint=fingerprint,
                reason=verdict.reason,
                grant=judged.call.grant,
                rights=preview.rights,
            )
            decision = await self._handle.ask_approval(approval_request)
            if isinstance(decision, Refusal):
                why = f" {decision.explanation}" if decision.reason else ""
                return _RejectedCall(f"This call was not allowed. Do not try it again unless asked to.{why}", decision)
            if decision == "allow_always":
                await self._config.standing.add(fingerprint, tool=call.name, summary=preview.summary)
        elif facts.must_ask is None:
            return ready
        return attrs.evolve(ready, agreed=fingerprint, rights=facts.rights, state=preview.state)

    def _check_same_folder(self, cwd: str) -> None:
        if self._handle.state.settings.cwd != cwd:
            raise ToolFailed(
                "Something has changed meanwhile: the session works in another folder now. This call was not run; look "
                "again and make a new call."
            )

    def _build_context(self, call: ToolCallPart, *, rights: frozenset[ExtraRight] = frozenset()) -> ToolContext:
        reporter = Reporter(self._handle, call.call_id)
        context = self._config.build_context(self._handle, call.call_id, reporter)
        return attrs.evolve(context, progress=reporter.tell_progress, rights=rights)

    def _record_result(self, result: ToolResultPart) -> ToolResultPart:
        """Record a result, shortened if the others have left no room for it; returns what was recorded."""
        room = limits.MAX_STEP_RESULTS_BYTES - self._result_bytes
        if (size := len(encode(result))) > room:
            shorter = shorten_result(result, max(0, room - _REMARK_BYTES) // 6)
            if (shorter_size := len(encode(shorter))) < size:  # else the remark would take more than what it replaces
                result, size = shorter, shorter_size
        self._result_bytes += size
        self._handle.record(ev.ToolCallFinished(result=result))
        return result

    # --- running ------------------------------------------------------------------------------------------------------

    async def _run_group(self, group: Sequence[_PreparedCall]) -> None:
        if not group:
            return
        await trio.lowlevel.checkpoint_if_cancelled()  # nothing starts after a stop
        for ready in group:
            call = ready.call
            self._handle.record(ev.ToolCallStarted(call_id=call.call_id, name=call.name, arguments=call.arguments))
        await self._handle.wait_until_durable()
        limiter = trio.CapacityLimiter(limits.MAX_TOOLS_AT_ONCE)
        async with trio.open_nursery() as nursery:
            for ready in group:
                nursery.start_soon(self._run_one, ready, limiter)

    async def _run_one(self, ready: _PreparedCall, limiter: trio.CapacityLimiter) -> None:
        call = ready.call
        async with limiter:
            try:
                context = await self._build_run_context(ready)
                await self._check_agreed(ready)
                output = await _run_undoable(ready, context)
                check_output(output)
                result = build_result(call, "success", output.text, output)
            except ToolFailed as failure:
                result = build_result(call, "error", str(failure) or "The tool failed.")
                result = attrs.evolve(result, details=failure.details)
            except FOREIGN_FAULTS as bug:
                if must_propagate(bug):
                    raise
                log.exception("tool %s failed unexpectedly", call.name)
                result = build_result(call, "error", f"The tool failed unexpectedly: {type(bug).__name__}: {bug}")
            result = await run_tool_result_hook(self._config.hooks, self._handle.state.session_id, call, result)
            self._record_result(limit_result(result))

    async def _build_run_context(self, ready: _PreparedCall) -> ToolContext:
        rules = await self._load_rules(ready.cwd)
        self._check_same_folder(ready.cwd)
        return attrs.evolve(
            self._build_context(ready.call, rights=ready.rights),
            approved_state=ready.state,
            path_filter=build_path_filter(rules, ready.call.name, ready.paths),
        )

    async def _check_agreed(self, ready: _PreparedCall) -> None:
        """Check that the call would still do what a person has approved."""
        if ready.agreed is not None:
            now = await build_preview(ready.tool, ready.call, self._build_context(ready.call))
            if fingerprint_call(ready.call, now, self._handle.state.settings.cwd) != ready.agreed:
                raise ToolFailed(
                    "Something has changed since this call was allowed, so it would not do what was shown then. It was "
                    "not run; look again and make a new call."
                )


async def _run_undoable(ready: _PreparedCall, context: ToolContext) -> ToolOutput:
    """Run a call; its changes can be undone, however it ends."""
    if ready.only_reads:
        return await ready.tool.run(ready.call.arguments, context)
    if "execute" in ready.effects:
        await context.host.before_command()
    try:
        return await ready.tool.run(ready.call.arguments, context)
    finally:
        with trio.move_on_after(NOTING_S, shield=True):
            await context.host.after_call()
