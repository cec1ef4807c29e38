"""One turn of a session as a person at the command line has it: reading, showing, consent, stopping."""

import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress

import attrs
import trio

import session_core as sc
from frontends.cli import wording
from frontends.cli.attached import ServiceFeed
from frontends.cli.manners import Manners as Manners
from frontends.cli.manners import output_text as output_text
from frontends.cli.own_turn import OwnTurn
from frontends.cli.requests import Client, Requests
from frontends.cli.view import Target, View, ends_line
from frontends.console.output import Output, OutputFailed, ReaderLeft
from frontends.console.sanitise import one_line, sanitise
from frontends.console.signals import EXIT_SIGNAL, LEAVING_SIGNALS
from frontends.console.streams import Streams

EXIT_OK, EXIT_FAILED = 0, 1
EXIT_DENIED, EXIT_LIMIT, EXIT_SHAPE = 3, 4, 5  # 2 is wrong usage
_WRONG_SHAPE = "the answer is not JSON of the shape"  # how the outcome of a turn begins that gave no fitting answer
_AT_REST = frozenset({"idle", "stopped", "errored", "interrupted"})


def _json_line(item: sc.FeedItem) -> bytes:
    return (sc.encode_event(item) if isinstance(item, sc.SessionEvent) else sc.encode(item)) + b"\n"


def _begun_in(event: sc.Event) -> sc.TurnId | None:
    match event:
        case sc.events.TurnStarted(turn_id=turn_id):
            return turn_id
        case sc.events.MessageAdded(message=message):
            return message.turn_id
        case _:
            return None


@attrs.define
class _Done:
    """What became of a command of an extension; the session had come to `sseq` when it was over."""

    over: bool = False
    sseq: int = 0
    content: str = ""
    said: bool = False
    failure: sc.SessionCoreError | None = None


