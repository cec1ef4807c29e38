"""The address of a server: the socket of a home on this machine, or a WebSocket anywhere."""

import ipaddress
import ssl
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import attrs

import session_core as sc
from frontends.shared.socket_path import socket_path_of_home

_PATH: Final = "/v1/ws"
"""The default path of WebSockets."""


@attrs.frozen(kw_only=True)
class UnixAddress:
    """A socket on this machine."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)


@attrs.frozen(kw_only=True)
class WebSocketAddress:
    """A server behind HTTP.

    Attributes:
        url: Its URL, such as `ws://127.0.0.1:8000/v1/ws`.
        token: The access token.
        tls: How to verify the server, if not with the system's certificate authorities.
    """

    url: str
    token: str = attrs.field(default="", repr=False)
    tls: ssl.SSLContext | None = None

    def __str__(self) -> str:
        return self.url


Address = UnixAddress | WebSocketAddress


def find_address(
    *,
    home: Path | str | None = None,
    address: str | Path | None = None,
    token: str = "",
    tls: ssl.SSLContext | None = None,
    insecure: bool = False,
) -> Address:
    """Return the address to connect to: the given one, else the socket of the home.

    Args:
        home: A home; None means the user's own.
        address: The path of a socket, or a URL that begins with `ws://` or `wss://`; its path may be omitted.
        token: The access token for a URL.
        tls: How to verify the server at a `wss://` URL.
        insecure: Send the token to another machine even if it can be read on the way.

    Raises:
        InvalidInput: The address is invalid, or would expose the token.
    """
    if address is None:
        return UnixAddress(path=socket_path_of_home(Path(home) if home is not None else sc.setup.default_home()))
    if home is not None:
        raise sc.InvalidInput("give a home or an address, not both", field="address")
    if isinstance(address, Path) or "://" not in address:
        if not str(address) or "\0" in str(address):
            raise sc.InvalidInput("the address is empty or not a path", field="address")
        return UnixAddress(path=Path(address))
    try:
        parts = urlsplit(address)
        host = parts.hostname
        _ = parts.port
    except ValueError as error:
        raise sc.InvalidInput(f"the address cannot be read: {error}", field="address") from None
    if parts.scheme not in {"ws", "wss"} or not host or parts.username is not None:
        raise sc.InvalidInput(
            "the address must look like ws://127.0.0.1:8000 or wss://example.net:8443; replace http with ws in "
            "the address of a service",
            field="address",
        )
    if parts.scheme == "ws" and not insecure and not is_this_machine(host):
        raise sc.InvalidInput(
            f"anyone on the network path to {host} could read the token; use wss://, or insecure=True",
            field="address",
        )
    if not token.isprintable() or not token.isascii():
        raise sc.InvalidInput("the token contains invalid characters", field="token")
    url = address if parts.path.strip("/") else urlunsplit(parts._replace(path=_PATH))
    return WebSocketAddress(url=url, token=token, tls=tls)


def is_this_machine(host: str) -> bool:
    """Return whether a host of this name or address is this machine, without asking anybody."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
