"""Small values that other programs keep in the store, each owner under its own keys. Pure, except for SQL.

No event repeats them, so they are their own source of truth: each row has a checksum, and a rebuild carries them over.
`limits` bounds what an owner may store; a value that does not fit is refused, and existing values stay.
"""

import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import attrs
import msgspec

from session_core import limits
from session_core.errors import InvalidInput, StoreDamaged
from session_core.storage.rows import has_table
from session_core.wire import strict_json
from session_core.wire.error_text import quote_text

KV_TABLE = """
CREATE TABLE kv (
    id INTEGER PRIMARY KEY,
    owner TEXT NOT NULL,
    key TEXT NOT NULL,
    value BLOB NOT NULL,
    checksum INTEGER NOT NULL,
    UNIQUE (owner, key)
);
"""

_encode = msgspec.json.Encoder().encode


@attrs.define(eq=False)
class KvChange:
    """A value to store, or None to delete; `refused` is set if there turns out to be no room for it."""

    owner: str
    key: str
    value: bytes | None
    refused: InvalidInput | None = None


def validate_key(owner: str, key: str) -> tuple[str, str]:
    """Return the owner and the key.

    Raises:
        InvalidInput: One of them is not valid.
    """
    validate_owner(owner)
    if not key:
        raise InvalidInput("the key must not be empty", field="key")
    if len(key) > limits.MAX_KV_KEY_CHARS:
        raise InvalidInput(f"the key is longer than {limits.MAX_KV_KEY_CHARS} characters", field="key")
    if not _is_storable_text(key):
        raise InvalidInput("the key contains a NUL character or an unpaired surrogate", field="key")
    return owner, key


def validate_owner(owner: str) -> str:
    """Return the owner.

    Raises:
        InvalidInput: The name is not valid.
    """
    if not owner or len(owner) > limits.MAX_NAME_CHARS or not _is_storable_text(owner):
        raise InvalidInput("the owner of a value needs a name", field="owner")
    return owner


def _is_storable_text(text: str) -> bool:
    return "\0" not in text and strict_json.is_encodable(text)


def encode_value(value: Any) -> bytes:
    """Encode a value.

    Raises:
        InvalidInput: It is not plain JSON, or too large.
    """
    raw: bytes | None = None
    with suppress(TypeError, ValueError, OverflowError, RecursionError):
        raw = _encode(value)  # first, because checking a large value would take long
    if raw is not None and len(raw) > limits.MAX_KV_VALUE_BYTES:
        raise InvalidInput(
            f"the value has {len(raw):,} bytes; the limit is {limits.MAX_KV_VALUE_BYTES:,}", field="value"
        )
    if fault := strict_json.find_fault(value, limits.MAX_OPEN_JSON_DEPTH):
        raise InvalidInput(f"the value cannot be stored: {fault.reason}", field="value" + fault.path)
    if raw is None:
        raise InvalidInput("the value cannot be stored: it is not plain JSON", field="value")
    return raw


def decode_value(raw: bytes) -> Any:
    """Decode a value; always a new object, so nobody can change the stored one."""
    return msgspec.json.decode(raw)


def quota_error(sizes: Mapping[str, int], key: str, size: int) -> InvalidInput | None:
    """Return why an owner whose values have these sizes may not store another one; None if it may."""
    if key not in sizes and len(sizes) >= limits.MAX_KV_KEYS:
        return InvalidInput(f"there are {len(sizes):,} keys already; delete some first", field="key")
    if sum(sizes.values()) - sizes.get(key, 0) + size > limits.MAX_KV_BYTES:
        return InvalidInput(
            f"all values together would have more than {limits.MAX_KV_BYTES:,} bytes; delete some first",
            field="value",
        )
    return None


def kv_checksum(owner: str, key: str, value: bytes) -> int:
    """Return the checksum stored with a value."""
    return zlib.crc32(value, zlib.crc32(f"{owner}\0{key}\0".encode("utf-8", "surrogateescape")))


# --- rows -------------------------------------------------------------------------------------------------------------


def read_value(db: sqlite3.Connection, owner: str, key: str) -> Any:
    """Return the value of a key; None if there is none.

    Raises:
        StoreDamaged: It is not what was written.
    """
    row = db.execute("SELECT value, checksum FROM kv WHERE owner = ? AND key = ?", (owner, key)).fetchone()
    if row is None:
        return None
    value, crc = row
    if not isinstance(value, bytes) or kv_checksum(owner, key, value) != crc:
        raise StoreDamaged(
            f"the value that {quote_text(owner)} stores under {quote_text(key)} is damaged; "
            "`session-core store verify` "
            "shows details",
            field="key",
        )
    return decode_value(value)


def read_keys(db: sqlite3.Connection, owner: str, prefix: str) -> tuple[str, ...]:
    """Return the keys of an owner that start with `prefix`, in order."""
    rows = db.execute("SELECT key FROM kv WHERE owner = ? ORDER BY key", (owner,))
    return tuple(key for (key,) in rows if isinstance(key, str) and key.startswith(prefix))


def kv_rows(db: sqlite3.Connection) -> Iterator[tuple[str, str, bytes, int] | None]:
    """Yield all rows, bypassing any index, with None in place of a damaged one; a store of format 1 has none."""
    if not has_table(db, "kv"):
        return
    for owner, key, value, crc in db.execute("SELECT owner, key, value, checksum FROM kv NOT INDEXED ORDER BY id"):
        sound = isinstance(owner, str) and isinstance(key, str) and isinstance(value, bytes)
        yield (owner, key, value, crc) if sound and kv_checksum(owner, key, value) == crc else None


class KvWriter:
    """Changes values within the caller's transaction; remembers how much each owner stores."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._sizes: dict[str, dict[str, int]] = {}

    def apply(self, change: KvChange) -> None:
        """Store or delete a value, or note in the change that there is no room."""
        sizes = self._sizes_of(change.owner)
        if change.value is None:
            self._db.execute("DELETE FROM kv WHERE owner = ? AND key = ?", (change.owner, change.key))
            sizes.pop(change.key, None)
            return
        change.refused = quota_error(sizes, change.key, len(change.value))
        if change.refused is None:
            self._db.execute(
                "INSERT OR REPLACE INTO kv (owner, key, value, checksum) VALUES (?, ?, ?, ?)",
                (change.owner, change.key, change.value, kv_checksum(change.owner, change.key, change.value)),
            )
            sizes[change.key] = len(change.value)

    def _sizes_of(self, owner: str) -> dict[str, int]:
        if owner not in self._sizes:
            rows = self._db.execute("SELECT key, length(value) FROM kv WHERE owner = ?", (owner,))
            self._sizes[owner] = {key: size for key, size in rows if isinstance(key, str) and isinstance(size, int)}
        return self._sizes[owner]
