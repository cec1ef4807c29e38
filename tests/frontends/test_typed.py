"""What a prompt means: a message, a command, a line for the shell, or a slip."""

import pytest

import session_core as sc
from frontends.arguments import UsageError
from frontends.cli.typed import read_prompt

COMMANDS = (
    sc.ExtensionCommand(extension="git", name="commit", description="commits\x1b[31m what is there"),
    sc.ExtensionCommand(extension="git", name="push"),
    sc.ExtensionCommand(extension="notes", name="push"),
)


def is_there(path: str) -> bool:
    return path in {"/etc", "/tmp"}


@pytest.mark.parametrize(
    ("prompt", "meant"),
    [
        ("/commit", sc.TypedCommand(extension="git", name="commit")),
        ("/notes.push all  of it ", sc.TypedCommand(extension="notes", name="push", arguments="all  of it")),
        ("!ls -l", sc.TypedShellLine(line="ls -l")),
        ("!!ls", sc.TypedMessage(text="!ls")),
        ("//commit it", sc.TypedMessage(text="/commit it")),
        ("//nothing it", sc.TypedMessage(text="/nothing it")),
        ("hello /commit", sc.TypedMessage(text="hello /commit")),
        ("/etc/hosts is empty", sc.TypedMessage(text="/etc/hosts is empty")),
        ("/etc is empty", sc.TypedMessage(text="/etc is empty")),
        ("/ is full", sc.TypedMessage(text="/ is full")),
        ("/* a comment */", sc.TypedMessage(text="/* a comment */")),
        ("// a comment", sc.TypedMessage(text="// a comment")),
        ("/usr/bin: what is there?", sc.TypedMessage(text="/usr/bin: what is there?")),
        ("/50% of it", sc.TypedMessage(text="/50% of it")),
    ],
)
def test_what_is_meant(prompt: str, meant: sc.Typed) -> None:
    """Commands and shell lines are known by their first word; paths, comments and doubled marks are messages."""
    assert meant == read_prompt(prompt, COMMANDS, is_there=is_there)


def refusal(prompt: str, commands: tuple[sc.ExtensionCommand, ...] = COMMANDS) -> UsageError:
    with pytest.raises(UsageError) as refused:
        read_prompt(prompt, commands, is_there=is_there)
    return refused.value


def test_an_unknown_command() -> None:
    """A slip names what it is near to; without anything near all commands are shown, harmless to print."""
    near, far, none = refusal("/comit it"), refusal("/zzz"), refusal("/commit", ())

    assert ("there is no command /comit; did you mean /commit? (to say it to the model: //comit)", ()) == (
        str(near),
        near.details,
    )
    assert ("/commit          commits what is there", "/push", "/notes.push") == far.details
    assert "there is no command /commit, as no extension that runs here brings any" in str(none)
    assert "did you mean /notes.push or /git.push?" in str(refusal("/note.push"))
