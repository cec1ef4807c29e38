"""Tests of session_core.wire.codec."""

from typing import Any

import attrs
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from session_core import limits
from session_core.errors import ProtocolError
from session_core.ids import ClientId, Cursor, Epoch, MessageId, SessionId
from session_core.vocabulary.commands import Command, CommandRequest, ListSessions, SendUserMessage
from session_core.vocabulary.events import Event, PartDelta, SessionEvent
from session_core.vocabulary.frozen import Vector
from session_core.vocabulary.messages import Part, TextPart, UserPart
from session_core.vocabulary.replies import Acknowledged, ErrorReply
from session_core.wire import codec, strict_json
from session_core.wire.catalogue import TAG, wire_tag
from tests._mostly_slow import mostly_slow
from tests.strategies import damaged, values_of

CLASSES = codec.wire_classes()
FEW = max(settings.default.max_examples // 20, 3) if settings.default else 3
"""Examples per class: there are more than a hundred classes, and their hints are of a dozen kinds."""

SESSION = SessionId("ses_1")
DELTA = SessionEvent(7, 3, SESSION, 1_700_000_000_000, PartDelta(message_id=MessageId("msg_1"), text="Grüße"))


def check_round_trip(value: object, expected: Any) -> None:
    data = codec.encode(value)
    back = codec.decode(data, expected)
    assert value == back
    assert type(value) is type(back)
    assert hash(value) == hash(back)
    assert data == codec.encode(back), "1, 1.0 and true are equal, but not the same JSON"


def check_outcome(document: bytes, expected: Any) -> None:
    """Reading gives a sound value, or a refusal that names a path and can itself be sent."""
    try:
        value = codec.decode(document, expected)
    except ProtocolError as error:
        refusal = ErrorReply(code=error.code, message=error.message, field=error.field)
    else:
        return check_round_trip(value, expected)
    assert str(refusal.field).startswith("$")
    return check_round_trip(refusal, ErrorReply)


@pytest.mark.parametrize("cls", mostly_slow(CLASSES, quick=25), ids=lambda cls: cls.__name__)
def test_every_class_survives_the_wire(cls: type) -> None:
    """Any value of any vocabulary class is read back as an equal value, and would be written the same again."""

    @settings(max_examples=FEW)
    @given(values_of(cls))
    def check(value: object) -> None:
        check_round_trip(value, cls)

    check()


@given(st.data())
def test_the_tag_decides_within_a_union(data: st.DataObject) -> None:
    """A member of a union is read back when only the union, or any command, is expected."""
    union: Any = data.draw(st.sampled_from([Event, Command, Command[Any], Part, UserPart]))
    check_round_trip(data.draw(values_of(union)), union)


@given(st.data())
def test_damaged_documents_are_values_or_protocol_errors(data: st.DataObject) -> None:
    """A valid document with something dropped, added or replaced is read as a value or refused, and nothing else."""
    cls = data.draw(st.sampled_from(CLASSES))
    document = data.draw(damaged(codec.to_json(data.draw(values_of(cls)))))
    check_outcome(msgspec.json.encode(document), cls)


@given(st.data())
def test_broken_bytes_are_values_or_protocol_errors(data: st.DataObject) -> None:
    """A valid document with a byte changed or its end cut off is read as a value or refused, and nothing else."""
    event = data.draw(values_of(SessionEvent))
    whole = codec.encode(event)
    place = data.draw(st.integers(0, len(whole) - 1))
    broken = whole[:place] + data.draw(st.binary(max_size=1)) + whole[place + 1 :]
    for document in (broken, whole[:place]):
        check_outcome(document, SessionEvent)


@given(st.data())
def test_plain_and_encoded_form_agree(data: st.DataObject) -> None:
    """What to_json gives is what a strict parser reads from the bytes, tag first in every object."""
    cls = data.draw(st.sampled_from(CLASSES))
    value: object = data.draw(values_of(cls))
    plain = codec.to_json(value)

    assert msgspec.json.encode(plain) == msgspec.json.encode(strict_json.parse(codec.encode(value)))
    assert next(iter(plain.items())) == (TAG, wire_tag(cls))
    assert value == codec.from_json(plain, cls)


def test_an_event_on_the_wire() -> None:
    """An event is one line of compact JSON with every field in order, and nothing of its cached form."""
    assert (
        b'{"type":"session_event","seq":7,"sseq":3,"session_id":"ses_1","at":1700000000000,'
        b'"event":{"type":"part_delta","message_id":"msg_1","text":"Gr\xc3\xbc\xc3\x9fe"},"by":null,"merged":1}'
    ) == codec.encode(DELTA)


def test_a_command_may_leave_out_what_has_a_default() -> None:
    """A hand-written request needs no more than the fields without a default."""
    request = codec.decode(
        '{"type":"command_request","command":{"type":"send_user_message","session_id":"ses_1","text":"hi"}}',
        CommandRequest,
    )

    assert CommandRequest(command=SendUserMessage(session_id=SESSION, text="hi")) == request
    assert ListSessions() == codec.decode('{"type":"list_sessions"}', Command[Any])


def test_an_event_is_encoded_once() -> None:
    """All readers of an event get the very same bytes, and they change nothing about the event."""
    event = attrs.evolve(DELTA)

    first = codec.encode_event(event)

    assert codec.encode(DELTA) == first
    assert codec.encode_event(event) is first
    assert event == DELTA
    assert hash(event) == hash(DELTA)
    assert attrs.evolve(event, by=ClientId("me")).raw is None


def test_a_reply_may_be_an_error_instead() -> None:
    """A union put together by the caller is read by its tags like any other."""
    acknowledged = Acknowledged(cursor=Cursor(epoch=Epoch("run_1"), seq=1))
    error = ErrorReply(code="conflict", message="a turn is running")

    assert acknowledged == codec.decode(codec.encode(acknowledged), Acknowledged | ErrorReply)
    assert error == codec.decode(codec.encode(error), Acknowledged | ErrorReply)


def test_lists_of_values_travel_too() -> None:
    """Tuples and vectors are lists on the wire, and the caller says what they hold."""
    parts = (TextPart(text="a"), TextPart(text="b"))

    assert parts == codec.decode(codec.encode(parts), tuple[Part, ...])
    assert Vector(parts) == codec.decode(codec.encode(Vector(parts)), Vector[TextPart])


def test_a_client_may_accept_longer_documents() -> None:
    """Documents over the limit are refused unless the reader allows for them."""
    long = codec.encode(TextPart(text="x" * limits.MAX_FRAME_BYTES))

    with pytest.raises(ProtocolError, match="longer than"):
        codec.decode(long, TextPart)
    assert len(codec.decode(long, TextPart, max_bytes=2 * limits.MAX_FRAME_BYTES).text) == limits.MAX_FRAME_BYTES


def test_values_that_cannot_be_written_are_refused() -> None:
    """Whatever has no form in JSON is a ProtocolError with its path, from encode and to_json alike."""
    with pytest.raises(ProtocolError) as caught:
        codec.encode(TextPart(text="\ud800"))
    assert caught.value.field == "$.text"
    for write in (codec.encode, codec.to_json):
        with pytest.raises(ProtocolError) as caught:
            write(Cursor(epoch=Epoch("run_1"), seq=2**60))
        assert caught.value.field == "$.seq"
    with pytest.raises(ProtocolError, match="got a Python object"):
        codec.encode(object())
