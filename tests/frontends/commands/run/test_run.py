"""One prompt through an embedded service: consent, lag, stop and failure, with a scripted model."""

import os
import re
import signal
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
import trio.testing

import session_core as sc
from frontends.commands.run.approval_answers import TypedApprovalAnswer, parse_answer
from frontends.commands.run.options import InteractionOptions, RunOptions
from frontends.commands.run.run import converse
from frontends.shared.streams import StandardStreams
from session_core.testing import scripted
from session_core.testing.checked import open_checked_service
from tests.frontends._paper import NoSignals, Paper, config, written


def options(prompt: str = "go", *, json: bool = False, quiet: bool = False, yes: bool = False) -> RunOptions:
    return RunOptions(prompt=prompt, cwd="/", interaction=InteractionOptions(json=json, quiet=quiet, yes=yes))


@pytest.fixture
def paper() -> StandardStreams:
    return StandardStreams(out=Paper(), err=Paper())


def two_steps() -> scripted.ScriptedProvider:
    return scripted.ScriptedProvider(scripted.tool_call("danger", {"x": 1}), scripted.text("After."))


async def test_an_answer_to_its_end(paper: StandardStreams, autojump_clock: trio.testing.MockClock) -> None:
    """Thoughts and outcome go to stderr, the answer to stdout, and a completed turn is exit code 0."""
    provider = scripted.ScriptedProvider(scripted.text("Hel", "lo.", thinking="hm"))
    async with open_checked_service(config(provider)) as service:
        code = await converse(service, options(), paper, NoSignals())

    said = "✻ hm\n✓ completed in 0.0 ms · 1 step · about 31 tokens in, 3 out\n"
    assert (0, ("Hello.\n", said)) == (code, written(paper))


async def test_a_failed_turn(paper: StandardStreams, autojump_clock: trio.testing.MockClock) -> None:
    """A turn that fails is exit code 1 and says why, also when it should be quiet."""
    provider = scripted.ScriptedProvider(scripted.failure("refused", "I will not"))
    async with open_checked_service(config(provider)) as service:
        code = await converse(service, options(quiet=True), paper, NoSignals())

    out, err = written(paper)
    assert (1, "") == (code, out)
    assert "I will not" in err


async def test_quiet_prints_the_final_text_only(paper: StandardStreams, autojump_clock: trio.testing.MockClock) -> None:
    """With --quiet stdout holds the last answer, safe to print, and stderr holds nothing."""
    tool = scripted.ScriptedTool("danger")
    async with open_checked_service(config(two_steps(), tool)) as service:
        code = await converse(service, options(quiet=True), paper, NoSignals())

    assert (0, ("After.\n", "")) == (code, written(paper))


@pytest.mark.parametrize("yes", [False, True])
async def test_consent_without_a_terminal(
    yes: bool,  # noqa: FBT001 - given by parametrize
    paper: StandardStreams,
    autojump_clock: trio.testing.MockClock,
) -> None:
    """With nobody to ask, a tool is denied, which is said and is exit code 3; --yes lets it run and says so too."""
    tool = scripted.ScriptedTool("danger", effects=["write"])
    async with open_checked_service(config(two_steps(), tool)) as service:
        code = await converse(service, options(yes=yes), paper, NoSignals())

    _, err = written(paper)
    assert (0 if yes else 3) == code
    assert (1 if yes else 0) == len(tool.calls)
    assert ("because of --yes" if yes else "there is no terminal to ask on: denied") in err


