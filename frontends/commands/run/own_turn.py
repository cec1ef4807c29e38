"""What is ours in a session that others use too: the turn that has our message, and how that one has ended. No I/O."""

from collections.abc import Iterable, Sequence

import trio

import session_core as sc


class OwnTurn:
    """What became of our message: it waits, a turn has taken it up, or somebody has taken it out of the queue.

    A turn that ran before may take it up as well as one that is started for it. What others begin before and after is
    not ours, nor is what the same turn goes on with once our message is answered.

    Attributes:
        is_meant: Whether there is something to be said: from then on nothing is ours but the turn that has it.
        is_awaited: Whether it was said.
        item_id: Our message, while it waits.
        turn_id: The turn that has our message.
        outcome: How that turn has ended.
        missed_end: Whether it has ended among events that were missed, so that only the service knows how.
        is_gone: Whether our message was taken out of the queue.
        answer: What was answered to our message, if the same turn has gone on with messages of others after that.
        since: How many messages the session had before ours, at least.
        extension: Whom we have something done by, where nothing is said: what it asks and begins is ours.
        follows: Whether we only look on: what runs is shown as if it were ours.
    """

    def __init__(self) -> None:
        self.has_message = self.was_sent = self.was_removed = self.missed_end = self.is_follower = False
        self.item_id: sc.QueueItemId | None = None
        self.turn_id: sc.TurnId | None = None
        self.outcome: sc.TurnOutcome | None = None
        self.answer: sc.Message | None = None
        self.since = 0
        self.extension: str | None = None
        self._cursor: sc.Cursor | None = None
        self._message_id: sc.MessageId | None = None
        self._newest: sc.Message | None = None
        self._delivered: trio.Event | None = None

    # --- saying it ----------------------------------------------------------------------------------------------------

    def begin_sending(self) -> trio.Event:
        """Say that something of ours is on its way until this event is set: what becomes of it is not known."""
        self._delivered = trio.Event()
        return self._delivered

    @property
    def is_in_flight(self) -> bool:
        """Whether that is so now."""
        return self._delivered is not None and not self._delivered.is_set()

    async def wait_until_delivered(self) -> None:
        """Wait until it is known what became of that which is on its way."""
        if self._delivered is not None:
            await self._delivered.wait()

    def record_sent(
        self,
        *,
        turn_id: sc.TurnId | None,
        message_id: sc.MessageId | None = None,
        item_id: sc.QueueItemId | None = None,
        cursor: sc.Cursor | None = None,
        since: int = 0,
    ) -> None:
        """Note what the service has made of a message, and where it came to; saying it once more begins anew."""
        self.has_message, self.was_sent, self.was_removed = True, True, False
        self._cursor, self.since = cursor, since
        self.turn_id, self._message_id, self.item_id, self.outcome = turn_id, message_id, item_id, None
        self.answer = self._newest = None

    # --- whose it is --------------------------------------------------------------------------------------------------

    @property
    def only_follows(self) -> bool:
        """Whether nothing here is ours, and we look on."""
        return self.is_follower and not self.has_message

    def owns_turn(self, turn: sc.RunningTurn | None) -> bool:
        """Tell whether what goes on is done for us, where this turn runs."""
        if self.has_message:
            return turn is not None and turn.turn_id == self.turn_id and self.answer is None
        if self.extension is not None:
            return turn is None or turn.turn_id == self.turn_id
        return self.is_follower

    def owns_dialog(self, dialog: sc.Dialog, turn: sc.RunningTurn | None) -> bool:
        """Tell whether a question is part of what is done for us."""
        if dialog.turn_id is None:
            return self.extension is not None and dialog.extension == self.extension
        return turn is not None and turn.turn_id == dialog.turn_id and self.owns_turn(turn)

    def is_queued_in(self, state: sc.SessionState) -> bool:
        """Tell whether our message waits in this state: one that is older than the message does not have it yet."""
        return self.item_id is not None and any(each.item_id == self.item_id for each in state.queue)

    def final_answer(self, outcome: sc.TurnOutcome) -> sc.Message | None:
        """Return what was answered to us, as far as it was heard."""
        last = self._newest if self.has_message else None
        return self.answer or (last if last is not None and last.message_id == outcome.final_message_id else None)

    # --- what happens -------------------------------------------------------------------------------------------------

    def apply_event(self, event: sc.Event) -> None:
        """Take an event that has come after the message."""
        match event:
            case sc.events.MessageAdded(message=message) | sc.events.MessageCompleted(message=message):
                self._apply_message(message)
            case sc.events.QueueItemRemoved(item_id=item_id) if item_id == self.item_id:
                self.item_id, self.was_removed = None, True
            case sc.events.TurnEnded(outcome=outcome) if self.was_sent and outcome.turn_id == self.turn_id:
                self.outcome = outcome
            case _:
                pass

    def _apply_message(self, message: sc.Message) -> None:
        if self._is_own_message(message):
            self.item_id, self.turn_id, self._message_id = None, message.turn_id, message.message_id
            self.answer = self._newest = None
        elif self.extension is not None and message.source == self.extension and message.turn_id is not None:
            self.turn_id = message.turn_id  # it has said something to the model
        elif not self.has_message or message.turn_id is None or message.turn_id != self.turn_id:
            pass
        elif message.role == "assistant" and message.source is None:
            self._newest = message
        elif message.queue_item_id is not None and self._newest is not None and not _expects_continuation(self._newest):
            self.answer = self.answer or self._newest  # a turn without more to say has gone on with this

    def _is_own_message(self, message: sc.Message) -> bool:
        if self.item_id is not None:
            return message.queue_item_id == self.item_id
        return self._message_id is not None and message.message_id == self._message_id

    # --- after a lag --------------------------------------------------------------------------------------------------

    def is_missing_in(self, snapshot: sc.SessionSnapshot, messages: Iterable[sc.Message]) -> bool:
        """Tell whether our message is in the conversation, if anywhere, and not among these messages."""
        if self._is_newer_than(snapshot) or (self.item_id is None and self._message_id is None):
            return False
        return not any(map(self._is_own_message, messages)) and all(
            each.item_id != self.item_id for each in snapshot.queue
        )

    def find_turn(self, messages: Iterable[sc.Message]) -> sc.TurnId | None:
        """Return the turn that has our message; among these messages there may be more than was heard."""
        return self.turn_id or next((each.turn_id for each in messages if self._is_own_message(each)), None)

    def catch_up(self, snapshot: sc.SessionSnapshot, messages: Sequence[sc.Message]) -> frozenset[sc.MessageId]:
        """Take a snapshot that stands for events which were missed, and the messages that the session has had since.

        Returns which of them were said for us, the one that is being written included.
        """
        if self._is_newer_than(snapshot) or not (self.has_message or self.extension is not None):
            return frozenset()
        if self.was_sent and self.outcome is None and self.is_missing_in(snapshot, messages):
            self.was_removed, self.item_id = self.item_id is not None, None
        ours = set[sc.MessageId]()
        for message in messages:
            if self._is_own_message(message):
                ours.clear()  # the same turn may have been busy with others before
            self._apply_message(message)
            in_turn = message.turn_id is not None and message.turn_id == self.turn_id and self.answer is None
            if in_turn or (self.extension is not None and message.source == self.extension):
                ours.add(message.message_id)
        running, last = snapshot.turn, snapshot.last_outcome
        if snapshot.partial is not None and self.owns_turn(running):
            ours.add(snapshot.partial.message_id)
        if self.was_sent and self.outcome is None and self.turn_id is not None:
            has_ended = running is None or running.turn_id != self.turn_id
            self.outcome = last if last is not None and last.turn_id == self.turn_id else None
            self.missed_end = has_ended and self.outcome is None
        return frozenset(ours)

    def _is_newer_than(self, snapshot: sc.SessionSnapshot) -> bool:
        """Tell whether a snapshot was taken before our message came; it may have been on its way to us."""
        said, taken = self._cursor, snapshot.cursor
        return said is not None and said.epoch == taken.epoch and taken.seq < said.seq


def _expects_continuation(message: sc.Message) -> bool:
    """Tell whether an answer of the model is followed by another one in any case: it wants something done first."""
    return bool(message.tool_calls) or any(isinstance(part, sc.CodePart) for part in message.parts)
