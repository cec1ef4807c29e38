"""The routes, over a real socket."""

import logging
from functools import partial
from pathlib import Path

import pytest
import trio

import session_core as sc
from frontends.server.http.command_endpoint import STATUS, status_of
from frontends.server.http.request_checks import SECURITY_HEADERS, WRITING
from frontends.server.http.settings import HttpBounds, HttpSettings
from session_core import errors
from session_core.protocols.faults import UnknownPlugin
from session_core.testing.scripted import Pause, ScriptedProvider, text
from tests.frontends.server.http._listener import PLENTY, RunningListener, open_listener, until


async def create(world: RunningListener, name: str = "x") -> sc.SessionId:
    return (await world.service.create_session(name=name)).session_id


async def test_commands_are_run_and_their_replies_come_back(tmp_path: Path) -> None:
    """A command can be sent whole or by its own address; the answer is its typed reply."""
    async with open_listener(tmp_path, text("hello to you")) as world, world.client() as client:
        made = await client.post("/v1/commands/create_session", json={"name": "by address"})
        reply = sc.wire.decode(made.content, sc.replies.CreateSessionReply)
        whole = {"command": {"type": "send_user_message", "session_id": reply.session_id, "text": "hello"}}
        sent = await client.post("/v1/commands", json=whole)
        waited = await client.post("/v1/commands/wait_for_turn", json={"session_id": reply.session_id})

        assert [200, 200, 200] == [made.status_code, sent.status_code, waited.status_code]
        started = sc.wire.decode(sent.content, sc.replies.SendUserMessageReply)
        assert "started" == started.disposition
        snapshot = sc.wire.decode((await client.get(f"/v1/sessions/{reply.session_id}")).content, sc.SessionSnapshot)
        assert snapshot == await world.service.load_session(reply.session_id)
        service = sc.wire.decode((await client.get("/v1/service")).content, sc.ServiceSnapshot)
        assert service == await world.service.load_service()
        page = await client.get(f"/v1/sessions/{reply.session_id}/messages", params={"limit": 1, "before": 1})
        assert ["user"] == [each.role for each in sc.wire.decode(page.content, sc.replies.MessagesReply).messages]


async def test_a_key_makes_sending_twice_safe(tmp_path: Path) -> None:
    """The same command with the same key, by header or in the body, is done once and answered twice."""
    async with open_listener(tmp_path) as world, world.client() as client:
        first = await client.post("/v1/commands/create_session", json={"name": "a"}, headers={"idempotency-key": "k"})
        again = await client.post(
            "/v1/commands", json={"command": {"type": "create_session", "name": "a"}, "idempotency_key": "k"}
        )
        other = await client.post("/v1/commands/create_session", json={"name": "b"}, headers={"idempotency-key": "k"})

        assert first.json() == again.json()
        assert (409, "conflict") == (other.status_code, other.json()["code"])
        assert 1 == len((await world.service.load_service()).sessions)


async def test_lists_are_asked_by_query(tmp_path: Path) -> None:
    """The list of sessions takes its fields from the query, and names those that are wrong."""
    async with open_listener(tmp_path) as world, world.client() as client:
        for name in ["one", "two", "three"]:
            await create(world, name)
        page = await client.get("/v1/sessions", params={"limit": 2, "search": "t", "archived": "null"})

        found = sc.wire.decode(page.content, sc.replies.ListSessionsReply)
        assert ["three", "two"] == [each.name for each in found.sessions]
        for query, field in [
            ("limit=x", "limit"),
            ("archived=maybe", "archived"),
            ("nope=1", "nope"),
            ("limit=1&limit=2", "limit"),
        ]:
            answer = await client.get(f"/v1/sessions?{query}")
            assert (400, field) == (answer.status_code, answer.json()["field"])


