"""Trust: project files that steer the agent are only data until a person has trusted exactly these files.

Settings, skills, extensions and instructions come from the authors of a repository. They are read only if the folder is
trusted with its current fingerprint; after one changed byte, the person is asked again.
"""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import attrs

from session_core.sandbox.workspace import OutsideWorkspace, Workspace
from session_core.storage.private_table import PrivateTable, first_line_of

PROJECT_FILES: Final[tuple[str, ...]] = (
    ".session-core",
    ".smooth/extensions",
    ".agents",
    "AGENTS.md",
    ".mcp.json",
    "mcp.json",
)
"""The files and folders of a project that steer the agent."""
PINNED_APART: Final = (".session-core/extensions", ".smooth/extensions")
"""Consent to extensions is given one by one, for all their files, maybe thousands; here only their names count."""
_MAX_FILES: Final = 2_000
MAX_TRUSTED_FILE_BYTES: Final = 4 * 1024 * 1024
"""The size of one file; who checks what was read has to read the whole."""
_MAX_ALL_BYTES: Final = 32 * 1024 * 1024
_MAX_DEPTH: Final = 16
_MAX_FOLDERS_KNOWN: Final = 10_000
_MAX_STORE_BYTES: Final = 8 * 1024 * 1024
_FORMAT: Final = 1


class TooMuchToTrust(Exception):
    """The project has too many or too large files for a person to have checked them."""


@attrs.frozen(kw_only=True)
class Fingerprint:
    """Identifies the exact content of some files; `files` maps each path to the digest of its content."""

    digest: str
    files: tuple[tuple[str, str], ...]

    @property
    def is_empty(self) -> bool:
        """Whether none of the files exists, so there is nothing to trust."""
        return not self.files

    def covers(self, path: str, data: bytes) -> bool:
        """Return whether this was the content of this path; check after reading, as the file may have changed."""
        return (path, _digest(b"file", data)) in self.files


def take_fingerprint(workspace: Workspace, names: Iterable[str] = PROJECT_FILES) -> Fingerprint:
    """Compute the fingerprint of files and of everything in folders; the order of the names does not matter.

    A link counts with its target if that is inside the workspace; other links are not followed.

    Raises:
        TooMuchToTrust: There are too many files, or too many bytes.
    """
    found = _CollectedFiles()
    for name in sorted({os.path.normpath(name) for name in names}):
        _collect(workspace, name, found, 0)
    files = tuple(sorted(found.files.items()))
    parts = [part for path, digest in files for part in (os.fsencode(path), digest.encode())]
    return Fingerprint(digest=_digest(*parts), files=files)


@attrs.define
class _CollectedFiles:
    files: dict[str, str] = attrs.Factory(dict)
    size: int = 0

    def add(self, path: str, kind: bytes, data: bytes) -> None:
        self.size += len(data)
        if len(self.files) >= _MAX_FILES:
            raise TooMuchToTrust(f"there are more than {_MAX_FILES} files to trust, such as {path!r}")
        if self.size > _MAX_ALL_BYTES:
            raise TooMuchToTrust(f"the files to trust are larger than {_MAX_ALL_BYTES} bytes together")
        self.files[path] = _digest(kind, data)


def _collect(workspace: Workspace, path: str, found: _CollectedFiles, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise TooMuchToTrust(f"the folders to trust are nested too deeply, or in a circle, at {path!r}")
    try:
        content = workspace.read(path, max_bytes=MAX_TRUSTED_FILE_BYTES)
    except FileNotFoundError:
        if workspace.stat(path) is not None:
            found.add(path, b"link to nothing", b"")
    except NotADirectoryError:
        pass
    except OutsideWorkspace:
        found.add(path, b"link outside", b"")
    except IsADirectoryError:
        if path in PINNED_APART:
            names = sorted(entry.name for entry in workspace.scan(path, limit=_MAX_FILES + 1))
            found.add(path, b"extensions", "\0".join(names).encode("utf-8", "surrogateescape"))
            return
        for entry in workspace.scan(path, limit=_MAX_FILES + 1):
            _collect(workspace, os.path.join(path, entry.name), found, depth + 1)
    except OSError as error:
        found.add(path, b"unreadable", str(error.errno).encode())
    else:
        if content.truncated:
            raise TooMuchToTrust(f"the file {path!r} is larger than {MAX_TRUSTED_FILE_BYTES} bytes")
        found.add(path, b"file", content.data)


def _digest(*parts: bytes) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "big") + part)
    return whole.hexdigest()


class TrustStore:
    """The trusted folders with their fingerprints, kept in one private file of the home."""

    def __init__(self, home: Path) -> None:
        self._folders: PrivateTable[str, str] = PrivateTable(
            home / "trust.json",
            parse=_parse_folders,
            build=lambda folders: {"format": _FORMAT, "folders": folders},
            explain=lambda file, error: (
                f"{str(file)!r} is damaged, so no folder is trusted until you trust it again: {first_line_of(error)}"
            ),
            most=_MAX_STORE_BYTES,
        )

    @property
    def remark(self) -> str | None:
        """Return what was wrong with the file when it was last read; then nothing is trusted."""
        return self._folders.remark

    def is_trusted(self, root: str, fingerprint: Fingerprint) -> bool:
        """Return whether a person has trusted this folder in its current state."""
        return self._folders.read().get(os.path.realpath(root)) == fingerprint.digest

    def folders(self) -> tuple[str, ...]:
        """Return the trusted folders, those trusted longest ago first; their files may have changed since."""
        return tuple(self._folders.read())

    def trust(self, root: str, fingerprint: Fingerprint) -> None:
        """Trust a folder in its current state, which replaces any earlier trust.

        Raises:
            StoreUnusable: The file cannot be read, or not be written.
        """
        with self._folders.change() as folders:
            folders.pop(os.path.realpath(root), None)
            while len(folders) >= _MAX_FOLDERS_KNOWN:  # those trusted longest ago go first
                del folders[next(iter(folders))]
            folders[os.path.realpath(root)] = fingerprint.digest

    def distrust(self, root: str) -> None:
        """Revoke the trust in a folder, whatever it holds.

        Raises:
            StoreUnusable: The file cannot be read, or not be written.
        """
        with self._folders.change() as folders:
            folders.pop(os.path.realpath(root), None)


def _parse_folders(document: Any) -> dict[str, str]:
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise ValueError("it has an unknown format")
    folders = document.get("folders")
    if not isinstance(folders, dict) or not all(isinstance(digest, str) for digest in folders.values()):
        raise ValueError("it does not list folders with fingerprints")
    return folders
