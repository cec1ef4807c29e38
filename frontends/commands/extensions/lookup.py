"""What was found in all folders of extensions, and which one somebody means."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import attrs

import session_core as sc
from frontends.arguments import UsageError
from frontends.commands.sessions.home import format_command
from frontends.shared.figures import format_path
from frontends.shared.sanitise import one_line

PATH_CHARS = 300
_MOST_NAMES = 20

State = Literal[
    "ready", "watched", "no_consent", "disabled", "untrusted", "invalid", "shadowed", "not_allowed", "elsewhere"
]
"""`ready` counts, and so will a `watched` one, whose new files the next service agrees to; the others do not.

`elsewhere` is one that lies where nobody looks for extensions.
"""


@attrs.frozen(kw_only=True)
class ExtensionListEntry:
    """One extension, whether it counts or not, and why; there is no manifest where none was read.

    `watched` tells that a service takes its changes by itself, once somebody has agreed to it.
    """

    name: str
    folder: Path
    scope: str
    state: State
    reason: str = ""
    manifest: sc.Manifest | None = None
    digest: str | None = None
    files: Mapping[str, str] = attrs.field(factory=dict)
    watched: bool = False


@attrs.frozen(kw_only=True)
class ExtensionCatalogue:
    """What was found, by name, where it was looked for, and what people should know about the file of consents."""

    entries: tuple[ExtensionListEntry, ...]
    places: sc.SearchPaths
    remark: str | None = None

    def entries_named(self, name: str) -> list[ExtensionListEntry]:
        """Return all that are called so, the one that counts first."""
        return sorted((each for each in self.entries if each.name == name), key=lambda each: each.state != "ready")

    def entry_in_folder(self, folder: Path) -> ExtensionListEntry | None:
        """Return the one that lies in a folder, also if it was found by a link to it."""
        real = os.path.realpath(folder)
        return next((each for each in self.entries if os.path.realpath(each.folder) == real), None)


def open_consents(home: Path) -> sc.Consents:
    """Return what people have agreed to."""
    return sc.Consents(home / sc.CONSENT_FILE)


def open_logins(home: Path) -> sc.CredentialFile:
    """Return what logins to providers of extensions have left behind."""
    return sc.CredentialFile(home / sc.CREDENTIALS_FILE)


def list_logged_in_providers(home: Path, entry: ExtensionListEntry) -> list[str]:
    """Return the providers of an extension that somebody is logged in to."""
    folder = os.path.realpath(entry.folder)
    return [each.provider for each in open_logins(home).all() if (each.extension, each.folder) == (entry.name, folder)]


def find_extensions(home: Path, cwd: Path, environ: Mapping[str, str] | None = None) -> ExtensionCatalogue:
    """Look through all folders; changes nothing."""
    trusted = sc.find_trusted_fingerprint(home, cwd) is not None
    places = sc.build_search_paths(home, cwd, os.environ if environ is None else environ, trusted=trusted)
    consents = open_consents(home)
    found = sc.discover_in(places, consents)
    entries = [
        *(
            ExtensionListEntry(
                name=each.name,
                folder=each.folder,
                scope=each.scope,
                state="ready",
                manifest=each.manifest,
                digest=each.digest,
            )
            for each in found.found
        ),
        *(
            ExtensionListEntry(
                name=each.name,
                folder=each.folder,
                scope=each.scope,
                state=each.kind,
                reason=each.reason,
                manifest=each.manifest,
                digest=each.digest,
            )
            for each in found.skipped
        ),
    ]
    watched = _list_watched_names(home, cwd)
    entries = [_mark_watched(each, consents) if each.name in watched else each for each in entries]
    entries.sort(key=lambda each: (each.name, each.state != "ready", str(each.folder)))
    return ExtensionCatalogue(entries=tuple(entries), places=places, remark=consents.remark)


def _list_watched_names(home: Path, cwd: Path) -> tuple[str, ...]:
    try:
        return sc.load_config(home, cwd, trust=sc.find_trusted_fingerprint(home, cwd)).watched_extensions
    except sc.ConfigInvalid:  # which is told by every command that needs it
        return ()


def _mark_watched(entry: ExtensionListEntry, consents: sc.Consents) -> ExtensionListEntry:
    """Say of an extension in `extensions.watch` what a service would do: only one's own are watched, once agreed to."""
    known = consents.find(entry.name, entry.folder)
    if entry.scope != "user" or known is None or known.digest is None:
        return entry
    if entry.state != "no_consent":
        return attrs.evolve(entry, watched=True)
    reason = f"{entry.reason}; it is watched, so the next service takes them without asking"
    return attrs.evolve(entry, state="watched", watched=True, reason=reason)


def how_to_trust(home: Path) -> str:
    """Say how the extensions of a project can come to count."""
    return f"to look at what this project brings, and trust it: {format_command(home, 'trust', '')}"


# --- the one that somebody means --------------------------------------------------------------------------------------


def pick(looked: ExtensionCatalogue, word: str, *, prefer: Sequence[State] = ("ready",)) -> ExtensionListEntry:
    """Return the extension that somebody has named, by its name or by the path of its folder.

    Of several with one name, the only one in a preferred state is meant; else it has to be said which.

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
            f"{word!r} fits {len(named)} extensions; type the folder of the one you mean",
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
        folder.lstat()  # unlike `is_dir`, it says what cannot be a path at all
        if not folder.is_dir():
            raise UsageError(f"there is no folder {one_line(word, PATH_CHARS)!r}")
    except OSError:
        raise UsageError(f"there is no folder {one_line(word, PATH_CHARS)!r}") from None
    except (ValueError, RuntimeError):
        raise UsageError(f"{one_line(word, PATH_CHARS)!r} cannot be the path of a folder") from None
    entry = looked.entry_in_folder(folder)
    if entry is not None:
        return entry
    reason = "it lies in none of the folders where extensions are looked for"
    return reread_entry(
        ExtensionListEntry(name=folder.name, folder=folder, scope="-", state="elsewhere", reason=reason)
    )


def reread_entry(entry: ExtensionListEntry) -> ExtensionListEntry:
    """Return the same extension with its manifest and the digest of its files, as they are now.

    Raises:
        ManifestInvalid: The manifest is missing or wrong.
        NotDigestible: The files cannot be pinned.
        Conflict: They are being changed at this moment.
    """
    manifest = sc.read_manifest(entry.folder)
    digest = sc.compute_digest(entry.folder)
    if digest.manifest != manifest.digest:
        raise sc.Conflict("the files of this extension are being changed just now; try again")
    return attrs.evolve(entry, name=manifest.name, manifest=manifest, digest=digest.whole, files=digest.files)


def format_folder(folder: Path) -> str:
    """Return the path of a folder as it may be printed."""
    return one_line(format_path(str(folder)), PATH_CHARS)
