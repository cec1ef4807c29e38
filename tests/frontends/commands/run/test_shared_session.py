"""`run` in a session that others use at the same time: whose turn it is, and whose questions."""

import signal

import pytest
import trio
import trio.testing

import session_core as sc
from frontends.commands.run.options import InteractionOptions
from frontends.shared.streams import StandardStreams
from session_core.testing import scripted
from session_core.testing.checked import open_checked_service
from tests.frontends._paper import Paper, config
from tests.frontends.commands.run._shared import BUSY, share

Clock = trio.testing.MockClock


# --- whose turn -------------------------------------------------------------------------------------------------------


async def test_a_prompt_waits_for_its_own_answer(autojump_clock: Clock) -> None:
    """A prompt to a busy session is answered after what runs, which is shown on stderr; stdout has our answer alone."""
    provider = scripted.ScriptedProvider(BUSY, scripted.text("Ours."))
    async with open_checked_service(config(provider)) as service, trio.open_nursery() as nursery:
        shared = await share(service)
        nursery.start_soon(shared.run, "me too", InteractionOptions())
        await trio.testing.wait_all_tasks_blocked()
        before = shared.code, shared.err
        provider.release("theirs")

    assert before[0] is None
    assert "your message waits until it is free" in before[1]
    assert (0, "Ours.\n") == (shared.code, shared.out)
    assert shared.err.index("Theirs") < shared.err.index("Your message is being answered now.")


@pytest.mark.parametrize("interaction", [InteractionOptions(), InteractionOptions(quiet=True)])
async def test_what_others_say_later_is_not_our_answer(interaction: InteractionOptions, autojump_clock: Clock) -> None:
    """When our turn goes on with a message that somebody else sent meanwhile, stdout has the answer to ours alone."""
    tool = scripted.ScriptedTool("look")
    provider = scripted.ScriptedProvider(
        scripted.tool_call("look"), (scripted.Pause("ours"), *scripted.text("Ours.")), scripted.text("Theirs.")
    )
    async with open_checked_service(config(provider, tool)) as service, trio.open_nursery() as nursery:
        shared = await share(service, says=None)
        await service.change_permission_mode(shared.session_id, "full")
        nursery.start_soon(shared.run, "go", interaction)
        await provider.wait_for_pause("ours")
        await service.send_user_message(shared.session_id, "me too")
        provider.release("ours")

    assert (0, "Ours.\n") == (shared.code, shared.out)
    assert interaction.quiet or "The turn continues with a message of another client.\nTheirs.\n" in shared.err


@pytest.mark.parametrize(
    "interaction", [InteractionOptions(), InteractionOptions(quiet=True), InteractionOptions(json=True)]
)
async def test_a_failure_of_others_is_not_our_end(interaction: InteractionOptions, autojump_clock: Clock) -> None:
    """When what ran before fails, the message that waited begins a turn of its own, and its outcome is what counts."""
    failing = (sc.TextChunk(text="Theirs"), scripted.Pause("theirs"), *scripted.failure("refused", "I will not"))
    provider = scripted.ScriptedProvider(failing, scripted.text("Ours."))
    async with open_checked_service(config(provider)) as service, trio.open_nursery() as nursery:
        shared = await share(service)
        nursery.start_soon(shared.run, "me too", interaction)
        await trio.testing.wait_all_tasks_blocked()
        provider.release("theirs")

    assert 0 == shared.code
    if interaction.json:
        lines = shared.out.splitlines()
        folded = sc.fold(
            sc.wire.decode(lines[0].encode(), sc.SessionSnapshot),
            [sc.wire.decode(each.encode(), sc.SessionEvent) for each in lines[1:]],
        )
        assert ("Ours.", ()) == (folded.transcript[-1].text, folded.queue)
    else:
        assert "Ours.\n" == shared.out


