"""The large parts of what an executor keeps, on their way out with an export and in with an import.

A journal names them and does not hold them, so they are lines of their own: `{"type":"leaf","digest":...,"data":...}`,
the data in base64. They are those of the newest states. One that is not there any more is left out: the session says so
when it next runs code.
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
from session_core.storage.executor_state import digest_of, staying_after
from session_core.vocabulary.events import SessionEvent
from session_core.wire import strict_json

LEAF_LINE: Final = b'{"type":"leaf",'
"""How such a line begins."""

_encode = msgspec.json.Encoder().encode


class LeavesOut:
    """The leaves that the newest states of an exported journal name."""

    def __init__(self) -> None:
        self._named: frozenset[str] = frozenset()
        self._found: Mapping[str, bytes] = {}
        self._read = 0

    def note(self, event: SessionEvent) -> None:
        """Follow the journal."""
        if (staying := staying_after(event.event)) is not None:
            self._named = staying

    async def needs_more(self, reader: StoreReader, session_id: SessionId, count: int) -> bool:
        """Read the leaves once the journal is read; where some are gone, a later state is further on in it."""
        news, self._read = count > self._read, count
        self._found = await reader.load_leaves(session_id, self._named) if self._named else {}
        return news and len(self._found) < len(self._named)

    def lines(self, session_id: SessionId) -> Iterator[bytes]:
        """Give them line by line.

        Raises:
            StoreDamaged: One of them is not what was kept.
        """
        for digest, data in sorted(self._found.items()):
            if digest_of(data).hex() != digest:
                raise StoreDamaged(
                    f"session {session_id} is damaged: a part of what its code has left behind is not what was "
                    "written; `session-core store rebuild` saves what can still be read",
                    field="session_id",
                )
            yield _line(digest, data)


def _line(digest: str, data: bytes) -> bytes:
    return _encode({"type": "leaf", "digest": digest, "data": b64encode(data).decode()}) + b"\n"


class WrongLeaf(Exception):
    """A line is no leaf of the session; the message says why."""


class LeavesIn:
    """The leaves of an export that is being read."""

    def __init__(self) -> None:
        self.leaves: dict[str, bytes] = {}

    def take(self, content: bytes, named: Collection[str]) -> int:
        """Check a line, without its line break; returns how many bytes the leaf has.

        Raises:
            WrongLeaf: It is none, or not one that the session's states name.
        """
        digest, data = _parsed(content)
        if len(data) > limits.MAX_LEAF_BYTES:
            raise WrongLeaf(f"a part of what code has left behind is longer than {limits.MAX_LEAF_BYTES} bytes")
        if digest not in named or digest in self.leaves:
            raise WrongLeaf("this is a part of what code has left behind, but it belongs nowhere, or came before")
        self.leaves[digest] = data
        return len(data)


def _parsed(content: bytes) -> tuple[str, bytes]:
    try:
        plain: Any = strict_json.parse(content, max_bytes=limits.MAX_RECORD_BYTES)
        data = b64decode(plain["data"], validate=True)
    except (ProtocolError, LookupError, TypeError, ValueError, binascii.Error) as error:
        raise WrongLeaf("this is no part of what code has left behind") from error
    digest = digest_of(data).hex()
    if _line(digest, data) != content + b"\n":
        raise WrongLeaf("this part of what code has left behind is not what its digest says")
    return digest, data
