"""Every command line that the documents show is one that the program understands."""

import re
import shlex
from collections.abc import Iterator

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
    assert len(list(shown_commands((ROOT / "README.md").read_text(encoding="utf-8")))) >= 10