async def test_a_stop_of_others_takes_our_message_back(autojump_clock: Clock) -> None:
    """After somebody's stop nothing begins: the message that waited is taken back, and that is a failure."""
    provider = scripted.ScriptedProvider(BUSY)
    async with open_checked_service(config(provider)) as service, trio.open_nursery() as nursery:
        shared = await share(service)
        nursery.start_soon(shared.run, "me too", InteractionOptions())
        await trio.testing.wait_all_tasks_blocked()
        await service.request_stop(shared.session_id)
        await trio.testing.wait_all_tasks_blocked()
        after = await shared.state()

    assert (1, ()) == (shared.code, after.queue)
    assert "your message was withdrawn; nothing was sent to the model." in shared.err


async def test_a_message_that_others_remove(autojump_clock: Clock) -> None:
    """When somebody empties the queue, `run` says so and leaves; what runs goes on."""
    provider = scripted.ScriptedProvider(BUSY)
    async with open_checked_service(config(provider)) as service, trio.open_nursery() as nursery:
        shared = await share(service)
        nursery.start_soon(shared.run, "me too", InteractionOptions())
        await trio.testing.wait_all_tasks_blocked()
        await service.take_queue(shared.session_id)
        await trio.testing.wait_all_tasks_blocked()
        code, running = shared.code, (await shared.state()).turn
        provider.release("theirs")

    assert 1 == code
    assert running is not None
    assert "Your message was removed from the queue" in shared.err


async def test_ctrl_c_while_it_waits(autojump_clock: Clock) -> None:
    """Ctrl-C takes back the message that waits, and leaves what others have begun alone."""
    provider = scripted.ScriptedProvider(BUSY)
    send, receive = trio.open_memory_channel[int](1)
    async with open_checked_service(config(provider)) as service, trio.open_nursery() as nursery:
        shared = await share(service)
        nursery.start_soon(shared.run, "me too", InteractionOptions(), receive)
        await trio.testing.wait_all_tasks_blocked()
        await send.send(signal.SIGINT)
        await trio.testing.wait_all_tasks_blocked()
        code, state = shared.code, await shared.state()
        provider.release("theirs")
        ended = await service.wait_for_turn(shared.session_id)

    assert (130, ()) == (code, state.queue)
    assert "completed" == ended.outcome.status
    assert "nothing was sent to the model; the work before it continues" in shared.err


async def test_a_turn_that_ends_while_we_come_is_not_ours(autojump_clock: Clock) -> None:
    """A turn that ends between our look at the session and our message is not taken for the answer to it."""
    provider = scripted.ScriptedProvider(BUSY, scripted.text("Ours."))
    async with open_checked_service(config(provider)) as service:
        shared = await share(service)

        async def end() -> None:
            provider.release("theirs")
            await service.wait_for_turn(shared.session_id)

        await shared.run("me too", InteractionOptions(), before=end)

    assert (0, "Ours.\n") == (shared.code, shared.out)


async def test_falling_behind_loses_neither_turn_nor_outcome(autojump_clock: Clock) -> None:
    """Whoever cannot keep up still finds the turn that has taken the message up, and its outcome, however late."""
    many = [sc.TextChunk(text="x") for _ in range(200)]
    provider = scripted.ScriptedProvider(
        BUSY, (*many, sc.ModelFinished()), scripted.text("Later."), scripted.text("Last.")
    )
    err = Paper()
    async with open_checked_service(config(provider, capacity=16)) as service, trio.open_nursery() as nursery:
        shared = await share(service)
        shared.streams = StandardStreams(out=Paper(), err=err)
        nursery.start_soon(shared.run, "me too", InteractionOptions())
        await trio.testing.wait_all_tasks_blocked()
        err.fill()
        provider.release("theirs")
        await service.wait_for_turn(shared.session_id)
        for prompt in ("later", "last"):
            await service.send_user_message(shared.session_id, prompt)
            await service.wait_for_turn(shared.session_id)
        err.empty()

    assert (0, "x" * 200 + "\n") == (shared.code, shared.out)
    assert "completed in 0.0 ms · 2 steps" in shared.err, "the turn of both messages, not the last one"


# --- whose questions --------------------------------------------------------------------------------------------------


