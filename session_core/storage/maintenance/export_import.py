"""Export a session to a file, to archive it or move it to another home, and import it: the whole journal is preserved.

An export is text, one JSON document per line:

    {"type":"session_core_export","version":2,"format":1,"session_id":...,"name":...,"exported_at":...}
    one line for each event of the journal, as it goes over the wire
    if an answer is being written: its text so far, as events that no journal holds (`part_started`, `part_delta`)
    {"type":"leaf","digest":...,"data":...} for each leaf of its executor's state (since version 2)
    {"type":"end","events":...,"digest":...}

Rules:
1. The digest covers all lines before the last. So a file that was truncated, edited, reordered or assembled from two is
   detected, at the latest by its last line. It protects against accidents, not against somebody who computes a new
   digest.
2. An import reads and checks everything before it opens the store, and then hands all events over in one step: they
   become durable in one transaction or not at all. Hence the limit, because all of it is in memory for a moment.
3. An export includes the saved text of an unfinished answer, which becomes an interrupted message elsewhere.
4. An import takes what was said and done from the file, and what the session may do from its new home: see
   `import_rules`. Without settings of the home, all of the file holds, and its wake-ups will start turns: that is for
   files of one's own.
"""

from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from hashlib import blake2b
from typing import Any, Final, NoReturn

import attrs
import msgspec
import trio

from session_core import limits
from session_core.errors import (
    Conflict,
    InvalidInput,
    NotFound,
    ProtocolError,
    StorageFailed,
    StoreDamaged,
    StoreUnusable,
)
from session_core.ids import (
    Cursor,
    SessionId,
    is_session_id,
    new_epoch,
    new_session_id,
    now_ms,
)
from session_core.session.session_list import SessionListState
from session_core.session.state import SessionState
from session_core.storage.base import OpenedStore, SessionStore, StoreReader
from session_core.storage.executor_state import all_leaf_digests
from session_core.storage.maintenance.import_rules import (
    EVENTS,
    MAX_OPEN,
    CannotSettle,
    WakeupIdRenamer,
    has_too_much_open,
    list_left_out,
    remove_session_links,
    settle_session,
)
from session_core.storage.maintenance.leaf_lines import LEAF_LINE, InvalidLeaf, LeafExporter, parse_leaf_line
from session_core.storage.maintenance.partial_answers import UnfinishedAnswer, wait_for_text
from session_core.storage.partial_text import unfinished_message_id
from session_core.storage.records import FORMAT, DamagedRecord, from_record
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import TRANSIENT_EVENTS, SessionEvent
from session_core.vocabulary.sessions import Settings
from session_core.vocabulary.snapshots import SessionSnapshot, SessionSummary
from session_core.wire import strict_json
from session_core.wire.codec import encode, encode_event

EXPORT_VERSION: Final = 2
LEAVES_SINCE: Final = 2
MAX_IMPORT_BYTES: Final = 256 * 1024 * 1024
"""The largest session that can be imported. All its events are in memory until they are durable, where they take two to
six times as much."""

_KIND: Final = "session_core_export"
_END: Final = b'{"type":"end",'
_HEADER_FIELDS: Final = {"type": str, "version": int, "format": int, "session_id": str, "name": str, "exported_at": int}
_encode = msgspec.json.Encoder().encode


@attrs.frozen(kw_only=True)
class ImportReport:
    """What was imported, and under which id.

    Attributes:
        events: How many events of its journal the file had.
        messages: How many messages the session has now.
        left_out: What the file says and this home does not follow, one line each; they quote the file.
    """

    session_id: SessionId
    events: int
    messages: int
    left_out: tuple[str, ...] = ()


# --- out --------------------------------------------------------------------------------------------------------------


