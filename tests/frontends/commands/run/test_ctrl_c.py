"""Ctrl-C in `run` beside others: it ends what is ours, wherever that is, and nothing that they have begun."""

import signal

import trio
import trio.testing

import session_core as sc
from frontends.commands.run.options import InteractionOptions, RunOptions
from frontends.commands.run.run import converse
from frontends.shared.streams import StandardStreams
from session_core.testing import scripted
from session_core.testing.checked import open_checked_service
from tests.frontends._paper import Paper, config
from tests.frontends.commands.run._shared import BUSY, Shared, share

Clock = trio.testing.MockClock
NOT_SENT = "stopped before the turn began; nothing was sent to the model; the work before it continues"


class CtrlC:
    """Somebody who presses Ctrl-C, and waits until that has had its effect."""

    def __init__(self) -> None:
        self._send, self.signals = trio.open_memory_channel[int](1)

    async def press(self, _: sc.SessionState | None = None) -> None:
        """Press it."""
        await self._send.send(signal.SIGINT)
        await trio.testing.wait_all_tasks_blocked()

    async def terminate(self) -> None:
        """Ask the program to end instead."""
        await self._send.send(signal.SIGTERM)
        await trio.testing.wait_all_tasks_blocked()


async def how_it_went(shared: Shared, provider: scripted.ScriptedProvider) -> tuple[object, ...]:
    """Let the turn of the others come to its end; returns our exit code, how theirs ended, and what is left of ours."""
    code = shared.code
    provider.release("theirs")
    theirs = await shared.service.wait_for_turn(shared.session_id)
    state = await shared.state()
    return code, theirs.outcome.status, state.queue, [each.text for each in state.messages]


LEFT_ALONE = (130, "completed", (), ["busy", "Theirs."])


async def test_before_our_message_is_there(autojump_clock: Clock) -> None:
    """Ctrl-C while our message is on its way takes it back when it has come, and leaves the turn of others alone."""
    provider, ctrl_c = scripted.ScriptedProvider(BUSY), CtrlC()
    async with open_checked_service(config(provider)) as service:
        shared = await share(service)
        await shared.run("me too", InteractionOptions(), ctrl_c.signals, before=ctrl_c.press)
        went = await how_it_went(shared, provider)

    assert LEFT_ALONE == went
    assert NOT_SENT in shared.err


async def test_before_we_are_told_of_it(autojump_clock: Clock) -> None:
    """The same holds when our message waits already, and only the word of it is on its way."""
    provider, ctrl_c = scripted.ScriptedProvider(BUSY), CtrlC()
    async with open_checked_service(config(provider)) as service:
        shared = await share(service)
        await shared.run("me too", InteractionOptions(), ctrl_c.signals, after=ctrl_c.press)
        went = await how_it_went(shared, provider)

    assert LEFT_ALONE == went
    assert NOT_SENT in shared.err


async def test_a_request_to_end_takes_back_what_is_on_its_way(autojump_clock: Clock, interrupts: None) -> None:
    """SIGTERM while our message is on its way takes it back as Ctrl-C does, and says so."""
    provider, ctrl_c = scripted.ScriptedProvider(BUSY), CtrlC()
    async with open_checked_service(config(provider)) as service:
        shared = await share(service)
        await shared.run("me too", InteractionOptions(), ctrl_c.signals, before=ctrl_c.terminate)
        went = await how_it_went(shared, provider)

    assert (143, *LEFT_ALONE[1:]) == went
    assert NOT_SENT in shared.err


async def test_a_request_to_end_takes_back_what_waits(autojump_clock: Clock, interrupts: None) -> None:
    """SIGTERM while our message waits in the queue of a busy session takes it back, so that it is never answered."""
    provider, ctrl_c = scripted.ScriptedProvider(BUSY), CtrlC()
    async with open_checked_service(config(provider)) as service, trio.open_nursery() as nursery:
        shared = await share(service)
        nursery.start_soon(shared.run, "me too", InteractionOptions(), ctrl_c.signals)
        await trio.testing.wait_all_tasks_blocked()
        await ctrl_c.terminate()
        went = await how_it_went(shared, provider)

    assert (143, *LEFT_ALONE[1:]) == went
    assert NOT_SENT in shared.err


