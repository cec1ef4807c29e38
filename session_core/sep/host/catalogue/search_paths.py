"""The folders in which extensions lie: our own, and those that other hosts of the protocol use.

Little is imported here: those who find no extension at all need nothing else of this package.
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
"""The name of the file in the home that keeps what people have agreed to."""
OWN_PROJECT_FOLDER: Final = ".session-core"
SMOOTH_FOLDER: Final = ".smooth"
SMOOTH_VARIABLE: Final = "SMOOTH_HOME"
ALLOW_VARIABLE: Final = "SMOOTH_EXTENSIONS_ALLOW"
"""Names that may run, with commas between; when it is set, nobody else may."""


@attrs.frozen(kw_only=True)
class SearchPaths:
    """Where extensions are looked for, the more important folders first.

    Attributes:
        user: The user's own.
        project: Those of the folder somebody works in; they count only if it is trusted.
        trusted: Whether it is, with its files as they are now.
        allow: The only names that may run; everybody may when there is no list.
    """

    user: tuple[Path, ...]
    project: tuple[Path, ...]
    trusted: bool
    allow: frozenset[str] | None = None


def build_search_paths(home: Path, folder: Path, environ: Mapping[str, str], *, trusted: bool) -> SearchPaths:
    """Return where to look."""
    user = (home / EXTENSIONS_FOLDER, *_smooth_home(environ))
    own = {os.path.realpath(each) for each in user}
    project = (folder / OWN_PROJECT_FOLDER / EXTENSIONS_FOLDER, folder / SMOOTH_FOLDER / EXTENSIONS_FOLDER)
    named = environ.get(ALLOW_VARIABLE)
    return SearchPaths(
        user=user,
        # Who works in the folder that holds the home finds their own extensions there, not those of a project.
        project=tuple(each for each in project if os.path.realpath(each) not in own),
        trusted=trusted,
        allow=None if named is None else frozenset(name.strip() for name in named.split(",") if name.strip()),
    )


def _smooth_home(environ: Mapping[str, str]) -> list[Path]:
    try:
        chosen = Path(environ.get(SMOOTH_VARIABLE, "")).expanduser()
        home = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
        return [(chosen if chosen.is_absolute() else home / SMOOTH_FOLDER) / EXTENSIONS_FOLDER]
    except RuntimeError:  # a user without a home
        return []


def has_extensions(places: SearchPaths) -> bool:
    """Tell whether there is anything to look at in these folders; it blocks."""
    return any(map(_has_content, (*places.user, *places.project)))


def _has_content(folder: Path) -> bool:
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is not None
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True  # whoever looks closely says what is wrong with it


def discover_in(places: SearchPaths, consents: "Consents") -> "Discovery":
    """Look through all folders; it blocks."""
    from session_core.sep.host.catalogue.discovery import discover

    return discover(places.user, places.project, consents, project_trusted=places.trusted, allow=places.allow)
