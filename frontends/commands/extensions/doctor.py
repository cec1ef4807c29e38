"""`session-core ext doctor` and `session-core ext reload`: start an extension for real, and report on it."""

import os
import sys
from functools import partial
from pathlib import Path

import attrs
import trio

import session_core as sc
from frontends.commands.extensions.logs import log_file
from frontends.server.daemon.attached_client import talk_if_running
from frontends.server.daemon.runtime_paths import find_holder, service_process
from frontends.shared.extension_lookup import (
    ExtensionCatalogue,
    ExtensionListEntry,
    as_discovered,
    find_extensions,
    format_folder,
    open_consents,
    pick,
)
from frontends.shared.figures import duration
from frontends.shared.home import format_command
from frontends.shared.parser import UsageError
from frontends.shared.progress import ProgressLine
from frontends.shared.sanitise import dump_json, one_line
from frontends.shared.signals import end_on_signal
from frontends.shared.streams import remark
from frontends.shared.style import Style, stream_style
from frontends.shared.trial_run import ExtensionCheckReport, check

_LONGEST = 600
_MARGIN = 12


def doctor(home: Path, cwd: Path, word: str, *, as_json: bool) -> int:
    """Run `ext doctor` and return the exit code: 1 if something is wrong with the extension."""
    looked = find_extensions(home, cwd)
    remark(looked.remark)
    entry = pick(looked, word, prefer=("ready", "watched", "disabled", "shadowed"))
    if entry.watched and not as_json:
        remark("it is watched (extensions.watch): a running service uses its changes without asking")
    return trio.run(partial(examine, _require_consent(home, entry), home, cwd, looked, as_json=as_json))


def reload(home: Path, cwd: Path, word: str, *, as_json: bool) -> int:
    """Run `ext reload`: check the extension as it is now, and if it is healthy, reload it in the running service."""
    code = doctor(home, cwd, word, as_json=as_json)
    holder = find_holder(home)
    if holder is None:
        remark("no service is running in this home, so there is nothing to reload; the next one uses the new files")
    elif service_process(home) is None:
        remark(f"{holder} runs in this home and cannot be reached from here; it uses the new files at its next start")
    elif code:
        remark("the running service keeps using the old version")
    else:
        entry = pick(find_extensions(home, cwd), word, prefer=("ready", "watched", "disabled", "shadowed"))
        remark(
            trio.run(_reload_in_service, home, entry.name, os.path.realpath(cwd) if entry.scope == "project" else None)
        )
    return code


async def _reload_in_service(home: Path, name: str, folder: str | None) -> str:
    """Have the running service replace the process of an extension, and describe the result."""
    async with talk_if_running(home, name="ext reload") as talk:
        if talk is None:
            return "the service has just ended; the next one uses the new files"
        with ProgressLine.on_stderr() as doing:
            doing(f"the service reloads {name}")
            try:
                await talk.reload_extension(name, folder=folder)
            except sc.NotFound:
                if folder is None:
                    raise
                return "no session works in this folder now; the service uses the new files once one does"
    return f"the running service now uses the new files of {one_line(name)}"


def _require_consent(home: Path, entry: ExtensionListEntry) -> sc.extensions.DiscoveredExtension:
    """Return an extension that the user has consented to, with its current files.

    Raises:
        UsageError: There is no consent: it must not be started, not even to inspect it.
        ManifestInvalid, Conflict: It cannot be started as it is.
    """
    if entry.state == "invalid":
        raise sc.extensions.ManifestInvalid(one_line(entry.reason, _LONGEST))
    if entry.state in {"no_consent", "elsewhere"}:
        advice = format_command(
            home, "ext trust", one_line(entry.name if entry.state == "no_consent" else str(entry.folder))
        )
        raise UsageError(f"{one_line(entry.name)} is not started: {entry.reason}; to review it: {advice}")
    if entry.manifest is None or entry.digest is None:
        raise UsageError(f"{one_line(entry.name)} is not started: {entry.reason}")
    # A disabled or shadowed extension may be checked, if there is consent.
    standing = open_consents(home).find(entry.name, entry.folder)
    if standing is None or (standing.digest != entry.digest and entry.state != "watched"):
        advice = format_command(home, "ext trust", one_line(entry.name))
        raise UsageError(f"{one_line(entry.name)} is not started: you have not consented to it; to review it: {advice}")
    return as_discovered(entry)


async def examine(
    found: sc.extensions.DiscoveredExtension,
    home: Path,
    cwd: Path,
    looked: ExtensionCatalogue,
    *,
    as_json: bool = False,
    trial: sc.extensions.ExtensionTrial | None = None,
) -> int:
    """Start an extension, perhaps try it, end it, and print a report; returns 1 if something is wrong with it."""
    # An extension is a program: if this one ends early, it must not be left running.
    async with end_on_signal() as start:
        with ProgressLine.on_stderr() if not as_json else ProgressLine(None) as doing:
            doing(f"starting {found.name}")
            report = await check(found, home, cwd, trusted=looked.places.trusted, trial=trial)
    if start.exit_code is not None:
        return start.exit_code
    if as_json:
        print(dump_json({**attrs.asdict(report), "healthy": report.healthy}))
    else:
        for line in report_lines(stream_style(sys.stdout), report):
            print(line)
        logs_command = format_command(home, "ext logs", one_line(found.name))
        remark(
            f"its output in a service is logged in {format_folder(log_file(home, found.owner))}; "
            f"to read it: {logs_command}"
        )
    return 0 if report.healthy else 1


def report_lines(style: Style, report: ExtensionCheckReport) -> list[str]:
    """Return a report for people, one line per fact."""
    lines = [f"{style.cyan(one_line(report.name))} {one_line(report.version)}"]
    for step in report.steps:
        mark = style.green(style.symbol("✓")) if step.good else style.red(style.symbol("✗"))
        lines.append(f"{mark} {one_line(step.sentence, _LONGEST)} {style.dim(f'({duration(step.milliseconds)})')}")
    for kind, names in report.offers.items():
        lines.append(f"  {style.dim(kind.ljust(_MARGIN))}{one_line(', '.join(names), _LONGEST)}")
    lines += [f"{style.yellow(style.symbol('●'))} {one_line(each, _LONGEST)}" for each in report.remarks]
    if report.said:
        lines.append("its output outside the protocol:")
        lines += [style.dim(f"  | {one_line(each, _LONGEST)}") for each in report.said]
    return lines
