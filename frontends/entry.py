"""The `session-core` command: parses the arguments and loads the one frontend they ask for.

Nothing heavy is imported until a command is chosen, so `--help` and `--version` answer at once. Users never see a
traceback: an error is one line, and SESSION_CORE_DEBUG=1 shows the rest.
"""

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import session_core as sc
from frontends.arguments import PROGRAM, parser
from frontends.error_exit import flush_output, report
from frontends.shared.parser import UsageError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit code."""
    _keep_logs_off_the_screen()
    chosen = argparse.Namespace(command=None, home=None)
    try:
        given = sys.argv[1:] if arguments is None else arguments
        chosen = parser().parse_args(given or ["terminal"])
        if chosen.command is None:
            raise UsageError(f"choose a command (see: {PROGRAM} --help)")
        return _COMMANDS[chosen.command](chosen)
    except SystemExit as leaving:  # --help and --version
        return flush_output(leaving.code if isinstance(leaving.code, int) else 0)
    except (Exception, KeyboardInterrupt, BaseExceptionGroup) as error:  # noqa: BLE001 - where every error ends
        return report(error, home=getattr(chosen, "home", None))


def _terminal(chosen: argparse.Namespace) -> int:
    if chosen.prompt is not None and chosen.session is not None:
        raise UsageError(
            "a first message begins a new session; leave out --session, or type the message in that session"
        )
    begins = any(each is not None for each in (chosen.model, chosen.permissions, chosen.sandbox))
    if begins and chosen.session is not None:
        raise UsageError(
            "--model, --permissions and --sandbox are for new sessions; in this one, use /model and /permissions"
        )
    from frontends.terminal.command import open_terminal
    from frontends.terminal.options import TerminalOptions

    return open_terminal(
        TerminalOptions(
            home=_home(chosen),
            cwd=str(_workspace(chosen)),
            session=chosen.session,
            new=chosen.new or begins or chosen.prompt is not None,
            prompt=chosen.prompt,
            model=chosen.model,
            permissions=chosen.permissions,
            sandbox=chosen.sandbox,
            embedded=chosen.embedded,
            theme=chosen.theme,
        )
    )


def _doctor(chosen: argparse.Namespace) -> int:
    from frontends.commands.doctor.command import doctor

    return doctor(chosen.home, _workspace(chosen), as_json=chosen.json)


def _demo(chosen: argparse.Namespace) -> int:
    from frontends.commands.demo.tour import main as demo

    return demo(fast=chosen.fast)


def _run(chosen: argparse.Namespace) -> int:
    cwd = _directory(chosen.cwd) if chosen.cwd is not None else None
    goes_on = chosen.session is not None or chosen.go_on
    if chosen.json and chosen.quiet:
        raise UsageError("--json and --quiet exclude each other")
    if chosen.approve == "rules" and chosen.permissions in {"auto_edit", "full"}:
        raise UsageError("--approve rules lets only rules allow a change; leave --permissions out")
    from frontends.commands.run.stdin import read_prompt_input

    said = read_prompt_input(chosen.prompt, goes_on=goes_on)
    if said.prompt is None and not goes_on:
        raise UsageError(f"the following arguments are required: prompt (see: {PROGRAM} run --help)")
    if said.prompt is None and (chosen.files or chosen.output_schema is not None):
        raise UsageError("--file and --output-schema need a prompt, and there is none")
    if chosen.no_extensions and chosen.flags:
        raise UsageError("--flag is for extensions, and --no-extensions starts none")
    bounds = {"steps": chosen.max_steps, "cost_micros": chosen.max_cost, "time_ms": chosen.max_time}
    from frontends.commands.run.options import InteractionOptions, RunOptions
    from frontends.commands.run.run import main as run
    from frontends.shared.attachments import read_attachments, read_schema

    schema = read_schema(chosen.output_schema) if chosen.output_schema is not None else None
    return run(
        RunOptions(
            prompt=said.prompt,
            typed=said.typed,
            cwd=cwd,
            home=_home(chosen),
            is_persistent=not chosen.no_save,
            session=chosen.session,
            go_on=chosen.go_on,
            model=chosen.model,
            permissions=chosen.permissions,
            sandbox=chosen.sandbox,
            thinking=chosen.thinking,
            protocol=chosen.protocol,
            limits=sc.TurnLimits(**bounds),
            attached=said.merge_attachments(read_attachments(chosen.files)),
            output_schema=schema,
            extensions=not chosen.no_extensions,
            flags=tuple(chosen.flags),
            embedded=chosen.embedded,
            interaction=InteractionOptions(
                json=chosen.json,
                quiet=chosen.quiet,
                yes=chosen.yes,
                approve=chosen.approve or "ask",
                structured=schema is not None,
            ),
        )
    )


def _sessions(chosen: argparse.Namespace) -> int:
    if chosen.search is not None and not chosen.search.strip():
        raise UsageError("--search: the text is empty")
    from frontends.commands.sessions.list_command import ListOptions, list_sessions

    return list_sessions(
        ListOptions(home=_home(chosen), archived=chosen.all, search=chosen.search, limit=chosen.limit, json=chosen.json)
    )


def _show(chosen: argparse.Namespace) -> int:
    from frontends.commands.sessions.show_command import ShowOptions, show

    return show(
        ShowOptions(
            home=_home(chosen),
            directory=str(Path.cwd()),
            session=chosen.session,
            last=chosen.last,
            whole=chosen.all,
            json=chosen.json,
        )
    )


def _change(chosen: argparse.Namespace) -> int:
    from frontends.commands.sessions import edit_commands

    home = _home(chosen)
    match chosen.command:
        case "rename":
            return edit_commands.rename(home, chosen.session, chosen.name)
        case "archive":
            return edit_commands.archive(home, chosen.sessions)
        case "restore":
            return edit_commands.restore(home, chosen.sessions)
        case "delete":
            return edit_commands.delete(home, chosen.sessions, yes=chosen.yes)
        case _:
            return edit_commands.fork(home, chosen.session, chosen.name)


def _undo(chosen: argparse.Namespace) -> int:
    from frontends.commands.sessions.undo import UndoOptions, undo

    return undo(
        UndoOptions(
            home=_home(chosen),
            directory=str(Path.cwd()),
            session=chosen.session,
            to=chosen.to,
            files=not chosen.conversation_only,
            conversation=not chosen.files_only,
            force=chosen.force,
            redo=chosen.redo,
        )
    )


def _transfer(chosen: argparse.Namespace) -> int:
    if chosen.command == "export":
        from frontends.commands.export.command import export

        return export(_home(chosen), chosen.session, chosen.file, force=chosen.force, kind=chosen.format)
    from frontends.commands.sessions.import_session import import_session

    return import_session(
        _home(chosen), chosen.file, Path.cwd(), as_new=chosen.as_new, keep_settings=chosen.keep_settings
    )


def _store(chosen: argparse.Namespace) -> int:
    from frontends.commands.sessions import store_commands

    home = _home(chosen)
    match chosen.task:
        case "verify":
            return store_commands.verify(home)
        case "rebuild":
            return store_commands.rebuild(home, Path.cwd())
        case "compact":
            return store_commands.compact(home)
        case "stats":
            return store_commands.stats(home, as_json=chosen.json)
        case "backup":
            return store_commands.backup(home, chosen.target)
        case _:
            return store_commands.restore(home, chosen.file)


def _config(chosen: argparse.Namespace) -> int:
    from frontends.commands.settings import configuration

    tasks = {"show": configuration.show, "check": configuration.check, "path": configuration.show_path}
    return tasks[chosen.task](_home(chosen), _workspace(chosen), as_json=chosen.json)


def _models(chosen: argparse.Namespace) -> int:
    from frontends.commands.settings.models import list_models

    return list_models(_home(chosen), _workspace(chosen), everything=chosen.all, as_json=chosen.json)


def _mcp(chosen: argparse.Namespace) -> int:
    from frontends.commands.settings.servers import list_servers

    return list_servers(_home(chosen), _workspace(chosen), as_json=chosen.json)


def _trust(chosen: argparse.Namespace) -> int:
    from frontends.commands.settings import trust

    folder = Path(_directory(chosen.directory, "DIR")) if chosen.directory is not None else Path.cwd()
    if chosen.list:
        return trust.list_folders(_home(chosen))
    if chosen.show:
        return trust.show(_home(chosen), folder)
    if chosen.remove:
        return trust.remove(_home(chosen), folder)
    return trust.trust(_home(chosen), folder, yes=chosen.yes)


def _ext(chosen: argparse.Namespace) -> int:
    from frontends.commands.extensions import doctor, list_and_info, logs, new, trust

    if chosen.task == "check":
        from frontends.commands.extensions import check

        seconds = None if chosen.timeout is None else chosen.timeout / 1000
        return check.check(chosen.target, as_json=chosen.json, seconds=seconds)
    home, cwd = _home(chosen), _workspace(chosen)
    match chosen.task:
        case "list":
            return list_and_info.list_extensions(home, cwd, as_json=chosen.json)
        case "info":
            return list_and_info.info(home, cwd, chosen.extension, as_json=chosen.json)
        case "trust":
            return trust.trust(home, cwd, chosen.extension, yes=chosen.yes)
        case "enable" | "disable":
            return trust.switch(home, cwd, chosen.extension, enabled=chosen.task == "enable")
        case "login":
            from frontends.commands.run.extension_login import login

            return login(home, cwd, chosen.extension)
        case "logout":
            from frontends.commands.extensions import logins

            return logins.logout(home, cwd, chosen.extension)
        case "logs":
            return logs.show_log(home, cwd, chosen.extension, lines=chosen.lines)
        case "new":
            if chosen.tries:
                return new.make_and_try(home, cwd, chosen.name, chosen.template, chosen.into)
            return new.make(home, cwd, chosen.name, chosen.template, chosen.into)
        case "reload":
            return doctor.reload(home, cwd, chosen.extension, as_json=chosen.json)
        case _:
            return doctor.doctor(home, cwd, chosen.extension, as_json=chosen.json)


def _serve(chosen: argparse.Namespace) -> int:
    home = _home(chosen)
    if chosen.token or chosen.rotate_token or chosen.login:
        from frontends.server.daemon import login_commands

        if chosen.login:
            return login_commands.login(home)
        return login_commands.show_token(home, new=chosen.rotate_token)
    if chosen.http is None and (chosen.tls is not None or chosen.allow_remote or chosen.url):
        raise UsageError("--tls, --url and --allow-remote need --http [HOST:]PORT")
    if chosen.tls is not None and (missing := [each for each in chosen.tls if not Path(each).is_file()]):
        raise UsageError(f"--tls: there is no file {missing[0]!r}")
    from frontends.server.daemon.command import ServeRequest, serve

    http = None
    if chosen.http is not None:
        from frontends.server.http.settings import HttpSettings, Tls

        host, port = chosen.http
        tls = None if chosen.tls is None else Tls(certificate=Path(chosen.tls[0]), key=Path(chosen.tls[1]))
        http = HttpSettings(host=host, port=port, tls=tls, allow_remote=chosen.allow_remote, urls=tuple(chosen.url))
    return serve(
        ServeRequest(
            home=home,
            foreground=chosen.foreground,
            detached=chosen.detached,
            idle_s=None if chosen.idle is None else chosen.idle / 1000,
            http=http,
            log_level=chosen.log_level,
            telemetry=chosen.telemetry,
        )
    )


def _status(chosen: argparse.Namespace) -> int:
    from frontends.server.daemon.status import status

    return status(_home(chosen), as_json=chosen.json)


def _shutdown(chosen: argparse.Namespace) -> int:
    from frontends.server.daemon.shutdown import shutdown

    return shutdown(_home(chosen), force=chosen.force)


def _token(chosen: argparse.Namespace) -> int:
    from frontends.server.daemon import login_commands, token_commands

    home = _home(chosen)
    match chosen.task:
        case "show" | "rotate":
            return login_commands.show_token(home, new=chosen.task == "rotate")
        case "new":
            return token_commands.new(
                home,
                sessions=chosen.sessions,
                everything=chosen.all,
                role=chosen.role,
                lasting_ms=chosen.expires,
                name=chosen.name,
            )
        case "list":
            return token_commands.list_tokens(home, as_json=chosen.json)
        case "revoke":
            return token_commands.revoke(home, chosen.ids)
        case _:
            return token_commands.where(home)


def _watch(chosen: argparse.Namespace) -> int:
    if chosen.all and chosen.sessions:
        raise UsageError("--all means all sessions, so it takes no ID")
    from frontends.commands.watch.watch import WatchOptions, watch

    return watch(
        WatchOptions(
            home=_home(chosen),
            directory=str(Path.cwd()),
            sessions=tuple(chosen.sessions),
            everything=chosen.all,
            until_idle=chosen.until_idle,
            json=chosen.json,
        )
    )


def _stop(chosen: argparse.Namespace) -> int:
    from frontends.commands.watch.stop import stop

    return stop(_home(chosen), chosen.session, chosen.scope, directory=str(Path.cwd()))


_COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "terminal": _terminal,
    "run": _run,
    "sessions": _sessions,
    "show": _show,
    "serve": _serve,
    "status": _status,
    "shutdown": _shutdown,
    "watch": _watch,
    "stop": _stop,
    "token": _token,
    "rename": _change,
    "archive": _change,
    "restore": _change,
    "delete": _change,
    "fork": _change,
    "undo": _undo,
    "export": _transfer,
    "import": _transfer,
    "store": _store,
    "config": _config,
    "models": _models,
    "mcp": _mcp,
    "trust": _trust,
    "ext": _ext,
    "doctor": _doctor,
    "demo": _demo,
}


def _home(chosen: argparse.Namespace) -> Path:
    from frontends.shared.home import resolve_home

    home = resolve_home(chosen.home)
    sc.setup.refuse_exposed_home(home)
    return home


def _workspace(chosen: argparse.Namespace) -> Path:
    return Path(_directory(chosen.cwd)) if chosen.cwd is not None else Path.cwd()


def _directory(given: str, option: str = "--cwd") -> str:
    path = Path(given).absolute()
    try:
        if not path.is_dir():
            raise UsageError(
                f"{option}: {given!r} is not a folder" if path.exists() else f"{option}: there is no {given!r}"
            )
    except ValueError:
        raise UsageError(f"{option}: {given!r} cannot be a path") from None
    return str(path)


def _keep_logs_off_the_screen() -> None:
    if os.environ.get("SESSION_CORE_DEBUG"):
        logging.basicConfig(level=logging.DEBUG)
    else:
        logging.getLogger().addHandler(logging.NullHandler())  # without one, Python prints warnings itself


if __name__ == "__main__":
    sys.exit(main())
