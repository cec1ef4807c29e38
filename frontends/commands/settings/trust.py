"""`session-core trust`: whether the files of a project may steer the agent."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import trio

import session_core as sc
from frontends.commands.settings.project_effects import (
    UselessSetting,
    describe_project_file,
    find_useless_settings,
)
from frontends.shared.figures import format_count, format_path
from frontends.shared.parser import UsageError
from frontends.shared.sanitise import one_line
from frontends.shared.streams import StandardStreams, discard_typed_input, remark
from frontends.shared.style import Style, stream_style

_MOST_FILES = 100
_PATH_CHARS = 300
_DO_THIS = "then they take effect: instructions for the model, settings, skills, and programs that are started"


def trust(home: Path, folder: Path, *, yes: bool) -> int:
    """Run `trust` and return the exit code: 1 if the user declined."""
    found = _fingerprint(folder)
    style, where = stream_style(sys.stdout), _format_folder(folder)
    if found.is_empty:
        print(f"There is nothing to trust in {where}: it has no settings, instructions, skills or MCP servers.")
        return 0
    store = sc.setup.TrustStore(home)
    if store.is_trusted(str(folder), found):
        print(f"{style.green(style.symbol('✓'))} {where} is trusted already, with the files as they are now.")
        return 0
    remark(store.remark)
    if not yes and not trio.run(_ask_trust, home, folder, found, StandardStreams.standard()):
        print("nothing was changed", file=sys.stderr)
        return 1
    if _fingerprint(folder) != found:
        raise sc.Conflict("the files changed during the review, so nothing was trusted; review them again")
    store.trust(str(folder), found)
    print(f"{style.green(style.symbol('✓'))} {where} is trusted, until one of these files changes.")
    return 0


def show(home: Path, folder: Path) -> int:
    """Run `trust --show`: list the files that would count, what they would do, and whether they are trusted."""
    found, store = _fingerprint(folder), sc.setup.TrustStore(home)
    trusted = store.is_trusted(str(folder), found)
    style = stream_style(sys.stdout)
    remark(store.remark)
    useless = find_useless_settings(home, folder, found)
    for line in file_lines(style, found, sc.setup.Workspace(str(folder)), useless):
        print(line)
    if found.is_empty:
        print(f"{_format_folder(folder)} has no files that need trust.")
    elif trusted:
        print(f"{style.green(style.symbol('✓'))} {_format_folder(folder)} is trusted with these files as they are now.")
    else:
        print(f"{style.yellow(style.symbol('■'))} {_format_folder(folder)} is not trusted: these files are not used.")
    return 0


def list_folders(home: Path) -> int:
    """Run `trust --list`: list every trusted folder, and whether its files are unchanged."""
    store, style = sc.setup.TrustStore(home), stream_style(sys.stdout)
    folders = store.folders()
    remark(store.remark)
    if not folders:
        print("No folder is trusted.")
    for folder in sorted(folders):
        good, state = _trust_state(store, Path(folder))
        mark = style.green(style.symbol("✓")) if good else style.yellow(style.symbol("■"))
        print(f"{mark} {_format_folder(Path(folder))}  {style.dim(state)}")
    return 0


def _trust_state(store: sc.setup.TrustStore, folder: Path) -> tuple[bool, str]:
    if not folder.is_dir():
        return False, "gone"
    try:
        found = sc.setup.take_fingerprint(sc.setup.Workspace(str(folder)))
    except (sc.setup.TooMuchToTrust, OSError, ValueError):
        return False, "cannot be read now, so it is not used"
    if store.is_trusted(str(folder), found):
        return True, f"trusted, {format_count(len(found.files), 'file')}"
    return False, "changed since, so it is not used (review it: session-core trust)"


def remove(home: Path, folder: Path) -> int:
    """Run `trust --remove`: revoke the trust, whatever the folder contains by now."""
    sc.setup.TrustStore(home).distrust(str(folder))
    print(f"{_format_folder(folder)} is no longer trusted.")
    return 0


async def _ask_trust(home: Path, folder: Path, found: sc.setup.Fingerprint, streams: StandardStreams) -> bool:
    """Ask on the terminal; anything but a clear yes is a no."""
    if streams.keyboard is None:
        raise UsageError("trust asks first, and there is no terminal to ask on; review with --show, then use --yes")
    style = streams.err.style
    useless = find_useless_settings(home, folder, found)
    for line in file_lines(style, found, sc.setup.Workspace(str(folder)), useless):
        await streams.remark(line)
    await streams.remark(style.dim(_DO_THIS))
    many = format_count(len(found.files), "file")
    discard_typed_input(streams.keyboard)
    return await streams.confirm(f"Trust {_format_folder(folder)} with {many} as listed?")


def file_lines(
    style: Style,
    found: sc.setup.Fingerprint,
    workspace: sc.setup.Workspace | None = None,
    useless: Mapping[str, UselessSetting] | None = None,
) -> list[str]:
    """Return the files that count, each with what it would do if the folder can be read."""
    lines: list[str] = []
    for path, _ in found.files[:_MOST_FILES]:
        lines.append(f"  {style.cyan(one_line(path, _PATH_CHARS))}")
        if workspace is not None:
            lines += [f"      {line}" for line in describe_project_file(workspace, path, found, useless)]
    remaining = len(found.files) - _MOST_FILES
    return [*lines, *([style.dim(f"  and {format_count(remaining, 'more file')}")] if remaining > 0 else [])]


def _fingerprint(folder: Path) -> sc.setup.Fingerprint:
    try:
        return sc.setup.take_fingerprint(sc.setup.Workspace(str(folder)))
    except sc.setup.TooMuchToTrust as error:
        raise sc.Conflict(f"{_format_folder(folder)} cannot be trusted: {one_line(str(error), _PATH_CHARS)}") from error
    except OSError as error:
        raise UsageError(f"{_format_folder(folder)} cannot be read: {error.strerror}") from error


def _format_folder(folder: Path) -> str:
    return one_line(format_path(os.path.realpath(folder)), _PATH_CHARS)
