"""Rebuild the store file from the records of the old one, and swap it in when it is complete.

1. Everything readable is gathered (`harvest`) and written into a new file, in a separate folder inside the home, by the
   same writer that the service uses, which produces list, states, index and search index as usual.
2. A session that lost records, or may have, is brought to rest as one that is imported: see `import_rules`. What
   restricted it may be among them, such as the end of an import of a stranger's file.
3. The new file is flushed to the disk before it replaces the old one.
4. The old file and its log are moved aside first, and removed at the end only if nothing was wrong with them. In
   between there is no store file, and a mark makes the service refuse to start with an empty store; the next rebuild
   then finishes the swap.
"""

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import attrs

from session_core import limits
from session_core.errors import StoreDamaged, StoreUnusable
from session_core.ids import Cursor, Epoch, SessionId
from session_core.session.session_list import SessionListState
from session_core.session.state import SessionState
from session_core.storage.executor_state import LeafBatch, all_leaf_digests
from session_core.storage.files import Connect, connect, open_for_writing, require_store, store_file
from session_core.storage.home import prepare_home
from session_core.storage.home_lock import HomeLock
from session_core.storage.maintenance.file_swap import SetAsideFile, clear_work, finish_swap, swap_store_in, time_stamp
from session_core.storage.maintenance.findings import LEAVES_MISSING, LOG_CUT_OFF, Progress, ignore_progress
from session_core.storage.maintenance.forensics.harvest import Harvest, harvest_store
from session_core.storage.maintenance.forensics.salvage import EventRow
from session_core.storage.maintenance.import_rules import CannotSettle, settle_session
from session_core.storage.maintenance.verify import verify_store
from session_core.storage.partial_text import unfinished_message_id
from session_core.storage.records import FORMAT, DamagedRecord, decompress_payload, from_record
from session_core.storage.writer import Batch, SessionRemoval, UnfinishedText, Writer, WriteStep
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.sessions import Settings

EVENTS_AT_ONCE = 256
LOST_WITH_LOG = (
    "the end of the write-ahead log: what could still be read in it was kept, but it may have held more, such as the "
    "newest records of a session"
)


@attrs.frozen(kw_only=True)
class RebuildReport:
    """What a rebuild did.

    Attributes:
        sessions: How many sessions the new file has.
        events: How many events.
        repaired: What was repaired; a sentence about one session begins with its name and its id.
        lost: What could not be read any more, and where; in the same form.
        set_aside: A file for people and programs, if needed: the readable events that come after a lost one of their
            session and so no longer have a place in it. One JSON document per line, with `session_id`, `n` (the number
            of the record), `complete` (false if one of its blobs is lost) and `event`. The service never reads it;
            delete it when you do not need it.
        settled: The sessions that lost records, or may have, and were brought to rest therefore, with names and ids.
        damaged: Where the old file was kept, if anything was wrong with it. Its write-ahead log, if it had one, is
            beside it. The service never reads it either; `session-core store restore` accepts it if it is sound.
    """

    sessions: int
    events: int
    repaired: tuple[str, ...]
    lost: tuple[str, ...]
    set_aside: Path | None
    damaged: Path | None = None
    settled: tuple[str, ...] = ()


def rebuild_store(
    home: Path,
    *,
    settings: Settings | None = None,
    connect: Connect = connect,
    progress: Progress = ignore_progress,
) -> RebuildReport:
    """Rebuild the store of a home from its records.

    Args:
        home: The home.
        settings: Those of a new session here. A session that lost records gets them, with the stricter permission mode
            and sandbox of both. None means the defaults of `Settings`, with the session's own model and folder.
        connect: How SQLite is opened.
        progress: Called with what is being done.

    Raises:
        StoreInUse: Somebody is using the home.
        StoreUnusable: There is no store, another or a newer program wrote it, or the home cannot be used.
        StoreDamaged: Not a single record can be read; nothing was changed.
    """
    require_store(home)
    home = prepare_home(home)
    with ExitStack() as undo:
        undo.callback(HomeLock.acquire(home).release)
        finish_swap(home)
        if not store_file(home).exists():
            raise StoreUnusable(
                f"there is no store in {home}; if there should be one, `session-core store restore FILE` puts a backup "
                "in its place"
            )
        work = clear_work(home)
        undo.callback(shutil.rmtree, work, ignore_errors=True)
        return _Rebuild(home=home, work=work, settings=settings, connect=connect, progress=progress).run()


