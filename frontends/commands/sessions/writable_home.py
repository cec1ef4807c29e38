"""Changing something in a home: by the service that runs there, or else by one for just this purpose."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import session_core as sc
from frontends.commands.sessions.patience import PatientStore
from frontends.daemon.attach import connect_if_running

CHECKPOINTS: Final = "checkpoints"
"""Where a home keeps files as they were."""


@asynccontextmanager
async def open_session_methods(home: Path, name: str, *, files: bool = False) -> AsyncGenerator[sc.SessionMethods]:
    """Act on the sessions of a home for the length of the block; `name` says to others who does.

    With `files`, those that sessions have changed can be brought back.

    Raises:
        StoreInUse: Another process that is no service does not let go of the home.
        Disconnected: The service that runs does not let us in.
    """
    async with connect_if_running(home, name=name) as client:
        if client is not None:
            yield client
            return
    checkpoints = sc.CheckpointStore(home / CHECKPOINTS) if files else None
    config = sc.ServiceConfig(store=PatientStore(home), checkpoints=checkpoints, wakeups=False)
    async with sc.open_session_service(config) as service:
        yield service
