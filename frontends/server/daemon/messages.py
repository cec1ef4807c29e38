"""The texts of the commands about a running service: `serve`, `status`, `shutdown`, `watch`, `stop`.

It imports nothing heavy, so `--help` and `--version` answer at once.
"""

import argparse
from typing import Final

from frontends.shared.parser import Commands, add_command, milliseconds

SCOPES: Final = ("turn", "subtree", "session")
LEVELS: Final = ("debug", "info", "warning", "error")

_SERVE: Final = """\
examples:
  session-core serve                      in the background, until it is idle
  session-core serve --foreground         in this terminal, until Ctrl-C
  session-core serve --http 0             and HTTP on a free port of 127.0.0.1
  session-core serve --http 0.0.0.0:8443 --tls cert.pem key.pem
  session-core serve --login              a link that lets one browser in, once

One service runs for each home. Frontends find it by its socket, which only
your own programs can reach, and running work continues when they leave. In
the background it exits after 15 minutes without clients or work. Commands
that change sessions go through it while it runs.

HTTP is for browsers and other machines and always needs the token of the home
(--token prints it), or a scoped token: see session-core token --help.
It needs more packages: pip install 'session-core[server]'.
Beyond this machine it needs --tls, or --allow-remote if a proxy encrypts.
Clients that use a host name instead of the address are admitted only if --url
lists it: --url https://agents.example.net:8443

The log is logs/service.log in the home, one JSON object per line. --telemetry
sends spans of turns, model calls and tool calls, without any of their texts, to
OTEL_EXPORTER_OTLP_ENDPOINT, or to http://localhost:4318.
"""
_STATUS: Final = """\
examples:
  session-core status
  session-core status --json | jq .status.pid

exit codes:
  0 a service runs   3 none does
"""
_SHUTDOWN: Final = """\
examples:
  session-core shutdown
  session-core shutdown --force           even if something is running

Running work is then interrupted and marked so; `run --session ID` continues it.
The command waits until the process is gone. A service of another version
cannot report its work: then the store shows whether something is running, and
if it cannot be read, --force or a confirmation is needed.

exit codes:
  0 it has ended   1 it was not ended   3 none was running
"""
_WATCH: Final = """\
examples:
  session-core watch                      the most recently used session in this folder
  session-core watch 7k2f                 one session, as it happens
  session-core watch 7k2f 9x3d            several; each line says which
  session-core watch --all                what all sessions are doing
  session-core watch 7k2f --until-idle    leave when nothing runs any more
  session-core watch --all --json | jq    snapshots and events, one per line

Watching changes nothing; to step in, use run --session ID, or stop. Ctrl-C
leaves, and running work continues.

exit codes:
  0 left by Ctrl-C, or nothing runs any more   1 the service has ended
"""
_STOP: Final = """\
examples:
  session-core stop                       the most recently used session in this folder
  session-core stop 7k2f                  the turn that runs now
  session-core stop 7k2f --scope subtree  and those of sessions it has started
  session-core stop 7k2f --scope session  and their jobs and wake-ups

Earlier output is kept. The lines say what has ended and what still runs.

exit codes:
  0 it was stopped   1 something is still stopping   3 nothing ran
"""


def add_serving(commands: Commands) -> None:
    """Add the commands."""
    serve = add_command(
        commands,
        "serve",
        "run the service that frontends attach to",
        "Run the service of a home, in the background unless told otherwise.",
        _SERVE,
    )
    serve.add_argument("--foreground", action="store_true", help="in this terminal, until Ctrl-C")
    serve.add_argument("--detached", action="store_true", help=argparse.SUPPRESS)
    serve.add_argument(
        "--idle",
        metavar="SECONDS",
        type=milliseconds,
        help="exit after this long without clients or work (default: 900; never in the foreground)",
    )
    serve.add_argument(
        "--http", metavar="[HOST:]PORT", type=host_and_port, help="also serve HTTP; 0 picks any free port"
    )
    serve.add_argument("--tls", metavar=("CERT", "KEY"), nargs=2, help="encrypt HTTP with these PEM files")
    serve.add_argument(
        "--url", metavar="URL", action="append", default=[], help="a URL by which clients reach it; repeatable"
    )
    serve.add_argument("--allow-remote", action="store_true", help="let other machines in without --tls")
    serve.add_argument("--telemetry", action="store_true", help="send OpenTelemetry spans to a collector")
    serve.add_argument("--log-level", metavar="LEVEL", choices=LEVELS, default="info", help=", ".join(LEVELS))
    instead = serve.add_mutually_exclusive_group()
    instead.add_argument("--token", action="store_true", help="print the token of this home, and start nothing")
    instead.add_argument("--rotate-token", action="store_true", help="make a new one, and print it (token rotate)")
    instead.add_argument("--login", action="store_true", help="print a link that lets one browser in, once")

    status = add_command(
        commands,
        "status",
        "show what the running service is doing",
        "Show whether a service runs, and what it is doing.",
        _STATUS,
    )
    status.add_argument("--json", action="store_true", help="one JSON object")

    shutdown = add_command(commands, "shutdown", "end the running service", "End the service of a home.", _SHUTDOWN)
    shutdown.add_argument("--force", action="store_true", help="even if something is running")

    watch = add_command(
        commands, "watch", "follow sessions as they work", "Follow one or several sessions, live.", _WATCH
    )
    watch.add_argument(
        "sessions", metavar="ID", nargs="*", help="the sessions (default: the most recently used one in this folder)"
    )
    watch.add_argument("--all", action="store_true", help="what all sessions are doing, one line per change")
    watch.add_argument("--until-idle", action="store_true", help="leave when nothing runs any more")
    watch.add_argument("--json", action="store_true", help="snapshots and events, one JSON object per line")

    stop = add_command(commands, "stop", "stop what a session is doing", "Stop what a session is doing.", _STOP)
    stop.add_argument(
        "session", metavar="ID", nargs="?", help="the session (default: the most recently used one in this folder)"
    )
    stop.add_argument(
        "--scope", choices=SCOPES, metavar="WHAT", default="turn", help="turn (default), subtree, session"
    )


def host_and_port(typed: str) -> tuple[str, int]:
    """Parse the address to listen on: a port, or an address and a port."""
    host, colon, port = typed.rpartition(":")
    if not colon:
        host = "127.0.0.1"
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise argparse.ArgumentTypeError(f"{typed!r}: an IPv6 address goes in brackets, as in [::1]:8000")
    if not host or not (port.isascii() and port.isdigit() and int(port) <= 65_535):
        raise argparse.ArgumentTypeError(f"{typed!r} is not a port from 0 to 65535, or an address and a port")
    return host, int(port)
