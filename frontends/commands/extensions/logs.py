"""`session-core ext logs`: the last lines an extension printed outside the protocol."""

import errno
import os
import stat
import sys
from contextlib import ExitStack
from pathlib import Path

import session_core as sc
from frontends.shared.extension_lookup import ExtensionListEntry, find_extensions, format_folder
from frontends.shared.parser import UsageError
from frontends.shared.sanitise import sanitise
from frontends.shared.streams import remark

LOG_FOLDER = Path("logs") / "extensions"
_OLDER = ".1"
_MAX_BYTES = 4 * 1024 * 1024  # two log files are kept, each smaller than this


def show_log(home: Path, cwd: Path, name: str, *, lines: int) -> int:
    """Run `ext logs` and return the exit code."""
    if not sc.extensions.is_extension_name(name):
        raise UsageError(f"{sanitise(name)!r} cannot be the name of an extension; see: session-core ext list")
    known = find_extensions(home, cwd).entries_named(name)
    file = log_file(home, _log_owner(known[0]) if known else name)
    log_lines = tail(file, lines)
    if log_lines is None:
        if not known:
            raise UsageError(f"there is no extension called {name!r}, and no log of one; see: session-core ext list")
        remark(f"{name} has logged nothing yet; its log will be {format_folder(file)}")
        return 0
    for line in log_lines:
        print(line)
    sys.stdout.flush()
    return 0


def log_file(home: Path, owner: str) -> Path:
    """Return the path of an extension's log; see `DiscoveredExtension.owner`."""
    return home / LOG_FOLDER / f"{owner}.log"


def _log_owner(entry: ExtensionListEntry) -> str:
    """Return the name of an extension's log: extensions of projects may share a name with others."""
    if entry.state != "ready" or entry.scope != "project" or entry.manifest is None or entry.digest is None:
        return entry.name
    return sc.extensions.DiscoveredExtension(
        name=entry.name, folder=entry.folder, scope="project", manifest=entry.manifest, digest=entry.digest
    ).owner


def tail(file: Path, lines: int) -> list[str] | None:
    """Return the last lines of a log, including the older file, safe to print; None if there is none.

    Raises:
        StoreUnusable: It cannot be read.
    """
    newer, older = _content(file), _content(file.with_name(file.name + _OLDER))
    if newer is None and older is None:
        return None
    text = ((older or b"") + (newer or b"")).decode("utf-8", errors="replace")
    return [sanitise(line).replace("\t", " ") for line in text.splitlines()[-lines:]]


def _content(file: Path) -> bytes | None:
    # Without O_NONBLOCK, a pipe of that name would block for ever.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        with ExitStack() as opened:
            descriptor = os.open(file, flags)
            opened.callback(os.close, descriptor)
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise sc.StoreUnusable(f"the log {str(file)!r} is not an ordinary file; move it away")
            return os.pread(descriptor, _MAX_BYTES, max(0, status.st_size - _MAX_BYTES))
    except FileNotFoundError:
        return None
    except OSError as error:
        why = "it is a link" if error.errno == errno.ELOOP else error.strerror
        raise sc.StoreUnusable(f"the log {str(file)!r} cannot be read: {why}") from error
