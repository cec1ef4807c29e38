"""Session events as the events that extensions know.

Every payload has a `session_id`, because one process gets events of all sessions. Events of a turn also have its
`iteration`: the number of the model call within the turn, 0 outside of one.

- A turn is both `agent_start` ... `agent_end` and, within these, `turn_start` ... `turn_end`.
- A model's answer is `message_start`, `message_update` for each piece, and `message_end`. A withdrawn answer has no
  end; another start follows. `after_provider_response` reports every answer of a provider, including failures.
- A tool call is `tool_execution_start`, `tool_execution_update`, `tool_execution_end`. A refused one also has a start
  and an end.

Events that come from no session event (`bus/event`, `widget/key`, a reload) are built by the functions at the end.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

import attrs

from session_core.ids import SessionId
from session_core.sep.protocol.names import EventName
from session_core.sep.protocol.translations import TRANSLATIONS, TranslationState
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import SessionEvent

_ENDS: Final = (ev.SessionDeleted, ev.SessionArchived)


@attrs.frozen(kw_only=True)
class SepEvent:
    """An event for the extensions that subscribe to it. The payload is plain JSON."""

    name: EventName
    session_id: SessionId | None
    payload: dict[str, Any] = attrs.field(hash=False)


class Translator:
    """Reads the events of all sessions, in order, and translates each for extensions.

    Events may be missing: the rest are translated as well as possible.
    """

    def __init__(self) -> None:
        self._working: dict[SessionId, TranslationState] = {}

    def translate(self, envelope: SessionEvent, wanted: frozenset[str] | None = None) -> tuple[SepEvent, ...]:
        """Return the events for extensions that a session event becomes, in order.

        Args:
            envelope: The next event.
            wanted: The names that any extension has subscribed to; others are not built. By default all are.
        """
        session_id, translation = envelope.session_id, TRANSLATIONS.get(type(envelope.event))
        if translation is None or session_id is None:
            return ()
        working = self._working.get(session_id) or TranslationState(session_id)
        translated = translation(working, envelope.event)
        if working.in_turn or working.calls:
            self._working[session_id] = working
        else:
            self._working.pop(session_id, None)
        if isinstance(envelope.event, _ENDS):
            self._working.pop(session_id, None)
        return tuple(
            SepEvent(name=name, session_id=session_id, payload={"session_id": session_id, **make()})
            for name, make in translated
            if wanted is None or name in wanted
        )

    def forget(self, session_id: SessionId | None = None) -> None:
        """Drop the state of a session, or of all, because events were missed."""
        if session_id is None:
            self._working.clear()
        else:
            self._working.pop(session_id, None)


# --- events without a session event -----------------------------------------------------------------------------------


def session_event(name: Literal["session_start", "session_shutdown"], reason: str) -> SepEvent:
    """Build the event that all sessions begin or end for an extension, such as after or before a reload."""
    return SepEvent(name=name, session_id=None, payload={"reason": reason})


def bus_event(sender: str, topic: str, payload: Mapping[str, Any]) -> SepEvent:
    """Build the event for a message that another extension published."""
    return SepEvent(
        name="bus/event", session_id=None, payload={"from": sender, "topic": topic, "payload": dict(payload)}
    )


def widget_key(session_id: SessionId, widget_id: str | None, key: str) -> SepEvent:
    """Build the event for a key press in a widget."""
    about = {"widget_id": widget_id} if widget_id is not None else {}
    return SepEvent(name="widget/key", session_id=session_id, payload={"session_id": session_id, **about, "key": key})
