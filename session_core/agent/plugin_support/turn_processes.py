"""Programs that a protocol starts within a turn: sandboxed like the model's commands, and ended with the turn.

Rules:
1. A program runs in the session's folder and sandbox as they are when it starts, with a cleaned environment. If the
   policy asks for a sandbox and there is none, or the session is read-only, it is not started, without asking.
2. Additions to the environment are set inside the sandbox. Outside, they could change how the sandbox is made.
3. Whatever happens to a program, the turn continues. Leaving the block ends all of them, with all that they started.
4. A turn without programs pays nothing: the first program opens a nursery, in a task beside that of the turn.
"""

import logging
import shlex
import signal
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

import attrs
import trio

from session_core import limits
from session_core.agent.folder_settings import FolderUnusable
from session_core.agent.tool_runner import ToolConfig
from session_core.ids import CallId, new_id
from session_core.permissions.decision import CallFacts, Grants, PermissionCall, decide
from session_core.permissions.rules import PermissionRule
from session_core.processes.child import Child
from session_core.processes.run import OutputTail, run_in_group
from session_core.protocols.contexts import ProcessInfo
from session_core.protocols.faults import CallbackContextExpired
from session_core.session.turn_handle import TurnHandle
from session_core.tools.background_jobs import NOTING_S
from session_core.tools.base import ToolFailed, ToolHost
from session_core.tools.command_confinement import CommandLaunch, Confinement, ShellSetup, confine, prepare_launch
from session_core.tools.shell import MAX_COMMAND_CHARS, ShellTool
from session_core.vocabulary.tools import SHELL

log = logging.getLogger(__name__)

MAX_WAITING_SIGNALS: Final = 16
"""The limit of unsent signals to one program; sending one takes milliseconds."""
ENDING_S: Final = 4 * limits.KILL_GRACE_MS / 1000 + NOTING_S + 20
"""How long ending all programs may take, with a large margin for a slow disk; longer means that it hangs."""


@attrs.define(eq=False, kw_only=True)
class _PluginProgram:
    """One program; it has a `child` once it has started."""

    process_id: str
    argv: tuple[str, ...]
    line: str
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    ended: trio.Event = attrs.field(factory=trio.Event)
    tail: OutputTail = attrs.field(factory=lambda: OutputTail(limits.MAX_TOOL_OUTPUT_CHARS))
    child: Child | None = None
    signals: deque[int] = attrs.field(factory=deque)
    """The unsent signals; while there are any, a task sends them."""

    @property
    def info(self) -> ProcessInfo:
        ended = self.ended.is_set()
        code = self.child.exit_code if ended and self.child is not None else None
        return ProcessInfo(
            process_id=self.process_id,
            argv=self.argv,
            running=not ended,
            # A sandbox reports a signal as a shell does; without one, report it the same way.
            exit_code=128 - code if code is not None and code < 0 else code,
            output=self.tail.text,
        )


class _NurseryHolder:
    """Holds the nursery that programs run in."""

    def __init__(self) -> None:
        self.nursery: trio.Nursery | None = None
        self.ready = trio.Event()
        self.gone = trio.Event()
        self._scope = trio.CancelScope()

    async def hold_open(self) -> None:
        """Hold the nursery open until `end`."""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    self.nursery = nursery
                    self.ready.set()
                    await trio.sleep_forever()
        finally:
            self.gone.set()

    def end(self) -> None:
        """Begin to end everything in the nursery."""
        self._scope.cancel(reason="the turn has ended")


