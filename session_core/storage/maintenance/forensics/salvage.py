"""Find records in the raw pages of a store file, however damaged the tables around them are. Pure.

Neither the tree of pages nor the list of cells within a page is used: every position that looks like the beginning of a
record of one of our tables is tried, and the record found there has to prove itself. So a flipped bit costs the record
it hits and no other. Reading a record needs only its own header, which gives its length, and for a long record the
chain of its overflow pages.

An event proves itself by its checksum, which covers the session id in its own payload, its number and all its bytes; a
blob, and a leaf of an executor's state, by its digest. Deleted data does not come back: the store overwrites it.
"""

import re
import struct
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import msgspec

from session_core import limits
from session_core.ids import SessionId
from session_core.storage import executor_state
from session_core.storage.records import PARTIAL_FORMAT, DamagedRecord, checksum, decompress_payload, digest_of

Page = Callable[[int], bytes | None]
"""Returns a page by its number, counted from 1; None if there is none."""


@attrs.frozen(kw_only=True)
class EventRow:
    """A row of `event` that has proven itself."""

    session_id: SessionId
    n: int
    written_as: int
    payload: bytes
    links: bytes | None = None


@attrs.frozen(kw_only=True)
class PassingRow:
    """A row of `passing` that has proven itself."""

    session_id: SessionId
    about: str
    payload: bytes


@attrs.frozen(kw_only=True)
class BlobRow:
    """A row of `blob` that has proven itself."""

    digest: bytes
    data: bytes


@attrs.frozen(kw_only=True)
class LeafRow:
    """A row of `leaf` that has proven itself; which session it was written for does not matter."""

    digest: bytes
    data: bytes


@attrs.frozen(kw_only=True)
class ListedRow:
    """A row of `session`. It proves nothing, and only says how many records a session should have."""

    session_id: SessionId
    last_n: int


Row = EventRow | PassingRow | BlobRow | LeafRow | ListedRow


# --- proof ------------------------------------------------------------------------------------------------------------


class _Owner(msgspec.Struct):
    session_id: str


_owner = msgspec.json.Decoder(_Owner).decode


def parse_owner(payload: object) -> SessionId | None:
    """Return the session that an encoded event names as its own."""
    if not isinstance(payload, bytes):
        return None
    try:
        return SessionId(_owner(decompress_payload(payload)).session_id)
    except (msgspec.MsgspecError, ValueError, DamagedRecord):
        return None


def verify_event_row(n: Any, written_as: Any, crc: Any, payload: Any, links: Any) -> EventRow | None:
    """Return the row made of these columns if it is as it was written, for the session it names."""
    owner = parse_owner(payload)
    if owner is None or not (links is None or isinstance(links, bytes)):
        return None
    if not (isinstance(n, int) and isinstance(written_as, int) and n > 0):
        return None
    if checksum(owner, n, payload, links, written_as=written_as) != crc:
        return None
    return EventRow(session_id=owner, n=n, written_as=written_as, payload=payload, links=links)


def verify_passing_row(about: Any, crc: Any, payload: Any) -> PassingRow | None:
    """Return the row made of these columns if it is as it was written, for the session it names."""
    owner = parse_owner(payload)
    if owner is None or not isinstance(about, str) or checksum(owner, 0, payload, written_as=PARTIAL_FORMAT) != crc:
        return None
    return PassingRow(session_id=owner, about=about, payload=payload)


def verify_blob_row(digest: Any, data: Any) -> BlobRow | None:
    """Return the row made of these columns if the digest is that of the data."""
    if not (isinstance(digest, bytes) and isinstance(data, bytes)) or digest_of(data) != digest:
        return None
    return BlobRow(digest=digest, data=data)


def verify_leaf_row(digest: Any, data: Any) -> LeafRow | None:
    """Return the row made of these columns if the digest is that of the data."""
    if not (isinstance(digest, bytes) and isinstance(data, bytes)) or executor_state.digest_of(data) != digest:
        return None
    return LeafRow(digest=digest, data=data)


# --- carving ----------------------------------------------------------------------------------------------------------

# Where a record may begin: the length of its header, then the types of its columns. The first column of `event`,
# `passing` and `session` is the row number, which SQLite leaves out (type 0); a digest of 32 bytes has type 76.
_BEGINNING = re.compile(
    rb"(?=[\x06-\x12]\x00[\x01-\x06\x08\x09]|[\x03-\x08]\x4c|[\x13-\x28]\x00[\x0d-\xff]"
    rb"|[\x04-\x08][\x01-\x06\x08\x09]\x4c)"
)
_LISTED_AFTER_LAST_N = 15  # columns
_INTEGERS = frozenset({1, 2, 3, 4, 5, 6, 8, 9})
_INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}


