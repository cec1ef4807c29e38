"""Judges single lines of an extension, and tracks which of our requests were answered. Nothing here waits.

Judging is stricter than reading: a host tolerates much that is a fault here, and continues as far as it can, so one
fault does not hide the next.
"""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, Final, Literal

import attrs

from session_core.errors import ProtocolError
from session_core.rpc.fast_json import read_json
from session_core.rpc.line_frames import OversizedLine
from session_core.rpc.messages import FailureReply, RpcId, RpcMessage, SuccessReply, UnusableLine, parse
from session_core.sep.conformance.catalogue import fault_at, fault_of, methods, unknown_keys
from session_core.wire.error_text import quote_text

ComplaintTopic = Literal["stdout", "messages", "replies", "contexts"]
"""The topic of a complaint; each topic is its own step at the end of a check."""
Weight = Literal["failed", "warned"]

_MAX_COMPLAINTS: Final = 200
_SHOWN_BYTES: Final = 60


@attrs.frozen(kw_only=True)
class Complaint:
    """A fault in what an extension sent; `sentence` tells its author what to change."""

    about: ComplaintTopic = "messages"
    weight: Weight = "failed"
    sentence: str


@attrs.frozen(kw_only=True)
class JudgedLine:
    """A line: how a host reads it, and what is wrong with it."""

    message: RpcMessage
    complaints: tuple[Complaint, ...] = ()


@attrs.frozen(kw_only=True)
class NoAnswer:
    """There was no answer in time, or the process is `gone`."""

    why: str
    gone: bool = False


PeerAnswer = SuccessReply | FailureReply | NoAnswer


class Complaints:
    """All complaints so far: each sentence once, with its count."""

    def __init__(self) -> None:
        self._times: Counter[Complaint] = Counter()
        self._weight: Weight = "failed"

    @contextmanager
    def as_advice(self) -> Generator[None]:
        """While something is tried that no host does, only warn about what the extension sends because of it."""
        self._weight = "warned"
        try:
            yield
        finally:
            self._weight = "failed"

    def add(self, *complaints: Complaint) -> None:
        """Record complaints; of very many different ones, only the first."""
        for complaint in complaints:
            each = complaint if self._weight == "failed" else attrs.evolve(complaint, weight="warned")
            if each in self._times or len(self._times) < _MAX_COMPLAINTS:
                self._times[each] += 1

    def complaints_about(self, what: ComplaintTopic) -> tuple[tuple[Complaint, int], ...]:
        """Return the complaints about one topic, the worst first."""
        found = [(each, times) for each, times in self._times.items() if each.about == what]
        return tuple(sorted(found, key=lambda each: each[0].weight != "failed"))


class RequestLedger:
    """Our requests, and how often each was answered."""

    def __init__(self) -> None:
        self._sent: dict[RpcId, str] = {}
        self._answers: Counter[RpcId] = Counter()
        self._next = 0

    def record_request(self, method: str, id: RpcId | None = None) -> RpcId:
        """Record a request, and return its id."""
        if id is None:
            self._next += 1
        number = self._next if id is None else id
        self._sent[number] = method
        return number

    def method_of(self, id: RpcId | None) -> str | None:
        """Return the method that was requested under an id."""
        return None if id is None else self._sent.get(id)

    def times_answered(self, id: RpcId) -> int:
        """Return how many replies a request has got."""
        return self._answers[id]

    def record_reply(self, id: RpcId | None) -> Complaint | None:
        """Record a reply, and return what is wrong with its id."""
        if id is None:
            return None  # an error for a line that could not be read
        method = self._sent.get(id)
        if method is None:
            said = f"it answered a request with the id {_format_id(id)}, which was never sent: a reply repeats the id"
            return Complaint(about="replies", sentence=f"{said} of its request unchanged, with the same type")
        self._answers[id] += 1
        if self._answers[id] > 1:
            return Complaint(
                about="replies", sentence=f"it answered one {method} request twice: send one reply to each"
            )
        return None


