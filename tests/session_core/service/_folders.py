"""For tests of one service with many folders: how folders are made, trusted and served, and what became of calls."""

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from session_core.agent.hooks import NO_HOOKS
from session_core.assembly.folders.registry import Folders
from session_core.assembly.setup import AgentEnvironment, open_setup
from session_core.ids import SessionId
from session_core.sandbox.trust import TrustStore, take_fingerprint
from session_core.sandbox.workspace import Workspace
from session_core.service.service import SessionService, open_session_service
from session_core.storage.base import SessionStore
from session_core.stream.subscription import Subscription
from session_core.testing.scripted import ScriptedAnswer, ScriptedProvider
from session_core.vocabulary.events import ConfigurationChanged
from session_core.vocabulary.messages import ToolResultPart
from tests.session_core.config._documents import write_project

SERVER = Path(__file__).parents[1] / "mcp" / "_rude_server.py"
PATIENCE = 300


def deny(*tools: str) -> str:
    """The rules of a project that forbids some tools."""
    return "".join(f'[[permissions]]\ntool = "{tool}"\ndecision = "deny"\n' for tool in tools)


@attrs.frozen(kw_only=True)
class World:
    """A home with folders beside it, and one service for all of them."""

    top: Path
    service: SessionService
    folders: Folders
    model: ScriptedProvider

    async def trusts(self, name: str, settings: str) -> None:
        """Change what a folder says, and trust that."""
        await trio.to_thread.run_sync(lambda: folder(self.top, name, settings))

    async def statuses(self, session_id: SessionId) -> list[str]:
        """How the tool calls of a session ended."""
        return [each.status for each in await self.results(session_id)]

    async def results(self, session_id: SessionId) -> list[ToolResultPart]:
        """The results of a session's tool calls."""
        messages = (await self.service.load_session(session_id)).transcript
        return [part for message in messages for part in message.parts if isinstance(part, ToolResultPart)]

    def tools_seen(self) -> list[set[str]]:
        """The tools that each model call was shown."""
        return [{tool.name for tool in request.tools} for request in self.model.requests]


def folder(
    top: Path, name: str, settings: str | None = None, *, servers: tuple[str, ...] = (), trusted: bool = True
) -> str:
    """Make a folder, or change it, and trust it as it is then; a server writes its process id to `<its name>.pid`."""
    path = top / name
    path.mkdir(exist_ok=True)
    if settings is not None:
        write_project(path, settings)
    if servers:
        (path / "mcp.json").write_text(json.dumps({"mcpServers": {each: _server(each) for each in servers}}))
    home = top / "home"
    home.mkdir(mode=0o700, exist_ok=True)
    if trusted:
        TrustStore(home).trust(str(path), take_fingerprint(Workspace(str(path))))
    return str(path)


def _server(name: str) -> dict[str, Any]:
    line = f'echo $$ > {name}.pid; exec "$0" "$@"'
    return {"command": "/bin/sh", "args": ["-c", line, sys.executable, str(SERVER)]}


async def told_of(events: Subscription, path: str) -> ConfigurationChanged:
    """Wait until everybody is told of a change in a folder."""
    while True:
        for each in await events.receive_batch():
            if isinstance(each.event, ConfigurationChanged) and each.event.folder == path:
                return each.event


@asynccontextmanager
async def served(
    top: Path, *answers: ScriptedAnswer, store: SessionStore | None = None, **more: Any
) -> AsyncGenerator[World]:
    """Open a service for the home `home`."""
    (top / "home").mkdir(mode=0o700, exist_ok=True)
    model = ScriptedProvider(*answers)
    with trio.fail_after(PATIENCE):
        place = AgentEnvironment(home=top / "home", folder=str(top), environ={"HOME": str(top)}, is_persistent=False)
        async with open_setup(place, flags={"model": "demo"}, store=store, open_folder=False) as setup:
            config = attrs.evolve(
                setup.service, **{"models": {"demo": model}, "model_infos": {}, "hooks": NO_HOOKS, **more}
            )
            async with open_session_service(config) as service:
                yield World(top=top, service=service, folders=setup.folders, model=model)
