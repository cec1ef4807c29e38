"""`session-core serve`: the service of a home, in this process or in a separate one."""

import os
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import trio

import session_core as sc
from frontends.server.daemon.background import detach_from_starter, report, start_in_background
from frontends.server.daemon.runtime_paths import Listening, format_open_to_others, log_file, service_process
from frontends.shared.figures import format_path
from frontends.shared.home import format_command
from frontends.shared.parser import UsageError
from frontends.shared.progress import ProgressLine
from frontends.shared.sanitise import one_line
from frontends.shared.streams import StandardStreams
from frontends.shared.style import Style

if TYPE_CHECKING:
    from frontends.server.http.settings import HttpSettings

IDLE_S = 900.0
"""How long a background service stays without clients or work."""
_REMARK_CHARS = 400
_OPTIONS = {
    "host": "--http [HOST:]PORT, --tls CERT KEY, --allow-remote",
    "port": "--http [HOST:]PORT; --http 0 takes any free port",
    "tls": "--tls CERT KEY: first the certificate, then its key",
    "urls": "--url URL",
}
"""The command line options of the HTTP settings."""


@attrs.frozen(kw_only=True)
class ServeRequest:
    """The options of `serve`.

    Attributes:
        home: The home to serve.
        foreground: Whether this process becomes the service.
        detached: Whether this process was started to become the background service.
        idle_s: How long it stays without clients or work; None if not given, see `idle_limit_s`.
        http: The settings of the HTTP listener; None opens none.
        log_level: The lowest level that is logged.
        telemetry: Whether spans were requested; the standard variables may request them too.
    """

    home: Path
    foreground: bool = False
    detached: bool = False
    idle_s: float | None = None
    http: "HttpSettings | None" = None
    log_level: str = "info"
    telemetry: bool = False

    @property
    def idle_limit_s(self) -> float | None:
        """How long the service stays without clients or work; None means forever."""
        return IDLE_S if self.detached and self.idle_s is None else self.idle_s

    def arguments(self) -> list[str]:
        """Return the options that make the same request again."""
        words = [] if self.idle_s is None else ["--idle", f"{self.idle_s:g}"]
        words += ["--log-level", self.log_level]
        words += ["--telemetry"] if self.telemetry else []
        if (http := self.http) is not None:
            host = f"[{http.host}]" if ":" in http.host else http.host
            words += ["--http", f"{host}:{http.port}"]
            if http.tls is not None:
                words += ["--tls", str(http.tls.certificate.absolute()), str(http.tls.key.absolute())]
            words += [word for url in http.urls for word in ("--url", url)]
            words += ["--allow-remote"] if http.allow_remote else []
        return words


def serve(wanted: ServeRequest) -> int:
    """Run `serve` and return the exit code."""
    if wanted.http is not None:  # before anything is started, so mistakes are reported at once
        _check_http(wanted.http)
    if wanted.telemetry:
        from frontends.server.telemetry.availability import check_installed, is_wanted

        if is_wanted(os.environ, asked=True):
            check_installed()
    if wanted.detached:
        detach_from_starter()
        return trio.run(_serve, wanted, None)
    if wanted.foreground:
        return trio.run(_serve, wanted, StandardStreams.standard())
    return trio.run(_start, wanted, StandardStreams.standard())


def _check_http(settings: "HttpSettings") -> None:
    """Check the settings of the HTTP listener.

    Raises:
        UsageError: The required packages are not installed.
        InvalidInput: The settings are invalid.
    """
    from frontends.server.http.installed import MISSING, is_installed

    if not is_installed():
        raise UsageError(MISSING)
    with naming_options():
        settings.check()


@contextmanager
def naming_options() -> Generator[None]:
    """Add the option of `serve` that can fix it to each error about the HTTP listener."""
    try:
        yield
    except (sc.InvalidInput, sc.Unavailable) as error:
        options = _OPTIONS.get(error.field or "")
        if options is None or "--" in error.message:  # the message already names an option
            raise
        raise type(error)(f"{error.message} ({options})", field=error.field) from error


async def _serve(wanted: ServeRequest, streams: StandardStreams | None) -> int:
    from frontends.server.daemon.foreground import serve_home

    async def announce(listening: Listening) -> None:
        assert streams is not None
        await _announce(wanted.home, listening, streams)

    with naming_options():
        await serve_home(wanted, report if streams is None else announce)
    if streams is not None:
        await streams.remark("the service has ended")
    return 0


async def _announce(home: Path, listening: Listening, streams: StandardStreams) -> None:
    for line in listening_lines(home, listening):
        await streams.say(line)
    for line in _remark_lines(streams.err.style, listening.remarks):
        await streams.remark(line)


def _remark_lines(style: Style, remarks: Iterable[str]) -> list[str]:
    return [f"{style.yellow(style.symbol('●'))} {one_line(remark, _REMARK_CHARS)}" for remark in remarks]


def listening_lines(home: Path, listening: Listening) -> list[str]:
    """Return lines with the addresses of a service."""
    lines = [f"serving {format_path(str(home))} at {format_path(str(listening.socket))} (process {listening.pid})"]
    if listening.address is not None:
        lines.append(f"and at {listening.address}; to let a browser in: {format_command(home, 'serve', '--login')}")
    if listening.open_to_others is not None:
        lines.append(format_open_to_others(listening.open_to_others))
    return lines


async def _start(wanted: ServeRequest, streams: StandardStreams) -> int:
    holder = await trio.to_thread.run_sync(service_process, wanted.home)
    if holder is not None:
        see, end = format_command(wanted.home, "status", ""), format_command(wanted.home, "shutdown", "")
        raise sc.Conflict(f"this home already has a service: {holder}; to see it: {see}, to end it: {end}")
    with ProgressLine.on_stderr() if sys.stderr is not None else ProgressLine(None) as doing:
        doing("starting the service")
        listening = await start_in_background(wanted.home, wanted.arguments())
    await _announce(wanted.home, listening, streams)
    await streams.remark(streams.err.style.dim(f"its log: {format_path(str(log_file(wanted.home)))}"))
    return 0
