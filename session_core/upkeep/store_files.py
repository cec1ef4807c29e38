"""The store as a file: make it smaller, copy it, measure it."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import attrs
import msgspec

from session_core.errors import StoreDamaged, StoreUnusable
from session_core.ids import SessionId, new_id
from session_core.storage.files import Connect, check_kept, connect, open_for_reading, open_for_writing, store_file
from session_core.storage.home import prepare_home, private_open
from session_core.storage.home_lock import HomeLock
from session_core.storage.schema import problem
from session_core.upkeep.finding import Progress, ignore_progress
from session_core.upkeep.swap import sync_file, sync_folder
from session_core.vocabulary.sessions import AT_REST

LARGEST_SHOWN = 5


@attrs.frozen(kw_only=True)
class CompactReport:
    """How large the store was, and is."""

    before_bytes: int
    after_bytes: int


@attrs.frozen(kw_only=True)
class BackupReport:
    """The copy that was made."""

    path: Path
    bytes: int
    sessions: int


@attrs.frozen(kw_only=True)
class StoreStatistics:
    """What a store holds; `largest` are the sessions with the most bytes, as (id, name, bytes)."""

    sessions: int
    archived: int
    running: int
    events: int
    messages: int
    blobs: int
    blob_bytes: int
    file_bytes: int
    wal_bytes: int
    oldest_at: int | None
    newest_at: int | None
    largest: tuple[tuple[SessionId, str, int], ...]


def compact_store(home: Path, *, connect: Connect = connect, progress: Progress = ignore_progress) -> CompactReport:
    """Drop long texts that no session uses, and give back to the disk what is free. A crash meanwhile harms nothing.

    Raises:
        StoreInUse: Somebody is using the home.
        StoreUnusable: There is no store, or it cannot be used.
        StoreDamaged: It cannot be read; nothing was changed.
    """
    check_kept(home)
    home = prepare_home(home)
    with ExitStack() as undo:
        lock = HomeLock.acquire(home)
        undo.callback(lock.release)
        if not store_file(home).exists():
            raise StoreUnusable(f"no sessions are kept in {home} yet")
        before = _bytes_on_disk(home)
        with closing(open_for_writing(home, connect)) as db:
            try:
                progress("dropping what nobody uses")
                _drop_unused_blobs(db)
                progress("tidying the search index")
                db.execute("INSERT INTO message_text (message_text) VALUES ('optimize')")
                progress("writing the file anew")
                db.execute("VACUUM")
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            except sqlite3.DatabaseError as error:
                raise problem(error) from error
        return CompactReport(before_bytes=before, after_bytes=_bytes_on_disk(home))


def _drop_unused_blobs(db: sqlite3.Connection) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        # What an event links to stays, even where the table of uses does not know of it.
        unused = {digest for (digest,) in db.execute("SELECT digest FROM blob EXCEPT SELECT digest FROM blob_use")}
        if unused:
            unused -= set(_linked(db))
        db.executemany("DELETE FROM blob WHERE digest = ?", [(digest,) for digest in unused])
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise


def _linked(db: sqlite3.Connection) -> Iterator[bytes]:
    for (links,) in db.execute("SELECT links FROM event WHERE links IS NOT NULL"):
        try:
            yield from (bytes.fromhex(digest) for _, digest in msgspec.json.decode(links))
        except (msgspec.MsgspecError, ValueError, TypeError) as error:
            raise StoreDamaged(
                "a record is damaged, so that nobody can tell which long texts are in use; "
                "run `session-core store verify`"
            ) from error


def backup_store(
    home: Path, target: Path, *, connect: Connect = connect, progress: Progress = ignore_progress
) -> BackupReport:
    """Copy the store of a home into one new file, as it is at one moment; a service may be writing meanwhile.

    The file appears under its name only when it is complete, flushed and checked. To go back to it, let it take the
    place of the store file while no service runs.

    Raises:
        StoreUnusable: There is no store, the target exists, or it cannot be written.
        StoreDamaged: The store is damaged, so that the copy would be.
    """
    target = target.absolute()
    if os.path.lexists(target):
        raise StoreUnusable(f"{str(target)!r} exists already; a backup never overwrites anything")
    unfinished = target.with_name(f".{target.name}.{new_id('part')}")
    with ExitStack() as undo:
        source = undo.enter_context(closing(open_for_reading(home, connect)))
        os.close(private_open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL))
        undo.callback(unfinished.unlink, missing_ok=True)
        progress("copying")
        try:
            with closing(sqlite3.connect(unfinished, isolation_level=None)) as copy:
                source.backup(copy)  # in one go: in pieces it would begin again with every commit of the service
                copy.execute("PRAGMA journal_mode = DELETE").fetchone()  # one file, readable anywhere
                progress("checking the copy")
                sessions = _check_copy(copy)
        except sqlite3.DatabaseError as error:
            raise problem(error) from error
        sync_file(unfinished)
        size = unfinished.stat().st_size
        try:
            os.link(unfinished, target)  # unlike a rename, it never replaces a file that came meanwhile
        except FileExistsError:
            raise StoreUnusable(f"{str(target)!r} exists already; a backup never overwrites anything") from None
        except OSError:  # a file system without links
            unfinished.rename(target)
        sync_folder(target.parent)
    return BackupReport(path=target, bytes=size, sessions=sessions)


def _check_copy(copy: sqlite3.Connection) -> int:
    (said,) = copy.execute("PRAGMA quick_check(1)").fetchone()
    holes = copy.execute(
        """
        SELECT count(*) FROM session WHERE last_n <> (
            SELECT count(*) FROM event WHERE event.session = session.id AND event.n BETWEEN 1 AND session.last_n
        )
        """
    ).fetchone()[0]
    if said != "ok" or holes:
        raise StoreDamaged(
            "the store is damaged, and so is any copy of it; `session-core store verify` tells more. To keep the "
            "file as it is, copy the home while no service runs"
        )
    (sessions,) = copy.execute("SELECT count(*) FROM session").fetchone()
    return int(sessions)


def store_statistics(home: Path, *, connect: Connect = connect) -> StoreStatistics:
    """Count what the store of a home holds; a service may be using it meanwhile.

    Raises:
        StoreUnusable: There is no store, or it cannot be used.
        StoreDamaged: It cannot be read.
    """
    with closing(open_for_reading(home, connect)) as db:
        try:
            db.execute("BEGIN")  # all numbers of one moment
            at_rest = ", ".join("?" for _ in AT_REST)
            sessions, archived, running, events, messages, oldest_at, newest_at = db.execute(
                f"""
                SELECT count(*), coalesce(sum(archived), 0), coalesce(sum(activity NOT IN ({at_rest})), 0),
                    coalesce(sum(last_n), 0), coalesce(sum(messages), 0), min(created_at), max(updated_at)
                FROM session
                """,  # noqa: S608 - question marks only
                AT_REST,
            ).fetchone()
            blobs, blob_bytes = db.execute("SELECT count(*), coalesce(sum(length(data)), 0) FROM blob").fetchone()
            largest = db.execute(
                "SELECT session_id, name, bytes FROM session ORDER BY bytes DESC, session_id LIMIT ?", (LARGEST_SHOWN,)
            ).fetchall()
        except sqlite3.DatabaseError as error:
            raise problem(error) from error
    return StoreStatistics(
        sessions=sessions,
        archived=archived,
        running=running,
        events=events,
        messages=messages,
        blobs=blobs,
        blob_bytes=blob_bytes,
        file_bytes=_size(store_file(home)),
        wal_bytes=_size(_log_of(home)),
        oldest_at=oldest_at,
        newest_at=newest_at,
        largest=tuple(largest),
    )


def _log_of(home: Path) -> Path:
    path = store_file(home)
    return path.with_name(path.name + "-wal")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _bytes_on_disk(home: Path) -> int:
    return _size(store_file(home)) + _size(_log_of(home))
