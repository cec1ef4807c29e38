"""Reads the fields of a JSON object, with a message for each mistake."""

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from session_core.limits import MAX_PATH_CHARS, MAX_TEXT_CHARS
from session_core.mcp.variables import CannotExpand, expand

MAX_LIST: Final = 1_000
"""The most items of one list in the file."""

_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?")
_OUR_HEADERS: Final = frozenset(
    {
        "accept",
        "connection",
        "content-length",
        "content-type",
        "host",
        "last-event-id",
        "mcp-protocol-version",
        "mcp-session-id",
        "te",
        "transfer-encoding",
        "upgrade",
    }
)


class McpConfigFieldError(Exception):
    """A field of the file is invalid."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


class McpConfigFields:
    """One object of the file; every method names the field in its error."""

    def __init__(
        self, entry: Mapping[str, Any], field: str, environment: Mapping[str, str], released: Collection[str]
    ) -> None:
        self.field = field
        self._entry = entry
        self._environment = environment
        self._released = released

    def __contains__(self, key: str) -> bool:
        return key in self._entry

    def full_name(self, key: str) -> str:
        """Return the full name of a field."""
        return f"{self.field}.{key}" if self.field else key

    def refuse_unknown(self, known: Sequence[str], elsewhere: Collection[str]) -> None:
        """Refuse an unknown key: it might be a misspelt rule that the user relies on."""
        for key in self._entry:
            if key in known:
                continue
            if key in elsewhere:
                raise McpConfigFieldError(self.full_name(key), "does not belong to this kind of server")
            raise McpConfigFieldError(
                self.full_name(key[:100]), f"there is no such setting{suggestion_suffix(key, known)}"
            )

    def text(self, key: str, default: str | None = None) -> str:
        """Return a non-empty string."""
        value = self._entry.get(key, default)
        if not isinstance(value, str) or not value:
            raise McpConfigFieldError(self.full_name(key), "must be a non-empty string")
        return self._clean(key, value, MAX_PATH_CHARS)

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings; empty if it is missing."""
        value = self._entry.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise McpConfigFieldError(self.full_name(key), "must be a list of strings")
        if len(value) > MAX_LIST:
            raise McpConfigFieldError(self.full_name(key), f"has more than {MAX_LIST} items")
        return tuple(self._clean(key, item, MAX_TEXT_CHARS) for item in value)

    def boolean(self, key: str) -> bool:
        """Return a boolean; false if it is missing."""
        value = self._entry.get(key, False)
        if not isinstance(value, bool):
            raise McpConfigFieldError(self.full_name(key), "must be true or false")
        return value

    def number(self, key: str, *, default: int, minimum: int, maximum: int) -> int:
        """Return a whole number."""
        value = self._entry.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
            raise McpConfigFieldError(self.full_name(key), f"must be a whole number from {minimum} to {maximum:,}")
        return value

    def object(self, key: str) -> dict[str, Any]:
        """Return an object; empty if it is missing."""
        value = self._entry.get(key, {})
        if not isinstance(value, dict):
            raise McpConfigFieldError(self.full_name(key), "must be an object")
        return value

    def read_expanded(self, key: str) -> dict[str, str]:
        """Return an object of strings with all variables expanded."""
        found = {}
        for name, value in self.object(key).items():
            where = f"{self.full_name(key)}.{name[:100]}"
            if not isinstance(value, str):
                raise McpConfigFieldError(where, "must be a string")
            try:
                found[name] = self._clean(key, expand(value, self._environment, self._released), MAX_TEXT_CHARS)
            except CannotExpand as error:
                raise McpConfigFieldError(where, str(error)) from error
        return found

    def _clean(self, key: str, value: str, limit: int) -> str:
        if len(value) > limit:
            raise McpConfigFieldError(self.full_name(key), f"is longer than {limit:,} characters")
        if "\0" in value:
            raise McpConfigFieldError(
                self.full_name(key), "contains a NUL character, which cannot be passed to a program"
            )
        return value


def checked_headers(fields: McpConfigFields) -> dict[str, str]:
    """Return the headers of a server; those that the protocol itself sets are refused."""
    headers = fields.read_expanded("headers")
    for name, value in headers.items():
        where = f"{fields.full_name('headers')}.{name[:100]}"
        if not _HEADER_NAME.fullmatch(name):
            raise McpConfigFieldError(where, "is not the name of a header")
        if name.lower() in _OUR_HEADERS:
            raise McpConfigFieldError(where, "is set by the protocol itself and cannot be given")
        if not _HEADER_VALUE.fullmatch(value):
            raise McpConfigFieldError(where, "must be plain ASCII text without line breaks or blanks at the ends")
    return headers


def checked_url(fields: McpConfigFields, *, secrets: bool) -> str:
    """Return the URL of a server; headers go only over an encrypted connection or to this machine."""
    from session_core.providers.endpoint import is_loopback  # needs more than a list of servers without any

    url, where = fields.text("url"), fields.full_name("url")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port  # an invalid port raises when it is read
    except ValueError as error:
        raise McpConfigFieldError(where, "is not an address") from error
    if parts.scheme not in ("http", "https") or not host or not url.isascii() or not url.isprintable() or " " in url:
        raise McpConfigFieldError(where, "must be an address such as https://example.org/mcp")
    if "${" in url:
        raise McpConfigFieldError(where, "variables are replaced in env and headers only; put the secret into a header")
    if parts.username is not None or parts.password is not None:
        raise McpConfigFieldError(where, 'must not contain a name or password; put them into "headers"')
    if parts.fragment:
        raise McpConfigFieldError(where, "must not have a part after '#'")
    if secrets and parts.scheme == "http" and not is_loopback(host):
        raise McpConfigFieldError(
            where, "must start with https: otherwise anyone on the network path could read its headers"
        )
    return url


def suggestion_suffix(word: str, known: Sequence[str]) -> str:
    """Return a suggestion as the end of a sentence."""
    return closest_words(word, known) or f"; the settings here are {', '.join(known)}"


def closest_words(word: str, known: Sequence[str]) -> str:
    """Return a guess, if there is one."""
    found = difflib.get_close_matches(word[:100], known, n=1)
    return f"; did you mean {found[0]!r}?" if found else ""
