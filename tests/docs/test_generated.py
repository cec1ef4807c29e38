"""What the documents take from the code is what the code says."""

import re
from typing import get_args

import pytest

from docs.generate import HERE, commands_markdown, generated, vocabulary_markdown
from docs.handler_errors import Refusal, refusals
from docs.tables import TABLES, filled
from session_core.agent.hooks import HookName
from session_core.protocols.driver import Action
from session_core.session.activity import rules_as_markdown
from session_core.vocabulary import commands as c
from session_core.vocabulary.sessions import PermissionMode
from session_core.wire.catalogue import wire_classes


def test_generated_documents_are_up_to_date() -> None:
    """The generated parts of the documents are what `python -m docs.generate` would write."""
    stale = [path.name for path, content in generated().items() if path.read_text(encoding="utf-8") != content]

    assert [] == stale, "run `python -m docs.generate`"


def test_the_activity_table_is_the_one_of_the_code() -> None:
    """The table in activity.md is word by word the table of the activity rules."""
    assert rules_as_markdown() in (HERE / "activity.md").read_text(encoding="utf-8")


def test_a_stale_table_is_replaced() -> None:
    """Whatever stands between the two marks gives way to a fresh table, and the text around it stays."""
    stale = "before\n<!-- generated: activity rules -->\nold\n<!-- end -->\nafter\n"

    assert (
        filled(stale) == f"before\n<!-- generated: activity rules -->\n\n{rules_as_markdown()}\n<!-- end -->\nafter\n"
    )


def test_every_table_has_its_place() -> None:
    """Each table that can be made stands in exactly one page."""
    text = "".join(path.read_text(encoding="utf-8") for path in HERE.glob("*.md"))

    assert dict.fromkeys(TABLES, 1) == {name: text.count(f"<!-- generated: {name} -->") for name in TABLES}


def test_every_command_is_listed() -> None:
    """Every command has its section in commands.md, and so has its reply."""
    text = commands_markdown()
    named = [each.__name__ for command in c.COMMANDS for each in (command, c.reply_type(command))]

    assert [] == [name for name in named if f"`{name}`" not in text]


def test_every_class_that_travels_is_listed() -> None:
    """Every class with a form on the wire has its section in commands.md or vocabulary.md."""
    text = commands_markdown() + vocabulary_markdown()
    elsewhere = {"Cursor", "CommandRequest", "ErrorReply", "ToolSpec"}

    assert [] == [
        cls.__name__ for cls in wire_classes() if f"`{cls.__name__}`" not in text and cls.__name__ not in elsewhere
    ]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (c.LoadService, set()),
        (c.LoadSession, {("not_found", "session_id")}),
        (c.RequestStop, {("not_found", "session_id")}),
        (c.RenameSession, {("not_found", "session_id"), ("invalid_input", "name")}),
        (c.ArchiveSession, {("not_found", "session_id"), ("conflict", "session_id")}),
        (c.SwitchModel, {("not_found", "session_id"), ("not_found", "model")}),
        (c.ChangeWorkingDirectory, {("not_found", "session_id"), ("invalid_input", "cwd")}),
    ],
)
def test_errors_are_found_in_the_handlers(command: type[c.Command[object]], expected: set[Refusal]) -> None:
    """The errors of a command are those its handler raises, itself and through what it calls, each with its field."""
    assert expected == refusals(command)


def test_every_hook_place_is_described() -> None:
    """The page about the agent has a row for every hook place, and for none that does not exist."""
    page = (HERE / "agent.md").read_text(encoding="utf-8")
    table = page.partition("## Hooks")[2].partition("## ")[0]

    assert sorted(get_args(HookName)) == sorted(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))


def test_every_action_of_a_driver_is_described() -> None:
    """The page about the agent has a row for every action that a driver can ask for."""
    page = (HERE / "agent.md").read_text(encoding="utf-8")
    table = page.partition("## Driver and interpreter")[2].partition("## ")[0]

    assert sorted(cls.__name__ for cls in get_args(Action)) == sorted(
        re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    )


def test_every_mode_is_explained_at_first_sight() -> None:
    """The page about the command line names every permission mode."""
    table = (HERE / "cli.md").read_text(encoding="utf-8").partition("| mode |")[2]

    assert list(get_args(PermissionMode)) == re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)[:5]
