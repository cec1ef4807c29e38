"""Finds extensions, and decides which are used and why the others are not.

Trust comes first. A project's extensions are not even read before its folder is trusted, and only an extension that may
really run can replace another of the same name. So no folder that somebody else wrote can make one of the user's own
extensions disappear. All of this blocks: call it in a thread.
"""

import errno
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import attrs

from session_core.sep.host.catalogue.consent import Consents
from session_core.sep.host.catalogue.folder_digest import NOT_COUNTED, NotDigestible, compute_digest
from session_core.sep.host.catalogue.search_paths import SearchPaths
from session_core.sep.protocol.manifest import Manifest, ManifestInvalid, read_manifest
from session_core.storage.ownership import find_fault, find_fault_in_folder

MAX_EXTENSIONS: Final = 64
"""The most extensions that run at once; each is a process."""
_MAX_FOLDERS: Final = 256  # each is read completely, whether or not it may run
_MAX_ENTRIES: Final = 4_096

Scope = Literal["user", "project"]
SkippedKind = Literal["invalid", "untrusted", "disabled", "shadowed", "not_allowed", "no_consent"]


@attrs.frozen(kw_only=True)
class DiscoveredExtension:
    """An extension in use: its files have this digest, and a person has consented to them."""

    name: str
    folder: Path
    scope: Scope
    manifest: Manifest
    digest: str

    @property
    def owner(self) -> str:
        """The name under which it stores values: a project's extension does not share those of its namesake."""
        if self.scope == "user":
            return self.name
        place = hashlib.blake2b(os.fsencode(os.path.realpath(self.folder)), digest_size=12).hexdigest()
        return f"{self.name}@{place}"


@attrs.frozen(kw_only=True)
class SkippedExtension:
    """An extension that is not used, and why; `name` is that of its folder if the manifest was not read."""

    name: str
    folder: Path
    scope: Scope
    kind: SkippedKind
    reason: str
    manifest: Manifest | None = None
    digest: str | None = None


@attrs.frozen(kw_only=True)
class Discovery:
    """The result: extensions in use by name, in the order in which hooks ask them, and the skipped ones."""

    found: tuple[DiscoveredExtension, ...] = ()
    skipped: tuple[SkippedExtension, ...] = ()

    def find(self, name: str) -> DiscoveredExtension | None:
        """Return the extension in use with this name."""
        return next((each for each in self.found if each.name == name), None)


def discover(places: SearchPaths, consent: Consents) -> Discovery:
    """Search folders for extensions; a missing folder counts as empty, and a bad extension affects no other.

    Of two extensions with the same name, the one in the earlier folder is used; a project's replace the user's own if
    they may run.
    """
    looking = _DiscoveryScan(consent, places.allow)
    for folder in places.project:
        looking.scan_folder(folder, "project", trusted=places.trusted)
    for folder in places.user:
        looking.scan_folder(folder, "user", trusted=True)
    found = sorted(looking.found.values(), key=lambda each: each.name)
    for each in found[MAX_EXTENSIONS:]:
        looking.skip_found(each, "invalid", f"there are more than {MAX_EXTENSIONS} extensions; this one is left out")
    skipped = sorted(looking.skipped, key=lambda each: (each.name, each.scope, each.folder))
    return Discovery(found=tuple(found[:MAX_EXTENSIONS]), skipped=tuple(skipped))


