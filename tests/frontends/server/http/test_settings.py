"""What is refused before a listener is opened."""

from pathlib import Path

import pytest

import session_core as sc
from frontends.server.http.settings import HttpSettings, Tls

TLS = Tls(certificate=Path("cert.pem"), key=Path("key.pem"))


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "2001:db8::1"])
def test_other_machines_only_encrypted_or_by_explicit_wish(host: str) -> None:
    """An address beyond this machine is refused without TLS, and taken with it or when one says so."""
    with pytest.raises(sc.InvalidInput, match="nothing would be encrypted") as refused:
        HttpSettings(host=host).check()

    assert "host" == refused.value.field
    assert "--tls" in refused.value.message
    assert "--allow-remote" in refused.value.message
    HttpSettings(host=host, tls=TLS).check()
    HttpSettings(host=host, allow_remote=True).check()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost"])
def test_loopback_is_fine(host: str) -> None:
    """This machine needs no TLS."""
    HttpSettings(host=host).check()


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        (HttpSettings(host="example.org"), "host"),
        (HttpSettings(host=""), "host"),
        (HttpSettings(port=65_536), "port"),
        (HttpSettings(port=-1), "port"),
        (HttpSettings(names=("https://example.org",)), "names"),
        (HttpSettings(names=("",)), "names"),
        (HttpSettings(origins=("example.org",)), "origins"),
        (HttpSettings(origins=("https://*",)), "origins"),
        (HttpSettings(origins=("https://example.org/",)), "origins"),
        (HttpSettings(origins=("null",)), "origins"),
        (HttpSettings(urls=("agents.example.net",)), "urls"),
        (HttpSettings(urls=("https://agents.example.net/",)), "urls"),
    ],
)
def test_nonsense_is_named(settings: HttpSettings, field: str) -> None:
    """What cannot work is refused with the field's name."""
    with pytest.raises(sc.InvalidInput) as refused:
        settings.check()

    assert field == refused.value.field
