"""What a person means by a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.vocabulary.extensions import ExtensionCommand
from session_core.vocabulary.prompt_input import (
    TypedCommand,
    TypedInput,
    TypedMessage,
    TypedShellLine,
    parse_typed_input,
)

COMMANDS = (
    ExtensionCommand(extension="git", name="commit"),
    ExtensionCommand(extension="other", name="commit"),
    ExtensionCommand(extension="other", name="git.commit"),
    ExtensionCommand(extension="git", name="push"),
)


def command(name: str, arguments: str = "", extension: str = "git") -> TypedCommand:
    return TypedCommand(extension=extension, name=name, arguments=arguments)


def message(text: str) -> TypedMessage:
    return TypedMessage(text=text)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("/commit", command("commit")),
        ("/commit  all of it \n", command("commit", "all of it")),
        ("/commit one\ntwo", command("commit", "one\ntwo")),
        ("/commit\nfix", command("commit", "fix")),
        ("/other.commit x", command("commit", "x", "other")),
        ("/git.push", command("push")),
        ("/git.commit", command("git.commit", "", "other")),
        ("/Commit", message("/Commit")),
        ("/commits", message("/commits")),
        ("/usr/bin/env is missing", message("/usr/bin/env is missing")),
        ("/", message("/")),
        ("/ commit", message("/ commit")),
        (" /commit", message(" /commit")),
        ("//commit now", message("/commit now")),
        ("// a comment", message("// a comment")),
        ("//server/share", message("//server/share")),
        ("!ls -l ", TypedShellLine(line="ls -l")),
        ("! ls", TypedShellLine(line="ls")),
        ("!", message("!")),
        ("! \n", message("! \n")),
        ("!!wow", message("!wow")),
        (" !ls", message(" !ls")),
        ("", message("")),
        ("commit /commit", message("commit /commit")),
    ],
)
def test_what_is_meant(text: str, meant: TypedInput) -> None:
    """Commands go by their name, the first of a name counts, `!` runs a line, and anything else is said."""
    assert meant == parse_typed_input(text, COMMANDS)


@given(text=st.text(alphabet="/!. \ncommitgu", max_size=12))
def test_every_message_can_be_said(text: str) -> None:
    """Whatever a text means, it can be said as it is: by itself, or with its first character typed twice."""
    said = [parse_typed_input(each, COMMANDS) for each in (text, text[:1] + text)]

    assert TypedMessage(text=text) in said


def test_without_extensions_a_slash_is_just_a_slash() -> None:
    """Where there are no commands, nothing that begins with a slash is lost."""
    assert message("/commit") == parse_typed_input("/commit", ())
