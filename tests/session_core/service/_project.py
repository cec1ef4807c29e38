"""A service with real file tools, a real shell and a real checkpoint store, in a project of its own."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs

from session_core.checkpoints.store import CheckpointStore
from session_core.service.config import ServiceConfig
from session_core.service.service import SessionService, open_session_service
from session_core.storage.memory import MemoryStore
from session_core.testing.scripted import ScriptedAnswer, ScriptItem, text, tool_call
from session_core.tools.background_jobs import BackgroundJobs, open_background_jobs
from session_core.tools.files import coding_file_tools
from session_core.tools.job_tools import shell_tools
from session_core.tools.task import TaskTool
from session_core.vocabulary.sessions import SandboxPolicy
from tests.session_core.service._family import PromptedProvider, Scripts

FULL_ACCESS = SandboxPolicy(mode="full_access")


def write(path: str, content: str) -> tuple[ScriptItem, ...]:
    """An answer that writes a file."""
    return tool_call("write", {"path": path, "content": content})


def shell(command: str, **arguments: Any) -> tuple[ScriptItem, ...]:
    """An answer that runs a command."""
    return tool_call("bash", {"command": command, **arguments})


def turn(*calls: ScriptedAnswer) -> Sequence[ScriptedAnswer]:
    """The answers of one turn: some calls, then a word."""
    return (*calls, text("done"))


@attrs.frozen(kw_only=True)
class Project:
    """A folder with files, and what is kept of them."""

    root: Path
    checkpoints: CheckpointStore
    service: SessionService
    jobs: BackgroundJobs

    def put(self, path: str, content: str) -> None:
        """Do what a person does in an editor."""
        (self.root / path).write_text(content, encoding="utf-8")

    def files(self) -> dict[str, str]:
        """Every file with its content."""
        return {str(each.relative_to(self.root)): each.read_text() for each in self.root.rglob("*") if each.is_file()}


@asynccontextmanager
async def open_project(
    folder: Path, scripts: Scripts, *, checkpoints: CheckpointStore | None = None, **settings: Any
) -> AsyncGenerator[Project]:
    """Open a service that works in `folder/project`."""
    root = folder / "project"
    root.mkdir(exist_ok=True)
    kept = checkpoints or CheckpointStore(folder / "checkpoints")
    async with open_background_jobs() as jobs:
        config = ServiceConfig(
            models=settings.pop("models", None) or {"m": PromptedProvider(scripts)},
            tools=(*coding_file_tools(), *shell_tools(jobs), TaskTool()),
            cwd=str(root),
            permission_mode="full",
            checkpoints=kept,
            jobs=jobs,
            store=settings.pop("store", None) or MemoryStore(),
            **settings,
        )
        async with open_session_service(config) as service:
            yield Project(root=root, checkpoints=kept, service=service, jobs=jobs)
