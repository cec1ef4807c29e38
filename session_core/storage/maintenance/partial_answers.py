"""The text of an unfinished answer in exports and imports.

A journal does not contain it: a store keeps it separately, in pieces that say where they belong, or within a saved
state. An export turns it into events that could follow the last one of the journal.
"""

from collections.abc import Iterator
from typing import Final

import trio

from session_core import limits
from session_core.errors import StorageFailed
from session_core.ids import MessageId, SessionId
from session_core.session.restore import restore
from session_core.session.state import SessionState
from session_core.storage.base import SessionStore, StoreReader
from session_core.storage.partial_text import ended_message_id
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.messages import PartialMessage

PIECE_CHARS: Final = limits.MAX_TEXT_CHARS
SAVED_WITHIN_S: Final = 10.0
"""How long to wait for a store that promises half a second."""


class UnfinishedAnswer:
    """The text of the answer that is unfinished at the end of the journal."""

    def __init__(self) -> None:
        self._last: SessionEvent | None = None
        self._open: MessageId | None = None
        self._partial: PartialMessage | None = None
        self._read = -1

    def note(self, event: SessionEvent) -> None:
        """Follow the journal."""
        self._last = event
        if isinstance(event.event, ev.MessageStarted):
            self._open = event.event.message_id
        elif ended_message_id(event.event) == self._open:
            self._open = None

    async def needs_more(self, reader: StoreReader, session_id: SessionId, count: int) -> bool:
        """Find the text after reading the journal; an answer finished meanwhile is further on in the journal."""
        if self._read < 0:
            self._read = 0
            return True
        news, self._read = count > self._read, count
        if self._open is None:
            self._partial = None  # the answer found before is finished
            return False
        stored = await reader.load(session_id)
        self._partial = restore(session_id, stored).build_partial() if stored is not None else None
        if self._partial is not None and self._partial.message_id == self._open:
            return False
        self._partial = None
        return news

    def events(self) -> Iterator[SessionEvent]:
        """Yield it as events that could follow the last one of the journal."""
        if self._partial is None or self._last is None:
            return
        last, message_id, place = self._last, self._partial.message_id, 0
        for part in self._partial.parts:
            text = str(part.text)
            pieces = [text[start : start + PIECE_CHARS] for start in range(0, len(text), PIECE_CHARS)]
            inside: list[ev.Event] = [
                ev.PartStarted(message_id=message_id, kind=part.kind, tool_name=part.tool_name),
                *(ev.PartDelta(message_id=message_id, text=piece) for piece in pieces),
            ]
            for event in inside:
                place += 1
                yield SessionEvent(
                    seq=last.seq + place, sseq=last.sseq + place, session_id=last.session_id, at=last.at, event=event
                )


async def wait_for_text(state: SessionState, store: SessionStore) -> None:
    """Wait until a store has saved the unfinished answer of this state, whose text has no number to wait for.

    Raises:
        StorageFailed: The store does not save it in time.
    """
    expected = state.build_partial()
    with trio.move_on_after(SAVED_WITHIN_S):
        while (stored := await store.load(state.session_id)) is not None:
            if restore(state.session_id, stored).build_partial() == expected:
                return
            await trio.sleep(limits.PARTIAL_TEXT_EVERY_MS / 1000)
    raise store.failure or StorageFailed("the session was imported, but not the text of its unfinished answer")
