"""Reads the files of one folder: settings, rules, MCP servers, extensions, and remarks for people. Everything blocks.

A project's files count only if a person has trusted them as they are. When they differ from what was trusted, what they
forbade stays forbidden, and what they added is gone.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from session_core.assembly.surroundings import AgentEnvironment, project_places
from session_core.config.load import find_trusted_fingerprint, load_config
from session_core.config.problems import ConfigInvalid, ConfigProblem
from session_core.config.toml_files import CONFIG_FILE, PROJECT_FOLDER
from session_core.config.values import Config
from session_core.mcp.config import McpConfig, ServerConfig, load_mcp_config
from session_core.permissions.rules import PermissionRule
from session_core.sandbox.trust import Fingerprint, TooMuchToTrust, TrustStore, take_fingerprint
from session_core.sandbox.workspace import Workspace, WorkspaceRefused
from session_core.sep.host.catalogue.search_paths import CONSENT_FILE, discover_in, has_extensions

if TYPE_CHECKING:
    from session_core.sep.host.catalogue.discovery import DiscoveredExtension, Discovery, SkippedExtension

MCP_FILE: Final = "mcp.json"
TRUST_FILE: Final = "trust.json"
_TRUST_CHANGED: Final = (
    "the files of this folder are not the ones that were trusted; "
    "its settings stay as they were until it is trusted again, or the program is restarted"
)


def rules_of(config: Config) -> Iterable[PermissionRule]:
    """Return all rules, plus a denying one for each disabled tool: a model may still know about it."""
    disabled = (PermissionRule(decision="deny", tool=name) for name in config.disabled_tools)
    return (*config.permissions, *disabled)


def read_user_settings(place: AgentEnvironment, flags: Mapping[str, object]) -> Config:
    """Return the configuration without that of any folder.

    Raises:
        ConfigInvalid: Something in it is wrong.
    """
    return load_config(place.home, None, place.environ, flags)


def states_anything(config: Config) -> bool:
    """Return whether a project's file contributes to a configuration."""
    return any(source.layer == "project" for source in config.sources.values())


def read_servers(
    place: AgentEnvironment, config: Config, *, trust: Fingerprint | None = None, project_file: Path | None = None
) -> McpConfig:
    """Return the MCP servers of a place: the user's own, and those of a trusted project."""
    return load_mcp_config(
        folder=place.folder,
        trusted=trust,
        environment=place.environ,
        user_file=Path(config.mcp_file) if config.mcp_file else place.home / MCP_FILE,
        project_file=project_file,
    )


def list_trust_remarks(place: AgentEnvironment, *, trusted: bool) -> Iterator[str]:
    """Return remarks about files that would count if the folder were trusted."""
    if trusted:
        return
    try:
        if take_fingerprint(Workspace(place.folder)).is_empty:
            return
    except (TooMuchToTrust, WorkspaceRefused, OSError, ValueError):
        pass
    was_trusted = os.path.realpath(place.folder) in TrustStore(place.home).folders()
    state = "has changed since you trusted it" if was_trusted else "is not trusted"
    yield (
        f"this folder {state}, so its AGENTS.md, skills, settings, MCP servers and extensions are not used "
        f"({'to look at it and trust it again' if was_trusted else 'to trust it'}: session-core trust)"
    )


