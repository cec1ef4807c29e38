"""The OpenAPI document: true to the routes, to the replies, and to what happens to any request made from it."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import trio
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from starlette.routing import Route

import session_core as sc
from frontends.server.http import openapi
from frontends.server.http.openapi import document_text, main, openapi_document
from session_core.testing.scripted import text
from tests.frontends.server.http._listener import RunningListener, open_listener
from tests.strategies import damaged, values_of

DOCUMENT = openapi_document()
UNFIT = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
STREAMS = {"/v1/events", "/v1/sessions/{id}/events"}


def test_the_file_is_up_to_date(tmp_path: Path) -> None:
    """The document in the repository is the one that the code makes; an old one is noticed."""
    assert 0 == main(["--check"])
    assert document_text() == openapi.FILE.read_text(encoding="utf-8")
    old = tmp_path / "old.json"
    old.write_text("{}", encoding="utf-8")
    assert 1 == main(["--check", "--file", str(old)])
    assert 0 == main(["--file", str(old)])
    assert 0 == main(["--check", "--file", str(old)])


async def test_the_document_describes_all_routes_and_no_others(tmp_path: Path) -> None:
    """Each route of the app is in the document, each path of the document is a route, and each command has one."""
    async with open_listener(tmp_path) as world:
        routed = {
            (method, route.path)
            for route in world.listener.app.router.routes
            if isinstance(route, Route)
            for method in (route.methods or set()) - {"HEAD"}
        }
    described = {
        (method.upper(), re.sub(r"(?<=/v1/commands/)\w+", "{type}", path))
        for path, operations in DOCUMENT["paths"].items()
        for method in operations
    }

    assert routed == described
    commands = {sc.wire.wire_tag(each) for each in sc.wire.COMMANDS}  # type: ignore[arg-type]
    assert {f"/v1/commands/{name}" for name in commands} | {"/v1/commands"} == {
        path for path in DOCUMENT["paths"] if path.startswith("/v1/commands")
    }


def test_every_reference_leads_somewhere() -> None:
    """No reference of the document points to something that is not in it, and no operation is named twice."""
    found = set(re.findall(r'"\$ref": "#/components/(\w+)/(\w+)"', json.dumps(DOCUMENT)))
    names = Counter(each["operationId"] for path in DOCUMENT["paths"].values() for each in path.values())

    assert [] == [(kind, name) for kind, name in found if name not in DOCUMENT["components"][kind]]
    assert [] == [name for name, count in names.items() if count > 1]


def schema_of(path: str, method: str, status: str) -> dict[str, Any] | None:
    """The schema of an answer that is JSON."""
    response = DOCUMENT["paths"][path][method]["responses"][status]
    if reference := response.get("$ref"):
        response = DOCUMENT["components"]["responses"][reference.rpartition("/")[2]]
    found = response.get("content", {}).get("application/json", {}).get("schema")
    return None if found is None else {**found, "components": DOCUMENT["components"]}


async def test_answers_are_what_the_document_says(tmp_path: Path) -> None:
    """Real answers of all kinds fit the schemas that the document has for them."""
    async with open_listener(tmp_path, text("hello")) as world, world.client() as client:
        made = (await world.service.create_session(name="x")).session_id
        await world.service.send_user_message(made, "go")
        await world.service.wait_for_turn(made)
        for path in DOCUMENT["paths"]:
            if "get" not in DOCUMENT["paths"][path] or path in STREAMS:
                continue
            answer = await client.get(path.format(id=made))
            schema = schema_of(path, "get", str(answer.status_code))
            if schema is not None:
                jsonschema_rs.validate(schema, answer.json())
        for name in ["list_sessions", "load_session", "load_messages", "list_queue", "request_stop", "list_protocols"]:
            fields = {"session_id": made} if "session_id" in properties_of(name) else {}
            answer = await client.post(f"/v1/commands/{name}", json=fields)
            schema = schema_of(f"/v1/commands/{name}", "post", str(answer.status_code))
            assert (200, True) == (answer.status_code, schema is not None)
            assert schema is not None
            jsonschema_rs.validate(schema, answer.json())


def properties_of(command: str) -> dict[str, Any]:
    operation = DOCUMENT["paths"][f"/v1/commands/{command}"]["post"]
    found: dict[str, Any] = operation["requestBody"]["content"]["application/json"]["schema"]["properties"]
    return found


@st.composite
def bodies(draw: st.DrawFn) -> tuple[str, Any]:
    """A command, whole or damaged, with the name it is sent by."""
    command = draw(values_of(sc.Command[Any]))
    fields = sc.wire.to_json(command)
    name = fields.pop("type")
    if "session_id" in fields and draw(st.booleans()):
        fields["session_id"] = "THE SESSION"
    return name, draw(st.just(fields) | damaged(fields))


@given(random=st.random_module(), asked=st.lists(bodies(), min_size=20, max_size=30))
@settings(max_examples=min(200, max(5, settings().max_examples // 8)), phases=[Phase.generate])
async def test_no_command_makes_the_server_fail(
    random: object, asked: list[tuple[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Any command, sensible or not, is answered with a status that the document names for it, and never with a 5xx."""
    async with open_listener(tmp_path_factory.mktemp("home"), *[text("ok")] * 100) as world:
        made = (await world.service.create_session(name="x")).session_id
        for name, fields in asked:
            if name == "run_shell_line":
                continue  # it runs what it is told
            body = json.dumps(fields).replace("THE SESSION", made).encode()
            status = await status_of(world, f"/v1/commands/{name}", body)
            responses = DOCUMENT["paths"][f"/v1/commands/{name}"]["post"]["responses"]
            assert status is None or (str(status) in responses and status < 500), (name, fields)


