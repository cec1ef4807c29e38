"""What people see of extensions."""

from collections.abc import Iterable

from session_core.errors import NotFound
from session_core.sep.host.catalogue.discovery import Discovery
from session_core.sep.host.extension import HostedExtension
from session_core.sep.host.tools.tools import tool_name
from session_core.vocabulary.extensions import ExtensionCommand, ExtensionInfo


def info_of(extension: HostedExtension, folder: str | None) -> ExtensionInfo:
    """Describe an extension for people; `folder` is the only one whose sessions it serves, if any."""
    brings = extension.registrations
    return ExtensionInfo(
        name=extension.name,
        version=extension.manifest.version,
        scope=extension.found.scope,
        state=extension.state,
        problem=extension.problem,
        generation=extension.generation,
        commands=tuple(
            ExtensionCommand(extension=extension.name, name=each.name, description=each.description)
            for each in brings.commands
        ),
        shortcuts=brings.shortcuts,
        tools=tuple(tool_name(extension.name, each.name) for each in brings.tools),
        renderers=brings.message_renderers,
        providers=tuple(each.name for each in brings.providers),
        folder=folder,
    )


def infos_of(
    extensions: Iterable[HostedExtension], discovery: Discovery, folder: str | None
) -> tuple[ExtensionInfo, ...]:
    """Describe all extensions for people, including disabled ones."""
    running = {extension.name: info_of(extension, folder) for extension in extensions}
    disabled = (
        ExtensionInfo(
            name=each.name,
            version=each.manifest.version if each.manifest is not None else "",
            scope=each.scope,
            state="disabled",
            problem=each.reason,
            folder=folder,
        )
        for each in discovery.skipped
        if each.kind == "disabled" and each.name not in running
    )
    return tuple(sorted((*running.values(), *disabled), key=lambda info: info.name))


def build_not_found(name: str, discovery: Discovery) -> NotFound:
    """Build the error that there is no such extension, with the reason if it is known."""
    why = explain_absence(name, discovery)
    return NotFound(f"there is no extension {name!r} in use{f': {why}' if why else ''}", field="name")


def explain_absence(name: str, discovery: Discovery) -> str:
    """Explain why an extension is not used; empty if that is not known."""
    return next((each.reason for each in discovery.skipped if each.name == name), "")
