"""Finds the extensions in all folders, and one by its name or folder."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import attrs

import session_core as sc
from frontends.shared.figures import format_path
from frontends.shared.folder_config import load_folder_config
from frontends.shared.home import format_command
from frontends.shared.parser import UsageError
from frontends.shared.sanitise import one_line

PATH_CHARS = 300
_MOST_NAMES = 20

State = Literal[
    "ready", "watched", "no_consent", "disabled", "untrusted", "invalid", "shadowed", "not_allowed", "elsewhere"
]
"""`ready` ones are used, and `watched` ones will be: the next service accepts their new files. The others are not.

`elsewhere` is an extension outside the searched folders.
"""


@attrs.frozen(kw_only=True)
class ExtensionListEntry:
    """One extension, whether it is used or not, and why; the manifest is None if none was read.

    `watched` means that a service picks up its changes automatically, once the user has consented to it.
    """

    name: str
    folder: Path
    scope: str
    state: State
    reason: str = ""
    manifest: sc.extensions.Manifest | None = None
    digest: str | None = None
    files: Mapping[str, str] = attrs.field(factory=dict)
    watched: bool = False


@attrs.frozen(kw_only=True)
class ExtensionCatalogue:
    """The extensions by name, the searched folders, and remarks about the file of consents."""

    entries: tuple[ExtensionListEntry, ...]
    places: sc.extensions.SearchPaths
    remark: str | None = None

    def entries_named(self, name: str) -> list[ExtensionListEntry]:
        """Return all extensions of this name, the effective one first."""
        return sorted((each for each in self.entries if each.name == name), key=lambda each: each.state != "ready")

    def entry_in_folder(self, folder: Path) -> ExtensionListEntry | None:
        """Return the extension in a folder, also if it was found through a link."""
        real = os.path.realpath(folder)
        return next((each for each in self.entries if os.path.realpath(each.folder) == real), None)


def open_consents(home: Path) -> sc.extensions.Consents:
    """Return the consents of a home."""
    return sc.extensions.Consents(home / sc.extensions.CONSENT_FILE)


def open_logins(home: Path) -> sc.extensions.CredentialFile:
    """Return the stored logins to providers of extensions."""
    return sc.extensions.CredentialFile(home / sc.extensions.CREDENTIALS_FILE)


def list_logged_in_providers(home: Path, entry: ExtensionListEntry) -> list[str]:
    """Return the providers of an extension with a login."""
    folder = os.path.realpath(entry.folder)
    return [each.provider for each in open_logins(home).all() if (each.extension, each.folder) == (entry.name, folder)]


def find_extensions(home: Path, cwd: Path, environ: Mapping[str, str] | None = None) -> ExtensionCatalogue:
    """Search all folders; changes nothing."""
    trusted = sc.setup.find_trusted_fingerprint(home, cwd) is not None
    places = sc.extensions.build_search_paths(home, cwd, os.environ if environ is None else environ, trusted=trusted)
    consents = open_consents(home)
    found = sc.extensions.discover_in(places, consents)
    entries = [*map(_entry_of, found.found), *(_entry_of(each, each.kind, each.reason) for each in found.skipped)]
    watched = _list_watched_names(home, cwd)
    entries = [_mark_watched(each, consents) if each.name in watched else each for each in entries]
    entries.sort(key=lambda each: (each.name, each.state != "ready", str(each.folder)))
    return ExtensionCatalogue(entries=tuple(entries), places=places, remark=consents.remark)


def _entry_of(
    found: sc.extensions.DiscoveredExtension | sc.extensions.SkippedExtension, state: State = "ready", reason: str = ""
) -> ExtensionListEntry:
    return ExtensionListEntry(
        name=found.name,
        folder=found.folder,
        scope=found.scope,
        state=state,
        reason=reason,
        manifest=found.manifest,
        digest=found.digest,
    )


def _list_watched_names(home: Path, cwd: Path) -> tuple[str, ...]:
    try:
        return load_folder_config(home, cwd).watched_extensions
    except sc.setup.ConfigInvalid:  # reported by every command that needs it
        return ()


def _mark_watched(entry: ExtensionListEntry, consents: sc.extensions.Consents) -> ExtensionListEntry:
    """Mark an extension in `extensions.watch` as a service would: only the user's own are watched, and with consent."""
    known = consents.find(entry.name, entry.folder)
    if entry.scope != "user" or known is None or known.digest is None:
        return entry
    if entry.state != "no_consent":
        return attrs.evolve(entry, watched=True)
    reason = f"{entry.reason}; it is watched, so the next service accepts them without asking"
    return attrs.evolve(entry, state="watched", watched=True, reason=reason)


