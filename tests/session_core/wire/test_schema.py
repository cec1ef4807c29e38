"""Tests of session_core.wire.schema."""

from functools import cache
from pathlib import Path
from typing import Any

import attrs
import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from session_core.errors import ProtocolError
from session_core.vocabulary.commands import Command
from session_core.vocabulary.events import Event
from session_core.vocabulary.frozen import JsonObject, JsonValue
from session_core.vocabulary.messages import Message, Part, TextPart
from session_core.wire import codec, schema
from session_core.wire.catalogue import TAG, wire_fields
from tests._mostly_slow import mostly_slow
from tests.strategies import damaged, values_of

CLASSES = codec.wire_classes()


@cache
def validator(name: str) -> Any:
    definitions = schema.vocabulary_schema()["$defs"]
    return jsonschema_rs.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": definitions})


def test_the_committed_schema_is_up_to_date() -> None:
    """The schema file says what the classes say; run `make schema` after changing them."""
    assert schema.schema_text() == schema.SCHEMA_FILE.read_text(encoding="utf-8")


def test_the_schema_is_a_schema() -> None:
    """The document is valid by the rules for JSON schemas."""
    jsonschema_rs.meta.validate(schema.vocabulary_schema())


@given(st.data())
def test_every_encoded_value_fits_the_schema(data: st.DataObject) -> None:
    """Whatever the codec writes is valid by the schema of its class."""
    cls = data.draw(st.sampled_from(CLASSES))
    plain = codec.to_json(data.draw(values_of(cls)))

    validator(cls.__name__).validate(plain)


@pytest.mark.parametrize(("name", "union"), [("Command", Command), ("Event", Event), ("Part", Part)])
def test_unions_have_a_definition_too(name: str, union: Any) -> None:
    """Any member of a union fits the union's own definition, and a value of another class does not."""

    @settings(max_examples=20)
    @given(values_of(union))
    def check(member: object) -> None:
        assert validator(name).is_valid(codec.to_json(member))

    check()
    assert not validator(name).is_valid({"type": "usage"})
    assert validator("Usage").is_valid({"type": "usage"})


@pytest.mark.parametrize("cls", mostly_slow(CLASSES, quick=25), ids=lambda cls: cls.__name__)
def test_damage_does_not_fit_the_schema(cls: type) -> None:
    """Without a required field, with an unknown one, or with one of a wrong type, a document is not valid."""
    is_valid = validator(cls.__name__).is_valid

    @settings(max_examples=3)
    @given(values_of(cls))
    def check(value: object) -> None:
        plain = codec.to_json(value)
        for field in wire_fields(cls):
            assert is_valid(without(plain, field.name)) == (field.default is not attrs.NOTHING)
            if field.type not in (JsonValue, JsonObject, JsonObject | None):
                assert not is_valid(plain | {field.name: {"no": "such thing"}})
        assert not is_valid(without(plain, TAG))
        assert not is_valid(plain | {TAG: "nonsense"})
        assert not is_valid(plain | {"unknown": 1})

    check()


def without(plain: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: each for key, each in plain.items() if key != name}


@given(st.data())
def test_schema_and_codec_agree(data: st.DataObject) -> None:
    """A damaged document is accepted by the schema exactly when the codec accepts it."""
    cls = data.draw(st.sampled_from(CLASSES))
    document = data.draw(damaged(codec.to_json(data.draw(values_of(cls)))))
    try:
        codec.from_json(document, cls)
        accepted = True
    except ProtocolError:
        accepted = False

    assert accepted == validator(cls.__name__).is_valid(document)


def test_a_class_in_the_schema() -> None:
    """A definition carries the docstring, the tag, the fields with their defaults, and forbids anything else."""
    assert schema.vocabulary_schema()["$defs"]["ThinkingPart"] == {
        "description": "The model's reasoning; `signature` lets a provider check that it comes back unchanged.",
        "type": "object",
        "properties": {
            "type": {"const": "thinking_part"},
            "text": {"type": "string"},
            "signature": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        },
        "required": ["type", "text"],
        "additionalProperties": False,
    }


def test_a_union_without_a_name_is_spelled_out() -> None:
    """A union that has no definition of its own is written where it stands."""

    @attrs.frozen(kw_only=True)
    class Either:
        """One or the other."""

        either: TextPart | Message

    assert schema._schema_of_class(Either)["properties"]["either"] == {
        "oneOf": [{"$ref": "#/$defs/TextPart"}, {"$ref": "#/$defs/Message"}]
    }


def test_the_file_is_written_and_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command writes the file, finds it up to date, and says so with exit code 1 when it is not."""
    file = tmp_path / "some.schema.json"

    assert schema.main(["--check", "--file", str(file)]) == 1
    assert schema.main(["--file", str(file)]) == 0
    assert schema.main(["--check", "--file", str(file)]) == 0
    file.write_text("{}", encoding="utf-8")
    assert schema.main(["--check", "--file", str(file)]) == 1
    assert "some.schema.json is out of date" in capsys.readouterr().err
    assert schema.main(["--check"]) == 0