async def status_of(world: RunningListener, path: str, body: bytes) -> int | None:
    """Ask the app itself; nothing if the answer takes longer than a moment, as with what waits for people."""
    statuses: list[int] = []
    headers = {"host": world.host, "authorization": f"Bearer {world.token}", "content-type": "application/json"}
    scope: dict[str, Any] = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "http_version": "1.1",
        "scheme": "http",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", world.port),
        "state": {},
    }
    told = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        return told.pop() if told else await trio.sleep_forever()

    async def send(message: dict[str, Any]) -> None:
        await trio.lowlevel.checkpoint()
        if "status" in message:
            statuses.append(message["status"])

    with trio.move_on_after(0.5):
        await world.listener.app(scope, receive, send)
    return statuses[0] if statuses else None


@pytest.mark.slow
async def test_schemathesis_finds_no_failure(tmp_path: Path) -> None:
    """Requests that schemathesis makes from the document get answers that it describes, and never a 5xx."""
    schemathesis = pytest.importorskip("schemathesis")
    schema = schemathesis.openapi.from_dict(openapi_document())
    statuses: Counter[int] = Counter()

    def attack(url: str, token: str) -> None:
        for found in schema.get_all_operations():
            operation = found.ok()
            if operation.path not in STREAMS:
                attack_operation(operation, url, token)

    def attack_operation(operation: Any, url: str, token: str) -> None:
        @given(case=operation.as_strategy())
        @settings(
            max_examples=25,
            phases=[Phase.generate],
            deadline=None,
            database=None,
            suppress_health_check=UNFIT,
        )
        def run(case: Any) -> None:
            answer = case.call(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=20)
            statuses[answer.status_code] += 1
            responses = DOCUMENT["paths"][operation.path][operation.method]["responses"]
            assert answer.status_code < 500, answer.text
            assert str(answer.status_code) in responses, (operation.path, answer.status_code)

        run()

    async with open_listener(tmp_path) as world:
        await trio.to_thread.run_sync(attack, world.url, world.token)

    assert statuses[200] > 0
