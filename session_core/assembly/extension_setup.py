"""The extensions of a setup: where they are searched, how they start, and when they reload automatically."""

import json
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import trio

from session_core.assembly.surroundings import AgentEnvironment, project_places, user_places
from session_core.config.load import find_trusted_fingerprint
from session_core.config.values import Config
from session_core.errors import SessionCoreError
from session_core.sep.host.catalogue.agreed_copies import AgreedCopies
from session_core.sep.host.catalogue.consent import CONSENT_FILE, Consents
from session_core.sep.host.catalogue.discovery import DiscoveredExtension, Discovery, SkippedExtension
from session_core.sep.host.catalogue.folder_digest import NotDigestible, digest_of, outline_of
from session_core.sep.host.catalogue.search_paths import discover_in
from session_core.sep.host.config import ParticipationRule
from session_core.sep.host.host import ExtensionHost, HostConfig
from session_core.sep.host.models.credentials import CREDENTIALS_FILE, CredentialFile
from session_core.sep.host.process.launch_command import ExtensionLaunch, LaunchRefused, prepare_launch
from session_core.sep.protocol.names import Mode
from session_core.service.extension_bridge.delegate import run_host

if TYPE_CHECKING:
    from session_core.service.service import SessionService

LOGS: Final = Path("logs") / "extensions"
_LOOK_EVERY_S: Final = 1.0


def make_host(
    place: AgentEnvironment, config: Config, mode: Mode, takes_part: ParticipationRule, *, of_folder: bool = False
) -> ExtensionHost:
    """Build the host of the user's own extensions or, with `of_folder`, of those of one trusted folder.

    Starts nothing yet. Blocks, except for a folder.
    """

    def discover(consents: Consents) -> Discovery:
        places = project_places(place, trusted=_is_trusted(place)) if of_folder else user_places(place)
        return discover_in(places, consents)

    consents = Consents(place.home / CONSENT_FILE)
    copies = AgreedCopies.in_home(place.home) if place.is_persistent else AgreedCopies()
    look = partial(_discover_extensions, discover, consents)
    host_config = HostConfig(
        folder=place.folder,
        trusted=of_folder or _is_trusted(place),
        mode=mode,
        flags=flags_of(config.extension_flags),
        logs=place.home / LOGS if place.is_persistent else None,
        serves=place.folder if of_folder else None,
    )
    return ExtensionHost(
        partial(look, frozenset(config.watched_extensions)),
        host_config,
        prepare=partial(_prepare, place, copies),
        enable=partial(_set_enabled, partial(look, frozenset()), consents),
        credentials=CredentialFile(place.home / CREDENTIALS_FILE if place.is_persistent else None),
        reserved=[each.name for each in config.providers],
        takes_part=takes_part,
    )


def _is_trusted(place: AgentEnvironment) -> bool:
    return find_trusted_fingerprint(place.home, Path(place.folder)) is not None


def _discover_extensions(
    discover: Callable[[Consents], Discovery], consents: Consents, watched: frozenset[str]
) -> Discovery:
    found = discover(consents)
    developed = [each for each in found.skipped if each.kind == "no_consent" and _is_developed(each, consents, watched)]
    for each in developed:
        assert each.digest is not None
        consents.agree(each.name, each.folder, each.digest)
    return discover(consents) if developed else found


def _is_developed(skipped: SkippedExtension, consents: Consents, watched: frozenset[str]) -> bool:
    """Return whether the user is developing an extension that they have consented to once."""
    known = consents.find(skipped.name, skipped.folder)
    agreed_once = known is not None and known.digest is not None
    return skipped.scope == "user" and skipped.name in watched and skipped.digest is not None and agreed_once


async def _prepare(place: AgentEnvironment, copies: AgreedCopies, found: DiscoveredExtension) -> ExtensionLaunch:
    if found.scope == "project" and not await trio.to_thread.run_sync(_is_trusted, place):
        raise LaunchRefused("the folder that it came with is no longer trusted")
    workspace = place.folder if found.scope == "project" else None  # the user's own serve many folders
    return await prepare_launch(found, place.environ, workspace=workspace, hidden=(str(place.home),), copies=copies)


def _set_enabled(look: Callable[[], Discovery], consents: Consents, name: str, enabled: bool) -> None:  # noqa: FBT001 - see `enable`
    known = look()
    every: tuple[DiscoveredExtension | SkippedExtension, ...] = (*known.found, *known.skipped)
    for each in every:
        if each.name == name:
            consents.set_enabled(name, each.folder, enabled=enabled)


def flags_of(texts: Iterable[str]) -> dict[str, Any]:
    """Read flags as people write them: `name` is true, `name=value` is a number, true, false, or a string."""
    flags: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        try:
            plain = json.loads(value, parse_constant=str) if equals else True  # no NaN: it cannot be sent
        except ValueError:
            plain = value
        flags[name.strip().lstrip("-")] = plain if isinstance(plain, str | int | float | bool) else value
    return flags


async def run_extensions(host: ExtensionHost, watched: Iterable[str], service: "SessionService") -> None:
    """Run the extensions beside a service, and reload those under development when their files change."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_host, host, service)
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
