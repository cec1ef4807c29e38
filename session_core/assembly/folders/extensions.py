"""The extensions of a service: sessions see the user's own and those of their folder together.

Rules:
1. A session has the user's own extensions first, then those of the project it works in. A project's extension replaces
   the user's own with the same name. A trusted folder may exclude all extensions from its sessions.
2. A request to them for a session keeps its folder open until it is answered.
"""

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from session_core.agent.folder_settings import FolderUnusable
from session_core.agent.hooks import Blocked, HookName
from session_core.errors import Conflict, NotFound
from session_core.ids import SessionId
from session_core.tools.base import Tool
from session_core.vocabulary.extensions import Completion, ExtensionInfo
from session_core.vocabulary.frozen import JsonObject

if TYPE_CHECKING:
    from session_core.assembly.folders.folder import OpenFolder
    from session_core.assembly.folders.registry import Folders
    from session_core.sep.host.extension import HostedExtension
    from session_core.sep.host.host import ExtensionHost

_BEFORE_COMMANDS: Final = frozenset[HookName]({"input", "user_bash", "session_before_tree"})
"""Hooks that may run before a session's folder is loaded: which extensions take part is not known yet."""


def takes_own_part(folders: "Folders", name: str, session_id: SessionId) -> bool:
    """Return whether one of the user's own extensions takes part in a session."""
    folder = folders.known_folder_of_session(session_id)
    if folder is None:
        return True
    return folder.config.extensions and not any(each.name == name for each in folder.files.may_run)


