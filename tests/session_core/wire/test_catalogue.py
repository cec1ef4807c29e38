"""Tests of session_core.wire.catalogue."""

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, get_args

import attrs
import pytest

from session_core import vocabulary
from session_core.ids import Cursor, SessionId
from session_core.vocabulary.commands import COMMANDS, Command, CommandRequest, SwitchModel, reply_type
from session_core.vocabulary.events import Event, SessionEvent
from session_core.vocabulary.frozen import JsonObject, JsonValue, Vector
from session_core.vocabulary.messages import Message, Part, TextPart
from session_core.vocabulary.replies import ErrorReply
from session_core.vocabulary.snapshots import Bookmark
from session_core.wire import catalogue
from session_core.wire.catalogue import TAG, alternatives, wire_classes, wire_fields, wire_tag

NEVER_SENT = {"prompt_input", "session_fields"}
"""What a frontend reads from its own prompt, and what a snapshot and the working state have in common."""


def test_the_whole_vocabulary_travels() -> None:
    """Every command, reply, event and part is listed, with the envelopes and the cursor, and nothing twice."""
    listed = set(wire_classes())

    assert len(listed) == len(wire_classes())
    assert listed >= {*COMMANDS, *map(reply_type, COMMANDS), *get_args(Event), *get_args(Part)}
    assert listed >= {Cursor, Message, SessionEvent, CommandRequest, Bookmark, ErrorReply}
    assert Command not in listed


def test_no_module_of_the_vocabulary_is_forgotten() -> None:
    """Every class that any vocabulary module defines is listed, but for what never travels: see `NEVER_SENT`."""
    names = [found.name for found in iter_modules(vocabulary.__path__)]
    modules = [import_module(f"{vocabulary.__name__}.{name}") for name in names]
    found = {cls for module in modules for cls in vars(module).values() if catalogue.is_value_class(cls)}
    defined = {cls for cls in found if cls.__module__.rpartition(".")[2] not in NEVER_SENT}

    assert defined <= set(wire_classes())


def test_whatever_a_listed_class_holds_is_listed() -> None:
    """No class can be reached through a field that is not listed itself."""
    reached = {cls for listed in wire_classes() for field in wire_fields(listed) for cls in classes_in(field.type)}

    assert reached <= set(wire_classes())


def classes_in(hint: Any) -> set[type]:
    found = set(alternatives(hint)) | {cls for each in get_args(hint) for cls in classes_in(each)}
    return found | {hint} if catalogue.is_value_class(hint) else found


def test_tags_are_unique_and_no_field_takes_their_place() -> None:
    """Every class has a tag of its own, and none has a field that is called like the tag's key."""
    assert len(wire_classes()) == len({wire_tag(cls) for cls in wire_classes()})
    assert [cls for cls in wire_classes() for field in wire_fields(cls) if field.name == TAG] == []


@pytest.mark.parametrize(("cls", "tag"), [(Cursor, "cursor"), (TextPart, "text_part"), (SwitchModel, "switch_model")])
def test_a_tag_is_the_name_in_snake_case(cls: type, tag: str) -> None:
    """A class is called on the wire as in Python, in the manner of the wire."""
    assert tag == wire_tag(cls)


def test_fields_that_cannot_be_set_stay_at_home() -> None:
    """The encoded form that an event carries is not part of what is encoded."""
    assert "raw" in {field.name for field in attrs.fields(SessionEvent)}
    assert "raw" not in {field.name for field in wire_fields(SessionEvent)}


@pytest.mark.parametrize(
    ("hint", "kinds"),
    [
        (str, set()),
        (SessionId, set()),
        (JsonValue, set()),
        (JsonObject | None, {"optional"}),
        (str | None, {"optional"}),
        (tuple[str, ...], {"list"}),
        (Vector[Message], {"list"}),
        (Message, {"value_class"}),
        (Command, {"any_command", "alternatives"}),
        (Command[Any], {"any_command", "alternatives"}),
        (Part, {"alternatives"}),
        (Part | None, {"optional"}),
    ],
)
def test_hints_are_told_apart(hint: Any, kinds: set[str]) -> None:
    """Every kind of hint is recognised as that kind and as no other."""
    tests: dict[str, Callable[[Any], bool]] = {
        "value_class": catalogue.is_value_class,
        "any_command": catalogue.is_any_command,
        "list": catalogue.is_list,
        "literal": catalogue.is_literal,
        "optional": catalogue.is_optional,
        "alternatives": lambda each: bool(alternatives(each)),
    }

    assert kinds == {name for name, fits in tests.items() if fits(hint)}


def test_none_can_be_taken_out_of_a_union() -> None:
    """What remains of an optional hint is the single thing, or the union of the others."""
    assert str == catalogue.without_none(str | None)  # noqa: E721 - hints are compared by equality
    assert get_args(Part) == alternatives(catalogue.without_none(Part | None))
    assert COMMANDS == alternatives(Command)
