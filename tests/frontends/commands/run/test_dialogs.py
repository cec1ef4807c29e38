"""Questions of extensions at the command line: how they are shown, and what an answer means."""

import os

import pytest
import trio

import session_core as sc
from frontends.commands.run.dialogs import Reply, dialog_question, parse_reply
from frontends.commands.run.options import InteractionOptions, RunOptions
from frontends.commands.run.run import converse
from frontends.shared.streams import StandardStreams
from frontends.shared.style import Style
from session_core.testing import scripted
from session_core.testing.checked import open_checked_service
from session_core.vocabulary.sessions import DialogKind
from tests.frontends._paper import NoSignals, Paper, config, written

PLAIN = Style()


def dialog(kind: DialogKind, *choices: str, default: str = "", message: str = "") -> sc.Dialog:
    return sc.Dialog(
        request_id=sc.RequestId("req_1"),
        kind=kind,
        title="Which \x1b[31mone?",
        message=message,
        choices=choices,
        default=default,
        extension="gate",
        opened_at=0,
        expires_at=1,
    )


@pytest.mark.parametrize(
    ("asked", "typed", "meant"),
    [
        (dialog("confirm"), "y\n", Reply(value=True)),
        (dialog("confirm"), " NO\n", Reply(value=False)),
        (dialog("confirm"), "\n", Reply()),
        (dialog("confirm"), "", Reply()),
        (dialog("confirm"), "maybe\n", Reply(unclear=True)),
        (dialog("select", "red", "blue"), "2\n", Reply(value="blue")),
        (dialog("select", "red", "blue"), "Red\n", Reply(value="red")),
        (dialog("select", "red", "Red", "2"), "Red\n", Reply(value="Red")),
        (dialog("select", "2", "1"), "2\n", Reply(value="2")),
        (dialog("select", "red", "blue"), "3\n", Reply(unclear=True)),
        (dialog("select", "red", "blue"), "0\n", Reply(unclear=True)),
        (dialog("select", "red", "blue"), "\n", Reply()),
        (dialog("input"), " some words \n", Reply(value="some words")),
        (dialog("input"), ".\n", Reply(value=".")),
        (dialog("input", default="as before"), ".\n", Reply(value="as before")),
        (dialog("input", default="as before"), "\n", Reply()),
    ],
)
def test_what_an_answer_means(asked: sc.Dialog, typed: str, meant: Reply) -> None:
    """A yes is only what is clearly one, a choice is a number or its words, and nothing at all dismisses."""
    assert meant == parse_reply(asked, typed)


def test_how_it_is_asked() -> None:
    """Who asks, what, and what may be answered are shown, harmless to print, and a long message is cut."""
    assert "? gate asks: Which one?\n  [y]es or [n]o; just Enter dismisses it: " == dialog_question(
        PLAIN, dialog("confirm")
    )
    assert (
        "? gate asks: Which one?\n  1  red\n  2  blue\n  a number or the text of a choice; just Enter dismisses it: "
    ) == dialog_question(PLAIN, dialog("select", "red", "blue\x07"))
    assert "\n  suggested: this\n  your answer, or . for the suggestion; " in dialog_question(
        PLAIN, dialog("input", default="this")
    )
    long = dialog_question(PLAIN, dialog("confirm", message="\n".join(f"line {n}" for n in range(50))))
    assert "  line 39\n  (10 more lines left out)\n" in long


async def ask(typed: bytes, *, keyboard: bool, yes: bool = False) -> tuple[sc.replies.DialogReply, StandardStreams]:
    """Ask a question while a turn runs, and return the answer that came."""
    provider = scripted.ScriptedProvider((scripted.Pause("now"), *scripted.text("After.")))
    read, hand = os.pipe()
    os.write(hand, typed)
    streams = StandardStreams(out=Paper(), err=Paper(), keyboard=read if keyboard else None)
    replies: list[sc.replies.DialogReply] = []

    async def ask_first(service: sc.SessionService) -> None:
        await provider.wait_for_pause("now")
        session_id = (await service.load_service()).sessions[0].session_id
        turn = (await service.load_session(session_id)).turn
        assert turn is not None
        asked = service.open_dialog(session_id, "confirm", "Really?", extension="gate", turn_id=turn.turn_id)
        replies.append(await asked)
        provider.release("now")

    async with open_checked_service(config(provider)) as service, trio.open_nursery() as nursery:
        nursery.start_soon(ask_first, service)
        options = RunOptions(prompt="go", interaction=InteractionOptions(yes=yes))
        assert 0 == await converse(service, options, streams, NoSignals())
    os.close(read)
    os.close(hand)
    return replies[0], streams


async def test_a_question_is_asked_and_answered() -> None:
    """On a terminal it is asked until it is answered clearly, and whoever asked gets the answer."""
    reply, streams = await ask(b"n\n", keyboard=True)

    assert (True, False) == (reply.answered, reply.value)
    assert "? gate asks: Really?\n  [y]es or [n]o; just Enter dismisses it: " in written(streams)[1]


async def test_without_a_terminal_it_is_dismissed() -> None:
    """With nobody to ask it is dismissed, which is said; --yes, which is for tools, changes nothing about it."""
    reply, streams = await ask(b"y\n", keyboard=False, yes=True)

    assert reply.value is None
    assert "? gate asks: Really?: dismissed, because there is no terminal to ask on.\n" in written(streams)[1]


async def test_yes_is_for_tools() -> None:
    """On a terminal --yes does not answer for the person: Enter dismisses."""
    reply, _ = await ask(b"\n", keyboard=True, yes=True)

    assert reply.value is None