BAD: list[tuple[str, str, bytes | None, int, str]] = [
    ("GET", "/nothing", None, 404, "not_found"),
    ("GET", "/v1/sessions/ses_x", None, 404, "not_found"),
    ("GET", "/v1/sessions/ses_x/events", None, 404, "not_found"),
    ("GET", "/v1/events?after=nonsense", None, 400, "invalid_input"),
    ("GET", "/v1/events?after=:5", None, 400, "invalid_input"),
    ("GET", "/v1/commands", None, 405, "invalid_input"),
    ("DELETE", "/v1/service", b"{}", 405, "invalid_input"),
    ("POST", "/v1/commands", b"", 400, "protocol_error"),
    ("POST", "/v1/commands", b"[]", 400, "protocol_error"),
    ("POST", "/v1/commands", b"{", 400, "protocol_error"),
    (
        "POST",
        "/v1/commands",
        b'{"command":{"type":"create_session","type":"delete_session"}}',
        400,
        "protocol_error",
    ),
    ("POST", "/v1/commands", b'{"command":' + b"[" * 500 + b"]" * 500 + b"}", 400, "protocol_error"),
    ("POST", "/v1/commands/no_such", b"{}", 400, "protocol_error"),
    ("POST", "/v1/commands/create_session", b'{"type":"delete_session"}', 400, "protocol_error"),
    ("POST", "/v1/commands/create_session", b'{"name":5}', 400, "protocol_error"),
    ("POST", "/v1/commands/create_session", b'{"unknown":5}', 400, "protocol_error"),
    ("POST", "/v1/commands/create_session", b'{"name":"\xff"}', 400, "protocol_error"),
    ("POST", "/v1/commands/create_session", b'{"name":""}', 400, "invalid_input"),
    ("POST", "/v1/commands/load_session", b'{"session_id":"ses_x"}', 404, "not_found"),
    ("GET", "/v1/ws", None, 426, "invalid_input"),
    ("GET", "/login?code=wrong", None, 403, "access_denied"),
    ("GET", "/login", None, 403, "access_denied"),
]


async def test_bad_requests_get_a_typed_error(tmp_path: Path) -> None:
    """Whatever is wrong with a request, the answer is an ErrorInfo with a fitting status and all security headers."""
    async with open_listener(tmp_path) as world, world.client() as client:
        for method, path, body, status, code in BAD:
            answer = await client.request(method, path, content=body, headers={"content-type": "application/json"})

            info = sc.wire.decode(answer.content, sc.wire.ErrorInfo)
            assert (status, code) == (answer.status_code, info.code), (method, path, body)
            assert info.message
            assert [] == missing_headers(dict(answer.headers))


def missing_headers(found: dict[str, str]) -> list[str]:
    expected = {name.decode(): value.decode() for name, value in SECURITY_HEADERS}
    wrong = [name for name, value in expected.items() if found.get(name) != value]
    return [*wrong, *(name for name in found if name.startswith("access-control") or name == "server")]


async def test_every_answer_has_the_security_headers(tmp_path: Path) -> None:
    """Answers and refusals, also those of the HTTP parser itself, carry the same headers, and never any of CORS."""
    async with open_listener(tmp_path) as world, world.client() as client:
        answers = [
            await client.get("/v1/status"),
            await client.get("/v1/status", headers={"origin": "http://evil.example"}),
            await client.get("/v1/status", headers={"host": "evil.example"}),
            await client.get("/v1/status", headers={"authorization": ""}),
            await client.options("/v1/status", headers={"access-control-request-method": "POST"}),
            await client.head("/v1/status"),
            await client.get("/healthz"),
        ]
        raw = await world.exchange(b"NONSENSE\r\n\r\n")

        assert [200, 403, 421, 401, 405, 200, 200] == [each.status_code for each in answers]
        assert [[]] * 7 == [missing_headers(dict(each.headers)) for each in answers]
        assert raw.startswith(b"HTTP/1.1 400 ")
        assert [] == [name for name, value in SECURITY_HEADERS if b"%s: %s\r\n" % (name, value) not in raw]


def test_every_error_has_a_status() -> None:
    """Each error of the list has a status, a kind of one has the same, and only what is our own fault is a 5xx."""
    found = [each for each in vars(errors).values() if isinstance(each, type)]
    codes = {each.code for each in found if issubclass(each, sc.SessionCoreError)}
    own_fault = {"internal", "closed", "disconnected", "read_only", "storage_failed", "store_damaged", "store_in_use"}

    assert codes - {"error"} == set(STATUS)
    assert own_fault | {"store_unusable", "no_store"} == {code for code, status in STATUS.items() if status >= 500}
    assert [404, 409, 422] == [
        status_of(UnknownPlugin("x")),
        status_of(sc.protocols.OptionConflict("x", "y", recorded=1, requested=2)),
        status_of(sc.SessionCoreError("x")),
    ]


