"""Dispatch of the commands about a running service."""

import argparse
from pathlib import Path

from frontends.shared.parser import UsageError


def dispatch(chosen: argparse.Namespace, home: Path) -> int:
    """Run the command and return the exit code."""
    match chosen.command:
        case "serve":
            return _serve(chosen, home)
        case "status":
            from frontends.server.daemon.status import status

            return status(home, as_json=chosen.json)
        case "shutdown":
            from frontends.server.daemon.shutdown import shutdown

            return shutdown(home, force=chosen.force)
        case _:
            return _token(chosen, home)


def _serve(chosen: argparse.Namespace, home: Path) -> int:
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

    host, port = chosen.http if chosen.http is not None else ("127.0.0.1", None)
    certificate, key = chosen.tls if chosen.tls is not None else (None, None)
    return serve(
        ServeRequest(
            home=home,
            foreground=chosen.foreground,
            detached=chosen.detached,
            idle_s=None if chosen.idle is None else chosen.idle / 1000,
            host=host,
            port=port,
            certificate=certificate,
            key=key,
            urls=tuple(chosen.url),
            allow_remote=chosen.allow_remote,
            log_level=chosen.log_level,
            telemetry=chosen.telemetry,
        )
    )


def _token(chosen: argparse.Namespace, home: Path) -> int:
    from frontends.server.daemon import login_commands, token_commands

    match chosen.task:
        case "show" | "rotate":
            return login_commands.show_token(home, new=chosen.task == "rotate")
        case "new":
            return token_commands.new(
                token_commands.TokenRequest(
                    home=home,
                    sessions=tuple(chosen.sessions),
                    everything=chosen.all,
                    role=chosen.role,
                    lasting_ms=chosen.expires,
                    name=chosen.name,
                )
            )
        case "list":
            return token_commands.list_tokens(home, as_json=chosen.json)
        case "revoke":
            return token_commands.revoke(home, chosen.ids)
        case _:
            return token_commands.where(home)
