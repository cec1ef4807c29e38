"""Changing something in a home: through its running service, or else through a temporary one."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import session_core as sc
from frontends.server.daemon.attached_client import talk_if_running
from frontends.shared.wait_for_home import WaitingStore

CHECKPOINTS: Final = "checkpoints"
"""Where a home keeps earlier versions of files."""


@asynccontextmanager
async def open_session_methods(home: Path, name: str, *, files: bool = False) -> AsyncGenerator[sc.SessionMethods]:
    """Open the sessions of a home for changes, for the duration of the block; `name` identifies us to others.

    With `files`, files that sessions have changed can be restored.

    Raises:
        StoreInUse: Another process that is not a service holds the home.
        Disconnected: The running service refuses the connection.
    """
    async with talk_if_running(home, name=name) as talk:
        if talk is not None:
            yield talk
            return
    checkpoints = sc.maintenance.CheckpointStore(home / CHECKPOINTS) if files else None
    config = sc.ServiceConfig(store=WaitingStore(home), checkpoints=checkpoints, wakeups=False)
    async with sc.open_session_service(config) as service:
        yield service
