"""Detect that a service is gone for good: a client reconnects forever, but people do not wait."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from frontends.server.daemon.runtime_paths import service_process

if TYPE_CHECKING:
    from frontends.client import ConnectionState

MISSED_S: Final = 3.0
"""How long a lost service may take to come back."""


class Presence:
    """Tracks a client's connection (`note`), and detects when its service is gone for good (`run`).

    Attributes:
        lost: Why there is no connection now; None while there is one.
        gone: Why the service is gone for good.
    """

    def __init__(self, home: Path) -> None:
        self.lost: str | None = None
        self.gone: str | None = None
        self._home = home
        self._changed = trio.Event()
        self._final = False
        self._readers: set[trio.CancelScope] = set()

    def note(self, state: "ConnectionState") -> None:
        """Record a change of the connection."""
        lost = state.reason or "there is no answer" if state.phase in {"lost", "ended"} else None
        if (lost is None) != (self.lost is None) or state.phase == "ended":
            self.lost, self._final = lost, state.phase == "ended"
            self._changed.set()
            self._changed = trio.Event()

    async def change(self) -> None:
        """Wait until the connection is lost or restored."""
        await self._changed.wait()

    async def run(self) -> str:
        """Wait until the service is gone for good, end all reading, and return why."""
        while True:
            while self.lost is None:
                await self._changed.wait()
            if await self._is_gone():
                break
        self.gone = self.lost or "there is no answer"
        for scope in self._readers:
            scope.cancel(reason="the service is gone")
        return self.gone

    async def _is_gone(self) -> bool:
        """Wait for the service to come back; also waits for a process that exists but does not accept us."""
        while self.lost is not None and not self._final:
            with trio.move_on_after(MISSED_S):
                await self._changed.wait()
                continue
            if await trio.to_thread.run_sync(service_process, self._home) is None:
                return True
        return self._final

    @contextmanager
    def read_while_present(self) -> Generator[None]:
        """Read something within the block; the block ends early, and quietly, if the service is gone."""
        with trio.CancelScope() as scope:
            if self.gone is not None:
                scope.cancel(reason="the service is gone")
            self._readers.add(scope)
            try:
                yield
            finally:
                self._readers.discard(scope)
