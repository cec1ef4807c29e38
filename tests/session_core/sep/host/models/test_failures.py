"""What errors of extensions mean for those who wait for an answer."""

from typing import Any

import pytest

from session_core.providers.secrets import Secret
from session_core.rpc.failures import CloseReason, RpcClosed, RpcFailed
from session_core.sep.host.models.stream import classify_failure


def kind(error: RpcFailed, state: str = "ready") -> str:
    return classify_failure(error, name="acme", state=state, problem="it crashed").kind


@pytest.mark.parametrize(
    ("message", "data", "expected"),
    [
        ("nothing helps", None, "internal"),
        ("TypeError: x is undefined at line 429", None, "internal"),
        ("no", {"status": 429}, "rate_limited"),
        ("no", {"statusCode": 503}, "overloaded"),
        ("no", {"status": 401}, "auth"),
        ("no", {"status": True}, "internal"),
        ("no", {"type": "context_length_exceeded"}, "context_too_long"),
        ("no", {"code": "insufficient_quota", "status": 429}, "refused"),
        ("prompt is too long: 300000 tokens", None, "context_too_long"),
        ("429 Too Many Requests", None, "rate_limited"),
        ("HTTP 500", None, "overloaded"),
        ("request failed with status code 502", None, "overloaded"),
        ("Error: 403 forbidden", None, "auth"),
        ("rate limit reached", None, "rate_limited"),
        ("the model is overloaded", None, "overloaded"),
        ("Invalid API key", None, "auth"),
        ("fetch failed", None, "network"),
        ("connect ECONNREFUSED 127.0.0.1:1", None, "network"),
    ],
)
def test_kinds_by_data_and_words(message: str, data: Any, expected: str) -> None:
    """A status, a type or well-known words tell whether another try, less text or another key helps."""
    assert kind(RpcFailed(-32603, message, data)) == expected


@pytest.mark.parametrize(
    ("code", "expected"), [(-32601, "refused"), (-32602, "refused"), (-32004, "refused"), (-32800, "refused")]
)
def test_kinds_by_code(code: int, expected: str) -> None:
    """What the extension cannot or will not do is not asked for again."""
    assert kind(RpcFailed(code, "no")) == expected


@pytest.mark.parametrize(
    ("state", "expected"),
    [("restarting", "network"), ("starting", "network"), ("failed", "refused"), ("stopped", "refused")],
)
def test_an_extension_that_does_not_run(state: str, expected: str) -> None:
    """One that is about to come back is asked again, one that has failed is not, and people are told why."""
    error = RpcFailed(-32603, "the extension acme is not running")
    failure = classify_failure(error, name="acme", state=state, problem="it crashed")
    assert failure.kind == expected
    assert failure.message == "The extension acme is not running: it crashed"


def test_a_process_that_ended() -> None:
    """A connection that ended is worth another try."""
    assert kind(RpcClosed(CloseReason(kind="ended")), "restarting") == "network"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"retry_after_ms": 1_500}, 1_500),
        ({"retry_after": 2}, 2_000),
        ({"retry_after": -1}, None),
        ({"retry_after": "soon"}, None),
    ],
)
def test_waits(data: dict[str, Any], expected: int | None) -> None:
    """An extension may say how long to wait, with a status as well as without one."""
    for more in ({"status": 429}, {"type": "rate_limit_error"}):
        error = RpcFailed(-32603, "no", {**data, **more})
        assert classify_failure(error, name="acme", state="ready", problem=None).retry_after_ms == expected


def test_secrets_are_masked() -> None:
    """A token that the extension repeats in its error does not reach people."""
    error = RpcFailed(-32603, "the token tok-123456789 is not valid")
    failure = classify_failure(error, name="acme", state="ready", problem=None, secrets=[Secret("tok-123456789")])
    assert "123456789" not in failure.message
