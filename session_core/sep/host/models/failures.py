"""Why a model of an extension gave no answer, as a `ModelFailed`.

Extensions answer with an error of a few words, which they mostly got from somebody else. A status of HTTP or the type
of an error is looked for in its `data`, then in its words, so that what is worth another try gets one.
"""

import json
import re
from collections.abc import Iterable
from typing import Any, Final

from session_core.providers.base import FailureKind, ModelFailed
from session_core.providers.failures import failed, failed_by_status, kind_of_error
from session_core.providers.secrets import Secret
from session_core.rpc.failures import CANCELLED, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RpcClosed, RpcFailed
from session_core.sep.protocol.names import BLOCKED, CAPABILITY_DISABLED, CONTEXT_VIOLATION, NO_UI, NOT_TRUSTED

_ON_ITS_WAY: Final = frozenset({"starting", "restarting", "reloading", "ready"})
_REFUSALS: Final = frozenset(
    {BLOCKED, NO_UI, NOT_TRUSTED, CONTEXT_VIOLATION, CAPABILITY_DISABLED, METHOD_NOT_FOUND, INVALID_PARAMS, CANCELLED}
)
_STATUS: Final = re.compile(
    r"(?:^|\b(?:http|status|code|error)\b\W{0,4}(?:code\W{0,3})?)\(?([45]\d\d)\b", re.IGNORECASE
)
_NETWORK: Final = re.compile(
    r"fetch failed|socket hang up|connection (?:refused|reset|error|closed|timed? ?out)|network error|timed? ?out"
    r"|ECONN(?:REFUSED|RESET|ABORTED)|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|EPIPE",
    re.IGNORECASE,
)
_BY_WORDS: Final[tuple[tuple[re.Pattern[str], FailureKind], ...]] = (
    (re.compile(r"rate.?limit|too many requests", re.IGNORECASE), "rate_limited"),
    (re.compile(r"overloaded|service unavailable|bad gateway", re.IGNORECASE), "overloaded"),
    (re.compile(r"unauthori[sz]ed|invalid.{0,20}(?:api.?key|token)|not logged in", re.IGNORECASE), "auth"),
    (_NETWORK, "network"),
)
_LONGEST_READ: Final = 4_000


def failed_by_extension(
    error: RpcFailed, *, name: str, state: str, problem: str | None, secrets: Iterable[Secret] = ()
) -> ModelFailed:
    """Judge the error that a call to an extension ended with; `state` and `problem` are the extension's own."""
    hidden = tuple(secrets)
    if isinstance(error, RpcClosed):
        return failed("network", f"The extension {name} ended in the middle of the answer", secrets=hidden)
    if error.code == INTERNAL_ERROR and state not in {"ready", "reloading"}:
        return _not_running(name, state, problem, hidden)
    sentence = f"The extension {name} gave no answer"
    data = error.data if isinstance(error.data, dict) else {}
    if (status := _status(data)) is not None:
        return _by_status(status, data, error.message, hidden)
    names = [text.lower() for key in ("type", "code", "kind") if isinstance(text := data.get(key), str)]
    said = error.message[:_LONGEST_READ]
    if (kind := kind_of_error(names, said)) is not None:
        return failed(kind, sentence, said, secrets=hidden, retry_after_ms=_wait(data))
    if error.code in _REFUSALS:
        return failed("refused", sentence, said, secrets=hidden)
    if found := _STATUS.search(said):
        return _by_status(int(found[1]), data, said, hidden)
    for words, by_words in _BY_WORDS:
        if words.search(said):
            return failed(by_words, sentence, said, secrets=hidden, retry_after_ms=_wait(data))
    return failed("internal", sentence, said, secrets=hidden)


def _not_running(name: str, state: str, problem: str | None, secrets: tuple[Secret, ...]) -> ModelFailed:
    kind: FailureKind = "network" if state in _ON_ITS_WAY else "refused"
    return failed(kind, f"The extension {name} is not running", problem or "", secrets=secrets)


def _by_status(status: int, data: dict[str, Any], said: str, secrets: tuple[Secret, ...]) -> ModelFailed:
    body = json.dumps({"error": {"message": said[:_LONGEST_READ], "type": data.get("type"), "code": data.get("code")}})
    wait = _wait(data)
    headers = {} if wait is None else {"retry-after-ms": str(wait)}
    return failed_by_status(status, headers, body.encode(), secrets=secrets)


def _status(data: dict[str, Any]) -> int | None:
    for key in ("status", "status_code", "statusCode", "http_status"):
        status = data.get(key)
        if isinstance(status, int) and not isinstance(status, bool) and 400 <= status <= 599:
            return status
    return None


def _wait(data: dict[str, Any]) -> int | None:
    for key, unit in (("retry_after_ms", 1), ("retry_after", 1000)):
        wait = data.get(key)
        if isinstance(wait, int | float) and not isinstance(wait, bool) and 0 <= wait <= 86_400_000:
            return int(wait * unit)
    return None
