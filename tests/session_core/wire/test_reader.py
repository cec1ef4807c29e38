"""Tests of session_core.wire.reader: what is refused, where, and in which words."""

from typing import Any, Literal

import attrs
import pytest

from session_core import limits
from session_core.errors import InvalidInput, ProtocolError
from session_core.limits import MAX_OPEN_JSON_DEPTH
from session_core.vocabulary.argument_checks import checked_value
from session_core.vocabulary.commands import Command, CommandRequest
from session_core.vocabulary.events import Event, SessionEvent
from session_core.vocabulary.frozen import JsonObject, JsonValue, Rope, Vector
from session_core.vocabulary.messages import Message, Part, PartialPart, TextPart
from session_core.vocabulary.replies import Acknowledged, DialogReply, ErrorReply
from session_core.wire import codec, reader, strict_json

CURSOR = {"type": "cursor", "epoch": "run_1"}
TEXT = {"type": "text_part", "text": ""}
MESSAGE: dict[str, Any] = {
    "type": "message",
    "message_id": "m",
    "parent_id": None,
    "role": "user",
    "created_at": 1,
    "parts": [],
}
EVENT = {
    "type": "session_event",
    "seq": 1,
    "sseq": 1,
    "session_id": "s",
    "at": 1,
    "event": {"type": "message_added", "message": MESSAGE},
}
MISSING = "the field is missing"
IN_MESSAGE = "$.event.message"
PARTS = (
    "one of text_part, code_part, thinking_part, image_part, file_part, tool_call_part, tool_result_part, "
    "interrupted_part"
)


def added(**changes: Any) -> Any:
    return EVENT | {"event": {"type": "message_added", "message": MESSAGE | changes}}


def request(**command: Any) -> Any:
    return {"type": "command_request", "command": command}


def nested(levels: int) -> Any:
    plain: Any = 1
    for _ in range(levels):
        plain = [plain]
    return plain


def refusal(plain: Any, expected: Any) -> tuple[str | None, str]:
    with pytest.raises(ProtocolError) as caught:
        codec.from_json(plain, expected)
    return caught.value.field, caught.value.reason


@attrs.frozen(kw_only=True)
class Everything:
    """One field for each kind of hint that stands in the vocabulary, and for numbers, which may come to."""

    text: str = ""
    count: int = 0
    size: float = 0.0
    flag: bool = False
    word: Literal["a", "b"] = "a"
    maybe: str | None = None
    names: tuple[str, ...] = ()
    parts: Vector[Part] = attrs.field(factory=Vector[Part])
    rope: Rope = attrs.field(factory=Rope)
    mapping: JsonObject = attrs.field(factory=JsonObject)
    anything: JsonValue = None
    part: Part | None = None


@pytest.mark.parametrize(
    ("field", "plain", "reason"),
    [
        ("text", 1, "expected text, got a number"),
        ("text", None, "expected text, got nothing"),
        ("text", True, "expected text, got true"),
        ("text", ["a"], "expected text, got a list"),
        ("text", {}, "expected text, got an object"),
        ("count", "7", "expected a whole number, got text"),
        ("count", True, "expected a whole number, got true"),
        ("count", 1.0, "expected a whole number, got a decimal number"),
        ("count", None, "expected a whole number, got nothing"),
        ("count", limits.MAX_INTEGER + 1, strict_json.TOO_LARGE),
        ("size", "1.5", "expected a number, got text"),
        ("size", False, "expected a number, got false"),
        ("size", 10**400, strict_json.TOO_LARGE),
        ("size", float("inf"), strict_json.NO_NUMBER),
        ("flag", 0, "expected true or false, got a number"),
        ("flag", "true", "expected true or false, got text"),
        ("flag", None, "expected true or false, got nothing"),
        ("word", "c", 'expected one of a, b, got "c"'),
        ("word", "\ud800", 'expected one of a, b, got "\\ud800"'),
        ("word", None, "expected one of a, b, got nothing"),
        ("word", ["a"], "expected one of a, b, got a list"),
        ("maybe", 1, "expected text, got a number"),
        ("names", "abc", "expected a list, got text"),
        ("names", {"a": 1}, "expected a list, got an object"),
        ("names", None, "expected a list, got nothing"),
        ("parts", {}, "expected a list, got an object"),
        ("rope", ["a"], "expected text, got a list"),
        ("mapping", [], "expected an object, got a list"),
        ("mapping", None, "expected an object, got nothing"),
    ],
)
def test_nothing_is_coerced(field: str, plain: Any, reason: str) -> None:
    """A value of another type than the declared one is refused in plain words, however close it is."""
    assert (f"$.{field}", reason) == refusal({"type": "everything", field: plain}, Everything)


