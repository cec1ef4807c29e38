"""Being asked in the whole terminal."""

from pathlib import Path

import pytest

import session_core as sc
from frontends.terminal.destination import MessageTarget
from session_core.testing.scripted import ScriptedTool, text, tool_call
from tests.frontends.terminal._asyncio import on_asyncio
from tests.frontends.terminal._harness import attach_terminal, open_terminal
from tests.frontends.terminal._requests import APPROVAL, COMMAND
from tests.frontends.terminal._staged import open_stage, session


def test_yes_runs_the_tool_and_no_does_not(tmp_path: Path) -> None:
    """A tool that changes something runs after a yes; a sentence is a no that the model gets to read."""

    async def scene() -> None:
        tool = ScriptedTool("change", effects=("write",), run="changed it")
        answers = (tool_call("change", {"path": "a"}), text("one"), tool_call("change", {"path": "b"}), text("two"))
        async with open_terminal(tmp_path, *answers, tools=(tool,)) as terminal:
            terminal.app.main.requests.settling.patience_s = terminal.app.main.quiet_s = 0
            await terminal.say("go")
            await terminal.until_shown("asks you")
            await terminal.until(lambda: terminal.app.main.requests.has_focus_within, "the question")
            assert not tool.calls
            await terminal.type("y", "enter")
            await terminal.until_shown("one")
            assert len(tool.calls) == 1
            await terminal.until(lambda: terminal.app.composer.has_focus_within, "the composer")
            await terminal.say("go on")
            await terminal.until(lambda: terminal.app.main.requests.has_focus_within, "the question")
            await terminal.type("not that file please", "enter")
            await terminal.until_shown("two")
            assert len(tool.calls) == 1
            results = [part for each in terminal.state().messages for part in each.parts]
            told = [each.text for each in results if isinstance(each, sc.ToolResultPart)]
            assert "not that file please" in told[-1]

    on_asyncio(scene)


@pytest.mark.slow
def test_whoever_writes_is_not_disturbed(tmp_path: Path) -> None:
    """A question that comes while somebody writes leaves the keys to the composer; F8 goes there, Esc comes back."""

    async def scene() -> None:
        tool = ScriptedTool("change", effects=("write",))
        async with open_terminal(tmp_path, tool_call("change"), text("one"), tools=(tool,), slow=True) as terminal:
            await terminal.type("go", "enter")
            await terminal.type("y and more")
            terminal.place.let_in.set()
            await terminal.until_shown("asks you")
            await terminal.type("y", "enter")
            await terminal.until_shown("1 queued")
            assert not tool.calls
            await terminal.pilot.press("f8")
            await terminal.until(lambda: terminal.app.main.requests.has_focus_within, "the question")
            await terminal.pilot.press("escape")
            await terminal.until(lambda: terminal.app.composer.has_focus_within, "the composer")
            assert terminal.state().approvals
            assert terminal.state().turn is not None

    on_asyncio(scene)


@pytest.mark.slow
def test_whoever_has_just_typed_is_not_disturbed(tmp_path: Path) -> None:
    """A new question gets the focus when nobody has typed for a moment and nothing is written, and not before."""

    async def scene() -> None:
        async with open_stage(tmp_path) as stage:
            stage.app.main.quiet_s = 3_600
            await stage.pilot.press("x", "backspace")
            await stage.show(session(approvals=(COMMAND,)))
            assert stage.app.composer.has_focus_within
            assert "F8 to answer" in stage.text
            stage.app.main.quiet_s = 0
            stage.app.main._go_to_question()
            await stage.settle()
            assert stage.app.main.requests.has_focus_within
            await stage.show(session())
            stage.app.composer.focus()
            await stage.pilot.press("x")
            await stage.show(session(approvals=(APPROVAL,)))
            assert stage.app.composer.has_focus_within
            await stage.pilot.press("backspace")
            stage.app.main._go_to_question()
            assert stage.app.composer.has_focus_within

    on_asyncio(scene)


