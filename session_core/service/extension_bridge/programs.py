"""Programs that extensions run: through the same gate and in the same sandbox as a model's commands.

Rules:
1. Hooks may refuse a program; then the session's rules, permission mode and grants decide, as for a model's call of the
   shell tool. An approval shows exactly what would run; if that changes meanwhile, the program does not run.
2. Its run is recorded in the session, durably, before it begins.
3. It runs beside turns, at most `MAX_PROGRAMS_AT_ONCE` at a time. A stop of the session, the end of the service, or the
   departure of the caller ends it with everything it has started.
4. Its changes belong to the turn that runs when it begins, and are undone with it. Without a turn nothing is saved.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import attrs
import trio

from session_core import limits
from session_core.agent.call_preview import build_preview
from session_core.agent.hooks import ask_before_user_command
from session_core.agent.streamed_answer import replace_surrogates
from session_core.errors import Conflict, Forbidden, InvalidInput, SessionCoreError, Unavailable
from session_core.ids import CallId, SessionId, TurnId, new_id
from session_core.permissions.call_facts import CallJudgement, judge_call
from session_core.permissions.decision import Grants
from session_core.processes.run import ProcessOutcome
from session_core.sep.protocol.service_api import ExtensionCaller, ProgramResult
from session_core.service.core import ServiceCore
from session_core.service.extension_api import extension_client
from session_core.service.validation import check_encodable, checked_text
from session_core.session.session import Session, Work
from session_core.tools.arguments import check_arguments
from session_core.tools.background_jobs import NOTING_S
from session_core.tools.base import NO_HOST, NO_TURN, CallPreview, ToolContext, ToolFailed, ToolHost
from session_core.tools.shell import DEFAULT_TIMEOUT_MS, MAX_COMMAND_CHARS, ShellTool
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ToolCallPart
from session_core.vocabulary.sessions import ExtraRight
from session_core.vocabulary.tools import SHELL


@attrs.frozen(kw_only=True)
class ProgramQuestion:
    """A program of an extension as shown to people: a title, exactly what would happen, and what a yes would give."""

    title: str
    displayed_text: str
    rights: tuple[ExtraRight, ...]


Ask = Callable[[SessionId, ExtensionCaller, ProgramQuestion], Awaitable[bool]]
"""Asks for approval in a session for an extension; no answer refuses."""

TIMED_OUT: Final = 124
"""The exit code of a program that timed out, as with `timeout`: its own exit code might look like success."""
_CUT: Final = "[the beginning was cut, this is the end of the output]\n"
_TOO_LONG: Final = f"[ended after {DEFAULT_TIMEOUT_MS // 1000} seconds, which is its time limit]\n"


class ProgramGate:
    """Runs programs for extensions, if the session's rules and its users allow it."""

    def __init__(self, core: ServiceCore, ask: Ask) -> None:
        self._core = core
        self._ask = ask
        self._running: Counter[SessionId] = Counter()

    async def __call__(self, caller: ExtensionCaller, line: str, cwd: str | None) -> ProgramResult:
        """Run a command line to its end, in the session's folder or in one beneath it.

        Raises:
            InvalidInput: The command is malformed, or the folder does not exist within what the session may use.
            Forbidden: A hook, a rule, the permission mode or a person does not allow it.
            Conflict: Too many run already, the approved program has changed, or the session was stopped.
            FolderUnusable: The settings of the session's folder are wrong.
            Unavailable: There is no shell tool here, or no sandbox can be made.

        Cancellation: the program and everything it started have ended when `Cancelled` propagates.
        """
        core, session_id = self._core, caller.session_id
        await core.loaded_sessions.load_session(session_id)
        session = core.session(session_id)
        core.refuse_if_unsaved()
        tool = _shell_of(core)
        program = _ExtensionProgram(
            core=core, ask=self._ask, session=session, caller=caller, tool=tool, call=_call_of(tool, line, cwd)
        )
        if self._running[session_id] >= limits.MAX_PROGRAMS_AT_ONCE:
            msg = f"{limits.MAX_PROGRAMS_AT_ONCE} programs of extensions run in this session already"
            raise Conflict(msg, field="session_id")
        self._running[session_id] += 1
        try:
            return await _run_as_side_task(core, session_id, f"a program of extension {caller.extension}", program.run)
        finally:
            self._running[session_id] -= 1
            if not self._running[session_id]:
                del self._running[session_id]