class SettingsReader:
    """Rereads the configuration of a folder, and never drops a project's settings silently.

    Args:
        place: The home, and the folder.
        flags: Settings that override those of any file.
        last: The configuration in force before, if any.
    """

    def __init__(self, place: AgentEnvironment, flags: Mapping[str, object], last: Config | None = None) -> None:
        self.place = place
        self.last = last
        self.trust: Fingerprint | None = None
        self._flags = flags

    def __call__(self) -> Config:
        """Return the current configuration.

        Raises:
            ConfigInvalid: It cannot be used, or would lack the settings of a trusted project.
        """
        self.trust = self._trust_now()
        self._refuse_to_forget()
        place = self.place
        config = load_config(place.home, Path(place.folder), place.environ, self._flags, trust=self.trust)
        if self.trust is not None and not states_anything(config) and self._trust_now() != self.trust:
            self.trust = None  # a file changed meanwhile, and its earlier settings were left out
            self._refuse_to_forget()
        self.last = config
        return config

    def _trust_now(self) -> Fingerprint | None:
        return find_trusted_fingerprint(self.place.home, Path(self.place.folder))

    def _refuse_to_forget(self) -> None:
        if self.has_retained_settings:
            # They only make things stricter: changing a file must not be a way to get rid of them.
            raise ConfigInvalid([ConfigProblem(place=self.place.folder, what=_TRUST_CHANGED)])

    @property
    def has_retained_settings(self) -> bool:
        """Whether the earlier settings are kept because the files are not those that were trusted."""
        return self.trust is None and self.last is not None and states_anything(self.last)


class FolderFiles:
    """Reads the files of one folder, each time they have changed.

    Attributes:
        settings: Reads the configuration.
        servers: The MCP servers that sessions there have.
        may_run: The folder's own extensions that may run: it is trusted, and a person has consented to each.
        unused: The other extensions that it has.
        remarks: Remarks for people about this folder.
    """

    def __init__(self, home: AgentEnvironment, folder: str, flags: Mapping[str, object], last: Config | None) -> None:
        self._home = home
        self._place = home.with_folder(folder)
        self.settings = SettingsReader(self._place, flags, last)
        self.servers: tuple[ServerConfig, ...] = ()
        self.may_run: tuple[DiscoveredExtension, ...] = ()
        self.unused: tuple[SkippedExtension, ...] = ()
        self.remarks: tuple[str, ...] = ()

    @property
    def watched(self) -> tuple[Path, ...]:
        """The files to watch."""
        home, folder = self._place.home, Path(self._place.folder)
        settings = home / CONFIG_FILE, folder / PROJECT_FOLDER / CONFIG_FILE, home / TRUST_FILE
        extensions = project_places(self._place, trusted=False).project
        return (*settings, home / MCP_FILE, folder / MCP_FILE, self._consents, *extensions)

    @property
    def _consents(self) -> Path:
        return self._place.home / CONSENT_FILE

    def __call__(self) -> Config:
        """Return the configuration as it is now; raises as `SettingsReader` does."""
        try:
            return self.settings()
        finally:
            if self.settings.last is not None:
                self._read_the_rest(self.settings.last)

    def _read_the_rest(self, config: Config) -> None:
        trust = self.settings.trust
        own_file = Path(self._place.folder, MCP_FILE)
        found = read_servers(self._place, config, trust=trust, project_file=own_file)
        self.servers = found.servers
        extensions = self._extensions_of(config, trusted=trust is not None)
        self.may_run = extensions.found if extensions is not None else ()
        self.unused = extensions.skipped if extensions is not None else ()
        self.remarks = (
            *(each.sentence for each in config.ignored),
            *(str(each) for each in found.problems if each.file == str(own_file)),
            *list_trust_remarks(self._place, trusted=trust is not None),
            *(list_extension_remarks(extensions) if extensions is not None else ()),
        )

    def _extensions_of(self, config: Config, *, trusted: bool) -> "Discovery | None":
        places = project_places(self._place, trusted=trusted)
        if not config.extensions or not has_extensions(places):
            return None
        from session_core.sep.host.catalogue.consent import Consents

        if trusted:
            import_module("session_core.assembly.extension_setup")  # slow to import, so do it in this thread
        return discover_in(places, Consents(self._consents))


def list_extension_remarks(found: "Discovery") -> Iterator[str]:
    """Describe which extensions of a trusted folder are not used, and why, unless the user chose that."""
    for each in found.skipped:
        if each.kind == "no_consent":
            how = f"to look at it: session-core ext trust {each.name}"
            yield f"the extension {each.name} of this folder is not used: {each.reason} ({how})"
        elif each.kind == "invalid":
            yield f"the extension {each.name!r} of this folder is not used: {each.reason}"
