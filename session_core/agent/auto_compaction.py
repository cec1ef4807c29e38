"""Summarising a conversation that fills its model's context, in the middle of a turn."""

import logging

from session_core.agent.compaction import SummaryFailed, summary_message
from session_core.agent.compaction_policy import Summarising
from session_core.agent.model_call import shown, withdraw
from session_core.foreign_faults import FOREIGN_FAULTS, passes_through
from session_core.session.turn_handle import TurnDesk
from session_core.vocabulary import events as ev
from session_core.vocabulary.sessions import TurnStatus

log = logging.getLogger(__name__)


class RoomMaker:
    """Makes room at one turn's desk: at most one summary at a time, and no second one if the first was of no help."""

    def __init__(self, summarising: Summarising, desk: TurnDesk) -> None:
        self._summarising = summarising
        self._desk = desk
        self._done = False

    def answered(self) -> None:
        """The model has answered, so that it is known anew how full its context is."""
        self._done = self._done and self._is_full()

    async def make_room(self, *, forced: bool = False) -> bool:
        """Summarise the conversation when it fills the model's context; returns whether that was done.

        Failing that, the turn goes on with the conversation as it is.
        """
        desk = self._desk
        if self._done or not (forced or self._is_full()):
            return False
        if not any(message.role == "assistant" for message in desk.state.transcript):
            return False
        withdraw(desk, "context_too_long")
        self._done = True
        desk.record(ev.CompactionStarted())
        failed: tuple[TurnStatus, str | None] | None = ("stopped", None)
        try:
            summary = await self._summarising.summarise(desk, automatic=True)
            asked = next((each.text for each in reversed(desk.state.transcript) if each.role == "user"), "")
            message = summary_message(summary, desk.state.head, desk.now(), asked=asked)
            desk.record(ev.CompactionFinished(status="completed", summary=message))
            failed = None
        except FOREIGN_FAULTS as failure:
            if passes_through(failure):
                raise
            if not isinstance(failure, SummaryFailed):
                log.exception("the conversation could not be summarised")
            failed = ("failed", shown(f"the summary could not be made: {failure}"))
        finally:
            if failed is not None:
                desk.record(ev.CompactionFinished(status=failed[0], error=failed[1]))
        return failed is None

    def _is_full(self) -> bool:
        return self._summarising.is_full(self._desk)