async def test_health_needs_no_token_and_says_nothing_else(tmp_path: Path) -> None:
    """Anybody may ask whether the server lives, and learns nothing more."""
    async with open_listener(tmp_path) as world, world.client(None) as client:
        assert {"ok": True} == (await client.get("/healthz")).json()
        assert 401 == (await client.get("/")).status_code


async def test_a_login_link_works_once(tmp_path: Path) -> None:
    """A browser that opens the link gets a cookie, reads with that, and writes with our header; the link is used up."""
    async with open_listener(tmp_path) as world, world.client(None) as browser:
        link = world.listener.login_link()
        first = await browser.get(link, headers={"sec-fetch-site": "none"})
        again = await browser.get(link)
        read = await browser.get("/v1/status")
        bare = await browser.post("/v1/commands/create_session", json={})
        written = await browser.post("/v1/commands/create_session", json={}, headers={"x-session-core": "1"})

        assert [303, 403, 200, 403, 200] == [each.status_code for each in (first, again, read, bare, written)]
        assert "/" == first.headers["location"]
        cookie = first.headers["set-cookie"]
        assert cookie.startswith(f"session-core-{world.port}=")
        assert cookie.partition(";")[2].startswith(" Path=/; HttpOnly; SameSite=Strict; Max-Age=")


async def test_a_new_token_ends_the_old_one_and_its_logins(tmp_path: Path) -> None:
    """After the token was changed, the old one, its logins and its open links are refused, and the new one is good."""
    async with open_listener(tmp_path) as world, world.client() as client, world.client(None) as browser:
        await browser.get(world.listener.login_link())
        link = world.listener.login_link()
        new = world.listener.rotate_token()

        assert 401 == (await client.get("/v1/status")).status_code
        assert 401 == (await browser.get("/v1/status")).status_code
        assert 403 == (await browser.get(link)).status_code
        assert 200 == (await client.get("/v1/status", headers={"authorization": f"Bearer {new}"})).status_code


async def test_a_new_token_ends_requests_that_wait(tmp_path: Path) -> None:
    """A request that came in by the old token and still waits gets no reply any more."""
    provider = ScriptedProvider([Pause("now"), *text("done")])
    async with open_listener(tmp_path, provider) as world, world.client() as client, trio.open_nursery() as nursery:
        made = await create(world)
        await world.service.send_user_message(made, "go")
        statuses: list[int] = []

        async def wait() -> None:
            answer = await client.post("/v1/commands/wait_for_turn", json={"session_id": made})
            statuses.append(answer.status_code)
            assert "access_denied" == answer.json()["code"]

        nursery.start_soon(wait)
        await until(lambda: world.listener.app.served_clients)
        world.listener.rotate_token()
        await until(lambda: statuses)
        provider.release("now")
        assert ([401], set()) == (statuses, world.listener.app.served_clients)


async def test_a_command_that_stands_alone_is_told_where_it_belongs(tmp_path: Path) -> None:
    """A command in place of what wraps it is refused with the form that is wanted."""
    async with open_listener(tmp_path) as world, world.client() as client:
        refused = await client.post("/v1/commands", json={"type": "create_session", "name": "x"})

        assert (400, "protocol_error") == (refused.status_code, refused.json()["code"])
        assert 'wrapped here: {"command": {...}}' in refused.json()["message"]


async def test_people_are_refused_in_words(tmp_path: Path) -> None:
    """A browser without a token or with a used link is shown a sentence that says how to get in; programs get JSON."""
    page = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    async with open_listener(tmp_path) as world, world.client(None) as browser:
        stranger = await browser.get("/v1/status", headers=page)
        used = await browser.get("/login?code=used", headers=page)
        program = await browser.get("/login?code=used")

    for answer, status in ((stranger, 401), (used, 403)):
        assert (status, "text/plain; charset=utf-8") == (answer.status_code, answer.headers["content-type"])
        assert answer.text.startswith("session-core: ")
        assert "`session-core serve --login`" in answer.text
    assert "`session-core serve --token`" in stranger.text
    assert "access_denied" == program.json()["code"]