def _shell_of(core: ServiceCore) -> ShellTool:
    tool = core.agent.tools.get(SHELL)
    if not isinstance(tool, ShellTool):
        msg = f"there is no tool called {SHELL!r} here, so no program can be run"
        raise Unavailable(msg)
    return tool


def _call_of(tool: ShellTool, line: str, cwd: str | None) -> ToolCallPart:
    checked_text(line, "command", longest=MAX_COMMAND_CHARS)
    if "\0" in line:
        raise InvalidInput("command must not contain a null character", field="command")
    arguments = {"command": line}
    if cwd is not None:
        check_encodable(cwd, "cwd")
        arguments["workdir"] = cwd
    call = ToolCallPart(call_id=CallId(new_id("call")), name=SHELL, arguments=JsonObject(arguments))
    if (fault := check_arguments(tool.spec, call.arguments)) is not None:
        raise InvalidInput(fault, field="command")
    return call


async def _run_as_side_task(
    core: ServiceCore, session_id: SessionId, what: str, run: Callable[[], Awaitable[ProgramResult]]
) -> ProgramResult:
    """Run something as work of the session that a stop can end; it also ends when its caller leaves."""
    scope = trio.CancelScope()

    async def work() -> ProgramResult:
        with scope:
            return await run()
        raise Conflict(f"{what} was abandoned")

    ended = core.side_tasks.start(session_id, what, work)
    try:
        return await ended()
    except trio.Cancelled:
        scope.cancel(reason="the caller of the program has left")
        with trio.move_on_after(core.config.stop_patience_ms / 1000, shield=True), suppress(SessionCoreError):
            await ended()
        raise


