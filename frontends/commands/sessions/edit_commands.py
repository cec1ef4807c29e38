"""`rename`, `archive`, `restore`, `delete`, `fork`: one command each, to the running service or an embedded one.

The session is looked up read-only before the home is locked: a typo needs no lock, and no other process waits while a
person thinks about a question.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import trio

import session_core as sc
from frontends.commands.sessions.writable_home import open_session_methods
from frontends.shared.figures import format_count
from frontends.shared.home import format_resume_hint, list_stored_sessions
from frontends.shared.parser import UsageError
from frontends.shared.sanitise import one_line
from frontends.shared.session_lookup import find_all, find_session, short_id, short_ids
from frontends.shared.streams import StandardStreams
from frontends.shared.style import Style

_NAME_CHARS = 60


def rename(home: Path, session: str, name: str) -> int:
    """Run `rename` and return the exit code."""
    return trio.run(_rename, home, session, name, StandardStreams.standard())


def archive(home: Path, sessions: Sequence[str]) -> int:
    """Run `archive` and return the exit code."""
    return trio.run(_set_aside, home, sessions, True, StandardStreams.standard())


def restore(home: Path, sessions: Sequence[str]) -> int:
    """Run `restore` and return the exit code."""
    return trio.run(_set_aside, home, sessions, False, StandardStreams.standard())


def delete(home: Path, sessions: Sequence[str], *, yes: bool) -> int:
    """Run `delete` and return the exit code."""
    return trio.run(_delete, home, sessions, yes, StandardStreams.standard())


def fork(home: Path, session: str, name: str | None) -> int:
    """Run `fork` and return the exit code."""
    return trio.run(_fork, home, session, name, StandardStreams.standard())


def _called(style: Style, short: str, name: str) -> str:
    return f"{style.cyan(short)} {_quoted(name)}"


def _quoted(name: str) -> str:
    return f'"{one_line(name, _NAME_CHARS)}"'


async def _rename(home: Path, typed: str, name: str, streams: StandardStreams) -> int:
    sessions = await list_stored_sessions(home)
    found = find_session(typed, sessions, home)
    async with open_session_methods(home, "rename") as service:
        await service.rename_session(found.session_id, name)
    short = short_id(found.session_id, sessions)
    await streams.say(f"{_called(streams.out.style, short, found.name)} is now called {_quoted(name)}")
    return 0


async def _set_aside(home: Path, typed: Sequence[str], aside: bool, streams: StandardStreams) -> int:  # noqa: FBT001
    sessions = await list_stored_sessions(home)
    ids = short_ids(sessions)
    found = find_all(typed, sessions, home)
    changing = [each for each in found if each.archived != aside]
    if changing:
        async with open_session_methods(home, "archive" if aside else "restore") as service:
            for each in changing:
                await (service.archive_session if aside else service.restore_session)(each.session_id)
    for each in found:
        called = _called(streams.out.style, ids[each.session_id], each.name)
        if each.archived == aside:
            await streams.say(f"{called} {'was archived already' if aside else 'was not archived'}")
        else:
            await streams.say(f"{called} {'is archived' if aside else 'is back in the list'}")
    return 0


async def _delete(home: Path, typed: Sequence[str], yes: bool, streams: StandardStreams) -> int:  # noqa: FBT001
    sessions = await list_stored_sessions(home)
    ids = short_ids(sessions)
    found = find_all(typed, sessions, home)
    if not yes and not await _may_delete(found, ids, streams):
        await streams.remark("nothing was deleted")
        return 1
    async with open_session_methods(home, "delete") as service:
        for each in found:
            await service.delete_session(each.session_id)
            await streams.say(f"deleted {_called(streams.out.style, ids[each.session_id], each.name)}")
    return 0


async def _may_delete(
    found: Sequence[sc.SessionSummary], ids: Mapping[sc.SessionId, str], streams: StandardStreams
) -> bool:
    """Ask on the terminal; anything but a clear yes is a no."""
    if streams.keyboard is None:
        raise UsageError("delete asks before it removes anything, and there is no terminal to ask on; use --yes")
    style = streams.err.style
    if len(found) == 1:
        what = _called(style, ids[found[0].session_id], found[0].name)
    else:
        for each in found:
            await streams.remark(f"  {_called(style, ids[each.session_id], each.name)}")
        what = f"these {format_count(len(found), 'session')}"
    return await streams.confirm(f"Delete {what} for good?")


async def _fork(home: Path, typed: str, name: str | None, streams: StandardStreams) -> int:
    sessions = await list_stored_sessions(home)
    found = find_session(typed, sessions, home)
    async with open_session_methods(home, "fork") as service:
        made = await service.fork_session(found.session_id, name=name)
        sessions = (await service.load_service()).sessions
    short = short_id(made.session_id, sessions)
    await streams.say(short)
    style = streams.err.style
    called = _called(style, short_id(found.session_id, sessions), found.name)
    await streams.remark(f"It begins with the conversation of {called}.\n{style.dim(format_resume_hint(short, home))}")
    return 0