class TurnProcesses:
    """The programs of one turn, within a block around it; see `session_core.protocols.contexts.Processes`."""

    def __init__(self, handle: TurnHandle, config: ToolConfig, shell: ShellSetup | None = None) -> None:
        self._handle = handle
        self._config = config
        self._shell = shell
        self._turn_nursery: trio.Nursery | None = None
        """The nursery that the turn itself runs in; None outside the block."""
        self._holder: _NurseryHolder | None = None
        self._programs: dict[str, _PluginProgram] = {}
        self._started = 0

    async def __aenter__(self) -> Self:
        """Enter the block; nothing is awaited."""
        # Our own nursery would cost each turn more than everything else here, and few turns would use it.
        self._turn_nursery = trio.lowlevel.current_task().parent_nursery
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End all programs.

        Cancellation: they have still ended when this returns; it takes a few times `KILL_GRACE_MS`.
        """
        self._turn_nursery = None
        if self._holder is None:
            return
        self._holder.end()
        with trio.move_on_after(ENDING_S, shield=True) as patience:
            await self._holder.gone.wait()
        if patience.cancelled_caught:
            log.error("programs of a turn had not ended after %g seconds", ENDING_S)

    # --- what a protocol can do ---------------------------------------------------------------------------------------

    async def start(self, argv: Sequence[str], *, cwd: str | None = None, env: Mapping[str, str] | None = None) -> str:
        """Start a program in the session's folder, or in one beneath it, and return its id.

        A missing program is started anyway, and ends with 127 and a message, as in a shell.

        Args:
            argv: The program and its arguments; no shell interprets them.
            cwd: The folder, relative to the session's.
            env: Added to its environment. Other users of the machine can read it: it is no place for secrets.

        Raises:
            ToolFailed: It cannot or may not be started, or too many run.
            CallbackContextExpired: The turn has ended.

        Cancellation: a program that does not run yet is ended; afterwards it is one like any other.
        """
        self._check_turn_runs()
        line = _build_command_line(argv, env or {})
        self._check_may_start()
        self._started += 1
        program = _PluginProgram(process_id=f"process_{self._started}", argv=tuple(argv), line=line)
        self._programs[program.process_id] = program  # it counts towards the limit from now on
        try:
            await self._begin(program, "." if cwd is None else cwd)
        except OSError as error:
            del self._programs[program.process_id]
            raise ToolFailed(f"cannot run {program.argv[0]!r}: {error.strerror or error}") from error
        except BaseException:
            del self._programs[program.process_id]
            raise
        return program.process_id

    def list(self) -> tuple[ProcessInfo, ...]:
        """Return the programs of the turn in the order of their starts; the oldest that have ended may be missing."""
        return tuple(program.info for program in self._programs.values() if program.child is not None)

    async def wait(self, process_id: str) -> ProcessInfo:
        """Wait until a program and all it started have ended; raises `KeyError` if none has this id."""
        program = self._program(process_id)
        await program.ended.wait()
        return program.info

    def signal(self, process_id: str, number: int) -> None:
        """Send a signal to a program and all it has started, in the background and in order; an ended one gets none.

        Raises:
            KeyError: No program has this id.
            ToolFailed: There is no such signal, or too many wait to be sent.
        """
        program = self._program(process_id)
        if number not in signal.valid_signals():
            raise ToolFailed(f"there is no signal {number!r}")
        nursery = self._holder.nursery if self._holder is not None else None
        if program.ended.is_set() or self._turn_nursery is None or nursery is None:
            return
        if len(program.signals) >= MAX_WAITING_SIGNALS:
            raise ToolFailed(f"{MAX_WAITING_SIGNALS} signals to {process_id} wait to be sent; send fewer")
        program.signals.append(number)
        if len(program.signals) == 1:
            nursery.start_soon(_send_signals, program)

    async def cancel(self, process_id: str) -> ProcessInfo:
        """End a program and all it has started, and wait for that; raises `KeyError` if none has this id.

        Cancellation: it is still being ended.
        """
        program = self._program(process_id)
        program.scope.cancel(reason="the protocol has cancelled it")
        return await self.wait(process_id)

    # --- starting and ending ------------------------------------------------------------------------------------------

    def _check_turn_runs(self) -> None:
        if self._turn_nursery is None or (self._holder is not None and self._holder.gone.is_set()):
            raise CallbackContextExpired("programs run within a turn only, and this one has ended")

    def _check_may_start(self) -> None:
        running = sum(not program.ended.is_set() for program in self._programs.values())
        if running >= limits.MAX_TURN_PROCESSES:
            raise ToolFailed(f"{running} programs run in this turn already; wait for one or cancel it first")

    async def _begin(self, program: _PluginProgram, folder: str) -> None:
        context = self._config.build_context(self._handle, CallId(new_id("call")), lambda _: None)
        rules = await self._load_rules(context.cwd)
        confinement = await confine(context, self._shell or ShellSetup(), workdir=folder)
        self._check_permission(program.line, confinement, rules)
        nursery = await self._open_nursery()
        self._check_turn_runs()  # a plugin may have kept this object beyond the turn
        await nursery.start(run_program, program, confinement, context.host, self._forget_old)

    async def _load_rules(self, cwd: str) -> Sequence[PermissionRule]:
        try:
            return await self._config.load_rules(cwd)
        except FolderUnusable as problem:
            raise ToolFailed(f"nothing can run in this folder: {problem.message}") from problem

    def _check_permission(self, line: str, confinement: Confinement, rules: Sequence[PermissionRule]) -> None:
        """Refuse a program that may not run, or may run only with an approval: a protocol has nobody to ask."""
        call = PermissionCall(tool=SHELL, caller="protocol", grant="", fingerprint="")
        facts = CallFacts(effects=ShellTool.effects, command=line, rights=frozenset(confinement.rights))
        verdict = decide(call, facts, rules, Grants(), self._handle.state.settings.permission_mode)
        if verdict.decision == "allow":
            return
        why = verdict.reason
        if confinement.unconfined is not None:
            why = f"there is no sandbox here ({confinement.unconfined})"
        unasked = ", and a protocol has nobody to ask" if verdict.decision == "ask" else ""
        raise ToolFailed(f"no program was started: {why}{unasked}")

    async def _open_nursery(self) -> trio.Nursery:
        self._check_turn_runs()
        if self._holder is None:
            assert self._turn_nursery is not None
            self._holder = _NurseryHolder()
            self._turn_nursery.start_soon(self._holder.hold_open)
        await self._holder.ready.wait()
        assert self._holder.nursery is not None
        return self._holder.nursery

    def _program(self, process_id: str) -> _PluginProgram:
        program = self._programs.get(process_id)
        if program is None or program.child is None:
            raise KeyError(f"there is no program {process_id!r:.100} in this turn")
        return program

    def _forget_old(self) -> None:
        ended = [process_id for process_id, program in self._programs.items() if program.ended.is_set()]
        for process_id in ended[: max(0, len(ended) - limits.MAX_ENDED_TURN_PROCESSES)]:
            del self._programs[process_id]


async def run_program(
    program: _PluginProgram,
    confinement: Confinement,
    host: ToolHost,
    on_end: Callable[[], None],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run a program to its end; it has started once it has a child."""

    def on_started(child: Child) -> None:
        program.child = child
        task_status.started()

    launch: CommandLaunch | None = None
    await host.before_command()
    record_changes = host.watch_background_command()
    try:
        with program.scope:
            async with prepare_launch(program.line, confinement, reports_if_stopped=True) as launch:
                await run_in_group(
                    launch,
                    on_output=program.tail.add,
                    output_limit=0,
                    on_start=on_started,
                )
    except Exception as error:
        if program.child is None:
            raise  # to the caller of `start`
        log.exception("a program of a protocol was lost")
        program.tail.add(f"[the program was lost: {error}]\n")
    finally:
        if launch is not None and launch.remarks:
            program.tail.add(launch.format_remarks())
        with trio.move_on_after(NOTING_S, shield=True):
            await _record_file_changes(record_changes)  # before its end becomes visible
        program.ended.set()
        on_end()


