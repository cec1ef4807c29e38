"""Runs the cells of a session in their own sandboxed Python process, whose variables persist from cell to cell.

1. After each cell the process saves the variables that have changed, and the service holds them. So a process that was
   killed, or has died, is replaced by one with the variables as they were after the last cell that ended.
2. A cell whose time is over is interrupted and keeps what it has done. If it continues nevertheless, its process is
   killed, and the changes of the cell are lost.
3. Cancellation kills the process: the variables are then what they were before the cell.
4. Variables that cannot be saved live as long as the process. The model is told which ones those are, and when they are
   gone.
5. Only the process reads saved variables, never this module. A process without a sandbox reads only plain data, unless
   processes like it have written it: neither an earlier cell nor an imported session may smuggle code past the person
   who approves.
"""

from typing import Final

import attrs
import trio

from session_core import limits
from session_core.protocols.code.cell_output import CellImages, CellText
from session_core.protocols.code.cell_run import CellEnd, CellNotStarted, CellRun
from session_core.protocols.code.confinement import CannotRunCells, plan_launch
from session_core.protocols.code.saved_state import ENGINE, SavedVariables, from_state, to_capture
from session_core.protocols.code.worker_process import Worker, WorkerGone, start_worker
from session_core.protocols.code.worker_restore import restore_variables
from session_core.protocols.execution import Cell, CellResult, CodeExecutor, Execution, KeptState, StateCapture
from session_core.protocols.faults import ProtocolFault
from session_core.sandbox.bubblewrap import NoBubblewrap, find_bubblewrap

_PLUGIN: Final = "code"
_BOUNDS: Final = {
    "state": limits.MAX_CELL_STATE_BYTES,
    "variable": limits.MAX_CELL_VARIABLE_BYTES,
    "variables": limits.MAX_CELL_VARIABLES,
    "image": limits.MAX_IMAGE_BYTES,
    "images": limits.MAX_CELL_IMAGES,
    "memory": limits.CELL_MEMORY_BYTES,
    "file": limits.CELL_FILE_BYTES,
    "files": limits.CELL_FILES,
}
_AGAIN: Final = "The Python process was restarted"


