"""Who may come in: the order of the checks, and what each of them compares."""

from typing import Any

import attrs
import pytest

from frontends.server.access import EVERYTHING
from frontends.server.http.request_checks import SECURITY_HEADERS, AdmissionRules, RequestHead, RequestRejection, check
from frontends.server.http.tokens import Credential

TOKEN = Credential(id="token", kind="token", access=EVERYTHING, generation=1)
LOGIN = Credential(id="login", kind="cookie", access=EVERYTHING, generation=1)
RULES = AdmissionRules(
    scheme="http",
    hosts=frozenset({"127.0.0.1:8000", "localhost:8000", "agents.example.net"}),
    cookie="session-core-8000",
    body_bytes=1_000,
    token=lambda text: TOKEN if text == "good" else None,
    login=lambda text: LOGIN if text == "good" else None,
)


def asked(method: str = "GET", path: str = "/v1/status", **headers: Any) -> RequestHead:
    """A request that is let in, unless `headers` say otherwise; None leaves one out."""
    shown: dict[str, Any] = {
        "host": "127.0.0.1:8000",
        "authorization": "Bearer good",
        "content_type": "application/json",
    }
    found = {name.replace("_", "-"): value for name, value in (shown | headers).items() if value is not None}
    pairs = [(n, each) for n, value in found.items() for each in (value if isinstance(value, list) else [value])]
    return RequestHead(kind="http", method=method, path=path, headers=tuple(pairs))


def outcome(request: RequestHead) -> int:
    """200, or the status of the refusal."""
    verdict = check(request, RULES)
    return verdict.status if isinstance(verdict, RequestRejection) else 200


def test_the_checks_have_a_fixed_order() -> None:
    """A request with every fault at once is refused for the first; each fault that is mended shows the next."""
    faults: dict[str, Any] = {
        "host": "evil.example",
        "origin": "http://evil.example",
        "sec_fetch_site": "cross-site",
        "authorization": "Bearer bad",
        "content_type": "text/plain",
        "content_length": "1001",
    }
    seen = [outcome(asked("POST", **faults))]
    for name in list(faults):
        del faults[name]
        seen.append(outcome(asked("POST", **faults)))

    assert [421, 403, 403, 401, 415, 413, 200] == seen


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8000", 200),
        ("LOCALHOST:8000", 200),
        ("agents.example.net", 200),
        ("127.0.0.1", 421),
        ("127.0.0.1:8001", 421),
        ("localhost:8000.evil.example", 421),
        ("evil.example:8000", 421),
        ("127.0.0.1:8000@evil.example", 421),
        ("127.0.0.1.:8000", 421),
        ("", 421),
        (None, 421),
        (["127.0.0.1:8000", "127.0.0.1:8000"], 421),
    ],
)
def test_the_host_must_be_ours_to_the_letter(host: Any, status: int) -> None:
    """A Host that is not one of ours, or is there twice or not at all, is refused: a rebound name ends here."""
    assert status == outcome(asked(host=host))


def test_the_address_that_was_really_reached_is_ours_too() -> None:
    """Where a server listens on all addresses, the one that a client has reached is a good Host; others are not."""
    reached = attrs.evolve(asked(host="10.1.2.3:8000"), own_address=("10.1.2.3", 8000))
    rebound = attrs.evolve(asked(host="evil.example:8000"), own_address=("10.1.2.3", 8000))
    sixth = attrs.evolve(asked(host="[fd00::1]:8000"), own_address=("fd00::1", 8000))

    assert [200, 421, 200] == [outcome(reached), outcome(rebound), outcome(sixth)]


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (None, 200),
        ("http://127.0.0.1:8000", 200),
        ("https://127.0.0.1:8000", 403),
        ("http://localhost:8000", 403),
        ("http://127.0.0.1:8001", 403),
        ("http://127.0.0.1:8000.evil.example", 403),
        ("http://127.0.0.1", 403),
        ("null", 403),
        ("", 403),
        (["http://127.0.0.1:8000", "http://127.0.0.1:8000"], 403),
    ],
)
def test_an_origin_must_be_the_page_of_this_very_host(origin: Any, status: int) -> None:
    """An Origin is absent or exactly the address that was asked; another port of the same machine is another site."""
    assert status == outcome(asked(origin=origin))


