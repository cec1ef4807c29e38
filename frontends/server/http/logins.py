"""Browser logins: a one-time code in a link becomes a cookie."""

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import session_core as sc
from frontends.server.access import Access
from frontends.server.http.tokens import Credential

CODE_MS: Final = 60_000
"""How long a code is valid."""
MAX_CODES: Final = 16
"""Codes that wait to be used; the oldest are forgotten."""
LOGIN_MS: Final = 7 * 24 * 3_600_000
"""How long a login lasts."""
MAX_LOGINS: Final = 64
"""Logins at once; the oldest are forgotten."""


class BrowserLogins:
    """The issued codes and the logged-in browsers; only the hashes of their secrets are kept.

    Args:
        generation: Returns the number of the home's current token: a new one ends all codes and logins.
        now: The time in milliseconds.
    """

    def __init__(self, generation: Callable[[], int], *, now: Callable[[], int] = sc.now_ms) -> None:
        self._generation = generation
        self._now = now
        self._codes: OrderedDict[bytes, Credential] = OrderedDict()
        self._logins: OrderedDict[bytes, Credential] = OrderedDict()

    def new_code(self, access: Access) -> str:
        """Create a code that lets one browser in, once, within a minute."""
        code = secrets.token_urlsafe(16)
        self._store_entry(self._codes, code, access, CODE_MS, MAX_CODES)
        return code

    def redeem(self, code: str) -> str | None:
        """Turn a code into the secret of a login; None if it is invalid or expired."""
        entry = self._codes.pop(_hash_of(code), None)
        if entry is None or not self._is_good(entry):
            return None
        secret = secrets.token_urlsafe(32)
        self._store_entry(self._logins, secret, entry.access, LOGIN_MS, MAX_LOGINS)
        return secret

    def credential_of(self, secret: str) -> Credential | None:
        """Return the credential of a cookie; None if it is invalid."""
        hashed = _hash_of(secret)
        entry = self._logins.get(hashed)
        if entry is None or not self._is_good(entry):
            self._logins.pop(hashed, None)
            return None
        return entry

    def _store_entry(
        self, where: OrderedDict[bytes, Credential], secret: str, access: Access, lasting: int, most: int
    ) -> None:
        hashed = _hash_of(secret)
        where[hashed] = Credential(
            id=f"login-{hashed.hex()[:8]}",
            kind="cookie",
            access=access,
            generation=self._generation(),
            expires_at=self._now() + lasting,
        )
        while len(where) > most:
            where.popitem(last=False)

    def _is_good(self, entry: Credential) -> bool:
        assert entry.expires_at is not None
        return entry.expires_at > self._now() and entry.generation == self._generation()


def _hash_of(secret: str) -> bytes:
    # The timing of a lookup by hash reveals nothing: an attacker cannot choose hashes.
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()


def cookie_name(port: int, *, secure: bool) -> str:
    """Return the name of the cookie, with the port: browsers share cookies between all ports of a host."""
    return f"{'__Host-' if secure else ''}session-core-{port}"


def cookie_header(name: str, secret: str, *, secure: bool) -> str:
    """Return the header that hands the cookie to a browser."""
    parts = [f"{name}={secret}", "Path=/", "HttpOnly", "SameSite=Strict", f"Max-Age={LOGIN_MS // 1000}"]
    return "; ".join([*parts, *(["Secure"] if secure else [])])