def carve_records(page: bytes, page_at: Page, usable: int) -> Iterator[Row]:
    """Find the records that begin in a page; `usable` is the size of a page without what is reserved at its end."""
    for match in _BEGINNING.finditer(page):
        start = match.start()
        types = _read_column_types(page, start)
        make = _choose_row_builder(types)
        if make is None or types is None:
            continue
        # `leaf` has no row numbers: it is kept like an index, where less of a record lies in its own page.
        most = (usable - 12) * 64 // 255 - 23 if types[0] in _INTEGERS else usable - 35
        record = _assemble_record(page, start, page[start] + sum(map(_column_size, types)), page_at, usable, most=most)
        if record is not None and (row := make(_decode_columns(record, page[start], types))) is not None:
            yield row


def _read_column_types(page: bytes, start: int) -> list[int] | None:
    """Read the header of a record: one type per column."""
    end = start + page[start]
    place, types = start + 1, []
    while place < end:
        value = 0
        for _ in range(5):  # no column of ours is longer than five bytes can say
            if place >= min(end, len(page)):
                return None
            byte = page[place]
            place += 1
            value = value << 7 | byte & 0x7F
            if byte < 0x80:
                break
        else:
            return None
        types.append(value)
    return types


def _choose_row_builder(types: list[int] | None) -> Callable[[list[Any]], Row | None] | None:
    """Choose by the types of its columns which table a record may belong to."""
    match types:
        case [0, session, n, written_as, crc, payload, links] if (
            _INTEGERS.issuperset((session, n, written_as, crc))
            and _is_blob_type(payload)
            and (links == 0 or _is_blob_type(links))
        ):
            return lambda values: verify_event_row(*values[2:])
        case [0, session, about, crc, payload] if (
            _INTEGERS.issuperset((session, crc)) and about >= 13 and about % 2 and _is_blob_type(payload)
        ):
            return lambda values: verify_passing_row(*values[2:])
        case [76, data] if _is_blob_type(data):
            return lambda values: verify_blob_row(*values)
        case [session, 76, data] if session in _INTEGERS and _is_blob_type(data):
            return lambda values: verify_leaf_row(*values[1:])
        case [0, name, last_n, *others] if len(others) == _LISTED_AFTER_LAST_N and name % 2 and last_n in _INTEGERS:
            return lambda values: _build_listed_row(*values[1:3])
        case _:
            return None


def _build_listed_row(session_id: Any, last_n: Any) -> ListedRow | None:
    if not isinstance(session_id, str) or not session_id.isprintable() or not isinstance(last_n, int):
        return None
    return ListedRow(session_id=SessionId(session_id), last_n=last_n)


def _is_blob_type(kind: int) -> bool:
    return kind >= 12 and kind % 2 == 0


def _column_size(kind: int) -> int:
    return (kind - 12) // 2 if kind >= 12 else _INTEGER_BYTES.get(kind, 0)


def _assemble_record(page: bytes, start: int, size: int, page_at: Page, usable: int, *, most: int) -> bytes | None:
    """Assemble a record from its page, which holds at most `most` bytes of it, and its overflow pages."""
    if size > limits.MAX_RECORD_BYTES:
        return None
    local = _local_size(size, usable, most)
    if local == size:
        record = page[start : start + size]
        return record if len(record) == size else None
    after = start + local
    if after + 4 > min(usable, len(page)):
        return None
    pieces = [page[start:after]]
    missing = size - local
    (number,) = struct.unpack_from(">I", page, after)
    while missing > 0:
        overflow = page_at(number) if number else None
        if overflow is None:
            return None
        piece = overflow[4 : min(usable, 4 + missing)]
        pieces.append(piece)
        missing -= len(piece)
        (number,) = struct.unpack_from(">I", overflow)
    return b"".join(pieces)


def _local_size(size: int, usable: int, most: int) -> int:
    """Return how much of a record is in its own page, by the rules of the file format."""
    if size <= most:
        return size
    least = (usable - 12) * 32 // 255 - 23
    local = least + (size - least) % (usable - 4)
    return local if local <= most else least


def _decode_columns(record: bytes, place: int, types: list[int]) -> list[Any]:
    values: list[Any] = []
    for kind in types:
        raw = record[place : place + _column_size(kind)]
        place += len(raw)
        if kind >= 12:
            values.append(raw if kind % 2 == 0 else raw.decode("utf-8", "surrogateescape"))
        elif kind in {8, 9}:
            values.append(kind - 8)
        else:
            values.append(int.from_bytes(raw, "big", signed=True) if kind else None)
    return values
