"""What people have agreed to: an extension of this name, in this folder, with exactly these files.

An extension is a program that runs with the person's rights, so nothing starts before they have agreed, and one changed
byte needs a new agreement. All of this blocks: call it in a thread.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import attrs

from session_core.sep.host.catalogue.folder_digest import NotDigestible as NotDigestible
from session_core.sep.host.catalogue.folder_digest import digest_of as digest_of
from session_core.sep.host.catalogue.search_paths import CONSENT_FILE as CONSENT_FILE
from session_core.sep.protocol.manifest import format_path
from session_core.sep.protocol.names import is_extension_name
from session_core.storage.private_table import PrivateTable, first_line_of
from session_core.wire.strict_json import is_encodable

MAX_CONSENTS: Final = 4_096
"""The most extensions remembered; those decided on longest ago are dropped first."""

_MAX_FILE_BYTES: Final = 16 * 1024 * 1024
_MAX_FILES_KEPT: Final = 8_192  # of all extensions, to keep the file far below the size limit for reading
_MAX_PATH_CHARS: Final = 200
_MOST_TOLD: Final = 3
_FORMAT: Final = 1

ConsentStatus = Literal["agreed", "changed", "unknown", "disabled"]


@attrs.frozen(kw_only=True)
class ConsentRecord:
    """The decision about one extension; without a digest, nobody has agreed to it yet.

    `files` are digests of single files, used only to name those that changed; they may be missing.
    """

    name: str
    folder: str
    digest: str | None
    enabled: bool = True
    files: Mapping[str, str] = attrs.field(factory=dict, hash=False)


_Key = tuple[str, str]


class Consents:
    """All consents, stored in one private file, or only in memory if there is none."""

    def __init__(self, file: Path | None = None) -> None:
        self._consents: PrivateTable[_Key, ConsentRecord] = PrivateTable(
            file,
            parse=_consents_in,
            build=_build_document,
            explain=lambda file, error: (
                f"{str(file)!r} is damaged, so no extension runs until you agree to it again: {first_line_of(error)}"
            ),
            most=_MAX_FILE_BYTES,
        )

    @property
    def remark(self) -> str | None:
        """Return what was wrong with the file when it was last read; nobody has agreed to anything then."""
        return self._consents.remark

    def find(self, name: str, folder: Path) -> ConsentRecord | None:
        """Return the decision about an extension, if any."""
        return self._consents.read().get(_key(name, folder))

    def all(self) -> tuple[ConsentRecord, ...]:
        """Return all decisions, the oldest first."""
        return tuple(self._consents.read().values())

    def agreed_digests(self) -> frozenset[str]:
        """Return the digests of all extensions that people agree to, those switched off included."""
        return frozenset(each.digest for each in self.all() if each.digest is not None)

    def find_status(self, name: str, folder: Path, digest: str) -> ConsentStatus:
        """Return the status of an extension whose files now have this digest."""
        consent = self.find(name, folder)
        if consent is not None and not consent.enabled:
            return "disabled"
        if consent is None or consent.digest is None:
            return "unknown"
        return "agreed" if consent.digest == digest else "changed"

    def describe_changes(self, name: str, folder: Path, files: Mapping[str, str]) -> str:
        """Name a few files that differ from those agreed to, such as `a.py is new`; empty if unknown."""
        consent = self.find(name, folder)
        if consent is None or not consent.files or not files:
            return ""
        before, files = consent.files, _filter_nameable(files)
        news = [
            *(f"{format_path(path)} has changed" for path in files if path in before and before[path] != files[path]),
            *(f"{format_path(path)} is new" for path in files if path not in before),
            *(f"{format_path(path)} is gone" for path in before if path not in files),
        ]
        more = f" and {len(news) - _MOST_TOLD} more" if len(news) > _MOST_TOLD else ""
        return ", ".join(news[:_MOST_TOLD]) + more

    def agree(self, name: str, folder: Path, digest: str, files: Mapping[str, str] | None = None) -> None:
        """Store that a person agreed to an extension with this digest; a disabled one is enabled again.

        Raises:
            StoreUnusable: The file cannot be read, or not be written.
        """
        file_digests = _filter_nameable(files or {})
        self._put(
            name, folder, lambda _: ConsentRecord(name=name, folder=_real(folder), digest=digest, files=file_digests)
        )

    def set_enabled(self, name: str, folder: Path, *, enabled: bool) -> None:
        """Enable or disable an extension; the agreement to its files stays.

        Raises:
            StoreUnusable: The file cannot be read, or not be written.
        """

        def apply_switch(old: ConsentRecord | None) -> ConsentRecord:
            old = old or ConsentRecord(name=name, folder=_real(folder), digest=None)
            return attrs.evolve(old, enabled=enabled)

        self._put(name, folder, apply_switch)

    def withdraw(self, name: str, folder: Path) -> None:
        """Delete the decision about an extension.

        Raises:
            StoreUnusable: The file cannot be read, or not be written.
        """
        with self._consents.change() as consents:
            consents.pop(_key(name, folder), None)

    def _put(self, name: str, folder: Path, change: Callable[[ConsentRecord | None], ConsentRecord]) -> None:
        with self._consents.change() as consents:
            consent = change(consents.pop(_key(name, folder), None))
            while len(consents) >= MAX_CONSENTS:
                del consents[next(iter(consents))]
            consents[_key(name, folder)] = consent


def _build_document(consents: dict[_Key, ConsentRecord]) -> dict[str, Any]:
    room, entries = _MAX_FILES_KEPT, []
    for each in reversed(consents.values()):  # the newest first, because there is no room for the files of all
        entry = attrs.asdict(each)
        room -= len(each.files)
        if room < 0 or not each.files:
            del entry["files"]
        entries.append(entry)
    return {"format": _FORMAT, "extensions": entries[::-1]}


def _consents_in(document: Any) -> dict[_Key, ConsentRecord]:
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise ValueError("it has an unknown format")
    entries = document.get("extensions")
    if not isinstance(entries, list) or len(entries) > MAX_CONSENTS:
        raise ValueError("it does not list extensions")
    found: dict[_Key, ConsentRecord] = {}
    for entry in entries:
        match entry:
            case {"name": str(name), "folder": str(folder), "digest": str() | None as digest, "enabled": bool(enabled)}:
                if not is_extension_name(name):
                    raise ValueError("it names something that is no extension")
                files = _files_in(entry.get("files"))
                found[name, folder] = ConsentRecord(
                    name=name, folder=folder, digest=digest, enabled=enabled, files=files
                )
            case _:
                raise ValueError("one of its entries is not about an extension")
    return found


def _files_in(files: Any) -> dict[str, str]:
    """Return the digests of single files; everything works without them, so mistakes are ignored."""
    if not isinstance(files, dict) or not all(isinstance(each, str) for each in files.values()):
        return {}
    return files


def _filter_nameable(files: Mapping[str, str]) -> dict[str, str]:
    return {path: each for path, each in files.items() if is_encodable(path) and len(path) <= _MAX_PATH_CHARS}


def _real(folder: Path) -> str:
    return os.path.realpath(folder)


def _key(name: str, folder: Path) -> _Key:
    return name, _real(folder)
