"""Every host with every origin, every token and every route: what is refused leaves no trace."""

import itertools
import json
from pathlib import Path
from typing import Any

import trio

import session_core as sc
from frontends.server.access import Access
from frontends.server.http.tokens import scoped_token
from tests.frontends.server.http._listener import RunningListener, open_listener

ROUTES: list[tuple[str, str, Any]] = [
    ("GET", "/", None),
    ("GET", "/metrics", None),
    ("GET", "/openapi.json", None),
    ("GET", "/v1/status", None),
    ("POST", "/v1/commands", {"command": {"type": "create_session", "name": "made by a refused request"}}),
    ("POST", "/v1/commands/create_session", {"name": "made by a refused request"}),
    ("GET", "/v1/service", None),
    ("GET", "/v1/sessions", None),
    ("GET", "/v1/sessions/{id}", None),
    ("GET", "/v1/sessions/{id}/messages", None),
    ("GET", "/v1/events", None),
    ("GET", "/v1/sessions/{id}/events", None),
    ("GET", "/v1/ws", None),
    ("WEBSOCKET", "/v1/ws", None),
]


async def ask(world: RunningListener, method: str, path: str, body: Any, headers: dict[str, str | None]) -> int:
    """Ask the app itself, as thousands of requests over a socket would take long; returns the status."""
    statuses: list[int] = []
    shown = {"content-type": "application/json", **headers}
    scope: dict[str, Any] = {
        "type": "websocket" if method == "WEBSOCKET" else "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "http_version": "1.1",
        "scheme": "http",
        "headers": [(name.encode(), value.encode()) for name, value in shown.items() if value is not None],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", world.port),
        "state": {},
        "extensions": {"websocket.http.response": {}},
    }
    told = [{"type": "http.request", "body": json.dumps(body).encode() if body else b"", "more_body": False}]

    async def receive() -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        return told.pop() if told else {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        await trio.lowlevel.checkpoint()
        if "status" in message:
            statuses.append(message["status"])

    await world.listener.app(scope, receive, send)
    return statuses[0]


async def test_what_is_refused_leaves_no_trace(tmp_path: Path) -> None:
    """Of 8 hosts x 8 origins x 4 tokens on all routes, only the right ones are let in, and the service is as before."""
    async with open_listener(tmp_path) as world:
        made = await world.service.create_session(name="there before")
        before = await world.service.load_service()
        port = world.port
        hosts = [
            f"127.0.0.1:{port}",
            "127.0.0.1",
            f"127.0.0.1:{port + 1}",
            f"evil.example:{port}",
            f"127.0.0.1.evil.example:{port}",
            f"[::1]:{port}",
            "",
            None,
        ]
        origins = [
            None,
            f"http://127.0.0.1:{port}",
            "http://evil.example",
            f"https://127.0.0.1:{port}",
            f"http://127.0.0.1:{port + 1}",
            f"http://evil.example:{port}",
            "null",
            "",
        ]
        old = scoped_token(tmp_path, Access(), expires_at=sc.now_ms() - 1)
        tokens = [None, "Bearer wrong", f"Basic {world.token}", f"Bearer {old}"]
        let_in, refused = 0, 0
        for host, origin, token, (method, path, body) in itertools.product(hosts, origins, tokens, ROUTES):
            headers = {"host": host, "origin": origin, "authorization": token}
            status = await ask(world, method, path.format(id=made.session_id), body, headers)
            expected = 421 if host != hosts[0] else 403 if origin not in origins[:2] else 401
            assert expected == status, (method, path, headers)
            refused += 1
        good = f"Bearer {world.token}"
        for host, origin, (method, path, body) in itertools.product(hosts, origins, ROUTES):
            if host == hosts[0] and origin in origins[:2]:
                let_in += 1  # what these do is tested elsewhere
                continue
            headers = {"host": host, "origin": origin, "authorization": good}
            assert (421 if host != hosts[0] else 403) == await ask(world, method, path, body, headers)
            refused += 1

        assert before == await world.service.load_service()
        assert 8 * 8 * 5 * len(ROUTES) == let_in + refused
        assert 0 == world.server.connections


async def test_a_token_of_one_session_reaches_no_other(tmp_path: Path) -> None:
    """By the token of session A, everything of B and of all sessions is refused without a trace, cursors included."""
    async with open_listener(tmp_path) as world:
        ours = (await world.service.create_session(name="A")).session_id
        other = (await world.service.create_session(name="B")).session_id
        before = await world.service.load_service()
        token = scoped_token(tmp_path, Access(sessions=frozenset({ours})), expires_at=sc.now_ms() + 60_000)
        cursor = f"{before.cursor.epoch}:{before.cursor.seq - 1}"
        async with world.client(token) as client:
            for path in [
                "/v1/status",
                "/v1/service",
                "/v1/sessions",
                "/metrics",
                f"/v1/sessions/{other}",
                f"/v1/sessions/{other}/messages",
                f"/v1/events?after={cursor}",
                f"/v1/sessions/{other}/events?after={cursor}",
            ]:
                answer = await client.get(path)
                assert (403, "access_denied") == (answer.status_code, answer.json()["code"]), path
            for name, fields in [
                ("create_session", {}),
                ("rename_session", {"session_id": other, "name": "stolen"}),
                ("delete_session", {"session_id": other}),
                ("fork_session", {"session_id": other}),
                ("list_sessions", {}),
                ("search_messages", {"text": "x"}),
            ]:
                answer = await client.post(f"/v1/commands/{name}", json=fields)
                assert (403, "access_denied") == (answer.status_code, answer.json()["code"]), name
            assert 200 == (await client.get(f"/v1/sessions/{ours}")).status_code

        assert before == await world.service.load_service()


async def test_a_token_of_one_session_does_not_delete_it(tmp_path: Path) -> None:
    """Who may act in a session by a token of its own may archive it, but not delete it; the token of the home may."""
    async with open_listener(tmp_path) as world:
        ours = (await world.service.create_session(name="A")).session_id
        access = Access(role="controller", sessions=frozenset({ours}))
        token = scoped_token(tmp_path, access, expires_at=sc.now_ms() + 60_000)
        deleted = "/v1/commands/delete_session"
        async with world.client(token) as client:
            refused = await client.post(deleted, json={"session_id": ours})
            archived = await client.post("/v1/commands/archive_session", json={"session_id": ours})
        kept = [each.session_id for each in (await world.service.load_service()).sessions]
        async with world.client() as client:
            allowed = await client.post(deleted, json={"session_id": ours})

    assert (403, "access_denied", "type") == (refused.status_code, refused.json()["code"], refused.json()["field"])
    assert (200, [ours], 200) == (archived.status_code, kept, allowed.status_code)


async def test_what_is_refused_is_named(tmp_path: Path) -> None:
    """Who may see some sessions only is told what was refused, and which field is the reason."""
    async with open_listener(tmp_path) as world:
        ours = (await world.service.create_session(name="A")).session_id
        token = scoped_token(tmp_path, Access(sessions=frozenset({ours})), expires_at=sc.now_ms() + 60_000)
        async with world.client(token) as client:
            answers = [
                await client.post("/v1/commands/create_session", json={}),
                await client.get("/v1/status"),
                await client.get("/metrics"),
                await client.get("/v1/sessions"),
                await client.post("/v1/commands/list_models", json={}),
                await client.post("/v1/commands/reload_extension", json={"name": "x"}),
            ]

    told = [(each.json()["message"].removeprefix("this client may not "), each.json()["field"]) for each in answers]
    assert [
        ("create sessions", "type"),
        ("see the whole service", None),
        ("see the whole service", None),
        ("see the list of all sessions", "type"),
        ("ask this about all sessions: name one of its own", "session_id"),
        ("act outside of its own sessions", "type"),
    ] == told


async def test_an_observer_reads_and_changes_nothing(tmp_path: Path) -> None:
    """By an observer's token everything can be read, and nothing be changed."""
    async with open_listener(tmp_path) as world:
        made = (await world.service.create_session(name="A")).session_id
        before = await world.service.load_service()
        token = scoped_token(tmp_path, Access(role="observer"), expires_at=sc.now_ms() + 60_000)
        async with world.client(token) as client:
            read = await client.get(f"/v1/sessions/{made}")
            listed = await client.post("/v1/commands/list_sessions", json={})
            changed = await client.post("/v1/commands/rename_session", json={"session_id": made, "name": "B"})

        assert [200, 200, 403] == [read.status_code, listed.status_code, changed.status_code]
        assert "forbidden" == changed.json()["code"]
        assert before == await world.service.load_service()
