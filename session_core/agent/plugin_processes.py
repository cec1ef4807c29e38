"""Programs that a protocol starts within a turn: confined like commands of the model, and gone when the turn is.

Rules:
1. A program runs in the session's folder and sandbox as they are when it starts, with a cleaned environment. Where the
   policy asks for a sandbox and there is none, and in a read-only session, none is started: nobody is asked.
2. What is added to the environment is set inside the sandbox. Outside it could change what makes the sandbox.
3. Whatever becomes of a program, the turn goes on. Leaving the block ends all of them, with all that they have started.
4. A turn without programs pays nothing: a nursery is opened with the first, by a task beside that of the turn.
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
from session_core.agent.tool_runner import ToolSetting
from session_core.ids import CallId, new_id
from session_core.protocols.contexts import ProcessInfo
from session_core.protocols.faults import CallbackContextExpired
from session_core.session.turn_handle import TurnHandle
from session_core.tools.background import NOTING_S
from session_core.tools.base import ToolContext, ToolFailed, ToolHost
from session_core.tools.confined import Confinement, ShellSetup, confine, prepare_launch
from session_core.tools.process import RunningGroup, run_in_group
from session_core.tools.shell import MAX_COMMAND_CHARS

log = logging.getLogger(__name__)

MAX_WAITING_SIGNALS: Final = 16
"""Signals to one program that were not sent yet; sending one takes milliseconds."""
ENDING_S: Final = 4 * limits.KILL_GRACE_MS / 1000 + NOTING_S + 20
"""What ending all programs may take, with much room for a slow disk; more means that it hangs."""


class _OutputTail:
    """The end of what a program says, as much as may be kept."""

    def __init__(self) -> None:
        self._pieces: deque[str] = deque()
        self._size = 0

    def add(self, text: str) -> None:
        self._pieces.append(text)
        self._size += len(text)
        while self._size - len(self._pieces[0]) >= limits.MAX_TOOL_OUTPUT_CHARS:
            self._size -= len(self._pieces.popleft())

    @property
    def text(self) -> str:
        whole = "".join(self._pieces)
        return whole[max(0, len(whole) - limits.MAX_TOOL_OUTPUT_CHARS) :]


@attrs.define(eq=False, kw_only=True)
class _PluginProgram:
    """One program; it has a `group` from its start on."""

    process_id: str
    argv: tuple[str, ...]
    line: str
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    ended: trio.Event = attrs.field(factory=trio.Event)
    tail: _OutputTail = attrs.field(factory=_OutputTail)
    group: RunningGroup | None = None
    signals: deque[int] = attrs.field(factory=deque)
    """Not sent yet; while there are any, a task sends them."""

    @property
    def info(self) -> ProcessInfo:
        ended = self.ended.is_set()
        code = self.group.exit_code if ended and self.group is not None else None
        return ProcessInfo(
            process_id=self.process_id,
            argv=self.argv,
            running=not ended,
            # A sandbox tells a signal as a shell does, so it is told that way without one too.
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
        """Hold it open until `end`."""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    self.nursery = nursery
                    self.ready.set()
                    await trio.sleep_forever()
        finally:
            self.gone.set()

    def end(self) -> None:
        """Begin to end everything in it."""
        self._scope.cancel(reason="the turn has ended")


class TurnProcesses:
    """The programs of one turn, within a block around it; see `session_core.protocols.contexts.Processes`."""

    def __init__(self, desk: TurnHandle, setting: ToolSetting, shell: ShellSetup | None = None) -> None:
        self._desk = desk
        self._setting = setting
        self._shell = shell
        self._turn_nursery: trio.Nursery | None = None
        """The nursery that the turn itself runs in; none outside of the block."""
        self._holder: _NurseryHolder | None = None
        self._programs: dict[str, _PluginProgram] = {}
        self._started = 0

    async def __aenter__(self) -> Self:
        """Begin; there is nothing to wait for."""
        # A nursery of our own would cost each turn more than all else here, and be used by few.
        self._turn_nursery = trio.lowlevel.current_task().parent_nursery
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End all programs.

        Cancellation: they have ended when this returns, all the same; it takes a few times `KILL_GRACE_MS`.
        """
        self._turn_nursery = None
        if self._holder is None:
            return
        self._holder.end()
        with trio.move_on_after(ENDING_S, shield=True) as patience:
            await self._holder.gone.wait()
        if patience.cancelled_caught:
            log.error("programs of a turn were still being ended after %g seconds", ENDING_S)

    # --- what a protocol can do ---------------------------------------------------------------------------------------

    async def start(self, argv: Sequence[str], *, cwd: str | None = None, env: Mapping[str, str] | None = None) -> str:
        """Start a program in the session's folder, or in one beneath it, and return its id.

        One that is not there is started all the same, and ends with 127 and a word about it, as in a shell.

        Args:
            argv: The program and its arguments; no shell has a part in what they mean.
            cwd: The folder, relative to the session's.
            env: Added to its environment. Other users of the machine can read it: it is no place for secrets.

        Raises:
            ToolFailed: It cannot be started, may not be, or too many run.
            ContextExpired: The turn has ended.

        Cancellation: before the program runs it is ended; from then on it is one like any other.
        """
        self._check_turn_runs()
        line = _build_command_line(argv, env or {})
        self._check_may_start()
        self._started += 1
        program = _PluginProgram(process_id=f"process_{self._started}", argv=tuple(argv), line=line)
        self._programs[program.process_id] = program  # it counts from now on
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
        return tuple(program.info for program in self._programs.values() if program.group is not None)

    async def wait(self, process_id: str) -> ProcessInfo:
        """Wait until a program has ended, with all that it started; raises `KeyError` if there is none of this id."""
        program = self._program(process_id)
        await program.ended.wait()
        return program.info

    def signal(self, process_id: str, number: int) -> None:
        """Send a signal to a program and all it has started, in a moment and in order; one that has ended gets none.

        Raises:
            KeyError: There is no program of this id.
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
        """End a program and all it has started, and wait for that; raises `KeyError` if there is none of this id.

        Cancellation: it is being ended all the same.
        """
        program = self._program(process_id)
        program.scope.cancel(reason="the protocol has cancelled it")
        return await self.wait(process_id)

    # --- starting and ending ------------------------------------------------------------------------------------------

    def _check_turn_runs(self) -> None:
        if self._turn_nursery is None or (self._holder is not None and self._holder.gone.is_set()):
            raise CallbackContextExpired("programs run within a turn only, and this one has ended")

    def _check_may_start(self) -> None:
        if self._desk.state.settings.permission_mode == "read_only":
            raise ToolFailed("no program was started: this session is read-only, and a program may change anything")
        running = sum(not program.ended.is_set() for program in self._programs.values())
        if running >= limits.MAX_TURN_PROCESSES:
            raise ToolFailed(f"{running} programs run in this turn already; wait for one or cancel it first")

    async def _begin(self, program: _PluginProgram, folder: str) -> None:
        settings = self._desk.state.settings
        call_id = CallId(new_id("call"))
        context = ToolContext(
            call_id=call_id,
            cwd=settings.cwd,
            sandbox=settings.sandbox,
            report=lambda _: None,
            session_id=self._desk.state.session_id,
            turn_id=self._desk.turn_id,
            outputs=self._setting.outputs,
            hidden=self._setting.hidden,
            host=self._setting.make_host(self._desk, call_id),
        )
        confinement = await confine(context, self._shell or ShellSetup(), workdir=folder)
        if confinement.unconfined is not None:
            raise ToolFailed(f"no program was started, because there is no sandbox here: {confinement.unconfined}")
        nursery = await self._open_nursery()
        self._check_turn_runs()  # somebody may have kept this, and begun within the turn
        await nursery.start(run_program, program, confinement, context.host, self._forget_old)

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
        if program is None or program.group is None:
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
    """Run a program to its end; it has started when it has a group."""

    def on_started(group: RunningGroup) -> None:
        program.group = group
        task_status.started()

    await host.before_command()
    record_changes = host.watch_background_command()
    try:
        with program.scope:
            async with prepare_launch(program.line, confinement) as launch:
                await run_in_group(
                    launch.argv,
                    cwd=launch.cwd,
                    env=launch.env,
                    on_output=program.tail.add,
                    output_limit=0,
                    bubblewrap=launch.bubblewrap,
                    on_group=on_started,
                )
    except Exception as error:
        if program.group is None:
            raise  # to whoever wants to start it
        log.exception("a program of a protocol was lost")
        program.tail.add(f"[the program was lost: {error}]\n")
    finally:
        with trio.move_on_after(NOTING_S, shield=True):
            await _record_file_changes(record_changes)  # before anybody learns that it has ended
        program.ended.set()
        on_end()


async def _record_file_changes(record_changes: Callable[[], Awaitable[None]]) -> None:
    """Have it noted how a program has left the files; that it cannot be is no reason to end anything."""
    try:
        await record_changes()
    except Exception:
        log.exception("how a program has left the files could not be noted")


async def _send_signals(program: _PluginProgram) -> None:
    """Send what waits, one after the other."""
    while program.signals:
        assert program.group is not None
        try:
            await program.group.signal(program.signals[0])
        except Exception:
            log.exception("a signal could not be sent to a program of a protocol")
        program.signals.popleft()


def _build_command_line(argv: Sequence[str], env: Mapping[str, str]) -> str:
    """Return the command line that runs a program; a shell reads it, and finds each argument as it is."""
    if isinstance(argv, str) or not all(isinstance(each, str) for each in argv):
        raise ToolFailed("a program is given as a list of texts: its name and its arguments, each on its own")
    if not argv or not argv[0]:
        raise ToolFailed("there is no program to run: the command is empty")
    if "=" in argv[0]:
        raise ToolFailed(f"cannot run {argv[0]!r:.200}: the name of a program holds no '=' here")
    for name, value in env.items():
        if not all(isinstance(each, str) for each in (name, value)) or not name or "=" in name:
            raise ToolFailed(f"the environment holds {name!r:.200}, which is no name with a text for a value")
    line = "exec " + shlex.join(["/usr/bin/env", "--", *(f"{name}={value}" for name, value in env.items()), *argv])
    if len(line) > MAX_COMMAND_CHARS:
        raise ToolFailed(
            f"the command and its environment are longer than {MAX_COMMAND_CHARS} characters; put them into a file"
        )
    if "\0" in line:
        raise ToolFailed("the command or its environment holds a null character, which neither may")
    return line
