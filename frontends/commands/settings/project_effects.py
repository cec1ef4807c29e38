"""What the files of a project would do, in words: people should see that before they trust them, not just file names.

All content comes from a stranger: sizes are bounded, nothing is executed, and every line is safe to print.
"""

import json
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import attrs

import session_core as sc
from frontends.shared.figures import format_count
from frontends.shared.sanitise import one_line

MOST_LINES = 12
"""The most lines about one file; a remark says if there is more."""
_MAX_BYTES = 200_000
_LINE_CHARS = 160
_FIRST_LINES = 3
_DESCRIPTION = re.compile(r"^description:[ \t]*(.+)$", re.MULTILINE)

SERVERS = "mcp.json"
SETTINGS = ".session-core/config.toml"
EXTENSIONS = (".session-core/extensions", ".smooth/extensions")


@attrs.frozen
class UselessSetting:
    """Why a setting of a project has no effect even if the project is trusted; `label` says so in a word."""

    label: str
    why: str


def find_useless_settings(home: Path, folder: Path, found: sc.setup.Fingerprint) -> dict[str, UselessSetting]:
    """Return the settings of a project that would have no effect, by their keys."""
    try:
        ignored = sc.setup.load_config(home, folder, {}, trust=found).ignored
    except sc.setup.ConfigInvalid as invalid:
        own = str(sc.setup.find_project_file(home, folder))
        return {each.key: UselessSetting("wrong", each.what) for each in invalid.problems if each.place == own}
    return {each.key: UselessSetting("ignored", each.what.removeprefix("this is ignored: ")) for each in ignored}


def describe_project_file(
    workspace: sc.setup.Workspace,
    path: str,
    found: sc.setup.Fingerprint | None = None,
    useless: Mapping[str, UselessSetting] | None = None,
) -> list[str]:
    """Return what a file would do, one line each, or why it cannot be read; `useless` is about settings.

    What is described is what the fingerprint stands for: a person must not read one thing and trust another.
    """
    if path in EXTENSIONS:
        return _extensions(workspace, path)
    try:
        content = workspace.read(path, max_bytes=_MAX_BYTES)
        text = content.data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return ["no text"]
    except (OSError, ValueError, sc.setup.WorkspaceRefused) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return [f"cannot be read: {one_line(why, _LINE_CHARS)}"]
    if content.truncated:
        return [f"more than {_MAX_BYTES:,} bytes; read it yourself"]
    if found is not None and not found.covers(path, content.data):
        return ["is being changed just now: do not trust it, and look again later"]
    lines = [one_line(line, _LINE_CHARS) for line in _describe_content(workspace, path, text, useless or {})]
    remaining = len(lines) - MOST_LINES
    return (
        lines
        if remaining <= 0
        else [*lines[:MOST_LINES], f"and {format_count(remaining, 'more line')} like these; read the file"]
    )


def _extensions(workspace: sc.setup.Workspace, path: str) -> list[str]:
    try:
        names = sorted(entry.name for entry in workspace.scan(path, limit=MOST_LINES + 1))
    except (OSError, ValueError):
        return ["cannot be read"]
    lines = [f"the extension {one_line(name, _LINE_CHARS)}, which runs only with your consent" for name in names]
    return [*lines[:MOST_LINES], "and more"] if len(lines) > MOST_LINES else lines


def _describe_content(
    workspace: sc.setup.Workspace, path: str, text: str, useless: Mapping[str, UselessSetting]
) -> Iterator[str]:
    if path == SETTINGS:
        return _settings(text, useless)
    if path == SERVERS:
        return _servers(workspace, text)
    return {"AGENTS.md": _instructions, "SKILL.md": _skill}.get(PurePosixPath(path).name, _other)(text)


def _instructions(text: str) -> Iterator[str]:
    said = [line for line in text.splitlines() if line.strip()]
    yield f"instructions for the model, {format_count(len(text.splitlines()), 'line')}"
    yield from (f"| {line}" for line in said[:_FIRST_LINES])
    if len(said) > _FIRST_LINES:
        yield "| ..."


