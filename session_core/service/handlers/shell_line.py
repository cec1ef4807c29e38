"""`!line`: a command that the user types into a session, run by the shell tool under the rules of all commands."""

from functools import partial

from session_core.agent.tool_runner import ToolRunner
from session_core.errors import InvalidInput, Unavailable
from session_core.ids import CallId, TurnId, new_id
from session_core.permissions.line_rights import read_person_line
from session_core.service.core import ServiceCore
from session_core.service.handler_api import Caller, Handlers, refuse_if_overtaken
from session_core.session.session import Work
from session_core.session.shell_lines import build_shell_line_message
from session_core.session.turn_handle import TurnHandle
from session_core.tools.shell import MAX_COMMAND_CHARS, RIGHT_ARGUMENTS
from session_core.vocabulary import commands as c
from session_core.vocabulary import events as ev
from session_core.vocabulary import replies as r
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ToolCallPart
from session_core.vocabulary.tools import SHELL


def run_line(core: ServiceCore, command: c.RunShellLine, caller: Caller) -> r.ShellLineReply:
    _check(command.line)
    wanted = read_person_line(command.line)
    session = core.require_idle_session(command.session_id, "run a command")
    tool = core.agent.tools.get(SHELL)
    if tool is None:
        raise Unavailable(f"there is no tool called {SHELL!r} here, so no command can be run")
    refuse_if_overtaken(session, caller)
    work = Work(kind="turn", turn_id=TurnId(new_id("turn")))
    rights = {argument: True for right, argument in RIGHT_ARGUMENTS.items() if right in wanted.rights}
    arguments = {"command": wanted.command, **rights}
    call = ToolCallPart(call_id=CallId(new_id("call")), name=SHELL, arguments=JsonObject(arguments))
    if session.state.archived:
        session.record(ev.SessionRestored(), caller.client_id)
    session.record(ev.TurnStarted(turn_id=work.turn_id), caller.client_id)
    session.work = work

    async def run(handle: TurnHandle) -> None:
        runner = ToolRunner(handle, {SHELL: tool}, core.agent.tool_config)
        await runner.run_for_person(call)
        live = next(each for each in session.state.tools if each.call_id == call.call_id)
        typed = command.line.strip()
        session.record(build_shell_line_message(session.state, live, typed, work.turn_id, session.now()))
        session.close_work("stopped" if work.stop_requested else "completed")  # in the same step

    start = partial(core.run_turn, session, work, run, deliver_queue=True)
    core.nursery.start_soon(start, name=f"shell line {work.turn_id}")
    return r.ShellLineReply(turn_id=work.turn_id, call_id=call.call_id, cursor=session.cursor)


def _check(line: str) -> None:
    if not line.strip():
        raise InvalidInput("line must not be empty", field="line")
    if len(line) > MAX_COMMAND_CHARS:
        raise InvalidInput(f"line must have at most {MAX_COMMAND_CHARS:,} characters, not {len(line):,}", field="line")
    if "\0" in line or any("\ud800" <= each <= "\udfff" for each in line):
        raise InvalidInput("line contains characters that no command may contain", field="line")


HANDLERS: Handlers = {c.RunShellLine: run_line}
