"""Turn failures into `ModelFailed`: pure functions from statuses, headers and bodies to messages that help people."""

import json
import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from session_core.providers.base import FailureKind, ModelFailed
from session_core.providers.secrets import Secret, redact

MAX_EXCERPT_CHARS: Final = 400
"""How much of a foreign error text is shown."""
_MAX_READ_CHARS: Final = 64 * 1024
MAX_RETRY_AFTER_MS: Final = 24 * 3_600_000
"""A request to wait longer than a day is a mistake, theirs or ours."""

_KIND_OF_TYPE: Final[dict[str, FailureKind]] = {
    "authentication_error": "auth",
    "invalid_api_key": "auth",
    "permission_error": "auth",
    "permission_denied": "auth",
    "rate_limit_error": "rate_limited",
    "rate_limit_exceeded": "rate_limited",
    "tokens_exceeded": "rate_limited",
    "resource_exhausted": "rate_limited",
    "overloaded_error": "overloaded",
    "overloaded": "overloaded",
    "api_error": "overloaded",
    "server_error": "overloaded",
    "internal_error": "overloaded",
    "internal_server_error": "overloaded",
    "service_unavailable": "overloaded",
    "unavailable": "overloaded",
    "timeout_error": "overloaded",
    "request_too_large": "context_too_long",
    "context_length_exceeded": "context_too_long",
    "context_window_exceeded": "context_too_long",
    "model_context_window_exceeded": "context_too_long",
    # Retrying does not help with these, whatever the status says.
    "insufficient_quota": "refused",
    "billing_error": "refused",
    "billing_not_active": "refused",
    "not_found_error": "refused",
    "model_not_found": "refused",
    "content_policy_violation": "refused",
    "content_filter": "refused",
}
_KIND_OF_STATUS: Final[dict[int, FailureKind]] = {
    408: "network",
    409: "overloaded",
    413: "context_too_long",
    425: "overloaded",
    429: "rate_limited",
    501: "refused",
    505: "refused",
}
_TOO_LONG: Final = re.compile(
    r"(?:prompt|input|request|conversation|messages?) (?:is|are) too (?:long|large)"
    r"|(?:maximum|max|exceeds?(?: the)?|exceeded(?: the)?)[^.]{0,60}context"
    r"|context[ _-]?(?:length|window|limit|size)[^.]{0,60}(?:exceed|too|limit|maximum)"
    r"|exceeds? the (?:available )?context|too many (?:input )?tokens"
    r"|reduce the length of the (?:messages|prompt|input)",
    re.IGNORECASE,
)
_SENTENCES: Final[dict[FailureKind, str]] = {
    "rate_limited": "The provider asks for fewer requests",
    "overloaded": "The provider is overloaded or has a fault",
    "auth": "The provider does not accept the key, or the key may not use this model",
    "context_too_long": "The conversation is too long for the model",
    "network": "The connection to the provider failed",
    "malformed": "The provider sent an invalid answer",
    "refused": "The provider refused the request",
    "internal": "The request could not be sent",
}
_DURATION: Final = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
_LIMITS: Final = re.compile(
    r"(?P<family>(?:x|anthropic)-ratelimit)-(?:reset-(?P<late>[a-z-]+)|(?P<early>[a-z-]+)-reset)"
)


def build_failure(
    kind: FailureKind,
    sentence: str = "",
    detail: str = "",
    *,
    secrets: Iterable[Secret] = (),
    retry_after_ms: int | None = None,
) -> ModelFailed:
    """Build a failure from our sentence and a short, masked excerpt of the server's message."""
    said = excerpt(detail, secrets)
    message = sentence or _SENTENCES[kind]
    return ModelFailed(
        kind=kind, message=f"{message}: {said}" if said else f"{message}.", retry_after_ms=retry_after_ms
    )


def failure_from_status(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    secrets: Iterable[Secret] = (),
    now: float | None = None,
    key_hint: str = "",
) -> ModelFailed:
    """Classify a response that is not a stream by status, headers (names in lower case) and the beginning of its body.

    `now` is the time in seconds since 1970; by default the present. `key_hint` says what to do about a refused key.
    """
    names, said = _read_error(body)
    kind = _classify_status(status, names, said)
    wait = None
    if kind in {"rate_limited", "overloaded"}:
        wait = retry_after_ms(headers, time.time() if now is None else now)
    sentence = f"{_SENTENCES[kind]} (status {status})"
    if kind == "auth" and key_hint:
        sentence += f"; {key_hint}"
    return build_failure(kind, sentence, said, secrets=secrets, retry_after_ms=wait)


def failure_from_event(error: object, *, secrets: Iterable[Secret] = ()) -> ModelFailed:
    """Classify an error object that arrived as an event of a stream; an unknown type counts as a temporary failure."""
    names, said = _names_and_text(error)
    kind = classify_error(names, said) or "overloaded"
    return build_failure(kind, detail=said, secrets=secrets)