class Conversation:
    """One turn: reading, showing, consent, stopping."""

    def __init__(
        self,
        service: Client,
        feed: sc.Feed | ServiceFeed,
        manners: Manners,
        streams: Streams,
        nursery: trio.Nursery,
    ) -> None:
        self._service = service
        self._feed = feed
        self._manners = manners
        self._streams = streams
        self._nursery = nursery
        self._outputs: dict[Target, Output] = {"out": streams.out, "err": streams.err}
        self._shared = streams.out.same_place(streams.err)
        self._answer: Target = "err" if manners.structured else "out"  # then stdout is for the JSON at the end
        self._view = View(
            streams.out.style,
            streams.err.style,
            shared=self._shared,
            live=streams.err.style.colours,
            answer=self._answer,
        )
        self._writing = trio.Lock()
        self._line_open = False  # whether what stderr shows last is a line without its end
        self.own = OwnTurn()
        self._requests = Requests(
            service, streams, self._view, nursery, self._flush, own=self.own, yes=manners.yes, approve=manners.approve
        )
        self._denied: set[sc.CallId] = set()
        self._listening = trio.CancelScope()
        self._done = False  # whether a command of an extension has done its work
        self._line: sc.CallId | None = None
        self._line_result: sc.ToolResultPart | None = None
        self._state: sc.SessionState | None = None
        self._turn_before: sc.TurnId | None = None
        self._missed_end = False  # whether our turn has ended among events that were missed
        self._signal: int | None = None

    @property
    def state(self) -> sc.SessionState:
        """The session, as far as it was received."""
        assert self._state is not None, "the snapshot comes first"
        return self._state

    @property
    def outcome(self) -> sc.TurnOutcome | None:
        """How the turn ended, once it has; neither an older turn of the session counts nor one without our message."""
        if self.own.is_awaited:
            return self.own.outcome
        last = self._state.last_outcome if self._state is not None and self._state.turn is None else None
        return last if last is not None and last.turn_id != self._turn_before else None

    @property
    def at_rest(self) -> bool:
        """Whether nothing runs in the session."""
        return self.state.turn is None and self.state.activity.name in _AT_REST

    @property
    def stopped(self) -> bool:
        """Whether somebody has asked for the end."""
        return self._signal is not None

    @property
    def deserted(self) -> bool:
        """Whether the terminal was closed on an open question, which others can answer."""
        return self._requests.deserted

    @property
    def exit_code(self) -> int:
        """What the program should exit with."""
        if self._signal is not None:
            return EXIT_SIGNAL + self._signal
        if self.outcome is None:
            return EXIT_OK if self._done else EXIT_FAILED
        match self.outcome.status:
            case "completed" if self._line_failed:
                return EXIT_FAILED
            case "completed":
                return EXIT_DENIED if self._lacked_a_yes else EXIT_OK
            case "limit_reached":
                return EXIT_LIMIT
            case "failed" if self._manners.structured and (self.outcome.error or "").startswith(_WRONG_SHAPE):
                return EXIT_SHAPE
            case _:
                return EXIT_FAILED

    @property
    def _lacked_a_yes(self) -> bool:
        """Whether something was denied which the person at the terminal has not refused themselves."""
        return self._requests.denied or bool(self._denied - self._requests.refused)

    @property
    def _line_failed(self) -> bool:
        result = self._line_result
        return result is not None and (result.status != "success" or wording.exit_code(result) is not None)

    # --- reading and showing ------------------------------------------------------------------------------------------

    async def begin(self, introduce: Callable[[], Awaitable[None]], *, follows: bool) -> None:
        """Take the snapshot before anything happens, have it introduced, and only then show what goes on already.

        Unless we only follow, what others are being answered is no answer to us, and goes to stderr.
        """
        first, *rest = await self._feed.receive_batch()
        self._take(first)
        await introduce()
        if isinstance(first, sc.SessionSnapshot):
            self._requests.meet(first, follows=follows)
            if first.turn is not None and not follows:
                self._view.answer_to("err")
            if first.turn is not None and self._manners.narrated:
                self._view.join(first)
        for item in rest:
            self._take(item)
        await self._attend_to([first, *rest])

    async def follow_to_end(self) -> None:
        """Show what others have begun until the session is at rest, and how it ended."""
        while self.outcome is None and not self.at_rest:
            await self.receive()
        self._done = True
        if self.outcome is not None:
            await self.conclude(self.outcome)

    async def receive(self) -> None:
        """Take what has come, show it, and answer what needs an answer."""
        items: list[sc.FeedItem] = []
        with trio.CancelScope() as self._listening:  # for those who have something else to tell
            items = await self._feed.receive_batch()
        for number, item in enumerate(items, 1):
            self._take(item)
            if self.own.outcome is not None:
                items = items[:number]  # what comes after our turn is for others
        await self._attend_to(items)

    async def until_ended(self) -> bool:
        """Show what happens until our turn has ended, or our message was taken back; False if it was left waiting."""
        while self.own.outcome is None and not self.own.is_gone:
            if self._missed_end and self.own.turn_id is not None:
                ended = await self._service.wait_for_turn(self.state.session_id, self.own.turn_id)
                self.own.outcome = ended.outcome
            elif self.at_rest and self.own.is_left_in(self.state):
                return False
            else:
                await self.receive()
        return True

    async def take_back(self) -> bool:
        """Take our message out of the queue; returns whether it was there."""
        if self.own.item_id is None:
            return False
        try:
            await self._service.take_queue(self.state.session_id, self.own.item_id)
        except sc.NotFound:
            return False
        return True

    async def _attend_to(self, items: Sequence[sc.FeedItem]) -> None:
        if self._manners.json:
            await self._streams.out.write(b"".join(_json_line(item) for item in items))
        await self._requests.attend_to(self.state)
        await self._flush()

    def _take(self, item: sc.FeedItem) -> None:
        match item:
            case sc.SessionSnapshot():
                first, self._state = self._state is None, sc.SessionState.from_snapshot(item)
                if first:
                    self._turn_before = item.last_outcome.turn_id if item.last_outcome is not None else None
                    self._view.begin_after(item)
                else:
                    self._missed_end = self.own.catch_up(item)
                    if self.own.turn_id is not None:
                        self._view.answer_to(self._answer)
                    self._note_missed(item)
                if not first and self._manners.narrated:
                    resync = self._feed.last_resync
                    self._view.catch_up(item, resync.missed if resync is not None else None)
            case sc.SessionEvent() if self._state is not None:
                self._state.apply(item)
                self._hear_of_own(item.event)
                self._note_denied(item.event)
                if self._manners.narrated:
                    self._view.event(item)
                elif self._manners.quiet:
                    self._view.warning(item)
            case _:
                pass
        if self._line is not None and self._state is not None:
            found = (each.result for each in self._state.tools if each.call_id == self._line)
            self._line_result = next(found, None) or self._line_result

    def _hear_of_own(self, event: sc.Event) -> None:
        waited, was_ours = self.own.item_id is not None, self.own.answer is None
        self.own.hear(event)
        if was_ours and self.own.answer is not None:
            self._view.answer_to("err")
            if self._manners.narrated:
                self._view.line(self._streams.err.style.dim("The turn goes on with a message of somebody else."))
            return
        if self.own.turn_id is None or self.own.turn_id != _begun_in(event) or self.own.answer is not None:
            return
        self._view.answer_to(self._answer)
        if waited:
            self._denied.clear()  # that was in what ran before
            if self._manners.narrated:
                self._view.line(self._streams.err.style.dim("Now your message is answered."))

    def _note_denied(self, event: sc.Event) -> None:
        if isinstance(event, sc.events.ToolCallFinished) and event.result.status == "denied":
            self._denied.add(event.result.call_id)

    def _note_missed(self, snapshot: sc.SessionSnapshot) -> None:
        """Note what was denied while this program did not keep up."""
        turn = snapshot.turn or snapshot.last_outcome
        if turn is None or turn.turn_id == self._turn_before:
            return
        here = [each for each in snapshot.messages if each.turn_id == turn.turn_id]
        results = [part for each in here for part in each.parts if isinstance(part, sc.ToolResultPart)]
        results += [each.result for each in snapshot.tools if each.result is not None]
        self._denied.update(each.call_id for each in results if each.status == "denied")

    async def say(self, sentence: str) -> None:
        """Say something about the work."""
        self._view.line(sentence)
        await self._flush()

    async def remark(self, sentence: str) -> None:
        """Say something that may be passed over."""
        await self.say(self._streams.err.style.dim(sentence))

    async def conclude(self, outcome: sc.TurnOutcome) -> None:
        """Say how it ended."""
        answer = self.own.answer or self.state.message(outcome.final_message_id)
        self._view.finish()
        if self._manners.structured:  # what was not accepted is no answer
            if outcome.status == "completed" and not self._manners.json:
                await self._streams.out.write(output_text(outcome.output, pretty=self._streams.out.tty) + "\n")
        elif self._manners.quiet and answer is not None and answer.text:
            await self._streams.out.write(sanitise(answer.text).rstrip("\n") + "\n")
        if not self._manners.quiet or outcome.status != "completed":
            self._view.line(wording.outcome_line(self._streams.err.style, outcome, answer))
        await self._flush()

    async def break_off(self) -> None:
        """End the line on stderr, so that whatever is said about a failure has its own."""
        if self._line_open:
            self._line_open = False
            with suppress(ReaderLeft, OutputFailed):
                await self._streams.err.write("\n")

    async def _flush(self) -> None:
        async with self._writing:
            pieces = self._view.take()
            while pieces:
                target, text = pieces.pop(0)
                while pieces and pieces[0][0] == target:
                    text += pieces.pop(0)[1]
                await self._outputs[target].write(text)
                if target == "err" or self._shared:
                    self._line_open = not ends_line(text)

    # --- having something done ----------------------------------------------------------------------------------------

    async def have_done(self, command: sc.TypedCommand) -> None:
        """Have an extension do something, and show all that comes of it until the session is at rest.

        Raises:
            SessionCoreError: It failed, and nobody has stopped it.
        """
        done = _Done()
        self._nursery.start_soon(self._do, command, done)
        while not (done.over and self.at_rest and self.state.sseq >= done.sseq):
            await self.receive()
            if done.over and self.state.partial is None:
                await self._show_content(done)
        await self._show_content(done)
        if done.failure is not None and not self.stopped:
            raise done.failure
        self._done = True
        name = f"/{one_line(command.name, wording.NAME_CHARS)}"
        if self.outcome is not None:
            await self.conclude(self.outcome)
        elif self.stopped:
            await self.say(f"{name} was stopped before it was done.")
        elif self._manners.narrated and not done.said:
            await self.remark(f"{name} is done; it had nothing to say.")

    async def _do(self, command: sc.TypedCommand, done: "_Done") -> None:
        session_id = self.state.session_id
        try:
            reply = await self._service.run_command(
                session_id, command.name, command.arguments, extension=command.extension
            )
            done.content = reply.content
        except sc.ExtensionFailed as failed:
            done.failure = sc.ExtensionFailed(f"/{command.name} of {command.extension} failed: {failed.message}")
        except sc.SessionCoreError as refused:
            done.failure = refused
        done.sseq = (await self._service.load_session(session_id)).sseq
        done.over = True
        self._listening.cancel(reason="the command is done")

    async def _show_content(self, done: "_Done") -> None:
        if done.content:
            self._view.passage(done.content, "err" if self._manners.json else "out")  # there, stdout is for events
            done.content, done.said = "", True
            await self._flush()

    async def run_line(self, line: str) -> None:
        """Run a line in the shell, and print what it prints."""
        self._line = (await self._service.run_shell_line(self.state.session_id, line)).call_id
        while self.outcome is None:
            await self.receive()
        result = self._line_result
        if result is not None and result.status != "denied" and not self._manners.json:
            self._view.passage(result.text, "out")
        self._view.finish()
        if not self._manners.quiet or self.outcome.status != "completed":
            self._view.line(wording.outcome_line(self._streams.err.style, self.outcome, None))
        await self._flush()

    # --- stopping -----------------------------------------------------------------------------------------------------

    async def mind_signals(self, signals: AsyncIterator[int]) -> None:
        """Stop the turn at the first Ctrl-C and leave at the second; leave at once when asked to end."""
        async for number in signals:
            again, self._signal = self._signal is not None, number
            if again or number in LEAVING_SIGNALS:
                signal.signal(signal.SIGINT, signal.SIG_DFL)  # a third one ends even a program that hangs
                self._nursery.cancel_scope.cancel(reason="asked to leave")
            else:
                self._nursery.start_soon(self._stop)

    async def _stop(self) -> None:
        if await self.take_back():  # then nothing of ours runs
            return
        stopped = await self._service.request_stop(self.state.session_id)
        if stopped.result == "still_stopping":
            await self.say("Something does not let go yet; Ctrl-C again leaves at once.")
