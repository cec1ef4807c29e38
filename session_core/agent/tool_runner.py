"""Running the tool calls of one step.

Rules:
1. Calls are prepared in order: looked up, and asked for where the permission tier says so. What cannot run gets its
   result at once.
2. Neighbouring calls that only read run side by side; a call with other effects runs alone, in its place.
3. A call's start is durable before it runs, and every call gets exactly one result. Results join the conversation
   together, in the order of the calls.
4. Whatever a tool does, raise included, ends as a result; only cancellation passes through.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence

import attrs
import trio

from session_core import limits
from session_core.agent.answer import clean_text
from session_core.agent.faults import FOREIGN_FAULTS, passes_through
from session_core.agent.permissions import needs_approval
from session_core.ids import CallId, MessageId, new_id
from session_core.session.desk import TurnDesk
from session_core.tools.base import Tool, ToolContext, ToolFailed, ToolOutput
from session_core.vocabulary import events as ev
from session_core.vocabulary.checks import check_for, is_base64
from session_core.vocabulary.messages import Message, ToolCallPart, ToolResultPart, ToolStatus
from session_core.wire.codec import encode

log = logging.getLogger(__name__)


@attrs.frozen
class _Ready:
    call: ToolCallPart
    tool: Tool

    @property
    def only_reads(self) -> bool:
        return self.tool.effects <= {"read"}


class ToolRunner:
    """Runs tool calls at one turn's desk."""

    def __init__(self, desk: TurnDesk, tools: Mapping[str, Tool]) -> None:
        self._desk = desk
        self._tools = tools

    async def run(self, message: Message, malformed: set[CallId]) -> None:
        """Run all calls of a message and commit their results.

        Cancellation: running tools are cancelled; calls without a result get one when the turn's work is closed.
        """
        ready: list[_Ready] = []
        for call in message.tool_calls:
            tool = await self._prepare(call, malformed)
            if tool is not None:
                ready.append(_Ready(call, tool))
        for group in in_groups(ready):
            await trio.lowlevel.checkpoint_if_cancelled()  # nothing starts after a stop
            await self._run_group(group)
        self._desk.record(
            ev.ToolResultsCommitted(
                message_id=MessageId(new_id("msg")),
                parent_id=message.message_id,
                turn_id=self._desk.turn_id,
                call_ids=tuple(call.call_id for call in message.tool_calls),
            )
        )

    async def _prepare(self, call: ToolCallPart, malformed: set[CallId]) -> Tool | None:
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(sorted(self._tools)) or "none"
            self._finish(call, "error", f"There is no tool called {call.name!r}. Tools: {known}.")
            return None
        if call.call_id in malformed:
            self._finish(call, "error", "The arguments were not a JSON object; call the tool again with valid JSON.")
            return None
        state = self._desk.state
        if needs_approval(state.settings.permission_tier, tool.effects, granted=call.name in state.grants):
            await trio.lowlevel.checkpoint_if_cancelled()  # and nobody is asked
            decision = await self._desk.ask_approval(call, f"{call.name} ({', '.join(sorted(tool.effects))})")
            if decision == "deny":
                self._finish(call, "denied", "This call was not allowed. Do not try it again unless asked to.")
                return None
        return tool

    async def _run_group(self, group: Sequence[_Ready]) -> None:
        for ready in group:
            call = ready.call
            self._desk.record(ev.ToolCallStarted(call_id=call.call_id, name=call.name, arguments=call.arguments))
        await self._desk.until_durable()
        limiter = trio.CapacityLimiter(limits.MAX_TOOLS_AT_ONCE)
        async with trio.open_nursery() as nursery:
            for ready in group:
                nursery.start_soon(self._run_one, ready, limiter)

    async def _run_one(self, ready: _Ready, limiter: trio.CapacityLimiter) -> None:
        call, settings = ready.call, self._desk.state.settings
        context = ToolContext(
            call_id=call.call_id, cwd=settings.cwd, sandbox=settings.sandbox, report=self._reporter(call.call_id)
        )
        async with limiter:
            try:
                output = await ready.tool.run(call.arguments, context)
                check_output(output)
                self._finish(call, "success", output.text, output)
            except ToolFailed as failure:
                self._finish(call, "error", str(failure) or "The tool failed.")
            except FOREIGN_FAULTS as bug:
                if passes_through(bug):
                    raise
                log.exception("tool %s failed unexpectedly", call.name)
                self._finish(call, "error", f"The tool failed unexpectedly: {type(bug).__name__}: {bug}")

    def _reporter(self, call_id: CallId) -> "_Reporter":
        return _Reporter(self._desk, call_id)

    def _finish(self, call: ToolCallPart, status: ToolStatus, text: str, output: ToolOutput | None = None) -> None:
        result = ToolResultPart(
            call_id=call.call_id,
            name=call.name,
            status=status,
            text=shorten(clean_text(text)),
            images=output.images if output else (),
            details=output.details if output else None,
        )
        self._desk.record(ev.ToolCallFinished(result=result))


@attrs.frozen
class _Reporter:
    """Shows a running tool's output; what comes after its result is of no interest any more."""

    desk: TurnDesk
    call_id: CallId

    def __call__(self, text: str) -> None:
        if not trio.lowlevel.in_trio_task():
            msg = "report was called from another thread: use trio.from_thread.run_sync(context.report, text) there"
            raise RuntimeError(msg)
        live = next((tool for tool in self.desk.state.tools if tool.call_id == self.call_id), None)
        if text and live is not None and live.result is None:
            self.desk.record(
                ev.ToolOutputDelta(call_id=self.call_id, text=clean_text(text[-limits.MAX_LIVE_OUTPUT_CHARS :]))
            )


def check_output(output: ToolOutput) -> None:
    """Refuse what could not be sent to anybody; tools come from outside and are not all type-checked."""
    if not check_for(ToolOutput)(output):
        msg = "it did not return a ToolOutput"
        raise TypeError(msg)
    if not all(is_base64(image.data) for image in output.images):
        msg = "an image is not base64 text"
        raise ValueError(msg)
    if sum(len(image.data) for image in output.images) > limits.MAX_MESSAGE_CHARS:
        msg = f"its images have more than {limits.MAX_MESSAGE_CHARS:,} characters together"
        raise ValueError(msg)
    if output.details is not None and len(encode(output.details)) > limits.MAX_MESSAGE_CHARS:
        msg = f"its details have more than {limits.MAX_MESSAGE_CHARS:,} bytes"
        raise ValueError(msg)


def in_groups(calls: Sequence[_Ready]) -> Iterator[list[_Ready]]:
    """Split calls into groups that may run side by side, keeping their order."""
    group: list[_Ready] = []
    for call in calls:
        if group and not (call.only_reads and group[-1].only_reads):
            yield group
            group = []
        group.append(call)
    if group:
        yield group


def shorten(text: str) -> str:
    """Cut a long text in the middle, keeping its beginning and its end."""
    if len(text) <= limits.MAX_TOOL_OUTPUT_CHARS:
        return text
    half = limits.MAX_TOOL_OUTPUT_CHARS // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
