"""Check whether the packages of the HTTP listener are installed, without importing them."""

from importlib.util import find_spec
from typing import Final

_PARTS: Final = ("hypercorn", "starlette", "wsproto")
INSTALL: Final = "pip install 'session-core[server]'"
MISSING: Final = f"HTTP needs more packages: {INSTALL}"


def is_installed() -> bool:
    """Return whether the packages are installed."""
    return all(find_spec(part) is not None for part in _PARTS)
