"""The `session-core` command line: every subcommand with its options, help and examples.

Imports nothing heavy, so `--help` and `--version` answer at once.
"""

import argparse

import session_core as sc
from frontends import help_texts
from frontends.server.daemon.messages import add_serving
from frontends.server.daemon.token_messages import add_tokens
from frontends.shared.parser import Commands, Parser, add_command, count, flag, micros, milliseconds

PROGRAM = "session-core"
MODES = ("read_only", "ask_all", "ask_writes", "auto_edit", "full")
SANDBOXES = ("read_only", "workspace_write", "full_access")
THINKING = ("off", "low", "medium", "high")
APPROVE = ("never", "ask", "rules")
FORMATS = ("jsonl", "markdown", "html")
_SESSION = "the session (default: the most recently used one in this folder)"
TEMPLATES = ("tool", "command", "permission-gate", "provider", "widget")


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
    _add_terminal(commands)
    _add_run(commands)
    _add_reading(commands)
    add_serving(commands)
    add_tokens(commands)
    _add_changing(commands)
    _add_undo(commands)
    _add_transfer(commands)
    _add_store(commands)
    _add_settings(commands)
    _add_extensions(commands)
    demo = add_command(
        commands,
        "demo",
        "show what the service can do, live and offline",
        "A guided tour of about 20 seconds. Needs no network and no configuration and writes no files.",
        has_home=False,
    )
    demo.add_argument("--fast", action="store_true", help="run as fast as possible, for tests")
    return whole


def _add_terminal(commands: Commands) -> None:
    terminal = add_command(
        commands,
        "terminal",
        "work with sessions in this terminal (the same as session-core alone)",
        "Work with any number of sessions in this terminal. They run in a background service, which is started if "
        "it is not running.",
        help_texts.TERMINAL,
    )
    terminal.add_argument("prompt", nargs="?", help="a first message, which begins a new session")
    which = terminal.add_mutually_exclusive_group()
    which.add_argument("--session", metavar="ID", help="view this session")
    which.add_argument("--new", action="store_true", help="begin a new session with the first message")
    terminal.add_argument("--cwd", metavar="DIR", help="the folder that new sessions work in (default: this one)")
    terminal.add_argument("--model", metavar="NAME", help="a new session with this model (see: session-core models)")
    _add_modes(terminal, "a new session in this mode", "a new session with this sandbox")
    terminal.add_argument("--theme", metavar="NAME", help="the theme (see /theme)")
    terminal.add_argument("--embedded", action="store_true", help="run the service in this process")


def _add_modes(command: argparse.ArgumentParser, permissions: str, sandbox: str) -> None:
    """Add the options for what the agent may do; the texts say what is chosen."""
    permissions += ": read-only, ask-all, ask-writes (default), auto-edit, full (rarely asks)"
    sandbox += ": read-only, workspace-write (default), full-access (no sandbox at all)"
    for option, modes, text in (("--permissions", MODES, permissions), ("--sandbox", SANDBOXES, sandbox)):
        command.add_argument(
            option, type=lambda typed: typed.replace("-", "_"), choices=modes, metavar="MODE", help=text
        )


