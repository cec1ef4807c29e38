"""The command line texts of `session-core terminal`; imports nothing heavy."""

from frontends.shared.parser import Commands, add_command

_EXAMPLES = """\
examples:
  session-core                              open it: the most recently used session in this folder, or a new one
  session-core terminal --new               begin a new session
  session-core terminal --session k3fq      view this one (the beginning or end of its id, or its name)
  session-core terminal "fix the tests"     begin a new session with this message
  session-core terminal --embedded          no service in the background: the work ends with the terminal

F1 shows all keys and commands. Closing the terminal leaves the work running; opening it again shows it.
"""


def add_terminal(commands: Commands, modes: tuple[str, ...], sandboxes: tuple[str, ...]) -> None:
    """Add the subcommand."""
    terminal = add_command(
        commands,
        "terminal",
        "work with sessions in this terminal (the same as session-core alone)",
        "Work with any number of sessions in this terminal. They run in a background service, which is started if "
        "it is not running.",
        _EXAMPLES,
    )
    terminal.add_argument("prompt", nargs="?", help="a first message, which begins a new session")
    which = terminal.add_mutually_exclusive_group()
    which.add_argument("--session", metavar="ID", help="view this session")
    which.add_argument("--new", action="store_true", help="begin a new session with the first message")
    terminal.add_argument("--cwd", metavar="DIR", help="the folder that new sessions work in (default: this one)")
    terminal.add_argument("--model", metavar="NAME", help="a new session with this model (see: session-core models)")
    terminal.add_argument(
        "--permissions",
        type=lambda typed: typed.replace("-", "_"),
        choices=modes,
        metavar="MODE",
        help="a new session in this mode: read-only, ask-all, ask-writes (default), auto-edit, full (rarely asks)",
    )
    terminal.add_argument(
        "--sandbox",
        type=lambda typed: typed.replace("-", "_"),
        choices=sandboxes,
        metavar="MODE",
        help="a new session with this sandbox: read-only, workspace-write (default), full-access (no sandbox at all)",
    )
    terminal.add_argument("--theme", metavar="NAME", help="the theme (see /theme)")
    terminal.add_argument("--embedded", action="store_true", help="run the service in this process")
