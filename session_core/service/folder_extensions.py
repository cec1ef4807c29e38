"""Extensions in a service for many folders: a trusted folder may say that they have no part in its sessions."""

from typing import TYPE_CHECKING

from session_core.agent.hooks import Blocked, HookName, Hooks
from session_core.agent.turn import ToolSource
from session_core.agent.workplace import FolderUnusable
from session_core.ids import SessionId
from session_core.tools.base import Tool
from session_core.vocabulary.frozen import JsonObject

if TYPE_CHECKING:
    from session_core.service.folders import Folders


class FolderHooks:
    """Asks extensions about sessions of those folders that want them."""

    def __init__(self, hooks: Hooks, folders: "Folders") -> None:
        self._hooks = hooks
        self._folders = folders

    def handles(self, hook: HookName) -> bool:
        """Tell whether anybody wants to be asked."""
        return self._hooks.handles(hook)

    async def run(self, hook: HookName, session_id: SessionId, value: JsonObject) -> JsonObject | Blocked:
        """Ask everybody in order, unless the session's folder does not want that."""
        try:
            folder = await self._folders.of(session_id)
        except FolderUnusable:
            return value  # nothing runs there, and the turn says why
        if folder is not None and not folder.config.extensions:
            return value
        return await self._hooks.run(hook, session_id, value)


class FolderTools:
    """The tools of extensions, for sessions of those folders that want them."""

    def __init__(self, source: ToolSource, folders: "Folders") -> None:
        self._source = source
        self._folders = folders

    def tools(self, session_id: SessionId) -> tuple[Tool, ...]:
        """Return those that a session has right now."""
        folder = self._folders.known(session_id)
        return () if folder is None or not folder.config.extensions else tuple(self._source.tools(session_id))