def _add_run(commands: Commands) -> None:
    run = add_command(
        commands,
        "run",
        "send one prompt and show the answer",
        "Send one prompt to a session, a new one by default, and show the answer as it comes. Or run a command of an "
        "extension.",
        help_texts.RUN,
    )
    run.add_argument(
        "prompt",
        nargs="?",
        help="the prompt; - or a pipe reads it from stdin; without one, an interrupted turn resumes",
    )
    which = run.add_mutually_exclusive_group()
    which.add_argument("--session", metavar="ID", help="continue this session")
    which.add_argument(
        "--continue",
        dest="go_on",
        action="store_true",
        help="continue the most recently used session in this folder, or of one above it",
    )
    which.add_argument("--no-save", action="store_true", help="keep nothing on disk")
    run.add_argument("--cwd", metavar="DIR", help="the folder to work in (default: this one, or the session's)")
    run.add_argument("--model", metavar="NAME", help="the model that answers (see: session-core models)")
    run.add_argument("--thinking", choices=THINKING, metavar="HOW", help=f"how much it reasons: {', '.join(THINKING)}")
    run.add_argument("--protocol", metavar="NAME", help="how the model acts in a new session: standard, code, ...")
    _add_modes(run, "which tool calls need approval", "where commands may write")
    run.add_argument("--max-steps", metavar="N", type=count, help="end the turn after this many model calls")
    run.add_argument("--max-cost", metavar="DOLLARS", type=micros, help="end the turn when it has cost this much")
    run.add_argument("--max-time", metavar="SECONDS", type=milliseconds, help="end the turn after this long")
    run.add_argument(
        "--file",
        metavar="PATH",
        dest="files",
        action="append",
        default=[],
        help="attach a text file or an image; repeatable",
    )
    run.add_argument("--output-schema", metavar="FILE", help="a JSON schema: the answer is JSON of that shape")
    run.add_argument(
        "--flag",
        metavar="NAME[=VALUE]",
        dest="flags",
        action="append",
        type=flag,
        default=[],
        help="a flag for extensions; repeatable",
    )
    run.add_argument("--no-extensions", action="store_true", help="start no extension")
    run.add_argument("--embedded", action="store_true", help="run in this process, even if the home has a service")
    consent = run.add_mutually_exclusive_group()
    consent.add_argument("--yes", action="store_true", help="approve every tool call that needs approval, each once")
    consent.add_argument(
        "--approve",
        choices=APPROVE,
        metavar="HOW",
        help="when a call needs approval: ask (you, the default), never (deny), rules (only rules allow changes)",
    )
    run.add_argument("--quiet", action="store_true", help="print only the final text")
    run.add_argument(
        "--json", action="store_true", help="print a snapshot and then every event, one JSON object per line"
    )


def _add_reading(commands: Commands) -> None:
    sessions = add_command(
        commands, "sessions", "list or search the sessions", "List the sessions.", help_texts.SESSIONS
    )
    sessions.add_argument("--all", action="store_true", help="include archived sessions")
    sessions.add_argument("--search", metavar="TEXT", help="find sessions by name and by message text")
    sessions.add_argument("--limit", metavar="N", type=count, help="list at most N (default on a terminal: 40)")
    sessions.add_argument("--json", action="store_true", help="one JSON object per line")
    show = add_command(commands, "show", "show a conversation", "Show the conversation of a session.", help_texts.SHOW)
    show.add_argument("session", metavar="ID", nargs="?", help=_SESSION)
    how_much = show.add_mutually_exclusive_group()
    how_much.add_argument("--last", metavar="N", type=count, help="only the newest N messages")
    how_much.add_argument("--all", action="store_true", help="from the very beginning")
    how_much.add_argument("--json", action="store_true", help="the state of the session as one JSON object")


def _add_changing(commands: Commands) -> None:
    rename = add_command(
        commands,
        "rename",
        "rename a session",
        "Rename a session. A unique name can be used instead of the id.",
        help_texts.RENAME,
    )
    rename.add_argument("session", metavar="ID", help="the session")
    rename.add_argument("name", metavar="NAME", help="its new name")
    archive = add_command(
        commands,
        "archive",
        "archive sessions",
        "Archive sessions: they leave the list, but nothing is deleted.",
        help_texts.ARCHIVE,
    )
    restore = add_command(
        commands,
        "restore",
        "bring archived sessions back",
        "Bring archived sessions back into the list.",
        help_texts.RESTORE,
    )
    delete = add_command(
        commands,
        "delete",
        "delete sessions permanently",
        "Delete sessions with all their messages, permanently. Asks first.",
        help_texts.DELETE,
    )
    for several in (archive, restore, delete):
        several.add_argument("sessions", metavar="ID", nargs="+", help="one or several sessions")
    delete.add_argument("--yes", action="store_true", help="do not ask")
    fork = add_command(
        commands,
        "fork",
        "continue a conversation in a new session",
        "Create a session that begins with the conversation of this one, and print its short id.",
        help_texts.FORK,
    )
    fork.add_argument("session", metavar="ID", help="the session")
    fork.add_argument("--name", metavar="NAME", help="the name of the new session")


