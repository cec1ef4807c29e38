"""What the terminal remembers between runs: a small private file in the home.

Losing it does no harm: an unreadable file counts as empty, and a failed write is ignored.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

import attrs

import session_core as sc

FILE: Final = "terminal.json"
_MOST_BYTES: Final = 64 * 1024


@attrs.frozen(kw_only=True)
class TerminalPreferences:
    """The remembered choices; None means never chosen."""

    theme: str | None = None
    sidebar: bool | None = None


def load_preferences(home: Path) -> TerminalPreferences:
    """Read the preferences; blocks, but only for a small file."""
    try:
        with (home / FILE).open("rb") as file:
            stored = json.loads(file.read(_MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return TerminalPreferences()
    if not isinstance(stored, dict):
        return TerminalPreferences()
    theme, sidebar = stored.get("theme"), stored.get("sidebar")
    return TerminalPreferences(
        theme=theme if isinstance(theme, str) else None, sidebar=sidebar if isinstance(sidebar, bool) else None
    )


def save_preferences(home: Path, remembered: TerminalPreferences) -> None:
    """Write the preferences atomically; blocks."""
    new = home / f".{FILE}.{os.getpid()}"
    try:
        descriptor = sc.setup.private_open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with os.fdopen(descriptor, "w") as file:
            json.dump(attrs.asdict(remembered), file)
        new.replace(home / FILE)
    except (OSError, sc.SessionCoreError):
        new.unlink(missing_ok=True)
