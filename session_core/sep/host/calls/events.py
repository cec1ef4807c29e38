"""From the events of sessions to the events that extensions know.

Every payload tells its `session_id`, as one process hears of all sessions. Events that belong to work tell its
`iteration` too: the number of the model call within the turn, 0 outside of one.

- A turn is both `agent_start` ... `agent_end` and, within these, `turn_start` ... `turn_end`.
- An answer of the model is `message_start`, `message_update` for each piece of it, and `message_end`. One that is
  withdrawn has no end; another start follows. Whatever a provider answered, also a failure, is told by
  `after_provider_response`.
- A tool call is `tool_execution_start`, `tool_execution_update`, `tool_execution_end`. One that was refused has a start
  and an end as well.

What is told by nobody's session event (`bus/event`, `widget/key`, a reload) is made by the functions at the end.
"""

from collections.abc import Mapping
from typing import Any, Final

import attrs

from session_core.ids import SessionId
from session_core.sep.protocol.names import EventName
from session_core.sep.protocol.translations import TRANSLATIONS, TranslationState
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import SessionEvent

_ENDS: Final = (ev.SessionDeleted, ev.SessionArchived)


@attrs.frozen(kw_only=True)
class SepEvent:
    """An event for extensions: what is pushed to those that subscribe to it. The payload is plain JSON."""

    name: EventName
    session_id: SessionId | None
    payload: dict[str, Any] = attrs.field(hash=False)


class Translator:
    """Reads the events of all sessions, in order, and says what extensions are told of each.

    Events may be missing: whatever comes is told as well as it can be.
    """

    def __init__(self) -> None:
        self._working: dict[SessionId, TranslationState] = {}

    def translate(self, envelope: SessionEvent, wanted: frozenset[str] | None = None) -> tuple[SepEvent, ...]:
        """Return what an event is for extensions, in order.

        Args:
            envelope: The next event.
            wanted: The names that anybody has subscribed to; others are not made. Left out, all are.
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
        """Let go of what is under way in a session, or everywhere, as events have been missed."""
        if session_id is None:
            self._working.clear()
        else:
            self._working.pop(session_id, None)


# --- what no session tells --------------------------------------------------------------------------------------------


def _session_fields(session_id: SessionId | None) -> dict[str, Any]:
    return {"session_id": session_id} if session_id is not None else {}


def build_session_start(session_id: SessionId | None, reason: str) -> SepEvent:
    """Tell that a session begins for an extension, such as after a reload."""
    return SepEvent(
        name="session_start", session_id=session_id, payload={**_session_fields(session_id), "reason": reason}
    )


def build_session_end(session_id: SessionId | None, reason: str) -> SepEvent:
    """Tell that a session ends for an extension, such as before a reload."""
    return SepEvent(
        name="session_shutdown", session_id=session_id, payload={**_session_fields(session_id), "reason": reason}
    )


def bus_event(sender: str, topic: str, payload: Mapping[str, Any]) -> SepEvent:
    """Tell what another extension has published."""
    return SepEvent(
        name="bus/event", session_id=None, payload={"from": sender, "topic": topic, "payload": dict(payload)}
    )


def widget_key(session_id: SessionId, widget_id: str | None, key: str) -> SepEvent:
    """Tell that a key was pressed in a widget."""
    about = {"widget_id": widget_id} if widget_id is not None else {}
    return SepEvent(
        name="widget/key", session_id=session_id, payload={**_session_fields(session_id), **about, "key": key}
    )