@attrs.define(kw_only=True)
class _Rebuild:
    home: Path
    work: Path
    settings: Settings | None
    connect: Connect
    progress: Progress
    sessions: int = 0
    events: int = 0
    lost: list[str] = attrs.field(factory=list)
    damaged_sessions: set[SessionId] = attrs.field(factory=set)
    names: dict[SessionId, str] = attrs.field(factory=dict)
    settled: list[str] = attrs.field(factory=list)

    def run(self) -> RebuildReport:
        before = verify_store(self.home, connect=self.connect, progress=self.progress, lock_held=True)
        stamp = time_stamp(self.home)
        aside = SetAsideFile(path=self.home / f"set-aside-{stamp}.jsonl")
        harvest = harvest_store(self.home, self.work / "scratch", self.connect, before.findings, self.progress)
        try:
            if harvest.foreign is not None:
                raise StoreUnusable(f"the store in {self.home} was left alone: {harvest.foreign}")
            known = harvest.sessions()
            self.names |= harvest.names
            if harvest.empty and (known or before.findings):
                raise StoreDamaged(
                    f"no record can be read in {store_file(self.home)}; it was left as it is; "
                    "`session-core store restore FILE` restores a backup"
                )
            self.progress(f"writing {len(known)} sessions")
            self._write(harvest, known, aside)
        except BaseException:
            aside.discard()
            raise
        finally:
            harvest.scratch.close()
        (self.work / "scratch").unlink()
        aside.close()
        if any(each.what == LOG_CUT_OFF for each in before.findings):
            self.lost.append(LOST_WITH_LOG)
        damaged = swap_store_in(self.home, stamp, keep_old=bool(before.findings or self.lost))
        return RebuildReport(
            sessions=self.sessions,
            events=self.events,
            repaired=tuple(
                each.what if each.session_id is None else f"{self._session_label(each.session_id)}: {each.what}"
                for each in before.findings
                if each.session_id not in self.damaged_sessions
                and each.what != LOG_CUT_OFF
                and LEAVES_MISSING not in each.what
            ),
            lost=tuple(self.lost),
            set_aside=aside.path if aside.lines else None,
            damaged=damaged,
            settled=tuple(self.settled),
        )

    def _session_label(self, session_id: SessionId) -> str:
        name = self.names.get(session_id)
        return f'"{name}" ({session_id})' if name else f"session {session_id}"

    def _write(self, harvest: Harvest, known: list[tuple[SessionId, int, bool]], aside: SetAsideFile) -> None:
        connection = open_for_writing(self.work, self.connect)
        try:
            connection.execute("PRAGMA synchronous = OFF")  # the whole file is flushed before it is used
            writer = Writer(connection)
            for session_id, expected, is_listed in known:
                self._write_session(writer, harvest, session_id, expected, aside, is_listed=is_listed)
            writer.fill_search_index()
            connection.executemany(
                "INSERT OR IGNORE INTO reply (client_id, key, fingerprint, payload, checksum, session_id)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                harvest.replies,
            )
            connection.executemany("INSERT INTO kv (owner, key, value, checksum) VALUES (?, ?, ?, ?)", harvest.values())
            if harvest.lost_values:
                self.lost.append(f"{harvest.lost_values} values of extensions cannot be read any more")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            connection.close()

    def _write_session(
        self,
        writer: Writer,
        harvest: Harvest,
        session_id: SessionId,
        expected: int,
        aside: SetAsideFile,
        *,
        is_listed: bool,
    ) -> None:
        state, session_list = SessionState(session_id=session_id), SessionListState()
        pending: list[WriteStep] = []

        def add(event: SessionEvent) -> None:
            state.apply(event)
            session_list.apply(event)
            pending.append(event)
            if len(pending) >= EVENTS_AT_ONCE:
                writer.write(Batch(steps=tuple(pending), summaries=session_list.sessions))
                pending.clear()

        n, why, seq = 0, "", 0
        for row in harvest.events(session_id):
            event = None if why else _decode_event_row(row, harvest)
            if event is None or row.n != n + 1 or (row.n == 1 and not isinstance(event.event, ev.SessionCreated)):
                why = why or ("cannot be read" if row.n == n + 1 else "is missing or damaged")
                aside.add(row, _decode_event_row(row, harvest))
                continue
            n, seq = n + 1, event.seq
            add(event)
        if n:
            self.names[session_id] = state.name  # the records decide
        certain = bool(why) or not n or harvest.sound
        if n < expected and not (harvest.complete and n and not why):
            self.damaged_sessions.add(session_id)
            self.lost.append(_format_loss(self._session_label(session_id), n, expected, why, certain=certain))
        elif n == expected and not is_listed and not harvest.complete:
            self.lost.append(_format_loss(self._session_label(session_id), n, n, "", certain=False))
        if not n:
            return
        is_damaged = session_id in self.damaged_sessions
        unfinished = [] if is_damaged and certain else _read_unfinished_texts(harvest, session_id)
        if is_damaged or not (is_listed or harvest.has_all_records(session_id)):
            for _, text in unfinished:
                state.apply(text)  # the interrupted message will have this text
            unfinished = []
            try:
                n += self._settle(state, session_list, seq, add)
            except CannotSettle as wrong:
                # It could act, or never end: nothing of it is kept here, and the old file has it.
                self.lost.append(f"{self._session_label(session_id)}: all of it, as {wrong}")
                writer.write(Batch(steps=[SessionRemoval(session_id)]))
                return
        batch = Batch(steps=[*pending, *self._leaves_of(state, harvest)], summaries=session_list.sessions)
        batch.partial_texts = [text for text, _ in unfinished]
        if n >= limits.STATE_EVERY_EVENTS and not batch.partial_texts:
            batch.states = {session_id: state.snapshot(Cursor(epoch=Epoch("rebuilt"), seq=0))}
        if batch.partial_texts or batch.steps or batch.states:
            writer.write(batch)
        self.sessions += 1
        self.events += n

    def _settle(
        self, state: SessionState, session_list: SessionListState, seq: int, add: Callable[[SessionEvent], None]
    ) -> int:
        own = self.settings or Settings(model=state.settings.model, cwd=state.settings.cwd)
        count = 0
        for count, event in enumerate(settle_session(state, session_list, own, seq=seq), 1):  # noqa: B007
            add(event)
        if count:
            self.settled.append(self._session_label(state.session_id))
        return count

    def _leaves_of(self, state: SessionState, harvest: Harvest) -> list[WriteStep]:
        named = all_leaf_digests(state.executor_points)
        found = harvest.leaves(named)
        if missing := len(named) - len(found):
            advice = "clear its context to restart its code"
            self.lost.append(f"{self._session_label(state.session_id)}: {missing} {LEAVES_MISSING}; {advice}")
        return [LeafBatch(session_id=state.session_id, leaves=found)] if found else []


