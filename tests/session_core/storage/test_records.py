"""Records: long texts apart, checksums, older formats, and what is damaged."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core import limits
from session_core.ids import CallId, MessageId, SessionId
from session_core.storage import records
from session_core.storage.records import (
    BLOB_CHARS,
    DamagedRecord,
    checksum,
    decompress_payload,
    digest_of,
    from_record,
    to_record,
)
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ImagePart, Message, Refusal, TextPart, ToolResultPart
from session_core.vocabulary.sessions import Settings
from session_core.wire.codec import encode
from tests.strategies import values_of

A = SessionId("ses_a")
LONG = "x" * BLOB_CHARS


def envelope(event: ev.Event) -> SessionEvent:
    return SessionEvent(1, 1, A, 0, event)


def said(*texts: str) -> SessionEvent:
    parts = tuple(TextPart(text=text) for text in texts)
    message = Message(message_id=MessageId("msg"), parent_id=None, role="user", parts=parts, created_at=0)
    return envelope(ev.MessageAdded(message=message))


def no_blob(digest: bytes) -> bytes | None:
    raise AssertionError("this record has no blobs")


@given(values_of(ev.Event), st.integers(1, 12))
def test_every_event_comes_back(event: ev.Event, blob_chars: int) -> None:
    """Any event of the vocabulary comes back as it was, however few characters make a long text."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "BLOB_CHARS", blob_chars)
        record = to_record(encode(envelope(event)))
    blobs = dict(record.blobs)
    assert (record.links is None) == (not blobs)
    assert envelope(event) == from_record(record.payload, record.links, blobs.get)


def test_short_texts_stay_in_place() -> None:
    """One character less than a long text, and the record is the event as it goes over the wire."""
    event = said(LONG[:-1])
    assert records.Record(payload=encode(event)) == to_record(encode(event))


def test_many_short_texts_are_compressed() -> None:
    """A long record of short texts has no blobs, takes far less room, and reads as it was."""
    event = said(*["short"] * BLOB_CHARS)
    record = to_record(encode(event))
    assert (None, ()) == (record.links, record.blobs)
    assert len(record.payload) < len(encode(event)) // 10
    assert encode(event) == decompress_payload(record.payload)
    assert event == from_record(record.payload, None, no_blob)


def test_compressed_records_are_bounded_and_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compressed record that is cut, changed, followed by something or too long when unpacked is damage."""
    payload = to_record(encode(said(*["short"] * BLOB_CHARS))).payload
    for damaged in (payload[:-1], payload[:1], payload + b"x", payload[:40] + bytes([payload[40] ^ 1]) + payload[41:]):
        with pytest.raises(DamagedRecord):
            decompress_payload(damaged)
    monkeypatch.setattr(limits, "MAX_RECORD_BYTES", 100_000)
    with pytest.raises(DamagedRecord):
        decompress_payload(payload)


def test_long_texts_are_kept_once() -> None:
    """Texts of a picture, a result and its details are taken out, equal ones once, and links say where they belong."""
    picture = ImagePart(media_type="image/png", data=LONG)
    result = ToolResultPart(
        call_id=CallId("c"),
        name="draw",
        status="success",
        text="é" * BLOB_CHARS,
        images=(picture, picture),
        details=JsonObject({"deep": [{"er": LONG}]}),
    )
    event = envelope(ev.ToolCallFinished(result=result))
    record = to_record(encode(event))
    assert len(record.payload) < 1_000
    assert [LONG.encode(), ("é" * BLOB_CHARS).encode()] == sorted((data for _, data in record.blobs), key=len)
    assert all(digest == digest_of(data) for digest, data in record.blobs)
    assert record.links is not None
    places = ["/".join(map(str, path[2:])) for path, _ in json.loads(record.links)]
    assert {"text", "images/0/data", "images/1/data", "details/deep/0/er"} == set(places)
    assert event == from_record(record.payload, record.links, dict(record.blobs).get)


def test_checksums_hold_for_one_place_only() -> None:
    """Another session, number, format, payload or set of links gives another checksum."""
    sums = [
        checksum(A, 1, b"payload"),
        checksum(SessionId("ses_b"), 1, b"payload"),
        checksum(A, 2, b"payload"),
        checksum(A, 1, b"payload", written_as=records.FORMAT + 1),
        checksum(A, 1, b"payloae"),
        checksum(A, 1, b"payload", b"links"),
        checksum(A, 1, b"payloadlinks"),
    ]
    assert len(sums) == len(set(sums))


@given(st.binary(min_size=1, max_size=60), st.data())
def test_checksums_find_any_changed_byte(payload: bytes, data: st.DataObject) -> None:
    """A single byte that differs gives another checksum."""
    place = data.draw(st.integers(0, len(payload) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != payload[place]))
    changed = payload[:place] + bytes([other]) + payload[place + 1 :]
    assert checksum(A, 1, payload) != checksum(A, 1, changed)


def test_a_missing_or_changed_blob_is_damage() -> None:
    """A record whose long text is gone, or is another one, cannot be read."""
    record = to_record(encode(said(LONG)))
    with pytest.raises(DamagedRecord, match="is missing"):
        from_record(record.payload, record.links, lambda _: None)
    with pytest.raises(DamagedRecord, match="is damaged"):
        from_record(record.payload, record.links, lambda _: b"something else")


@pytest.mark.parametrize(
    "links",
    [
        b"",
        b"{",
        b"5",
        b"[5]",
        b"[[]]",
        b'[[["event"],5]]',
        b'[[["event"],"zz"]]',
        b'[[[],"00"]]',
        b'[[["nowhere","at","all"],"00"]]',
        b'[[["event","message","parts",99,"text"],"00"]]',
        b'[[["event","type","x"],"00"]]',
        b'[[["seq"],"00"]]',
        b"\xff",
        b"null",
    ],
)
def test_damaged_links_are_damage(links: bytes) -> None:
    """Links that are no links, or lead nowhere, make a record unreadable and nothing worse."""
    data = b"text"
    digest = digest_of(data).hex().encode()
    with pytest.raises(DamagedRecord):
        from_record(encode(said("short")), links.replace(b'"00"', b'"' + digest + b'"'), lambda _: data)


@pytest.mark.parametrize("payload", [b"", b"{", b"null", b"[]", b'{"seq":1}', b"\xff\xfe", b'{"seq":"one"}'])
@pytest.mark.parametrize("links", [None, b"[]"])
def test_damaged_payloads_are_damage(payload: bytes, links: bytes | None) -> None:
    """Whatever is not an event is damage, with links and without."""
    with pytest.raises(DamagedRecord):
        from_record(payload, links, no_blob)


def _named_title(plain: Any) -> Any:
    plain["event"]["name"] = plain["event"].pop("title")
    return plain


def _shouted(plain: Any) -> Any:
    plain["event"]["name"] = plain["event"]["name"].upper()
    return plain


def test_older_formats_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record of an older format goes through every later change in order, with its long texts in place."""
    monkeypatch.setattr(records, "FORMAT", 3)
    monkeypatch.setattr(records, "UPCASTS", {1: _named_title, 2: _shouted})
    event = envelope(ev.SessionRenamed(name=LONG))
    old = json.loads(encode(event))
    old["event"]["title"] = old["event"].pop("name")
    record = to_record(json.dumps(old).encode())
    assert record.links is not None
    wanted = envelope(ev.SessionRenamed(name=LONG.upper()))
    assert wanted == from_record(record.payload, record.links, dict(record.blobs).get, written_as=1)
    assert wanted == from_record(encode(event), None, no_blob, written_as=2)
    assert event == from_record(encode(event), None, no_blob, written_as=3)


