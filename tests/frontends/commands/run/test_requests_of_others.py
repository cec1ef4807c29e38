"""`run` without a terminal beside turns, commands and clients of others: what it answers, and what it leaves."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import session_core as sc
from frontends.commands.run.extensions import ui_kinds
from frontends.commands.run.options import InteractionOptions, RunOptions
from frontends.commands.run.run import converse
from frontends.shared.streams import StandardStreams
from session_core.testing import scripted
from session_core.testing.checked import open_checked_service
from tests.frontends._paper import NoSignals, Paper, config, written
from tests.frontends.commands.run._shared import Shared, share
from tests.session_core.sep._service import Home, open_world

Clock = trio.testing.MockClock
BOTH = pytest.mark.parametrize("interaction", [InteractionOptions(), InteractionOptions(yes=True)])
WAITS = "danger needs approval, and there is no terminal to ask on: left to other clients."


def danger() -> scripted.ScriptedTool:
    return scripted.ScriptedTool("danger", effects=["write"])


async def allow(shared: Shared) -> None:
    """Be the person elsewhere who answers what is open."""
    (approval,) = (await shared.state()).approvals
    await shared.service.answer_approval(shared.session_id, approval.request_id, "allow_once")
    await trio.testing.wait_all_tasks_blocked()


@BOTH
async def test_a_message_that_came_first_is_theirs(interaction: InteractionOptions, autojump_clock: Clock) -> None:
    """A message that gets in between our look at an idle session and ours has its own approvals, and its own answer."""
    tool = danger()
    provider = scripted.ScriptedProvider(
        scripted.tool_call("danger", {"x": "theirs"}), scripted.text("Theirs."), scripted.text("Ours.")
    )
    async with open_checked_service(config(provider, tool)) as service, trio.open_nursery() as nursery:
        shared = await share(service, says=None)

        async def come_first() -> None:
            await service.send_user_message(shared.session_id, "I was first")

        nursery.start_soon(partial(shared.run, before=come_first), "me too", interaction)
        await trio.testing.wait_all_tasks_blocked()
        before = list(tool.calls)
        await allow(shared)

    assert ([], 1) == (before, len(tool.calls))
    assert (0, "Ours.\n") == (shared.code, shared.out)
    assert WAITS in shared.err


@BOTH
async def test_who_begins_before_our_message_is_said_again(
    interaction: InteractionOptions, autojump_clock: Clock
) -> None:
    """When our message is said again after a failure of others, a turn that has begun meanwhile is theirs too."""
    tool = danger()
    failing = (scripted.Pause("theirs"), *scripted.failure("refused", "I will not"))
    provider = scripted.ScriptedProvider(
        failing, scripted.tool_call("danger", {"x": "B"}), scripted.text("B."), scripted.text("Ours.")
    )
    async with open_checked_service(config(provider, tool)) as service, trio.open_nursery() as nursery:
        shared = await share(service)
        said = []

        async def come_first() -> None:
            said.append(1)
            if len(said) == 2:
                await service.send_user_message(shared.session_id, "B")

        nursery.start_soon(partial(shared.run, before=come_first), "me too", interaction)
        await trio.testing.wait_all_tasks_blocked()
        provider.release("theirs")
        await trio.testing.wait_all_tasks_blocked()
        before = list(tool.calls)
        await allow(shared)

    assert ([], 1) == (before, len(tool.calls))
    assert (0, "Ours.\n") == (shared.code, shared.out)


@BOTH
async def test_what_our_turn_does_for_others_later(interaction: InteractionOptions, autojump_clock: Clock) -> None:
    """Once our message is answered, what the same turn does for a message of somebody else is left to them."""
    tool = danger()
    provider = scripted.ScriptedProvider(
        (scripted.Pause("ours"), *scripted.text("Ours.")), scripted.tool_call("danger"), scripted.text("Theirs.")
    )
    async with open_checked_service(config(provider, tool)) as service, trio.open_nursery() as nursery:
        shared = await share(service, says=None)
        nursery.start_soon(shared.run, "go", interaction)
        await provider.wait_for_pause("ours")
        await service.send_user_message(shared.session_id, "me too")
        provider.release("ours")
        await trio.testing.wait_all_tasks_blocked()
        before = list(tool.calls)
        await allow(shared)

    assert ([], 1) == (before, len(tool.calls))
    assert (0, "Ours.\n") == (shared.code, shared.out)


async def test_a_question_of_another_client_beside_our_turn(autojump_clock: Clock) -> None:
    """A dialog that another client opens while our turn runs is not dismissed here, and does not hold us up."""
    provider = scripted.ScriptedProvider((scripted.Pause("now"), *scripted.text("Ours.")))
    replies: list[sc.replies.DialogReply] = []
    async with open_checked_service(config(provider)) as service, trio.open_nursery() as nursery:
        shared = await share(service, says=None)
        with service.attach("web", ui={"confirm"}) as other:

            async def ask() -> None:
                replies.append(await other.open_dialog(shared.session_id, "confirm", "Deploy?"))

            nursery.start_soon(shared.run, "go", InteractionOptions(yes=True))
            await provider.wait_for_pause("now")
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            provider.release("now")
            await trio.testing.wait_all_tasks_blocked()
            code, (dialog,) = shared.code, (await shared.state()).dialogs
            await other.answer_dialog(shared.session_id, dialog.request_id, value=True)

    assert (0, [True]) == (code, [each.value for each in replies])
    assert "Deploy?: there is no terminal to ask on, so it is left to other clients." in shared.err


# --- questions of extensions ------------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path) -> Home:
    """A home with an extension that asks when its tool is used, and when its command is."""
    tools = [{"name": "ask", "description": "asks", "parameters": {"type": "object"}}]
    commands = [{"name": "do", "description": ""}]
    home = Home(tmp_path)
    home.install("gate", registrations={"tools": tools, "commands": commands})
    return home


def confirm(prompt: str, **context: str) -> list[Any]:
    """What an extension sends to ask something; the published protocol has no context in it."""
    return ["ui/request", {"kind": "confirm", "prompt": prompt, **context}]


async def opened(service: sc.SessionService, session_id: sc.SessionId, many: int) -> tuple[sc.Dialog, ...]:
    """Wait until so many dialogs are open in a session."""
    async with service.follow(session_id) as feed:
        while True:
            await feed.receive_batch()
            dialogs = (await service.load_session(session_id)).dialogs
            if len(dialogs) == many:
                return dialogs


async def test_a_question_of_an_extension_in_our_turn(place: Home) -> None:
    """What an extension asks while its tool runs in our turn is dismissed here, as our turn waits for that."""
    use = scripted.tool_call("gate.ask", {"calls": [confirm("In the turn?")]})
    streams = StandardStreams(out=Paper(), err=Paper())
    async with open_world(place, use, scripted.text("Ours.")) as world:
        with world.service.attach("web", ui={"confirm"}), world.service.attach("cli", ui=ui_kinds(streams)) as client:
            options = RunOptions(prompt="go", permissions="full")
            assert 0 == await converse(client, options, streams, NoSignals())

    assert "In the turn?: dismissed, because there is no terminal to ask on." in written(streams)[1]


async def test_a_command_of_others_beside_our_turn(place: Home) -> None:
    """What an extension asks in our turn is dismissed here, and what it asks in a command of others is left to them."""
    use = scripted.tool_call("gate.ask", {"calls": [confirm("In the turn?", context="$context")]})
    streams = StandardStreams(out=Paper(), err=Paper())
    replies: list[Any] = []
    async with open_world(place, (scripted.Pause("now"), *use), scripted.text("Ours.")) as world:
        service, provider = world.service, world.provider
        async with trio.open_nursery() as nursery:

            async def command(session_id: sc.SessionId) -> None:
                replies.extend(await world.do("gate", confirm("In a command?"), session_id=session_id))

            async def beside() -> None:
                await provider.wait_for_pause("now")
                session_id = (await service.load_service()).sessions[-1].session_id
                nursery.start_soon(command, session_id)
                (dialog,) = await opened(service, session_id, 1)
                provider.release("now")
                ended = await service.wait_for_turn(session_id)
                assert "completed" == ended.outcome.status
                await service.answer_dialog(session_id, dialog.request_id, value=True)

            with service.attach("web", ui={"confirm"}), service.attach("cli", ui=ui_kinds(streams)) as client:
                nursery.start_soon(beside)
                options = RunOptions(prompt="go", permissions="full")
                assert 0 == await converse(client, options, streams, NoSignals())

    out, err = written(streams)
    assert ("Ours.\n", [{"result": {"confirmed": True}}]) == (out, replies)
    assert "In a command?: there is no terminal to ask on, so it is left to other clients." in err
    assert "In the turn?: dismissed, because there is no terminal to ask on." in err
