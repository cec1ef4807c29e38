"""Admission of requests, as a pure function of the head of a request.

The order is fixed, and nothing happens before all checks have passed: Host (421), Origin and Sec-Fetch-Site (403),
token or cookie (401), and for requests that change something the content type (415) and the size (413). So a page of
another site is refused before its cookie is checked.
"""

from collections.abc import Callable, Iterable
from typing import Final, Literal

import attrs

import session_core as sc
from frontends.client.address import is_this_machine
from frontends.server.http.tokens import Credential

SECURITY_HEADERS: Final = (
    (
        b"content-security-policy",
        (
            b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
            b"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
        ),
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"cache-control", b"no-store"),
)
"""The headers of every response, including refusals. There are no CORS headers, and none may be added."""
OUR_HEADER: Final = "x-session-core"
"""Our own pages send this header with every request that changes something; a page of another site cannot."""
OPEN_PATHS: Final = frozenset({"/healthz", "/login"})
"""Paths without a token: one only says that the server is alive, the other has its own secret."""

WRITING: Final = "POST"
"""The only method that changes anything; other methods have no route, and their body is not read."""

_READING: Final = frozenset({"GET", "HEAD"})
_STRANGER: Final = (
    "a valid token is needed: Authorization: Bearer <token>; on the machine of the service, `session-core serve "
    "--token` prints it, and `session-core serve --login` makes a link for a browser"
)


@attrs.frozen(kw_only=True)
class RequestHead:
    """The head of a request; names of headers are in lower case."""

    kind: Literal["http", "websocket"]
    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    own_address: tuple[str, int] | None = None

    def header_values(self, name: str) -> list[str]:
        """Return all values of a header."""
        return [value for each, value in self.headers if each == name]

    def header_value(self, name: str) -> str | None:
        """Return the value of a header; None if it is missing, and a value that equals nothing if it is repeated."""
        values = self.header_values(name)
        return values[0] if len(values) == 1 else ("\0" if values else None)


@attrs.frozen(kw_only=True)
class AdmissionRules:
    """The values that requests are checked against.

    Attributes:
        scheme: `http` or `https`.
        hosts: The allowed names of the server, with its port; never a pattern.
        cookie: The name of the cookie.
        body_bytes: The largest allowed body.
        token: Returns the credential of a token.
        login: Returns the credential of a cookie.
        origins: Allowed origins of pages besides its own; never a pattern.
    """

    scheme: str
    hosts: frozenset[str]
    cookie: str
    body_bytes: int
    token: Callable[[str], Credential | None]
    login: Callable[[str], Credential | None]
    origins: frozenset[str] = frozenset()


@attrs.frozen(kw_only=True)
class RequestRejection:
    """Why a request is refused."""

    status: int
    error: sc.wire.ErrorInfo


def check(head: RequestHead, rules: AdmissionRules) -> Credential | RequestRejection | None:
    """Return the credential of a request, or why it is refused; None for the few paths that are open to all."""
    host = (head.header_value("host") or "").lower()
    if host not in rules.hosts and host not in _own_names(head, rules):
        return _refusal(
            421, "access_denied", "the Host header does not name this server; use its address as it was printed", "Host"
        )
    origin = head.header_value("origin")
    if origin is not None and origin != f"{rules.scheme}://{host}" and origin not in rules.origins:
        return _refusal(403, "access_denied", "pages of other sites may not talk to this server", "Origin")
    if head.header_value("sec-fetch-site") not in {None, "same-origin", "none"}:
        return _refusal(403, "access_denied", "pages of other sites may not talk to this server", "Sec-Fetch-Site")
    if head.path in OPEN_PATHS and head.kind == "http":
        return None
    credential = _credential(head, rules)
    if credential is None:
        return _refusal(401, "access_denied", _STRANGER, "Authorization")
    if credential.kind == "cookie" and (refusal := _check_cookie_use(head, origin)):
        return refusal
    if head.kind == "http" and head.method not in _READING:
        content = (head.header_value("content-type") or "").partition(";")[0].strip().lower()
        if head.method == WRITING and content != "application/json":
            return _refusal(
                415, "protocol_error", "the body must be JSON: Content-Type: application/json", "Content-Type"
            )
        length = head.header_value("content-length")
        if length is not None and (not length.isdecimal() or len(length) > 16 or int(length) > rules.body_bytes):
            return _refusal(413, "invalid_input", f"a body may have {rules.body_bytes} bytes", "Content-Length")
    return credential


def _own_names(head: RequestHead, rules: AdmissionRules) -> frozenset[str]:
    """Return the names of the address that was actually reached: no page's host name can imitate it or `localhost`."""
    if head.own_address is None:
        return frozenset()
    address, port = head.own_address
    return frozenset(host_names([address, *(["localhost"] if is_this_machine(address) else [])], port, rules.scheme))


def host_names(addresses: Iterable[str], port: int, scheme: str) -> Iterable[str]:
    """Return the names of these addresses in a Host header; the default port may be omitted."""
    for address in addresses:
        name = f"[{address}]" if ":" in address else address.lower()
        yield f"{name}:{port}"
        if port == {"http": 80, "https": 443}[scheme]:
            yield name


def _credential(head: RequestHead, rules: AdmissionRules) -> Credential | None:
    authorization = head.header_value("authorization")
    if authorization is not None:  # if a token is sent, only the token counts
        scheme, _, token = authorization.partition(" ")
        return rules.token(token.strip()) if scheme.lower() == "bearer" else None
    secrets = [
        value
        for line in head.header_values("cookie")
        for name, _, value in [each.strip().partition("=") for each in line.split(";")]
        if name == rules.cookie
    ]
    return rules.login(secrets[0]) if len(secrets) == 1 else None


def _check_cookie_use(head: RequestHead, origin: str | None) -> RequestRejection | None:
    if head.kind == "websocket":
        if origin is None:
            return _refusal(
                403, "access_denied", "a WebSocket with a cookie needs an Origin header, as browsers send it", "Origin"
            )
    elif head.method not in _READING and head.header_value(OUR_HEADER) != "1":
        return _refusal(
            403, "access_denied", "requests that change something also need the header X-Session-Core: 1", OUR_HEADER
        )
    return None


def _refusal(status: int, code: str, message: str, field: str) -> RequestRejection:
    return RequestRejection(status=status, error=sc.wire.ErrorInfo(code=code, message=message, field=field))
