"""The store as a file: compact it, back it up, restore a backup, measure it."""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import quote

import attrs
import msgspec

from session_core.errors import StoreDamaged, StoreUnusable
from session_core.ids import SessionId, new_id
from session_core.storage.executor_state import leaf_rows
from session_core.storage.files import (
    STORE_FILE,
    Connect,
    connect,
    open_for_reading,
    open_for_writing,
    require_store,
    store_file,
    surrogate_text,
    wal_path,
)
from session_core.storage.home import prepare_home
from session_core.storage.home_lock import HomeLock
from session_core.storage.kv import kv_rows
from session_core.storage.maintenance.file_swap import clear_work, swap_store_in, sync_file, sync_folder, time_stamp
from session_core.storage.maintenance.findings import Progress, VerifyReport, ignore_progress, strip_advice
from session_core.storage.maintenance.table_check import has_right_schema
from session_core.storage.maintenance.verify import verify_store
from session_core.storage.private_files import private_open
from session_core.storage.records import checksum, digest_of
from session_core.storage.rows import has_table
from session_core.storage.schema import UNREADABLE, VERSION, store_error, version_of
from session_core.vocabulary.sessions import AT_REST

LARGEST_SHOWN = 5


@attrs.frozen(kw_only=True)
class CompactReport:
    """How large the store was, and is."""

    before_bytes: int
    after_bytes: int


@attrs.frozen(kw_only=True)
class BackupReport:
    """The copy that was made; `damaged` means that it has errors, like the store it was made from."""

    path: Path
    bytes: int
    sessions: int
    damaged: bool = False


@attrs.frozen(kw_only=True)
class RestoreReport:
    """What was restored, and where the previous store is now; its log, if it had one, is beside it."""

    sessions: int
    bytes: int
    set_aside: Path | None


@attrs.frozen(kw_only=True)
class StoreStatistics:
    """What a store holds; `largest` are the sessions with the most bytes, as (id, name, bytes).

    `leaves` are the large parts of executor states.
    """

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
    leaves: int = 0
    leaf_bytes: int = 0


def compact_store(home: Path, *, connect: Connect = connect, progress: Progress = ignore_progress) -> CompactReport:
    """Drop blobs that no session uses, and return free space to the disk. A crash meanwhile does no harm.

    Raises:
        StoreInUse: Somebody is using the home.
        StoreUnusable: There is no store, or it cannot be used.
        StoreDamaged: It cannot be read; nothing was changed.
    """
    require_store(home)
    home = prepare_home(home)
    with ExitStack() as undo:
        undo.callback(HomeLock.acquire(home).release)
        if not store_file(home).exists():
            raise StoreUnusable(f"no sessions are stored in {home} yet")
        before = _bytes_on_disk(home)
        with closing(open_for_writing(home, connect)) as db:
            try:
                progress("dropping unused texts")
                _drop_unused_blobs(db)
                progress("tidying the search index")
                db.execute("INSERT INTO message_text (message_text) VALUES ('optimize')")
                progress("rewriting the file")
                db.execute("VACUUM")
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            except sqlite3.DatabaseError as error:
                raise store_error(error) from error
        return CompactReport(before_bytes=before, after_bytes=_bytes_on_disk(home))


def _drop_unused_blobs(db: sqlite3.Connection) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        # Blobs that an event links to stay, even if they are missing in the table of uses.
        unused = {digest for (digest,) in db.execute("SELECT digest FROM blob EXCEPT SELECT digest FROM blob_use")}
        if unused:
            unused -= set(_iterate_linked_digests(db))
        db.executemany("DELETE FROM blob WHERE digest = ?", [(digest,) for digest in unused])
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise


def _iterate_linked_digests(db: sqlite3.Connection) -> Iterator[bytes]:
    for (links,) in db.execute("SELECT links FROM event WHERE links IS NOT NULL"):
        try:
            yield from (bytes.fromhex(digest) for _, digest in msgspec.json.decode(links))
        except (msgspec.MsgspecError, ValueError, TypeError) as error:
            raise StoreDamaged(
                "a record is damaged, so it is unknown which blobs are in use; run `session-core store verify`"
            ) from error


