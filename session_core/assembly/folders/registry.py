"""The folders that sessions of one service work in: the settings of each, kept while it is used.

Rules:
1. A folder is identified by its real path. A worker thread reads its files before anything happens there, and checks
   them again at the start of each turn and periodically. A changed file counts from the next call on, only in sessions
   of this folder; an unusable one changes nothing, and is reported.
2. A folder whose files were wrong at the first read refuses everything: no session runs without its rules.
3. Its MCP servers are opened when a turn begins there, and are replaced only between turns.
4. Only a limited number of unused folders stay open; the least recently used are closed. The prohibitions of their
   trusted files are remembered: closing a folder is no way around them.
5. Its own extensions start when it is first loaded, and end when it is closed; see `extension_hosts`.
"""

import logging
import os
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import islice
from typing import TYPE_CHECKING

import attrs
import trio

from session_core.agent.folder_settings import FolderUnusable
from session_core.assembly.folders.extension_hosts import FolderHosts
from session_core.assembly.folders.files import FolderFiles, rules_of, states_anything
from session_core.assembly.folders.folder import OpenFolder as OpenFolder
from session_core.assembly.folders.mcp_servers import ServerPool
from session_core.assembly.surroundings import AgentEnvironment
from session_core.config.problems import MAX_PROBLEMS, ConfigProblem
from session_core.config.settings import RULES
from session_core.config.toml_files import CONFIG_FILE
from session_core.config.values import Config
from session_core.config.watch import LOOK_EVERY_S, ConfigWatcher, changed_settings
from session_core.error_capture import ErrorCapture
from session_core.foreign_faults import FOREIGN_FAULTS, must_propagate
from session_core.ids import SessionId
from session_core.limits import MAX_ERROR_CHARS, MAX_OPEN_FOLDERS, MAX_STATED_FOLDERS
from session_core.permissions.rules import PermissionRule
from session_core.sep.protocol.names import Mode
from session_core.vocabulary.events import ConfigurationChanged

if TYPE_CHECKING:
    from session_core.sep.host.config import ParticipationRule
    from session_core.sep.host.host import ExtensionHost
    from session_core.service.service import SessionService


# Reports about one folder: changes of its own files, not of the user's files, which concern all folders.
def build_folder_event(
    folder: str,
    *,
    changed: Sequence[str] = (),
    problems: Iterable[ConfigProblem] = (),
    warnings: Iterable[str] = (),
) -> ConfigurationChanged:
    """Return the event that reports on a folder, within bounds."""
    return ConfigurationChanged(
        changed=tuple(changed),
        problems=_bounded(each.sentence for each in problems),
        warnings=_bounded(warnings),
        folder=folder,
    )


def own_changes(before: Config, after: Config) -> tuple[str, ...]:
    """Return the settings that a project has changed for its sessions, by their keys."""
    if before is after:
        return ()
    stated = [
        key
        for key in changed_settings(before, after)
        if key != RULES and "project" in (before.source(key).layer, after.source(key).layer)
    ]
    if _project_rules(before) != _project_rules(after):
        stated.append(RULES)
    return tuple(stated)


def _project_rules(config: Config) -> list[PermissionRule]:
    return [
        rule
        for number, rule in enumerate(config.permissions, start=1)
        if config.source(f"{RULES}[{number}]").layer == "project"
    ]


def _bounded(sentences: Iterable[str]) -> tuple[str, ...]:
    return tuple(each[:MAX_ERROR_CHARS] for each in islice(sentences, MAX_PROBLEMS))


# --- registry ---------------------------------------------------------------------------------------------------------

log = logging.getLogger(__name__)

_MOST_NAMES = 64
_MAX_PENDING_EVENTS = 64


