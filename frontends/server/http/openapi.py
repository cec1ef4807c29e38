"""The OpenAPI document of the HTTP listener, made from the vocabulary: one path for each command, with its reply.

`python -m frontends.server.http.openapi` writes it to `docs/openapi.json`; with `--check` it only checks whether that
file is up to date.
"""

import argparse
import inspect
import json
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import session_core as sc
from frontends.server.http.command_endpoint import QUERY

Schema = dict[str, Any]

FILE: Final = Path(__file__).parents[3] / "docs" / "openapi.json"

_ERRORS: Final = {
    "400": "The request cannot be understood.",
    "401": "A valid token is needed; `session-core serve --token` prints it.",
    "403": "This client may not do that.",
    "404": "It does not exist.",
    "405": "This method is not allowed here.",
    "409": "It conflicts with the current state.",
    "413": "The body is too large.",
    "415": "The body is not JSON.",
    "421": "The Host header does not name this server.",
    "422": "An extension could not do it.",
    "429": "Too many requests; Retry-After says when to try again.",
    "500": "A bug in the server.",
    "503": "The server cannot do it now.",
}
_READ: Final = ("400", "401", "403", "404", "421", "429", "500", "503")
_WROTE: Final = tuple(_ERRORS)
_KINDS: Final[dict[str, Schema]] = {
    "whole": {"type": "integer", "minimum": -(10**15), "maximum": 10**15},
    "text": {"type": "string"},
    "truth": {"enum": ["true", "false", "null"]},
}
_EVENTS: Final = (
    "Server-sent events: `followed` (Followed) first, then `feed` (FeedBatch, its id is the cursor), `heartbeat` "
    "(Heartbeat), and `ended` (FeedEnded) at the end."
)
_SESSION: Final[Schema] = {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
_CURSORS: Final[list[Schema]] = [
    {
        "name": "after",
        "in": "query",
        "description": "Resume after this cursor, `epoch:seq`.",
        "schema": {"type": "string"},
    },
    {"name": "Last-Event-ID", "in": "header", "description": "The same.", "schema": {"type": "string"}},
]
_KEY: Final[Schema] = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Sending the same command again with the same key returns the first reply.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
}


def openapi_document() -> Schema:
    """Return the document as plain JSON."""
    definitions = _moved(sc.wire.vocabulary_schema()["$defs"])
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "session-core",
            "version": sc.__version__,
            "description": (
                "Commands, snapshots and events of a session service. Errors are ErrorInfo, by their code. Ids are "
                "never shortened. For the WebSocket see 'The contract' in docs/server.md."
            ),
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "security": [{"token": []}, {"login": []}],
        "paths": {**_plain_paths(), **_command_paths(definitions)},
        "components": {
            "schemas": definitions,
            "responses": {
                f"Error{status}": {"description": text, "content": _json(_ref("ErrorInfo"))}
                for status, text in _ERRORS.items()
            },
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "The token in `<home>/run/token`."},
                "login": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "session-core",
                    "description": "The cookie that /login sets; its name ends with the port.",
                },
            },
        },
    }


@cache
def document_bytes() -> bytes:
    """Return the document as it is sent."""
    return json.dumps(openapi_document(), ensure_ascii=False).encode()


def document_text() -> str:
    """Return the document as the text of its file."""
    return json.dumps(openapi_document(), indent=1, ensure_ascii=False) + "\n"


def _plain_paths() -> Schema:
    text = {"text/plain": {"schema": {"type": "string"}}}
    return {
        "/": _get("root", "Describe this server in a sentence.", text),
        "/healthz": _get(
            "health",
            "Return whether the server is alive.",
            _json({"type": "object"}),
            errors=("421", "429", "503"),
            security=[],
        ),
        "/login": _operation(
            "get",
            "login",
            "Turn a one-time code into a cookie.",
            {"303": {"description": "Logged in."}, **_errors(("403", "421", "429"))},
            parameters=[{"name": "code", "in": "query", "required": True, "schema": {"type": "string"}}],
            security=[],
        ),
        "/metrics": _get("metrics", "Figures for Prometheus.", text),
        "/openapi.json": _get("openapi", "This document.", _json({"type": "object"})),
        "/v1/status": _get("status", "Return the status of the server.", _json(_ref("ServiceStatus"))),
        "/v1/service": _get("load_service_by_get", "All sessions and their activity.", _json(_ref("ServiceSnapshot"))),
        "/v1/sessions": _get(
            "list_sessions_by_get",
            "List sessions, newest first.",
            _json(_ref("ListSessionsReply")),
            parameters=_query("list_sessions"),
        ),
        "/v1/sessions/{id}": _get(
            "load_session_by_get", "Take a snapshot.", _json(_ref("SessionSnapshot")), parameters=[_SESSION]
        ),
        "/v1/sessions/{id}/messages": _get(
            "load_messages_by_get",
            "Read older messages.",
            _json(_ref("MessagesReply")),
            parameters=[_SESSION, *_query("load_messages")],
        ),
        "/v1/events": _events(
            "follow_service", "Follow all sessions: a snapshot of their list, then every event of each.", _CURSORS
        ),
        "/v1/sessions/{id}/events": _events("follow_session", "Follow one session.", [_SESSION, *_CURSORS]),
        "/v1/ws": _operation(
            "get",
            "websocket",
            "A WebSocket: JSON-RPC 2.0, as on the home's socket; see 'The contract' in docs/server.md.",
            {
                "101": {"description": "The connection is a WebSocket from now on."},
                "426": {"description": "This is for WebSockets.", "content": _json(_ref("ErrorInfo"))},
                **_errors(_READ),
            },
        ),
    }


