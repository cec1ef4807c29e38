"""The home: its location, owner, free space and store, and the server that runs for it."""

import os
import shutil
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import trio

import session_core as sc
from frontends.commands.doctor.finding import DoctorFinding, ok, problem, warning
from frontends.shared.figures import format_count, format_path, format_size
from frontends.shared.home import format_command, has_store, open_stored_home
from frontends.shared.sanitise import one_line

LITTLE_ROOM = 1_000_000_000
NO_ROOM = 50_000_000
READ_WHOLE = 8_000_000
"""In a store up to this many bytes every record is checked; larger ones would take too long."""
ANSWER_S = 1.0
_MOST_FAULTS = 10
_LONGEST = 1_000


def check_home(home: Path) -> Iterator[DoctorFinding]:
    """Check the directory itself."""
    home_text = format_path(str(home))
    try:
        found = home.stat()
    except FileNotFoundError:
        yield ok("home", f"{home_text} does not exist yet; the first session creates it")
        yield from _room(home)
        return
    except OSError as error:
        yield problem("home", f"{home_text} cannot be inspected: {error.strerror}", "check its owner and mode")
        return
    if found.st_uid != os.getuid():
        yield problem("home", f"{home_text} belongs to another user", "choose another with --home or SESSION_CORE_HOME")
    elif faults := _find_faults(home):
        for fault in faults:
            yield problem("home", one_line(fault.what, _LONGEST), one_line(fault.remedy, _LONGEST))
    elif stat.S_IMODE(found.st_mode) & 0o077:
        yield problem("home", f"{home_text} can be entered by other users", f"chmod 700 {home_text}")
    elif not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        yield problem("home", f"{home_text} cannot be written", f"chmod u+rwx {home_text}")
    else:
        yield ok("home", f"{home_text} is accessible only to you")
    yield from _room(home)


def _find_faults(home: Path) -> list[sc.setup.OwnershipFault]:
    try:
        return list(islice(sc.setup.find_home_faults(home), _MOST_FAULTS))
    except OSError:  # it cannot be entered, which is told next
        return []


def _room(home: Path) -> Iterator[DoctorFinding]:
    there = next((each for each in (home, *home.parents) if each.exists()), Path("/"))
    try:
        free = shutil.disk_usage(there).free
    except OSError as error:
        yield warning("disk", f"the free space cannot be determined: {error.strerror}")
        return
    said = f"{format_size(free)} free where the home is"
    if free < NO_ROOM:
        yield problem("disk", said, "free some space: soon sessions cannot be saved any more")
    elif free < LITTLE_ROOM:
        yield warning("disk", said, f"free some space, or see: {format_command(home, 'store compact', '')}")
    else:
        yield ok("disk", said)


async def check_store(home: Path) -> list[DoctorFinding]:
    """Check the stored sessions: every record of a small store, and the list of a large one."""
    if not has_store(home):
        return [ok("store", "no sessions are stored yet")]
    verify = format_command(home, "store verify", "")
    try:
        length = await trio.to_thread.run_sync(_length, home)
        if length <= READ_WHOLE:
            report = await trio.to_thread.run_sync(sc.maintenance.verify_store, home)
            errors = [each for each in report.findings if each.severity == "error"]
            if errors:
                more = f", and {format_count(len(errors) - 1, 'more error')}" if len(errors) > 1 else ""
                return [problem("store", f"{errors[0].what}{more}", errors[0].advice or verify)]
            return [
                ok(
                    "store",
                    f"{format_count(report.sessions, 'session')}, all records are sound ({format_size(length)})",
                )
            ]
        async with open_stored_home(home) as stored_home:
            many = format_count(len(stored_home.sessions), "session")
            return [ok("store", f"{many} can be listed ({format_size(length)}); every record is checked by: {verify}")]
    except sc.SessionCoreError as error:
        return [problem("store", error.message, verify)]


def _length(home: Path) -> int:
    try:
        return (home / "sessions.sqlite3").stat().st_size
    except OSError:
        return 0


async def check_service(home: Path) -> list[DoctorFinding]:
    """Find out who uses the home: a server, which is asked for its version, or another program."""
    from frontends.server.daemon.status import request_report

    report = None
    try:
        holder = await trio.to_thread.run_sync(sc.setup.lock_holder, home)
        with trio.move_on_after(ANSWER_S) as time_limit:
            report = await request_report(home)
    except (sc.SessionCoreError, OSError) as error:
        said = error.message if isinstance(error, sc.SessionCoreError) else str(error)
        return [problem("service", said, format_command(home, "shutdown", "--force"))]
    if time_limit.cancelled_caught:
        hint = format_command(home, "shutdown", "--force")
        return [problem("service", f"one runs ({holder or 'it is starting'}) and does not answer", hint)]
    if report is None:
        if holder is not None:
            return [warning("service", f"none runs; {holder} uses the home", "wait until it ends")]
        return [ok("service", f"none runs, and none is needed; to start one: {format_command(home, 'serve', '')}")]
    status = report.status
    said = f"runs as process {status.pid}, with {format_count(status.clients, 'client')}"
    if status.read_only is not None:
        return [
            problem("service", f"{said}, but can save nothing: {status.read_only}", "free some space, then restart it")
        ]
    if status.version != sc.__version__:
        hint = f"{format_command(home, 'shutdown', '')}, then {format_command(home, 'serve', '')}"
        return [warning("service", f"{said}, of version {status.version}; this program is {sc.__version__}", hint)]
    return [ok("service", f"{said}, of this version")]
