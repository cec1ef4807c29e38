"""The configuration that applies in a folder."""

from collections.abc import Mapping
from pathlib import Path

import session_core as sc


def load_folder_config(home: Path, folder: Path, environ: Mapping[str, str] | None = None) -> sc.setup.Config:
    """Read the user's settings, and those of a folder if a person has trusted its files as they are now; blocks.

    Raises:
        ConfigInvalid: There are problems; the error holds all of them.
    """
    return sc.setup.load_config(home, folder, environ, trust=sc.setup.find_trusted_fingerprint(home, folder))
