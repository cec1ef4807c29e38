"""`session-core ext list` and `session-core ext info`: the extensions, whether they run, and if not, why."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

import session_core as sc
from frontends.commands.extensions.description import (
    SCOPES,
    STATES,
    command_line,
    file_lines,
    manifest_lines,
    variables,
)
from frontends.shared.extension_lookup import (
    ExtensionCatalogue,
    ExtensionListEntry,
    find_extensions,
    format_folder,
    how_to_trust,
    list_logged_in_providers,
    pick,
    reread_entry,
)
from frontends.shared.folder_config import load_folder_config
from frontends.shared.home import format_command
from frontends.shared.sanitise import dump_json, one_line
from frontends.shared.streams import remark
from frontends.shared.style import Style, stream_style
from frontends.shared.text_width import Column, columns, table

_LONGEST = 4_096  # a remark may contain two long paths to be typed verbatim
_HEADS = (
    Column(title=""),
    Column(title="NAME", share=2, least=8),
    Column(title="VERSION", share=1, least=4),
    Column(title="FROM"),
    Column(title="STATE"),
    Column(title="RUNS, OR WHY NOT", share=5, least=12),
)
_MARKS = {"ready": "✓", "watched": "✓", "invalid": "✗"}


def list_extensions(home: Path, cwd: Path, *, as_json: bool) -> int:
    """Run `ext list` and return the exit code."""
    looked = find_extensions(home, cwd)
    if as_json:
        for entry in looked.entries:
            print(dump_json(as_object(entry)))
    elif not looked.entries:
        print(f"No extensions; put each into its own folder in {format_folder(looked.places.user[0])}")
    else:
        for line in extension_lines(stream_style(sys.stdout), looked.entries, width=columns()):
            print(line)
    remark(_advice(home, cwd, looked) if not as_json else looked.remark)
    return 0


def extension_lines(style: Style, entries: Sequence[ExtensionListEntry], *, width: int) -> list[str]:
    """Return a table with one line per extension."""
    rows = [
        (
            style.symbol(_MARKS.get(each.state, "■")),
            one_line(each.name, _LONGEST),
            one_line(each.manifest.version, _LONGEST) if each.manifest else "-",
            each.scope,
            _state(each),
            note(each),
        )
        for each in entries
    ]

    def paint(row: int, column: int, text: str) -> str:
        if row < 0:
            return style.dim(text)
        state = entries[row].state
        if column == 0:
            return style.green(text) if state == "ready" else style.red(text) if state == "invalid" else text
        return style.cyan(text) if column == 1 else style.dim(text) if state != "ready" else text

    return table(_HEADS, rows, width, paint, style.symbol("…"))


def _state(entry: ExtensionListEntry) -> str:
    return "ready, watched" if entry.state == "ready" and entry.watched else STATES[entry.state]


def note(entry: ExtensionListEntry) -> str:
    """Describe what an extension runs, or why it does not run."""
    if entry.state == "ready" and entry.manifest is not None:
        return command_line(entry.manifest)
    return one_line(entry.reason, _LONGEST)


def _advice(home: Path, cwd: Path, looked: ExtensionCatalogue) -> str | None:
    """Describe what to do about the first problem that keeps extensions from running."""
    if looked.remark is not None:
        return looked.remark
    if not _are_extensions_enabled(home, cwd):
        return (
            f"none of them runs, because extensions.use is false here (see: {format_command(home, 'config show', '')})"
        )
    states = {each.state for each in looked.entries}
    if "untrusted" in states:
        return how_to_trust(home)
    waiting = [each.name for each in looked.entries if each.state == "no_consent"]
    if waiting:
        return f"to review one and let it run: {format_command(home, 'ext trust', one_line(waiting[0]))}"
    return None


def _are_extensions_enabled(home: Path, cwd: Path) -> bool:
    try:
        return load_folder_config(home, cwd).extensions
    except sc.setup.ConfigInvalid:  # reported by every command that needs it
        return True


def info(home: Path, cwd: Path, word: str, *, as_json: bool) -> int:
    """Run `ext info`: print everything known without starting it. Return 1 if its manifest cannot be used."""
    looked = find_extensions(home, cwd)
    entry = pick(looked, word)
    if entry.manifest is None or entry.digest is None:
        entry = reread_entry(entry)
    if as_json:
        print(dump_json({**as_object(entry), **_whole(entry), "logins": list_logged_in_providers(home, entry)}))
        return 0
    style = stream_style(sys.stdout)
    head, *facts = manifest_lines(style, entry, everything=True)
    print(head)
    print(f"  {style.dim('state'.ljust(12))}{state_sentence(entry)}")
    print(f"  {style.dim('logins'.ljust(12))}{_logins(home, entry)}")
    for line in (*facts, *file_lines(style, entry.folder)):
        print(line)
    remark(looked.remark)
    return 0


def _logins(home: Path, entry: ExtensionListEntry) -> str:
    providers = [one_line(each, _LONGEST) for each in list_logged_in_providers(home, entry)]
    if not providers:
        return "none"
    return f"{', '.join(providers)} (to log out: {format_command(home, 'ext logout', one_line(entry.name))})"


def state_sentence(entry: ExtensionListEntry) -> str:
    """Describe whether an extension runs, whose it is, and if it does not run, why."""
    said = f"{_state(entry)}, {SCOPES[entry.scope]}"
    return f"{said}: {one_line(entry.reason, _LONGEST)}" if entry.reason else said


def as_object(entry: ExtensionListEntry) -> dict[str, Any]:
    """Return an extension as a JSON object."""
    manifest = entry.manifest
    return {
        "name": entry.name,
        "version": manifest.version if manifest else None,
        "scope": None if entry.scope == "-" else entry.scope,
        "state": entry.state,
        "reason": entry.reason or None,
        "watched": entry.watched,
        "folder": str(entry.folder),
        "command": [manifest.run.command, *manifest.run.args] if manifest else None,
        "digest": entry.digest,
    }


def _whole(entry: ExtensionListEntry) -> dict[str, Any]:
    """Return the rest of the manifest; of variables only the names, as their values may be keys."""
    manifest = entry.manifest
    assert manifest is not None, "it was read before"
    return {
        "protocol": manifest.protocol,
        "hook_timeout_ms": manifest.hook_timeout_ms,
        "disabled": manifest.disabled,
        "variables": variables(manifest),
        "sha256": manifest.run.sha256,
        "sandbox": attrs.asdict(manifest.sandbox) if manifest.sandbox else None,
        "capabilities": sorted(manifest.capabilities.enabled),
        "events": list(manifest.capabilities.events),
        "resources": attrs.asdict(manifest.resources),
        "remarks": list(manifest.remarks),
    }
