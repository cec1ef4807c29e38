"""Where an agent works."""

import os
from collections.abc import Mapping
from pathlib import Path

import attrs


@attrs.frozen(kw_only=True)
class Place:
    """Where an agent works: the home, the folder, and the variables; `keeps` says whether anything is written there."""

    home: Path
    folder: str
    environ: Mapping[str, str] = attrs.field(repr=False)  # keys are in there
    keeps: bool = True


def surroundings(home: Path, folder: str, *, keeps: bool = True) -> Place:
    """Return a place in the environment of this process."""
    return Place(home=home, folder=folder, environ=dict(os.environ), keeps=keeps)
