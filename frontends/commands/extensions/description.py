"""Describes what an extension would run and may do, for a person who decides about it.

All content comes from the author of the extension: each line is bounded and safe to print.
"""

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import attrs

import session_core as sc
from frontends.shared.extension_lookup import ExtensionListEntry, format_folder
from frontends.shared.figures import format_count, format_size
from frontends.shared.sanitise import one_line
from frontends.shared.style import Style

_LINE_CHARS = 300
_MOST_FILES = 20
_MOST_COUNTED = 20_000
_MARGIN = 12
_REFERENCE = re.compile(r"\$\{env:([^}]*)\}")
_NOT_COUNTED = ".git"

SCOPES = {"user": "yours", "project": "of this project", "-": "elsewhere"}
STATES = {
    "ready": "ready",
    "watched": "watched",
    "no_consent": "no consent",
    "disabled": "off",
    "untrusted": "untrusted",
    "invalid": "invalid",
    "shadowed": "shadowed",
    "not_allowed": "not allowed",
    "elsewhere": "elsewhere",
}


def command_line(manifest: sc.extensions.Manifest) -> str:
    """Return the command that is started, as one would type it."""
    return one_line(shlex.join([manifest.run.command, *manifest.run.args]), _LINE_CHARS)


def manifest_lines(style: Style, entry: ExtensionListEntry, *, everything: bool = False) -> list[str]:
    """Return what matters for a decision, or everything in the manifest; one fact per line."""
    manifest = entry.manifest
    assert manifest is not None, "it was read before"
    facts = [*_facts(entry, manifest), *(_details(manifest) if everything else ())]
    lines = [f"  {style.dim(label.ljust(_MARGIN))}{one_line(text, _LINE_CHARS)}" for label, text in facts]
    return [f"{style.cyan(one_line(entry.name))} {one_line(manifest.version)}", *lines]


def _facts(entry: ExtensionListEntry, manifest: sc.extensions.Manifest) -> Iterator[tuple[str, str]]:
    yield "lies in", format_folder(entry.folder)
    yield "runs", command_line(manifest)
    yield "variables", ", ".join(variables(manifest)) or "none of its own"
    yield "may use", _capabilities(manifest)
    yield "sandbox", _sandbox(manifest)
    if manifest.run.sha256 is not None:
        yield "program", f"only with the SHA-256 {manifest.run.sha256}"
    brought = attrs.asdict(manifest.resources)
    if any(brought.values()):
        yield "brings", ", ".join(f"{kind} in {folder}" for kind, folder in brought.items() if folder)
    if entry.digest is not None:
        yield "files", f"SHA-256 of all of them {entry.digest}"
    for remark in manifest.remarks:
        yield "remark", remark


def _details(manifest: sc.extensions.Manifest) -> Iterator[tuple[str, str]]:
    declared = manifest.capabilities.events
    hooks = [each for each in declared if each in sc.extensions.HOOKS]
    events = [each for each in declared if each not in hooks or each == "message_end"]  # it is both
    yield "is told of", ", ".join(events) or ("no event" if declared else "every event it asks for")
    time = "" if manifest.hook_timeout_ms is None else f", each within {manifest.hook_timeout_ms} ms"
    yield "hooks", f"{', '.join(hooks) or 'those that it names when it starts'}{time}"
    yield "protocol", str(manifest.protocol)
    yield "manifest", f"SHA-256 {manifest.digest}"


def variables(manifest: sc.extensions.Manifest) -> list[str]:
    """Return the names of the variables it is given, with those of ours they are made from; no values."""
    descriptions = []
    for name, value in manifest.run.env.items():
        sources = [f"${found}" for found in _REFERENCE.findall(value)]
        descriptions.append(f"{name} (from {', '.join(sources)})" if sources else name)
    return descriptions


def _capabilities(manifest: sc.extensions.Manifest) -> str:
    return ", ".join(sorted(manifest.capabilities.enabled)) or "nothing but hooks and events"


def _sandbox(manifest: sc.extensions.Manifest) -> str:
    spec = manifest.sandbox
    if spec is None:
        return "none: it can do whatever you can do"
    network = "no network"
    if spec.network == "egress":
        network = f"network to {', '.join(spec.allow_domains)}" if spec.allow_domains else "no network (no domains)"
    wishes = [
        f"memory {spec.memory} MiB" if spec.memory is not None else "",
        f"{spec.cpus:g} cpus" if spec.cpus is not None else "",
        f"image {spec.image}" if spec.image is not None else "",
    ]
    return ", ".join(["it asks for one", network, *(wish for wish in wishes if wish)])


# --- its files --------------------------------------------------------------------------------------------------------


def file_lines(style: Style, folder: Path) -> list[str]:
    """Return the contents of the folder, one line each, with sizes; for subfolders, the number of files."""
    lines: list[str] = []
    try:
        with os.scandir(folder) as listing:
            entries = sorted((each for each in listing if each.name != _NOT_COUNTED), key=lambda each: each.name)
    except OSError as error:
        return [f"  its files cannot be listed: {error.strerror}"]
    for each in entries[:_MOST_FILES]:
        name = one_line(each.name, _LINE_CHARS)
        if each.is_symlink():
            lines.append(f"  {name} -> {one_line(_target(each.path), _LINE_CHARS)}")
        elif each.is_dir(follow_symlinks=False):
            many, much = _inside(each.path)
            lines.append(f"  {name}/  {style.dim(f'{many}, {much}')}")
        else:
            lines.append(f"  {name}  {style.dim(format_size(each.stat(follow_symlinks=False).st_size))}")
    remaining = len(entries) - _MOST_FILES
    return [*lines, *([style.dim(f"  and {remaining} more")] if remaining > 0 else [])]


def _target(path: str) -> str:
    try:
        return str(Path(path).readlink())
    except OSError:
        return "?"


def _inside(folder: str) -> tuple[str, str]:
    files = amount = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            files += 1
            if files > _MOST_COUNTED:
                return f"more than {_MOST_COUNTED:,} files", f"more than {format_size(amount)}"
            try:
                amount += os.lstat(f"{parent}/{name}").st_size
            except OSError:
                continue
    return format_count(files, "file"), format_size(amount)
