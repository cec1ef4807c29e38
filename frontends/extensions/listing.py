"""`session-core ext list` and `session-core ext info`: what there is, whether it runs, and if not, why."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

import session_core as sc
from frontends.console.cells import Column, columns, table
from frontends.console.sanitise import one_line
from frontends.console.style import Style, style_of
from frontends.extensions.describing import SCOPES, STATES, command_line, file_lines, manifest_lines, variables
from frontends.extensions.places import Entry, Looked, how_to_trust, logged_in, look, pick, read_closely, shown
from frontends.stored.home import to_type

_LONGEST = 4_096  # a remark may name two long paths, to be typed as they stand
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
    looked = look(home, cwd)
    if as_json:
        for entry in looked.entries:
            print(json.dumps(as_object(entry)))
    elif not looked.entries:
        print(f"No extensions; put each into a folder of its own in {shown(looked.places.user[0])}")
    else:
        for line in extension_lines(style_of(sys.stdout), looked.entries, width=columns()):
            print(line)
    remark(_advice(home, cwd, looked) if not as_json else looked.remark)
    return 0


def extension_lines(style: Style, entries: Sequence[Entry], *, width: int) -> list[str]:
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


def _state(entry: Entry) -> str:
    return "ready, watched" if entry.state == "ready" and entry.watched else STATES[entry.state]


def note(entry: Entry) -> str:
    """Say what an extension runs, or why it does not."""
    if entry.state == "ready" and entry.manifest is not None:
        return command_line(entry.manifest)
    return one_line(entry.reason, _LONGEST)


def _advice(home: Path, cwd: Path, looked: Looked) -> str | None:
    """Say what to do about the first thing that keeps extensions from running."""
    if looked.remark is not None:
        return looked.remark
    if not _are_used(home, cwd):
        return f"none of them runs, as extensions.use is false here (see: {to_type(home, 'config show', '')})"
    states = {each.state for each in looked.entries}
    if "untrusted" in states:
        return how_to_trust(home)
    waiting = [each.name for each in looked.entries if each.state == "no_consent"]
    if waiting:
        return f"to look at one and let it run: {to_type(home, 'ext trust', one_line(waiting[0]))}"
    return None


def _are_used(home: Path, cwd: Path) -> bool:
    try:
        return sc.load_config(home, cwd, trust=sc.trusted_project(home, cwd)).extensions
    except sc.ConfigInvalid:  # which is told by every command that needs it
        return True


def info(home: Path, cwd: Path, word: str, *, as_json: bool) -> int:
    """Run `ext info`: everything that is known without starting it. Return 1 if its manifest cannot be used."""
    looked = look(home, cwd)
    entry = pick(looked, word)
    if entry.manifest is None or entry.digest is None:
        entry = read_closely(entry)
    if as_json:
        print(json.dumps({**as_object(entry), **_whole(entry), "logins": logged_in(home, entry)}))
        return 0
    style = style_of(sys.stdout)
    head, *facts = manifest_lines(style, entry, everything=True)
    print(head)
    print(f"  {style.dim('state'.ljust(12))}{state_sentence(entry)}")
    print(f"  {style.dim('logins'.ljust(12))}{_logins(home, entry)}")
    for line in (*facts, *file_lines(style, entry.folder)):
        print(line)
    remark(looked.remark)
    return 0


def _logins(home: Path, entry: Entry) -> str:
    providers = [one_line(each, _LONGEST) for each in logged_in(home, entry)]
    if not providers:
        return "none"
    return f"{', '.join(providers)} (to log out: {to_type(home, 'ext logout', one_line(entry.name))})"


def state_sentence(entry: Entry) -> str:
    """Say whether an extension runs, whose it is, and why it does not."""
    said = f"{_state(entry)}, {SCOPES[entry.scope]}"
    return f"{said}: {one_line(entry.reason, _LONGEST)}" if entry.reason else said


def as_object(entry: Entry) -> dict[str, Any]:
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


def _whole(entry: Entry) -> dict[str, Any]:
    """Return the rest of the manifest; the values of variables may be keys, so their names have to do."""
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


def remark(sentence: str | None) -> None:
    """Tell people something beside the output."""
    if sentence is not None:
        style = style_of(sys.stderr)
        print(f"{style.yellow(style.symbol('●'))} {one_line(sentence, _LONGEST)}", file=sys.stderr)