@pytest.mark.parametrize(
    ("line", "text", "code", "ending"),
    [
        (("full", 0), "hello", 0, "✓ completed in T · 0 steps · 1 tool call\n"),
        (("full", 7), "oops", 1, "✗ failed after T · 0 steps · 1 tool call\n"),
        (("read_only", 0), "never", 3, "■ not run · 0 steps\n"),
    ],
)
async def test_a_shell_line(
    line: tuple[sc.PermissionMode, int],
    text: str,
    code: int,
    ending: str,
    paper: StandardStreams,
) -> None:
    """A shell line that worked gives exit code 0, one that failed 1, one that was denied 3; the last line says so."""
    mode, exit_code = line

    async def run(_arguments: sc.JsonObject, _context: sc.ToolContext) -> sc.ToolOutput:
        return sc.ToolOutput(text=text, details=sc.JsonObject({"exit_code": exit_code}))

    tool = scripted.ScriptedTool("bash", effects=["execute"], run=run)
    setting = attrs.evolve(config(scripted.ScriptedProvider(), tool), permission_mode=mode)
    async with open_checked_service(setting) as service:
        given = await converse(service, options("!make"), paper, NoSignals())

    out, err = written(paper)
    assert (code, "" if code == 3 else f"{text}\n") == (given, out)
    assert re.sub(r"[\d.]+ m?s\b", "T", err).endswith(ending)


@pytest.mark.parametrize(
    ("typed", "calls"), [("y\n", 1), ("s\n", 1), ("ALWAYS\n", 1), ("\n", 0), ("use x=2 instead\n", 0)]
)
async def test_consent_by_keyboard(typed: str, calls: int) -> None:
    """On a terminal the person is asked; whatever is not clearly a yes is a no, and what it says reaches the model."""
    tool = scripted.ScriptedTool("danger", effects=["write"])
    keyboard, hand = os.pipe()
    os.write(hand, typed.encode())
    streams = StandardStreams(out=Paper(), err=Paper(), keyboard=keyboard)
    provider = two_steps()
    async with open_checked_service(config(provider, tool)) as service:
        code = await converse(service, options(), streams, NoSignals())
    os.close(hand)
    os.close(keyboard)

    (result,) = [part for part in provider.requests[-1].messages[-1].parts if isinstance(part, sc.ToolResultPart)]
    assert (0, calls) == (code, len(tool.calls))
    assert (
        "Allow danger(x=1)?\n  asked for because it changes files\n  [y]es once, [s] every danger of this session,"
        in written(streams)[1]
    )
    assert ("The user says: use x=2 instead" in result.text) == typed.startswith("use")


def test_typed_answers() -> None:
    """The letters and their words are understood in any case, and nothing at all is a no."""
    words = ["y", " YES \n", "s", "Session", "a", "always", "n", "no", "", " \n"]
    decisions = [parse_answer(word).decision for word in words]

    assert ["allow_once"] * 2 + ["allow_session"] * 2 + ["allow_always"] * 2 + ["deny"] * 4 == decisions
    assert not any(parse_answer(word).unclear for word in words)
    assert TypedApprovalAnswer(wants_all=True) == parse_answer("v\n", cut=True)


@pytest.mark.parametrize(
    "typed", ["ok", "Sure", "yes please", "yes, but not in src", "go ahead", "do it", "please do", "v", "q", "ja"]
)
def test_what_may_be_a_yes_is_unclear(typed: str) -> None:
    """A word that is no answer, and a sentence that begins like a yes, are neither a yes nor a no."""
    assert TypedApprovalAnswer(unclear=True) == parse_answer(typed)


@pytest.mark.parametrize("typed", ["use x=2 instead", "no, use x=2", "do not touch it", "please use x=2 there"])
def test_a_sentence_is_a_no_with_a_message(typed: str) -> None:
    """What the model should do instead is a no, and goes to the model as it was typed."""
    assert TypedApprovalAnswer(decision="deny", message=typed) == parse_answer(f" {typed}\n")


@pytest.mark.parametrize(("then", "calls"), [(b"y\n", 1), (b"\n", 0), (None, 0)])
async def test_an_unclear_answer_is_asked_again(then: bytes | None, calls: int) -> None:
    """After `ok` the person is asked again, what is said then counts, and a keyboard that is gone says no."""
    tool = scripted.ScriptedTool("danger", effects=["write"])
    keyboard, hand = os.pipe()
    os.write(hand, b"ok\n")
    err = Typing("not clear", then, hand)
    async with open_checked_service(config(two_steps(), tool)) as service:
        code = await converse(service, options(), StandardStreams(out=Paper(), err=err, keyboard=keyboard), NoSignals())
    os.close(keyboard)

    assert (0, calls, 1) == (code, len(tool.calls), err.text.count("that is not clear, so nothing was done yet"))


