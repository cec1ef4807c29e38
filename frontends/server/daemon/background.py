"""Start the service of a home as a separate process, and find out why it did not start.

The starting process gives it a pipe as its stderr. The service reports there in one line that it accepts clients, and
closes the pipe; any other output before its end is the reason for a failure.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs
import trio

import frontends
import session_core as sc
from frontends.server.daemon.log_file import last_messages
from frontends.server.daemon.runtime_paths import Listening, log_file
from frontends.shared.sanitise import one_line

START_S: Final = 60.0
"""How long a start may take on a busy machine."""
_READY: Final = b'{"serving": '
_MOST_SAID: Final = 64 * 1024
_LINES_SHOWN: Final = 5
_LINE_CHARS: Final = 400
_MOST_REMARKS: Final = 20
_COMPLAINT: Final = "session-core: "


class NotStarted(sc.SessionCoreError):
    """The service could not be started; the details say more."""

    code = "unavailable"

    def __init__(self, message: str, *, details: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.details = tuple(details)


# --- in the process that starts it ------------------------------------------------------------------------------------


async def start_in_background(home: Path, arguments: Sequence[str] = ()) -> Listening:
    """Start the service of a home in its own process session, and wait until it accepts clients.

    It has no terminal, works in `/`, and has the environment and the umask of this process: files that agents make in
    a project get the modes that the person is used to. Its own lie in the home, which nobody else may enter.

    Raises:
        NotStarted: The service could not start; the message is its own.

    Cancellation: the service may start anyway.
    """
    command = [*_program(), "serve", "--detached", "--home", str(home), *arguments]
    reading, writing = os.pipe()
    async with trio.lowlevel.FdStream(reading) as output:
        try:
            # The process started here exits at once, and the process that it leaves behind has no parent here.
            await trio.run_process(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=writing,
                check=False,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise NotStarted(f"the service could not be started: {error.strerror}") from error
        finally:
            os.close(writing)
        said = b""
        with trio.move_on_after(START_S) as time_limit:
            said = await _read_until_ready(output)
    if time_limit.cancelled_caught:
        raise NotStarted(
            f"the service has not accepted connections within {START_S:.0f} seconds", details=[_where(home)]
        )
    return await trio.to_thread.run_sync(_parse_start_output, home, said)


def _program() -> list[str]:
    """Return the command that starts this program again, from where it was imported and not from the current folder."""
    root = str(Path(frontends.__file__).resolve().parents[1])
    code = (
        f"import sys; sys.path.append({root!r}); sys.argv[0] = 'session-core'; "
        "from frontends.entry import main; sys.exit(main())"
    )
    return [sys.executable, "-P", "-c", code]


async def _read_until_ready(output: trio.lowlevel.FdStream) -> bytes:
    said = b""
    async for chunk in output:
        said = (said + chunk)[-_MOST_SAID:]
        if any(line.startswith(_READY) for line in said.splitlines() if said.endswith(b"\n")):
            break
    return said


def _parse_start_output(home: Path, said: bytes) -> Listening:
    lines = said.splitlines()
    for line in lines:
        if line.startswith(_READY):
            serving = json.loads(line)["serving"]
            return Listening(**serving | {"socket": Path(serving["socket"]), "remarks": tuple(serving["remarks"])})
    displayed_lines = [one_line(line.decode("utf-8", "replace"), _LINE_CHARS) for line in lines if line.strip()]
    if not displayed_lines:
        before = [one_line(each, _LINE_CHARS) for each in last_messages(log_file(home), _LINES_SHOWN)]
        raise NotStarted("the service did not start, and did not say why", details=(*before, _where(home)))
    complaints = [place for place, line in enumerate(displayed_lines) if line.startswith(_COMPLAINT)]
    if complaints:
        first = complaints[0]
        raise NotStarted(
            displayed_lines[first].removeprefix(_COMPLAINT), details=displayed_lines[first + 1 :][:_LINES_SHOWN]
        )
    raise NotStarted(
        f"the service did not start: {displayed_lines[-1]}", details=(*displayed_lines[-_LINES_SHOWN:-1], _where(home))
    )


def _where(home: Path) -> str:
    return f"its log: {log_file(home)}"


# --- in the process that is started -----------------------------------------------------------------------------------


def detach_from_starter() -> None:
    """Continue in an orphaned process that leads no session, so it can never acquire a terminal."""
    if os.fork():
        os._exit(0)


async def report(listening: Listening) -> None:
    """Tell the starting process that clients are accepted, and close its pipe."""
    remarks = [each[:_LINE_CHARS] for each in listening.remarks[:_MOST_REMARKS]]
    serving = attrs.asdict(listening) | {"socket": str(listening.socket), "remarks": remarks}
    await trio.to_thread.run_sync(_report, json.dumps({"serving": serving}).encode() + b"\n")


def _report(line: bytes) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    try:
        os.write(2, line)
    except OSError:
        pass  # the starting process has gone; other clients will come
    finally:
        os.dup2(nowhere, 2)
        os.close(nowhere)
