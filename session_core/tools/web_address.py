"""The addresses that a model may reach: public ones, and nothing on this machine or in its local networks."""

import ipaddress
import socket
from typing import Final

import trio

from session_core.tools.base import ToolFailed

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_TRANSLATED: Final = ipaddress.IPv6Network("64:ff9b::/96")
"""IPv6 addresses in which a gateway embeds an IPv4 address."""
_MOST_TRIED: Final = 4


async def public_addresses(host: str, port: int, *, allow_loopback: bool = False) -> list[str]:
    """Resolve a host, once, and return the addresses to connect to.

    Callers must connect to exactly these addresses: a second lookup may return others.

    Raises:
        ToolFailed: There is no such host, or any of its addresses is not public.
    """
    try:
        found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ToolFailed(f"there is no host {host!r}, or its address cannot be found now") from error
    texts = list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))
    for text in texts:
        if not _can_reach(text, allow_loopback=allow_loopback):
            raise ToolFailed(
                f"{host!r} is at {text}, which is on this machine or in a private network; only public addresses may "
                "be fetched"
            )
    if not texts:
        raise ToolFailed(f"there is no host {host!r}, or its address cannot be found now")
    return texts[:_MOST_TRIED]


def _can_reach(text: str, *, allow_loopback: bool) -> bool:
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    meant = _effective_addresses(address)
    if allow_loopback and all(each.is_loopback for each in meant):
        return True
    return all(each.is_global and not each.is_multicast and not each.is_reserved for each in meant)


def _effective_addresses(address: Address) -> list[Address]:
    """Return the address, or the addresses embedded in it."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    if address in _TRANSLATED:
        return [ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)]
    if address.sixtofour is not None:
        return [address, address.sixtofour]
    if address.teredo is not None:
        return [address, *address.teredo]
    return [address]
