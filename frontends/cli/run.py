"""`session-core run`: send one prompt to a new session of an embedded service and follow it to its end."""

import signal
import sys
from collections.abc import AsyncIterator
from typing import Literal

import attrs
import trio

import session_core as sc
from frontends.cli import wording
from frontends.cli.consent import Consent, decision_of, read_answer
from frontends.cli.view import Target, View
from frontends.console.output import Output
from frontends.console.sanitise import one_line, sanitise

EXIT_OK, EXIT_FAILED, EXIT_SIGNAL = 0, 1, 128
LEAVING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@attrs.frozen(kw_only=True)
class RunOptions:
    """What was asked for on the command line; `cwd` is an absolute path of a directory."""

    prompt: str
    cwd: str
    model: str | None = None
    permissions: Literal["ask_all", "ask_writes", "ask_outward", "bypass"] | None = None
    json: bool = False
    quiet: bool = False
    yes: bool = False


@attrs.frozen(kw_only=True)
class Streams:
    """Where to write, and the descriptor of the terminal to ask on, if there is one."""

    out: Output
    err: Output
    keyboard: int | None = None

    @classmethod
    def standard(cls) -> "Streams":
        """The streams this program was started with."""
        out, err = Output(sys.stdout), Output(sys.stderr)
        keyboard = None
        if sys.stdin is not None and sys.stdin.isatty() and err.tty:
            keyboard = sys.stdin.fileno()
        return cls(out=out, err=err, keyboard=keyboard)


def main(options: RunOptions) -> int:
    """Run it on the standard streams and return the exit code."""
    return trio.run(_run, options, Streams.standard())


async def _run(options: RunOptions, streams: Streams) -> int:
    config = sc.ServiceConfig(cwd=options.cwd)
    with trio.open_signal_receiver(signal.SIGINT, *LEAVING_SIGNALS) as signals:
        async with sc.open_session_service(config) as service:
            model = options.model or config.model
            if isinstance(config.models.get(model), sc.DemoProvider) and not options.quiet:
                await streams.err.write(wording.demo_notice(streams.err.style, model) + "\n")
            return await converse(service, options, streams, signals)


async def converse(
    service: sc.SessionService, options: RunOptions, streams: Streams, signals: AsyncIterator[int]
) -> int:
    """Have one turn in a new session and return the exit code.

    Cancellation: the turn goes on in the service, which interrupts it when it closes.
    """
    created = await service.create_session(
        name=_name(options.prompt),
        cwd=options.cwd,
        model=options.model,
        permission_tier=options.permissions,
    )
    async with service.follow(created.session_id) as feed, trio.open_nursery() as nursery:
        talk = _Conversation(service, feed, options, streams, nursery)
        await talk.receive()  # the snapshot before anything happens
        nursery.start_soon(talk.mind_signals, signals)
        reply = await service.send_user_message(created.session_id, options.prompt)
        if reply.disposition == "started":
            while talk.outcome is None:
                await talk.receive()
            await talk.conclude(talk.outcome)
        else:  # a stop that came first has withheld the message
            await talk.say("stopped before the turn began; nothing was sent to the model")
        nursery.cancel_scope.cancel(reason="the turn is over")
    return talk.exit_code


def _name(prompt: str) -> str | None:
    """Make a session name of a prompt; names are printable."""
    return "".join(character for character in one_line(prompt, 60) if character.isprintable()).strip() or None


def _json_line(item: sc.FeedItem) -> bytes:
    return (sc.encode_event(item) if isinstance(item, sc.SessionEvent) else sc.encode(item)) + b"\n"


