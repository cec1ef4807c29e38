"""Which turn holds what we have said, and how that one has ended, in a session that others use too. No I/O."""

import session_core as sc


class OwnTurn:
    """What became of our message: it waits, a turn has taken it up, or somebody has taken it out of the queue.

    A turn that ran before may take it up as well as one that is started for it. What others begin before and after is
    not ours.

    Attributes:
        is_awaited: Whether anything was said at all; before, there is no turn of ours.
        item_id: Our message, while it waits.
        turn_id: The turn that has our message.
        outcome: How that turn has ended.
        is_gone: Whether our message was taken out of the queue.
        answer: What was answered to our message, if the same turn has gone on with messages of others after that.
    """

    def __init__(self) -> None:
        self.is_awaited = False
        self.item_id: sc.QueueItemId | None = None
        self.turn_id: sc.TurnId | None = None
        self.outcome: sc.TurnOutcome | None = None
        self.is_gone = False
        self.answer: sc.Message | None = None
        self._newest: sc.Message | None = None
        self._text = ""

    def said(self, text: str, *, turn_id: sc.TurnId | None, item_id: sc.QueueItemId | None = None) -> None:
        """Note what the service has made of a message; saying it once more begins anew."""
        self.is_awaited, self.is_gone, self._text = True, False, text
        self.turn_id, self.item_id, self.outcome = turn_id, item_id, None
        self.answer = self._newest = None

    def is_left_in(self, state: sc.SessionState) -> bool:
        """Tell whether our message waits in this state: one that is older than the message does not have it yet."""
        return self.item_id is not None and any(each.item_id == self.item_id for each in state.queue)

    def hear(self, event: sc.Event) -> None:
        """Take an event that has come after the message."""
        match event:
            case sc.events.MessageAdded(queue_item_id=str() as item_id, message=message) if item_id == self.item_id:
                self.item_id, self.turn_id, self._newest = None, message.turn_id, None
            case sc.events.MessageAdded(queue_item_id=str(), message=message) if message.turn_id == self.turn_id:
                if self.answer is None and self._newest is not None and not self._newest.tool_calls:
                    self.answer = self._newest  # a turn without more to say has gone on with this
            case sc.events.MessageCompleted(message=message) if self.turn_id is not None:
                self._newest = message
            case sc.events.QueueItemRemoved(item_id=item_id) if item_id == self.item_id:
                self.item_id, self.is_gone = None, True
            case sc.events.TurnEnded(outcome=outcome) if outcome.turn_id == self.turn_id:
                self.outcome = outcome
            case _:
                pass

    def catch_up(self, snapshot: sc.SessionSnapshot) -> bool:
        """Take a snapshot that stands for events which were missed; returns whether our turn has ended among them.

        How it has ended is then known to the service alone, unless it was the last one.
        """
        if not self.is_awaited or self.outcome is not None:
            return False
        if self.item_id is not None and all(each.item_id != self.item_id for each in snapshot.queue):
            self._find(snapshot)
        last, running = snapshot.last_outcome, snapshot.turn
        if self.turn_id is None or (running is not None and running.turn_id == self.turn_id):
            return False
        if last is not None and last.turn_id == self.turn_id:
            self.outcome = last
        return self.outcome is None

    def _find(self, snapshot: sc.SessionSnapshot) -> None:
        """Find the turn that has taken our message up; one that is not in the conversation was taken out."""
        self.item_id = None
        ours = [each for each in snapshot.messages if each.role == "user" and each.text == self._text]
        if ours:
            self.turn_id = ours[-1].turn_id
        else:
            self.is_gone = True
