"""`session-core token`: scoped tokens, for people and programs that should see only some sessions."""

from collections.abc import Sequence
from pathlib import Path

import attrs
import trio

import session_core as sc
from frontends.server.access import Access
from frontends.server.daemon.runtime_paths import service_process
from frontends.server.daemon.status import request_report
from frontends.server.http.scoped_tokens import GivenToken
from frontends.server.http.tokens import MAX_SCOPED_MS, issue_token, list_scoped_tokens, token_file
from frontends.server.http.tokens import revoke as take_back
from frontends.shared.figures import clock_time, format_count
from frontends.shared.home import format_command, list_stored_sessions
from frontends.shared.parser import UsageError
from frontends.shared.sanitise import dump_json, one_line
from frontends.shared.session_lookup import find_session, short_ids
from frontends.shared.streams import StandardStreams, with_streams
from frontends.shared.style import Style

_SHORTEST = 3
_MOST_SHOWN = 5
_ROLES = {"observer": "watch", "controller": "watch and act in"}


@with_streams
async def where(streams: StandardStreams, home: Path) -> int:
    """Print the path of the token of a home, without showing the token, and return the exit code."""
    file = await trio.to_thread.run_sync(token_file, home)
    there = await trio.Path(file).exists()
    await streams.say(str(file))
    if there:
        await streams.remark(f"This token allows everything; to print it: {format_command(home, 'token show', '')}")
    else:
        await streams.remark("It is created when it is first needed.")
    scoped = await trio.to_thread.run_sync(list_scoped_tokens, home) if there else ()
    if scoped:
        many = format_count(len(scoped), "scoped token")
        await streams.remark(f"{many}: {format_command(home, 'token list', '')}")
    return 0


@with_streams
async def new(
    streams: StandardStreams,
    home: Path,
    *,
    sessions: Sequence[str],
    everything: bool,
    role: sc.ClientRole,
    lasting_ms: int,
    name: str,
) -> int:
    """Create a token for some sessions, or for `everything`, print it, and return the exit code."""
    if everything and sessions:
        raise UsageError("--all means all sessions, so it cannot be combined with --session")
    if not everything and not sessions:
        raise UsageError("choose the sessions: --session ID, or --all")
    if lasting_ms > MAX_SCOPED_MS:
        raise UsageError(f"--expires: a scoped token is valid for at most {MAX_SCOPED_MS // 86_400_000} days")
    stored_sessions = await list_stored_sessions(home)
    named = None
    if not everything:
        named = frozenset(find_session(each, stored_sessions, home).session_id for each in sessions)
    access = Access(role=role, sessions=named)

    def make() -> tuple[GivenToken, str]:
        return issue_token(home, access, expires_at=sc.now_ms() + lasting_ms, name=name.strip())

    scoped, secret = await trio.to_thread.run_sync(make)
    await streams.say(secret)
    until = clock_time(scoped.expires_at, sc.now_ms())
    revoke_it = format_command(home, "token revoke", scoped.id)
    which = _sessions(scoped, stored_sessions)
    await streams.remark(
        f"It lets its bearer {_ROLES[scoped.role]} {which} until {until}; to end it sooner: {revoke_it}"
    )
    serve = format_command(home, "serve", "--http 0")
    if await trio.to_thread.run_sync(service_process, home) is None:
        await streams.remark(f"No service runs for this home; to let others in: {serve}")
    elif not await _serves_http(home):
        end = format_command(home, "shutdown", "")
        await streams.remark(f"The service of this home does not serve HTTP; to let others in: {end}, then {serve}")
    return 0


async def _serves_http(home: Path) -> bool:
    """Return whether the running service reports an HTTP address."""
    try:
        report = await request_report(home)
    except sc.SessionCoreError:
        return True
    return report is None or report.status.address is not None


@with_streams
async def list_tokens(streams: StandardStreams, home: Path, *, as_json: bool) -> int:
    """List the scoped tokens, and return the exit code."""
    scoped = await _list_scoped_tokens(home)
    if as_json:
        for each in scoped:
            plain = attrs.asdict(each, filter=attrs.filters.exclude("of"))
            await streams.say(dump_json(plain))
        return 0
    stored_sessions = await list_stored_sessions(home) if scoped else ()
    for line in token_lines(streams.out.style, scoped, stored_sessions, now=sc.now_ms()):
        await streams.say(line)
    if not scoped:
        await streams.remark(
            f"No scoped token is valid; to make one: {format_command(home, 'token new', '--session ID')}"
        )
    return 0


def token_lines(
    style: Style, scoped: Sequence[GivenToken], stored_sessions: Sequence[sc.SessionSummary], *, now: int
) -> list[str]:
    """Return the list for people."""
    lines = []
    for each in scoped:
        name = f' "{one_line(each.name)}"' if each.name else ""
        until = clock_time(each.expires_at, now)
        lines.append(f"{style.cyan(each.id)}{name} {each.role}, {_sessions(each, stored_sessions)}, until {until}")
    return lines


def _sessions(scoped: GivenToken, stored_sessions: Sequence[sc.SessionSummary]) -> str:
    if scoped.sessions is None:
        return "all sessions"
    short = short_ids(stored_sessions)
    named = [short.get(each, f"{each[-4:]} (deleted)") for each in scoped.sessions]
    remaining = len(named) - _MOST_SHOWN
    return ", ".join(named[:_MOST_SHOWN]) + (f" and {remaining} more" if remaining > 0 else "")


@with_streams
async def revoke(streams: StandardStreams, home: Path, ids: Sequence[str]) -> int:
    """Revoke tokens, and return the exit code."""
    scoped = await _list_scoped_tokens(home)
    ended = {_find_token(each, scoped, home).id for each in ids}  # all are looked up before any is ended
    await trio.to_thread.run_sync(take_back, home, ended)
    many = "The token has ended" if len(ended) == 1 else f"{len(ended)} tokens have ended"
    await streams.remark(f"{many}; clients that used {'it' if len(ended) == 1 else 'them'} are disconnected.")
    return 0


def _find_token(typed: str, scoped: Sequence[GivenToken], home: Path) -> GivenToken:
    fitting = [each for each in scoped if each.id.startswith(typed.lower()) and len(typed) >= _SHORTEST]
    if len(fitting) == 1:
        return fitting[0]
    see = format_command(home, "token list", "")
    if fitting:
        raise UsageError(
            f"{one_line(typed, 60)!r} matches {len(fitting)} tokens; type more of the one you mean ({see})"
        )
    raise UsageError(f"there is no valid token {one_line(typed, 60)!r}; it may have ended already (see: {see})")


async def _list_scoped_tokens(home: Path) -> tuple[GivenToken, ...]:
    if not await trio.to_thread.run_sync(lambda: token_file(home).exists()):
        return ()
    return await trio.to_thread.run_sync(list_scoped_tokens, home)
