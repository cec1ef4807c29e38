"""The host's side of a check: real contexts, everything answered, nothing done."""

from typing import Any

import pytest

from session_core.rpc.failures import RpcFailed
from session_core.rpc.messages import Request
from session_core.sep.conformance.fake_host import FakeHost
from session_core.sep.conformance.frames import Complaints
from session_core.sep.conformance.host_messages import SESSION
from session_core.sep.protocol.manifest import Capabilities, Manifest, RunSpec


def pretence(**capabilities: Any) -> tuple[FakeHost, Complaints]:
    manifest = Manifest(name="x", version="1", run=RunSpec(command="x"), capabilities=Capabilities(**capabilities))
    complaints = Complaints()
    return FakeHost("x", manifest, complaints), complaints


def answer(host: FakeHost, method: str, params: dict[str, Any]) -> Any:
    try:
        return host.answer(Request(id=1, method=method, params=params))
    except RpcFailed as error:
        return error.code


@pytest.mark.parametrize(
    ("method", "params", "answered"),
    [
        ("ping", {}, {}),
        ("ui/request", {"kind": "select", "prompt": "?", "options": ["a", "b"]}, {"value": "a"}),
        ("ui/request", {"kind": "confirm", "prompt": "?"}, {"confirmed": True}),
        ("ui/request", {"kind": "input", "prompt": "?"}, {"cancelled": True}),
        ("ui/request", {"kind": "set_status", "status": "busy"}, {}),
        ("ui/request", {"kind": "confirm"}, -32602),
        ("exec/run", {"command": "ls", "context": {"token": "t", "tier": "event"}}, -32002),
        ("tools/set_active", {"tools": ["read"]}, {"active": ["read"]}),
        ("bus/publish", {"topic": "t"}, {}),
        ("kv/put", {}, -32601),
        ("hook", {}, -32601),
        ("session/state", {}, -32003),
        ("session/send_message", {"context": {"token": "t", "tier": "event"}, "text": "hi"}, -32003),
    ],
)
def test_everything_is_answered(method: str, params: dict[str, Any], answered: Any) -> None:
    """Each request gets the answer, or the code, that a host gives."""
    assert answered == answer(pretence()[0], method, params)


def test_values_are_kept_and_bounded() -> None:
    """What is kept can be had again, listed and let go; too much of it is refused."""
    host, _ = pretence()

    assert {} == answer(host, "kv/set", {"key": "a", "value": [1]})
    assert {"value": [1]} == answer(host, "kv/get", {"key": "a"})
    assert {"keys": ["a"]} == answer(host, "kv/list", {})
    assert {} == answer(host, "kv/delete", {"key": "a"})
    assert {"value": None} == answer(host, "kv/get", {"key": "a"})
    assert -32602 == answer(host, "kv/set", {"key": "b", "value": "x" * 2_000_000})
    assert -32602 in [answer(host, "kv/set", {"key": str(number), "value": 0}) for number in range(1_000)]


def test_contexts_are_real() -> None:
    """An action is allowed while its dispatch is open; stale, honest and forged contexts are refused, and told."""
    host, complaints = pretence()
    with host.contexts.dispatch("x", 1, SESSION) as context:
        held = host.remember_context(context)
        allowed = answer(host, "session/send_message", {"context": held, "text": "hi"})
    event = host.event_context()
    refused = [
        answer(host, "session/state", {"context": claimed})
        for claimed in (held, event, {**event, "tier": "command"}, {"token": "made up", "tier": "command"})
    ]

    assert {} == allowed
    assert [-32003] * 4 == refused
    assert ["failed", "failed", "warned", "warned"] == [
        each.weight for each, _ in complaints.complaints_about("contexts")
    ]


def test_what_the_manifest_does_not_enable_is_refused() -> None:
    """A request of a group that is switched off is refused as by a host, and its author is told what is missing."""
    host, complaints = pretence(enabled=frozenset())

    assert -32004 == answer(host, "kv/get", {"key": "a"})
    assert "add kv = true to [capabilities]" in complaints.complaints_about("messages")[0][0].sentence
