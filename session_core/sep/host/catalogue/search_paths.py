"""The folders that hold extensions: our own, and those that other hosts of the protocol use.

This module imports little: a program that finds no extensions needs nothing else of this package.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from session_core.sep.host.catalogue.consent import Consents
    from session_core.sep.host.catalogue.discovery import Discovery

EXTENSIONS_FOLDER: Final = "extensions"
"""The name of the folder of extensions, in the home and in a project's `.session-core`."""
CONSENT_FILE: Final = "extensions.json"
"""The name of the file in the home that stores consents."""
OWN_PROJECT_FOLDER: Final = ".session-core"
SMOOTH_FOLDER: Final = ".smooth"
SMOOTH_VARIABLE: Final = "SMOOTH_HOME"
ALLOW_VARIABLE: Final = "SMOOTH_EXTENSIONS_ALLOW"
"""The variable that lists the names that may run, separated by commas; if it is set, no others may."""


@attrs.frozen(kw_only=True)
class SearchPaths:
    """Where to look for extensions, the more important folders first.

    Attributes:
        user: The user's own.
        project: Those of the current folder; they are used only if it is trusted.
        trusted: Whether that folder is trusted, with its files as they are now.
        allow: The only names that may run; all may if there is no list.
    """

    user: tuple[Path, ...]
    project: tuple[Path, ...]
    trusted: bool
    allow: frozenset[str] | None = None


def build_search_paths(home: Path, folder: Path, environ: Mapping[str, str], *, trusted: bool) -> SearchPaths:
    """Return the folders to search."""
    user = (home / EXTENSIONS_FOLDER, *_smooth_home(environ))
    own = {os.path.realpath(each) for each in user}
    project = (folder / OWN_PROJECT_FOLDER / EXTENSIONS_FOLDER, folder / SMOOTH_FOLDER / EXTENSIONS_FOLDER)
    named = environ.get(ALLOW_VARIABLE)
    return SearchPaths(
        user=user,
        # If the current folder contains the home, the extensions there are the user's own, not a project's.
        project=tuple(each for each in project if os.path.realpath(each) not in own),
        trusted=trusted,
        allow=None if named is None else frozenset(name.strip() for name in named.split(",") if name.strip()),
    )


def _smooth_home(environ: Mapping[str, str]) -> list[Path]:
    try:
        chosen = Path(environ.get(SMOOTH_VARIABLE, "")).expanduser()
        home = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
        return [(chosen if chosen.is_absolute() else home / SMOOTH_FOLDER) / EXTENSIONS_FOLDER]
    except RuntimeError:  # a user without a home directory
        return []


def has_extensions(places: SearchPaths) -> bool:
    """Return whether these folders contain anything; it blocks."""
    return any(map(_has_content, (*places.user, *places.project)))


def _has_content(folder: Path) -> bool:
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is not None
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True  # the actual search reports what is wrong with it


def discover_in(places: SearchPaths, consents: "Consents") -> "Discovery":
    """Search all folders; it blocks."""
    from session_core.sep.host.catalogue.discovery import discover

    return discover(places, consents)
