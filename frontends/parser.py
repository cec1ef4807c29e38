"""How a command line is read: the parser that all commands share, and the kinds of values options have.

Nothing heavy is imported here, so that `--help` and `--version` answer at once.
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
    """The arguments make no sense; the message is one sentence for the user, the details are lines below it."""

    def __init__(self, message: str, *, details: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.details = details


class Parser(argparse.ArgumentParser):
    """A parser that says in one line what is wrong, and takes options anywhere between the other words."""

    rest: str | None = None
    """The list of words that also takes all that come after `--`, as they are: they may look like options."""
    _sorting = False

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride] - one shape for all of its overloads
        self, args: Any = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Read the arguments of a command; `show --home x ID`, `show ID --home x` and any mixture are the same."""
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
        """Read the whole command line, and say what to do about common slips."""
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
        """Return the parser of the command, or of the task of one, that was chosen."""
        asked: argparse.ArgumentParser = self
        while asked._subparsers is not None:  # noqa: SLF001 - argparse has no other way to find them
            tasks: Any = asked._subparsers._group_actions[0]  # noqa: SLF001
            name = getattr(chosen, tasks.dest, None)
            if name is None:
                break
            asked = tasks.choices[name]
        return asked

    def error(self, message: str) -> NoReturn:
        """Refuse the arguments."""
        raise UsageError(f"{message} (see: {self.prog} --help)")


Commands: TypeAlias = Any  # argparse does not export the class that `add_subparsers` returns


def add_command(
    commands: Commands, name: str, help_line: str, description: str, epilog: str | None = None, *, keeps: bool = True
) -> argparse.ArgumentParser:
    """Add a command, or a task of one; `keeps` says that it has to do with sessions that are kept somewhere."""
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help_line,
        description=textwrap.fill(description, _WIDTH),
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    if keeps:
        command.add_argument("--home", metavar="DIR", help="where the sessions are kept")
    return command


# --- values of options ------------------------------------------------------------------------------------------------


def count(typed: str) -> int:
    """Read a number from 1 on."""
    if not (typed.isascii() and typed.isdigit() and int(typed) > 0):
        raise argparse.ArgumentTypeError(f"{typed!r} is not a number from 1 on")
    return int(typed)


def micros(typed: str) -> int:
    """Read an amount of dollars, as millionths of one."""
    try:
        amount = float(typed.removeprefix("$"))
    except ValueError:
        amount = 0
    if not 0 < amount <= _MOST_DOLLARS:
        raise argparse.ArgumentTypeError(f"{typed!r} is not an amount of dollars above 0")
    return max(1, round(amount * 1_000_000))


def milliseconds(typed: str) -> int:
    """Read a number of seconds."""
    try:
        seconds = float(typed)
    except ValueError:
        seconds = 0
    if not 0 < seconds <= _LONGEST_SECONDS:
        raise argparse.ArgumentTypeError(f"{typed!r} is not a number of seconds from above 0 to {_LONGEST_SECONDS}")
    return max(1, round(seconds * 1000))


def lifetime(typed: str) -> int:
    """Read how long something is good, such as 90s, 30m, 2h or 7d, as milliseconds."""
    number, unit = typed[:-1], typed[-1:]
    if unit not in _UNITS or not (number.isascii() and number.isdigit() and len(number) < 9 and int(number) > 0):
        raise argparse.ArgumentTypeError(f"{typed[:60]!r} is not a time such as 30m, 2h or 7d")
    return int(number) * _UNITS[unit] * 1000


def flag(typed: str) -> str:
    """Read a flag for extensions: `name` or `name=value`, also with the dashes that it has elsewhere."""
    said = typed.removeprefix("--")
    if not _FLAG.fullmatch(said) or len(said) > _LONGEST_FLAG or not said.isprintable():
        raise argparse.ArgumentTypeError(f"{typed[:60]!r} is not a flag, such as verbose or level=2")
    return said
