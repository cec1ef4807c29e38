"""The way to the service: found or started, used as long as it runs, and started again if it is gone."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import attrs
from textual.app import App

import session_core as sc
from frontends.terminal.backend import ServiceLocation
from frontends.terminal.context import TerminalContext

_REVIVE_AFTER: Final = 2
"""Failed connection attempts after which the service is started again if it is gone."""
LOOK_EVERY_S: Final = 1.0
"""Seconds between two looks for a service that somebody else may have started; people would notice a longer wait."""


@attrs.define(eq=False)
class ServiceConnection:
    """Keeps the terminal connected.

    Attributes:
        look_every_s: Seconds between two looks for a service while there is none.
    """

    _app: App[None]
    _context: TerminalContext
    _place: ServiceLocation
    look_every_s: float = LOOK_EVERY_S
    _reviving: bool = False

    def start(self) -> None:
        """Connect in the background."""
        self._app.run_worker(self._stay_connected(), group="service", exclusive=True, exit_on_error=False)

    def action_reconnect(self) -> None:
        """Find or start the service now after a failure."""
        if self._context.feeds.failure is not None:
            self._show_failure(None)
            self.start()

    async def _stay_connected(self) -> None:
        """Find or start the service, and stay connected until asked to end.

        A service that somebody has ended is not started again without being asked to; but as soon as one runs again,
        it is used.
        """
        try:
            address = await anyio.to_thread.run_sync(self._place.open, abandon_on_cancel=True)
            while True:
                self._show_failure(None)
                self._show_failure(await self._context.feeds.run(address))
                address = await self._wait_for_service()
        except sc.SessionCoreError as error:
            self._show_failure(error.message)
        except Exception as error:  # noqa: BLE001 - shown to the user, who may try again
            self._show_failure(f"{type(error).__name__}: {error}")

    async def _wait_for_service(self) -> Path:
        """Wait until somebody has started a service, and return its socket."""
        find = partial(anyio.to_thread.run_sync, self._place.find, abandon_on_cancel=True)
        while (address := await find()) is None:  # noqa: ASYNC110 - nothing tells us when one starts
            await anyio.sleep(self.look_every_s)
        return address

    def _show_failure(self, failure: str | None) -> None:
        self._context.feeds.failure = failure
        self._context.redraw("connection", "session")

    def revive_if_gone(self) -> None:
        """Start the service again if it cannot be reached; the client reconnects on its own."""
        connection = self._context.feeds.connection
        lost = connection is not None and connection.phase == "lost" and connection.attempt >= _REVIVE_AFTER
        if lost and not self._reviving:
            self._reviving = True
            self._app.run_worker(self._revive(), group="revive", exit_on_error=False)

    async def _revive(self) -> None:
        try:
            await anyio.to_thread.run_sync(self._place.open, abandon_on_cancel=True)
        except Exception as error:  # noqa: BLE001 - the next attempt may succeed
            self._context.tell(f"the service cannot be started again: {error}", "error")
        finally:
            self._reviving = False
