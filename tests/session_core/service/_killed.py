"""A service that is killed by the hardest means while it works, and what it leaves in its store."""

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import trio

from session_core.ids import SessionId
from session_core.service.config import ServiceConfig
from session_core.service.service import SessionService, open_session_service
from session_core.storage.sqlite import SqliteStore
from session_core.testing.scripted import ScriptedTool
from session_core.tools.base import ToolContext, ToolOutput
from session_core.vocabulary.frozen import JsonObject
from tests.session_core.service._helpers import new_session

ROOT = Path(__file__).parents[3]
Scenario = Callable[[SqliteStore], tuple[ServiceConfig, Callable[[SessionService, SessionId], Awaitable[object]]]]
"""Returns the config of a service with this store, and what to do with a new session until the process dies."""


def die(*_: Any) -> None:
    """End this process as `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)


class DeadlyTool(ScriptedTool):
    """A tool that ends the service."""

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        await trio.lowlevel.checkpoint()
        die()
        return ToolOutput(text="")


async def run_until_killed(scenario: Scenario, folder: Path) -> SessionId:
    """Play a scenario, which is a function of a module, in a process of its own; returns its session."""
    name = f"{scenario.__module__}:{scenario.__name__}"
    command = [sys.executable, "-m", "tests.session_core.service._killed", name, str(folder)]
    ended = await trio.run_process(command, capture_stdout=True, check=False, cwd=ROOT)
    assert ended.returncode == -signal.SIGKILL
    return SessionId(ended.stdout.decode().strip())


async def _play(*arguments: str) -> None:
    name, folder = arguments
    module, _, function = name.partition(":")
    config, use = getattr(import_module(module), function)(SqliteStore(Path(folder)))
    async with open_session_service(config) as service:
        session_id = await new_session(service)
        sys.stdout.write(f"{session_id}\n")
        sys.stdout.flush()
        await use(service, session_id)
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(_play, *sys.argv[1:])
