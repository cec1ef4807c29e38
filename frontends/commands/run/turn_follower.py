"""One turn of a session at the command line: reading, showing, approvals, stopping."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import trio

import session_core as sc
from frontends.commands.run.attached_service import Client, ServiceFeed
from frontends.commands.run.find_message import messages_since
from frontends.commands.run.interrupt import Stopping
from frontends.commands.run.options import InteractionOptions
from frontends.commands.run.own_turn import OwnTurn
from frontends.commands.run.requests import Requests
from frontends.shared.conversation import work_lines
from frontends.shared.conversation.tool_calls import outcome_of
from frontends.shared.conversation.view import Target, View, ends_line
from frontends.shared.output import Output, OutputFailed, ReaderLeft, encode_item
from frontends.shared.sanitise import dump_json, sanitise
from frontends.shared.signals import EXIT_SIGNAL
from frontends.shared.streams import StandardStreams

EXIT_OK, EXIT_FAILED = 0, 1
EXIT_DENIED, EXIT_LIMIT, EXIT_SHAPE = 3, 4, 5  # 2 is wrong usage
_WRONG_SHAPE = "the answer is not JSON of the shape"  # the start of such a turn's outcome
_BEGINNINGS = (sc.events.TurnStarted, sc.events.MessageQueued, sc.events.MessageAdded)


def _may_be_ours(item: sc.FeedItem) -> bool:
    """Return whether an item may be the effect of our own request: it begins a message, a turn or a shell line."""
    return not isinstance(item, sc.SessionEvent) or isinstance(item.event, _BEGINNINGS)


class TurnFollower:
    """One turn: reading, showing, approvals, stopping.

    Attributes:
        interaction: How the turn is shown.
        own_turn: Which of the events are ours.
        requests: Answers what the session asks.
        stopping: Stops our own work, and takes our message back.
        is_done: Whether our request is done, if it is not a turn.
        line: The call that runs a shell line; `line_result` is its result.
    """

    def __init__(
        self,
        service: Client,
        feed: sc.Feed | ServiceFeed,
        interaction: InteractionOptions,
        streams: StandardStreams,
        nursery: trio.Nursery,
    ) -> None:
        self._service = service
        self._feed = feed
        self.interaction = interaction
        self._streams = streams
        self._outputs: dict[Target, Output] = {"out": streams.out, "err": streams.err}
        self._shared = streams.out.same_place(streams.err)
        self._answer: Target = "err" if interaction.structured else "out"  # stdout is then for the final JSON
        self._view = View(
            streams.out.style,
            streams.err.style,
            shared=self._shared,
            live=streams.err.style.colours,
            answer=self._answer,
        )
        self._nursery = nursery
        self._held: list[sc.FeedItem] = []  # received but not processed yet
        self._writing = trio.Lock()
        self._line_open = False  # whether the last line on stderr is unfinished
        self.own_turn = OwnTurn()
        self.requests = Requests(
            service,
            streams,
            self._view,
            nursery,
            self._flush,
            own=self.own_turn,
            yes=interaction.yes,
            approve=interaction.approve,
        )
        self.stopping = Stopping(service, self.own_turn, nursery, self.say)
        self._denied: set[sc.CallId] = set()
        self._listening = trio.CancelScope()
        self.is_done = False
        self.line: sc.CallId | None = None
        self.line_result: sc.ToolResultPart | None = None
        self._state: sc.SessionState | None = None
        self._turn_before: sc.TurnId | None = None

    @property
    def state(self) -> sc.SessionState:
        """The session as received so far."""
        assert self._state is not None, "the snapshot comes first"
        return self._state

    @property
    def turn(self) -> sc.RunningTurn | None:
        """The running turn as received so far, ours or not."""
        return self._state.turn if self._state is not None else None

    @property
    def outcome(self) -> sc.TurnOutcome | None:
        """The outcome of our turn once it has ended; earlier turns and turns without our message do not count."""
        if self.own_turn.has_message:
            return self.own_turn.outcome
        last = self._state.last_outcome if self._state is not None and self._state.turn is None else None
        return last if last is not None and last.turn_id != self._turn_before else None

    @property
    def at_rest(self) -> bool:
        """Whether nothing is running in the session."""
        return self.state.turn is None and self.state.activity.is_at_rest

    @property
    def is_stop_requested(self) -> bool:
        """Whether a signal asked for the end."""
        return self.stopping.signal is not None

    @property
    def exit_code(self) -> int:
        """The exit code of the program."""
        if self.stopping.signal is not None:
            return EXIT_SIGNAL + self.stopping.signal
        if self.outcome is None:
            return EXIT_OK if self.is_done else EXIT_FAILED
        match self.outcome.status:
            case "completed" if self._has_unrefused_denial:
                return EXIT_DENIED
            case "completed":
                return EXIT_FAILED if self._line_failed else EXIT_OK
            case "limit_reached":
                return EXIT_LIMIT
            case "failed" if self.interaction.structured and (self.outcome.error or "").startswith(_WRONG_SHAPE):
                return EXIT_SHAPE
            case _:
                return EXIT_FAILED

    @property
    def _has_unrefused_denial(self) -> bool:
        """Whether something was denied other than by the person at the terminal."""
        return self.requests.denied or bool(self._denied - self.requests.refused)

    @property
    def _line_failed(self) -> bool:
        return self.line_result is not None and outcome_of(self.line_result).level != "done"

    # --- reading and showing ------------------------------------------------------------------------------------------

    async def begin(self, introduce: Callable[[], Awaitable[None]]) -> None:
        """Take the first snapshot, introduce the session, and only then show what is already going on.

        Unless we only follow, answers to others are not for us and go to stderr.
        """
        first, *rest = await self._feed.receive_batch()
        await self._apply_item(first)
        await introduce()
        if isinstance(first, sc.SessionSnapshot):
            self.requests.record_open_requests(first)
            if first.turn is not None and self.interaction.is_narrated:
                self._view.join(first)
        for item in rest:
            await self._apply_item(item)
        await self._handle_items([first, *rest])

    async def follow_to_end(self) -> None:
        """Show the work of others until the session is idle, and how it ended."""
        while self.outcome is None and not self.at_rest:
            await self.receive()
        self.is_done = True
        if self.outcome is not None:
            await self.conclude(self.outcome)

    async def receive(self) -> None:
        """Process what has arrived: show it, and answer requests."""
        items, self._held = self._held, []
        if not items:
            with trio.CancelScope() as self._listening:
                items = await self._feed.receive_batch()
        if self.own_turn.is_in_flight:
            first = next((number for number, item in enumerate(items) if _may_be_ours(item)), len(items))
            items, self._held = items[:first], items[first:]
        for number, item in enumerate(items, 1):
            await self._apply_item(item)
            if self.own_turn.outcome is not None:
                del items[number:]  # anything after our turn is for others
                break
        await self._handle_items(items)

    async def send(self, what: Callable[[], Awaitable[None]]) -> None:
        """Send a request of ours and show what happens meanwhile: an extension may ask about it first.

        Items that may be its effects are held back until it is known which are ours.

        Raises:
            SessionCoreError: It was refused.
        """
        failed: list[sc.SessionCoreError] = []
        delivered = self.own_turn.begin_sending()

        async def do() -> None:
            try:
                await what()
            except sc.SessionCoreError as error:
                failed.append(error)
            finally:
                delivered.set()
                self.interrupt_receive("the request was delivered")

        self._nursery.start_soon(do)
        while not delivered.is_set():
            if self._held:
                await delivered.wait()
            else:
                await self.receive()
        for error in failed:
            raise error

    def interrupt_receive(self, reason: str) -> None:
        """Make `receive` return although nothing has arrived."""
        self._listening.cancel(reason=reason)

    async def wait_until_ended(self) -> bool:
        """Show what happens until our turn ends or our message is withdrawn; False if it was left in the queue."""
        while self.own_turn.outcome is None and not self.own_turn.was_removed:
            if self.own_turn.missed_end and self.own_turn.turn_id is not None:
                ended = await self._service.wait_for_turn(self.state.session_id, self.own_turn.turn_id)
                self.own_turn.outcome = ended.outcome
            elif self.at_rest and self.own_turn.is_queued_in(self.state):
                return False
            else:
                await self.receive()
        return True

    async def _handle_items(self, items: Sequence[sc.FeedItem]) -> None:
        if self.interaction.json:
            await self._streams.out.write_json(b"".join(encode_item(item) for item in items))
        await self.requests.answer_new_requests(self.state)
        await self._flush()

    async def _apply_item(self, item: sc.FeedItem) -> None:
        match item:
            case sc.SessionSnapshot() if self._state is None:
                self._state = sc.SessionState.from_snapshot(item)
                self._turn_before = item.last_outcome.turn_id if item.last_outcome is not None else None
                self._view.begin_after(item)
            case sc.SessionSnapshot():
                await self._catch_up(item)
            case sc.SessionEvent() if self._state is not None:
                self._state.apply(item)
                self._apply_to_own_turn(item.event)
                if self.interaction.is_narrated:
                    self._view.event(item)
                elif self.interaction.quiet:
                    self._view.warning(item)
            case _:
                pass
        if self._state is not None:
            self._view.answer_to(self._target)
        if self.line is not None and self._state is not None:
            found = (each.result for each in self._state.tools if each.call_id == self.line)
            self.line_result = next(found, None) or self.line_result

    async def _catch_up(self, snapshot: sc.SessionSnapshot) -> None:
        """Continue from a snapshot after missed events."""
        messages = await messages_since(self._service, self.own_turn, snapshot)
        self._state = sc.SessionState.from_snapshot(snapshot)
        ours = self.own_turn.catch_up(snapshot, messages)
        self._note_missed(snapshot, [each for each in messages if each.message_id in ours])
        if self.interaction.is_narrated:
            resync = self._feed.last_resync
            gone = [each for each in messages[: -len(snapshot.messages) or None] if each.message_id in ours]
            everything = self.own_turn.only_follows
            self._view.catch_up(
                snapshot,
                resync.missed if resync is not None else None,
                gone=gone,
                target=lambda message_id: self._answer if everything or message_id in ours else "err",
            )

    @property
    def _target(self) -> Target:
        """Where answers go now: answers to others are not for us."""
        return self._answer if self.own_turn.owns_turn(self.turn) else "err"

    def _apply_to_own_turn(self, event: sc.Event) -> None:
        """Update our own turn from an event before it is shown."""
        waited, was_answered = self.own_turn.item_id is not None, self.own_turn.answer is not None
        self.own_turn.apply_event(event)
        self._view.answer_to(self._target)
        if self.own_turn.answer is not None and not was_answered:
            self._view.finish()  # nothing of ours will end the line any more
            self._aside("The turn continues with a message of another client.")
        elif waited and self.own_turn.turn_id is not None:
            self._aside("Your message is being answered now.")
        if isinstance(event, sc.events.ToolCallFinished) and event.result.status == "denied" and self._is_for_us:
            self._denied.add(event.result.call_id)

    @property
    def _is_for_us(self) -> bool:
        """Whether current events count for our exit code; a turn we did not ask for counts as a whole."""
        return self.own_turn.owns_turn(self.turn) or not self.own_turn.has_message

    def _aside(self, sentence: str) -> None:
        if self.interaction.is_narrated:
            self._view.line(self._streams.err.style.dim(sentence))

    def _note_missed(self, snapshot: sc.SessionSnapshot, ours: Sequence[sc.Message]) -> None:
        """Record denials among the missed events."""
        turn = snapshot.turn or snapshot.last_outcome
        if not self.own_turn.has_message:
            new = turn is not None and turn.turn_id != self._turn_before
            ours = [each for each in snapshot.messages if new and turn is not None and each.turn_id == turn.turn_id]
        results = [part for each in ours for part in each.parts if isinstance(part, sc.ToolResultPart)]
        if self._is_for_us:
            results += [each.result for each in snapshot.tools if each.result is not None]
        self._denied.update(each.call_id for each in results if each.status == "denied")

    async def say(self, sentence: str) -> None:
        """Print a sentence about the work."""
        self._view.line(sentence)
        await self._flush()

    async def remark(self, sentence: str) -> None:
        """Print a sentence that may be omitted."""
        await self.say(self._streams.err.style.dim(sentence))

    async def conclude(self, outcome: sc.TurnOutcome) -> None:
        """Show how the turn ended."""
        answer = self.own_turn.final_answer(outcome) or self.state.find_message(outcome.final_message_id)
        self._view.finish()
        await self._flush()  # flush first: on a terminal both streams are in one place
        if self.interaction.structured:  # a rejected output is no answer
            if outcome.status == "completed" and not self.interaction.json:
                answer_text = dump_json(outcome.output, default=dict, indent=2 if self._streams.out.tty else None)
                await self._streams.out.write(f"{answer_text}\n")
        elif self.interaction.quiet and answer is not None and answer.text:
            await self._streams.out.write(sanitise(answer.text).rstrip("\n") + "\n")
        await self.end_with(outcome, answer)

    async def end_with(self, outcome: sc.TurnOutcome, answer: sc.Message | None) -> None:
        """End the output with a line about the outcome."""
        self._view.finish()
        if not self.interaction.quiet or outcome.status != "completed":
            self._view.line(work_lines.outcome_line(self._streams.err.style, outcome, answer, self.line_result))
        await self._flush()

    async def show(self, text: str, target: Target) -> None:
        """Show a standalone text."""
        self._view.passage(text, target)
        await self._flush()

    async def abort_with(self, sentence: str) -> None:
        """End the output abruptly, and say why."""
        self._view.finish()
        await self.say(f"{self._streams.err.style.red(self._streams.err.style.symbol('✗'))} {sentence}")

    async def end_open_line(self) -> None:
        """End the open line on stderr, so that an error message gets a line of its own."""
        if self._line_open:
            self._line_open = False
            with suppress(ReaderLeft, OutputFailed):
                await self._streams.err.write("\n")

    async def _flush(self) -> None:
        async with self._writing:
            pieces = self._view.take_pieces()
            while pieces:
                target, text = pieces.pop(0)
                while pieces and pieces[0][0] == target:
                    text += pieces.pop(0)[1]
                await self._outputs[target].write(text)
                if target == "err" or self._shared:
                    self._line_open = not ends_line(text)
