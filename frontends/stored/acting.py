"""Changing something in a home: by the service that runs there, or else by one for just this purpose."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import session_core as sc
from frontends.serving.attaching import attached
from frontends.stored.patience import PatientStore

CHECKPOINTS: Final = "checkpoints"
"""Where a home keeps files as they were."""


@asynccontextmanager
async def acting_on(home: Path, name: str, *, files: bool = False) -> AsyncGenerator[sc.SessionMethods]:
    """Act on the sessions of a home for the length of the block; `name` says to others who does.

    With `files`, those that sessions have changed can be brought back.

    Raises:
        StoreInUse: Another process that is no service does not let go of the home.
        Disconnected: The service that runs does not let us in.
    """
    async with attached(home, name=name) as client:
        if client is not None:
            yield client
            return
    checkpoints = sc.CheckpointStore(home / CHECKPOINTS) if files else None
    config = sc.ServiceConfig(store=PatientStore(home), checkpoints=checkpoints, wakeups=False)
    async with sc.open_session_service(config) as service:
        yield service
