"""Child sessions that a protocol runs itself: live calls of its turn, whose results are for the protocol alone.

As live calls they are stopped with the turn, ask people in its session, and count against its limits, like the child
sessions that a model starts with the tool `task`. No more of them run at once than tools, and their number per turn is
bounded.
"""

import trio

from session_core import limits
from session_core.agent.streamed_answer import replace_surrogates
from session_core.agent.tool_results import Reporter, build_result
from session_core.agent.tool_runner import ToolConfig
from session_core.ids import CallId, SessionId, new_id
from session_core.protocols.contexts import ChildAnswer, ChildFailed
from session_core.session.cells import CHILD
from session_core.session.turn_handle import TurnHandle
from session_core.tools.base import TaskRequest, ToolFailed
from session_core.vocabulary import events as ev
from session_core.vocabulary.argument_checks import build_check
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ToolCallPart, ToolStatus


class TurnChildren:
    """The child sessions of one turn's protocol."""

    def __init__(self, handle: TurnHandle, config: ToolConfig) -> None:
        self._handle = handle
        self._config = config
        self._count = 0
        self._at_once = trio.Semaphore(limits.MAX_TOOLS_AT_ONCE)

    async def run(self, task: TaskRequest) -> ChildAnswer:
        """Run one; see `BeforeCallContext.run_child`."""
        if not build_check(TaskRequest)(task):
            raise ChildFailed("a child session needs a title and a prompt, both of them text")
        if self._count >= limits.MAX_PROTOCOL_CHILDREN:
            raise ChildFailed(f"a protocol runs at most {limits.MAX_PROTOCOL_CHILDREN} child sessions in one turn")
        self._count += 1
        async with self._at_once:
            return await self._run(task)

    async def _run(self, task: TaskRequest) -> ChildAnswer:
        handle = self._handle
        title = replace_surrogates(task.title[: limits.MAX_NAME_CHARS])
        call = ToolCallPart(
            call_id=CallId(new_id("call")),
            name=CHILD,
            arguments=JsonObject({"title": title, "read_only": task.read_only}),
        )
        handle.record(ev.ToolCallStarted(call_id=call.call_id, name=call.name, arguments=call.arguments))
        ended: tuple[ToolStatus, str] = ("cancelled", "The protocol has stopped it.")
        try:
            await handle.wait_until_durable()
            host = self._config.make_host(handle, call.call_id)
            output = await host.run_task(task, Reporter(handle, call.call_id))
            ended = "success", output.text
        except ToolFailed as failed:
            ended = "error", str(failed)
            raise ChildFailed(str(failed)) from failed
        finally:
            handle.record(ev.ToolCallFinished(result=build_result(call, *ended), apart=True))
        details = output.details or JsonObject()
        return ChildAnswer(session_id=SessionId(str(details.get("session_id", ""))), text=output.text)