async def export_session(reader: StoreReader, session_id: SessionId) -> AsyncGenerator[bytes]:
    """Yield a session line by line, each with its line break.

    The session may be running meanwhile: the export ends at the end of the journal at that time.

    Raises:
        NotFound: There is no session of this id, or it was deleted meanwhile.
        StoreDamaged: Part of it cannot be read; the lines so far lack the last one and are not an export.
    """
    summary = await _find_summary(reader, session_id)
    digest = blake2b(digest_size=32)
    header = {
        "type": _KIND,
        "version": EXPORT_VERSION,
        "format": FORMAT,
        "session_id": session_id,
        "name": summary.name[: limits.MAX_NAME_CHARS],
        "exported_at": now_ms(),
    }
    line = _encode(header) + b"\n"
    digest.update(line)
    yield line
    count, unfinished, leaves = 0, UnfinishedAnswer(), LeafExporter()
    while await unfinished.needs_more(reader, session_id, count) or await leaves.needs_more(reader, session_id, count):
        place = 0
        async for events in reader.journal(session_id):
            for event in events[max(0, count - place) :]:
                line = encode_event(event) + b"\n"
                digest.update(line)
                count += 1
                unfinished.note(event)
                leaves.note(event)
                yield line
            place += len(events)
    for event in unfinished.events():
        line = encode_event(event) + b"\n"
        digest.update(line)
        count += 1
        yield line
    for line in leaves.lines(session_id):
        digest.update(line)
        yield line
    await _find_summary(reader, session_id)  # a deleted journal looks just like one that ends
    if not count:
        raise StoreDamaged(
            f"session {session_id} is in the list, but has no records; try `session-core store rebuild`",
            field="session_id",
        )
    yield _build_end_line(count, digest.hexdigest())


async def _find_summary(reader: StoreReader, session_id: SessionId) -> SessionSummary:
    for summary in await reader.list_sessions():
        if summary.session_id == session_id:
            return summary
    raise NotFound(f"there is no session {session_id!r}", field="session_id")


def _build_end_line(events: int, digest: str) -> bytes:
    return _encode({"type": "end", "events": events, "digest": digest}) + b"\n"


# --- in ---------------------------------------------------------------------------------------------------------------


async def import_session(
    lines: AsyncIterable[bytes] | Iterable[bytes],
    store: SessionStore,
    *,
    settings: Settings | None,
    as_new: bool = False,
) -> ImportReport:
    """Import an exported session into a store that nobody has open.

    Args:
        lines: The lines of the file; line breaks are optional.
        store: The target; it is opened once the whole file has been checked.
        settings: Those of a new session here. The imported one gets them, with the stricter permission mode and sandbox
            of both, and nothing that could act by itself. None lets everything in the file hold, for one's own files.
        as_new: Give the session a new id, so it can exist next to its original.

    Cancellation: nothing is imported, or all of it if the last step has begun.

    Raises:
        InvalidInput: The lines are not a complete, unchanged export, or too many; the message names the line.
        StoreUnusable: The export was written by a newer version; or the place cannot be used.
        Conflict: The store has a session of this id.
        StoreInUse: Another process writes to the store.
        StorageFailed: It could not be saved; nothing was imported.
    """
    intake = _ImportReader(as_new=as_new, settings=settings)
    if isinstance(lines, AsyncIterable):
        async for line in lines:
            intake.take(line)
    else:
        for line in lines:
            intake.take(line)
            await trio.lowlevel.checkpoint()
    intake.check_end()
    found = len(intake.events)
    left_out = intake.settle(settings) if settings is not None else ()
    intake.check_snapshot()
    async with store.open() as opened:
        await _save_session(intake, store, opened)
    state = intake.state
    return ImportReport(
        session_id=state.session_id,
        events=found,
        messages=state.earlier + len(state.messages),
        left_out=left_out,
    )


async def _save_session(intake: "_ImportReader", store: SessionStore, opened: OpenedStore) -> None:
    session_id = intake.state.session_id
    if any(summary.session_id == session_id for summary in opened.summaries):
        raise Conflict(
            f"there is a session {session_id} already; delete it first, or import this one as a new session",
            field="session_id",
        )
    live = _ImportedState(intake, opened, seq=store.durable_seq + len(intake.events))
    failure: StorageFailed | None = None
    for event in (*intake.events, *intake.unfinished):  # no checkpoint in here: this makes it one transaction
        store.append(event)
    if intake.leaves:
        store.keep_leaves(session_id, intake.leaves)  # last: earlier states would drop the leaves of later ones
    if intake.unfinished:  # a store buffers such text for a moment before it writes it
        await trio.sleep(limits.PARTIAL_TEXT_EVERY_MS / 1000)
    async with trio.open_nursery() as nursery:
        await nursery.start(store.run, live)
        try:
            await store.wait_durable(live.seq)
            if intake.unfinished:
                await wait_for_text(intake.state, store)
        except StorageFailed as error:
            failure = error
        nursery.cancel_scope.cancel(reason="the import is over")
    if failure is not None:
        raise failure