def _skill(text: str) -> Iterator[str]:
    found = _DESCRIPTION.search(text)
    yield f"a skill: {found[1].strip()}" if found is not None else "a skill, without a description"


def _other(text: str) -> Iterator[str]:
    yield f"{format_count(len(text.splitlines()), 'line')}; not used on its own"


# --- programs and addresses -------------------------------------------------------------------------------------------


def _servers(workspace: sc.setup.Workspace, text: str) -> Iterator[str]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        yield f"not JSON, so it adds nothing: {error}"
        return
    entries = document.get("mcpServers") if isinstance(document, dict) else None
    if not isinstance(entries, dict) or not entries:
        yield "no MCP servers"
        return
    for name, entry in entries.items():
        yield _server(str(name), entry if isinstance(entry, dict) else {})
    yield from _own_programs(workspace, [entry for entry in entries.values() if isinstance(entry, dict)])


def _server(name: str, entry: Mapping[str, Any]) -> str:
    off = ", switched off" if entry.get("disabled") is True else ""
    if "command" in entry:
        given = entry.get("args")
        words = [entry["command"], *(given if isinstance(given, list) else [])]
        env = entry.get("env")
        variables = f", with the variables {', '.join(map(str, env))}" if isinstance(env, dict) and env else ""
        return f"the MCP server {name} runs: {shlex.join(map(str, words))}{variables}{off}"
    if "url" in entry:
        return f"the MCP server {name} talks to: {entry['url']}{off}"
    return f"the MCP server {name}, with neither a program nor an address"


def _own_programs(workspace: sc.setup.Workspace, entries: list[dict[str, Any]]) -> Iterator[str]:
    """Name the files of this folder that servers run: trusting a folder does not pin them, unlike its settings."""
    named: set[str] = set()
    for entry in entries:
        given = entry.get("args")
        for word in (entry.get("command"), *(given if isinstance(given, list) else [])):
            place = PurePosixPath(str(entry.get("cwd", ".")), str(word))
            if isinstance(word, str) and word not in named and _is_own_file(workspace, str(place)):
                named.add(word)
                yield f"{word} may be changed later without your being asked, and runs as you, outside of the sandbox"


def _is_own_file(workspace: sc.setup.Workspace, path: str) -> bool:
    try:
        status = workspace.stat(path)
    except (OSError, sc.setup.WorkspaceRefused):
        return False
    return status is not None and status.kind != "folder"


# --- settings and rules -----------------------------------------------------------------------------------------------


def _settings(text: str, useless: Mapping[str, UselessSetting]) -> Iterator[str]:
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        yield f"not TOML, so it cannot be used: {error}"
        return
    rules = document.pop("permissions", [])
    if not document and not rules:
        yield "no settings"
    for key, value in _flat(document, ""):
        described = f"{key} = {json.dumps(value, default=str, ensure_ascii=False)}"
        yield _mark("setting", described, next((useless[each] for each in _outwards(key) if each in useless), None))
    for number, rule in enumerate(rules if isinstance(rules, list) else [rules], start=1):
        yield _mark("rule", _rule(rule), useless.get(f"permissions[{number}]"))


def _mark(kind: str, described: str, useless: UselessSetting | None) -> str:
    return f"{kind}: {described}" if useless is None else f"{useless.label} {kind}: {described} ({useless.why})"


def _flat(table: Mapping[str, Any], above: str) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        name = f"{above}.{key}" if above else key
        if isinstance(value, dict):
            yield from _flat(value, name)
        else:
            yield name, value


def _outwards(key: str) -> Iterator[str]:
    """Yield a key and the tables that it is in."""
    words = key.split(".")
    yield from (".".join(words[:count]) for count in range(len(words), 0, -1))


def _rule(rule: object) -> str:
    if not isinstance(rule, dict):
        return str(rule)
    about = ", ".join(f"{key} {value}" for key, value in rule.items() if key != "decision")
    return f"{rule.get('decision', '?')} {about or 'everything'}"
