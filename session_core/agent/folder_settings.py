"""The settings of a session's folder. A bare service reads no files of folders: see `NoFolderFiles`.

Rules:
1. A session obeys the folder that its settings name; after a change of folder, from the next call on.
2. A folder's settings are loaded before they are needed (`load`), in the task that needs them. If that fails, the task
   gets an error and nothing runs there: calls are never judged without the rules of their folder.
3. A turn holds the folder it works in, which keeps the folder's own tools available.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import attrs

from session_core.config.problems import ConfigInvalid, ConfigProblem
from session_core.permissions.rules import PermissionRule
from session_core.providers.base import Provider
from session_core.providers.catalogue import ModelInfo
from session_core.session.turn_handle import TurnHandle
from session_core.tools.base import Tool
from session_core.vocabulary.sessions import PermissionMode, SandboxPolicy, Thinking, TurnLimits


class FolderUnusable(ConfigInvalid):
    """The settings of a folder are unusable, so nothing may run there; the message names the file and the line."""

    def __init__(self, problems: Sequence[ConfigProblem]) -> None:
        super().__init__(problems)
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        self.message = f"{problems[0].sentence}{more}"
        self.field = "cwd"


@attrs.frozen(kw_only=True)
class SessionDefaults:
    """The settings of a new session where its command leaves them out."""

    permission_mode: PermissionMode
    sandbox: SandboxPolicy
    thinking: Thinking
    limits: TurnLimits


class FolderSettings(Protocol):
    """The current settings of one folder."""

    @property
    def path(self) -> str:
        """The real path of the folder."""
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

    def has_disabled(self, tool: str) -> bool:
        """Return whether a tool is disabled for sessions in this folder."""
        ...

    def defaults_of_sessions(self, usual: SessionDefaults) -> SessionDefaults:
        """Return the defaults of new sessions in this folder, given those of the service."""
        ...


class FolderSettingsSource(Protocol):
    """The settings of all folders, by the working directories of sessions."""

    @property
    def has_files(self) -> bool:
        """Whether a folder has files that must be read before a session works there."""
        ...

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


@attrs.frozen
class _PlainFolder:
    """A folder without settings of its own."""

    path: str
    rules: tuple[PermissionRule, ...] = ()
    providers: Mapping[str, Provider] = attrs.field(factory=dict)
    infos: Mapping[str, ModelInfo] = attrs.field(factory=dict)

    def tools(self) -> tuple[Tool, ...]:
        return ()

    def has_disabled(self, tool: str) -> bool:
        return False

    def defaults_of_sessions(self, usual: SessionDefaults) -> SessionDefaults:
        return usual


class NoFolderFiles:
    """Folders without files of their own: the settings of the service count in all of them."""

    has_files = False

    def get_known(self, cwd: str) -> FolderSettings:
        """Return the folder; it is always known."""
        return _PlainFolder(cwd)

    async def load(self, cwd: str) -> FolderSettings:
        """Return the folder."""
        return _PlainFolder(cwd)

    async def hold(self, cwd: str, *, work: bool = True) -> Callable[[], None]:
        """Hold nothing."""
        return release_nothing

    async def wait_for_extensions(self, cwd: str) -> None:
        """Return at once: no folder has extensions of its own."""

    def visit(self, cwd: str) -> None:
        """Do nothing: there is nothing to load."""


def release_nothing() -> None:
    """Release a folder that is not held."""


NO_FOLDER_FILES = NoFolderFiles()


def merge_folder_tools(folder: FolderSettings, tools: dict[str, Tool]) -> dict[str, Tool]:
    """Return these tools and the folder's own, without those that are disabled there."""
    for tool in folder.tools():
        tools.setdefault(tool.spec.name, tool)
    return {name: tool for name, tool in tools.items() if not folder.has_disabled(name)}


class TurnFolder:
    """The folder that a turn works in; it changes when the session moves to another one."""

    def __init__(self, folders: FolderSettingsSource, handle: TurnHandle) -> None:
        self._folders = folders
        self._handle = handle
        self._held: tuple[str, Callable[[], None]] | None = None

    async def hold_current(self) -> None:
        """Load and hold the session's current folder.

        Raises:
            FolderUnusable: Its settings are wrong.
        """
        while True:
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