async def test_what_cannot_be_done_is_said_before_how(tmp_path: Path) -> None:
    """A method that a path does not have is refused as such, whatever its body is."""
    async with open_listener(tmp_path) as world, world.client() as client:
        answers = [await client.request(method, "/v1/status") for method in ("DELETE", "PUT", "PATCH")]

        assert [405] * 3 == [each.status_code for each in answers]
        methods = {method for route in world.listener.app.routes.table() for method in route.methods or ()}
        assert {"GET", "HEAD", WRITING} == methods


async def test_looking_at_a_login_link_does_not_use_it_up(tmp_path: Path) -> None:
    """A program that only asks for the head of a link, as previews do, gets no cookie, and the link stays good."""
    async with open_listener(tmp_path) as world, world.client(None) as browser:
        link = world.listener.login_link()
        looked = await browser.head(link)
        assert (405, None) == (looked.status_code, looked.headers.get("set-cookie"))
        assert 303 == (await browser.get(link)).status_code


async def test_too_many_requests_are_told_when_to_come_back(tmp_path: Path) -> None:
    """A client with a token has a bucket of its own, and guesses of an address have another; both end in 429."""
    bounds = HttpBounds(requests_per_s=0.001, requests_at_once=3, refusals_per_s=0.001, refusals_at_once=2)
    async with open_listener(tmp_path, settings=HttpSettings(bounds=bounds)) as world, world.client() as client:
        good = [(await client.get("/v1/status")).status_code for _ in range(4)]
        last = await client.get("/v1/status")
        bad = [(await client.get("/v1/status", headers={"authorization": "Bearer x"})).status_code for _ in range(3)]

        assert [200, 200, 200, 429] == good
        assert (429, "overloaded") == (last.status_code, last.json()["code"])
        assert 1 <= int(last.headers["retry-after"]) <= 1_001
        assert [401, 401, 429] == bad


async def test_neither_monitors_nor_bad_tokens_keep_people_out(tmp_path: Path) -> None:
    """Looking whether the server lives, logging in and bad tokens have a bucket each, so none uses up another's."""
    bounds = HttpBounds(refusals_per_s=0.001, refusals_at_once=2)
    async with open_listener(tmp_path, settings=HttpSettings(bounds=bounds)) as world, world.client(None) as stranger:
        alive = [(await stranger.get("/healthz")).status_code for _ in range(3)]
        guessed = [(await stranger.get("/v1/status")).status_code for _ in range(3)]
        logged_in = await stranger.get(world.listener.login_link())
        wrong = [(await stranger.get("/login?code=x")).status_code for _ in range(2)]

        assert ([200, 200, 429], [401, 401, 429]) == (alive, guessed)
        assert 303 == logged_in.status_code
        assert 429 == wrong[-1], "codes cannot be guessed at leisure"


