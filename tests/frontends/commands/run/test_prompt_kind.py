"""What a prompt means: a message, a command, a line for the shell, or a slip."""

import pytest

import session_core as sc
from frontends.commands.run.prompt_kind import UnusedExtension, is_for_model, read_prompt
from frontends.shared.parser import UsageError

COMMANDS = (
    sc.extensions.ExtensionCommand(extension="git", name="commit", description="commits\x1b[31m what is there"),
    sc.extensions.ExtensionCommand(extension="git", name="push"),
    sc.extensions.ExtensionCommand(extension="notes", name="push"),
)


def is_there(path: str) -> bool:
    return path in {"/etc", "/tmp"}


@pytest.mark.parametrize(
    ("prompt", "meant"),
    [
        ("/commit", sc.extensions.TypedCommand(extension="git", name="commit")),
        ("/notes.push all  of it ", sc.extensions.TypedCommand(extension="notes", name="push", arguments="all  of it")),
        ("!ls -l", sc.extensions.TypedShellLine(line="ls -l")),
        ("!!ls", sc.extensions.TypedMessage(text="!ls")),
        ("//commit it", sc.extensions.TypedMessage(text="/commit it")),
        ("//nothing it", sc.extensions.TypedMessage(text="/nothing it")),
        ("//etc is a folder", sc.extensions.TypedMessage(text="/etc is a folder")),
        ("//etc/hosts is a file", sc.extensions.TypedMessage(text="//etc/hosts is a file")),
        ("hello /commit", sc.extensions.TypedMessage(text="hello /commit")),
        ("/etc/hosts is empty", sc.extensions.TypedMessage(text="/etc/hosts is empty")),
        ("/etc is empty", sc.extensions.TypedMessage(text="/etc is empty")),
        ("/ is full", sc.extensions.TypedMessage(text="/ is full")),
        ("/* a comment */", sc.extensions.TypedMessage(text="/* a comment */")),
        ("// a comment", sc.extensions.TypedMessage(text="// a comment")),
        ("/usr/bin: what is there?", sc.extensions.TypedMessage(text="/usr/bin: what is there?")),
        ("/50% of it", sc.extensions.TypedMessage(text="/50% of it")),
    ],
)
def test_what_is_meant(prompt: str, meant: sc.extensions.TypedInput) -> None:
    """Commands and shell lines are known by their first word; paths, comments and doubled marks are messages."""
    assert meant == read_prompt(prompt, COMMANDS, is_there=is_there)


def refusal(prompt: str, commands: tuple[sc.extensions.ExtensionCommand, ...] = COMMANDS) -> UsageError:
    with pytest.raises(UsageError) as refused:
        read_prompt(prompt, commands, is_there=is_there)
    return refused.value


def test_an_unknown_command() -> None:
    """A slip names what it is near to; without anything near all commands are shown, harmless to print."""
    near, far, none = refusal("/comit it"), refusal("/zzz"), refusal("/commit", ())

    assert ("there is no command /comit; did you mean /commit? (to send it to the model: //comit)", ()) == (
        str(near),
        near.details,
    )
    assert ("/commit          commits what is there", "/push", "/notes.push") == far.details
    assert "there is no command /commit, because no running extension provides any" in str(none)
    assert "did you mean /notes.push or /git.push?" in str(refusal("/note.push"))


def test_a_command_of_an_extension_that_does_not_run() -> None:
    """Who types a command of one that is off, or has failed, is told so and what to type; others may be why too."""
    off = UnusedExtension(name="gate", why="the extension gate is switched off", advice="to switch it on: X")
    failed = UnusedExtension(
        name="todo", why="the extension todo has failed", advice="to see why: Y", commands=frozenset({"t"})
    )

    unused: tuple[UnusedExtension, ...] = (off, failed)

    def told(prompt: str) -> UsageError:
        with pytest.raises(UsageError) as refused:
            read_prompt(prompt, COMMANDS, unused, is_there=is_there)
        return refused.value

    end = "(to send it to the model: //"
    assert f"there is no command /gate.add now, because {off.why}; {off.advice} {end}gate.add)" == str(
        told("/gate.add x")
    )
    assert f"there is no command /gate now, because {off.why}; {off.advice} {end}gate)" == str(told("/gate"))
    assert f"there is no command /t now, because {failed.why}; {failed.advice} {end}t)" == str(told("/t"))
    hints = (f"{off.why}; {off.advice}", f"{failed.why}; {failed.advice}")
    assert hints == told("/zzz").details[-2:]
    unused = (off, failed, failed)
    assert hints == told("/zzz").details[-2:]
    assert () == told("/comit").details


@pytest.mark.parametrize(
    ("prompt", "asks"),
    [("hello", True), ("//commit it", True), ("!!bang", True), ("/commit it", False), ("!ls", False), ("/ 2", True)],
)
def test_whether_a_model_is_asked(prompt: str, asks: bool) -> None:  # noqa: FBT001 - a parameter
    """Commands and lines for the shell need no model, so nothing is said about one."""
    assert asks == is_for_model(prompt)
