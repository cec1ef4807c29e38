"""The table of commands, and finding one in it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import session_core as sc
from frontends.terminal.actions import slash_commands
from frontends.terminal.actions.slash_commands import SLASH
from tests.frontends.terminal._asyncio import on_asyncio
from tests.frontends.terminal._staged import open_stage

COMP = sc.extensions.ExtensionCommand(extension="tidy", name="comp", description="compile")


def test_every_command_has_its_action(tmp_path: Path) -> None:
    """Each command names an action that an object of the app has."""

    async def scene() -> None:
        async with open_stage(tmp_path) as stage:
            assert [] == [each.name for each in SLASH if stage.app.find_action(each.action) is None]

    on_asyncio(scene)


def test_no_two_are_called_alike() -> None:
    """No name and no alias stands for two commands."""
    names = [name for each in SLASH for name in (each.name, *each.aliases)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("typed", "found"),
    [("model", "model"), ("m", "model"), ("mode", "permissions"), ("comp", "compact"), ("stop", "stop")],
)
def test_a_name_an_alias_or_a_beginning(typed: str, found: str) -> None:
    """A command is found by its name, by an alias, and by a beginning that no other has."""
    command = slash_commands.find_command(typed)
    assert command is not None
    assert command.name == found


@pytest.mark.parametrize("typed", ["", "co", "sto", "xyz", "MODEL"])
def test_what_is_not_clear_is_not_guessed(typed: str) -> None:
    """A beginning that is short, or that several commands have, is no command."""
    assert slash_commands.find_command(typed) is None


def test_an_extension_is_not_hidden_by_a_beginning() -> None:
    """The whole name of an extension's command goes before the beginning of one of ours."""
    assert slash_commands.find_command("comp", [COMP]) is None
    assert slash_commands.is_extension_command("comp", [COMP])
    assert slash_commands.is_extension_command("tidy.comp", [COMP])
    assert not slash_commands.is_extension_command("tidy", [COMP])


@given(st.text())
def test_arguments_arrive_as_they_were_typed(typed: str) -> None:
    """Whatever is typed after a command is handed on as one text, and is never read as anything else."""
    command = slash_commands.find_command("rename")
    assert command is not None
    assert command.arguments_of(typed) == ((typed.strip(),) if typed.strip() else ())


def test_what_takes_nothing_says_so() -> None:
    """A command that takes nothing refuses what is typed after it, rather than doing something else than was meant."""
    clear, rename = slash_commands.find_command("clear"), slash_commands.find_command("rename")
    assert clear is not None
    assert rename is not None
    assert (
        slash_commands.check_arguments(clear, "the docs") == "/clear takes no arguments (start the conversation over)"
    )
    assert slash_commands.check_arguments(clear, " ") is None
    assert slash_commands.check_arguments(rename, "it") is None


def test_an_unknown_command() -> None:
    """Who types an unknown command is told what is near it, and how to say it to the model."""
    assert slash_commands.describe_unknown("modle", []) == (
        "there is no command /modle; did you mean /model? (to send it to the model: //modle)"
    )
    assert "/stop or /stop-all" in slash_commands.describe_unknown("sto", [])
    assert "\x1b" not in slash_commands.describe_unknown("\x1b[2J" + "x" * 10_000, [])
    assert len(slash_commands.describe_unknown("x" * 10_000, [])) < 300


def test_suggestions() -> None:
    """Commands are suggested by what is typed, ours and those of extensions, and their arguments after them."""
    assert [each.value for each in slash_commands.suggest_commands("renam", [])] == ["rename "]
    assert "comp " in [each.value for each in slash_commands.suggest_commands("comp", [COMP])]
    assert [each.value for each in slash_commands.suggest_commands("theme da", [], themes=("dark", "light"))] == [
        "theme dark"
    ]
    assert [each.value for each in slash_commands.suggest_commands("mode full", [])] == ["mode full"]
    assert [each.value for each in slash_commands.suggest_commands("m b", [], models=("big", "small"))] == ["m big"]
    assert slash_commands.suggest_commands("comp x", [COMP]) == []