def _add_undo(commands: Commands) -> None:
    undo = add_command(
        commands,
        "undo",
        "go back to before a message, with the files",
        "Go back to the moment before your last message, or an earlier one: the conversation, and the files that the "
        "agent has changed since. Later messages stay in the session's tree.",
        help_texts.UNDO,
    )
    undo.add_argument("session", metavar="ID", nargs="?", help=_SESSION)
    undo.add_argument("--to", metavar="MESSAGE", help="the beginning of that message, or of its id")
    what = undo.add_mutually_exclusive_group()
    what.add_argument("--files-only", action="store_true", help="leave the conversation as it is")
    what.add_argument("--conversation-only", action="store_true", help="leave the files as they are")
    what.add_argument("--redo", action="store_true", help="revert the last undo")
    undo.add_argument("--force", action="store_true", help="also restore files that others have changed since")


def _add_transfer(commands: Commands) -> None:
    export = add_command(
        commands,
        "export",
        "write a session to a file",
        "Write a whole session as lines of JSON, to read, keep or import elsewhere; or its conversation as a "
        "document for people.",
        help_texts.TRANSFER,
    )
    export.add_argument("session", metavar="ID", help="the session")
    export.add_argument("file", metavar="FILE", nargs="?", default="-", help="a new file, or - for stdout (default)")
    export.add_argument(
        "--format",
        choices=FORMATS,
        metavar="KIND",
        help="jsonl, markdown, or html: one page that loads nothing (default: by the ending of FILE, else jsonl)",
    )
    export.add_argument("--force", action="store_true", help="overwrite FILE if it exists")
    bring = add_command(
        commands,
        "import",
        "read a session from a file",
        "Read a session that `export` has written, and print its short id. It will work in this folder with the "
        "settings of a new session, or stricter ones; what was queued, scheduled or allowed in the file is left out.",
        help_texts.TRANSFER,
    )
    bring.add_argument("file", metavar="FILE", help="a file that export has written, or - for stdin")
    bring.add_argument("--as-new", action="store_true", help="give it a new id, even if this home already has it")
    bring.add_argument(
        "--keep-settings",
        action="store_true",
        help="for your own files: keep folder, model, permissions, wake-ups and all else, which then act here",
    )


def _add_store(commands: Commands) -> None:
    store = add_command(
        commands,
        "store",
        "maintain the store: verify, back up, repair and more",
        "Maintain the file that holds all sessions.",
        help_texts.STORE,
        has_home=False,
    )
    tasks = store.add_subparsers(dest="task", metavar="task", parser_class=Parser, required=True)
    add_command(tasks, "verify", "check every record", "Check every record; changes nothing.")
    add_command(
        tasks,
        "rebuild",
        "recover what can be read of a damaged store",
        "Rebuild the store from the records that can be read. A damaged old file is set aside, never deleted. Exit "
        "code 1 means that something was lost.",
    )
    add_command(tasks, "compact", "return unused space to the disk", "Return unused space to the disk.")
    stats = add_command(tasks, "stats", "show what is stored, and how much space it takes", "Show what is stored.")
    stats.add_argument("--json", action="store_true", help="one JSON object")
    backup = add_command(
        tasks,
        "backup",
        "copy all sessions into one file",
        "Copy all sessions into one file, also while another session-core is running. Exit code 1 means that the store "
        "is damaged, and so is the copy.",
    )
    backup.add_argument(
        "target", metavar="TARGET", nargs="?", help="a new file (default: session-core-backup-<date>.sqlite3, here)"
    )
    restore = add_command(
        tasks,
        "restore",
        "go back to a backup",
        "Replace all sessions of a home with a backup. The old store is set aside, never deleted.",
    )
    restore.add_argument("file", metavar="FILE", help="a file that backup has written; it is not changed")


