"""The service of a home, opened in this process: by the daemon, by the terminal's own thread, and by `run`."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager

import session_core as sc
from frontends.shared.wait_for_home import WaitingStore


def _as_it_is(config: sc.ServiceConfig) -> sc.ServiceConfig:
    return config


@asynccontextmanager
async def open_home_service(
    place: sc.setup.AgentEnvironment,
    *,
    flags: Mapping[str, object] | None = None,
    mode: sc.extensions.Mode = "headless",
    open_folder: bool = False,
    adjust: Callable[[sc.ServiceConfig], sc.ServiceConfig] = _as_it_is,
) -> AsyncGenerator[tuple[sc.setup.Setup, sc.SessionService]]:
    """Open the service for the duration of the block, once no other process has the home.

    Args:
        place: The home, and the working folder of sessions that name none.
        flags: Settings that override those of any file.
        mode: The kind of frontend, as reported to extensions.
        open_folder: Whether to read the settings of the working folder at once.
        adjust: Changes the configuration before the service is opened.
    """
    store = WaitingStore(place.home) if place.is_persistent else None
    async with (
        sc.setup.open_setup(place, flags=flags, store=store, mode=mode, open_folder=open_folder) as setup,
        sc.open_session_service(adjust(setup.service)) as service,
    ):
        yield setup, service
