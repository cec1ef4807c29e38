"""Command line parsing: the parser that all commands share, and the value types of options.

Imports nothing heavy, so `--help` and `--version` answer at once.
"""

import argparse
import re
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, NoReturn, TypeAlias

_WIDTH = 79
_LONGEST_SECONDS = 7 * 24 * 3600
_MOST_DOLLARS = 100_000
_LONGEST_FLAG = 10_000
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 24 * 3_600}
_FLAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}(=.*)?", re.DOTALL)


class UsageError(Exception):
    """Arguments that make no sense; the message is one sentence for the user, the details are lines below it."""

    def __init__(self, message: str, *, details: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.details = details


class Parser(argparse.ArgumentParser):
    """A parser that reports errors in one line and accepts options anywhere between the positional arguments."""

    rest: str | None = None
    """The list argument that also takes everything after `--` verbatim, even words that look like options."""
    _sorting = False

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride] - one signature for all overloads
        self, args: Any = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse the arguments of a command; `show --home x ID`, `show ID --home x` and any mixture are equivalent."""
        if self._subparsers is not None or self._sorting:
            return super().parse_known_args(args, namespace)
        words, rest = args, []
        if self.rest is not None and "--" in args:
            words, rest = args[: args.index("--")], args[args.index("--") + 1 :]
        self._sorting = True
        try:
            chosen, unknown = self.parse_known_intermixed_args(words, namespace)
        finally:
            self._sorting = False
        if self.rest is not None:
            setattr(chosen, self.rest, [*getattr(chosen, self.rest), *rest])
        return chosen, unknown

    def parse_args(  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> Any:
        """Parse the whole command line, with advice for common slips."""
        typed = list(sys.argv[1:] if args is None else args)
        if typed and typed[0].partition("=")[0] == "--home":
            self.error("--home goes after the command, as in: session-core sessions --home DIR")
        chosen, unknown = self.parse_known_args(typed, namespace)
        if unknown:
            words = chosen.command == "run" and not any(each.startswith("-") for each in unknown)
            advice = "; put the prompt in quotes" if words else ""
            self._chosen_parser(chosen).error(f"unrecognized arguments: {' '.join(unknown)}{advice}")
        return chosen

    def _chosen_parser(self, chosen: argparse.Namespace) -> argparse.ArgumentParser:
        """Return the parser of the chosen command or subcommand."""
        asked: argparse.ArgumentParser = self
        while asked._subparsers is not None:  # noqa: SLF001 - argparse has no other way to find them
            tasks: Any = asked._subparsers._group_actions[0]  # noqa: SLF001
            name = getattr(chosen, tasks.dest, None)
            if name is None:
                break
            asked = tasks.choices[name]
        return asked

    def error(self, message: str) -> NoReturn:
        """Reject the arguments."""
        raise UsageError(f"{message} (see: {self.prog} --help)")


Commands: TypeAlias = Any  # argparse does not export the class that `add_subparsers` returns


def add_command(
    commands: Commands,
    name: str,
    help_line: str,
    description: str,
    epilog: str | None = None,
    *,
    has_home: bool = True,
) -> argparse.ArgumentParser:
    """Add a command or a subcommand; one that `has_home` gets the `--home` option."""
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help_line,
        description=textwrap.fill(description, _WIDTH),
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    if has_home:
        command.add_argument("--home", metavar="DIR", help="where the sessions are kept")
    return command


# --- option values ----------------------------------------------------------------------------------------------------


def count(typed: str) -> int:
    """Parse a number of at least 1."""
    if not (typed.isascii() and typed.isdigit() and int(typed) > 0):
        raise argparse.ArgumentTypeError(f"{typed!r} is not a whole number of at least 1")
    return int(typed)


def micros(typed: str) -> int:
    """Parse an amount in dollars and return millionths of a dollar."""
    try:
        amount = float(typed.removeprefix("$"))
    except ValueError:
        amount = 0
    if not 0 < amount <= _MOST_DOLLARS:
        raise argparse.ArgumentTypeError(f"{typed!r} is not an amount of dollars greater than 0")
    return max(1, round(amount * 1_000_000))


def milliseconds(typed: str) -> int:
    """Parse a number of seconds and return milliseconds."""
    try:
        seconds = float(typed)
    except ValueError:
        seconds = 0
    if not 0 < seconds <= _LONGEST_SECONDS:
        raise argparse.ArgumentTypeError(
            f"{typed!r} is not a number of seconds greater than 0 and at most {_LONGEST_SECONDS}"
        )
    return max(1, round(seconds * 1000))


def lifetime(typed: str) -> int:
    """Parse a lifetime such as 90s, 30m, 2h or 7d and return milliseconds."""
    number, unit = typed[:-1], typed[-1:]
    if unit not in _UNITS or not (number.isascii() and number.isdigit() and len(number) < 9 and int(number) > 0):
        raise argparse.ArgumentTypeError(f"{typed[:60]!r} is not a time such as 30m, 2h or 7d")
    return int(number) * _UNITS[unit] * 1000


def flag(typed: str) -> str:
    """Parse an extension flag: `name` or `name=value`, with or without leading dashes."""
    said = typed.removeprefix("--")
    if not _FLAG.fullmatch(said) or len(said) > _LONGEST_FLAG or not said.isprintable():
        raise argparse.ArgumentTypeError(f"{typed[:60]!r} is not a flag, such as verbose or level=2")
    return said
