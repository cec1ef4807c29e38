"""Permission modes in words: a few for the status line, a sentence for the picker."""

from __future__ import annotations

from typing import Final

import attrs

import session_core as sc


@attrs.frozen
class Words:
    """The texts of a permission mode."""

    short: str
    long: str


MODES: Final[dict[sc.PermissionMode, Words]] = {
    "read_only": Words("reads only", "only reads; changes nothing and runs nothing"),
    "ask_all": Words("asks always", "asks before every tool"),
    "ask_writes": Words("asks before changes", "asks before it changes a file or runs a command"),
    "auto_edit": Words("edits freely", "edits files in the folder without asking, asks before commands"),
    "full": Words("rarely asks", "asks only what every mode asks; the sandbox still applies"),
}
