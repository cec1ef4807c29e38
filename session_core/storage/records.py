"""Events as the journal stores them: JSON with a checksum; long strings are stored separately, each once. Pure.

A record is the event in its wire form. Strings of `BLOB_CHARS` and more (images, long tool outputs) are taken out and
replaced by an empty string; `links` says where they belong, as a list of `[path, digest]`. So the same image in ten
sessions is stored once, and reading a journal does not load long strings that nobody needs. A record that is still
long, such as the list of an executor's whole state, is compressed.
"""

import re
import zlib
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final

import attrs
import msgspec

from session_core import limits
from session_core.errors import ProtocolError
from session_core.ids import SessionId
from session_core.vocabulary.events import SessionEvent
from session_core.wire import codec, strict_json

BLOB_CHARS = 16_384
"""Shorter texts are cheaper to store in place: a blob costs a row, an index entry and a lookup."""

FORMAT = 3
"""Counts the changes of the vocabulary after which older records need an entry in `UPCASTS` to be read."""

PARTIAL_FORMAT: Final = 1
"""The format of unfinished answers: their rows do not name one, and no change of the vocabulary has touched them."""

FOLD = 8
"""Incremented when the same events fold to a different state: states saved by an earlier fold are not used."""

COMPRESSED_BYTES: Final = 24_576
"""Shorter records stay readable for people: without their long strings, most are far shorter."""
_COMPRESSED: Final = b"\x78"
"""The first byte of compressed records, with which no JSON document begins."""
_FAST: Final = 1


def _upcast_permission_mode(plain: Any) -> Any:
    """Turn a record of format 1, which called the permission mode a tier, into one of format 2."""
    event = plain["event"]
    if event["type"] == "permission_tier_changed":
        event["type"], event["mode"] = "permission_mode_changed", event.pop("tier")
    settings = event.get("settings")
    if isinstance(settings, dict) and "permission_tier" in settings:
        settings["permission_mode"] = settings.pop("permission_tier")
    return plain


_REFUSALS: Final = tuple(
    (by, re.compile(pattern, re.DOTALL))
    for by, pattern in (
        ("mode", r"This call was not allowed: (this session is read-only.*)\. Do not try it again\."),
        ("rule", r"This call was not allowed: (.*)\. Do not try it again\."),
        ("person", r"This call was not allowed\. Do not try it again unless asked to\.(?: The user says: )?(.*)"),
        ("extension", r"Blocked by an extension: (.*)"),
    )
)
"""What format 2 said to the model about a denied call, for each who denies one."""


def _upcast_refusals(plain: Any) -> Any:
    """Turn a record of format 2, where only the text for the model said why a call was denied, into one of format 3."""
    event = plain["event"]
    parts = [event["result"]] if event["type"] == "tool_call_finished" else []
    if event["type"] == "messages_imported":
        parts = [part for message in event["messages"] for part in message["parts"]]
    for part in parts:
        if isinstance(part, dict) and part.get("status") == "denied":
            matches = ((by, pattern.fullmatch(part["text"])) for by, pattern in _REFUSALS)
            by, said = next(((by, found) for by, found in matches if found is not None), (None, None))
            part["refusal"] = said and {"type": "refusal", "by": by, "reason": said[1][: limits.MAX_ERROR_CHARS]}
    return plain


