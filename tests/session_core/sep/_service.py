"""A whole service with real extensions beside it, which do what a test tells them to."""

import json
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from session_core.assembly.extension_setup import make_host
from session_core.assembly.folders.files import read_user_settings
from session_core.assembly.folders.registry import open_folders
from session_core.assembly.setup import join_extensions
from session_core.assembly.surroundings import AgentEnvironment
from session_core.ids import SessionId
from session_core.sep.host.catalogue.consent import CONSENT_FILE, Consents
from session_core.sep.host.catalogue.folder_digest import digest_of
from session_core.sep.host.config import participates_everywhere
from session_core.sep.host.extension import HostedExtension
from session_core.sep.host.host import ExtensionHost
from session_core.service.config import ServiceConfig
from session_core.service.service import SessionService
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import ScriptedAnswer, ScriptedProvider
from session_core.tools.base import Tool
from tests.session_core.sep._children import PATIENCE, SCRIPTS


class Home:
    """A home and a folder to work in, into which extensions are put."""

    def __init__(self, place: Path) -> None:
        self.path, self.folder, self.notes = place / "home", place / "work", place / "notes"
        for each in (self.path, self.folder, self.notes):
            each.mkdir()
        self.consents = Consents(self.path / CONSENT_FILE)
        self.environ: dict[str, str] = {"PATH": "/usr/bin:/bin", "HOME": str(place)}

    def install(self, name: str, *, manifest: str = "", project: bool = False, **plan: Any) -> Path:
        """Put an obedient extension there, and agree to it if it is the user's own."""
        args = ["-I", "-S", str(SCRIPTS / "obedient.py"), json.dumps({"identity": name, **plan}), str(self.notes)]
        return self.put(name, sys.executable, args, manifest=manifest, project=project)

    def put(
        self, name: str, command: str, args: list[str], *, manifest: str = "", project: bool = False, folder: str = ""
    ) -> Path:
        """Put any extension there."""
        parent = self.folder / ".smooth" if project else self.path
        place = parent / "extensions" / (folder or name)
        place.mkdir(parents=True, exist_ok=True)
        (place / "extension.toml").write_text(
            f"name = {json.dumps(name)}\nversion = '1'\n"
            f"[run]\ncommand = {json.dumps(command)}\nargs = {json.dumps(args)}\n{manifest}"
        )
        if not project:
            self.agree(name, place)
        return place

    def agree(self, name: str, folder: Path) -> None:
        """Agree to an extension with its files as they are now."""
        self.consents.agree(name, folder, digest_of(folder))

    @property
    def place(self) -> AgentEnvironment:
        return AgentEnvironment(home=self.path, folder=str(self.folder), environ=self.environ)


@attrs.frozen(kw_only=True)
class World:
    """A service with its extensions, and one session."""

    home: Home
    service: SessionService
    host: ExtensionHost
    provider: ScriptedProvider
    session_id: SessionId

    def extension(self, name: str) -> HostedExtension:
        return self.host.extension(name)

    async def do(self, name: str, *calls: list[Any], session_id: SessionId | None = None) -> list[Any]:
        """Have an extension make requests within a command; returns what came of each."""
        arguments = json.dumps({"calls": calls})
        reply = await self.service.run_command(session_id or self.session_id, "do", arguments, extension=name)
        found: list[Any] = json.loads(reply.content)
        return found

    async def asks(self, name: str, method: str, **params: Any) -> Any:
        """Have an extension ask one thing; `context="$context"` is that of the command."""
        return (await self.do(name, [method, params]))[0]

    async def code(self, name: str, method: str, **params: Any) -> int:
        """Have an extension ask what it is refused, and return the code."""
        return int((await self.asks(name, method, **params))["error"]["code"])

    async def heard(self, name: str) -> list[tuple[str, dict[str, Any]]]:
        """All that the process of an extension has received, commands apart."""
        reply = await self.service.run_command(self.session_id, "heard", extension=name)
        return [(method, params) for method, params in json.loads(reply.content)]

    async def events(self, name: str) -> list[tuple[str, dict[str, Any]]]:
        """The events that it was told, with their payloads."""
        heard = await self.heard(name)
        return [(params["event"], params.get("payload", {})) for method, params in heard if method == "event"]

    async def hooks(self, name: str) -> list[tuple[str, dict[str, Any]]]:
        """The hooks that it was asked, with their inputs."""
        return [(params["hook"], params["input"]) for method, params in await self.heard(name) if method == "hook"]

    async def until_told(self, name: str, event: str) -> list[tuple[str, dict[str, Any]]]:
        """Wait until an extension has been told of an event; returns all it was told."""
        while True:
            told = await self.events(name)
            if event in (each for each, _ in told):
                return told

    async def turn(self, text: str = "hi", session_id: SessionId | None = None) -> str:
        """Say something and wait for the end of the turn; returns the answer."""
        where = session_id or self.session_id
        await self.service.send_user_message(where, text)
        return (await self.service.wait_for_turn(where)).outcome.final_text

    async def until(self, name: str, holds: Callable[[HostedExtension], bool]) -> None:
        """Wait until something holds of an extension, of which everybody is told when it changes."""
        async with self.service.subscribe() as events:
            while not holds(self.extension(name)):
                await events.receive_batch()


@asynccontextmanager
async def open_world(
    home: Home,
    *answers: ScriptedAnswer,
    tools: tuple[Tool, ...] = (),
    flags: Mapping[str, object] | None = None,
    **settings: Any,
) -> AsyncGenerator[World]:
    """Open a service whose extensions are those of a home; all of them have been started once."""
    config = read_user_settings(home.place, flags or {})
    provider = ScriptedProvider(*answers)
    with trio.fail_after(PATIENCE):
        async with open_folders(home.place, config, flags or {}, mode="cli") as folders:
            plain = ServiceConfig(
                models={"m": provider},
                tools=tools,
                cwd=str(home.folder),
                folders=folders,
                background_tasks=(folders.run,),
                **settings,
            )
            joined, extensions = await join_extensions(plain, home.place, config, folders, "cli")
            host = extensions.own or make_host(
                home.place, config, "cli", participates_everywhere
            )  # without any there is nothing to run
            host.config = attrs.evolve(host.config, pace=attrs.evolve(host.config.pace, start=PATIENCE))
            async with open_checked_service(joined) as service:
                if extensions.own is not None:
                    await host.settled.wait()
                session_id = (await service.create_session(name="the session")).session_id
                yield World(home=home, service=service, host=host, provider=provider, session_id=session_id)