@attrs.frozen(kw_only=True)
class _ExtensionProgram:
    """One program that an extension wants to run."""

    core: ServiceCore
    ask: Ask
    session: Session
    caller: ExtensionCaller
    tool: ShellTool
    call: ToolCallPart

    async def run(self) -> ProgramResult:
        """Check whether the program may run, and run it."""
        await self._ask_hooks()
        rights = await self._check_permission()
        context = attrs.evolve(self._context(), rights=rights)  # as the session is now
        try:
            return _to_result(await self._run_undoable(context))
        except ToolFailed as failure:
            raise Unavailable(str(failure) or "the program could not be run") from failure

    # --- permission ---------------------------------------------------------------------------------------------------

    async def _ask_hooks(self) -> None:
        hooks, line = self.core.agent.tool_config.hooks, str(self.call.arguments["command"])
        blocked = await ask_before_user_command(hooks, self.caller.session_id, line)
        if blocked is not None:
            raise Forbidden(f"blocked by an extension: {replace_surrogates(blocked.reason)}")

    async def _check_permission(self) -> frozenset[ExtraRight]:
        """Refuse a program that may not run; returns what was approved beyond the sandbox."""
        preview, judged = await self._judge_call()
        if judged.verdict.decision == "ask":
            await trio.lowlevel.checkpoint_if_cancelled()  # a cancelled request asks no person
            extension = self.caller.extension
            question = ProgramQuestion(
                title=f"May the extension {extension} run this command?",
                displayed_text=f"{preview.displayed_text}\n\nasked because: {judged.verdict.reason}",
                rights=preview.rights,
            )
            root_id = self.core.tree.find_root_session(self.session).state.session_id
            if not await self.ask(root_id, self.caller, question):
                raise Forbidden("nobody has agreed to run this program; do not try it again unless asked to")
            _, now = await self._judge_call()
            if now.call.fingerprint != judged.call.fingerprint:
                raise Conflict("something has changed since this program was allowed, so it was not run; ask again")
        return judged.facts.rights

    async def _judge_call(self) -> tuple[CallPreview, CallJudgement]:
        """Return what would run now, and the judgement of it."""
        config, cwd = self.core.agent.tool_config, self.session.state.settings.cwd
        rules = await config.load_rules(cwd)
        try:
            preview = await build_preview(self.tool, self.call, self._context())
        except ToolFailed as failure:
            field = "cwd" if "workdir" in self.call.arguments else "command"
            raise InvalidInput(str(failure) or "this program cannot be run", field=field) from failure
        if self.session.state.settings.cwd != cwd:
            raise Conflict("the session has moved to another folder, so this program was not run; ask again")
        lineage = self.core.tree.lineage(self.session)
        judged = judge_call(
            self.tool,
            self.call,
            preview,
            self.session.state.settings,
            rules=rules,
            grants=Grants(
                session=frozenset(grant for session in lineage for grant in session.state.grants),
                standing=config.standing,
            ),
            caller="extension",
        )
        if judged.verdict.decision == "deny":
            raise Forbidden(f"this program was not allowed: {judged.verdict.reason}")
        return preview, judged

    # --- running it ---------------------------------------------------------------------------------------------------

    async def _run_undoable(self, context: ToolContext) -> ProcessOutcome:
        """Run it; its changes can be undone with the turn that runs now, however long either takes."""
        work = self.session.work
        if work is not None and work.kind == "restore":
            raise Conflict("files are being restored in this session; try again when that is done")
        turn_id, host = self._turn(work)
        context = attrs.evolve(context, turn_id=turn_id, host=host)
        await host.before_command()
        ended = host.watch_background_command()  # its turn may end before it does
        try:
            await self._record(context)
            return await self.tool.run_with_separate_streams(self.call.arguments, context)
        finally:
            with trio.move_on_after(NOTING_S, shield=True):
                await ended()

    def _turn(self, work: Work | None) -> tuple[TurnId, ToolHost]:
        if work is None or work.kind != "turn":
            return NO_TURN, NO_HOST
        host = self.core.agent.tool_config.make_host(self.core.make_turn_handle(self.session, work), self.call.call_id)
        return work.turn_id, host

    async def _record(self, context: ToolContext) -> None:
        """Record durably what is about to run."""
        await trio.lowlevel.checkpoint_if_cancelled()  # the session may be gone
        folder = self.call.arguments.get("workdir")
        place = "" if folder is None else f" (in {folder})"
        unconfined = "unconfined" in context.rights or context.sandbox.mode == "full_access"
        how = " without a sandbox" if unconfined else ""
        message = _shortened(f"ran{how}{place}: {self.call.arguments['command']}")
        notice = ev.NoticeShown(extension=self.caller.extension, message=message, level="info")
        self.session.record(notice, extension_client(self.caller.extension))
        await self.session.wait_until_durable()

    def _context(self) -> ToolContext:
        config, settings = self.core.agent.tool_config, self.session.state.settings
        return ToolContext(
            call_id=self.call.call_id,
            cwd=settings.cwd,
            sandbox=settings.sandbox,
            report=lambda _: None,
            session_id=self.caller.session_id,
            outputs=config.find_outputs(self.caller.session_id),
            hidden=config.hidden,
        )


def _to_result(outcome: ProcessOutcome) -> ProgramResult:
    code = outcome.exit_code
    errors = outcome.error_output
    if outcome.timed_out:
        errors += ("" if not errors or errors.endswith("\n") else "\n") + _TOO_LONG
    return ProgramResult(
        stdout=_format_tail(outcome.output, cut=outcome.truncated),
        stderr=_format_tail(errors, cut=outcome.error_truncated),
        exit_code=TIMED_OUT if outcome.timed_out else 128 - code if code < 0 else code,
    )


def _format_tail(text: str, *, cut: bool) -> str:
    """Mark the text if its beginning was cut, and keep it within the bound including the remark."""
    most = limits.MAX_TOOL_OUTPUT_CHARS
    return _CUT + text[len(text) - most + len(_CUT) :] if cut or len(text) > most else text


def _shortened(message: str) -> str:
    room = limits.MAX_ERROR_CHARS - 50  # for the remark
    if len(message) <= room:
        return message
    return f"{message[:room]} [and {len(message) - room:,} more characters]"