class _DiscoveryScan:
    def __init__(self, consent: Consents, allow: frozenset[str] | None) -> None:
        self.found: dict[str, DiscoveredExtension] = {}
        self.skipped: list[SkippedExtension] = []
        self._consent = consent
        self._allow = allow
        self._seen: set[str] = set()

    def scan_folder(self, parent: Path, scope: Scope, *, trusted: bool) -> None:
        try:
            folders = _folders_in(parent, scope)
        except OSError as error:
            self._skip(parent, scope, "invalid", f"the folder cannot be read: {error.strerror}")
            return
        for folder in folders[:_MAX_FOLDERS]:
            real = os.path.realpath(folder)
            if not trusted:
                self._skip(folder, scope, "untrusted", "it came with a project whose folder is not trusted")
            elif scope == "project" and not real.startswith(f"{os.path.realpath(parent)}/"):
                self._skip(folder, scope, "invalid", "it is a link that leads out of the project's extensions")
            elif real not in self._seen:  # two of the user's folders may be the same
                self._seen.add(real)
                self._scan_extension(folder, scope)
        for folder in folders[_MAX_FOLDERS:]:
            self._skip(folder, scope, "invalid", f"there are more than {_MAX_FOLDERS} folders next to it")

    def _scan_extension(self, folder: Path, scope: Scope) -> None:
        if scope == "user" and (why := _explain_foreign_ownership(folder)) is not None:
            self._skip(folder, scope, "invalid", why)
            return
        try:
            manifest = read_manifest(folder)
        except ManifestInvalid as error:
            self._skip(folder, scope, "invalid", error.message)
            return
        if self._allow is not None and manifest.name not in self._allow:
            self._skip(folder, scope, "not_allowed", "it is not among the extensions that are allowed here", manifest)
            return
        try:
            digest = compute_digest(folder)
        except NotDigestible as error:
            self._skip(folder, scope, "invalid", error.message, manifest)
            return
        if digest.manifest != manifest.digest:
            self._skip(folder, scope, "invalid", "its files are being changed just now; try again", manifest)
            return
        found = DiscoveredExtension(
            name=manifest.name, folder=folder, scope=scope, manifest=manifest, digest=digest.whole
        )
        self._admit_extension(found, digest.files)

    def _admit_extension(self, found: DiscoveredExtension, files: Mapping[str, str]) -> None:
        standing = self._consent.find_status(found.name, found.folder, found.digest)
        if found.manifest.disabled:
            self.skip_found(found, "disabled", "its manifest says that it is disabled")
        elif standing == "disabled":
            self.skip_found(found, "disabled", "it was switched off")
        elif standing == "changed":
            which = self._consent.describe_changes(found.name, found.folder, files)
            reason = f"its files have changed since it was agreed to{f' ({which})' if which else ''}"
            self.skip_found(found, "no_consent", reason)
        elif standing == "unknown":
            self.skip_found(found, "no_consent", "nobody has agreed to it yet")
        elif (other := self.found.get(found.name)) is not None:
            self.skip_found(
                found, "shadowed", f"the {other.scope}'s extension in {str(other.folder)!r} is used instead"
            )
        else:
            self.found[found.name] = found

    def skip_found(self, found: DiscoveredExtension, kind: SkippedKind, reason: str) -> None:
        self._skip(found.folder, found.scope, kind, reason, found.manifest, digest=found.digest)

    def _skip(
        self,
        folder: Path,
        scope: Scope,
        kind: SkippedKind,
        reason: str,
        manifest: Manifest | None = None,
        *,
        digest: str | None = None,
    ) -> None:
        name = manifest.name if manifest else folder.name
        self.skipped.append(
            SkippedExtension(
                name=name, folder=folder, scope=scope, kind=kind, reason=reason, manifest=manifest, digest=digest
            )
        )


def _explain_foreign_ownership(folder: Path) -> str | None:
    """Return why one of the user's own extensions is not used: others could have written a file of it."""
    try:
        fault = find_fault(folder.parent, folder.parent.stat()) or find_fault_in_folder(folder, without=NOT_COUNTED)
    except OSError as error:
        return f"its files cannot be examined: {error.strerror or error}"
    return None if fault is None else str(fault)


def _folders_in(parent: Path, scope: Scope) -> list[Path]:
    """Return the folders in a folder by name; hidden ones and plain files are not extensions."""
    if scope == "project" and parent.is_symlink():
        raise OSError(errno.ELOOP, "it is a link, which a project must not put here")
    names: list[str] = []
    try:
        with os.scandir(parent) as listing:
            for number, entry in enumerate(listing):
                if number >= _MAX_ENTRIES:
                    raise OSError(errno.E2BIG, f"it holds more than {_MAX_ENTRIES:,} entries")
                if not entry.name.startswith(".") and entry.is_dir():
                    names.append(entry.name)
    except FileNotFoundError:
        return []
    return [parent / name for name in sorted(names, key=os.fsencode)]
