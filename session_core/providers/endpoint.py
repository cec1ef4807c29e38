"""The endpoint of a provider: its address, its key, its limits, and its open connections."""

import ipaddress
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, urlsplit

import attrs
import trio

from session_core.errors import InvalidInput
from session_core.providers.failures import excerpt
from session_core.providers.secrets import Secret
from session_core.providers.sse import DEFAULT_MAX_EVENT_BYTES
from session_core.providers.timeouts import ProviderTimeouts

if TYPE_CHECKING:
    import httpx2

_CLOSE_S: Final = 2
_MAX_CONNECTIONS: Final = 256
_KEPT_CONNECTIONS: Final = 16
_KEEP_ALIVE_S: Final = 60
_OURS: Final = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding"})


_LOGGERS_OF_ANSWERS: Final = ("httpcore2.http11", "httpcore2.http2")


def _is_without_server_data(record: logging.LogRecord) -> bool:
    """Return whether a record quotes no server data: some servers repeat the key in a header or a malformed one."""
    return not str(record.msg).startswith("receive_response_")


class _Connections:
    """The client of an endpoint, made on first use."""

    def __init__(self) -> None:
        self.client: httpx2.AsyncClient | None = None
        self.lock = trio.Lock()


def _check_base_url(_: object, _field: "attrs.Attribute[str]", base_url: str) -> None:
    split = _split(base_url)
    if not base_url.isascii() or not base_url.isprintable() or set(base_url) & set(' \\"<>^`{|}'):
        raise InvalidInput("The address of the provider contains invalid characters.", field="base_url")
    if split is None or split.scheme not in {"http", "https"} or not split.hostname:
        raise InvalidInput("The address of the provider must begin with https:// and name a host.", field="base_url")
    if "@" in split.netloc or split.query or split.fragment or "?" in base_url or "#" in base_url:
        raise InvalidInput(
            "The address of the provider must not contain a user, a password, '?' or '#'.", field="base_url"
        )
    if split.scheme == "http" and not is_loopback(split.hostname):
        raise InvalidInput(
            "The address of the provider must begin with https://; http:// is for this machine only, as anyone on the "
            "network path could read the key.",
            field="base_url",
        )


def _check_key(_: object, _field: "attrs.Attribute[Secret | None]", key: Secret | None) -> None:
    if key is not None and not _is_valid_header_value(key.reveal()):
        raise InvalidInput("The key is empty or contains spaces, line breaks or other invalid characters.", field="key")


def _check_headers(_: object, _field: "attrs.Attribute[Any]", headers: Mapping[str, str | Secret]) -> None:
    for name, content in headers.items():
        text = content.reveal() if isinstance(content, Secret) else content
        if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
            raise InvalidInput(f"{excerpt(name)!r} cannot be the name of a header.", field="headers")
        if name.lower() in _OURS:
            raise InvalidInput(f"The header {name} cannot be set; the call determines it.", field="headers")
        if text.strip() != text or not text.isascii() or not text.isprintable():
            raise InvalidInput(f"The header {name} contains characters that are invalid in a header.", field="headers")


def _is_valid_header_value(key: str) -> bool:
    return key.isascii() and key.isprintable() and " " not in key and bool(key)


@attrs.frozen(kw_only=True, eq=False)
class Endpoint:
    """The address and limits of a provider; it keeps connections open until `aclose`.

    Attributes:
        base_url: Begins with https://, or with http:// for this machine; call paths are appended to it.
        key: Sent with every call, to this address only.
        key_header: The header that carries the key, if it is not the one the provider's kind uses.
        key_hint: What people should do if the key is refused, such as the variable to set.
        absent_hint: What they should check if no program listens at an address of this machine.
        headers: Sent with every call too; secret values are `Secret`s.
        timeouts: How long each phase of a call may take.
        max_stream_bytes: The longest answer in bytes.
        max_events: The longest answer in events.
        max_event_bytes: The largest single event.
    """

    base_url: str = attrs.field(validator=_check_base_url)
    key: Secret | None = attrs.field(default=None, validator=_check_key)
    key_header: str | None = None
    key_hint: str = ""
    absent_hint: str = "is the model's server running?"
    headers: Mapping[str, str | Secret] = attrs.field(factory=dict, validator=_check_headers)
    timeouts: ProviderTimeouts = attrs.field(factory=ProviderTimeouts)
    max_stream_bytes: int = 128 * 1024 * 1024
    max_events: int = 1_000_000
    max_event_bytes: int = DEFAULT_MAX_EVENT_BYTES
    _connections: _Connections = attrs.field(factory=_Connections, init=False, repr=False)

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """Everything that must not appear in any text."""
        hidden = tuple(each for each in self.headers.values() if isinstance(each, Secret))
        return hidden if self.key is None else (self.key, *hidden)

    @property
    def host(self) -> str:
        """The host as messages name it."""
        return urlsplit(self.base_url).netloc

    async def client(self) -> "httpx2.AsyncClient":
        """Return the one client of this endpoint."""
        async with self._connections.lock:
            if self._connections.client is None:
                self._connections.client = await trio.to_thread.run_sync(_make_client, self)
            return self._connections.client

    async def aclose(self) -> None:
        """Close all connections; calls under way fail. A later call opens new ones."""
        client, self._connections.client = self._connections.client, None
        if client is not None:
            with trio.CancelScope(shield=True), trio.move_on_after(_CLOSE_S):
                await client.aclose()


def is_loopback(host: str) -> bool:
    """Return whether a host is certainly this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _make_client(endpoint: Endpoint) -> "httpx2.AsyncClient":
    import ssl

    import httpx2

    for name in _LOGGERS_OF_ANSWERS:
        logging.getLogger(name).addFilter(_is_without_server_data)
    address = urlsplit(endpoint.base_url)
    return httpx2.AsyncClient(
        # Without TLS there is nothing to verify, and loading the system's certificates is slow.
        verify=True if address.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        timeout=httpx2.Timeout(
            connect=endpoint.timeouts.connect_s,
            read=endpoint.timeouts.read_s,
            write=endpoint.timeouts.read_s,
            pool=endpoint.timeouts.connect_s,
        ),
        limits=httpx2.Limits(
            max_connections=_MAX_CONNECTIONS,
            max_keepalive_connections=_KEPT_CONNECTIONS,
            keepalive_expiry=_KEEP_ALIVE_S,
        ),
        follow_redirects=False,
        # Proxies from the environment are for remote hosts; this machine is reached directly.
        trust_env=not is_loopback(address.hostname or ""),
    )


def _split(base_url: str) -> SplitResult | None:
    try:
        split = urlsplit(base_url)
        _ = split.port, split.hostname
        return split
    except ValueError:
        return None
