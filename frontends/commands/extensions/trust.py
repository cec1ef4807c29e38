"""`session-core ext trust`, `enable` and `disable`: which extensions may run.

An extension is a program with the rights of the user who runs it. So the user reviews it first: the command, its
capabilities, and its files, whose digest is stored.
"""

import os
import shlex
import sys
from pathlib import Path

import trio

import session_core as sc
from frontends.commands.extensions.description import file_lines, manifest_lines
from frontends.shared.extension_lookup import (
    ExtensionListEntry,
    find_extensions,
    format_folder,
    how_to_trust,
    open_consents,
    pick,
    reread_entry,
)
from frontends.shared.home import format_command
from frontends.shared.parser import UsageError
from frontends.shared.sanitise import one_line
from frontends.shared.streams import StandardStreams, discard_typed_input, remark
from frontends.shared.style import Style, stream_style

_RIGHTS = (
    "it runs with your rights, and receives events of all sessions; "
    "if one byte of its files changes, you are asked again"
)


def trust(home: Path, cwd: Path, word: str, *, yes: bool) -> int:
    """Run `ext trust` and return the exit code: 1 if the user declined."""
    looked = find_extensions(home, cwd)
    entry = reread_entry(pick(looked, word, prefer=("no_consent", "watched", "untrusted", "elsewhere", "ready")))
    consents, style = open_consents(home), stream_style(sys.stdout)
    digest = _digest(entry)
    if consents.find_status(entry.name, entry.folder, digest) == "agreed":
        print(f"{style.green(style.symbol('✓'))} {_called(entry)} already has your consent, with its current files.")
        report_what_is_missing(home, cwd, entry)
        return 0
    remark(looked.remark)
    if yes:
        for line in consent_lines(style, entry):
            print(line)
    elif not trio.run(ask_consent, entry, StandardStreams.standard()):
        print("nothing was changed", file=sys.stderr)
        return 1
    if reread_entry(entry).digest != digest:
        raise sc.Conflict("the files changed during the review, so no consent was stored; review them again")
    before = consents.find(entry.name, entry.folder)
    consents.agree(entry.name, entry.folder, digest, entry.files)
    print(f"{style.green(style.symbol('✓'))} {_called(entry)} may run, until one of its files changes.")
    if before is not None and not before.enabled:
        remark("it was disabled, and is now enabled again")
    report_what_is_missing(home, cwd, entry)
    return 0


async def ask_consent(entry: ExtensionListEntry, streams: StandardStreams) -> bool:
    """Ask on the terminal; anything but a clear yes is a no."""
    if streams.keyboard is None:
        raise UsageError(
            "ext trust asks first, and there is no terminal to ask on; "
            "review with: session-core ext info, then use --yes"
        )
    for line in consent_lines(streams.err.style, entry):
        await streams.remark(line)
    discard_typed_input(streams.keyboard)
    return await streams.confirm(f"Let {_called(entry)} run, with these files?")


def consent_lines(style: Style, entry: ExtensionListEntry) -> list[str]:
    """Return everything a user should see before giving consent."""
    return [*manifest_lines(style, entry), *file_lines(style, entry.folder), style.dim(_RIGHTS)]


def switch(home: Path, cwd: Path, word: str, *, enabled: bool) -> int:
    """Run `ext enable` or `ext disable` and return the exit code."""
    looked = find_extensions(home, cwd)
    entry = pick(
        looked, word, prefer=("disabled", "ready") if enabled else ("ready", "watched", "no_consent", "disabled")
    )
    if entry.manifest is None:
        entry = reread_entry(entry)
    open_consents(home).set_enabled(entry.name, entry.folder, enabled=enabled)
    style = stream_style(sys.stdout)
    if enabled:
        print(f"{style.green(style.symbol('✓'))} {_called(entry)} is enabled.")
        report_what_is_missing(home, cwd, entry)
    else:
        print(f"{style.yellow(style.symbol('■'))} {_called(entry)} is disabled; your consent is remembered.")
        _announce_replacement(home, cwd, entry)
    return 0


def report_what_is_missing(home: Path, cwd: Path, entry: ExtensionListEntry) -> None:
    """Report what still keeps an extension from running: consent is not always enough."""
    looked = find_extensions(home, cwd)
    now = looked.entry_in_folder(entry.folder)
    if now is None:
        link = shlex.join(["ln", "-sfn", os.path.realpath(entry.folder), str(looked.places.user[0] / entry.name)])
        remark(f"it is in none of the folders that are searched for extensions; to link it there: {link}")
    elif now.state == "untrusted":
        remark(f"it belongs to this project, and does not run until the folder is trusted; {how_to_trust(home)}")
    elif now.state == "no_consent":
        remark(f"it does not run yet: {now.reason}; {format_command(home, 'ext trust', one_line(now.name))}")
    elif now.state not in {"ready", "watched"}:
        remark(f"it does not run: {now.reason}")


def _announce_replacement(home: Path, cwd: Path, entry: ExtensionListEntry) -> None:
    """Report that another extension of the same name runs in place of the disabled one."""
    for other in find_extensions(home, cwd).entries_named(entry.name):
        if other.state == "ready":
            remark(f"another one of that name runs instead, in {format_folder(other.folder)}")


def _digest(entry: ExtensionListEntry) -> str:
    assert entry.digest is not None, "it was read closely"
    return entry.digest


def _called(entry: ExtensionListEntry) -> str:
    return f"{one_line(entry.name)} in {format_folder(entry.folder)}"
