"""Tests of session_core.vocabulary.argument_checks."""

from typing import Any, Literal, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.errors import InvalidInput
from session_core.ids import SessionId
from session_core.vocabulary.argument_checks import build_check, checked_value, describe
from session_core.vocabulary.commands import COMMANDS, AnswerDialog, Command, CommandRequest, LoadService
from session_core.vocabulary.frozen import JsonObject, JsonValue
from session_core.vocabulary.messages import ImagePart, TextPart
from session_core.vocabulary.sessions import SandboxPolicy
from session_core.wire.catalogue import wire_fields
from tests.strategies import values_of


class Foreign:
    """Something that no command takes."""


@pytest.mark.parametrize(
    ("hint", "fitting", "unfitting", "words"),
    [
        (str, ["", "x"], [1, None, b"x", ["x"]], "text"),
        (SessionId, ["s"], [1, None], "text"),
        (int, [0, -1], [True, 1.0, "1", None], "a whole number"),
        (bool, [True, False], [0, 1, "true", None], "true or false"),
        (float, [0.5], ["0.5", None], "a number"),
        (str | None, ["x", None], [1, False], "text or nothing"),
        (bool | None, [True, None], [0, "no"], "true or false or nothing"),
        (Literal["a", "b"], ["a", "b"], ["c", "", None, 1, ["a"]], "one of a, b"),
        (Literal["a", "b"] | None, ["a", None], ["c"], "one of a, b or nothing"),
        (tuple[str, ...], [(), ("a", "b")], [["a"], "ab", ("a", 1), None], "a tuple of text"),
        (tuple[ImagePart, ...], [()], [(TextPart(text=""),), []], "a tuple of an ImagePart"),
        (SandboxPolicy, [SandboxPolicy()], [{}, None], "a SandboxPolicy"),
        (Command[Any], [LoadService()], [None, TextPart(text=""), LoadService], "a Command"),
        (JsonValue, [None, 1, "x", 0.5, True, (1, "a"), JsonObject()], [[], {}, b"", Foreign()], "JSON"),
    ],
)
def test_hints_are_checked_and_described(hint: Any, fitting: list[Any], unfitting: list[Any], words: str) -> None:
    """Each kind of hint accepts exactly its own values, without coercing, and can be put into words."""
    assert [given for given in fitting if not build_check(hint)(given)] == []
    assert [given for given in unfitting if build_check(hint)(given)] == []
    assert words == describe(hint)


@checked_value
class Sample:
    """A checked class with a field of each of a few kinds."""

    name: str
    count: int = 0
    tags: tuple[str, ...] = ()


@pytest.mark.parametrize(
    ("field", "given", "message"),
    [
        ("name", 5, "name must be text, not a whole number"),
        ("name", None, "name must be text, not nothing"),
        ("count", True, "count must be a whole number, not true or false"),
        ("count", "1", "count must be a whole number, not text"),
        ("tags", ["a"], "tags must be a tuple of text, not a list"),
        ("tags", Foreign(), "tags must be a tuple of text, not a Foreign"),
    ],
)
def test_a_wrong_type_is_named_in_words(field: str, given: Any, message: str) -> None:
    """A field of the wrong type is refused with its name, what it must be and what it was."""
    with pytest.raises(InvalidInput) as caught:
        Sample(**cast("Any", {"name": "x", field: given}))

    assert (field, message) == (caught.value.field, caught.value.message)


def test_checked_values_are_values() -> None:
    """A checked class is frozen, takes keywords only, and compares by its fields."""
    assert Sample(name="a") == Sample(name="a", count=0, tags=())
    assert hash(Sample(name="a")) == hash(Sample(name="a"))
    with pytest.raises(AttributeError):
        Sample(name="a").name = "b"  # type: ignore[misc]
    with pytest.raises(TypeError):
        Sample("a")  # type: ignore[call-arg]


@pytest.mark.parametrize("cls", [*COMMANDS, CommandRequest], ids=lambda cls: cls.__name__)
def test_every_field_of_every_command_is_checked(cls: type) -> None:
    """No command can be built with a foreign object in any of its fields."""
    for field in wire_fields(cls):
        validate: Any = field.validator
        with pytest.raises(InvalidInput) as caught:
            validate(None, field, Foreign())
        assert field.name == caught.value.field
    if wire_fields(cls):
        with pytest.raises(InvalidInput):
            cls(**{field.name: Foreign() for field in wire_fields(cls)})


@given(st.data())
def test_commands_built_as_declared_are_accepted(data: st.DataObject) -> None:
    """No value that fits the annotations of a command is refused, alone or on its way in a request."""
    command = data.draw(values_of(Command[Any]))

    assert CommandRequest(command=command).command is command


def test_any_json_answers_a_dialog() -> None:
    """A dialog can be answered with any frozen JSON, and with nothing that could still change."""
    ids: Any = {"session_id": "s", "request_id": "r"}

    assert AnswerDialog(**ids, value=JsonObject({"a": [1]})).value == JsonObject({"a": (1,)})
    changeables: list[Any] = [[], {}, bytearray()]
    for changeable in changeables:
        with pytest.raises(InvalidInput):
            AnswerDialog(**ids, value=changeable)
