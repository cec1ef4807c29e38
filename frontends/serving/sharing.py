"""`session-core token`: tokens with fewer rights, for people and programs that are to see some sessions only."""

import json
from collections.abc import Sequence
from pathlib import Path
from time import time_ns

import attrs
import trio

import session_core as sc
from frontends.arguments import UsageError
from frontends.console.figures import clock_time
from frontends.console.sanitise import one_line
from frontends.console.streams import Streams
from frontends.console.style import Style, counted
from frontends.server.access import Access
from frontends.server.http.given import GivenToken
from frontends.server.http.tokens import MAX_SCOPED_MS, give_token, given_tokens, token_file
from frontends.server.http.tokens import revoke as take_back
from frontends.serving.places import service_process
from frontends.serving.reporting import ask
from frontends.stored.home import list_kept, to_type
from frontends.stored.which import find, short_ids

_SHORTEST = 3
_MOST_SHOWN = 5
_ROLES = {"observer": "watch", "controller": "watch and act in"}


@attrs.frozen(kw_only=True)
class Wanted:
    """What was asked of `token new`: for some sessions, or for `everything`."""

    home: Path
    sessions: tuple[str, ...] = ()
    everything: bool = False
    role: sc.ClientRole = "observer"
    lasting_ms: int
    name: str = ""


def where(home: Path) -> int:
    """Say where the token of a home is, without showing it, and return the exit code."""
    return trio.run(_where, home, Streams.standard())


async def _where(home: Path, streams: Streams) -> int:
    file = await trio.to_thread.run_sync(token_file, home)
    there = await trio.Path(file).exists()
    await streams.say(str(file))
    if there:
        await streams.remark(
            f"Whoever has this token can do everything; to print it: {to_type(home, 'token show', '')}"
        )
    else:
        await streams.remark("It is made when it is needed first.")
    given = await trio.to_thread.run_sync(given_tokens, home) if there else ()
    if given:
        many = counted(len(given), "token")
        await streams.remark(f"{many} with fewer rights: {to_type(home, 'token list', '')}")
    return 0


def new(wanted: Wanted) -> int:
    """Make a token, print it, and return the exit code."""
    if wanted.everything and wanted.sessions:
        raise UsageError("--all is for all sessions, so no --session goes with it")
    if not wanted.everything and not wanted.sessions:
        raise UsageError("say for which session: --session ID, or --all")
    if wanted.lasting_ms > MAX_SCOPED_MS:
        raise UsageError(f"--expires: a token with fewer rights is good for {MAX_SCOPED_MS // 86_400_000} days at most")
    return trio.run(_new, wanted, Streams.standard())


async def _new(wanted: Wanted, streams: Streams) -> int:
    home = wanted.home
    kept = await list_kept(home)
    named = None
    if not wanted.everything:
        named = frozenset(find(each, kept, home).session_id for each in wanted.sessions)
    access = Access(role=wanted.role, sessions=named)

    def make() -> tuple[GivenToken, str]:
        return give_token(home, access, expires_at=sc.now_ms() + wanted.lasting_ms, name=wanted.name.strip())

    given, secret = await trio.to_thread.run_sync(make)
    await streams.say(secret)
    until = clock_time(given.expires_at, _now())
    revoke_it = to_type(home, "token revoke", given.id)
    which = _sessions(given, kept)
    await streams.remark(
        f"It lets its bearer {_ROLES[given.role]} {which} until {until}; to end it sooner: {revoke_it}"
    )
    serve = to_type(home, "serve", "--http 0")
    if await trio.to_thread.run_sync(service_process, home) is None:
        await streams.remark(f"No service runs for this home; to let others in: {serve}")
    elif not await _has_door(home):
        end = to_type(home, "shutdown", "")
        await streams.remark(f"The service of this home has no HTTP; to let others in: {end}, then {serve}")
    return 0


async def _has_door(home: Path) -> bool:
    """Tell whether the service that runs can be reached by HTTP, as far as it says."""
    try:
        report = await ask(home)
    except sc.SessionCoreError:
        return True
    return report is None or report.status.address is not None


def list_tokens(home: Path, *, as_json: bool) -> int:
    """List the tokens with fewer rights, and return the exit code."""
    return trio.run(_list, home, as_json, Streams.standard())


async def _list(home: Path, as_json: bool, streams: Streams) -> int:  # noqa: FBT001
    given = await _given(home)
    if as_json:
        for each in given:
            plain = attrs.asdict(each, filter=attrs.filters.exclude("of"))
            await streams.say(json.dumps(plain))
        return 0
    kept = await list_kept(home) if given else ()
    for line in token_lines(streams.out.style, given, kept, now=_now()):
        await streams.say(line)
    if not given:
        await streams.remark(
            f"No token with fewer rights is good; to make one: {to_type(home, 'token new', '--session ID')}"
        )
    return 0


def token_lines(style: Style, given: Sequence[GivenToken], kept: Sequence[sc.SessionSummary], *, now: int) -> list[str]:
    """Return the list for people."""
    lines = []
    for each in given:
        name = f' "{one_line(each.name)}"' if each.name else ""
        until = clock_time(each.expires_at, now)
        lines.append(f"{style.cyan(each.id)}{name} {each.role}, {_sessions(each, kept)}, until {until}")
    return lines


def _sessions(given: GivenToken, kept: Sequence[sc.SessionSummary]) -> str:
    if given.sessions is None:
        return "all sessions"
    short = short_ids(kept)
    named = [short.get(each, f"{each[-4:]} (deleted)") for each in given.sessions]
    left = len(named) - _MOST_SHOWN
    return ", ".join(named[:_MOST_SHOWN]) + (f" and {left} more" if left > 0 else "")


def revoke(home: Path, ids: Sequence[str]) -> int:
    """Take tokens back, and return the exit code."""
    return trio.run(_revoke, home, ids, Streams.standard())


async def _revoke(home: Path, ids: Sequence[str], streams: Streams) -> int:
    given = await _given(home)
    ended = {_meant(each, given, home).id for each in ids}  # all of them are known before one is ended
    await trio.to_thread.run_sync(take_back, home, ended)
    many = "The token has ended" if len(ended) == 1 else f"{len(ended)} tokens have ended"
    await streams.remark(f"{many}; whoever came in by {'it' if len(ended) == 1 else 'them'} is sent away.")
    return 0


def _meant(typed: str, given: Sequence[GivenToken], home: Path) -> GivenToken:
    fitting = [each for each in given if each.id.startswith(typed.lower()) and len(typed) >= _SHORTEST]
    if len(fitting) == 1:
        return fitting[0]
    see = to_type(home, "token list", "")
    if fitting:
        raise UsageError(f"{one_line(typed, 60)!r} fits {len(fitting)} tokens; type more of the one you mean ({see})")
    raise UsageError(f"no token {one_line(typed, 60)!r} is good; it may have ended already (see: {see})")


async def _given(home: Path) -> tuple[GivenToken, ...]:
    if not await trio.to_thread.run_sync(lambda: token_file(home).exists()):
        return ()
    return await trio.to_thread.run_sync(given_tokens, home)


def _now() -> int:
    return time_ns() // 1_000_000
