"""Where the sessions are kept, and reading them beside whoever writes to them.

Nothing here needs the service, so that reading commands start quickly.
"""

import shlex
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import attrs
import trio

import session_core as sc
from frontends.console.figures import place

_SIGNS_OF_A_STORE = ("sessions.sqlite3", "store-id")


@attrs.frozen(kw_only=True)
class Kept:
    """What is kept in a home at this moment; `reader` reads more of it, and there is none where nothing is kept."""

    home: Path
    sessions: tuple[sc.SessionSummary, ...]
    reader: sc.SqliteReader | None
    abandoned: bool
    """Nobody runs these sessions: whatever was running when it was recorded has been interrupted since."""


def home_of(chosen: str | None) -> Path:
    """Return the home that was chosen on the command line, else the one of the environment or the platform."""
    return Path(chosen).expanduser().absolute() if chosen else sc.default_home()


@asynccontextmanager
async def look_into(home: Path) -> AsyncGenerator[Kept]:
    """Read a home for the length of the block, whoever else writes to it; nothing is created."""
    reader = sc.SqliteReader(home)
    before = await trio.to_thread.run_sync(_somebody_runs, home)
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(reader.open_reader())
        except sc.NoStore:
            yield Kept(home=home, sessions=(), reader=None, abandoned=False)
            return
        sessions = await reader.list_sessions()
        # Asked twice: one that ended or began in between has told the list about it or will.
        abandoned = not before and not await trio.to_thread.run_sync(_somebody_runs, home)
        told = tuple(map(_interrupted, sessions)) if abandoned else sessions
        yield Kept(home=home, sessions=told, reader=reader, abandoned=abandoned)


async def list_kept(home: Path) -> tuple[sc.SessionSummary, ...]:
    """Return the list of the sessions in a home, oldest first."""
    async with look_into(home) as kept:
        return kept.sessions


def holds_a_store(home: Path) -> bool:
    """Tell whether sessions were ever kept here."""
    return any((home / name).exists() for name in _SIGNS_OF_A_STORE)


def _somebody_runs(home: Path) -> bool:
    try:
        return home.is_dir() and sc.lock_holder(home) is not None
    except sc.StoreUnusable:  # then it cannot be known
        return True


def _interrupted(summary: sc.SessionSummary) -> sc.SessionSummary:
    if summary.activity.at_rest:
        return summary
    return attrs.evolve(summary, activity=sc.Activity(name="interrupted"))


def how_to_go_on(short: str, home: Path) -> str:
    """Say what to type to go on with a session, with the home if it would not be found by itself."""
    try:
        elsewhere = home != sc.default_home()
    except sc.StoreUnusable:
        elsewhere = True
    where = f" --home {shlex.quote(str(home))}" if elsewhere else ""
    return f'Go on with: session-core run{where} --session {short} "..."'


def nothing_kept(home: Path) -> str:
    """Say that there are no sessions, and how to get one."""
    return f'No sessions in {place(str(home))} yet. Start one with: session-core run "list the files"'
