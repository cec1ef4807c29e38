"""A service in which an extension called `git` runs programs, with people who give prepared answers."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from session_core.ids import SessionId
from session_core.sep.protocol.service_api import ExtensionCaller, ProgramResult
from session_core.service.config import ServiceConfig
from session_core.service.extension_bridge.programs import ProgramGate, ProgramQuestion
from session_core.service.service import SessionService
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import ScriptedProvider
from session_core.tools.shell import ShellTool
from session_core.vocabulary.sessions import ExtraRight
from tests.session_core.service._helpers import new_session
from tests.session_core.tools._running import names


class People:
    """Notes what they are asked, does something meanwhile if told so, and says yes or no."""

    def __init__(self, *, yes: bool = True) -> None:
        self.yes = yes
        self.asked: list[tuple[SessionId, str, str, str]] = []
        self.rights: list[tuple[ExtraRight, ...]] = []
        self.meanwhile: Callable[[], Awaitable[object]] = trio.lowlevel.checkpoint

    async def __call__(self, session_id: SessionId, caller: ExtensionCaller, question: ProgramQuestion) -> bool:
        self.asked.append((session_id, caller.extension, question.title, question.displayed_text))
        self.rights.append(question.rights)
        await self.meanwhile()
        return self.yes


@attrs.frozen(kw_only=True)
class Programs:
    """One session in a folder, and the gate that programs go through."""

    service: SessionService
    gate: ProgramGate
    people: People
    session_id: SessionId
    root: Path

    async def run(self, line: str, cwd: str | None = None) -> ProgramResult:
        """Run a program for the extension, but not for ever."""
        with trio.fail_after(300):
            return await self.gate(make_caller(self.session_id), line, cwd)

    def made(self) -> list[str]:
        """What is in the folder."""
        return names(self.root)


def make_caller(session_id: SessionId) -> ExtensionCaller:
    """The extension, in a dispatch of a session."""
    return ExtensionCaller(extension="git", session_id=session_id)


@asynccontextmanager
async def open_programs(folder: Path, *, tool: ShellTool | None = None, **settings: Any) -> AsyncGenerator[Programs]:
    """Open a checked service that works in `folder/project`."""
    root = folder / "project"
    root.mkdir()
    people = People()
    defaults = {"models": {"m": ScriptedProvider()}, "tools": (tool or ShellTool(),), "permission_mode": "full"}
    config = ServiceConfig(**{**defaults, "cwd": str(root), **settings})
    async with open_checked_service(config) as service:
        gate = ProgramGate(service._core, people)
        session_id = await new_session(service)
        yield Programs(service=service, gate=gate, people=people, session_id=session_id, root=root)
