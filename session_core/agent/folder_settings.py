"""The settings of a session's folder, for services whose sessions work in many folders.

Rules:
1. A session obeys the folder that its settings name; after a change of folder, from the next call on.
2. A folder's settings are loaded before they are needed (`load`), in the task that needs them. If that fails, the task
   gets an error and nothing runs there: calls are never judged without the rules of their folder.
3. A turn holds the folder it works in, which keeps the folder's own tools available.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from session_core.config.problems import ConfigInvalid, ConfigProblem
from session_core.config.tool_names import is_disabled
from session_core.config.values import Config
from session_core.permissions.rules import PermissionRule
from session_core.providers.base import Provider
from session_core.providers.catalogue import ModelInfo
from session_core.session.turn_handle import TurnHandle
from session_core.tools.base import Tool


class FolderUnusable(ConfigInvalid):
    """The settings of a folder are unusable, so nothing may run there; the message names the file and the line."""

    def __init__(self, problems: Sequence[ConfigProblem]) -> None:
        super().__init__(problems)
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        self.message = f"{problems[0].sentence}{more}"
        self.field = "cwd"


class FolderSettings(Protocol):
    """The current settings of one folder."""

    @property
    def path(self) -> str:
        """The real path of the folder."""
        ...

    @property
    def config(self) -> Config:
        """The whole configuration of sessions that work there."""
        ...

    @property
    def rules(self) -> Sequence[PermissionRule]:
        """The current rules."""
        ...

    @property
    def providers(self) -> Mapping[str, Provider]:
        """The models that only sessions of this folder have, as they are known now."""
        ...

    @property
    def infos(self) -> Mapping[str, ModelInfo]:
        """Known facts about these models."""
        ...

    def tools(self) -> Sequence[Tool]:
        """Return the tools that only sessions of this folder have, as they are known now."""
        ...


class FolderSettingsSource(Protocol):
    """The settings of all folders, by the working directories of sessions."""

    def get_known(self, cwd: str) -> FolderSettings | None:
        """Return the settings of a folder if they are loaded, without checking its files."""
        ...

    async def load(self, cwd: str) -> FolderSettings:
        """Return the settings of a folder, and load them first if needed; raises `FolderUnusable`."""
        ...

    async def hold(self, cwd: str, *, work: bool = True) -> Callable[[], None]:
        """Check a folder again and hold it until the returned function is called; with `work`, its tools are ready.

        Raises:
            FolderUnusable: The settings of the folder are wrong.

        Cancellation: the folder is not held.
        """
        ...

    async def wait_for_extensions(self, cwd: str) -> None:
        """Wait, but not for long, until the extensions of a loaded folder have been started."""
        ...

    def visit(self, cwd: str) -> None:
        """Load a folder's settings in the background if they are not loaded yet; never blocks."""
        ...


def merge_folder_tools(folder: FolderSettings, tools: dict[str, Tool]) -> dict[str, Tool]:
    """Return these tools and the folder's own, without those that are disabled there."""
    for tool in folder.tools():
        tools.setdefault(tool.spec.name, tool)
    return {name: tool for name, tool in tools.items() if not is_disabled(folder.config, name)}


class TurnFolder:
    """The folder that a turn works in; it changes when the session moves to another one."""

    def __init__(self, folders: FolderSettingsSource | None, handle: TurnHandle) -> None:
        self._folders = folders
        self._handle = handle
        self._held: tuple[str, Callable[[], None]] | None = None

    async def hold_current(self) -> None:
        """Load and hold the session's current folder.

        Raises:
            FolderUnusable: Its settings are wrong.
        """
        while self._folders is not None:
            cwd = self._handle.state.settings.cwd
            if self._held is not None and self._held[0] == cwd:
                return
            release = await self._folders.hold(cwd)
            self.release()
            self._held = cwd, release

    def release(self) -> None:
        """Release the folder."""
        if self._held is not None:
            _, release = self._held
            self._held = None
            release()
