"""Text of unfinished answers, buffered for a moment: a crash loses little, and the disk is not kept busy.

The live output of tools is not saved: an interrupted tool call only says that it was interrupted, not how far it got.
"""

import math

import trio

from session_core import limits
from session_core.ids import SessionId
from session_core.storage.writer import UnfinishedText
from session_core.stream.coalesce import coalesce
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import SessionEvent
from session_core.wire.codec import encode_event

_SAVED_EVENT_TYPES = (ev.PartDelta, ev.PartStarted)


class PartialText:
    """Transient events since the last save; `due_at` is the time of the next save, in trio's time."""

    def __init__(self) -> None:
        self.due_at = math.inf
        self._held: dict[tuple[SessionId, str], list[SessionEvent]] = {}

    def add(self, event: SessionEvent) -> bool:
        """Buffer a transient event; return whether a timer must be set for it.

        Raises:
            ProtocolError: It cannot be encoded.
        """
        inner = event.event
        if not isinstance(inner, _SAVED_EVENT_TYPES):
            return False
        if not (isinstance(inner, ev.PartDelta) and inner.text.isascii()):
            encode_event(event)  # refuse now what could not be written later
        assert event.session_id is not None
        key = (event.session_id, inner.message_id)
        held = self._held.get(key)
        if held is None:
            held = self._held[key] = []
        held.append(event)
        if self.due_at != math.inf:
            return False
        self.due_at = trio.current_time() + limits.PARTIAL_TEXT_EVERY_MS / 1000
        return True

    def drop(self, session_id: SessionId, about: str) -> None:
        """Drop the text of a finished answer: its end event repeats it."""
        self._held.pop((session_id, about), None)

    def forget(self, session_id: SessionId) -> None:
        """Drop everything of a session."""
        self.take(session_id)

    def take_due(self) -> list[UnfinishedText]:
        """Take the text to save now, if the save is due."""
        if trio.current_time() < self.due_at:
            return []
        self.due_at = math.inf
        held, self._held = self._held, {}
        return [text for key in held for text in _merge_events(key, held[key])]

    def take(self, session_id: SessionId) -> list[UnfinishedText]:
        """Take the buffered text of one session, merged."""
        keys = [key for key in self._held if key[0] == session_id]
        return [text for key in keys for text in _merge_events(key, self._held.pop(key))]


def _merge_events(key: tuple[SessionId, str], held: list[SessionEvent]) -> list[UnfinishedText]:
    return [UnfinishedText(*key, encode_event(event)) for event in coalesce(held)]


def unfinished_message_id(event: ev.Event) -> str | None:
    """Return the answer that a transient event belongs to."""
    match event:
        case ev.PartStarted(message_id=about) | ev.PartDelta(message_id=about):
            return about
        case _:
            return None


def ended_message_id(event: ev.Event) -> str | None:
    """Return the answer whose transient events an event makes obsolete."""
    match event:
        case ev.MessageCompleted(message=message):
            return message.message_id
        case ev.MessageDiscarded(message_id=about):
            return about
        case _:
            return None
