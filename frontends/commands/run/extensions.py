"""Extensions in `run`: waiting until they have started, and remarks about them."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import trio

import session_core as sc
from frontends.commands.run.prompt_kind import UnusedExtension
from frontends.shared.figures import format_count
from frontends.shared.progress import ProgressLine
from frontends.shared.sanitise import one_line
from frontends.shared.streams import StandardStreams

if TYPE_CHECKING:
    Hosts = Sequence[sc.extensions.ExtensionHost]

CLIENT = "cli"
START_PATIENCE_S = 10.5
"""How long a prompt waits for extensions: it may be one of their commands. By then each has started or failed."""
_NOT_USED = frozenset({"no_consent", "untrusted", "invalid"})
_SKIPPED = {
    "no_consent": ("has no consent for its current files", "to review it and let it run", "ext trust NAME"),
    "invalid": ("cannot be used", "to see why", "ext list"),
    "untrusted": ("belongs to a folder that is not trusted", "to review and trust the folder", "trust"),
    "disabled": ("is disabled", "to enable it", "ext enable NAME"),
}
_BY_USE = tuple(_SKIPPED)  # users know what they disabled; the rest may surprise
_NAME_CHARS = 40
_REASON_CHARS = 120
_ASKS: frozenset[sc.extensions.UiKind] = frozenset({"confirm", "select", "input", "set_status"})
_TELLS: frozenset[sc.extensions.UiKind] = frozenset({"notify"})


def ui_kinds(streams: StandardStreams) -> frozenset[sc.extensions.UiKind]:
    """Return the kinds of UI that extensions can use here."""
    return _TELLS | _ASKS if streams.keyboard is not None else _TELLS


async def wait_until_started(setup: sc.setup.Setup, folder: str, *, progress: bool) -> None:
    """Give every extension of a folder a moment to start or to fail; `progress` shows the wait if it takes long."""
    with ProgressLine.on_stderr() if progress else ProgressLine(None) as doing:
        doing("starting extensions")
        with trio.move_on_after(START_PATIENCE_S):
            await setup.extensions.wait_until_started(folder)


def collect_extension_remarks(hosts: "Hosts", flags: Iterable[str] = ()) -> list[str]:
    """Describe in one sentence which extensions are not used, and which flags are unknown.

    Those of the folder that may not run are among the remarks about the folder.
    """
    extensions = [each for host in hosts for each in host.extensions]
    if not hosts:
        said = [each.partition("=")[0] for each in flags]
        return [f"no extension runs here, so --flag has no effect: {', '.join(said)}"] if said else []
    known = {each.name for each in extensions}
    skipped = [each for host in hosts if host.config.serves is None for each in host.discovery.skipped]
    unused = {each.name: each.reason for each in skipped if each.kind in _NOT_USED}
    unused = {name: reason for name, reason in unused.items() if name not in known}
    for each in extensions:
        if each.state == "starting":
            unused[each.name] = "it has not started yet"
        elif each.state != "ready":
            unused[each.name] = each.problem or "it does not run"
    remarks = [_format_unused(unused)] if unused else []
    said_by_models = [each for host in hosts for each in host.models.remarks]
    return [*remarks, *said_by_models, *_unknown_flags(extensions, flags)]


def list_unused_extensions(
    hosts: "Hosts", of_folder: "Iterable[sc.extensions.SkippedExtension]" = ()
) -> list[UnusedExtension]:
    """Return the extensions that are not running, with advice about each, the most useful first."""
    found = []
    extensions = [each for host in hosts for each in host.extensions]
    for each in extensions:
        if each.state in {"failed", "restarting"}:
            commands = frozenset(command.name for command in each.registrations.commands)
            found.append(_describe_unused(each.name, "has failed", "to see why", "ext doctor NAME", commands))
    known = {each.name for each in extensions}
    own = [each for host in hosts if host.config.serves is None for each in host.discovery.skipped]
    skipped = [each for each in (*own, *of_folder) if each.kind in _SKIPPED and each.name not in known]
    skipped.sort(key=lambda each: _BY_USE.index(each.kind))
    return [*found, *(_describe_unused(each.name, *_SKIPPED[each.kind]) for each in skipped)]


def _describe_unused(
    name: str, what: str, aim: str, command: str, commands: frozenset[str] = frozenset()
) -> UnusedExtension:
    safe_name = one_line(name, _NAME_CHARS)
    typed = f"session-core {command.replace('NAME', safe_name)}"
    return UnusedExtension(
        name=name, why=f"the extension {safe_name} {what}", advice=f"{aim}: {typed}", commands=commands
    )


def _format_unused(unused: dict[str, str]) -> str:
    named = ", ".join(
        f"{one_line(name, _NAME_CHARS)} ({one_line(reason, _REASON_CHARS).rstrip('.')})"
        for name, reason in sorted(unused.items())
    )
    are = "is" if len(unused) == 1 else "are"
    return f"{format_count(len(unused), 'extension')} {are} not used (see: session-core ext list): {named}"


def _unknown_flags(extensions: "Sequence[sc.extensions.HostedExtension]", flags: Iterable[str]) -> list[str]:
    """Describe the flags that no extension has; one that has not started could have any."""
    if any(each.state != "ready" for each in extensions):
        return []
    known = {name.lstrip("-") for each in extensions for name in each.registrations.flags}
    said = [name for each in flags if (name := each.partition("=")[0]) not in known]
    return [f"no extension that runs here has a flag called {', '.join(said)}"] if said else []
