"""The texts of `session-core token`.

It imports nothing heavy, so `--help` and `--version` answer at once.
"""

import argparse
from typing import Final

from frontends.shared.parser import Commands, Parser, add_command, lifetime

ROLES: Final = ("observer", "controller")
DAY_MS: Final = 24 * 3_600_000

_HELP: Final = """\
examples:
  session-core token                          where the token of this home is
  session-core token show                     the token itself: it allows all
  session-core token new --session 7k2f       to let others watch a session
  session-core token new --session 7k2f --role controller --expires 2h
  session-core token new --all --name grafana --expires 30d
  session-core token list                     valid tokens, and until when
  session-core token revoke 4f0a12bc          end one of them
  session-core token rotate                   end all of them, logins too

Over HTTP (see: session-core serve --help) a token is sent with every request:
Authorization: Bearer TOKEN. The token of the home lets its bearer do
everything. Scoped tokens have fewer rights and are for others: an observer can
only watch; a controller can also act in the named sessions, but change neither
their mode, sandbox and folder nor anything beyond them, nor delete them. A
controller of --all sessions can do everything.

When a token is revoked or expires, its clients are disconnected. Its secret is
printed once, by `token new`, and not stored.
"""


def add_tokens(commands: Commands) -> None:
    """Add the command."""
    token = add_command(
        commands,
        "token",
        "manage tokens that let others in over HTTP",
        "Tokens let programs and other people in over HTTP. Without a subcommand, print the path of the token of the "
        "home, but not the token.",
        _HELP,
    )
    tasks = token.add_subparsers(dest="task", metavar="task", parser_class=Parser)
    show = add_command(
        tasks, "show", "print the token of the home", "Print the token of the home; create it if needed."
    )
    new = add_command(
        tasks,
        "new",
        "make a scoped token",
        "Make a scoped token, for some sessions, or for all of them, and print it; a description goes to stderr.",
        _HELP,
    )
    new.add_argument(
        "--session", metavar="ID", dest="sessions", action="append", default=[], help="for this session; repeatable"
    )
    new.add_argument("--all", action="store_true", help="for all sessions, including future ones")
    new.add_argument("--role", choices=ROLES, metavar="WHAT", default="observer", help="observer (default), controller")
    new.add_argument(
        "--expires",
        metavar="TIME",
        type=lifetime,
        default=DAY_MS,
        help="after 90s, 30m, 2h, 7d (default: 1d; most: 30d)",
    )
    new.add_argument("--name", metavar="TEXT", default="", help="a name, shown in the list")
    listing = add_command(
        tasks, "list", "list the valid tokens", "List the valid scoped tokens, without their secrets."
    )
    listing.add_argument("--json", action="store_true", help="one JSON object per line")
    revoke = add_command(tasks, "revoke", "end tokens at once", "End scoped tokens; their clients are disconnected.")
    revoke.add_argument("ids", metavar="ID", nargs="+", help="an ID from the list, or its beginning")
    rotate = add_command(
        tasks,
        "rotate",
        "give the home a new token",
        "Give the home a new token and print it. The previous one ends at once, with every token made from it and all "
        "browser logins.",
    )
    for task in (show, new, listing, revoke, rotate):
        _inherit_home(task)


def _inherit_home(task: argparse.ArgumentParser) -> None:
    """Let `token --home DIR list` mean the same as `token list --home DIR`: a task without a home keeps the other."""
    for action in task._actions:  # noqa: SLF001 - argparse has no other way to change the default of one option
        if action.dest == "home":
            action.default = argparse.SUPPRESS
