"""Where an agent works."""

import os
from collections.abc import Mapping
from pathlib import Path

import attrs

from session_core.sep.host.catalogue.search_paths import Places, places_of


@attrs.frozen(kw_only=True)
class Place:
    """Where an agent works.

    Attributes:
        home: What belongs to the user.
        folder: The working folder of sessions that name none.
        environ: The variables.
        keeps: Whether anything is written there.
        whole_home: Whether sessions of any folder are served: then the files of `folder` count for nobody else.
    """

    home: Path
    folder: str
    environ: Mapping[str, str] = attrs.field(repr=False)  # keys are in there
    keeps: bool = True
    whole_home: bool = False

    def at(self, folder: str) -> "Place":
        """Return the place of sessions that work in a folder."""
        return attrs.evolve(self, folder=folder, whole_home=False)


def surroundings(home: Path, folder: str, *, keeps: bool = True) -> Place:
    """Return a place in the environment of this process."""
    return Place(home=home, folder=folder, environ=dict(os.environ), keeps=keeps)


def project_places(place: Place, *, trusted: bool) -> Places:
    """Return where the extensions of a project are looked for, without the user's own."""
    return attrs.evolve(places_of(place.home, Path(place.folder), place.environ, trusted=trusted), user=())


def extension_places(place: Place, *, trusted: bool) -> Places:
    """Return where extensions of a place are looked for; for many folders those of each are looked for apart."""
    places = places_of(place.home, Path(place.folder), place.environ, trusted=trusted)
    return attrs.evolve(places, project=(), trusted=False) if place.whole_home else places
