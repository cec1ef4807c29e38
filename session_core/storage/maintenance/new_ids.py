"""New ids for what comes with an imported session, when that is to stand beside its original."""

import attrs

from session_core.ids import WakeupId, new_id
from session_core.vocabulary import events as ev


class Renamed:
    """Gives new ids to what a service knows by its id alone, or a copy would take it from its original."""

    def __init__(self) -> None:
        self._wakeups: dict[WakeupId, WakeupId] = {}

    def event(self, event: ev.Event) -> ev.Event:
        """Return the event as it is to be in the copy."""
        match event:
            case ev.WakeupScheduled(wakeup=wakeup):
                return attrs.evolve(event, wakeup=attrs.evolve(wakeup, wakeup_id=self._new(wakeup.wakeup_id)))
            case ev.WakeupCancelled(wakeup_id=wakeup_id) | ev.WakeupFired(wakeup_id=wakeup_id):
                return attrs.evolve(event, wakeup_id=self._new(wakeup_id))
            case _:
                return event

    def _new(self, wakeup_id: WakeupId) -> WakeupId:
        return self._wakeups.setdefault(wakeup_id, WakeupId(new_id("wake")))