class ServiceExtensions:
    """All extensions of a service, as `Extensions`, as `Hooks`, and as the source of their tools.

    Args:
        own: The user's own, if there are any.
        folders: The folders, which hold those of projects.
    """

    def __init__(self, own: "ExtensionHost | None", folders: "Folders") -> None:
        self.own = own
        self._folders = folders

    def hosts_of(self, session_id: SessionId) -> Iterable["ExtensionHost"]:
        """Return the hosts of a session's extensions, in the order in which they are asked."""
        return self._hosts_in(self._folders.known_folder_of_session(session_id))

    def hosts_in(self, cwd: str) -> tuple["ExtensionHost", ...]:
        """Return the hosts of the extensions of a folder, in the order in which they are asked."""
        return tuple(self._hosts_in(self._folders.get_known(cwd)))

    def _hosts_in(self, folder: "OpenFolder | None") -> Iterable["ExtensionHost"]:
        if self.own is not None:
            yield self.own
        if folder is not None and folder.hosted is not None:
            yield folder.hosted.host

    def _all_hosts(self) -> tuple["ExtensionHost", ...]:
        return (*((self.own,) if self.own is not None else ()), *self._folders.hosting.hosts())

    @asynccontextmanager
    async def _hold_folder(self, session_id: SessionId) -> AsyncGenerator[None]:
        """Hold a session's folder, and with it its extensions; an unusable folder has none."""
        try:
            folder = await self._folders.find_folder_of_session(session_id)
        except FolderUnusable:
            folder = None
        with self._folders.keep(folder):
            yield

    async def wait_until_started(self, cwd: str) -> None:
        """Wait until every extension of a folder has been started once, successfully or not."""
        await self._folders.wait_for_extensions(cwd)
        for host in self.hosts_in(cwd):
            await host.settled.wait()

    # --- `Extensions` -------------------------------------------------------------------------------------------------

    def list(self, session_id: SessionId | None = None) -> tuple[ExtensionInfo, ...]:
        """Return all extensions, or those that take part in a session, in the order in which they are asked."""
        hosts = self._all_hosts() if session_id is None else self.hosts_of(session_id)
        return tuple(info for host in hosts for info in host.list(session_id))

    def list_in(self, cwd: str) -> tuple[ExtensionInfo, ...]:
        """Return the extensions that take part in sessions of a folder, in the order in which they are asked."""
        folder = self._folders.get_known(cwd)
        listed = [info for host in self._hosts_in(folder) for info in host.list()]
        if folder is None:
            return tuple(listed)
        instead = {each.name for each in folder.files.may_run}
        return tuple(
            each
            for each in listed
            if folder.config.extensions and (each.folder is not None or each.name not in instead)
        )

    def find_manager(self, name: str, folder: str | None) -> "ExtensionHost":
        """Return the host of an extension; without a folder, of the user's own, or the only one of that name."""
        having = [host for host in self._all_hosts() if any(each.name == name for each in host.list())]
        having = [host for host in having if folder in {None, host.config.serves}]
        if len(having) > 1 and having[0] is not self.own:
            places = ", ".join(sorted(repr(host.config.serves) for host in having))
            raise Conflict(f"several folders have an extension {name!r}: {places}; name one of them", field="folder")
        if having:
            return having[0]
        if folder is None and self.own is not None:
            return self.own  # its error says why there is none
        where = f" that serves {folder!r} alone" if folder is not None else ""
        raise NotFound(f"there is no extension {name!r} in use{where}", field="name")

    async def run_command(self, session_id: SessionId, name: str, arguments: str, extension: str | None) -> str:
        """Run a command of an extension and return its answer."""
        async with self._hold_folder(session_id):
            host, owner = self._find_command(session_id, name, extension)
            content = await owner.run_command(host.contexts, session_id, name, arguments)
            await host.wait_registered(owner.name)
            return content

    async def complete_command(
        self, session_id: SessionId, name: str, partial: str, extension: str | None
    ) -> tuple[Completion, ...]:
        """Return completions for the arguments of a command."""
        async with self._hold_folder(session_id):
            host, owner = self._find_command(session_id, name, extension)
            return await owner.complete_command(host.contexts, session_id, name, partial)

    def _find_command(
        self, session_id: SessionId, name: str, extension: str | None
    ) -> "tuple[ExtensionHost, HostedExtension]":
        for host in self.hosts_of(session_id):
            for each in host.participants(session_id):
                if extension in {None, each.name} and each.registrations.command(name) is not None:
                    return host, each
        raise NotFound(f"there is no command /{name} here any more", field="name")

    def press_key(self, session_id: SessionId, extension: str, widget_id: str, key: str) -> None:
        """Tell an extension that a key was pressed in a widget; never blocks."""
        for host in self.hosts_of(session_id):
            if any(each.name == extension for each in host.participants(session_id)):
                host.press_key(session_id, extension, widget_id, key)
                return
        raise NotFound(f"there is no extension {extension!r} in this session", field="extension")

    async def login(self, session_id: SessionId, provider: str) -> None:
        """Log in to a model provider of an extension; its questions are asked in the session."""
        async with self._hold_folder(session_id):
            for host in self.hosts_of(session_id):
                if host.models.find_offer(provider) is not None:
                    await host.models.log_in(provider, session_id)
                    return
        raise NotFound(f"no extension has a provider called {provider!r} here any more", field="provider")

    def title_of(self, model: str, cwd: str) -> str:
        """Return the title that an extension gives one of its models for users of a folder, if any."""
        return next((title for host in self.hosts_in(cwd) if (title := host.models.title_of(model))), "")

    async def why_not_usable(self, provider: str, cwd: str) -> str:
        """Describe what the user must do before an extension's provider can be used in a folder, if anything."""
        for host in self.hosts_in(cwd):
            if host.models.find_offer(provider) is not None:
                return await host.models.why_not_usable(provider)
        return ""

    # --- `Hooks` ------------------------------------------------------------------------------------------------------

    def handles(self, hook: HookName) -> bool:
        """Return whether any extension wants to be asked, or may want to."""
        return (
            hook in _BEFORE_COMMANDS
            or (self.own is not None and self.own.handles(hook))
            or self._folders.hosting.handles(hook)
        )

    def handles_in(self, hook: HookName, session_id: SessionId) -> bool:
        """Return whether any extension of a session wants to be asked; in a folder not loaded yet, any may."""
        if not self._folders.is_settled_for(session_id):
            return self.handles(hook)
        folder = self._folders.known_folder_of_session(session_id)
        return (folder is None or folder.config.extensions) and any(
            host.handles(hook) for host in self._hosts_in(folder)
        )

    async def run(self, hook: HookName, session_id: SessionId, value: JsonObject) -> JsonObject | Blocked:
        """Ask all extensions in order, unless the session's folder excludes them; an unusable folder asks none."""
        try:
            folder = await self._folders.find_folder_of_session(session_id)
        except FolderUnusable:
            return value  # nothing runs there, and the turn says why
        if folder is not None and not folder.config.extensions:
            return value
        with self._folders.keep(folder):
            for host in self._hosts_in(folder):
                from session_core.service.extension_bridge.delegate import run_hook

                answer = await run_hook(host, hook, session_id, value)
                if isinstance(answer, Blocked):
                    return answer
                value = answer
            return value

    # --- tools --------------------------------------------------------------------------------------------------------

    def tools(self, session_id: SessionId) -> tuple[Tool, ...]:
        """Return the tools that a session has right now."""
        folder = self._folders.known_folder_of_session(session_id)
        hosts = tuple(self._hosts_in(folder))
        if folder is None or not folder.config.extensions or not hosts:
            return ()
        from session_core.sep.host.tools.tools import visible_tools

        return tuple(visible_tools([host.tools for host in hosts], session_id))