def backup_store(
    home: Path, target: Path, *, connect: Connect = connect, progress: Progress = ignore_progress
) -> BackupReport:
    """Copy a consistent view of the store of a home into one new file; a service may be writing meanwhile.

    The file appears under its name only when it is complete, flushed and checked: the pages, the numbers of the records
    and the checksums. A damaged store is copied as it is, and the report says so. `restore_store` restores a copy.

    Raises:
        StoreUnusable: There is no store, the target exists, or it cannot be written.
        StoreDamaged: The store is so damaged that it cannot be copied.
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
                source.backup(copy)  # in one go: in steps it would restart with every commit of the service
                copy.execute("PRAGMA journal_mode = DELETE").fetchone()  # one file, readable anywhere
                progress("checking the copy")
                sessions, damaged = _check_copy(copy)
        except sqlite3.DatabaseError as error:
            raise store_error(error) from error
        sync_file(unfinished)
        size = unfinished.stat().st_size
        try:
            os.link(unfinished, target)  # unlike a rename, it never replaces a file that came meanwhile
        except FileExistsError:
            raise StoreUnusable(f"{str(target)!r} exists already; a backup never overwrites anything") from None
        except OSError:  # a file system without links
            unfinished.rename(target)
        sync_folder(target.parent)
    return BackupReport(path=target, bytes=size, sessions=sessions, damaged=damaged)


def _check_copy(copy: sqlite3.Connection) -> tuple[int, bool]:
    """Return how many sessions a copy has, and whether anything is wrong with it."""
    copy.text_factory = surrogate_text
    try:
        (sessions,) = copy.execute("SELECT count(*) FROM session").fetchone()
    except sqlite3.DatabaseError:
        return 0, True
    try:
        return int(sessions), not _is_sound(copy)
    except (sqlite3.DatabaseError, ValueError, TypeError, OverflowError):  # damaged data can raise anything
        return int(sessions), True


def _is_sound(copy: sqlite3.Connection) -> bool:
    """Check what is quick to check: data that cannot be derived from other data."""
    if copy.execute("PRAGMA quick_check(1)").fetchall() != [("ok",)] or not has_right_schema(copy):
        return False
    (holes,) = copy.execute(
        """
        SELECT count(*) FROM session WHERE last_n <> (
            SELECT count(*) FROM event WHERE event.session = session.id AND event.n BETWEEN 1 AND session.last_n
        )
        """
    ).fetchone()
    records = copy.execute(
        "SELECT session_id, n, format, checksum, payload, links FROM event LEFT JOIN session ON session.id = session"
    )
    return (
        not holes
        and all(
            crc == checksum(session_id, n, payload, links, written_as=written_as)
            for session_id, n, written_as, crc, payload, links in records
        )
        and all(digest == digest_of(data) for digest, data in copy.execute("SELECT digest, data FROM blob"))
        and None not in kv_rows(copy)
        and None not in leaf_rows(copy)
    )


def restore_store(
    home: Path, backup: Path, *, connect: Connect = connect, progress: Progress = ignore_progress
) -> RestoreReport:
    """Replace the store of a home by a copy of a backup; the home may be new.

    The backup is copied and checked in full before anything is changed, and stays as it is. The current store is not
    removed but set aside, together with its log. A crash meanwhile leaves the old store, the new one, or none; in the
    last case a service refuses to start: then restore again.

    Raises:
        StoreInUse: Somebody is using the home.
        StoreUnusable: The backup is missing, or another or a newer program wrote it; or the home cannot be used.
        StoreDamaged: The backup is damaged.
    """
    backup = backup.absolute()
    if not backup.is_file():
        raise StoreUnusable(f"there is no backup {str(backup)!r}")
    home = prepare_home(home)
    with ExitStack() as undo:
        undo.callback(HomeLock.acquire(home).release)
        work = clear_work(home)
        undo.callback(shutil.rmtree, work, ignore_errors=True)
        progress("copying the backup")
        _copy_backup(backup, work)
        try:
            with closing(open_for_writing(work, connect)) as db:  # brings an older one up to date
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except (StoreDamaged, StoreUnusable) as error:
            raise _build_restore_error(backup, error) from error
        checked = verify_store(work, connect=connect, progress=progress, lock_held=True)
        _refuse_damaged(backup, checked)
        size = store_file(work).stat().st_size
        progress("swapping it in")
        aside = swap_store_in(home, time_stamp(home), keep_old=True, old_is="replaced")
    return RestoreReport(sessions=checked.sessions, bytes=size, set_aside=aside)


def _copy_backup(backup: Path, work: Path) -> None:
    """Copy a backup into a folder, including the content of a log beside it."""
    os.close(private_open(store_file(work), os.O_RDWR | os.O_CREAT | os.O_EXCL))
    # Without a log, no process is writing to it; then SQLite does not need write access there and leaves no files.
    alone = "" if _size(wal_path(backup)) else "&immutable=1"
    try:
        with (
            closing(sqlite3.connect(f"file:{quote(str(backup))}?mode=ro{alone}", uri=True)) as source,
            closing(sqlite3.connect(store_file(work), isolation_level=None)) as copy,
        ):
            source.backup(copy)
            found = version_of(copy)
    except sqlite3.OperationalError as error:
        raise StoreUnusable(f"the backup {str(backup)!r} cannot be copied: {error}; nothing was changed") from error
    except UNREADABLE as error:
        raise StoreDamaged(
            f"{str(backup)!r} is not a backup, or too damaged to be one: {error}; nothing was changed"
        ) from error
    except (StoreDamaged, StoreUnusable) as error:
        raise _build_restore_error(backup, error) from error
    if not found:
        raise StoreUnusable(f"{str(backup)!r} is not a backup: it is empty; nothing was changed")
    if found > VERSION:
        raise StoreUnusable(
            f"the backup {str(backup)!r} has format {found}, and this program reads up to {VERSION}: it was written by "
            "a newer session-core; update this one. Nothing was changed"
        )


def _build_restore_error(backup: Path, error: StoreDamaged | StoreUnusable) -> StoreDamaged | StoreUnusable:
    kind = StoreDamaged if isinstance(error, StoreDamaged) else StoreUnusable
    return kind(f"{str(backup)!r} cannot be restored: {strip_advice(error.message)}; nothing was changed")


def _refuse_damaged(backup: Path, checked: VerifyReport) -> None:
    errors = [finding for finding in checked.findings if finding.severity == "error"]
    if errors:
        first = errors[0]
        where = "" if first.session_id is None else f"session {first.session_id}: "
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise StoreDamaged(
            f"the backup {str(backup)!r} is damaged: {where}{first.what}{more}; nothing was changed. To save what can "
            f"be read of it, copy it into a new folder as {STORE_FILE} and run `session-core store rebuild` there"
        )


def store_statistics(home: Path, *, connect: Connect = connect) -> StoreStatistics:
    """Count what the store of a home holds; a service may be using it meanwhile.

    Raises:
        StoreUnusable: There is no store, or it cannot be used.
        StoreDamaged: It cannot be read.
    """
    with closing(open_for_reading(home, connect)) as db:
        try:
            db.execute("BEGIN")  # a consistent view
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
            leaves, leaf_bytes = (
                db.execute("SELECT count(*), coalesce(sum(length(data)), 0) FROM leaf").fetchone()
                if has_table(db, "leaf")
                else (0, 0)
            )
            largest = db.execute(
                "SELECT session_id, name, bytes FROM session ORDER BY bytes DESC, session_id LIMIT ?", (LARGEST_SHOWN,)
            ).fetchall()
        except sqlite3.DatabaseError as error:
            raise store_error(error) from error
    return StoreStatistics(
        sessions=sessions,
        archived=archived,
        running=running,
        events=events,
        messages=messages,
        blobs=blobs,
        blob_bytes=blob_bytes,
        file_bytes=_size(store_file(home)),
        wal_bytes=_size(wal_path(store_file(home))),
        oldest_at=oldest_at,
        newest_at=newest_at,
        largest=tuple(largest),
        leaves=leaves,
        leaf_bytes=leaf_bytes,
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _bytes_on_disk(home: Path) -> int:
    return _size(store_file(home)) + _size(wal_path(store_file(home)))