UPCASTS: Final[dict[int, Callable[[Any], Any]]] = {1: _upcast_permission_mode, 2: _upcast_refusals}
"""For each older format, the function that turns the plain JSON of an event into the next format."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class DamagedRecord(Exception):
    """A record is not what was written; the message gives the evidence."""


@attrs.frozen(kw_only=True)
class Record:
    """One event, ready to be written; `blobs` are the strings that were taken out, by digest."""

    payload: bytes
    links: bytes | None = None
    blobs: tuple[tuple[bytes, bytes], ...] = ()


def to_record(raw: bytes) -> Record:
    """Take the long strings out of an encoded event."""
    if len(raw) < BLOB_CHARS:
        return Record(payload=raw)
    plain = _decode(raw)
    links: list[tuple[list[str | int], str]] = []
    blobs: dict[bytes, bytes] = {}
    _take_out_texts(plain, [], links, blobs)
    if not links:
        return Record(payload=compress_payload(raw))
    return Record(payload=compress_payload(_encode(plain)), links=_encode(links), blobs=tuple(blobs.items()))


def compress_payload(payload: bytes) -> bytes:
    """Return JSON in its stored form: a long document is compressed."""
    return payload if len(payload) < COMPRESSED_BYTES else zlib.compress(payload, _FAST)


def decompress_payload(payload: bytes) -> bytes:
    """Return the JSON of a record, decompressed if necessary.

    Raises:
        DamagedRecord: It cannot be read.
    """
    if not payload.startswith(_COMPRESSED):
        return payload
    reading = zlib.decompressobj()
    try:
        plain = reading.decompress(payload, limits.MAX_RECORD_BYTES)
    except zlib.error as error:
        raise DamagedRecord(f"it cannot be read: {error}") from error
    if not reading.eof or reading.unused_data:
        raise DamagedRecord("it cannot be read: it is not whole, or too long")
    return plain


def _take_out_texts(
    place: Any, path: list[str | int], links: list[tuple[list[str | int], str]], blobs: dict[bytes, bytes]
) -> None:
    items = place.items() if isinstance(place, dict) else enumerate(place)
    for key, value in items:
        if isinstance(value, str):
            if len(value) >= BLOB_CHARS:
                data = value.encode()
                digest = digest_of(data)
                blobs[digest] = data
                links.append(([*path, key], digest.hex()))
                place[key] = ""
        elif isinstance(value, dict | list):
            _take_out_texts(value, [*path, key], links, blobs)


def digest_of(data: bytes) -> bytes:
    """Return the digest that names a blob."""
    return blake2b(data, digest_size=32).digest()


def checksum(
    session_id: SessionId, n: int, payload: bytes, links: bytes | None = None, *, written_as: int = FORMAT
) -> int:
    """Return the checksum of a record, which is valid only for these bytes at this position of this session."""
    crc = zlib.crc32(payload, zlib.crc32(f"{session_id}:{n}:{written_as}:{len(payload)}:".encode()))
    return crc if links is None else zlib.crc32(links, crc)


def from_record(
    payload: bytes, links: bytes | None, fetch: Callable[[bytes], bytes | None], *, written_as: int = FORMAT
) -> SessionEvent:
    """Read an event back; `fetch` returns a blob by its digest, `written_as` is the format of the record.

    Raises:
        DamagedRecord: It cannot be read, or one of its blobs is missing or changed.
    """
    payload = decompress_payload(payload)
    try:
        if links is None and written_as == FORMAT:
            return codec.decode(payload, SessionEvent, max_bytes=limits.MAX_RECORD_BYTES)
        plain: Any = strict_json.parse(payload, max_bytes=limits.MAX_RECORD_BYTES)
        for path, digest in _decode(links) if links is not None else ():
            _put_text_back(plain, path, _load_text(bytes.fromhex(digest), fetch))
        for older in range(written_as, FORMAT):
            plain = UPCASTS[older](plain)
        if written_as > FORMAT:
            raise DamagedRecord("it was written by a newer version of this program")
        return codec.from_json(plain, SessionEvent)
    except ProtocolError as error:
        raise DamagedRecord(f"it cannot be read: {error.message}") from error
    except (msgspec.DecodeError, ValueError, KeyError, IndexError, TypeError) as error:
        raise DamagedRecord(f"its links cannot be read: {error}") from error


def _load_text(digest: bytes, fetch: Callable[[bytes], bytes | None]) -> str:
    data = fetch(digest)
    if data is None:
        raise DamagedRecord(f"the text {digest.hex()[:12]} that belongs to it is missing")
    if digest_of(data) != digest:
        raise DamagedRecord(f"the text {digest.hex()[:12]} that belongs to it is damaged")
    return data.decode()


def _put_text_back(plain: Any, path: list[str | int], text: str) -> None:
    *way, last = path
    for step in way:
        plain = plain[step]
    plain[last] = text
