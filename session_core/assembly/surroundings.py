"""Where an agent works."""

import os
from collections.abc import Mapping
from pathlib import Path

import attrs

from session_core.sep.host.catalogue.search_paths import SearchPaths, build_search_paths


@attrs.frozen(kw_only=True)
class AgentEnvironment:
    """Where an agent works.

    Attributes:
        home: The user's home of sessions, settings and keys.
        folder: The working folder of sessions that name none.
        environ: The environment variables.
        is_persistent: Whether anything is written to the home.
    """

    home: Path
    folder: str
    environ: Mapping[str, str] = attrs.field(repr=False)  # it contains keys
    is_persistent: bool = True

    def with_folder(self, folder: str) -> "AgentEnvironment":
        """Return the environment of sessions that work in a folder."""
        return attrs.evolve(self, folder=folder)


def current_environment(home: Path, folder: str | None = None, *, is_persistent: bool = True) -> AgentEnvironment:
    """Return the environment of this process for a home and a folder, by default the user's home directory."""
    where = folder or os.environ.get("HOME") or str(Path.home())
    return AgentEnvironment(home=home, folder=where, environ=dict(os.environ), is_persistent=is_persistent)


def user_places(place: AgentEnvironment) -> SearchPaths:
    """Return where to search for the user's own extensions."""
    return attrs.evolve(build_search_paths(place.home, Path(place.folder), place.environ, trusted=False), project=())


def project_places(place: AgentEnvironment, *, trusted: bool) -> SearchPaths:
    """Return where to search for the extensions of a project, without the user's own."""
    return attrs.evolve(build_search_paths(place.home, Path(place.folder), place.environ, trusted=trusted), user=())
