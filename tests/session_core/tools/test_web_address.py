"""Which addresses a model may reach: every special block of IANA's registries, at both of its ends, is closed."""

import ipaddress

import pytest

from session_core.tools.base import ToolFailed
from session_core.tools.web_address import _can_reach, public_addresses

SPECIAL = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "233.252.0.0/24",
    "240.0.0.0/4",
    "255.255.255.255/32",
    "::/128",
    "::1/128",
    "::/96",
    "::ffff:0:0:0/96",
    "64:ff9b:1::/48",
    "100::/64",
    "100:0:0:1::/64",
    "2001::/32",
    "2001:1::1/128",
    "2001:1::2/128",
    "2001:2::/48",
    "2001:3::/32",
    "2001:4:112::/48",
    "2001:10::/28",
    "2001:20::/28",
    "2001:30::/28",
    "2001:db8::/32",
    "2002::/16",
    "3fff::/20",
    "5f00::/16",
    "fc00::/7",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
]
PUBLIC = [
    "1.1.1.1",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2001:200::1",
    "2001:4860:4860::8888",
    "2003::1",
    "2606:4700::1111",
    "2a00:1450::1",
    "3ffe:ffff::1",
]


@pytest.mark.parametrize("block", SPECIAL)
def test_special_blocks_are_closed(block: str) -> None:
    """Neither end of a special block can be reached, nor through an address that embeds it."""
    network = ipaddress.ip_network(block)
    for address in (network[0], network[-1]):
        assert not _can_reach(str(address), allow_loopback=False), address
        if isinstance(address, ipaddress.IPv4Address):
            number = int(address)
            embedding = [
                f"::ffff:{address}",
                f"::{address}",
                f"64:ff9b::{address}",
                f"64:ff9b:1::{address}",
                str(ipaddress.IPv6Address((0x2002 << 112) | (number << 80) | 1)),
                str(ipaddress.IPv6Address((0x20010000 << 96) | (number ^ 0xFFFFFFFF))),
                f"fe80::5efe:{address}",
            ]
            assert [each for each in embedding if _can_reach(each, allow_loopback=False)] == []


@pytest.mark.parametrize("address", PUBLIC)
def test_their_neighbours_are_open(address: str) -> None:
    """Addresses of the internet can be reached, also those right beside a special block, and by their other forms."""
    assert _can_reach(address, allow_loopback=False)
    if "." in address:
        assert _can_reach(f"::ffff:{address}", allow_loopback=False)
        assert _can_reach(f"64:ff9b::{address}", allow_loopback=False)


@pytest.mark.parametrize("text", ["2606:4700::1111%eth0", "fe80::1%2", "1.1.1.1%eth0", "", "1.1.1", "x", "1.1.1.1/32"])
def test_what_is_not_a_plain_address_is_closed(text: str) -> None:
    """An address within one network, or something else altogether, is not reached."""
    assert not _can_reach(text, allow_loopback=True)


@pytest.mark.parametrize(
    "host",
    ["2130706433", "0x7f000001", "017700000001", "0177.0.0.1", "127.1", "0x7f.1", "0", "::ffff:7f00:1", "2852039166"],
)
async def test_other_spellings_of_a_host(host: str) -> None:
    """Decimal, octal, hexadecimal and short forms are read as the system reads them, and then judged."""
    with pytest.raises(ToolFailed, match="only public addresses"):
        await public_addresses(host, 80)
