"""Where sessions are stored, and reading them beside a writer.

Nothing here needs the service, so reading commands start quickly.
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
from frontends.shared.figures import format_path
from frontends.shared.parser import UsageError

_SIGNS_OF_A_STORE = ("sessions.sqlite3", "store-id")
_STORED = sc.Epoch("stored")  # not a service process: a snapshot from disk has no stream position


@attrs.frozen(kw_only=True)
class StoredHome:
    """The current contents of a home; `reader` reads more of it, and is None where nothing is stored."""

    home: Path
    sessions: tuple[sc.SessionSummary, ...]
    reader: sc.SqliteReader | None
    abandoned: bool
    """No process runs these sessions: anything recorded as running has been interrupted since."""


def resolve_home(chosen: str | None) -> Path:
    """Return the home chosen on the command line, else the one from the environment or the platform.

    Raises:
        StoreUnusable: The path cannot be a home, or cannot be entered; a missing one is fine.
        UsageError: An empty path was chosen.
    """
    if chosen is not None and not chosen.strip():
        raise UsageError("--home is empty; name a folder, or leave it out")
    home = sc.setup.default_home() if chosen is None else _expand_home(chosen)
    try:
        is_directory = stat.S_ISDIR(home.stat().st_mode)
    except FileNotFoundError:
        return home
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise sc.StoreUnusable(f"the home {str(home)!r} cannot be used: {why}") from error
    if not is_directory:
        raise sc.StoreUnusable(f"the home {str(home)!r} is not a folder")
    if not os.access(home, os.R_OK | os.X_OK):
        raise sc.StoreUnusable(f"the home {str(home)!r} cannot be read: permission is denied; check its owner and mode")
    return home


def _expand_home(chosen: str) -> Path:
    try:
        return Path(chosen).expanduser().absolute()
    except RuntimeError:
        raise sc.StoreUnusable(f"the home {chosen!r} names an unknown user") from None


@asynccontextmanager
async def open_stored_home(home: Path) -> AsyncGenerator[StoredHome]:
    """Read a home for the duration of the block, beside any writer; creates nothing."""
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
        # Checked twice: a service that ended or began in between has updated the list, or will.
        abandoned = not before and not await trio.to_thread.run_sync(_is_home_locked, home)
        summaries = tuple(map(_mark_interrupted, sessions)) if abandoned else sessions
        yield StoredHome(home=home, sessions=summaries, reader=reader, abandoned=abandoned)


async def list_stored_sessions(home: Path) -> tuple[sc.SessionSummary, ...]:
    """Return the sessions in a home, oldest first."""
    async with open_stored_home(home) as stored_home:
        return stored_home.sessions


async def stored_snapshot(reader: sc.SqliteReader, session_id: sc.SessionId) -> sc.SessionSnapshot:
    """Return the last recorded state of a session.

    Raises:
        NotFound: It was deleted a moment ago.
    """
    stored = await reader.load(session_id)
    if stored is None:
        msg = f"there is no session {session_id!r}"
        raise sc.NotFound(msg, field="session_id")
    state = sc.SessionState(session_id=session_id)
    if stored.snapshot is not None:
        state = sc.SessionState.from_snapshot(stored.snapshot)
    for event in stored.events:
        state.apply(event)
    return state.snapshot(sc.Cursor(epoch=_STORED, seq=0))


def has_store(home: Path) -> bool:
    """Return whether sessions were ever stored here."""
    return any((home / name).exists() for name in _SIGNS_OF_A_STORE)


def _is_home_locked(home: Path) -> bool:
    try:
        return home.is_dir() and sc.setup.lock_holder(home) is not None
    except sc.StoreUnusable:  # then we cannot know
        return True


def _mark_interrupted(summary: sc.SessionSummary) -> sc.SessionSummary:
    if summary.activity.is_at_rest:
        return summary
    return attrs.evolve(summary, activity=sc.Activity(name="interrupted"))


def format_command(home: Path | None, command: str, rest: str) -> str:
    """Return a command to type, with the home if it is not the default."""
    try:
        elsewhere = home is not None and home != sc.setup.default_home()
    except sc.StoreUnusable:
        elsewhere = True
    where = f" --home {shlex.quote(str(home))}" if elsewhere else ""
    return f"session-core {command}{where} {rest}".rstrip()


def format_resume_hint(short: str, home: Path, *, interrupted: bool = False) -> str:
    """Describe what to type to continue a session; an interrupted turn needs no new prompt."""
    said = "" if interrupted else ' "..."'
    return f"Continue with: {format_command(home, 'run', f'--session {short}{said}')}"


def nothing_kept(home: Path) -> str:
    """Describe that there are no sessions, and how to get one."""
    start = format_command(home, "run", '"list the files"')
    return f"No sessions in {format_path(str(home))} yet. Start one with: {start}"
