"""Every command line that the documents show is one that the program understands."""

import re
import shlex
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from io import StringIO

import pytest

from frontends.arguments import PROGRAM, parser
from tests.docs._documents import ROOT, blocks, documents


def shown_commands(text: str) -> Iterator[str]:
    """The lines in blocks for a shell that start our program, without what goes into it or comes after it."""
    for block in blocks(text):
        for line in block.text.splitlines() if block.language == "sh" else ():
            for piece in re.split(r"\||\$\(|\)", line.partition(" #")[0]):
                if piece.strip().startswith(PROGRAM + " "):
                    yield piece.strip().rstrip('"') if piece.count('"') % 2 else piece.strip()


COMMANDS = sorted({command for page in documents() for command in shown_commands(page.read_text(encoding="utf-8"))})


@pytest.mark.parametrize("command", COMMANDS)
def test_shown_commands_are_understood(command: str) -> None:
    """A command line taken from a document is parsed without a complaint."""
    assert parser().parse_args(shlex.split(command)[1:]).command is not None


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("```sh\nsession-core run 'a'  # why\n```\n", ["session-core run 'a'"]),
        ("```sh\ngit diff | session-core run -\n```\n", ["session-core run -"]),
        ('```sh\n$EDITOR "$(session-core config path)"\n```\n', ["session-core config path"]),
        ("```sh\nmake run\n```\n```text\nsession-core run x\n```\nsession-core run x\n", []),
    ],
)
def test_shown_commands_are_found(text: str, commands: list[str]) -> None:
    """Commands are found in blocks for a shell, behind pipes and inside of substitutions, and nowhere else."""
    assert commands == list(shown_commands(text))


def test_the_readme_shows_commands() -> None:
    """The first page shows how to use the program."""
    assert len(list(shown_commands((ROOT / "README.md").read_text(encoding="utf-8")))) >= 5


def test_the_tour_shows_every_command() -> None:
    """The page about the command line has an example of every command, and of every task of those that have tasks."""
    tour = shown_commands((ROOT / "docs" / "cli.md").read_text(encoding="utf-8"))
    shown = {tuple(shlex.split(command)[1:3]) for command in tour}
    commands = subcommands(parser().format_help())
    assert len(commands) > 20

    wanted = [(command, *task) for command in commands for task in ways_to_use(command)]

    assert [] == [words for words in wanted if not any(each[: len(words)] == words for each in shown)]


def subcommands(help_text: str) -> list[str]:
    """The names in the list of commands or tasks of a help text."""
    listed = help_text.partition("positional arguments:\n")[2].partition("\n\n")[0]
    return re.findall(r"^    (\w+)", listed, re.MULTILINE) if re.match(r"  (command|task)\n", listed) else []


def ways_to_use(command: str) -> list[tuple[str, ...]]:
    """The tasks of a command, each as a tuple; one empty tuple if it has none."""
    with redirect_stdout(StringIO()) as printed, suppress(SystemExit):
        parser().parse_args([command, "--help"])
    return [(task,) for task in subcommands(printed.getvalue())] or [()]
