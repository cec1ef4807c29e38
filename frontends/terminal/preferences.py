"""What the terminal remembers between runs: a small private file in the home.

Losing it does no harm: an unreadable file counts as empty, and a failed write is ignored.
"""

from __future__ import annotations

import json
from contextlib import suppress
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
    with suppress(OSError, sc.SessionCoreError), sc.setup.hold_file_lock(home / FILE):
        sc.setup.replace_private(home / FILE, sc.wire.encode(attrs.asdict(remembered)))
