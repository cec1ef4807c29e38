"""The `session-core` command: reads the arguments and loads the one frontend that was asked for.

Until a command is chosen nothing heavy is imported, so that `--help` and `--version` answer at once. No user ever sees
a traceback: what goes wrong is one line, and SESSION_CORE_DEBUG=1 shows the rest.
"""

import argparse
import contextlib
import logging
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import session_core as sc

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 128 + signal.SIGINT
EXIT_READER_LEFT = 128 + signal.SIGPIPE

PROGRAM = "session-core"
_EXAMPLES = """\
examples:
  session-core demo                                a guided tour: sessions, followers, stop, steering
  session-core run "list the files"                ask once, watch the answer, leave
  session-core run --cwd docs "read stop.md"       work in another directory
  git diff | session-core run -                    take the prompt from stdin
  session-core run --json "hello" | head -1        events as JSON, one per line

exit codes:
  0 done   1 the turn failed   2 wrong usage   130 interrupted   141 the reader of the output left
"""
_RUN_DETAILS = """\
Stdout carries the answer and nothing else; thoughts, tool calls and the outcome go to stderr. What a model or a tool
says is made harmless before it is printed; --json gives it unchanged.

Ctrl-C stops the turn and keeps the partial answer; a second Ctrl-C leaves at once.
"""


class UsageError(Exception):
    """The arguments make no sense; the message is one sentence for the user."""


class _Parser(argparse.ArgumentParser):
    """A parser that says in one line what is wrong."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see: {self.prog} --help)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit code."""
    _keep_logs_off_the_screen()
    try:
        chosen = _parser().parse_args(arguments)
        return _dispatch(chosen)
    except SystemExit as leaving:  # --help and --version
        return _flushed(leaving.code if isinstance(leaving.code, int) else 0)
    except (Exception, KeyboardInterrupt, BaseExceptionGroup) as error:  # noqa: BLE001 - where every error ends
        return _report(error)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog=PROGRAM,
        description="Run AI agent sessions that any number of frontends can watch and steer.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {sc.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", parser_class=_Parser)
    run = commands.add_parser(
        "run",
        help="send one prompt and show the answer",
        description="Send one prompt to a new session and show the answer as it comes.",
        epilog=_RUN_DETAILS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    run.add_argument("prompt", help="what to say; - reads it from stdin")
    run.add_argument("--cwd", metavar="DIR", default=".", help="the directory to work in (default: this one)")
    run.add_argument("--model", metavar="NAME", help="the model that answers (default: demo, which works offline)")
    run.add_argument(
        "--permissions",
        choices=["ask_all", "ask_writes", "ask_outward", "bypass"],
        metavar="TIER",
        help="which tools need a yes: ask_all, ask_writes (default), ask_outward, bypass",
    )
    run.add_argument("--yes", action="store_true", help="allow every tool call that needs a yes, each one once")
    run.add_argument("--quiet", action="store_true", help="print only the final text")
    run.add_argument("--json", action="store_true", help="print a snapshot and then every event, one JSON per line")
    demo = commands.add_parser(
        "demo",
        help="show what the service can do, live and offline",
        description="A guided tour of about 20 seconds. Needs no network and no configuration and writes no files.",
        allow_abbrev=False,
    )
    demo.add_argument("--fast", action="store_true", help="as quick as it can, for tests")
    return parser


def _dispatch(chosen: argparse.Namespace) -> int:
    if chosen.command == "run":
        return _run(chosen)
    if chosen.command == "demo":
        from frontends.demo.tour import main as demo

        return demo(fast=chosen.fast)
    raise UsageError(f"choose a command: run or demo (see: {PROGRAM} --help)")


def _run(chosen: argparse.Namespace) -> int:
    cwd = _directory(chosen.cwd)
    if chosen.json and chosen.quiet:
        raise UsageError("--json and --quiet exclude each other")
    prompt = _prompt(chosen.prompt)
    from frontends.cli.run import RunOptions
    from frontends.cli.run import main as run

    return run(
        RunOptions(
            prompt=prompt,
            cwd=cwd,
            model=chosen.model,
            permissions=chosen.permissions,
            json=chosen.json,
            quiet=chosen.quiet,
            yes=chosen.yes,
        )
    )


def _directory(given: str) -> str:
    path = Path(given).absolute()
    try:
        if not path.is_dir():
            raise UsageError(
                f"--cwd: {given!r} is not a directory" if path.exists() else f"--cwd: there is no {given!r}"
            )
    except ValueError:
        raise UsageError(f"--cwd: {given!r} cannot be a path") from None
    return str(path)


def _prompt(given: str) -> str:
    from_stdin = given == "-"
    if from_stdin:
        if sys.stdin is None:
            raise UsageError("the prompt was to come from stdin, but stdin is closed")
        try:
            given = sys.stdin.buffer.read().decode("utf-8")
        except UnicodeDecodeError:
            raise UsageError("the prompt on stdin is not valid UTF-8 text") from None
    if not given.strip():
        raise UsageError("the prompt on stdin is empty" if from_stdin else "the prompt is empty")
    return given


# --- errors -----------------------------------------------------------------------------------------------------------


def _keep_logs_off_the_screen() -> None:
    if os.environ.get("SESSION_CORE_DEBUG"):
        logging.basicConfig(level=logging.DEBUG)
    else:
        logging.getLogger().addHandler(logging.NullHandler())  # without one, Python prints warnings itself


def _report(error: BaseException) -> int:
    """Say in one line what went wrong and return the exit code."""
    causes = list(_leaves(error))
    if any(isinstance(cause, KeyboardInterrupt) for cause in causes):
        _complain("interrupted")
        return EXIT_INTERRUPTED
    cause = causes[0]
    if isinstance(cause, BrokenPipeError):
        return _flushed(EXIT_READER_LEFT)
    if os.environ.get("SESSION_CORE_DEBUG"):
        traceback.print_exception(error)
    if isinstance(cause, UsageError):
        _complain(str(cause))
        return EXIT_USAGE
    if isinstance(cause, sc.SessionCoreError):
        _complain(cause.message)
        return EXIT_USAGE if cause.code in {"invalid_input", "not_found"} else EXIT_FAILED
    from frontends.console.output import OutputFailed

    if isinstance(cause, OutputFailed):
        _complain(str(cause))
        return EXIT_FAILED
    said = " ".join(f"{type(cause).__name__}: {cause}".split())
    _complain(f"unexpected error: {said} (set SESSION_CORE_DEBUG=1 to see where)")
    return EXIT_FAILED


def _leaves(error: BaseException) -> list[BaseException]:
    """The errors inside nested groups."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in _leaves(each)]
    return [error]


def _complain(sentence: str) -> None:
    safe = "".join(character if character.isprintable() else "?" for character in sentence)
    with contextlib.suppress(OSError, ValueError):  # nobody can be told
        print(f"{PROGRAM}: {safe}", file=sys.stderr, flush=True)


def _flushed(code: int) -> int:
    """Write out what is buffered; a reader that has left must not cause a complaint at the interpreter's end."""
    if sys.stdout is None:
        return code
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    return code


if __name__ == "__main__":
    sys.exit(main())