async def test_a_question_to_another_client_is_theirs(autojump_clock: Clock) -> None:
    """A dialog that names another client is neither answered nor dismissed here, and does not end the turn."""
    provider = scripted.ScriptedProvider((scripted.Pause("now"), *scripted.text("After.")))
    replies: list[sc.replies.DialogReply] = []
    async with open_checked_service(config(provider)) as service, trio.open_nursery() as nursery:
        shared = await share(service, says=None)
        with service.attach("web", ui={"confirm"}) as other:

            async def ask() -> None:
                replies.append(await service.open_dialog(shared.session_id, "confirm", "Really?", to=other.client_id))

            nursery.start_soon(shared.run, "go", InteractionOptions())
            await provider.wait_for_pause("now")
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            (dialog,) = (await shared.state()).dialogs
            provider.release("now")
            await service.wait_for_turn(shared.session_id)
            await trio.testing.wait_all_tasks_blocked()
            await other.answer_dialog(shared.session_id, dialog.request_id, value=True)

    assert (0, [True]) == (shared.code, [each.value for each in replies])
    assert "Asked another client: Really?: only that client can answer it." in shared.err


async def test_a_question_that_was_open_is_left_open(autojump_clock: Clock) -> None:
    """A dialog that was there before us, with no turn, is left to those who are there, and that is said."""
    provider = scripted.ScriptedProvider(scripted.text("Ours."))
    async with open_checked_service(config(provider)) as service, trio.open_nursery() as nursery:
        shared = await share(service, says=None)
        nursery.start_soon(service.open_dialog, shared.session_id, "confirm", "Really?")
        await trio.testing.wait_all_tasks_blocked()
        await shared.run("go", InteractionOptions())
        left = (await shared.state()).dialogs
        await service.answer_dialog(shared.session_id, left[0].request_id, value=True)

    assert (0, 1, "Ours.\n") == (shared.code, len(left), shared.out)
    assert "there is no terminal to ask on, so it is left to other clients" in shared.err


@pytest.mark.parametrize(
    "interaction", [InteractionOptions(), InteractionOptions(approve="never"), InteractionOptions(yes=True)]
)
async def test_approvals_of_others_are_left_to_them(interaction: InteractionOptions, autojump_clock: Clock) -> None:
    """A prompt that waits answers nothing in the turn before it, with whatever options; in its own turn it does."""
    tool = scripted.ScriptedTool("danger", effects=["write"])
    provider = scripted.ScriptedProvider(
        scripted.tool_call("danger", {"x": 1}),
        scripted.tool_call("danger", {"x": 2}),
        scripted.text("Theirs."),
        scripted.tool_call("danger", {"x": 3}),
        scripted.text("Ours."),
    )
    async with open_checked_service(config(provider, tool)) as service, trio.open_nursery() as nursery:
        shared = await share(service)
        nursery.start_soon(shared.run, "me too", interaction)
        for _ in range(2):
            await trio.testing.wait_all_tasks_blocked()
            (approval,) = (await shared.state()).approvals
            await service.answer_approval(shared.session_id, approval.request_id, "allow_once")
        await trio.testing.wait_all_tasks_blocked()
        after = await shared.state()

    ours = [3] if interaction.yes else []
    assert [1, 2, *ours] == [each["x"] for each in tool.calls]
    assert (0 if interaction.yes else 3, 2) == (shared.code, shared.err.count("left to other clients"))
    assert after.last_outcome is not None
    assert "Ours.\n" == shared.out


async def test_yes_without_a_prompt_is_for_what_is_followed(autojump_clock: Clock) -> None:
    """Whoever goes on with a session that waits for a yes, and says --yes, gives it."""
    tool = scripted.ScriptedTool("danger", effects=["write"])
    provider = scripted.ScriptedProvider(scripted.tool_call("danger", {"x": 1}), scripted.text("Theirs."))
    async with open_checked_service(config(provider, tool)) as service:
        shared = await share(service)
        await shared.run(None, InteractionOptions(yes=True))

    assert (0, 1, "Theirs.\n") == (shared.code, len(tool.calls), shared.out)