def _add_settings(commands: Commands) -> None:
    config = add_command(
        commands,
        "config",
        "show and check the settings",
        "Show or check the configuration: your own file, the project's, variables. Keys are never shown.",
        help_texts.CONFIG,
        has_home=False,
    )
    tasks = config.add_subparsers(dest="task", metavar="task", parser_class=Parser, required=True)
    show = add_command(tasks, "show", "every setting, its value and where it came from", "Show what is in force.")
    check = add_command(
        tasks,
        "check",
        "report every error",
        "Check your config.toml, the project's if the folder is trusted, both mcp.json, and whether the chosen model "
        "has its key. Exit code 1 means that something is wrong.",
    )
    path = add_command(
        tasks, "path", "print the path of your own file", "Print the path of your own file, whether it exists or not."
    )
    models = add_command(
        commands, "models", "list the models", "List the models that can be used here.", help_texts.MODELS
    )
    models.add_argument("--all", action="store_true", help="include models without a key, and what they need")
    mcp = add_command(
        commands,
        "mcp",
        "list the MCP servers and their problems",
        "Start the MCP servers, wait a moment, and show how they are doing and which tools they offer. Exit code 1 "
        "means that one cannot be used, or that an mcp.json is wrong.",
        help_texts.MCP,
    )
    trust = add_command(
        commands,
        "trust",
        "let the files of a project steer the agent",
        "Show which files of a folder would steer the agent and what each would bring, and trust them as they are "
        "now. Asks first.",
        help_texts.TRUST,
    )
    trust.add_argument("directory", metavar="DIR", nargs="?", help="the folder (default: this one)")
    instead = trust.add_mutually_exclusive_group()
    instead.add_argument("--show", action="store_true", help="only show the files, what they bring, and their state")
    instead.add_argument("--list", action="store_true", help="list all folders that you have trusted")
    instead.add_argument("--remove", action="store_true", help="stop trusting the folder")
    instead.add_argument("--yes", action="store_true", help="do not ask")
    doctor = add_command(
        commands,
        "doctor",
        "check that everything works, and suggest fixes",
        "Check the home and its store, the configuration, models and keys, extensions, the sandbox, the server and the "
        "terminal. Nothing is changed, and no network is used. Exit code 1 means that there is a problem.",
        help_texts.DOCTOR,
    )
    for each in (show, check, path, models, mcp, doctor):
        each.add_argument("--cwd", metavar="DIR", help="the folder to work in (default: this one)")
        each.add_argument("--json", action="store_true", help="for scripts: JSON, one object per line")


_NAMED = {
    "logs": "its name",
    "login": "its name, or NAME/PROVIDER",
    "logout": "its name, or NAME/PROVIDER",
}


def _add_extensions(commands: Commands) -> None:
    ext = add_command(commands, "ext", help_texts.EXT_LINE, help_texts.EXT_ABOUT, help_texts.EXT, has_home=False)
    tasks = ext.add_subparsers(dest="task", metavar="task", parser_class=Parser, required=True)
    for name, (help_line, about) in help_texts.EXT_TASKS.items():
        task = add_command(tasks, name, help_line, about)
        task.add_argument("--cwd", metavar="DIR", help="the project's folder (default: this one)")
        if name != "list":
            named = _NAMED.get(name, "its name, or the path of its folder")
            task.add_argument("extension", metavar="NAME", help=named)
        if name in {"list", "info", "reload", "doctor"}:
            task.add_argument("--json", action="store_true", help="for scripts: JSON, one object per line")
        if name == "trust":
            task.add_argument("--yes", action="store_true", help="do not ask")
        if name == "logs":
            task.add_argument("--lines", metavar="N", type=count, default=100, help="print at most N (default: 100)")
    check = add_command(
        tasks, "check", help_texts.EXT_CHECK_LINE, help_texts.EXT_CHECK_ABOUT, help_texts.EXT_CHECK, has_home=False
    )
    check.usage = f"{check.prog} [-h] [--json] [--timeout S] NAME | PATH | [--] COMMAND ..."
    assert isinstance(check, Parser)
    check.rest = "target"
    check.add_argument(
        "target", metavar="NAME|PATH|COMMAND", nargs="*", help="its name, its folder, or the command that starts it"
    )
    check.add_argument("--json", action="store_true", help="for scripts: the whole report as one JSON object")
    check.add_argument("--timeout", metavar="S", type=milliseconds, help="seconds for each answer (default: 5)")
    new = add_command(tasks, "new", help_texts.EXT_NEW_LINE, help_texts.EXT_NEW_ABOUT, help_texts.EXT_NEW)
    new.set_defaults(cwd=None)
    new.add_argument("name", metavar="NAME", help="the name of the extension: letters a-z, digits, - and _")
    new.add_argument(
        "--template", metavar="KIND", choices=TEMPLATES, default=TEMPLATES[0], help=f"{', '.join(TEMPLATES)}"
    )
    new.add_argument("--into", metavar="DIR", help="the folder to create (default: NAME in this one)")
    new.add_argument(
        "--try", dest="tries", action="store_true", help="also link it, let it run, start it and show it at work"
    )
