"""The large parts of an executor's state in exports and imports.

A journal names such leaves but does not contain them, so they are separate lines with the data in base64:
`{"type":"leaf","digest":...,"data":...}`. Only leaves of the newest states are exported. A missing one is left out: the
session reports it when it next runs code.
"""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import msgspec

from session_core import limits
from session_core.errors import ProtocolError, StoreDamaged
from session_core.ids import SessionId
from session_core.storage.base import StoreReader
from session_core.storage.executor_state import digest_of, retained_digests
from session_core.vocabulary.events import SessionEvent
from session_core.wire import strict_json

LEAF_LINE: Final = b'{"type":"leaf",'
"""The beginning of such a line."""

_encode = msgspec.json.Encoder().encode


class LeafExporter:
    """The leaves that the newest states of an exported journal name."""

    def __init__(self) -> None:
        self._named: frozenset[str] = frozenset()
        self._found: Mapping[str, bytes] = {}
        self._read = 0

    def note(self, event: SessionEvent) -> None:
        """Follow the journal."""
        if (staying := retained_digests(event.event)) is not None:
            self._named = staying

    async def needs_more(self, reader: StoreReader, session_id: SessionId, count: int) -> bool:
        """Read the leaves after the journal; if some are gone, the journal has a later state further on."""
        news, self._read = count > self._read, count
        self._found = await reader.load_leaves(session_id, self._named) if self._named else {}
        return news and len(self._found) < len(self._named)

    def lines(self, session_id: SessionId) -> Iterator[bytes]:
        """Yield them line by line.

        Raises:
            StoreDamaged: One of them is not what was stored.
        """
        for digest, data in sorted(self._found.items()):
            if digest_of(data).hex() != digest:
                raise StoreDamaged(
                    f"session {session_id} is damaged: a part of its saved code state is not what was "
                    "written; `session-core store rebuild` saves what can still be read",
                    field="session_id",
                )
            yield _build_leaf_line(digest, data)


def _build_leaf_line(digest: str, data: bytes) -> bytes:
    return _encode({"type": "leaf", "digest": digest, "data": b64encode(data).decode()}) + b"\n"


class InvalidLeaf(Exception):
    """A line is not a leaf of the session; the message says why."""


def parse_leaf_line(content: bytes, named: Collection[str]) -> tuple[str, bytes]:
    """Return the digest and the data of a leaf from its line, which has no line break.

    Raises:
        InvalidLeaf: It is not a leaf, or none of these.
    """
    try:
        plain: Any = strict_json.parse(content, max_bytes=limits.MAX_RECORD_BYTES)
        data = b64decode(plain["data"], validate=True)
    except (ProtocolError, LookupError, TypeError, ValueError, binascii.Error) as error:
        raise InvalidLeaf("this is not a part of the saved code state") from error
    digest = digest_of(data).hex()
    if _build_leaf_line(digest, data) != content + b"\n":
        raise InvalidLeaf("this part of the saved code state does not match its digest")
    if len(data) > limits.MAX_LEAF_BYTES:
        raise InvalidLeaf(f"a part of the saved code state is longer than {limits.MAX_LEAF_BYTES} bytes")
    if digest not in named:
        raise InvalidLeaf("this part of the saved code state is not used, or came before")
    return digest, data
