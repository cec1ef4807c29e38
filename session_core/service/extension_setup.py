"""The extensions of a setup: where they are looked for, how they start, and when they are reloaded by themselves."""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs
import trio

from session_core.agent.hooks import Hooks
from session_core.agent.turn import ToolSource
from session_core.config.load import trusted_project
from session_core.config.tool_names import is_disabled
from session_core.config.values import Config
from session_core.errors import SessionCoreError
from session_core.ids import SessionId
from session_core.sep.consent import CONSENT_FILE, Consents
from session_core.sep.credentials import CREDENTIALS_FILE, CredentialFile
from session_core.sep.discovery import Discovery, Found, Skipped
from session_core.sep.folder_digest import NotDigestible, digest_of, outline_of
from session_core.sep.host import ExtensionHost, HostSetting
from session_core.sep.launch import Launch, prepare_launch
from session_core.sep.names import Mode
from session_core.sep.places import discover_in
from session_core.sep.tools import ExtensionToolSource
from session_core.service.config import ServiceConfig
from session_core.service.extensions import ExtensionHooks, accompany
from session_core.service.folder_extensions import FolderHooks, FolderTools
from session_core.service.folders import Folders
from session_core.service.place import Place, extension_places
from session_core.tools.base import Tool

if TYPE_CHECKING:
    from session_core.service.service import SessionService

LOGS: Final = Path("logs") / "extensions"
_LOOK_EVERY_S: Final = 1.0
T = TypeVar("T")


class Joined(Mapping[str, T]):
    """What is configured, and what extensions bring at the moment; what is configured comes first."""

    def __init__(self, configured: Mapping[str, T], brought: Mapping[str, T]) -> None:
        self._configured = configured
        self._brought = brought

    def __getitem__(self, name: str) -> T:
        return self._configured[name] if name in self._configured else self._brought[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._configured, *self._brought)))

    def __len__(self) -> int:
        return len({*self._configured, *self._brought})

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self._configured or name in self._brought)


class SwitchedOn:
    """The tools of extensions that nobody has switched off."""

    def __init__(self, source: ExtensionToolSource, config: Config) -> None:
        self._source = source
        self._config = config

    def tools(self, session_id: SessionId) -> tuple[Tool, ...]:
        """Return those that a session's model is shown."""
        return tuple(tool for tool in self._source.tools(session_id) if not is_disabled(self._config, tool.spec.name))


async def join_extensions(
    service: ServiceConfig, place: Place, config: Config, mode: Mode, folders: Folders | None = None
) -> ServiceConfig:
    """Let extensions take part in a service: with hooks, tools, models and commands.

    With `folders`, each of them says whether extensions have a part in its sessions, and which tools are switched off.
    """
    host = await trio.to_thread.run_sync(make_host, place, config, mode)
    hooks: Hooks = ExtensionHooks(host)
    tools: ToolSource = SwitchedOn(host.tools, config)
    if folders is not None:
        hooks, tools = FolderHooks(hooks, folders), FolderTools(host.tools, folders)
    return attrs.evolve(
        service,
        models=Joined(service.models, host.models.providers),
        model_infos=Joined(service.model_infos, host.models.infos),
        hooks=hooks,
        tool_sources=(*service.tool_sources, tools),
        extensions=host,
        companions=(*service.companions, partial(run_extensions, host, config.watched_extensions)),
    )


def host_of(service: ServiceConfig) -> ExtensionHost | None:
    """Return the host of the extensions that have joined."""
    return service.extensions if isinstance(service.extensions, ExtensionHost) else None


def make_host(place: Place, config: Config, mode: Mode = "headless") -> ExtensionHost:
    """Put the host of a service's extensions together; it blocks. Nothing is started yet."""
    consents = Consents(place.home / CONSENT_FILE)
    watched = frozenset(config.watched_extensions)
    setting = HostSetting(
        folder=place.folder,
        trusted=_is_trusted(place),
        mode=mode,
        flags=flags_of(config.extension_flags),
        logs=place.home / LOGS if place.keeps else None,
    )
    return ExtensionHost(
        partial(_look, place, consents, watched),
        setting,
        prepare=partial(_prepare, place),
        enable=partial(_switch, place, consents),
        credentials=CredentialFile(place.home / CREDENTIALS_FILE if place.keeps else None),
        reserved=[each.name for each in config.providers],
    )


def _is_trusted(place: Place) -> bool:
    return not place.whole_home and trusted_project(place.home, Path(place.folder)) is not None


def _look(place: Place, consents: Consents, watched: frozenset[str]) -> Discovery:
    places = extension_places(place, trusted=_is_trusted(place))
    found = discover_in(places, consents)
    developed = [each for each in found.skipped if each.kind == "no_consent" and _is_developed(each, consents, watched)]
    for each in developed:
        assert each.digest is not None
        consents.agree(each.name, each.folder, each.digest)
    return discover_in(places, consents) if developed else found


def _is_developed(skipped: Skipped, consents: Consents, watched: frozenset[str]) -> bool:
    """Tell whether somebody works on an extension of their own, to which they have agreed once."""
    known = consents.find(skipped.name, skipped.folder)
    agreed_once = known is not None and known.digest is not None
    return skipped.scope == "user" and skipped.name in watched and skipped.digest is not None and agreed_once


async def _prepare(place: Place, found: Found) -> Launch:
    workspace = None if place.whole_home else place.folder
    return await prepare_launch(found, place.environ, workspace=workspace, hidden=(str(place.home),))


def _switch(place: Place, consents: Consents, name: str, enabled: bool) -> None:  # noqa: FBT001 - see `enable`
    known = _look(place, consents, frozenset())
    every: tuple[Found | Skipped, ...] = (*known.found, *known.skipped)
    for each in every:
        if each.name == name:
            consents.set_enabled(name, each.folder, enabled=enabled)


def flags_of(texts: Iterable[str]) -> dict[str, Any]:
    """Read flags as people write them: `name` is true, `name=value` is a number, true, false, or a text."""
    flags: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        try:
            plain = json.loads(value, parse_constant=str) if equals else True  # no NaN: nobody could be told of it
        except ValueError:
            plain = value
        flags[name.strip().lstrip("-")] = plain if isinstance(plain, str | int | float | bool) else value
    return flags


async def run_extensions(host: ExtensionHost, watched: Iterable[str], service: "SessionService") -> None:
    """Run the extensions beside a service, and reload those that somebody works on when their files change."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(accompany, host, service)
        for name in watched:
            nursery.start_soon(_watch, host, name)


async def _watch(host: ExtensionHost, name: str) -> None:
    """Reload an extension when its files change; they are read only when names, sizes or times have changed."""
    tried: str | None = None
    seen: tuple[Path, str] | None = None
    await host.settled.wait()
    while True:
        await trio.sleep(_LOOK_EVERY_S)
        extension = next((each for each in host.extensions if each.name == name), None)
        if extension is None:
            continue
        folder = extension.found.folder
        try:
            outline = await trio.to_thread.run_sync(outline_of, folder)
            if seen == (folder, outline):
                continue
            now = await trio.to_thread.run_sync(digest_of, folder)
        except (NotDigestible, OSError):
            continue
        seen = folder, outline
        if now in {extension.found.digest, tried}:
            continue
        tried = now
        try:
            await host.reload(name)
        except SessionCoreError as error:
            extension.log.note("host", error.message)