def _format_loss(session: str, n: int, expected: int, why: str, *, certain: bool) -> str:
    if not certain:
        listed = f" (the damaged list of sessions says {expected})" if expected > n else ""
        return f"{session}: {n} records were kept; whether it had more is unknown{listed}"
    saved_phrase = f"the {n} before it were kept" if n else "nothing of it could be kept"
    return f"{session}: record {n + 1} {why or 'is missing or damaged'}; {saved_phrase}, {expected - n} were lost"


def _decode_event_row(row: EventRow, harvest: Harvest) -> SessionEvent | None:
    try:
        event = from_record(row.payload, row.links, harvest.blob, written_as=row.written_as)
    except DamagedRecord:
        return None
    if row.links is None and row.written_as == FORMAT:
        object.__setattr__(event, "raw", decompress_payload(row.payload))  # written again byte for byte
    return event


def _read_unfinished_texts(harvest: Harvest, session_id: SessionId) -> list[tuple[UnfinishedText, SessionEvent]]:
    texts: list[tuple[UnfinishedText, SessionEvent]] = []
    for row in harvest.unfinished_rows(session_id):
        try:
            event = from_record(row.payload, None, harvest.blob)
        except DamagedRecord:
            continue
        texts.append((UnfinishedText(session_id, unfinished_message_id(event.event) or "", row.payload), event))
    return texts
