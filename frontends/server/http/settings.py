"""The settings of the HTTP listener: its address and its limits; unsafe settings are refused."""

import ipaddress
from pathlib import Path

import attrs

import session_core as sc


@attrs.frozen(kw_only=True)
class Tls:
    """The certificate chain and the private key, as PEM files."""

    certificate: Path
    key: Path


@attrs.frozen(kw_only=True)
class HttpBounds:
    """The limits of clients. Times are seconds.

    Attributes:
        connections: Concurrent connections over all addresses.
        connections_per_address: Concurrent connections per address; all programs of one machine share one.
        head_s: How long the head of a request may take, from its first byte or the beginning of the connection.
        idle_s: How long a connection may be idle between two requests.
        body_s: How long the body of a request may take.
        write_s: How long a response may wait for its reader; feeds wait forever, because they hold next to nothing.
        head_bytes, body_bytes: The largest head and body.
        large_bodies: Bodies of more than a mebibyte that are read concurrently.
        requests_per_s, requests_at_once: The rate and the burst of one authenticated client.
        refusals_per_s, refusals_at_once: The same for unauthenticated clients of one address, separately for health
            checks, for logging in, and for refused requests.
        farewell_s: How long closing may take.
    """

    connections: int = 2_048
    connections_per_address: int = 1_536
    head_s: float = 10.0
    idle_s: float = 60.0
    body_s: float = 60.0
    write_s: float = 60.0
    head_bytes: int = 16 * 1024
    body_bytes: int = 16 * 1024 * 1024
    large_bodies: int = 8
    requests_per_s: float = 500.0
    requests_at_once: float = 1_000.0
    refusals_per_s: float = 10.0
    refusals_at_once: float = 50.0
    farewell_s: float = 0.5


@attrs.frozen(kw_only=True)
class HttpSettings:
    """How the HTTP listener is opened.

    Attributes:
        host: The address to listen on; a loopback address keeps other machines out.
        port: 0 lets the system choose.
        tls: Certificate and key; without them nothing is encrypted.
        allow_remote: Listen beyond this machine although nothing is encrypted, for instance behind a proxy.
        urls: Its URLs for clients elsewhere, as a browser shows them, such as `https://agents.example.net`; links begin
            with the first of them.
        names: Allowed names of this server besides its address, such as `agents.example.net:8443`.
        origins: Other origins whose pages may talk to it, such as `https://agents.example.net` if a proxy speaks TLS
            for it; never one that also serves other people's pages.
        bounds: The limits.
    """

    host: str = "127.0.0.1"
    port: int = 0
    tls: Tls | None = None
    allow_remote: bool = False
    urls: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    bounds: HttpBounds = HttpBounds()

    def check(self) -> None:
        """Refuse settings that cannot work or are unsafe.

        Raises:
            InvalidInput: The settings cannot work or are unsafe; the message says what to do.
        """
        address = self.address
        if not 0 <= self.port <= 65_535:
            raise sc.InvalidInput(f"port must be between 0 and 65535, not {self.port}", field="port")
        if not address.is_loopback and self.tls is None and not self.allow_remote:
            raise sc.InvalidInput(
                f"{self.host} can be reached by other machines, and nothing would be encrypted: give a certificate and "
                "its key (--tls CERT KEY), listen on 127.0.0.1, or say that something else encrypts (--allow-remote)",
                field="host",
            )
        for name in self.names:
            if not name or any(character in name for character in " /@?#\\") or not name.isascii():
                raise sc.InvalidInput(f"{name!r} is not a host name, with a port if need be", field="names")
        for field, addresses in (("origins", self.origins), ("urls", self.urls)):
            for each in addresses:
                scheme, _, rest = each.partition("://")
                wrong = not rest or not rest.isascii() or any(character in rest for character in " /@?#\\*")
                if wrong or scheme not in {"http", "https"}:
                    raise sc.InvalidInput(f"{each!r} is not an address such as https://example.net", field=field)

    @property
    def address(self) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
        """The address to listen on; names are not resolved, because they may lead anywhere."""
        text = "127.0.0.1" if self.host == "localhost" else self.host.strip("[]")
        try:
            return ipaddress.ip_address(text)
        except ValueError:
            raise sc.InvalidInput(
                f"host must be an address such as 127.0.0.1, not {self.host!r}", field="host"
            ) from None

    @property
    def scheme(self) -> str:
        """The scheme of this server's URLs."""
        return "https" if self.tls is not None else "http"
