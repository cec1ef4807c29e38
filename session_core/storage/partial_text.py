"""Text of unfinished answers, held back a moment so that a crash loses little and the disk has peace.

The live output of tools is not kept: a tool call that was interrupted says that it was, and not how far it had come.
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
    """Passing events since they were last saved; `due_at` is when they must be saved next, in trio's time."""

    def __init__(self) -> None:
        self.due_at = math.inf
        self._held: dict[tuple[SessionId, str], list[SessionEvent]] = {}

    def add(self, event: SessionEvent) -> bool:
        """Hold a passing event back; returns whether an alarm must be set for it.

        Raises:
            ProtocolError: It cannot be written down.
        """
        inner = event.event
        if not isinstance(inner, _SAVED_EVENT_TYPES):
            return False
        if not (isinstance(inner, ev.PartDelta) and inner.text.isascii()):
            encode_event(event)  # what could not be written later is refused now
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
        """Let go of the text of something that has ended: its end repeats it."""
        self._held.pop((session_id, about), None)

    def forget(self, session_id: SessionId) -> None:
        """Let go of everything of a session."""
        self.take(session_id)

    def take_due(self) -> list[UnfinishedText]:
        """Take what must be saved now, if it is time."""
        if trio.current_time() < self.due_at:
            return []
        self.due_at = math.inf
        held, self._held = self._held, {}
        return [text for key in held for text in _merge_events(key, held[key])]

    def take(self, session_id: SessionId) -> list[UnfinishedText]:
        """Take what is held of one session, merged."""
        keys = [key for key in self._held if key[0] == session_id]
        return [text for key in keys for text in _merge_events(key, self._held.pop(key))]


def _merge_events(key: tuple[SessionId, str], held: list[SessionEvent]) -> list[UnfinishedText]:
    return [UnfinishedText(*key, encode_event(event)) for event in coalesce(held)]


def unfinished_message_id(event: ev.Event) -> str | None:
    """Return which answer a passing event is about."""
    match event:
        case ev.PartStarted(message_id=about) | ev.PartDelta(message_id=about):
            return about
        case _:
            return None


def ended_message_id(event: ev.Event) -> str | None:
    """Return the answer whose passing events an event makes superfluous."""
    match event:
        case ev.MessageCompleted(message=message):
            return message.message_id
        case ev.MessageDiscarded(message_id=about):
            return about
        case _:
            return None
