"""Server-sent events without any I/O: bytes go in, cut anywhere, events come out."""

import codecs
import json
import re
from typing import Any, Final

import attrs

DEFAULT_MAX_EVENT_BYTES: Final = 16 * 1024 * 1024
"""A whole image or a large tool call may come in one event; no model answer needs more."""

_LINE_END: Final = re.compile(rb"\r\n|\r|\n")


@attrs.frozen(kw_only=True)
class SseEvent:
    """One event; `event` is empty when the sender gave it no name."""

    event: str = ""
    data: str = ""

    def json_object(self) -> dict[str, Any] | None:
        """Return the data as a JSON object, or None if it is anything else."""
        try:
            parsed = json.loads(self.data)
        except (ValueError, RecursionError):
            return None
        return parsed if isinstance(parsed, dict) else None


class SseEventTooLarge(Exception):
    """An event is larger than the parser may hold; `events` are the complete events before it."""

    def __init__(self, max_event_bytes: int, events: list[SseEvent]) -> None:
        super().__init__(f"an event is larger than {max_event_bytes} bytes")
        self.events = events


class SseParser:
    """Collects events from pieces of a byte stream.

    An event that the end of the stream cuts off is never returned: half an event must not look like a whole one.
    """

    def __init__(self, max_event_bytes: int = DEFAULT_MAX_EVENT_BYTES) -> None:
        self._max_event_bytes = max_event_bytes
        self._line: list[bytes] = []
        self._line_bytes = 0
        self._event_bytes = 0
        self._after_cr = False
        self._first_line = True
        self._name = ""
        self._data: list[str] = []

    def feed(self, piece: bytes) -> list[SseEvent]:
        """Take the next bytes and return the events they complete.

        Raises:
            SseEventTooLarge: An event exceeds the bound; the parser cannot be used afterwards.
        """
        found: list[SseEvent] = []
        start = 0
        if self._after_cr and piece:
            self._after_cr = False
            start = 1 if piece.startswith(b"\n") else 0
        for end in _LINE_END.finditer(piece, start):
            self._grow(piece[start : end.start()], found)
            start = end.end()
            event = self._end_line()
            if event is not None:
                found.append(event)
        self._after_cr = self._after_cr or (start == len(piece) and piece.endswith(b"\r"))
        self._grow(piece[start:], found)
        return found

    def _grow(self, piece: bytes, found: list[SseEvent]) -> None:
        if piece:
            self._line.append(piece)
            self._line_bytes += len(piece)
        if self._event_bytes + self._line_bytes > self._max_event_bytes:
            raise SseEventTooLarge(self._max_event_bytes, found)

    def _end_line(self) -> SseEvent | None:
        line = b"".join(self._line)
        self._line.clear()
        self._line_bytes = 0
        if self._first_line:
            self._first_line = False
            line = line.removeprefix(codecs.BOM_UTF8)
        if not line:
            return self._end_event()
        field, _, text = line.partition(b":")
        if field == b"data":
            # One extra byte per line: empty lines take memory too.
            self._event_bytes += len(line) + 1
            self._data.append(_decoded(text))
        elif field == b"event":
            self._name = _decoded(text)
        return None

    def _end_event(self) -> SseEvent | None:
        event = SseEvent(event=self._name, data="\n".join(self._data)) if self._data else None
        self._name = ""
        self._data.clear()
        self._event_bytes = 0
        return event


def _decoded(text: bytes) -> str:
    return text.removeprefix(b" ").decode("utf-8", errors="replace")