def test_what_fits_is_taken_as_it_is() -> None:
    """Each kind of hint reads its own form, and a whole number will do for a number."""
    read = codec.from_json(
        {
            "type": "everything",
            "text": "t",
            "count": -1,
            "size": 2,
            "flag": True,
            "word": "b",
            "maybe": "m",
            "names": ["x", "y"],
            "parts": [{"type": "text_part", "text": "p"}],
            "rope": "r",
            "mapping": {"type": "anything goes here", "a": [1, {"b": None}]},
            "anything": [1.5, {}],
            "part": {"type": "text_part", "text": "q"},
        },
        Everything,
    )

    assert read == Everything(
        text="t",
        count=-1,
        size=2.0,
        flag=True,
        word="b",
        maybe="m",
        names=("x", "y"),
        parts=Vector([TextPart(text="p")]),
        rope=Rope("r"),
        mapping=JsonObject({"type": "anything goes here", "a": [1, {"b": None}]}),
        anything=(1.5, JsonObject()),
        part=TextPart(text="q"),
    )
    assert isinstance(read.size, float)
    assert codec.from_json({"type": "everything", "size": 0.5}, Everything).size == 0.5


@pytest.mark.parametrize(
    ("plain", "expected", "path", "reason"),
    [
        ([], TextPart, "$", "expected an object (text_part), got a list"),
        (None, Event, "$", "expected an object (an event), got nothing"),
        ("x", Command, "$", "expected an object (a command), got text"),
        ({"text": "x"}, TextPart, "$.type", "the type is missing, expected text_part"),
        ({}, Event, "$.type", "the type is missing, expected an event"),
        ({"type": 1}, Command, "$.type", "expected the type as text (a command), got a number"),
        ({"type": None}, TextPart, "$.type", "expected the type as text (text_part), got nothing"),
        ({"type": ["x"]}, Event, "$.type", "expected the type as text (an event), got a list"),
        ({"type": "image_part"}, TextPart, "$.type", 'expected text_part, got the type "image_part"'),
        ({"type": "nonsense"}, Event, "$.type", 'expected an event, got the type "nonsense"'),
        ({"type": "text_part"}, Command[Any], "$.type", 'expected a command, got the type "text_part"'),
        ({"type": "message"}, Part, "$.type", f'expected {PARTS}, got the type "message"'),
        ({"type": "\ud800"}, Part, "$.type", f'expected {PARTS}, got the type "\\ud800"'),
        ({"type": "text_part"}, TextPart, "$.text", MISSING),
        ({"type": "text_part", "text": "x", "txt": 1}, TextPart, "$.txt", "text_part has no such field"),
        ({"type": "text_part", "a b": 1}, Part, '$["a b"]', "text_part has no such field"),
        ({"type": "text_part", "text": "x", 1: 1}, TextPart, '$["1"]', "text_part has no such field"),
        ({"type": "acknowledged", "cursor": CURSOR}, Acknowledged, "$.cursor.seq", MISSING),
        (EVENT | {"raw": "x"}, SessionEvent, "$.raw", "session_event has no such field"),
        (EVENT | {"merged": 1.5}, SessionEvent, "$.merged", "expected a whole number, got a decimal number"),
        (added(parts=[TEXT | {"text": 1}]), SessionEvent, f"{IN_MESSAGE}.parts[0].text", "expected text, got a number"),
        (added(parts=[TEXT, {"type": "text_part"}]), SessionEvent, f"{IN_MESSAGE}.parts[1].text", MISSING),
        (MESSAGE | {"parts": [[]]}, Message, "$.parts[0]", f"expected an object ({PARTS}), got a list"),
        (MESSAGE | {"role": "admin"}, Message, "$.role", 'expected one of user, assistant, tool, summary, got "admin"'),
        (MESSAGE | {"usage": {"type": "usage", "steps": 1}}, Message, "$.usage.steps", "usage has no such field"),
        (request(type="switch_model", session_id="s"), CommandRequest, "$.command.model", MISSING),
        (request(type="text_part"), CommandRequest, "$.command.type", 'expected a command, got the type "text_part"'),
        ({"type": "partial_part", "kind": "text", "text": None}, PartialPart, "$.text", "expected text, got nothing"),
        ([TEXT, 1], tuple[TextPart, ...], "$[1]", "expected an object (text_part), got a number"),
    ],
)  # fmt: skip
def test_a_misfit_is_named_with_its_path(plain: Any, expected: Any, path: str, reason: str) -> None:
    """Missing, unknown and wrong types and fields are each refused with their path and what was expected."""
    assert (path, reason) == refusal(plain, expected)