@pytest.mark.slow
def test_the_first_answer_wins(tmp_path: Path) -> None:
    """What is answered in one terminal is asked no longer in the other."""

    async def scene() -> None:
        tool = ScriptedTool("change", effects=("write",), run="changed it")
        async with open_terminal(tmp_path, tool_call("change"), text("one"), tools=(tool,)) as here:
            here.app.main.requests.settling.patience_s = here.app.main.quiet_s = 0
            await here.say("go")
            await here.until(lambda: here.app.main.requests.has_focus_within, "the question")
            async with attach_terminal(here.server, here.provider) as there:
                await there.until(lambda: there.app.main.requests.has_question, "the question")
                await here.type("y", "enter")
                await there.until(lambda: not there.app.main.requests.has_question, "the end of the question")
                await there.until_shown("one")
                assert len(tool.calls) == 1

    on_asyncio(scene)


@pytest.mark.slow
def test_a_question_of_an_extension(tmp_path: Path) -> None:
    """A dialog is shown with its choices, and what is chosen is what the asker gets."""

    async def scene() -> None:
        async with open_terminal(tmp_path, text("one")) as terminal:
            terminal.app.main.requests.settling.patience_s = terminal.app.main.quiet_s = 0
            await terminal.say("hello")
            await terminal.until_shown("one")
            replies: list[sc.replies.DialogReply] = []

            async def ask() -> None:
                service, session_id = terminal.server.service, terminal.app.current.session_id
                assert session_id is not None
                replies.append(
                    await service.open_dialog(session_id, "select", "Which one?", choices=("red", "green", "blue"))
                )

            terminal.server.spawn(ask)
            await terminal.until_shown("Which one?")
            await terminal.until(lambda: terminal.app.main.requests.has_focus_within, "the question")
            await terminal.type("gre", "enter")
            await terminal.until(lambda: replies, "the answer")
            assert replies[0].value == "green"
            assert replies[0].answered

    on_asyncio(scene)


def test_a_key_of_an_extension(tmp_path: Path) -> None:
    """A key that an extension has bound runs its command; one that the terminal has bound itself does not."""

    async def scene() -> None:
        async with open_terminal(tmp_path, text("one")) as terminal:
            ran: list[str] = []

            async def run_command(name: str, arguments: str, target: MessageTarget) -> None:
                ran.append(f"{name} {arguments}".strip())

            session_list = terminal.app.feeds.session_list
            assert session_list is not None
            keys = (
                sc.extensions.Shortcut(key="ctrl+t", command="tidy"),
                sc.extensions.Shortcut(key="f2", command="never"),
            )
            session_list.extensions["keeper", None] = sc.extensions.ExtensionInfo(
                name="keeper", version="1", scope="user", state="ready", shortcuts=keys
            )
            terminal.app.messages.run_command = run_command  # type: ignore[method-assign]
            await terminal.pilot.press("ctrl+t", "f2")
            await terminal.until(lambda: ran, "the command")
            assert ran == ["keeper.tidy"]

    on_asyncio(scene)


def test_commands_of_an_extension_that_starts_later(tmp_path: Path) -> None:
    """The commands of an extension are known as soon as it is ready, also if the terminal was open before."""

    async def scene() -> None:
        async with open_terminal(tmp_path, text("one")) as terminal:
            client, command = terminal.app.feeds.client, sc.extensions.ExtensionCommand(extension="keeper", name="tidy")
            assert client is not None
            info = sc.extensions.ExtensionInfo(name="keeper", version="1", scope="user", state="ready")

            async def list_commands(*_: object, **__: object) -> sc.replies.ListCommandsReply:
                cursor = sc.Cursor(epoch=sc.Epoch("e"), seq=0)
                brought = (command,) if terminal.app.feeds.session_list.extensions else ()  # type: ignore[union-attr]
                return sc.replies.ListCommandsReply(commands=brought, cursor=cursor)

            client.list_commands = list_commands  # type: ignore[method-assign]
            await terminal.say("/tidy")
            await terminal.until_shown("there is no command /tidy")
            terminal.server.call(terminal.server.service.tell, sc.events.ExtensionChanged(extension=info))
            await terminal.until(lambda: terminal.app.choices.commands == (command,), "the command")

    on_asyncio(scene)