class _Conversation:
    """One turn: reading, showing, consent, stopping."""

    def __init__(
        self,
        service: sc.SessionService,
        feed: sc.Feed,
        options: RunOptions,
        streams: Streams,
        nursery: trio.Nursery,
    ) -> None:
        self._service = service
        self._feed = feed
        self._options = options
        self._streams = streams
        self._nursery = nursery
        self._outputs: dict[Target, Output] = {"out": streams.out, "err": streams.err}
        self._view = View(
            streams.out.style,
            streams.err.style,
            shared=streams.out.same_place(streams.err),
            live=streams.err.style.colours,
        )
        self._writing = trio.Lock()
        self._asking = trio.Lock()
        self._consent = Consent()
        self._questions: dict[sc.RequestId, trio.CancelScope] = {}
        self._state: sc.SessionState | None = None
        self._signal: int | None = None

    @property
    def outcome(self) -> sc.TurnOutcome | None:
        """How the turn ended, once it has."""
        state = self._state
        return state.last_outcome if state is not None and state.turn is None else None

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
        if self._options.json:
            await self._streams.out.write(b"".join(_json_line(item) for item in items))
        await self._answer_requests()
        await self._flush()

    def _take(self, item: sc.FeedItem) -> None:
        narrated = not (self._options.json or self._options.quiet)
        match item:
            case sc.SessionSnapshot():
                first, self._state = self._state is None, sc.SessionState.from_snapshot(item)
                if narrated and not first:
                    resync = self._feed.last_resync
                    self._view.catch_up(item, resync.missed if resync is not None else None)
            case sc.SessionEvent() if self._state is not None:
                self._state.apply(item)
                if narrated:
                    self._view.event(item)
            case _:
                pass

    async def say(self, sentence: str) -> None:
        """Say something about the work."""
        self._view.line(sentence)
        await self._flush()

    async def conclude(self, outcome: sc.TurnOutcome) -> None:
        """Say how it ended."""
        answer = self._state.message(outcome.final_message_id) if self._state is not None else None
        self._view.finish()
        if self._options.quiet and answer is not None and answer.text and not self._options.json:
            await self._streams.out.write(sanitise(answer.text).rstrip("\n") + "\n")
        if not self._options.quiet or outcome.status != "completed":
            self._view.line(wording.outcome_line(self._streams.err.style, outcome, answer))
        await self._flush()

    async def _flush(self) -> None:
        async with self._writing:
            pieces = self._view.take()
            while pieces:
                target, text = pieces.pop(0)
                while pieces and pieces[0][0] == target:
                    text += pieces.pop(0)[1]
                await self._outputs[target].write(text)

    # --- answering ----------------------------------------------------------------------------------------------------

    async def _answer_requests(self) -> None:
        assert self._state is not None
        style = self._streams.err.style
        for dialog in self._consent.new_dialogs(self._state):
            self._view.line(f"{style.yellow('?')} {one_line(dialog.title)}: dismissed, as nobody can answer it here.")
            await self._service.answer_dialog(self._state.session_id, dialog.request_id)
        self._withdraw_questions()
        for approval in self._consent.new_approvals(self._state):
            if self._options.yes:
                self._view.line(wording.approval_allowed(style, approval))
                await self._service.answer_approval(self._state.session_id, approval.request_id, "allow_once")
            elif self._streams.keyboard is None:
                self._view.line(wording.approval_denied(style, approval))
                await self._service.answer_approval(self._state.session_id, approval.request_id, "deny")
            else:
                self._nursery.start_soon(self._ask, approval, self._streams.keyboard)

    async def _ask(self, approval: sc.Approval, keyboard: int) -> None:
        with trio.CancelScope() as question:
            self._questions[approval.request_id] = question
            async with self._asking:
                self._view.question(wording.approval_question(self._streams.err.style, approval))
                await self._flush()
                decision = decision_of(await read_answer(keyboard))
                self._view.answered()
                assert self._state is not None
                await self._service.answer_approval(self._state.session_id, approval.request_id, decision)

    def _withdraw_questions(self) -> None:
        """Ask no longer what was answered elsewhere, timed out or stopped."""
        assert self._state is not None
        open_now = {approval.request_id for approval in self._state.approvals}
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
        assert self._state is not None
        stopped = await self._service.request_stop(self._state.session_id)
        if stopped.result == "still_stopping":
            await self.say("Something does not let go yet; Ctrl-C again leaves at once.")