def _command_paths(definitions: Mapping[str, Schema]) -> Schema:
    paths: Schema = {
        "/v1/commands": _post("execute", "Run any command.", _ref("Execute"), {"description": "Its reply."})
    }
    for command in sc.wire.COMMANDS:
        kind: type = command
        name = sc.wire.wire_tag(kind)
        reply = {"description": "The reply.", "content": _json(_ref(sc.wire.reply_type(command).__name__))}
        summary = inspect.cleandoc(kind.__doc__ or name).partition("\n\n")[0].replace("\n", " ")
        paths[f"/v1/commands/{name}"] = _post(
            name, summary, _without_type(definitions[kind.__name__]), reply, parameters=[_KEY]
        )
    return paths


def _operation(
    method: str,
    name: str,
    summary: str,
    responses: Schema,
    *,
    parameters: Sequence[Schema] = (),
    body: Schema | None = None,
    **about: object,
) -> Schema:
    operation: Schema = {"operationId": name, "summary": summary, **about}
    if parameters:
        operation["parameters"] = list(parameters)
    if body is not None:
        operation["requestBody"] = {"required": True, "content": _json(body)}
    return {method: {**operation, "responses": responses}}


def _get(name: str, summary: str, content: Schema, *, errors: Sequence[str] = _READ, **more: Any) -> Schema:
    responses = {"200": {"description": "Success.", "content": content}, **_errors(errors)}
    return _operation("get", name, summary, responses, **more)


def _post(name: str, summary: str, body: Schema, reply: Schema, *, parameters: Sequence[Schema] = ()) -> Schema:
    responses = {"200": reply, **_errors(_WROTE)}
    return _operation("post", name, summary, responses, parameters=parameters, body=body, tags=["commands"])


def _events(name: str, summary: str, parameters: Sequence[Schema]) -> Schema:
    found = _get(name, summary, {"text/event-stream": {"schema": {"type": "string"}}}, parameters=parameters)
    found["get"]["description"] = _EVENTS
    return found


def _query(command: str) -> list[Schema]:
    return [{"name": name, "in": "query", "schema": _KINDS[kind]} for name, kind in QUERY[command].items()]


def _errors(statuses: Sequence[str]) -> Schema:
    return {status: {"$ref": f"#/components/responses/Error{status}"} for status in statuses}


def _json(schema: Schema) -> Schema:
    return {"application/json": {"schema": schema}}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _without_type(schema: Schema) -> Schema:
    properties = {name: each for name, each in schema["properties"].items() if name != "type"}
    required = [name for name in schema["required"] if name != "type"]
    return {**schema, "properties": properties, "required": required}


def _moved(schema: Any) -> Any:
    """Return a schema whose references point to the definitions in this document."""
    if isinstance(schema, dict):
        return {
            key: value.replace("#/$defs/", "#/components/schemas/") if key == "$ref" else _moved(value)
            for key, value in schema.items()
        }
    return [_moved(each) for each in schema] if isinstance(schema, list) else schema


def main(arguments: Sequence[str]) -> int:
    """Write the file, or check it; the result is an exit code."""
    parser = argparse.ArgumentParser(prog="python -m frontends.server.http.openapi", description="Write the document.")
    parser.add_argument("--check", action="store_true", help="only check whether the file is up to date")
    parser.add_argument("--file", type=Path, default=FILE, help="write or check this file instead")
    options = parser.parse_args(arguments)
    file: Path = options.file
    if not options.check:
        file.write_text(document_text(), encoding="utf-8")
        return 0
    if file.exists() and file.read_text(encoding="utf-8") == document_text():
        return 0
    sys.stderr.write(f"{file.name} is out of date; run `python -m frontends.server.http.openapi`\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
