"""Merging adjacent text deltas for a reader that is far behind. Pure; the shared ring never holds merged events."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import attrs

from session_core import limits
from session_core.vocabulary.events import DELTA_EVENTS, PartDelta, SessionEvent, ToolOutputDelta

COALESCE_FROM = 16
"""With fewer pending events, merging costs more than it saves (measured)."""

_TEXT_OF: dict[type, Callable[[Any], str]] = {
    PartDelta: attrgetter("message_id"),
    ToolOutputDelta: attrgetter("call_id"),
}
"""Events that only append text, with the key of what they append to."""


def coalesce(batch: list[SessionEvent]) -> list[SessionEvent]:
    """Return the same events with runs of deltas to the same text merged; folding either gives the same state."""
    merged: list[SessionEvent] = []
    run: list[SessionEvent] = []
    run_key: object = None
    room = limits.MAX_TEXT_CHARS
    for event in batch:
        text_of = _TEXT_OF.get(type(event.event))
        key = None if text_of is None else (text_of(event.event), event.session_id, event.by)
        length = len(event.event.text) if isinstance(event.event, DELTA_EVENTS) else 0
        if run and (key is None or key != run_key or event.sseq - event.merged != run[-1].sseq or length > room):
            merged.append(_merge(run))
            run = []
            room = limits.MAX_TEXT_CHARS
        room -= length
        run.append(event)
        run_key = key
    if run:
        merged.append(_merge(run))
    return merged


def _merge(run: list[SessionEvent]) -> SessionEvent:
    last = run[-1]
    if len(run) == 1:
        return last
    deltas: list[Any] = [each.event for each in run]
    event = attrs.evolve(deltas[-1], text="".join([delta.text for delta in deltas]))
    return attrs.evolve(last, event=event, merged=sum([each.merged for each in run]))