@attrs.define(eq=False, kw_only=True)
class Folders:
    """All folders in use; see `FolderSettingsSource`. Created by `open_folders`."""

    _home: AgentEnvironment
    _base: Config
    _flags: Mapping[str, object]
    _nursery: trio.Nursery
    _mode: Mode
    _most: int
    _every_s: float
    _pool: ServerPool = attrs.field(init=False)
    _open: dict[str, OpenFolder] = attrs.field(factory=dict, init=False)  # most recently used last
    _names: dict[str, str] = attrs.field(factory=dict, init=False)
    _stated: dict[str, Config] = attrs.field(factory=dict, init=False)
    _pending_events: deque[ConfigurationChanged] = attrs.field(
        factory=lambda: deque(maxlen=_MAX_PENDING_EVENTS), init=False
    )
    _service: "SessionService | None" = attrs.field(default=None, init=False)
    _started: trio.Event = attrs.field(factory=trio.Event, init=False)
    _visited: set[str] = attrs.field(factory=set, init=False)
    hosting: FolderHosts = attrs.field(init=False)
    """Runs the extensions of folders."""

    def __attrs_post_init__(self) -> None:
        self._pool = ServerPool(self._nursery)
        self.hosting = FolderHosts(self._make_host, self.works_in)

    # --- lookup -------------------------------------------------------------------------------------------------------

    has_files = True

    def get_known(self, cwd: str) -> OpenFolder | None:
        """Return a folder if it is loaded, without checking its files."""
        folder = self._open.get(self._names.get(cwd, ""))
        return folder if folder is not None and folder.watcher is not None else None

    async def load(self, cwd: str) -> OpenFolder:
        """Return a folder, and load it first if needed.

        Raises:
            FolderUnusable: Its files are wrong.
        """
        folder = self.get_known(cwd)
        if folder is None or (
            cwd != folder.path and await _resolve_path(cwd) != folder.path
        ):  # a link may point elsewhere now
            folder = await self._enter(cwd)
            self._leave(folder)
        return folder

    async def hold(self, cwd: str, *, work: bool = True) -> Callable[[], None]:
        """Check a folder again and hold it until the returned function is called; with `work`, open its servers.

        Raises:
            FolderUnusable: Its files are wrong.

        Cancellation: the folder is not held.
        """
        folder = await self._enter(cwd)
        try:
            if work:
                await self._wait_for_extensions(folder)
                await self._bring_servers(folder)
        except BaseException:
            self._leave(folder)
            raise
        return self._build_release(folder, work=work)

    @contextmanager
    def keep(self, folder: OpenFolder | None) -> Generator[None]:
        """Hold an open folder as it is within the block, if there is one."""
        if folder is None:
            yield
            return
        folder.holds += 1
        try:
            yield
        finally:
            self._leave(folder)

    def _build_release(self, folder: OpenFolder, *, work: bool) -> Callable[[], None]:
        held = True

        def release() -> None:
            nonlocal held
            if held:
                held = False
                folder.working -= work
                self._leave(folder)

        return release

    async def wait_for_extensions(self, cwd: str) -> None:
        """Wait, but not for long, until the extensions of a loaded folder have been started."""
        if (folder := self.get_known(cwd)) is not None:
            await self._wait_for_extensions(folder)

    async def _wait_for_extensions(self, folder: OpenFolder) -> None:
        if folder.may_run:
            await self._started.wait()  # nothing starts before that, and they may have to be asked
            await self.hosting.until_settled(folder)

    def visit(self, cwd: str) -> None:
        """Load a folder's settings in the background if they are not loaded yet; never blocks."""
        closing = self._nursery.cancel_scope.cancel_called
        if not closing and cwd not in self._visited and self.get_known(cwd) is None:
            self._visited.add(cwd)
            self._nursery.start_soon(self._visit, cwd)

    async def _visit(self, cwd: str) -> None:
        try:
            await self.load(cwd)
        except FolderUnusable as unusable:
            log.info("%s", unusable.message)
        except FOREIGN_FAULTS as bug:
            if must_propagate(bug):
                raise
            log.exception("the folder %s could not be read", cwd)  # no caller waits for it
        finally:
            self._visited.discard(cwd)

    def works_in(self, folder: OpenFolder, session_id: SessionId) -> bool:
        """Return whether a session works in a folder that lets extensions take part."""
        return self.known_folder_of_session(session_id) is folder and folder.config.extensions

    async def find_folder_of_session(self, session_id: SessionId) -> OpenFolder | None:
        """Return the folder that a session works in, if the session exists; raises like `load`."""
        await self._started.wait()
        cwd = self._cwd_of(session_id)
        return None if cwd is None else await self.load(cwd)

    def known_folder_of_session(self, session_id: SessionId) -> OpenFolder | None:
        """Return the folder that a session works in if it is loaded, without checking its files."""
        cwd = self._cwd_of(session_id)
        return None if cwd is None else self.get_known(cwd)

    def is_settled_for(self, session_id: SessionId) -> bool:
        """Return whether `known_folder_of_session` is current without waiting: a link may point elsewhere now."""
        if not self._started.is_set():
            return False
        cwd = self._cwd_of(session_id)
        return cwd is None or ((folder := self.get_known(cwd)) is not None and folder.path == cwd)

    def _cwd_of(self, session_id: SessionId) -> str | None:
        summary = self._service.core.summary_of(session_id) if self._service is not None else None
        return summary.cwd if summary is not None else None

    def remarks(self, cwd: str) -> tuple[str, ...]:
        """Return remarks for people who work in a folder; none if it is not open."""
        folder = self.get_known(cwd)
        return () if folder is None else folder.files.remarks

    async def run(self, service: "SessionService") -> None:
        """Report changes of folders to the followers of a service, and run their extensions, until cancelled."""
        self._service = service
        async with trio.open_nursery() as nursery:
            await nursery.start(self.hosting.run, service)
            for folder in self._open.values():
                if folder.watcher is not None:
                    self.hosting.align(folder)
            self._started.set()
            while self._pending_events:
                service.tell(self._pending_events.popleft())
            await trio.lowlevel.checkpoint()

    # --- opening and closing ------------------------------------------------------------------------------------------

    async def _enter(self, cwd: str) -> OpenFolder:
        """Return a folder as it is now, held."""
        path = await _resolve_path(cwd)
        if self._names.get(cwd) != path:
            self._names.pop(cwd, None)
        folder = self._open.pop(path, None) or OpenFolder(path=path, files=self._files(path))
        self._open[path] = folder
        folder.holds += 1
        try:
            async with folder.lock:
                if folder.watcher is None:
                    await self._read(folder)
                else:
                    await self._check_files(folder)
        except BaseException:
            self._leave(folder)
            raise
        self._names[cwd] = path
        folder.names.pop(cwd, None)
        folder.names[cwd] = None
        if len(folder.names) > _MOST_NAMES:
            self._forget_name(folder, next(iter(folder.names)))
        return folder

    def _forget_name(self, folder: OpenFolder, name: str) -> None:
        del folder.names[name]
        if self._names.get(name) == folder.path:
            del self._names[name]

    def _files(self, path: str) -> FolderFiles:
        return FolderFiles(self._home, path, self._flags, self._stated.get(path))

    def _leave(self, folder: OpenFolder) -> None:
        folder.holds -= 1
        self._open[folder.path] = self._open.pop(folder.path)
        unused = [each for each in self._open.values() if not each.holds]
        known = [each for each in unused if each.watcher is not None]
        for each in (*known[: max(0, len(known) - self._most)], *(each for each in unused if each.watcher is None)):
            self._close(each)

    def _close(self, folder: OpenFolder) -> None:
        self.hosting.end(folder, "the folder has not been used for a long time")
        del self._open[folder.path]
        for name in tuple(folder.names):
            self._forget_name(folder, name)
        folder.scope.cancel(reason="the folder has not been used for a long time")
        self._pool.give_back(folder.servers)
        if folder.watcher is None:
            return
        self._stated.pop(folder.path, None)
        if states_anything(folder.config):
            # Without the parts that are the same for all, which take most of the memory.
            slim = attrs.evolve(folder.config, models=self._base.models, providers=self._base.providers)
            self._stated[folder.path] = slim
            if len(self._stated) > MAX_STATED_FOLDERS:
                forgotten = next(iter(self._stated))
                del self._stated[forgotten]
                log.warning(
                    "the prohibitions of the trusted files of %s apply again once they are read again", forgotten
                )

    async def _bring_servers(self, folder: OpenFolder) -> None:
        async with folder.lock:
            before, wanted = folder.servers, folder.files.servers
            if before.closed or (before.configs != wanted and not folder.working):
                folder.servers = await self._pool.take(wanted)
                self._pool.give_back(before)
            folder.working += 1
        try:
            await folder.servers.wait_until_known()
        except BaseException:
            folder.working -= 1
            raise

    # --- reading ------------------------------------------------------------------------------------------------------

    async def _read(self, folder: OpenFolder) -> None:
        """Read a folder for the first time."""
        files = folder.files
        watcher = ConfigWatcher(files, files.watched, files.settings.last or self._base, every_s=self._every_s)
        change = await watcher.poll()
        if change is not None and change.config is None and not files.settings.has_retained_settings:
            raise FolderUnusable(change.problems)
        folder.watcher = watcher
        folder.rules = tuple(rules_of(folder.config))
        problems = change.problems if change is not None else ()
        folder.reported_remarks = files.remarks
        self._report(build_folder_event(folder.path, problems=problems, warnings=files.remarks))
        self.hosting.align(folder)
        self._nursery.start_soon(self._check_periodically, folder)

    async def _check_periodically(self, folder: OpenFolder) -> None:
        """Check a folder periodically, until it is closed."""
        with folder.scope:
            while True:
                await trio.sleep(self._every_s)
                try:
                    async with folder.lock:
                        await self._check_files(folder)
                except FOREIGN_FAULTS as bug:
                    if must_propagate(bug):
                        raise
                    log.exception("the files of %s could not be checked", folder.path)

    async def _check_files(self, folder: OpenFolder) -> None:
        assert folder.watcher is not None
        before = folder.config
        change = await folder.watcher.poll()
        if change is not None and change.config is not None:
            folder.rules = tuple(rules_of(change.config))
        remarks = folder.files.remarks
        of_user = str(self._home.home / CONFIG_FILE)  # reported once for all folders
        event = build_folder_event(
            folder.path,
            changed=own_changes(before, folder.config),
            problems=[each for each in (change.problems if change is not None else ()) if each.place != of_user],
            warnings=remarks if remarks != folder.reported_remarks else (),
        )
        folder.reported_remarks = remarks
        self._report(event)
        self.hosting.align(folder)

    def _make_host(self, folder: OpenFolder, takes_part: "ParticipationRule") -> "ExtensionHost":
        from session_core.assembly.extension_setup import make_host

        place = self._home.with_folder(folder.path)
        return make_host(place, folder.config, self._mode, takes_part, of_folder=True)

    def _report(self, event: ConfigurationChanged) -> None:
        if not (event.changed or event.problems or event.warnings):
            return
        for problem in event.problems:
            log.warning("%s: %s", event.folder, problem)
        for remark in event.warnings:
            log.info("%s: %s", event.folder, remark)
        if self._service is None:
            self._pending_events.append(event)
        else:
            self._service.tell(event)


async def _resolve_path(cwd: str) -> str:
    return await trio.to_thread.run_sync(os.path.realpath, cwd)


@asynccontextmanager
async def open_folders(
    home: AgentEnvironment,
    base: Config,
    flags: Mapping[str, object],
    *,
    mode: Mode = "headless",
    most: int = MAX_OPEN_FOLDERS,
    every_s: float = LOOK_EVERY_S,
) -> AsyncGenerator[Folders]:
    """Follow folders within the block; at its end, close all of them with their MCP servers.

    Args:
        home: The place whose folders they are.
        base: The configuration from the user's own files.
        flags: Settings that override those of any file.
        mode: The kind of frontend, as reported to extensions.
        most: How many unused folders stay open.
        every_s: How often to check the files of each.
    """
    own = ErrorCapture()
    with own.reraise():
        async with trio.open_nursery() as nursery:
            try:
                with own.capture():
                    yield Folders(
                        home=home, base=base, flags=flags, nursery=nursery, mode=mode, most=most, every_s=every_s
                    )
            finally:
                nursery.cancel_scope.cancel(reason="the folders are being closed")
