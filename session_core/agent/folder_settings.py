"""What the folder of a session says about it, for services whose sessions work in many folders.

Rules:
1. A session obeys the folder that its settings name, from the next call on when they name another.
2. What a folder says is read before it is needed (`ready`), in the task that needs it. Whoever cannot have it read gets
   an error, and nothing runs there: never are calls judged without the rules of their folder.
3. While a turn works in a folder it holds it, so that the folder's own tools stay.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from session_core.config.problems import ConfigInvalid, ConfigProblem
from session_core.config.rules import PermissionRule
from session_core.config.tool_names import is_disabled
from session_core.config.values import Config
from session_core.providers.base import Provider
from session_core.providers.catalogue import ModelInfo
from session_core.session.turn_handle import TurnHandle
from session_core.tools.base import Tool


class FolderUnusable(ConfigInvalid):
    """What a folder says cannot be used, so nothing may run there; the message names the file and the line."""

    def __init__(self, problems: Sequence[ConfigProblem]) -> None:
        super().__init__(problems)
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        self.message = f"{problems[0].sentence}{more}"
        self.field = "cwd"


class FolderSettings(Protocol):
    """What one folder says at this moment."""

    @property
    def path(self) -> str:
        """Where it really is."""
        ...

    @property
    def config(self) -> Config:
        """The whole configuration of sessions that work there."""
        ...

    @property
    def rules(self) -> Sequence[PermissionRule]:
        """The rules of this moment."""
        ...

    @property
    def providers(self) -> Mapping[str, Provider]:
        """The models that only sessions of this folder have, as they are known now."""
        ...

    @property
    def infos(self) -> Mapping[str, ModelInfo]:
        """What is known of these models."""
        ...

    def tools(self) -> Sequence[Tool]:
        """Return the tools that only sessions of this folder have, as they are known now."""
        ...


class FolderSettingsSource(Protocol):
    """What all folders say, by the working directories of sessions."""

    def get_known(self, cwd: str) -> FolderSettings | None:
        """Return what is known of a folder now, without looking."""
        ...

    async def load(self, cwd: str) -> FolderSettings:
        """Return what a folder says, after reading it if nobody has; raises `FolderUnusable`."""
        ...

    async def hold(self, cwd: str, *, work: bool = True) -> Callable[[], None]:
        """Look at a folder anew and keep it until what is returned is called; with `work` its own tools are there.

        Raises:
            FolderUnusable: What the folder says is wrong.

        Cancellation: it is not held.
        """
        ...

    async def wait_for_extensions(self, cwd: str) -> None:
        """Wait until the extensions of a folder that is known have been started, but not for long."""
        ...

    def visit(self, cwd: str) -> None:
        """Have a folder read if nobody has, as somebody looks at a session there; never waits."""
        ...


def merge_folder_tools(folder: FolderSettings, tools: dict[str, Tool]) -> dict[str, Tool]:
    """Return these tools and the folder's own, without those that are switched off there."""
    for tool in folder.tools():
        tools.setdefault(tool.spec.name, tool)
    return {name: tool for name, tool in tools.items() if not is_disabled(folder.config, name)}


class TurnFolder:
    """The folder that a turn works in, which is another one when the session has gone there."""

    def __init__(self, folders: FolderSettingsSource | None, desk: TurnHandle) -> None:
        self._folders = folders
        self._desk = desk
        self._held: tuple[str, Callable[[], None]] | None = None

    async def hold_current(self) -> None:
        """See that the session's folder is ready, and held.

        Raises:
            FolderUnusable: What it says is wrong.
        """
        while self._folders is not None:
            cwd = self._desk.state.settings.cwd
            if self._held is not None and self._held[0] == cwd:
                return
            release = await self._folders.hold(cwd)
            self.release()
            self._held = cwd, release

    def release(self) -> None:
        """Let it go."""
        if self._held is not None:
            _, release = self._held
            self._held = None
            release()