@pytest.mark.parametrize("long", [False, True], ids=["in place", "with a blob"])
def test_the_permission_mode_was_called_a_tier(*, long: bool) -> None:
    """Records of format 1 are read with the mode under its new name, in events and in settings."""
    changed = envelope(ev.PermissionModeChanged(mode="full"))
    settings = Settings(model="m", cwd="/" + "x" * (20_000 if long else 1), permission_mode="read_only")
    created = envelope(ev.SessionCreated(name="n", settings=settings))
    for event in (changed, created):
        old = json.loads(encode(event).replace(b"permission_mode", b"permission_tier"))
        if "mode" in old["event"]:
            old["event"]["tier"] = old["event"].pop("mode")
        record = to_record(json.dumps(old).encode())

        assert event == from_record(record.payload, record.links, dict(record.blobs).get, written_as=1)


@pytest.mark.parametrize("imported", [False, True], ids=["finished", "imported"])
@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (
            "This call was not allowed: a rule in the configuration forbids it. Do not try it again.",
            Refusal(by="rule", reason="a rule in the configuration forbids it"),
        ),
        (
            "This call was not allowed: this session is read-only, and the call runs a program. Do not try it again.",
            Refusal(by="mode", reason="this session is read-only, and the call runs a program"),
        ),
        ("This call was not allowed. Do not try it again unless asked to.", Refusal(by="person")),
        (
            "This call was not allowed. Do not try it again unless asked to. The user says: use\nthe other",
            Refusal(by="person", reason="use\nthe other"),
        ),
        ("Blocked by an extension: gate: no", Refusal(by="extension", reason="gate: no")),
        ("something else", None),
    ],
)
def test_a_refusal_was_only_prose(text: str, refusal: Refusal | None, *, imported: bool) -> None:
    """Records of format 2 tell only the model why a call was denied; they are read with the refusal as a value."""

    def build_event(refusal: Refusal | None) -> SessionEvent:
        result = ToolResultPart(call_id=CallId("c"), name="t", status="denied", text=text, refusal=refusal)
        said = Message(message_id=MessageId("m"), parent_id=None, role="tool", parts=(result,), created_at=1)
        return envelope(
            ev.MessagesImported(messages=(said,), head=None) if imported else ev.ToolCallFinished(result=result)
        )

    old = encode(build_event(None)).replace(b',"refusal":null', b"")

    assert build_event(refusal) == from_record(old, None, no_blob, written_as=2)


@pytest.mark.parametrize("written_as", [0, records.FORMAT + 1])
def test_unknown_formats_are_damage(written_as: int) -> None:
    """A record of a newer format, or of one that nobody can bring up to date, is not guessed at."""
    with pytest.raises(DamagedRecord):
        from_record(encode(said("short")), None, no_blob, written_as=written_as)