class Typing(Paper):
    """Paper whose reader types something once a text has appeared, and then lets go of the keyboard."""

    def __init__(self, after: str, typed: bytes | None, hand: int) -> None:
        super().__init__()
        self._after, self._typed, self._hand = after, typed, hand

    async def write(self, data: str | bytes) -> None:
        await super().write(data)
        if isinstance(data, str) and self._after in data:
            if self._typed is not None:
                os.write(self._hand, self._typed)
            os.close(self._hand)


async def test_a_stop_withdraws_a_question(autojump_clock: trio.testing.MockClock, interrupts: None) -> None:
    """Ctrl-C while a question is open stops the turn instead of waiting for an answer."""
    tool = scripted.ScriptedTool("danger", effects=["write"])
    keyboard, hand = os.pipe()
    streams = StandardStreams(out=Paper(), err=Paper(), keyboard=keyboard)
    send, receive = trio.open_memory_channel[int](9)

    async def interrupt_when_asked(service: sc.SessionService) -> None:
        async with service.follow(None) as session_list:
            async for item in session_list:
                if isinstance(item, sc.SessionEvent) and isinstance(item.event, sc.events.ApprovalRequested):
                    await send.send(signal.SIGINT)
                    return

    async with open_checked_service(config(two_steps(), tool)) as service, trio.open_nursery() as nursery:
        nursery.start_soon(interrupt_when_asked, service)
        code = await converse(service, options(), streams, receive)
    os.close(hand)
    os.close(keyboard)

    assert (130, 0) == (code, len(tool.calls))
    assert "stopped after" in written(streams)[1]


async def test_a_question_answered_elsewhere_is_withdrawn(autojump_clock: trio.testing.MockClock) -> None:
    """When another client answers first, the keyboard belongs to the next question."""
    tool = scripted.ScriptedTool("danger", effects=["write"])
    provider = scripted.ScriptedProvider(
        scripted.tool_call("danger", {"x": 1}), scripted.tool_call("danger", {"x": 2}), scripted.text("After.")
    )
    keyboard, hand = os.pipe()
    streams = StandardStreams(out=Paper(), err=Paper(), keyboard=keyboard)

    async def answer(service: sc.SessionService) -> None:
        async with service.follow(None) as session_list:
            async for item in session_list:
                match item:
                    case sc.SessionEvent(session_id=str() as session_id, event=sc.events.ApprovalRequested() as asked):
                        await trio.testing.wait_all_tasks_blocked()
                        if tool.calls:
                            os.write(hand, b"y\n")
                            return
                        await service.answer_approval(session_id, asked.approval.request_id, "allow_once")
                    case _:
                        pass

    async with open_checked_service(config(provider, tool)) as service, trio.open_nursery() as nursery:
        nursery.start_soon(answer, service)
        with trio.fail_after(5):
            code = await converse(service, options(), streams, NoSignals())
    os.close(hand)
    os.close(keyboard)

    assert (0, 2) == (code, len(tool.calls))


async def test_a_display_that_falls_behind(autojump_clock: trio.testing.MockClock) -> None:
    """While stdout is stuck the session goes on; the display then lags, resyncs, and repeats and loses nothing."""
    chunks = [f"{number} " for number in range(100)]
    provider = scripted.ScriptedProvider(
        (
            sc.TextChunk(text=chunks[0]),
            scripted.Pause("stuck"),
            *(sc.TextChunk(text=chunk) for chunk in chunks[1:90]),
            scripted.Pause("lagged"),
            *(sc.TextChunk(text=chunk) for chunk in chunks[90:]),
            sc.ModelFinished(usage=sc.Usage()),
        )
    )
    out, err = Paper(), Paper()
    out.fill()

    async def drive() -> None:
        await out.blocked.wait()
        provider.release("stuck")
        await provider.wait_for_pause("lagged")
        out.empty()
        await trio.testing.wait_all_tasks_blocked()
        provider.release("lagged")

    async with open_checked_service(config(provider, capacity=16)) as service, trio.open_nursery() as nursery:
        nursery.start_soon(drive)
        code = await converse(service, options(), StandardStreams(out=out, err=err), NoSignals())

    assert (0, "".join(chunks) + "\n") == (code, out.text)
    assert "fell behind by 73 events" in err.text


