"""For tests of one service whose folders have extensions of their own: real processes that do what a test says."""

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from session_core.assembly.folders.registry import Folders
from session_core.assembly.setup import AgentEnvironment, open_setup
from session_core.ids import SessionId
from session_core.service.service import SessionService, open_session_service
from session_core.storage.base import SessionStore
from session_core.stream.subscription import Subscription
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import ScriptedAnswer, ScriptedProvider
from session_core.vocabulary.events import ExtensionChanged, ExtensionRemoved, MessageCompleted
from session_core.vocabulary.extensions import ExtensionInfo
from session_core.vocabulary.messages import Message
from tests.session_core.sep._children import PATIENCE, SCRIPTS
from tests.session_core.sep._service import Home
from tests.session_core.service._folders import folder

MANIFEST = "[capabilities]\nall = false\ntools = true\ncommands = true\nui = true\nsession = true\nproviders = true\n"


@attrs.frozen(kw_only=True)
class Folder:
    """A folder that is trusted, with one extension that somebody has agreed to."""

    path: str
    extension: Path


class Place:
    """A home, and folders beside it."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.home = Home(top)

    def project(self, name: str, extension: str, **plan: Any) -> Folder:
        """Make a folder with an obedient extension, agree to that and trust the folder."""
        args = ["-I", "-S", str(SCRIPTS / "obedient.py"), json.dumps({"identity": f"{extension} of {name}", **plan})]
        return self.put(name, extension, [*args, str(self.home.notes)])

    def put(self, name: str, extension: str, args: list[str]) -> Folder:
        """Make a folder with any extension in Python."""
        self.home.folder = self.top / name
        lies = self.home.put(extension, sys.executable, args, manifest=MANIFEST, project=True)
        self.home.agree(extension, lies)
        return Folder(path=folder(self.top, name), extension=lies)


@attrs.frozen(kw_only=True)
class World:
    """One service for all of them."""

    service: SessionService
    folders: Folders
    model: ScriptedProvider

    async def session(self, where: Folder | str, **settings: Any) -> SessionId:
        """Begin a session in a folder."""
        path = where.path if isinstance(where, Folder) else where
        return (await self.service.create_session(cwd=path, **settings)).session_id

    async def commands(self, session_id: SessionId | None) -> list[tuple[str, str]]:
        """The commands that a session has, each with the extension it is of."""
        found = (await self.service.list_commands(session_id)).commands
        return [(each.extension, each.name) for each in found if each.name in {"pid", "do"}]

    async def asks(self, session_id: SessionId, *calls: list[Any], extension: str | None = None) -> list[Any]:
        """Have an extension make requests within a command; returns what came of each."""
        arguments = json.dumps({"calls": calls})
        reply = await self.service.run_command(session_id, "do", arguments, extension=extension)
        found: list[Any] = json.loads(reply.content)
        return found

    async def heard(self, session_id: SessionId, method: str, extension: str | None = None) -> list[dict[str, Any]]:
        """All events, or all hooks, that the process of an extension was sent."""
        reply = await self.service.run_command(session_id, "heard", extension=extension)
        return [params for each, params in json.loads(reply.content) if each == method]

    async def pid(self, session_id: SessionId, extension: str | None = None) -> int:
        """The process that answers for a session."""
        return int((await self.service.run_command(session_id, "pid", extension=extension)).content)

    async def turn(self, session_id: SessionId, text: str = "go") -> str:
        """Say something and wait for the end of the turn."""
        await self.service.send_user_message(session_id, text)
        return (await self.service.wait_for_turn(session_id)).outcome.final_text

    async def shown(self) -> tuple[ExtensionInfo, ...]:
        """What the snapshot of the service says of extensions."""
        return (await self.service.load_service()).extensions


@asynccontextmanager
async def served(place: Place, *answers: ScriptedAnswer, store: SessionStore | None = None) -> AsyncGenerator[World]:
    """Open a service for the home; without a store all laws are checked at the end."""
    model = ScriptedProvider(*answers)
    with trio.fail_after(PATIENCE):
        where = AgentEnvironment(
            home=place.home.path,
            folder=place.home.environ["HOME"],
            environ=place.home.environ,
            is_persistent=False,
        )
        async with open_setup(where, flags={"model": "demo"}, open_folder=False) as setup:
            models = setup.service.models
            config = attrs.evolve(setup.service, models={**dict(models), "demo": model}, model_infos={})
            opened = (
                open_checked_service(config)
                if store is None
                else open_session_service(attrs.evolve(config, store=store))
            )
            async with opened as service:
                yield World(service=service, folders=setup.folders, model=model)


async def removed(events: Subscription) -> ExtensionRemoved:
    """Wait until everybody is told that an extension is gone."""
    while True:
        for each in await events.receive_batch():
            if isinstance(each.event, ExtensionRemoved):
                return each.event


async def ready(events: Subscription) -> ExtensionInfo:
    """Wait until everybody is told that an extension is ready."""
    while True:
        for each in await events.receive_batch():
            if isinstance(each.event, ExtensionChanged) and each.event.extension.state == "ready":
                return each.event.extension


async def first_answer(events: Subscription) -> Message:
    """Wait for the first whole answer of a model."""
    while True:
        for each in await events.receive_batch():
            if isinstance(each.event, MessageCompleted):
                return each.event.message