def as_discovered(entry: ExtensionListEntry) -> sc.extensions.DiscoveredExtension:
    """Return an extension that was read and that the user has consented to, in the form in which it is started."""
    assert entry.manifest is not None
    assert entry.digest is not None
    return sc.extensions.DiscoveredExtension(
        name=entry.name,
        folder=entry.folder,
        scope="project" if entry.scope == "project" else "user",
        manifest=entry.manifest,
        digest=entry.digest,
    )


def how_to_trust(home: Path) -> str:
    """Describe how the extensions of a project can be made effective."""
    return f"to review and trust the files of this project: {format_command(home, 'trust', '')}"


# --- lookup by name ---------------------------------------------------------------------------------------------------


def pick(looked: ExtensionCatalogue, word: str, *, prefer: Sequence[State] = ("ready",)) -> ExtensionListEntry:
    """Return the extension with this name, or in the folder with this path.

    Of several with one name, the only one in a preferred state is chosen; otherwise the name is ambiguous.

    Raises:
        UsageError: There is none, or there are several.
        ManifestInvalid: There is a folder, but no extension in it.
    """
    if "/" in word or word.startswith((".", "~")):
        return _pick_by_path(looked, word)
    named = looked.entries_named(word)
    for state in prefer:
        if len(fitting := [each for each in named if each.state == state]) == 1:
            return fitting[0]
    if len(named) == 1:
        return named[0]
    if named:
        raise UsageError(
            f"{word!r} matches {len(named)} extensions; type the folder of the one you mean",
            details=tuple(
                f"{format_folder(each.folder)}  {one_line(each.reason, PATH_CHARS)}".rstrip() for each in named
            ),
        )
    known = sorted({each.name for each in looked.entries})
    advice = f"there is no extension called {one_line(word)!r}; see: session-core ext list"
    if Path(word).is_dir():
        advice += f"; for the folder of that name type ./{one_line(word)}"
    raise UsageError(advice, details=tuple(one_line(name) for name in known[:_MOST_NAMES]))


def _pick_by_path(looked: ExtensionCatalogue, word: str) -> ExtensionListEntry:
    try:
        folder = Path(word).expanduser().absolute()
        folder.lstat()  # unlike `is_dir`, this raises for an invalid path
        if not folder.is_dir():
            raise UsageError(f"there is no folder {one_line(word, PATH_CHARS)!r}")
    except OSError:
        raise UsageError(f"there is no folder {one_line(word, PATH_CHARS)!r}") from None
    except (ValueError, RuntimeError):
        raise UsageError(f"{one_line(word, PATH_CHARS)!r} cannot be the path of a folder") from None
    entry = looked.entry_in_folder(folder)
    if entry is not None:
        return entry
    reason = "it is in none of the folders that are searched for extensions"
    return reread_entry(
        ExtensionListEntry(name=folder.name, folder=folder, scope="-", state="elsewhere", reason=reason)
    )


def reread_entry(entry: ExtensionListEntry) -> ExtensionListEntry:
    """Return the same extension with its current manifest and file digest.

    Raises:
        ManifestInvalid: The manifest is missing or wrong.
        NotDigestible: The files cannot be pinned.
        Conflict: The files are being changed at this moment.
    """
    manifest = sc.extensions.read_manifest(entry.folder)
    digest = sc.extensions.compute_digest(entry.folder)
    if digest.manifest != manifest.digest:
        raise sc.Conflict("the files of this extension are being changed; try again")
    return attrs.evolve(entry, name=manifest.name, manifest=manifest, digest=digest.whole, files=digest.files)


def format_folder(folder: Path) -> str:
    """Return the path of a folder, safe to print."""
    return one_line(format_path(str(folder)), PATH_CHARS)