async def test_each_request_is_one_line_of_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Also a client that has all it wanted with the head of an answer, and leaves, makes one line."""
    caplog.set_level(logging.INFO, logger="frontends.server.http.access")
    async with open_listener(tmp_path) as world:
        for _ in range(3):
            async with world.client() as client:
                await client.head("/healthz")
    lines = [record.getMessage().rsplit(" ", 2)[0] for record in caplog.records]
    assert ["127.0.0.1 HEAD /healthz 200"] * 3 == lines


async def test_a_client_that_leaves_ends_its_waiting(tmp_path: Path) -> None:
    """When a client gives up a long request, the server stops waiting for it, and the turn goes on."""
    provider = ScriptedProvider([Pause("now"), *text("done")])
    async with open_listener(tmp_path, provider) as world, world.client() as client:
        made = await create(world)
        await world.service.send_user_message(made, "go")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(client.post, "/v1/commands/wait_for_turn", json={"session_id": made}))
            await until(lambda: world.listener.app.served_clients)
            nursery.cancel_scope.cancel()
        await until(lambda: not (world.listener.connections or world.listener.app.served_clients))
        provider.release("now")

        assert "completed" == (await world.service.wait_for_turn(made)).outcome.status


async def test_figures_for_prometheus(tmp_path: Path) -> None:
    """The figures are lines that Prometheus reads: each with help and type, requests by route and status."""
    async with open_listener(tmp_path) as world, world.client() as client:
        await create(world)
        await client.get("/v1/status")
        await client.get("/v1/sessions/ses_x")
        await client.get("/v1/sessions/ses_y")
        await client.get("/secret/path")
        answer = await client.get("/metrics")

        lines = answer.text.splitlines()
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert 'session_core_http_requests_total{route="/v1/status",status="200"} 1' in lines
        assert 'session_core_http_requests_total{route="/v1/sessions/{id}",status="404"} 2' in lines
        assert 'session_core_http_requests_total{route="unknown",status="404"} 1' in lines
        assert "session_core_sessions 1" in lines
        assert "session_core_http_connections 1" in lines
        values = {line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")}
        described = {line.split(" ")[2] for line in lines if line.startswith("# TYPE ")}
        assert described == values
        assert {"process_resident_memory_bytes", "session_core_feeds_lagged_total"} < values
        assert all(float(line.rpartition(" ")[2]) >= 0 for line in lines if not line.startswith("#"))


async def test_no_secret_reaches_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Neither tokens nor codes nor cookies are in anything the listener logs."""
    caplog.set_level(logging.DEBUG, logger="frontends.server")
    async with open_listener(tmp_path) as world, world.client() as client, world.client(None) as browser:
        link = world.listener.login_link()
        logged_in = await browser.get(link)
        await browser.get("/v1/status")
        await client.get(f"/v1/status?token={world.token}")
        secrets = [world.token, link.partition("code=")[2], logged_in.headers["set-cookie"].partition(";")[0]]
        assert 200 == (await client.get("/v1/status")).status_code

    logged = "\n".join(record.getMessage() for record in caplog.records)
    assert "GET /v1/status?token=*** 200" in logged
    assert "GET /login?code=*** 303" in logged
    assert [] == [secret for secret in secrets if secret in logged]


async def test_the_address_is_told(tmp_path: Path) -> None:
    """The status of the server names the listener while it is open, with the port that the system chose."""
    async with open_listener(tmp_path) as world, world.client() as client:
        status = sc.wire.decode((await client.get("/v1/status")).content, sc.wire.ServiceStatus)
        server = world.server

        assert (world.url, None) == (status.address, status.open_to_others)
        assert world.port > 0

    assert server.status().address is None


async def test_a_server_answers_to_what_others_call_it(tmp_path: Path) -> None:
    """Behind a proxy the address that browsers know is a good Host and Origin, and links begin with it."""
    settings = HttpSettings(bounds=PLENTY, urls=("https://Agents.example.net",))
    async with open_listener(tmp_path, settings=settings) as world, world.client() as client:
        known = {"host": "agents.example.net", "origin": "https://agents.example.net"}
        answers = [
            await client.get("/v1/status", headers=headers)
            for headers in (known, {**known, "origin": "https://example.net"}, {"host": "example.net"}, {})
        ]

        assert [200, 403, 421, 200] == [each.status_code for each in answers]
        assert world.listener.login_link().startswith("https://agents.example.net/login?code=")


async def test_a_link_can_be_opened_wherever_the_server_listens(tmp_path: Path) -> None:
    """A link of a server that listens everywhere names an address that a browser can open."""
    settings = HttpSettings(host="0.0.0.0", allow_remote=True, bounds=PLENTY)
    async with open_listener(tmp_path, settings=settings) as world, world.client(None) as browser:
        link = world.listener.login_link()

        assert link.startswith(f"http://127.0.0.1:{world.port}/login?code=")
        assert (303, 200) == (
            (await browser.get(link)).status_code,
            (await browser.get("/healthz", headers={"host": f"localhost:{world.port}"})).status_code,
        )
        status = world.server.status()
        assert (f"http://127.0.0.1:{world.port}", f"http://0.0.0.0:{world.port}") == (
            status.address,
            status.open_to_others,
        )


async def test_an_address_that_is_taken_is_a_clear_refusal(tmp_path: Path) -> None:
    """A port that another program has is named in one sentence."""
    async with open_listener(tmp_path) as world:
        words = (
            f"cannot listen on 127.0.0.1 port {world.port}: another program uses it; choose another port, or 0 for any"
        )
        with pytest.raises(sc.Unavailable, match=words):
            async with open_listener(tmp_path / "other", settings=HttpSettings(port=world.port)):
                pass