async def test_a_message_that_takes_long(autojump_clock: Clock) -> None:
    """Whoever presses Ctrl-C while a message stays away for long is told what is waited for."""
    provider, ctrl_c = scripted.ScriptedProvider(BUSY), CtrlC()
    async with open_checked_service(config(provider)) as service:
        shared = await share(service)

        async def think() -> None:
            await ctrl_c.press()
            async with service.subscribe() as events:
                with trio.move_on_after(5):  # of a clock that jumps
                    await events.receive_batch()

        await shared.run("me too", InteractionOptions(), ctrl_c.signals, before=think)
        went = await how_it_went(shared, provider)

    assert LEFT_ALONE == went
    assert "Your message is being sent, and will be withdrawn once it arrives" in shared.err


async def test_before_anything_is_sent(autojump_clock: Clock) -> None:
    """After a Ctrl-C nothing is sent any more; what others have begun goes on."""
    provider, ctrl_c, sent = scripted.ScriptedProvider(BUSY), CtrlC(), list[bool]()
    async with open_checked_service(config(provider)) as service:
        shared = await share(service)

        async def send() -> None:
            sent.append(True)

        await shared.run("me too", InteractionOptions(), ctrl_c.signals, before=send, meet=ctrl_c.press)
        went = await how_it_went(shared, provider)

    assert (LEFT_ALONE, []) == (went, sent)
    assert NOT_SENT in shared.err


async def test_nothing_is_left_of_a_session_that_was_not_used(autojump_clock: Clock) -> None:
    """A session that was made for a prompt which is not sent after all does not stay behind."""
    ctrl_c = CtrlC()
    async with open_checked_service(config(scripted.ScriptedProvider())) as service:
        with service.attach("cli") as client:
            streams = StandardStreams(out=Paper(), err=Paper())
            code = await converse(client, RunOptions(prompt="go"), streams, ctrl_c.signals, meet=ctrl_c.press)
        left = (await service.list_sessions()).sessions

    assert (130, ()) == (code, left)


async def test_our_own_turn_is_stopped(autojump_clock: Clock) -> None:
    """A turn that our message has begun is stopped, also if nobody has told us yet that it has begun."""
    provider, ctrl_c = scripted.ScriptedProvider((sc.TextChunk(text="Ours"), scripted.Pause("ours"))), CtrlC()
    async with open_checked_service(config(provider)) as service:
        shared = await share(service, says=None)
        await shared.run("go", InteractionOptions(), ctrl_c.signals, after=ctrl_c.press)
        state = await shared.state()

    assert state.last_outcome is not None
    assert (130, "stopped") == (shared.code, state.last_outcome.status)


async def test_when_our_message_is_answered(autojump_clock: Clock) -> None:
    """When the turn that has answered us goes on with a message of somebody else, Ctrl-C leaves without stopping it."""
    provider, ctrl_c = scripted.ScriptedProvider((scripted.Pause("ours"), *scripted.text("Ours.")), BUSY), CtrlC()
    async with open_checked_service(config(provider)) as service, trio.open_nursery() as nursery:
        shared = await share(service, says=None)
        nursery.start_soon(shared.run, "go", InteractionOptions(), ctrl_c.signals)
        await provider.wait_for_pause("ours")
        await service.send_user_message(shared.session_id, "me too")
        provider.release("ours")
        await provider.wait_for_pause("theirs")
        await ctrl_c.press()
        went = await how_it_went(shared, provider)

    assert (130, "completed", (), ["go", "Ours.", "me too", "Theirs."]) == went
    assert "Ours.\n" == shared.out