def classify_error(names: Sequence[str], text: str) -> FailureKind | None:
    """Return the kind of an error by its type and code, then by its words; None if they are unknown."""
    kinds: list[FailureKind] = [_KIND_OF_TYPE[name] for name in names if name in _KIND_OF_TYPE]
    # `insufficient_quota` comes with a type that would make us retry.
    if "refused" in kinds:
        return "refused"
    if "context_too_long" in kinds:
        return "context_too_long"
    if _TOO_LONG.search(text) and not set(kinds) & {"rate_limited", "auth"}:
        return "context_too_long"
    if kinds:
        return kinds[0]
    return "refused" if "invalid_request_error" in names else None


def excerpt(text: str, secrets: Iterable[Secret] = ()) -> str:
    """Return the beginning of foreign text as one masked line; a web page is only named as such."""
    if re.match(r"\s*<(?:!doctype|html|head|body|\?xml)", text, re.IGNORECASE):
        return "(a web page)"
    visible = "".join(
        each if each.isprintable() else " " for each in redact(repair_surrogates(text[:_MAX_READ_CHARS]), secrets)
    )
    line = " ".join(visible.split())
    return line if len(line) <= MAX_EXCERPT_CHARS else f"{line[: MAX_EXCERPT_CHARS - 3]}..."


def repair_surrogates(text: str) -> str:
    """Join surrogate pairs and replace lone surrogates, which JSON accepts but no file or socket does."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def retry_after_ms(headers: Mapping[str, str], now: float) -> int | None:
    """Return how long the server asks us to wait, from any of the usual headers."""
    for name, unit in (("retry-after-ms", 1), ("retry-after", 1000)):
        if name in headers:
            seconds = _number(headers[name])
            if seconds is not None:
                return _bounded(seconds * unit)
    if (moment := _http_date(headers.get("retry-after", ""))) is not None:
        # The server's clock may differ from ours, so compare with its own Date header.
        answered = _http_date(headers.get("date", ""))
        return _bounded((moment - (now if answered is None else answered)) * 1000)
    waits = [_until_reset(text, now) for text in _resets_of_used_up_limits(headers)]
    known = [wait for wait in waits if wait is not None]
    return _bounded(max(known)) if known else None


def _resets_of_used_up_limits(headers: Mapping[str, str]) -> Iterable[str]:
    for name, text in headers.items():
        if found := _LIMITS.fullmatch(name):
            what = found["late"] or found["early"]
            remaining_headers = (f"{found['family']}-remaining-{what}", f"{found['family']}-{what}-remaining")
            if any(headers.get(each, "").strip() == "0" for each in remaining_headers):
                yield text
    if "x-ratelimit-reset" in headers and headers.get("x-ratelimit-remaining", "0").strip() == "0":
        yield headers["x-ratelimit-reset"]


def _until_reset(text: str, now: float) -> float | None:
    """Return milliseconds until a reset: a duration like `6m0s`, seconds, a Unix time in either unit, or a date."""
    text = text.strip()
    number = _number(text)
    if number is not None:
        if number > 1e11:
            return number - now * 1000
        return (number - now) * 1000 if number > 1e9 else number * 1000
    if text and (found := _DURATION.fullmatch(text)):
        days, hours, minutes, seconds, milliseconds = (float(each or 0) for each in found.groups())
        return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + milliseconds
    try:
        moment = datetime.fromisoformat(text)
        return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now) * 1000
    except (ValueError, OverflowError):
        return None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _http_date(text: str) -> float | None:
    from email.utils import parsedate_to_datetime  # takes long to import, and is hardly ever needed

    try:
        moment = parsedate_to_datetime(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, IndexError, TypeError):
        return None


def _bounded(milliseconds: float) -> int:
    return math.ceil(min(max(milliseconds, 0), MAX_RETRY_AFTER_MS))


def _classify_status(status: int, names: list[str], text: str) -> FailureKind:
    if status in {401, 403, 407}:
        return "auth"
    if by_words := classify_error(names, text):
        return by_words
    if status in _KIND_OF_STATUS:
        return _KIND_OF_STATUS[status]
    if status >= 500:
        return "overloaded"
    return "refused" if status >= 300 else "malformed"


def _read_error(body: bytes) -> tuple[list[str], str]:
    """Find types, codes and text of an error in the formats of providers; else the body itself is the text."""
    text = body.decode("utf-8", errors="replace")
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return [], text
    names, said = _names_and_text(parsed)
    return (names, said) if names or said else ([], text)


def _names_and_text(error: Any) -> tuple[list[str], str]:
    if isinstance(error, list) and error:
        error = error[0]
    if not isinstance(error, dict):
        return [], error if isinstance(error, str) else ""
    inner = error.get("error")
    if isinstance(inner, dict):
        error = inner
    elif isinstance(inner, str):
        error = {"message": inner, **{key: error.get(key) for key in ("type", "code")}}
    names = [
        name.lower() for name in (error.get("code"), error.get("type"), error.get("status")) if isinstance(name, str)
    ]
    said = next((error[key] for key in ("message", "detail") if isinstance(error.get(key), str)), "")
    return names, said
