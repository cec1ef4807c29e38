"""Paths in a project that run code outside the sandbox when somebody next uses the project."""

import os
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

PROTECTED: Final[tuple[str, ...]] = (
    ".git",
    ".agents",
    ".session-core",
    ".claude",
    ".cursor",
    ".devcontainer",
    ".envrc",
    ".idea",
    ".mcp.json",
    ".vscode",
)
"""Relative to each root. The whole of `.git`, not its hooks and config alone: a file `commondir` in it moves both to
another place, and the notes of a half-done rebase hold commands."""


def is_protected_path(
    real_path: str, real_roots: Iterable[str], protected: Sequence[str], *, new_folder: bool = False
) -> bool:
    """Tell whether a change of `real_path`, which has no links in it, changes a protected path of one of the roots.

    A file in the place of a folder that would hold a protected path counts too: it decides what that folder is. A new
    folder there, still empty, does not.
    """
    for root in real_roots:
        relative = _beneath(real_path, root)
        if relative is None:
            continue
        names = _alike(relative)
        for path in protected:
            guarded = _alike(path)
            shared = len(guarded) if new_folder else min(len(names), len(guarded))
            if shared and names[:shared] == guarded[:shared]:
                return True
    return False


def _beneath(path: str, root: str) -> str | None:
    if path == root:
        return ""
    start = root.rstrip("/") + "/"
    return path[len(start) :] if path.startswith(start) else None


def _alike(path: str) -> tuple[str, ...]:
    """Split a path into names that are equal if any file system takes them for one and the same."""
    return tuple(
        "".join(
            letter
            for letter in unicodedata.normalize("NFKC", name)
            if unicodedata.category(letter) != "Cf"  # some file systems leave such characters out
        ).casefold()
        for name in os.path.normpath(path).split("/")
        if name not in {"", "."}
    )