class PythonExecutor(CodeExecutor):
    """Runs Python.

    Args:
        cell_seconds: How long a cell may run, not counting the time of its tools.
        output_chars: How many characters of its output are kept.
    """

    engine = ENGINE
    language = "python"

    def __init__(self, *, cell_seconds: float, output_chars: int) -> None:
        self._cell_seconds = cell_seconds
        self._output_chars = output_chars
        self._lock = trio.Lock()
        self._worker: Worker | None = None
        self._place: tuple[object, ...] = ()
        """What the process is bound to: the folder, and how it is confined there."""
        self._variables = SavedVariables()
        self._stored: tuple[object, ...] = self._variables.identity
        """What the store has, see `SavedVariables.identity`."""
        self._leaves: frozenset[str] = frozenset()
        """The digests of the leaves that the store has."""
        self._offered: dict[int, tuple[StateCapture, tuple[object, ...]]] = {}
        self._agreed = True
        """Whether only processes without a sandbox have written the variables; plain data counts as theirs."""
        self._closed = False
        self._restart: str | None = None
        """What to report when the next process has started; None if nothing."""

    @property
    def pid(self) -> int | None:
        """The id of the running process, if there is one."""
        return self._worker.pid if self._worker is not None and self._worker.usable else None

    # --- cells --------------------------------------------------------------------------------------------------------

    async def why_unconfined(self, execution: Execution) -> str | None:
        """Describe why there is no sandbox, unless the session runs without one anyway."""
        if execution.sandbox.mode == "full_access":
            return None
        found = await find_bubblewrap()
        if isinstance(found, NoBubblewrap) and found.kind == "unknown":
            found = await find_bubblewrap()  # the last check was too slow: retry rather than ask for approval
        if isinstance(found, NoBubblewrap) and found.kind == "unknown":
            raise self._fault(f"code cannot be confined at the moment: {found.reason}; try again")
        return found.reason if isinstance(found, NoBubblewrap) else None

    async def execute(self, cell: Cell, execution: Execution) -> CellResult:
        """Run a cell; a second caller waits for the first.

        Raises:
            ProtocolFault: There is no way to run cells here.

        Cancellation: the process is killed, and the next cell finds the variables as they were before this one.
        """
        async with self._lock:
            self._refuse_if_closed()
            began = trio.current_time()
            try:
                result = await self._execute(cell, execution)
            except BaseException:
                restart = f"{_AGAIN}, as the last cell was stopped; what that changed is lost."
                await self._end_worker(restart)  # noqa: ASYNC102 - it is shielded and bounded
                raise
            return attrs.evolve(result, duration_ms=round((trio.current_time() - began) * 1000))

    async def _execute(self, cell: Cell, execution: Execution) -> CellResult:
        remarks: list[str] = []
        text, images = CellText(self._output_chars, execution.report), CellImages()
        end = await self._run(cell, execution, text, images, remarks)
        if end.how == "gave_up":
            seconds = f"{self._cell_seconds:g} seconds"
            await self._end_worker(None)
            end.error = self._describe_loss(
                f"The cell ran for more than {seconds} and could not be interrupted: it was killed."
            )
        elif self._worker is not None:
            self._variables = end.variables
        return self._result(end, text, images, remarks)

    async def _run(
        self, cell: Cell, execution: Execution, text: CellText, images: CellImages, remarks: list[str]
    ) -> CellEnd:
        ended = CellEnd()
        for another_try in (True, False):
            worker = await self._ensure_worker(execution, remarks)
            run = CellRun(worker, execution, self._variables, text, images, seconds=self._cell_seconds)
            try:
                return await run.run(cell.code)
            except CellNotStarted as gone:
                problem = gone
            except WorkerGone as gone:
                ended = CellEnd(error=self._describe_loss(f"The Python process has ended: {gone}."))
                break
            await self._end_worker(f"{_AGAIN}, as it had ended since the last cell: {problem}.")
            if not another_try:
                raise self._fault(f"the Python process does not work: {problem}") from problem
        await self._end_worker(None)
        return ended

    def _describe_loss(self, what: str) -> str:
        """Describe what is lost with a process that died in the middle of a cell."""
        lost = self._variables.lost
        self._variables = attrs.evolve(self._variables, lost=())
        too = f" Lost as well, as they cannot be kept: {', '.join(lost)}." if lost else ""
        return f"{what} Variables are as they were before this cell: what it changed is lost.{too}"

    def _fault(self, reason: str) -> ProtocolFault:
        return ProtocolFault(_PLUGIN, "execute", reason)

    def _result(self, end: CellEnd, text: CellText, images: CellImages, remarks: list[str]) -> CellResult:
        if end.news:
            named = "; ".join(f"{name} ({why})" for name, why in end.news)
            remarks.append(f"Not kept once this Python process ends: {named}.")
        if images.refused:
            remarks.append(
                f"{images.refused} images are not shown: there are too many, or they are too large or not images."
            )
        if end.how == "interrupted" and end.error is not None:
            end.error = (
                f"{end.error}\nThe cell was interrupted after {self._cell_seconds:g} seconds, the longest it may "
                "take. What it had done by then is kept."
            )
        said = text.as_text()
        lines = "\n".join(f"[{remark}]" for remark in remarks)
        return CellResult(
            output=f"{said}{'' if not said or said.endswith(chr(10)) or not lines else chr(10)}{lines}".rstrip("\n"),
            images=images.as_tuple(),
            error=end.error,
            finished=end.finished,
            value=end.value,
            tool_calls=end.tool_calls,
        )

    # --- the process --------------------------------------------------------------------------------------------------

    async def _ensure_worker(self, execution: Execution, remarks: list[str]) -> Worker:
        """Return a process that has the variables; adds anything worth reporting to `remarks`."""
        mode = execution.sandbox.mode
        place = (execution.cwd, mode, execution.hidden, execution.may_read, execution.unconfined)
        if self._worker is not None and not self._worker.usable:
            await self._end_worker(f"{_AGAIN}, as it had ended since the last cell.")
        if self._worker is not None and place != self._place:
            await self._end_worker(f"{_AGAIN}, as the folder or the sandbox of the session has changed.")
        if self._worker is not None:
            return self._worker
        try:
            launch = await plan_launch(execution)
            plain = launch.bubblewrap is None and not self._agreed
            loaded = await restore_variables(
                lambda: start_worker(launch, {**_BOUNDS, "plain": int(plain)}), self._variables
            )
        except CannotRunCells as error:
            raise self._fault(str(error)) from error
        except WorkerGone as gone:
            raise self._fault(f"the Python process cannot be started: {gone}") from gone
        self._worker, self._place = loaded.worker, place
        self._agreed = launch.bubblewrap is None
        self._refuse_if_closed()
        if self._restart is not None or self._variables.lost or loaded.lost:
            remarks.append(self._restart or f"{_AGAIN}.")
        if self._variables.lost:
            remarks.append(f"Gone, as they cannot be kept: {', '.join(self._variables.lost)}.")
        if loaded.lost:
            named = "; ".join(f"{name.partition(':')[2]} ({why})" for name, why in loaded.lost)
            remarks.append(f"Gone, as they could not be brought back: {named}.")
        self._variables = attrs.evolve(loaded.variables, lost=())
        self._restart = None
        return loaded.worker

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise self._fault("the session has been closed")

    async def _end_worker(self, restart: str | None) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            self._restart = restart
            await worker.end()  # which cannot be cancelled

    # --- state --------------------------------------------------------------------------------------------------------

    @property
    def dirty(self) -> bool:
        """Whether the variables differ from what the store has."""
        return self._lock.locked() or self._variables.identity != self._stored

    async def probe(self) -> None:
        """Find nothing wrong: what cannot be saved is left out, and the model was told."""
        await trio.lowlevel.checkpoint()

    async def capture(self) -> StateCapture:
        """Return the variables as they were after the last cell; the process is not asked."""
        async with self._lock:
            variables, known = self._variables, self._leaves
            capture = await trio.to_thread.run_sync(to_capture, variables, known)
            self._offered = {id(capture): (capture, variables.identity)}  # an earlier one was for a turn that is over
            return capture

    def acknowledge(self, capture: StateCapture) -> None:
        """Note that the store has the capture; leaves that it does not name are no longer stored."""
        offered = self._offered.pop(id(capture), None)
        if offered is not None:
            self._stored = offered[1]
            self._leaves = frozenset(leaf.digest for leaf in capture.state.leaves)

    def abort(self, capture: StateCapture) -> None:
        """Note that the store does not have the capture."""
        self._offered.pop(id(capture), None)

    async def restore(self, saved: KeptState | None) -> None:
        """Replace the variables by the stored ones, in a new process that the next cell starts.

        Raises:
            StateRejected: It is not a state of this executor, or incomplete.
        """
        async with self._lock:
            await self._end_worker(None)
            self._restart = None
            self._offered = {}
            self._agreed = saved is None
            read = SavedVariables() if saved is None else await trio.to_thread.run_sync(from_state, saved)
            self._variables = read
            self._stored = read.identity
            self._leaves = frozenset() if saved is None else frozenset(leaf.digest for leaf in saved.state.leaves)

    async def aclose(self) -> None:
        """End the process, and start no other; a running cell ends with an error."""
        self._closed = True
        if self._worker is not None:
            self._worker.kill()  # its reader notices, and gives up
        async with self._lock:
            await self._end_worker(None)
