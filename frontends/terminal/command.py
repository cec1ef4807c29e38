"""Opens the terminal, and prints closing lines when it ends."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

import session_core as sc
from frontends.shared.parser import UsageError
from frontends.shared.sanitise import one_line
from frontends.terminal.options import TerminalOptions
from frontends.terminal.tty import acquire_terminal


def open_terminal(options: TerminalOptions) -> int:
    """Open the terminal, and return the exit code when it is closed.

    Raises:
        UsageError: There is no terminal to draw on.
    """
    _check_terminal()
    with acquire_terminal() as leaving:
        from frontends.terminal.app import TerminalApp
        from frontends.terminal.backend import BackgroundService, EmbeddedService

        place = EmbeddedService(options.home) if options.embedded else BackgroundService(options.home)
        app = TerminalApp(place, options)
        leaving.attach_app(app)
        try:
            app.run()
        finally:
            place.close()
    if app.fault is not None:
        raise TerminalFailed(
            f"the terminal has failed and was closed: {one_line(app.fault, 300)} (SESSION_CORE_DEBUG=1 shows where)"
        )
    with suppress(OSError):  # the terminal may be closed already
        for line in closing_lines(app.feeds.session_list, options):
            print(line, flush=True)
    return leaving.exit_code or app.return_code or 0


def _check_terminal() -> None:
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise UsageError(
            "this needs a terminal; to work without one: session-core run, to see all commands: session-core --help"
        )
    if os.environ.get("TERM", "") in {"", "dumb"}:
        raise UsageError("this terminal cannot be drawn on (TERM is empty or dumb); use: session-core run")


class TerminalFailed(sc.SessionCoreError):
    """The terminal closed because of an internal error."""

    code = "internal"


def closing_lines(session_list: sc.SessionListState | None, options: TerminalOptions) -> list[str]:
    """Describe what keeps running without the terminal, and how to come back to it."""
    if session_list is None or options.embedded:
        return []
    busy = [each for each in session_list.sessions.values() if not each.activity.is_at_rest and each.parent_id is None]
    if not busy:
        return []
    from frontends.shared.home import format_command

    names = ", ".join(f'"{one_line(each.name, 40)}"' for each in busy[:3])
    more = f" and {len(busy) - 3} more" if len(busy) > 3 else ""
    one = len(busy) == 1
    goes_on = "goes on" if one else "go on"
    back = format_command(options.home, "", "").strip()
    stop = format_command(options.home, "stop", "ID")
    which = "it" if one else "one"
    return [f"{names}{more} {goes_on} in the background; to come back: {back}, to stop {which}: {stop}"]
