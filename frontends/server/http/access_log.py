"""The log of requests: client, request and outcome, without any secrets."""

import logging
import re
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

log = logging.getLogger("frontends.server.http.access")

_SECRET: Final = re.compile(
    r"(?i)((?:^|[?&;,\s\"'{])(?:code|token|access_token|authorization|cookie|set-cookie)\"?\s*[=:]\s*\"?)"
    r"((?:bearer|basic)\s+)?[^&;,\s\"'}]+"
)
_MOST: Final = 500
_LOGGED: Final = "session-core.logged"
WHOLE: Final = "session-core.whole"
"""The key in a request's scope for the status of a completely sent response."""


def redact(text: str) -> str:
    """Return a text without the values of secrets, and without anything that breaks a log line."""
    masked = _SECRET.sub(r"\1\2***", text)
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in masked[:_MOST])


class AccessLog:
    """Replaces hypercorn's own logger, which would log queries and headers."""

    def __init__(self, config: object = None) -> None:
        del config

    async def access(
        self, request: MutableMapping[str, Any], response: Mapping[str, Any] | None, request_time: float
    ) -> None:
        """Write one line about a request, even if hypercorn reports it twice.

        It does so when a client disconnects as soon as it has the response, which for HEAD is only the head: first it
        reports the disconnect, and then the complete response.
        """
        if request.get(_LOGGED):
            return
        request[_LOGGED] = True
        status = response["status"] if response is not None else request.get(WHOLE, "left")
        query = request["query_string"].decode("latin-1")
        path = request["path"] + (f"?{query}" if query else "")
        client = request.get("client")
        log.info(
            "%s %s %s %s %.1f ms",
            client[0] if client else "-",
            request.get("method", "WEBSOCKET"),
            redact(path),
            status,
            request_time * 1000,
        )

    async def exception(self, message: str, *args: object, **_: object) -> None:
        """Report a bug."""
        log.error(message, *args, exc_info=sys.exc_info())

    async def info(self, message: str, *args: object, **_: object) -> None:
        """Log an informational message."""
        log.debug(message, *args)

    warning = error = critical = debug = info
