"""Our part of a session that others use too: the turn that has our message, and how it ended. No I/O."""

from collections.abc import Iterable, Sequence

import trio

import session_core as sc


class OwnTurn:
    """The fate of our message: it is queued, a turn has taken it, or another client has removed it from the queue.

    The turn may have been running before, or be started for the message. Work that others begin before or after is not
    ours, nor is anything the same turn goes on to do once our message is answered.

    Attributes:
        has_message: Whether we have a message to send: from then on only the turn that has it is ours.
        was_sent: Whether the message was sent.
        item_id: Our message, while it is queued.
        turn_id: The turn that has our message.
        outcome: How that turn ended.
        missed_end: Whether it ended among missed events, so only the service knows how.
        was_removed: Whether our message was removed from the queue.
        answer: The answer to our message, if the same turn has gone on with messages of others.
        since: How many messages the session had before ours, at least.
        extension: The extension we run a command of, without a message: what it asks and begins is ours.
        is_follower: Whether we only follow: running work is shown as if it were ours.
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

    # --- sending ------------------------------------------------------------------------------------------------------

    def begin_sending(self) -> trio.Event:
        """Mark a request of ours as in flight until this event is set: its effect is not known yet."""
        self._delivered = trio.Event()
        return self._delivered

    @property
    def is_in_flight(self) -> bool:
        """Whether a request of ours is in flight."""
        return self._delivered is not None and not self._delivered.is_set()

    async def wait_until_delivered(self) -> None:
        """Wait until the effect of the request in flight is known."""
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
        """Record what the service did with a message, and its position; sending again starts over."""
        self.has_message, self.was_sent, self.was_removed = True, True, False
        self._cursor, self.since = cursor, since
        self.turn_id, self._message_id, self.item_id, self.outcome = turn_id, message_id, item_id, None
        self.answer = self._newest = None

    # --- ownership ----------------------------------------------------------------------------------------------------

    @property
    def only_follows(self) -> bool:
        """Whether nothing here is ours, and we only follow."""
        return self.is_follower and not self.has_message

    def owns_turn(self, turn: sc.RunningTurn | None) -> bool:
        """Return whether current work is done for us, while this turn runs."""
        if self.has_message:
            return turn is not None and turn.turn_id == self.turn_id and self.answer is None
        if self.extension is not None:
            return turn is None or turn.turn_id == self.turn_id
        return self.is_follower

    def owns_dialog(self, dialog: sc.Dialog, turn: sc.RunningTurn | None) -> bool:
        """Return whether a dialog is part of the work done for us."""
        if dialog.turn_id is None:
            return self.extension is not None and dialog.extension == self.extension
        return turn is not None and turn.turn_id == dialog.turn_id and self.owns_turn(turn)

    def is_queued_in(self, state: sc.SessionState) -> bool:
        """Return whether our message is queued in this state; a state older than the message lacks it."""
        return self.item_id is not None and any(each.item_id == self.item_id for each in state.queue)

    def final_answer(self, outcome: sc.TurnOutcome) -> sc.Message | None:
        """Return the answer to us, as far as it was received."""
        last = self._newest if self.has_message else None
        return self.answer or (last if last is not None and last.message_id == outcome.final_message_id else None)

    # --- events -------------------------------------------------------------------------------------------------------

    def apply_event(self, event: sc.Event) -> None:
        """Apply an event that came after the message."""
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
            self.turn_id = message.turn_id  # the command has sent something to the model
        elif not self.has_message or message.turn_id is None or message.turn_id != self.turn_id:
            pass
        elif message.role == "assistant" and message.source is None:
            self._newest = message
        elif message.queue_item_id is not None and self._newest is not None and not _expects_continuation(self._newest):
            self.answer = self.answer or self._newest  # the turn was finished with ours and went on with this

    def _is_own_message(self, message: sc.Message) -> bool:
        if self.item_id is not None:
            return message.queue_item_id == self.item_id
        return self._message_id is not None and message.message_id == self._message_id

    # --- after a lag --------------------------------------------------------------------------------------------------

    def is_missing_in(self, snapshot: sc.SessionSnapshot, messages: Iterable[sc.Message]) -> bool:
        """Return whether our message must be in the conversation, if anywhere, but not among these messages."""
        if self._is_newer_than(snapshot) or (self.item_id is None and self._message_id is None):
            return False
        return not any(map(self._is_own_message, messages)) and all(
            each.item_id != self.item_id for each in snapshot.queue
        )

    def find_turn(self, messages: Iterable[sc.Message]) -> sc.TurnId | None:
        """Return the turn that has our message; these messages may include ones that were missed."""
        return self.turn_id or next((each.turn_id for each in messages if self._is_own_message(each)), None)

    def catch_up(self, snapshot: sc.SessionSnapshot, messages: Sequence[sc.Message]) -> frozenset[sc.MessageId]:
        """Apply a snapshot taken after missed events, and the messages of the session since.

        Returns which of them belong to our turn, including the one being written.
        """
        if self._is_newer_than(snapshot) or not (self.has_message or self.extension is not None):
            return frozenset()
        if self.was_sent and self.outcome is None and self.is_missing_in(snapshot, messages):
            self.was_removed, self.item_id = self.item_id is not None, None
        ours = set[sc.MessageId]()
        for message in messages:
            if self._is_own_message(message):
                ours.clear()  # the same turn may have worked for others before
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
        """Return whether a snapshot predates our message; it may have been in flight."""
        said, taken = self._cursor, snapshot.cursor
        return said is not None and said.epoch == taken.epoch and taken.seq < said.seq


def _expects_continuation(message: sc.Message) -> bool:
    """Return whether the model will certainly answer again after this message: it calls a tool or runs code first."""
    return bool(message.tool_calls) or any(isinstance(part, sc.CodePart) for part in message.parts)