def test_long_unions_are_not_listed_in_full() -> None:
    """A union of many classes is described by the first few."""
    many: Any = Acknowledged | Part | ErrorReply | Message | DialogReply

    _, reason = refusal({"type": "x"}, many)

    assert "tool_call_part, tool_result_part, ..., got" in reason
    assert "dialog_reply" not in reason


@pytest.mark.parametrize(
    ("plain", "path", "reason"),
    [
        (nested(MAX_OPEN_JSON_DEPTH + 1), "$.anything" + "[0]" * MAX_OPEN_JSON_DEPTH, strict_json.TOO_DEEP),
        (nested(100_000), "$.anything" + "[0]" * MAX_OPEN_JSON_DEPTH, strict_json.TOO_DEEP),
        ({"a": {"b": float("nan")}}, "$.anything.a.b", strict_json.NO_NUMBER),
        ({"a": {1: 2}}, "$.anything.a", "expected text as a key, got a number"),
        ({"a": b""}, "$.anything.a", "expected JSON, got a Python bytes"),
    ],
)
def test_open_json_is_json_of_bounded_depth(plain: Any, path: str, reason: str) -> None:
    """JSON of unknown shape is checked all the way down, and never so deep that others could not read it."""
    assert (path, reason) == refusal({"type": "everything", "anything": plain}, Everything)


def test_open_json_may_be_as_deep_as_the_bound() -> None:
    """The deepest JSON that is accepted inside a value survives the wire."""
    read = codec.from_json({"type": "everything", "anything": nested(MAX_OPEN_JSON_DEPTH)}, Everything)

    assert read == codec.decode(codec.encode(read), Everything)


@checked_value
class Checked:
    """A command-like class with rules of its own."""

    name: str = ""
    count: int = 0

    def __attrs_post_init__(self) -> None:
        if self.name == "taken":
            raise InvalidInput("this name is taken", field="name")
        if self.count < 0:
            raise InvalidInput("there is a deeper reason")
        if self.name == "bug":
            raise ZeroDivisionError


@attrs.frozen(kw_only=True)
class Holder:
    """Something that holds checked values."""

    items: tuple[Checked, ...]


def test_rules_of_a_class_are_protocol_errors_with_a_path() -> None:
    """InvalidInput from a class that checks itself comes out with the path of the field, or of the whole."""
    named = {"type": "holder", "items": [{"type": "checked"}, {"type": "checked", "name": "taken"}]}
    whole = {"type": "holder", "items": [{"type": "checked", "count": -1}]}

    assert refusal(named, Holder) == ("$.items[1].name", "this name is taken")
    assert refusal(whole, Holder) == ("$.items[0]", "there is a deeper reason")


def test_bugs_are_not_blamed_on_the_sender() -> None:
    """An error that is nobody's protocol error is not disguised as one."""
    with pytest.raises(ZeroDivisionError):
        codec.from_json({"type": "checked", "name": "bug"}, Checked)


def test_a_long_list_of_misfits_costs_no_more_than_one() -> None:
    """Reading stops at the first misfit of a list, however many would follow."""
    _, reason = refusal([1] * 100_000, tuple[str, ...])

    assert reason == "expected text, got a number"


@pytest.mark.parametrize("hint", [set[str], dict[str, int], bytes | int, complex])
def test_hints_the_vocabulary_does_not_use_are_noticed(hint: Any) -> None:
    """A kind of hint that has no strict reader is a programming error, not read leniently."""
    with pytest.raises(TypeError, match="cannot read values of type"):
        reader.read([], hint)
