"""What people get to know of extensions, and how what they type reaches one."""

import json
import shlex
from collections.abc import Iterable, Iterator
from typing import Any

from session_core import limits
from session_core.errors import NotFound
from session_core.sep.host.catalogue.discovery import Discovery, SkippedExtension
from session_core.sep.host.extension import HostedExtension
from session_core.sep.host.tools.tools import tool_name
from session_core.vocabulary.extensions import Completion, ExtensionCommand, ExtensionInfo, MessageRenderer, Shortcut


def info_of(extension: HostedExtension, folder: str | None) -> ExtensionInfo:
    """Say of an extension what people get to know; `folder` is the one whose sessions alone it serves."""
    brings = extension.registrations
    return ExtensionInfo(
        name=extension.name,
        version=extension.manifest.version,
        scope=extension.scope,
        state=extension.state,
        problem=extension.problem,
        generation=extension.generation,
        commands=tuple(
            ExtensionCommand(extension=extension.name, name=each.name, description=each.description)
            for each in brings.commands
        ),
        shortcuts=tuple(
            Shortcut(key=each.key, command=each.command, description=each.description) for each in brings.shortcuts
        ),
        tools=tuple(tool_name(extension.name, each.name) for each in brings.tools),
        renderers=tuple(MessageRenderer(tag=each.tag, template=each.template) for each in brings.message_renderers),
        providers=tuple(each.name for each in brings.providers),
        folder=folder,
    )


def infos_of(
    extensions: Iterable[HostedExtension], discovery: Discovery, folder: str | None
) -> tuple[ExtensionInfo, ...]:
    """Say of all extensions what people get to know, those that are disabled included."""
    running = {extension.name: info_of(extension, folder) for extension in extensions}
    disabled = (
        info_of_disabled(each, folder)
        for each in discovery.skipped
        if each.kind == "disabled" and each.name not in running
    )
    return tuple(sorted((*running.values(), *disabled), key=lambda info: info.name))


def info_of_disabled(skipped: SkippedExtension, folder: str | None) -> ExtensionInfo:
    """Say what people get to know of an extension that is not in use."""
    version = skipped.manifest.version if skipped.manifest is not None else ""
    return ExtensionInfo(
        name=skipped.name,
        version=version,
        scope=skipped.scope,
        state="disabled",
        problem=skipped.reason,
        folder=folder,
    )


def build_not_found(name: str, discovery: Discovery) -> NotFound:
    """Say that there is no such extension, and why, if that is known."""
    why = explain_absence(name, discovery)
    return NotFound(f"there is no extension {name!r} in use{f': {why}' if why else ''}", field="name")


def explain_absence(name: str, discovery: Discovery) -> str:
    """Say why an extension is not used; nothing if that is not known."""
    return next((each.reason for each in discovery.skipped if each.name == name), "")


def as_arguments(text: str) -> dict[str, Any]:
    """Make of what somebody typed behind a command the object that the protocol wants.

    A JSON object is itself. Anything else is `text` as it was typed, and `args`, the words in it as a shell sees them.
    """
    if text.lstrip().startswith("{"):
        try:
            plain = json.loads(text)
        except (ValueError, RecursionError):
            plain = None
        if isinstance(plain, dict):
            return plain
    try:
        words = shlex.split(text)
    except ValueError:  # a quote that has no end
        words = text.split()
    return {"text": text, "args": words}


def parse_completions(result: object) -> Iterator[Completion]:
    """Read the answer to `command/complete`; what cannot be used is left out."""
    entries = result.get("completions") if isinstance(result, dict) else None
    for entry in entries[: limits.MAX_PAGE] if isinstance(entries, list) else ():
        value, about = (entry.get("value"), entry.get("description")) if isinstance(entry, dict) else (None, None)
        if isinstance(value, str):
            yield Completion(value=value, description=about if isinstance(about, str) else "")
