"""One turn of a session as a person at the command line has it: reading, showing, consent, stopping."""

import json
import signal
from collections.abc import AsyncIterator
from contextlib import suppress

import attrs
import trio

import session_core as sc
from frontends.cli import wording
from frontends.cli.asking import helper_of, question
from frontends.cli.consent import Answer, Consent, answer_of
from frontends.cli.view import Target, View, ends_line
from frontends.console.output import Output, OutputFailed, ReaderLeft
from frontends.console.sanitise import one_line, sanitise
from frontends.console.streams import Streams, forget_typed, read_answer

EXIT_OK, EXIT_FAILED, EXIT_SIGNAL = 0, 1, 128
LEAVING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@attrs.frozen(kw_only=True)
class Manners:
    """How to show a turn and whom to ask; with `structured` the answer is JSON of a given shape."""

    json: bool = False
    quiet: bool = False
    yes: bool = False
    structured: bool = False

    @property
    def narrated(self) -> bool:
        """Whether a person watches."""
        return not (self.json or self.quiet)


def output_text(output: sc.JsonValue, *, pretty: bool) -> str:
    """Return an answer that is JSON as text which says the same everywhere and steers no terminal."""
    return json.dumps(output, default=dict, indent=2 if pretty else None)


def _json_line(item: sc.FeedItem) -> bytes:
    return (sc.encode_event(item) if isinstance(item, sc.SessionEvent) else sc.encode(item)) + b"\n"


class Conversation:
    """One turn: reading, showing, consent, stopping."""

    def __init__(
        self,
        service: sc.SessionService,
        feed: sc.Feed,
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
        self._view = View(
            streams.out.style,
            streams.err.style,
            shared=self._shared,
            live=streams.err.style.colours,
            answer="err" if manners.structured else "out",  # then stdout is for the JSON at the end
        )
        self._writing = trio.Lock()
        self._line_open = False  # whether what stderr shows last is a line without its end
        self._asking = trio.Lock()
        self._consent = Consent()
        self._questions: dict[sc.RequestId, trio.CancelScope] = {}
        self._state: sc.SessionState | None = None
        self._turn_before: sc.TurnId | None = None
        self._signal: int | None = None

    @property
    def state(self) -> sc.SessionState:
        """The session, as far as it was received."""
        assert self._state is not None, "the snapshot comes first"
        return self._state

    @property
    def outcome(self) -> sc.TurnOutcome | None:
        """How the turn ended, once it has; an older turn of the session does not count."""
        last = self._state.last_outcome if self._state is not None and self._state.turn is None else None
        return last if last is not None and last.turn_id != self._turn_before else None

    @property
    def stopped(self) -> bool:
        """Whether somebody has asked for the end."""
        return self._signal is not None

    @property
    def exit_code(self) -> int:
        """What the program should exit with."""
        if self._signal is not None:
            return EXIT_SIGNAL + self._signal
        return EXIT_OK if self.outcome is not None and self.outcome.status == "completed" else EXIT_FAILED

    # --- reading and showing ------------------------------------------------------------------------------------------

    async def receive(self) -> None:
        """Take what has come, show it, and answer what needs an answer."""
        items = await self._feed.receive_batch()
        for item in items:
            self._take(item)
        if self._manners.json:
            await self._streams.out.write(b"".join(_json_line(item) for item in items))
        await self._answer_requests()
        await self._flush()

    def _take(self, item: sc.FeedItem) -> None:
        match item:
            case sc.SessionSnapshot():
                first, self._state = self._state is None, sc.SessionState.from_snapshot(item)
                if first:
                    self._turn_before = item.last_outcome.turn_id if item.last_outcome is not None else None
                    self._view.begin_after(item)
                elif self._manners.narrated:
                    resync = self._feed.last_resync
                    self._view.catch_up(item, resync.missed if resync is not None else None)
            case sc.SessionEvent() if self._state is not None:
                self._state.apply(item)
                if self._manners.narrated:
                    self._view.event(item)
            case _:
                pass

    async def say(self, sentence: str) -> None:
        """Say something about the work."""
        self._view.line(sentence)
        await self._flush()

    async def conclude(self, outcome: sc.TurnOutcome) -> None:
        """Say how it ended."""
        answer = self.state.message(outcome.final_message_id)
        self._view.finish()
        if self._manners.structured and not self._manners.json and outcome.status == "completed":
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

    # --- answering ----------------------------------------------------------------------------------------------------

    async def _answer_requests(self) -> None:
        style = self._streams.err.style
        for dialog in self._consent.new_dialogs(self.state):
            self._view.line(f"{style.yellow('?')} {one_line(dialog.title)}: dismissed, as nobody can answer it here.")
            await self._service.answer_dialog(self.state.session_id, dialog.request_id)
        self._withdraw_questions()
        for approval in self._consent.new_approvals(self.state):
            if self._manners.yes:
                self._view.line(wording.approval_allowed(style, approval))
                await self._reply(approval, Answer(decision="allow_once"))
            elif self._streams.keyboard is None:
                self._view.line(wording.approval_denied(style, approval))
                await self._reply(approval, Answer(decision="deny"))
            else:
                self._nursery.start_soon(self._ask, approval, self._streams.keyboard)

    async def _reply(self, approval: sc.Approval, answer: Answer) -> None:
        await self._service.answer_approval(
            self.state.session_id,
            approval.request_id,
            answer.decision,
            fingerprint=approval.fingerprint,
            message=answer.message,
        )

    async def _ask(self, approval: sc.Approval, keyboard: int) -> None:
        with trio.CancelScope() as waiting:
            self._questions[approval.request_id] = waiting
            async with self._asking:
                answer = await self._answer(approval, keyboard, whole=False)
                if answer.wants_all:
                    answer = await self._answer(approval, keyboard, whole=True)
                await self._reply(approval, answer)

    async def _answer(self, approval: sc.Approval, keyboard: int, *, whole: bool) -> Answer:
        asked = question(self._streams.err.style, approval, helper_of(self.state, approval), whole=whole)
        forget_typed(keyboard)
        self._view.question(asked.text)
        await self._flush()
        typed = await read_answer(keyboard)
        self._view.answered()
        return answer_of(typed, cut=asked.cut)

    def _withdraw_questions(self) -> None:
        """Ask no longer what was answered elsewhere, timed out or stopped."""
        open_now = {approval.request_id for approval in self.state.approvals}
        for request_id in self._questions.keys() - open_now:
            self._questions.pop(request_id).cancel(reason="the approval is resolved")

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
        stopped = await self._service.request_stop(self.state.session_id)
        if stopped.result == "still_stopping":
            await self.say("Something does not let go yet; Ctrl-C again leaves at once.")
