"""The words of the `session-core` command: every subcommand with its options, help and examples.

Nothing heavy is imported here, so that `--help` and `--version` answer at once.
"""

import argparse
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, NoReturn, TypeAlias

import session_core as sc
from frontends import help_texts

PROGRAM = "session-core"
_WIDTH = 79
TIERS = ("read_only", "ask_all", "ask_writes", "auto_edit", "full")
THINKING = ("off", "low", "medium", "high")
_LONGEST_SECONDS = 7 * 24 * 3600
_MOST_DOLLARS = 100_000


class UsageError(Exception):
    """The arguments make no sense; the message is one sentence for the user, the details are lines below it."""

    def __init__(self, message: str, *, details: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.details = details


class Parser(argparse.ArgumentParser):
    """A parser that says in one line what is wrong, and takes options anywhere between the other words."""

    _sorting = False

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride] - one shape for all of its overloads
        self, args: Any = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Read the arguments of a command; `show --home x ID`, `show ID --home x` and any mixture are the same."""
        if self._subparsers is not None or self._sorting:
            return super().parse_known_args(args, namespace)
        self._sorting = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._sorting = False

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
            self.error(f"unrecognized arguments: {' '.join(unknown)}{advice}")
        return chosen

    def error(self, message: str) -> NoReturn:
        """Refuse the arguments."""
        raise UsageError(f"{message} (see: {self.prog} --help)")


_Commands: TypeAlias = Any  # argparse does not export the class that `add_subparsers` returns


def parser() -> Parser:
    """Return the parser of the whole command line."""
    whole = Parser(
        prog=PROGRAM,
        description="Run AI agent sessions that any number of frontends can watch and steer.",
        epilog=help_texts.WHOLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    whole.add_argument("--version", action="version", version=f"{PROGRAM} {sc.__version__}")
    commands = whole.add_subparsers(dest="command", metavar="command", parser_class=Parser)
    _add_run(commands)
    _add_reading(commands)
    _add_changing(commands)
    _add_undo(commands)
    _add_transfer(commands)
    _add_store(commands)
    _add_settings(commands)
    demo = _add(
        commands,
        "demo",
        "show what the service can do, live and offline",
        "A guided tour of about 20 seconds. Needs no network and no configuration and writes no files.",
        keeps=False,
    )
    demo.add_argument("--fast", action="store_true", help="as quick as it can, for tests")
    return whole


def _add(
    commands: _Commands, name: str, help_line: str, description: str, epilog: str | None = None, *, keeps: bool = True
) -> argparse.ArgumentParser:
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


def _add_run(commands: _Commands) -> None:
    run = _add(
        commands,
        "run",
        "send one prompt and show the answer",
        "Send one prompt to a session, a new one by default, and show the answer as it comes.",
        help_texts.RUN,
    )
    run.add_argument(
        "prompt", nargs="?", help="what to say; - reads it from stdin; left out, an interrupted turn goes on"
    )
    which = run.add_mutually_exclusive_group()
    which.add_argument("--session", metavar="ID", help="go on with this session")
    which.add_argument(
        "--continue", dest="go_on", action="store_true", help="go on with the last used session of this directory"
    )
    which.add_argument("--no-save", action="store_true", help="keep nothing on disk")
    run.add_argument("--cwd", metavar="DIR", help="the directory to work in (default: this one, or the session's)")
    run.add_argument("--model", metavar="NAME", help="the model that answers (see: session-core models)")
    run.add_argument("--thinking", choices=THINKING, metavar="HOW", help=f"how much it reasons: {', '.join(THINKING)}")
    run.add_argument(
        "--permissions",
        type=lambda typed: typed.replace("-", "_"),
        choices=TIERS,
        metavar="TIER",
        help="which tool calls need a yes: ask-all, ask-writes (default), auto-edit, full (none), or read-only",
    )
    run.add_argument("--max-steps", metavar="N", type=_count, help="end the turn after so many model calls")
    run.add_argument("--max-cost", metavar="DOLLARS", type=_micros, help="end the turn when it has cost so much")
    run.add_argument("--max-time", metavar="SECONDS", type=_milliseconds, help="end the turn after so long")
    run.add_argument(
        "--file",
        metavar="PATH",
        dest="files",
        action="append",
        default=[],
        help="attach a text or an image; repeatable",
    )
    run.add_argument("--output-schema", metavar="FILE", help="a JSON schema: the answer is JSON of that shape")
    run.add_argument("--yes", action="store_true", help="allow every tool call that needs a yes, each one once")
    run.add_argument("--quiet", action="store_true", help="print only the final text")
    run.add_argument("--json", action="store_true", help="print a snapshot and then every event, one JSON per line")


def _add_reading(commands: _Commands) -> None:
    sessions = _add(commands, "sessions", "list or search the sessions", "List the sessions.", help_texts.SESSIONS)
    sessions.add_argument("--all", action="store_true", help="archived ones too")
    sessions.add_argument("--search", metavar="TEXT", help="find sessions by their names and by what was said in them")
    sessions.add_argument("--limit", metavar="N", type=_count, help="at most so many (default on a terminal: 40)")
    sessions.add_argument("--json", action="store_true", help="one JSON object per line")
    show = _add(commands, "show", "show a conversation", "Show the conversation of a session.", help_texts.SHOW)
    show.add_argument("session", metavar="ID", help="the session")
    how_much = show.add_mutually_exclusive_group()
    how_much.add_argument("--last", metavar="N", type=_count, help="only the newest N messages")
    how_much.add_argument("--all", action="store_true", help="from the very beginning")
    how_much.add_argument("--json", action="store_true", help="the state of the session as one JSON object")


def _add_changing(commands: _Commands) -> None:
    rename = _add(
        commands,
        "rename",
        "give a session another name",
        "Give a session another name; a name that only one session has can be used instead of its id.",
        help_texts.RENAME,
    )
    rename.add_argument("session", metavar="ID", help="the session")
    rename.add_argument("name", metavar="NAME", help="its new name")
    archive = _add(
        commands,
        "archive",
        "put sessions away",
        "Put sessions away: they leave the list, and nothing of them is lost.",
        help_texts.ARCHIVE,
    )
    restore = _add(
        commands,
        "restore",
        "bring archived sessions back",
        "Bring archived sessions back into the list.",
        help_texts.RESTORE,
    )
    delete = _add(
        commands,
        "delete",
        "remove sessions for good",
        "Remove sessions and everything that was said in them, for good. Asks first.",
        help_texts.DELETE,
    )
    for several in (archive, restore, delete):
        several.add_argument("sessions", metavar="ID", nargs="+", help="one or several sessions")
    delete.add_argument("--yes", action="store_true", help="do not ask")
    fork = _add(
        commands,
        "fork",
        "continue a conversation in a new session",
        "Make a new session that begins with the conversation of this one; prints its short id.",
        help_texts.FORK,
    )
    fork.add_argument("session", metavar="ID", help="the session")
    fork.add_argument("--name", metavar="NAME", help="the name of the new session")


def _add_undo(commands: _Commands) -> None:
    undo = _add(
        commands,
        "undo",
        "go back to before a message, with the files",
        "Go back to the moment before your last message, or an earlier one: the conversation, and the files that the "
        "agent has changed since. What came after stays in the tree of the session.",
        help_texts.UNDO,
    )
    undo.add_argument(
        "session", metavar="ID", nargs="?", help="the session (default: the last used one of this directory)"
    )
    undo.add_argument("--to", metavar="MESSAGE", help="the beginning of that message, or of its id")
    what = undo.add_mutually_exclusive_group()
    what.add_argument("--files-only", action="store_true", help="leave the conversation as it is")
    what.add_argument("--conversation-only", action="store_true", help="leave the files as they are")
    undo.add_argument("--force", action="store_true", help="also files that somebody else has changed since")


def _add_transfer(commands: _Commands) -> None:
    export = _add(
        commands,
        "export",
        "write a session to a file",
        "Write everything of a session as lines of JSON, to be read, kept or imported elsewhere.",
        help_texts.TRANSFER,
    )
    export.add_argument("session", metavar="ID", help="the session")
    export.add_argument("file", metavar="FILE", nargs="?", default="-", help="a new file, or - for stdout (default)")
    export.add_argument("--force", action="store_true", help="overwrite FILE if it exists")
    bring = _add(
        commands,
        "import",
        "read a session from a file",
        "Read a session that `export` has written; prints its short id. Its settings come with it, and what it has "
        "scheduled will run: import what you trust.",
        help_texts.TRANSFER,
    )
    bring.add_argument("file", metavar="FILE", help="what export has written, or - for stdin")
    bring.add_argument("--as-new", action="store_true", help="give it a new id, even if it is here already")


def _add_store(commands: _Commands) -> None:
    store = _add(
        commands,
        "store",
        "look after the store: verify, back up, repair and more",
        "Look after the file that all sessions are kept in.",
        help_texts.STORE,
        keeps=False,
    )
    tasks = store.add_subparsers(dest="task", metavar="task", parser_class=Parser, required=True)
    _add(tasks, "verify", "check that everything is as it was written", "Check every record; changes nothing.")
    _add(
        tasks,
        "rebuild",
        "save what can be read of a damaged store",
        "Make everything anew from the records that can be read. A damaged old file is set aside, never deleted. Exit "
        "code 1 means that something was lost.",
    )
    _add(tasks, "compact", "give unused space back to the disk", "Give unused space back to the disk.")
    stats = _add(tasks, "stats", "what is kept, and how much room it takes", "Show what is kept.")
    stats.add_argument("--json", action="store_true", help="one JSON object")
    backup = _add(
        tasks,
        "backup",
        "copy all sessions into one file",
        "Copy all sessions into one file, also while another session-core is running. Exit code 1 means that the store "
        "is damaged, and so is the copy.",
    )
    backup.add_argument(
        "target", metavar="TARGET", nargs="?", help="a new file (default: session-core-backup-<date>.sqlite3, here)"
    )
    restore = _add(
        tasks,
        "restore",
        "go back to a backup",
        "Put a backup in the place of all sessions of a home. What was there before is set aside, never deleted.",
    )
    restore.add_argument("file", metavar="FILE", help="what backup has written; it stays as it is")


def _add_settings(commands: _Commands) -> None:
    config = _add(
        commands,
        "config",
        "what is set, where it came from, and what is wrong with it",
        "Look at the configuration: your own file, the project's, variables. Keys are never shown.",
        help_texts.CONFIG,
        keeps=False,
    )
    tasks = config.add_subparsers(dest="task", metavar="task", parser_class=Parser, required=True)
    show = _add(tasks, "show", "every setting, its value and where it came from", "Show what is in force.")
    check = _add(
        tasks,
        "check",
        "say everything that is wrong",
        "Check your file and the project's, trusted or not. Exit code 1 means that something is wrong.",
    )
    path = _add(tasks, "path", "where your own file is", "Print where your own file is, whether it is there or not.")
    models = _add(commands, "models", "list the models", "List the models that can be used here.", help_texts.MODELS)
    models.add_argument("--all", action="store_true", help="those without a key too, and what to do about it")
    mcp = _add(
        commands,
        "mcp",
        "list the MCP servers, and what is wrong with them",
        "Start the MCP servers, wait a moment, and show how they are doing. Exit code 1 means that one cannot be used.",
        help_texts.MCP,
    )
    trust = _add(
        commands,
        "trust",
        "let the files of a project steer the agent",
        "Show which files of a folder would steer the agent, and trust them as they are now. Asks first.",
        help_texts.TRUST,
    )
    trust.add_argument("directory", metavar="DIR", nargs="?", help="the folder (default: this one)")
    instead = trust.add_mutually_exclusive_group()
    instead.add_argument("--list", action="store_true", help="only show the files, and whether they are trusted")
    instead.add_argument("--remove", action="store_true", help="do not trust the folder any more")
    instead.add_argument("--yes", action="store_true", help="do not ask")
    for each in (show, check, path, models, mcp):
        each.add_argument("--cwd", metavar="DIR", help="the directory to work in (default: this one)")
        each.add_argument("--json", action="store_true", help="for scripts: JSON, one object per line")


def _count(typed: str) -> int:
    if not (typed.isascii() and typed.isdigit() and int(typed) > 0):
        raise argparse.ArgumentTypeError(f"{typed!r} is not a number from 1 on")
    return int(typed)


def _micros(typed: str) -> int:
    try:
        amount = float(typed.removeprefix("$"))
    except ValueError:
        amount = 0
    if not 0 < amount <= _MOST_DOLLARS:
        raise argparse.ArgumentTypeError(f"{typed!r} is not an amount of dollars above 0")
    return max(1, round(amount * 1_000_000))


def _milliseconds(typed: str) -> int:
    try:
        seconds = float(typed)
    except ValueError:
        seconds = 0
    if not 0 < seconds <= _LONGEST_SECONDS:
        raise argparse.ArgumentTypeError(f"{typed!r} is not a number of seconds from above 0 to {_LONGEST_SECONDS}")
    return max(1, round(seconds * 1000))
