"""Restores variables in a new process.

Saved variables come from cells, and may do anything when they are read: fail, hang, or end the process. A part that
fails is left out. One at which the process hangs or dies is left out too, and another process is tried.
"""

from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import Final

import attrs
import trio

from session_core import limits
from session_core.protocols.code.saved_state import SavedVariables, read_losses
from session_core.protocols.code.worker_process import Worker, WorkerGone

_PATIENCE: Final = limits.CELL_KEEP_MS / 1000
_GRACE: Final = limits.CELL_GRACE_MS / 1000
_ATTEMPTS: Final = 4
"""How many processes are tried before all saved variables are given up."""
_MAX_REPORTED: Final = 20


@attrs.frozen(kw_only=True)
class LoadedWorker:
    """A process with variables; `variables` are those that it has, `lost` are the missing ones, and why."""

    worker: Worker
    variables: SavedVariables
    lost: tuple[tuple[str, str], ...] = ()


async def restore_variables(start: Callable[[], Awaitable[Worker]], variables: SavedVariables) -> LoadedWorker:
    """Start a process with the saved variables, as far as they can be restored.

    Raises:
        WorkerGone: No process can be started.

    Cancellation: no process is left.
    """
    lost: list[tuple[str, str]] = []
    for _ in range(_ATTEMPTS):
        loading = _VariableLoader(await start(), variables)
        try:
            lost += await loading.load()
        except WorkerGone as gone:
            await loading.worker.end()  # noqa: ASYNC120 - it is shielded
            if loading.current_part is None:
                raise
            lost.append((loading.current_part, f"the process did not survive it: {gone}"))
            variables = variables.without_part(loading.current_part)
        except BaseException:
            await loading.worker.end()  # noqa: ASYNC102 - it is shielded and bounded
            raise
        else:
            for name, _why in lost:
                variables = variables.without_part(name)
            return LoadedWorker(worker=loading.worker, variables=variables, lost=tuple(lost[:_MAX_REPORTED]))
    lost += [(name, "too many others had failed") for name in variables.parts]
    return LoadedWorker(worker=await start(), variables=SavedVariables(), lost=tuple(lost[:_MAX_REPORTED]))


class _VariableLoader:
    """Loads the variables into one process; `current_part` is the last part it began."""

    def __init__(self, worker: Worker, variables: SavedVariables) -> None:
        self.worker = worker
        self.current_part: str | None = None
        self._variables = variables

    async def load(self) -> list[tuple[str, str]]:
        """Load all parts; returns those that could not be restored."""
        if not self._variables.parts:
            return []
        with trio.move_on_after(_PATIENCE):
            await self.worker.send({"do": "bring_back", "parts": len(self._variables.parts)})
            for name, part in self._variables.parts.items():
                data = b64encode(part.data).decode()
                await self.worker.send({"do": "part", "name": name, "data": data})
            return await self._wait_until_restored()
        await self.worker.interrupt()
        with trio.move_on_after(_GRACE):
            return await self._wait_until_restored()
        raise WorkerGone("it took too long")

    async def _wait_until_restored(self) -> list[tuple[str, str]]:
        while True:
            frame = await self.worker.receive()
            if frame.get("say") == "loading" and frame.get("name") in self._variables.parts:
                self.current_part = frame["name"]
            elif frame.get("say") == "brought":
                return [each for each in read_losses(frame.get("lost")) if each[0] in self._variables.parts]
