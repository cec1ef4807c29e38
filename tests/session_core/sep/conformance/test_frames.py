"""Single lines of an extension, and which ids it answers."""

import json
from typing import Any

import pytest

from session_core.rpc.line_frames import OversizedLine
from session_core.rpc.messages import SuccessReply, UnusableLine
from session_core.sep.conformance.frames import Complaint, Complaints, RequestLedger, judge_line


def judged(message: Any) -> list[str]:
    return [
        f"{each.about} {each.weight}: {each.sentence}" for each in judge_line(json.dumps(message).encode()).complaints
    ]


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "id": 1, "result": None},
        {"jsonrpc": "2.0", "id": "a", "error": {"code": 1, "message": "no"}},
        {"jsonrpc": "2.0", "method": "log", "params": {"level": "info", "message": "up"}},
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1, "method": "bus/publish", "params": {"topic": "t"}},
        {"jsonrpc": "2.0", "method": "bus/publish", "params": {"topic": "t"}},
    ],
)
def test_a_good_message_passes(message: dict[str, Any]) -> None:
    """A message that fits the protocol gets no complaint."""
    assert [] == judged(message)


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        ({"id": 1, "result": {}}, "messages failed: its reply to 1 is not a JSON-RPC message: every message must hold"),
        ({"jsonrpc": "2.0", "id": 1}, "messages failed: it sent an object with neither method, result nor error"),
        ({"jsonrpc": "2.0", "id": 1, "error": "no"}, "messages failed: its error reply to 1 is not a JSON-RPC message"),
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, "messages failed: its request"),
        ({"jsonrpc": "2.0", "id": 1, "method": 7}, "messages failed: its request without a name"),
        ({"jsonrpc": "2.0", "method": "kv/put"}, "which is not a method of the protocol; did you mean kv/"),
        ({"jsonrpc": "2.0", "id": 1, "method": "hook"}, 'messages failed: it sent "hook", which only hosts send'),
        ({"jsonrpc": "2.0", "method": "kv/list"}, "messages failed: it sent kv/list without an id"),
        ({"jsonrpc": "2.0", "method": "log", "params": {}}, "messages failed: the params of its log do not fit"),
        (
            {"jsonrpc": "2.0", "id": 1, "method": "log", "params": {"level": "info", "message": ""}},
            "messages warned: it sent log with an id",
        ),
        (
            {"jsonrpc": "2.0", "method": "tool/update", "params": {"call_id": "c", "percent": 50}},
            'messages warned: its tool/update holds "percent"',
        ),
        ([], 'stdout failed: it wrote "[]" to stdout: each line must be one JSON object'),
        (5, "stdout failed: it wrote"),
    ],
)
def test_a_fault_is_named(message: Any, complaint: str) -> None:
    """Each fault of a message is named once, with what to change."""
    found = judged(message)

    assert len(found) == 1
    assert complaint in found[0]


def test_what_is_no_json_is_noise() -> None:
    """Lines that are not JSON, not UTF-8 or far too long are complaints about stdout, and no messages."""
    lines: list[bytes | OversizedLine] = [
        b"hello",
        b'{"jsonrpc":',
        b'{"a":"\xff"}',
        OversizedLine(size=10**9, head=b"{"),
    ]

    found = [judge_line(line) for line in lines]

    assert ["stdout"] * 4 == [each.complaints[0].about for each in found]
    assert all(isinstance(each.message, UnusableLine) for each in found)
    assert "print to stderr instead" in found[0].complaints[0].sentence


def test_a_faulty_reply_is_still_one() -> None:
    """A reply that lacks the version of JSON-RPC is judged, and still answers its request."""
    assert SuccessReply(id=1, result={}) == judge_line(b'{"id":1,"result":{}}').message


def test_ids_are_answered_once() -> None:
    """A reply to nothing, a second reply and one under an id of another type are complaints; the first is not."""
    recorder = RequestLedger()
    number = recorder.record_request("ping")
    named = recorder.record_request("hook", "a")

    assert (None, None, None) == (
        recorder.record_reply(number),
        recorder.record_reply(named),
        recorder.record_reply(None),
    )
    assert "which was never sent" in str(recorder.record_reply(str(number)))
    assert "it answered one ping request twice" in str(recorder.record_reply(number))
    assert (2, 1, "ping", None) == (
        recorder.times_answered(number),
        recorder.times_answered(named),
        recorder.method_of(number),
        recorder.method_of("b"),
    )


def test_complaints_are_counted_and_bounded() -> None:
    """The same complaint is kept once with its number, failures come first, and a flood of new ones is cut."""
    complaints = Complaints()
    slip = Complaint(about="messages", weight="warned", sentence="a slip")
    fault = Complaint(about="messages", sentence="a fault")
    complaints.add(slip, slip, fault)
    complaints.add(*(Complaint(about="stdout", sentence=f"line {number}") for number in range(10_000)))

    assert ((fault, 1), (slip, 2)) == complaints.complaints_about("messages")
    assert len(complaints.complaints_about("stdout")) < 1_000
