"""Where the sessions are kept, and reading them beside whoever writes to them.

Nothing here needs the service, so that reading commands start quickly.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import attrs

import session_core as sc
from frontends.arguments import UsageError
from frontends.shared.figures import format_path

_SIGNS_OF_A_STORE = ("sessions.sqlite3", "store-id")


@attrs.frozen(kw_only=True)
class StoredHome:
    """What is kept in a home at this moment; `reader` reads more of it, and there is none where nothing is kept."""

    home: Path
    sessions: tuple[sc.SessionSummary, ...]
    reader: sc.SqliteReader | None
    abandoned: bool
    """Nobody runs these sessions: whatever was running when it was recorded has been interrupted since."""


def resolve_home(chosen: str | None) -> Path:
    """Return the home that was chosen on the command line, else the one of the environment or the platform.

    Raises:
        StoreUnusable: There is something that cannot be a home, or cannot be entered; a missing one is fine.
        UsageError: An empty one was chosen.
    """
    if chosen is not None and not chosen.strip():
        raise UsageError("--home is empty; say which directory, or leave it out")
    home = sc.default_home() if chosen is None else _expand_home(chosen)
    try:
        is_directory = stat.S_ISDIR(home.stat().st_mode)
    except FileNotFoundError:
        return home
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise sc.StoreUnusable(f"the home {str(home)!r} cannot be used: {why}") from error
    if not is_directory:
        raise sc.StoreUnusable(f"the home {str(home)!r} is not a directory")
    if not os.access(home, os.R_OK | os.X_OK):
        raise sc.StoreUnusable(f"the home {str(home)!r} cannot be read: permission is denied; check its owner and mode")
    return home


def _expand_home(chosen: str) -> Path:
    try:
        return Path(chosen).expanduser().absolute()
    except RuntimeError:
        raise sc.StoreUnusable(f"the home {chosen!r} is of a user who is not known here") from None


@asynccontextmanager
async def open_stored_home(home: Path) -> AsyncGenerator[StoredHome]:
    """Read a home for the length of the block, whoever else writes to it; nothing is created."""
    reader = sc.SqliteReader(home)
    import trio

    before = await trio.to_thread.run_sync(_is_home_locked, home)
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(reader.open_reader())
        except sc.NoStore:
            yield StoredHome(home=home, sessions=(), reader=None, abandoned=False)
            return
        sessions = await reader.list_sessions()
        # Asked twice: one that ended or began in between has told the list about it or will.
        abandoned = not before and not await trio.to_thread.run_sync(_is_home_locked, home)
        summaries = tuple(map(_mark_interrupted, sessions)) if abandoned else sessions
        yield StoredHome(home=home, sessions=summaries, reader=reader, abandoned=abandoned)


async def list_stored_sessions(home: Path) -> tuple[sc.SessionSummary, ...]:
    """Return the list of the sessions in a home, oldest first."""
    async with open_stored_home(home) as stored_home:
        return stored_home.sessions


def has_store(home: Path) -> bool:
    """Tell whether sessions were ever kept here."""
    return any((home / name).exists() for name in _SIGNS_OF_A_STORE)


def _is_home_locked(home: Path) -> bool:
    try:
        return home.is_dir() and sc.lock_holder(home) is not None
    except sc.StoreUnusable:  # then it cannot be known
        return True


def _mark_interrupted(summary: sc.SessionSummary) -> sc.SessionSummary:
    if summary.activity.is_at_rest:
        return summary
    return attrs.evolve(summary, activity=sc.Activity(name="interrupted"))


def format_command(home: Path | None, command: str, rest: str) -> str:
    """Return a command to be typed, with the home if it would not be found by itself."""
    try:
        elsewhere = home is not None and home != sc.default_home()
    except sc.StoreUnusable:
        elsewhere = True
    where = f" --home {shlex.quote(str(home))}" if elsewhere else ""
    return f"session-core {command}{where} {rest}".rstrip()


def format_resume_hint(short: str, home: Path, *, interrupted: bool = False) -> str:
    """Say what to type to go on with a session; an interrupted turn needs no new prompt."""
    said = "" if interrupted else ' "..."'
    return f"Go on with: {format_command(home, 'run', f'--session {short}{said}')}"


def nothing_kept(home: Path) -> str:
    """Say that there are no sessions, and how to get one."""
    start = format_command(home, "run", '"list the files"')
    return f"No sessions in {format_path(str(home))} yet. Start one with: {start}"