async def _record_file_changes(record_changes: Callable[[], Awaitable[None]]) -> None:
    """Record the files as a program left them; a failure to record ends nothing."""
    try:
        await record_changes()
    except Exception:
        log.exception("the files that a program changed could not be recorded")


async def _send_signals(program: _PluginProgram) -> None:
    """Send the waiting signals, one after the other."""
    while program.signals:
        assert program.child is not None
        try:
            await program.child.signal(program.signals[0])
        except Exception:
            log.exception("a signal could not be sent to a program of a protocol")
        program.signals.popleft()


def _build_command_line(argv: Sequence[str], env: Mapping[str, str]) -> str:
    """Return the command line that runs a program; it is quoted, so a shell passes each argument unchanged."""
    if isinstance(argv, str) or not all(isinstance(each, str) for each in argv):
        raise ToolFailed("a program must be a list of strings: its name and its arguments, one string each")
    if not argv or not argv[0]:
        raise ToolFailed("there is no program to run: the command is empty")
    if "=" in argv[0]:
        raise ToolFailed(f"cannot run {argv[0]!r:.200}: a program name must not contain '='")
    for name, value in env.items():
        if not all(isinstance(each, str) for each in (name, value)) or not name or "=" in name:
            raise ToolFailed(
                f"the environment variable {name!r:.200} has an invalid name or a value that is not a string"
            )
    line = "exec " + shlex.join(["/usr/bin/env", "--", *(f"{name}={value}" for name, value in env.items()), *argv])
    if len(line) > MAX_COMMAND_CHARS:
        raise ToolFailed(
            f"the command and its environment are longer than {MAX_COMMAND_CHARS} characters; put them into a file"
        )
    if "\0" in line:
        raise ToolFailed("the command or its environment holds a null character, which neither may")
    return line
