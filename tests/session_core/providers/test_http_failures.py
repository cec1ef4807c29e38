"""Statuses, headers and bodies become failures that people and the retry can use."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.providers.base import FailureKind
from session_core.providers.failures import (
    MAX_EXCERPT_CHARS,
    MAX_RETRY_AFTER_MS,
    excerpt,
    failure_from_event,
    failure_from_status,
    retry_after_ms,
)
from session_core.providers.secrets import Secret

NOW = 1_800_000_000.0  # Fri, 15 Jan 2027 08:00:00 GMT


def _body(message: str, **fields: object) -> bytes:
    return json.dumps({"error": {"message": message, **fields}}).encode()


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, b"", "refused"),
        (400, _body("bad field", type="invalid_request_error"), "refused"),
        (
            400,
            _body("prompt is too long: 210000 tokens > 200000 maximum", type="invalid_request_error"),
            "context_too_long",
        ),
        (400, _body("input length and `max_tokens` exceed context limit: 1 + 2 > 2"), "context_too_long"),
        (400, _body("This model's maximum context length is 8192 tokens."), "context_too_long"),
        (400, _body("x", code="context_length_exceeded", type="invalid_request_error"), "context_too_long"),
        (401, _body("invalid x-api-key", type="authentication_error"), "auth"),
        (402, b"", "refused"),
        (403, b"<html>no</html>", "auth"),
        (404, _body("model: nope", type="not_found_error"), "refused"),
        (408, b"", "network"),
        (409, b"", "overloaded"),
        (413, b"", "context_too_long"),
        (429, _body("slow down", type="rate_limit_error"), "rate_limited"),
        (429, _body("pay first", type="insufficient_quota", code="insufficient_quota"), "refused"),
        (
            429,
            _body("too many tokens per minute for your context length limit", type="rate_limit_error"),
            "rate_limited",
        ),
        (500, b"oops", "overloaded"),
        (502, b"", "overloaded"),
        (503, b"", "overloaded"),
        (529, _body("Overloaded", type="overloaded_error"), "overloaded"),
        (302, b"", "refused"),
        (204, b"", "malformed"),
        (500, b'[{"error": {"status": "UNAVAILABLE", "message": "later"}}]', "overloaded"),
        (400, b'{"error": "a text"}', "refused"),
        (422, b'{"detail": "a text"}', "refused"),
        (400, b"[" * 10_000, "refused"),
    ],
)
def test_what_a_status_means(status: int, body: bytes, kind: FailureKind) -> None:
    """Status, type and words of an error together tell its kind, and whether trying again helps."""
    assert kind == failure_from_status(status, {}, body, now=NOW).kind


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7_000),
        ({"retry-after": "0.5"}, 500),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1_500),
        ({"retry-after": "Fri, 15 Jan 2027 08:00:30 GMT"}, 30_000),
        ({"retry-after": "Fri, 15 Jan 2027 08:00:30 GMT", "date": "Fri, 15 Jan 2027 08:00:20 GMT"}, 10_000),
        ({"retry-after": "Fri, 15 Jan 2027 07:00:00 GMT"}, 0),
        ({"retry-after": "-4"}, 0),
        ({"retry-after": "1e99"}, MAX_RETRY_AFTER_MS),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m30s"}, 90_000),
        ({"x-ratelimit-remaining-requests": "3", "x-ratelimit-reset-requests": "1m30s"}, None),
        (
            {
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "120ms",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "2s",
            },
            2_000,
        ),
        (
            {
                "anthropic-ratelimit-input-tokens-remaining": "0",
                "anthropic-ratelimit-input-tokens-reset": "2027-01-15T08:00:12Z",
            },
            12_000,
        ),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1800000005000"}, 5_000),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1800000006"}, 6_000),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "8"}, 8_000),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "x"}, None),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], expected: int | None) -> None:
    """Every customary way of asking us to wait is understood, within bounds; others are passed over."""
    assert expected == retry_after_ms(headers, NOW)
    assert expected == failure_from_status(429, headers, b"", now=NOW).retry_after_ms


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_header_gives_a_sensible_wait(asked: str, date: str) -> None:
    """Whatever the headers hold, the wait is absent or within bounds."""
    wait = retry_after_ms({"retry-after": asked, "date": date, "x-ratelimit-reset": asked}, NOW)
    assert wait is None or 0 <= wait <= MAX_RETRY_AFTER_MS


@given(st.integers(100, 999), st.binary(max_size=200))
def test_any_body_gives_a_short_message(status: int, body: bytes) -> None:
    """Whatever the body holds, the message is one short line that can be printed and stored."""
    message = failure_from_status(status, {}, body, now=NOW).message
    assert len(message) <= MAX_EXCERPT_CHARS + 120
    assert message.isprintable()
    message.encode()


def test_a_message_says_what_the_other_side_said() -> None:
    """The text of the provider stands behind ours, without its keys, and a web page is not quoted."""
    said = failure_from_status(401, {}, _body("bad key hunter2-hunter2"), secrets=[Secret("hunter2-hunter2")])
    assert (
        "The provider does not accept the key, or the key may not use this model (status 401): bad key ***"
        == said.message
    )
    page = failure_from_status(502, {}, b"<!DOCTYPE html><h1>Bad gateway</h1>")
    assert "The provider is overloaded or has a fault (status 502): (a web page)" == page.message


def test_a_key_at_the_cut_does_not_survive_in_part() -> None:
    """Keys are masked before the text is cut short, so that no half of one remains."""
    text = "x" * (MAX_EXCERPT_CHARS - 10) + " hunter2-hunter2"
    assert "hunter" not in excerpt(text, [Secret("hunter2-hunter2")])


@pytest.mark.parametrize("error", [None, 7, [], {}, {"error": None}, {"error": {"message": 7}}, "text"])
def test_an_odd_error_in_a_stream(error: object) -> None:
    """An error object of any shape is a failure that may pass."""
    assert "overloaded" == failure_from_event(error).kind