class _ImportedState:
    """What the store asks a service for: here the state after the last event, because that is when it asks."""

    def __init__(self, intake: "_ImportReader", opened: OpenedStore, *, seq: int) -> None:
        self.seq = seq
        self._state = intake.state
        self._summaries = {summary.session_id: summary for summary in opened.summaries} | intake.session_list.sessions
        self._epoch = new_epoch()

    def summary_of(self, session_id: SessionId) -> SessionSummary | None:
        """Return a session's line in the list."""
        return self._summaries.get(session_id)

    def state_of(self, session_id: SessionId) -> SessionSnapshot | None:
        """Return the state of the imported session."""
        if session_id != self._state.session_id:
            return None
        return self._state.snapshot(Cursor(epoch=self._epoch, seq=self.seq))

    def storage_failed(self, failure: StorageFailed) -> None:
        """Do nothing: waiting tasks get the error anyway."""


class _ImportReader:
    """Checks an export line by line and holds its events and their fold until they can be saved."""

    def __init__(self, *, as_new: bool, settings: Settings | None) -> None:
        self.events: list[SessionEvent] = []
        self.unfinished: list[SessionEvent] = []
        """Text of an unfinished answer."""
        self.leaves: dict[str, bytes] = {}
        """The leaves of its executor's state, by digest."""
        self.session_list = SessionListState()
        self.state = SessionState(session_id=SessionId(""))
        self._renamed = WakeupIdRenamer() if as_new else None
        self._is_foreign = settings is not None
        self._exported_id = SessionId("")
        self._created: ev.SessionCreated | None = None
        self._version, self._format = EXPORT_VERSION, FORMAT
        self._digest = blake2b(digest_size=32)
        self._line = 0
        self._size = 0
        self._ended = False

    def take(self, line: bytes) -> None:
        """Check the next line."""
        self._line += 1
        content = line.removesuffix(b"\n")
        if self._ended:
            self._refuse("the export ended with the line before, but more follows")
        if content.startswith(_END) and self._line > 1:
            self._take_end(content)
            return
        if self._line == 1:
            self._take_header(content)
        elif content.startswith(LEAF_LINE) and self._version >= LEAVES_SINCE:
            self._take_leaf(content)
        else:
            self._take_event(content)
        self._digest.update(content + b"\n")

    def check_end(self) -> None:
        """Check that the last line has come."""
        if self._line == 0:
            raise InvalidInput("there is nothing to import: the file is empty", field="lines")
        if not self._ended:
            self._refuse("the export is cut off here: its last line is missing")

    def _take_header(self, content: bytes) -> None:
        try:
            header = strict_json.parse(content, max_bytes=limits.MAX_NAME_CHARS * 64)
        except ProtocolError:
            header = None
        if not isinstance(header, dict) or header.get("type") != _KIND:
            self._refuse("this is not the beginning of an exported session")
        for field, reads_up_to in (("version", EXPORT_VERSION), ("format", FORMAT)):
            found = header.get(field)
            if isinstance(found, int) and found > reads_up_to:
                raise StoreUnusable(
                    f"the export has {field} {found}, but this program reads up to {reads_up_to}: it was written by a "
                    "newer session-core; update this one"
                )
        for field, kind in _HEADER_FIELDS.items():
            if not _has_type(header.get(field), kind):
                self._refuse(f"the first line does not give the {field}")
        if header["version"] < 1 or header["format"] < 1 or not is_session_id(header["session_id"]):
            self._refuse("the version, the format or the session id is not valid")
        self._exported_id = SessionId(header["session_id"])
        self._version, self._format = header["version"], header["format"]
        self.state = SessionState(session_id=new_session_id() if self._renamed else self._exported_id)

    def _take_leaf(self, content: bytes) -> None:
        try:
            awaited = all_leaf_digests(self.state.executor_points) - self.leaves.keys()
            digest, data = parse_leaf_line(content, awaited)
        except InvalidLeaf as wrong:
            self._refuse(str(wrong))
        self.leaves[digest] = data
        self._count(len(data))

    def _take_event(self, content: bytes) -> None:
        if not content.startswith(b"{"):  # a store may use another form, an export may not
            self._refuse("this is not an event")
        try:
            event = from_record(content, None, lambda _: None, written_as=self._format)  # its texts are in place
        except DamagedRecord as damage:
            self._refuse(f"this is not an event: {damage}")
        self._check(event)
        if isinstance(event.event, ev.SessionCreated):
            self._created = event.event
        if self._renamed is not None:
            event = attrs.evolve(event, session_id=self.state.session_id, event=self._renamed.rename_ids(event.event))
        if self._is_foreign:  # the clients that it names are not those of this home
            event = attrs.evolve(event, event=remove_session_links(event.event), by=None)
        self._add(event)
        if has_too_much_open(self.state):
            self._refuse(f"more than {MAX_OPEN:,} messages, requests, wake-ups or tool calls are open here")

    def _add(self, event: SessionEvent) -> None:
        size = len(encode_event(event))  # encode now, so handing over is quick
        if size > limits.MAX_RECORD_BYTES:
            self._refuse(f"the event is longer than {limits.MAX_RECORD_BYTES} bytes")
        self._count(size)
        (self.unfinished if isinstance(event.event, TRANSIENT_EVENTS) else self.events).append(event)
        self.state.apply(event)
        self.session_list.apply(event)

    def settle(self, settings: Settings) -> tuple[str, ...]:
        """Bring the session to rest under the settings of this home; return what of the file does not hold here."""
        cursor = Cursor(epoch=new_epoch(), seq=0)
        before, state = self.state.snapshot(cursor), self.state
        self.unfinished.clear()  # the interrupted message will have this text
        try:
            for event in settle_session(state, self.session_list, settings, seq=self.events[-1].seq):
                self._add(event)
        except CannotSettle as wrong:
            self._refuse(str(wrong))
        assert self._created is not None
        return list_left_out(self._created, before, state.snapshot(cursor))

    def check_snapshot(self) -> None:
        """Refuse a session that another program has filled so much that no client could read it."""
        if len(encode(self.state.snapshot(Cursor(epoch=new_epoch(), seq=0)))) > limits.MAX_SNAPSHOT_BYTES:
            self._refuse(f"what the session holds is longer than {limits.MAX_SNAPSHOT_BYTES} bytes")

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > MAX_IMPORT_BYTES:
            self._refuse(f"the session is larger than {MAX_IMPORT_BYTES // 1024**2} MB, the limit of an import")

    def _check(self, event: SessionEvent) -> None:
        if event.session_id != self._exported_id:
            self._refuse(f"the event is not of session {self._exported_id!r}")
        if max(event.seq, event.sseq) > limits.MAX_INTEGER // 2:
            self._refuse("the event has a number that no service reaches")
        if event.sseq <= self.state.sseq:
            self._refuse(f"the event has number {event.sseq}, but the one before has {self.state.sseq}")
        if isinstance(event.event, ev.SessionCreated) != (not self.events):
            self._refuse("a session begins with its creation, and has no other")
        if EVENTS[type(event.event)] == "refused":
            self._refuse("an export never contains such an event")
        if self.leaves:
            self._refuse("the saved code state comes last, but an event follows")
        if isinstance(event.event, TRANSIENT_EVENTS):
            partial = self.state.partial
            if partial is None or unfinished_message_id(event.event) != partial.message_id:
                self._refuse("this is text of an answer that is not being written")
        elif self.unfinished:
            self._refuse("the text of an unfinished answer comes last, but an event follows")

    def _take_end(self, content: bytes) -> None:
        if not self.events:
            self._refuse("the export ends here and has no events")
        if content + b"\n" != _build_end_line(self._events_so_far, self._digest.hexdigest()):
            self._refuse(self._describe_wrong_end(content))
        self._ended = True

    def _describe_wrong_end(self, content: bytes) -> str:
        try:
            said: Any = strict_json.parse(content)["events"]
        except (ProtocolError, LookupError):
            return "the last line of the export is damaged"
        if _has_type(said, int) and said != self._events_so_far:
            return f"the export should have {said} events, but {self._events_so_far} came before this line"
        return "the export is not what was written: something in it was changed (its digest differs)"

    @property
    def _events_so_far(self) -> int:
        return len(self.events) + len(self.unfinished)

    def _refuse(self, what: str) -> NoReturn:
        raise InvalidInput(f"line {self._line}: {what}; nothing was imported", field="lines")


def _has_type(value: object, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)
