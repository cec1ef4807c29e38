"""`run` while its own message or shell line is on its way: an extension may ask about it before it is let through."""

import os
from collections.abc import Generator
from functools import partial

import pytest
import trio
import trio.testing

import session_core as sc
from frontends.commands.run.options import InteractionOptions
from frontends.shared.streams import StandardStreams
from session_core.testing import scripted
from session_core.testing.checked import open_checked_service
from tests.frontends._paper import Paper, config
from tests.frontends.commands.run._shared import BUSY, Shared, share

Clock = trio.testing.MockClock


class Typist(Paper):
    """Says yes when asked."""

    def __init__(self, hand: int) -> None:
        super().__init__()
        self._hand = hand

    async def write(self, data: str | bytes) -> None:
        await super().write(data)
        if isinstance(data, str) and data.endswith("dismisses it: "):
            os.write(self._hand, b"y\n")


@pytest.fixture
def at_keyboard() -> Generator[StandardStreams]:
    """A terminal with somebody who says yes."""
    keyboard, hand = os.pipe()
    yield StandardStreams(out=Paper(), err=Typist(hand), keyboard=keyboard)
    os.close(keyboard)
    os.close(hand)


async def ask(shared: Shared, asked: list[object]) -> None:
    """Be the one who asks people before something is let through."""
    with shared.service.attach("gate", ui={"confirm"}) as gate, trio.fail_after(300):
        asked.append((await gate.open_dialog(shared.session_id, "confirm", "Let it through?")).value)


@pytest.mark.parametrize("says", [None, "busy"])
async def test_a_question_about_our_message(says: str | None, at_keyboard: StandardStreams) -> None:
    """What is asked before our message is let through is asked at once, also beside a turn of others."""
    busy = [BUSY] if says is not None else []
    provider, asked = scripted.ScriptedProvider(*busy, scripted.text("Ours.")), list[object]()
    async with open_checked_service(config(provider)) as service:
        shared = await share(service, says=says)
        shared.streams = at_keyboard

        async def before() -> None:
            await ask(shared, asked)
            provider.release("theirs")

        await shared.run("go", InteractionOptions(), before=before)

    assert ([True], 0, "Ours.\n") == (asked, shared.code, shared.out)


async def test_a_question_about_our_shell_line(at_keyboard: StandardStreams) -> None:
    """What is asked before a line for the shell is run is asked at once, and then it is run."""
    shell, asked = scripted.ScriptedTool("bash", effects=["read"]), list[object]()
    async with open_checked_service(config(scripted.ScriptedProvider(), shell)) as service:
        shared = await share(service, says=None)
        await service.change_permission_mode(shared.session_id, "full")
        shared.streams = at_keyboard
        await shared.run("!ls", InteractionOptions(), before=lambda: ask(shared, asked), at="RunShellLine")

    assert ([True], 0, 1) == (asked, shared.code, len(shell.calls))


async def test_our_turn_begins_before_we_are_told_of_it(autojump_clock: Clock) -> None:
    """What our turn says and asks while only the word of it is on its way is ours: `--yes` is meant for that."""
    tool = scripted.ScriptedTool("danger", effects=["write"])
    provider = scripted.ScriptedProvider(scripted.tool_call("danger"), scripted.text("Ours."))
    async with open_checked_service(config(provider, tool)) as service:
        shared = await share(service, says=None)

        await shared.run("go", InteractionOptions(yes=True), after=trio.testing.wait_all_tasks_blocked)

    assert (1, 0, "Ours.\n") == (len(tool.calls), shared.code, shared.out)


async def test_our_turn_ends_before_we_are_told_of_it(autojump_clock: Clock) -> None:
    """A turn that is over when the word of our message comes is shown as ours, to its end."""
    provider = scripted.ScriptedProvider(scripted.text("Ours."))
    async with open_checked_service(config(provider)) as service:
        shared = await share(service, says=None)
        await shared.run("go", InteractionOptions(), after=partial(service.wait_for_turn, shared.session_id))

    assert (0, "Ours.\n") == (shared.code, shared.out)


async def test_a_message_that_is_refused(autojump_clock: Clock) -> None:
    """Whoever refuses our message is quoted, though something else is shown meanwhile."""
    async with open_checked_service(config(scripted.ScriptedProvider(BUSY))) as service:
        shared = await share(service)

        async def refuse() -> None:
            raise sc.Forbidden("not today")

        with pytest.RaisesGroup(pytest.RaisesExc(sc.Forbidden, match="not today")):
            await shared.run("go", InteractionOptions(), before=refuse)
        await service.request_stop(shared.session_id)
