"""Bringing variables back into a new process.

What was kept is the work of cells, and may do anything when it is read: fail, hang, or end the process. A part that
fails is left out. One at which the process hangs or dies is left out too, and another process is tried.
"""

from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import Any, Final

import attrs
import trio

from session_core import limits
from session_core.protocols.code.saved_state import Kept
from session_core.protocols.code.worker_process import ENDING_SECONDS, Worker, WorkerGone

_PATIENCE: Final = limits.CELL_KEEP_MS / 1000
_GRACE: Final = limits.CELL_GRACE_MS / 1000
_ATTEMPTS: Final = 4
"""Processes that are tried before all is given up that was kept."""
_MOST_TOLD: Final = 20


@attrs.frozen(kw_only=True)
class Loaded:
    """A process with variables; `kept` are those that it has, `lost` are those that it has not, and why."""

    worker: Worker
    kept: Kept
    lost: tuple[tuple[str, str], ...] = ()


async def bring_back(start: Callable[[], Awaitable[Worker]], kept: Kept) -> Loaded:
    """Start a process that has what was kept, as far as it can be brought back.

    Raises:
        WorkerGone: No process can be started.

    Cancellation: no process is left.
    """
    lost: list[tuple[str, str]] = []
    for _ in range(_ATTEMPTS):
        loading = _Loading(await start(), kept)
        try:
            lost += await loading.load()
        except WorkerGone as gone:
            with trio.move_on_after(ENDING_SECONDS, shield=True):
                await loading.worker.end()
            if loading.at is None:
                raise
            lost.append((loading.at, f"the process did not survive it: {gone}"))
            kept = kept.without(loading.at)
        except BaseException:
            with trio.move_on_after(ENDING_SECONDS, shield=True):
                await loading.worker.end()
            raise
        else:
            for name, _why in lost:
                kept = kept.without(name)
            return Loaded(worker=loading.worker, kept=kept, lost=tuple(lost[:_MOST_TOLD]))
    lost += [(name, "too many others had failed") for name in kept.parts]
    return Loaded(worker=await start(), kept=Kept(), lost=tuple(lost[:_MOST_TOLD]))


class _Loading:
    """One process that is given the variables; `at` is the part that it was at last."""

    def __init__(self, worker: Worker, kept: Kept) -> None:
        self.worker = worker
        self.at: str | None = None
        self._kept = kept

    async def load(self) -> list[tuple[str, str]]:
        """Return what could not be brought back."""
        if not self._kept.parts:
            return []
        with trio.move_on_after(_PATIENCE):
            await self.worker.send({"do": "bring_back", "parts": len(self._kept.parts)})
            for name, part in self._kept.parts.items():
                data = b64encode(part.data).decode()
                await self.worker.send({"do": "part", "name": name, "data": data})
            return await self._until_brought()
        await self.worker.interrupt()
        with trio.move_on_after(_GRACE):
            return await self._until_brought()
        raise WorkerGone("it took too long")

    async def _until_brought(self) -> list[tuple[str, str]]:
        while True:
            frame = await self.worker.receive()
            if frame.get("say") == "loading" and frame.get("name") in self._kept.parts:
                self.at = frame["name"]
            elif frame.get("say") == "brought":
                return self._told_as_lost(frame.get("lost"))

    def _told_as_lost(self, lost: Any) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for each in lost if isinstance(lost, list) else ():
            match each:
                case [str() as name, str() as why] if name in self._kept.parts:
                    found.append((name, why[:300]))
                case _:
                    pass
        return found
