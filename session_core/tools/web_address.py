"""The addresses that a model may reach: public ones, and nothing on this machine or in its local networks."""

import ipaddress
import socket
from typing import Final

import trio

from session_core.tools.base import ToolFailed

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_SPECIAL_IPV4: Final = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",
            "100.64.0.0/10",  # between a provider and its customers
            "127.0.0.0/8",
            "169.254.0.0/16",  # link-local, with the metadata of clouds
            "172.16.0.0/12",
            "192.0.0.0/24",  # protocols, such as the nearest NAT
            "192.0.2.0/24",  # documentation
            "192.31.196.0/24",  # AS112, which answers for private addresses
            "192.52.193.0/24",  # the nearest multicast relay
            "192.88.99.0/24",  # the nearest 6to4 relay
            "192.168.0.0/16",
            "192.175.48.0/24",  # AS112
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)
"""All that IANA's registry of special addresses lists; Python's `is_global` differs between its versions."""
_PUBLIC_IPV6: Final = ipaddress.IPv6Network("2000::/3")
"""All that IANA gives to networks of the internet: neither fec0::/10 nor anything else is outside of it."""
_SPECIAL_IPV6: Final = tuple(
    map(
        ipaddress.IPv6Network,
        (
            "2001::/23",  # protocols: Teredo, ORCHID, benchmarks, the nearest relay of some kind
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4, whose relays lead to any IPv4 address
            "2620:4f:8000::/48",  # AS112
            "3fff::/20",  # documentation
        ),
    )
)
_EMBEDDING: Final = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("::ffff:0:0/96"))
"""IPv6 addresses that mean the IPv4 address in their last bytes: through a public gateway, or at once."""
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
        address: Address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:  # an address within one network
            return False
        if any(address in network for network in _EMBEDDING):
            address = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return (allow_loopback and address.is_loopback) or _is_public(address)


def _is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _SPECIAL_IPV4)
    return address in _PUBLIC_IPV6 and not any(address in network for network in _SPECIAL_IPV6)