async def test_json_after_a_lag_still_folds(autojump_clock: trio.testing.MockClock) -> None:
    """With --json a lag shows as a second snapshot, and folding the lines gives the state at the end."""
    provider = scripted.ScriptedProvider(
        (*(sc.TextChunk(text=f"{number} ") for number in range(100)), sc.ModelFinished(usage=sc.Usage()))
    )
    out = Paper()
    async with open_checked_service(config(provider, capacity=16)) as service:
        code = await converse(service, options(json=True), StandardStreams(out=out, err=Paper()), NoSignals())
        session = (await service.list_sessions()).sessions[0]
        final = await service.load_session(session.session_id)

    lines = out.text.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith('{"type":"session_snapshot"')]
    snapshot = sc.wire.decode(lines[starts[-1]], sc.SessionSnapshot)
    events = [sc.wire.decode(line, sc.SessionEvent) for line in lines[starts[-1] + 1 :]]
    assert (0, 2) == (code, len(starts))
    assert final == sc.fold(snapshot, events)


class Stubborn:
    """A model that needs three seconds to let go."""

    @asynccontextmanager
    async def stream(self, request: sc.ModelRequest) -> AsyncIterator[AsyncIterator[sc.ProviderEvent]]:
        yield self._events()

    async def _events(self) -> AsyncIterator[sc.ProviderEvent]:
        yield sc.TextChunk(text="half ")
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(3)


@pytest.mark.parametrize(
    ("signals", "ended"),
    [
        ([signal.SIGINT], (130, 3)),
        ([signal.SIGINT, signal.SIGINT], (130, 0)),
        ([signal.SIGTERM], (143, 0)),
    ],
)
async def test_signals(
    signals: list[int],
    ended: tuple[int, int],
    paper: StandardStreams,
    autojump_clock: trio.testing.MockClock,
    interrupts: None,
) -> None:
    """One Ctrl-C waits for the turn to stop, a second leaves at once, and so does a request to end."""
    send, receive = trio.open_memory_channel[int](9)
    for number in signals:
        send.send_nowait(number)

    async def when_streaming() -> AsyncGenerator[int, None]:
        await trio.testing.wait_all_tasks_blocked()
        async for number in receive:
            yield number

    async with open_checked_service(config(Stubborn())) as service:
        begun = trio.current_time()
        code = await converse(service, options(), paper, when_streaming())
        took = round(trio.current_time() - begun)

    out, err = written(paper)
    assert ended == (code, took)
    assert out.startswith("half ")
    assert ("the partial answer was kept (1 word)" in err) == (took > 0)


async def test_ctrl_c_at_the_very_beginning(
    paper: StandardStreams, autojump_clock: trio.testing.MockClock, interrupts: None
) -> None:
    """A Ctrl-C that comes together with the prompt ends the program with 130, whichever of the two is first."""
    send, receive = trio.open_memory_channel[int](9)
    send.send_nowait(signal.SIGINT)
    async with open_checked_service(config(scripted.ScriptedProvider(scripted.Hang()))) as service:
        code = await converse(service, options(), paper, receive)

    out, err = written(paper)
    assert (130, "") == (code, out)
    assert "stopped" in err


async def test_any_prompt_makes_a_session(paper: StandardStreams, autojump_clock: trio.testing.MockClock) -> None:
    """A prompt of characters that no name may hold is still sent as it is."""
    provider = scripted.ScriptedProvider(scripted.text("ok"))
    prompt = "\ue000\x1b[31m\n" + "x" * 300
    async with open_checked_service(config(provider)) as service:
        code = await converse(service, options(prompt), paper, NoSignals())
        name = (await service.list_sessions()).sessions[0].name

    assert (0, prompt) == (code, provider.requests[0].messages[0].text)
    assert name.startswith("xxx")
