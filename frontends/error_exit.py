"""Reports every command line error: one line on stderr and an exit code."""

import contextlib
import os
import signal
import sys
import traceback

import session_core as sc
from frontends.arguments import PROGRAM
from frontends.shared.parser import UsageError

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 128 + signal.SIGINT
EXIT_READER_LEFT = 128 + signal.SIGPIPE

_BESIDE = "sessions, show, export and store verify, stats and backup still work, and so does run --no-save"


def report(error: BaseException, *, home: str | None = None) -> int:
    """Print one line about the error and return the exit code; `home` is the home named on the command line."""
    causes = list(_flatten_errors(error))
    if any(isinstance(cause, KeyboardInterrupt) for cause in causes):
        _complain("interrupted")
        return EXIT_INTERRUPTED
    cause = causes[0]
    if isinstance(cause, BrokenPipeError):
        return flush_output(EXIT_READER_LEFT)
    if os.environ.get("SESSION_CORE_DEBUG"):
        traceback.print_exception(error)
    if isinstance(cause, UsageError):
        _complain(str(cause), *cause.details)
        return EXIT_USAGE
    if isinstance(cause, sc.SessionCoreError):
        details: tuple[str, ...] = getattr(cause, "details", ())
        _complain(cause.message, *details, *(_explain_home_in_use(cause, home) if cause.code == "store_in_use" else []))
        return EXIT_USAGE if cause.code in {"invalid_input", "not_found"} else EXIT_FAILED
    from frontends.shared.output import OutputFailed

    if isinstance(cause, OutputFailed):
        _complain(str(cause))
        return EXIT_FAILED
    said = " ".join(f"{type(cause).__name__}: {cause}".split())
    _complain(f"unexpected error: {said} (set SESSION_CORE_DEBUG=1 to see where)")
    return EXIT_FAILED


def _explain_home_in_use(error: sc.SessionCoreError, chosen_home: str | None) -> list[str]:
    """Suggest what to do about a home that is in use; only the home itself knows whether its service uses it."""
    from frontends.server.daemon.runtime_paths import service_process
    from frontends.shared.home import format_command, resolve_home

    with contextlib.suppress(sc.SessionCoreError, OSError):
        home = resolve_home(chosen_home)
        if "shutdown" not in error.message and service_process(home) is not None:
            return [f"that is the service of this home; to end it: {format_command(home, 'shutdown', '')}", _BESIDE]
    return [_BESIDE]


def _flatten_errors(error: BaseException) -> list[BaseException]:
    """Return the errors inside nested groups."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in _flatten_errors(each)]
    return [error]


def _complain(sentence: str, *details: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # nowhere left to report to
        print(f"{PROGRAM}: {_safe(sentence)}", file=sys.stderr)
        for detail in details:
            print(f"  {_safe(detail)}", file=sys.stderr)
        sys.stderr.flush()


def _safe(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)


def flush_output(code: int) -> int:
    """Flush buffered output; a reader that has left must not cause a complaint when the interpreter exits."""
    if sys.stdout is None:
        return code
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    return code