def judge_line(line: bytes | OversizedLine) -> JudgedLine:
    """Judge one line."""
    if isinstance(line, OversizedLine):
        said = f"it wrote a line of {line.size:,} bytes, which is more than a host takes: send less, or in pieces"
        return _judge_stray_line(said)
    try:
        plain = read_json(line)
    except ProtocolError as error:
        looks = "a message that is not JSON" if line.lstrip().startswith(b"{") else "a line that is not a message"
        said = f"it wrote {looks} to stdout ({_format_line(line)}): {error.message}; print to stderr instead"
        return _judge_stray_line(said)
    if not isinstance(plain, dict):
        return _judge_stray_line(f"it wrote {_format_line(line)} to stdout: each line must be one JSON object")
    complaints = [*_envelope(plain), *_content(plain)]
    return JudgedLine(message=parse(line), complaints=tuple(complaints))


def judge_result(method: str, result: object) -> tuple[str | None, tuple[str, ...]]:
    """Return what is wrong with the result of one of our requests, and its unknown keys."""
    known = methods().get(method)
    if known is None or not known.has_result:
        return None, ()
    fault = fault_of(method, "result", result)
    return fault, () if fault else unknown_keys(method, "result", result)


def unknown_key(where: str, key: str) -> Complaint:
    """Build a warning about a key that no host reads."""
    said = f"{where} holds {quote_text(key)}, which the protocol does not know and hosts ignore: is it a typo?"
    return Complaint(weight="warned", sentence=said)


def _judge_stray_line(sentence: str) -> JudgedLine:
    return JudgedLine(message=UnusableLine(reason=sentence), complaints=(Complaint(about="stdout", sentence=sentence),))


def _envelope(plain: dict[str, Any]) -> list[Complaint]:
    if "method" in plain:
        shape = "request" if "id" in plain else "notification"
        what = f"its {shape} {_format_method(plain['method'])}"
    elif "error" in plain:
        shape, what = "failure", f"its error reply to {_format_id(plain.get('id'))}"
    elif "result" in plain:
        shape, what = "success", f"its reply to {_format_id(plain.get('id'))}"
    else:
        said = "it sent an object with neither method, result nor error: every message has one of them"
        return [Complaint(sentence=said)]
    fault = fault_at("message.json", shape, plain)
    if fault is None:
        return []
    if plain.get("jsonrpc") != "2.0":
        fault = 'every message must hold "jsonrpc": "2.0"'
    return [Complaint(sentence=f"{what} is not a JSON-RPC message: {fault}")]


def _content(plain: dict[str, Any]) -> list[Complaint]:
    name = plain.get("method")
    if not isinstance(name, str):
        return []
    method = methods().get(name)
    if method is None:
        near = get_close_matches(
            name[:_SHOWN_BYTES], [each for each in methods() if methods()[each].sent_by != "host"], 1
        )
        hint = f"; did you mean {near[0]}?" if near else ""
        return [Complaint(sentence=f"it sent {_format_method(name)}, which is not a method of the protocol{hint}")]
    if method.sent_by == "host":
        return [Complaint(sentence=f"it sent {_format_method(name)}, which only hosts send")]
    if "id" not in plain and method.kind == "request":
        return [Complaint(sentence=f"it sent {name} without an id, so no host answers it: send it as a request")]
    complaints: list[Complaint] = []
    if "id" in plain and method.kind == "notification":
        said = f"it sent {name} with an id, and waits for an answer that few hosts give: leave the id out"
        complaints.append(Complaint(weight="warned", sentence=said))
    params = plain.get("params", {})
    if fault := fault_of(name, "params", params):
        complaints.append(Complaint(sentence=f"the params of its {name} do not fit the protocol: {fault}"))
    else:
        complaints += [unknown_key(f"its {name}", key) for key in unknown_keys(name, "params", params)]
    return complaints


def _format_line(line: bytes) -> str:
    return quote_text(line[:_SHOWN_BYTES].decode("utf-8", errors="replace"))


def _format_method(method: object) -> str:
    return quote_text(method) if isinstance(method, str) else "without a name"


def _format_id(id: object) -> str:
    return quote_text(id) if isinstance(id, str) else str(id)[:_SHOWN_BYTES]