def test_an_origin_can_be_named_for_a_proxy() -> None:
    """Behind a proxy that speaks TLS, its origin is let in when it is named, to the letter, and no other."""
    behind = attrs.evolve(RULES, origins=frozenset({"https://agents.example.net"}))
    asked_from = [
        "https://agents.example.net",
        "http://agents.example.net:80",
        "https://agents.example.net.evil.example",
    ]
    verdicts = [check(asked(host="agents.example.net", origin=each), behind) for each in asked_from]

    assert [False, True, True] == [isinstance(each, RequestRejection) for each in verdicts]


@pytest.mark.parametrize(
    ("site", "status"),
    [(None, 200), ("same-origin", 200), ("none", 200), ("same-site", 403), ("cross-site", 403), ("x", 403)],
)
def test_what_browsers_say_about_the_site(site: str | None, status: int) -> None:
    """A request that a browser marks as coming from another site, or another port, is refused."""
    assert status == outcome(asked(sec_fetch_site=site))


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        ("Bearer good", 200),
        ("bearer good", 200),
        ("Bearer bad", 401),
        ("Basic good", 401),
        ("good", 401),
        ("", 401),
        (None, 401),
        (["Bearer good", "Bearer good"], 401),
    ],
)
def test_a_token_is_always_needed(authorization: Any, status: int) -> None:
    """Without exactly one good token nothing is answered."""
    assert status == outcome(asked(authorization=authorization))


def test_a_bad_token_is_not_made_good_by_a_cookie() -> None:
    """Who shows a token is judged by it alone."""
    assert 401 == outcome(asked(authorization="Bearer bad", cookie="session-core-8000=good"))


def test_a_cookie_reads_but_writes_only_with_our_header() -> None:
    """A cookie is enough to read; to change something, a header is needed that other sites cannot send."""
    by_cookie: dict[str, Any] = {"authorization": None, "cookie": "a=b; session-core-8000=good"}

    assert 200 == outcome(asked(**by_cookie))
    assert 403 == outcome(asked("POST", **by_cookie))
    assert 403 == outcome(asked("POST", x_session_core="0", **by_cookie))
    assert 200 == outcome(asked("POST", x_session_core="1", **by_cookie))
    assert 401 == outcome(asked(authorization=None, cookie="session-core-8000=bad"))
    assert 401 == outcome(asked(authorization=None, cookie="session-core-8000=good; session-core-8000=good"))
    assert 401 == outcome(asked(authorization=None, cookie="session-core-9000=good"))


def test_a_websocket_by_cookie_needs_an_origin() -> None:
    """Without an Origin, which browsers always send with a WebSocket, a cookie opens none; a token needs no Origin."""
    websocket = attrs.evolve(asked(authorization=None, cookie="session-core-8000=good"), kind="websocket")
    with_origin = attrs.evolve(websocket, headers=(*websocket.headers, ("origin", "http://127.0.0.1:8000")))

    assert [403, 200] == [outcome(websocket), outcome(with_origin)]
    assert 200 == outcome(attrs.evolve(asked(), kind="websocket"))


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 200),
        ("Application/JSON; charset=utf-8", 200),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("text/plain; application/json", 415),
        (None, 415),
    ],
)
def test_what_is_sent_is_json(content_type: str | None, status: int) -> None:
    """A body must say that it is JSON, which no form of a page can; reading needs no content type."""
    assert status == outcome(asked("POST", content_type=content_type))
    assert 200 == outcome(asked("GET", content_type=content_type))


@pytest.mark.parametrize(
    ("length", "status"), [("1000", 200), ("1001", 413), ("9" * 9_000, 413), ("-1", 413), ("x", 413)]
)
def test_a_size_that_is_announced_is_bounded(length: str, status: int) -> None:
    """A body that says it is too large is refused before it is read."""
    assert status == outcome(asked("POST", content_length=length))


def test_only_two_paths_are_open() -> None:
    """Health and login need no token, but the right Host and Origin all the same; a WebSocket always needs one."""
    for path in ["/healthz", "/login"]:
        assert check(asked(path=path, authorization=None), RULES) is None
        assert 421 == outcome(asked(path=path, host="evil.example"))
        assert 403 == outcome(asked(path=path, origin="http://evil.example"))
        assert 401 == outcome(attrs.evolve(asked(path=path, authorization=None), kind="websocket"))
    assert 401 == outcome(asked(path="/healthz/", authorization=None))


def test_no_answer_lets_other_sites_read_it() -> None:
    """Among the headers of every answer is none of CORS."""
    assert [] == [name for name, _ in SECURITY_HEADERS if name.startswith(b"access-control")]
