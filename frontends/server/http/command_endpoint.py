"""Converts a request to a command, and a reply or an error to a response."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, Literal, TypeVar

import trio
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from typing_extensions import TypeForm

import session_core as sc
from frontends.server.http.hypercorn_guards import ClientGone

T = TypeVar("T")

STATUS: Final = {
    "protocol_error": 400,
    "invalid_input": 400,
    "forbidden": 403,
    "access_denied": 403,
    "not_found": 404,
    "unavailable": 404,
    "conflict": 409,
    "chain_too_long": 409,
    "files_changed": 409,
    "lagged": 410,
    "cursor_refused": 410,
    "extension_failed": 422,
    "overloaded": 429,
    "internal": 500,
    "closed": 503,
    "disconnected": 503,
    "read_only": 503,
    "storage_failed": 503,
    "store_damaged": 503,
    "store_in_use": 503,
    "store_unusable": 503,
    "no_store": 503,
}
"""The status of each typed error: client errors are 4xx, and temporary errors say that a retry may work."""

_LARGE: Final = 1024 * 1024


class TooLarge(sc.InvalidInput):
    """The body is larger than allowed."""


def status_of(error: sc.SessionCoreError) -> int:
    """Return the status of a typed error: its own, that of a base class, or the general one."""
    codes = [each.code for each in type(error).__mro__ if issubclass(each, sc.SessionCoreError)]
    return next((STATUS[code] for code in codes if code in STATUS), 422)


def answer(value: object, status: int = 200) -> Response:
    """Return a value of the vocabulary, or plain JSON, as a response."""
    return Response(sc.wire.encode(value), status, media_type="application/json")


def wants_page(accept: str | None) -> bool:
    """Return whether a person will read the response: only browsers request pages."""
    return "text/html" in (accept or "").lower()


def refuse(
    info: sc.wire.ErrorInfo, status: int, *, retry_after: float | None = None, for_reading: bool = False
) -> Response:
    """Return an error as a response; for people it is a plain sentence instead of JSON."""
    refusal = PlainTextResponse(f"session-core: {info.message}.\n", status) if for_reading else answer(info, status)
    if retry_after is not None:
        refusal.headers["retry-after"] = str(max(1, round(retry_after + 0.5)))
    return refusal


def refuse_for(error: sc.SessionCoreError) -> Response:
    """Return a typed error as a response."""
    status = 413 if isinstance(error, TooLarge) else status_of(error)
    return refuse(sc.wire.error_info(error), status, retry_after=1 if status in {429, 503} else None)


@asynccontextmanager
async def body_of(request: Request, most: int, large: trio.CapacityLimiter) -> AsyncGenerator[bytes]:
    """Read the body and hold it for the length of the block; limits how many large bodies are held at once.

    Raises:
        TooLarge: The body has more than `most` bytes.
    """
    parts: list[bytes] = []
    size = 0
    is_large = False
    try:
        while True:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise ClientGone("the client has gone")
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > most:
                raise TooLarge(f"a body may have at most {most} bytes", field="Content-Length")
            if size > _LARGE and not is_large:
                await large.acquire_on_behalf_of(request)
                is_large = True
            if not message.get("more_body", False):
                break
        yield b"".join(parts)
    finally:
        if is_large:
            large.release_on_behalf_of(request)


async def while_connected(request: Request, work: Callable[[], Awaitable[T]]) -> T:
    """Run work for a waiting client; stop waiting when the client goes.

    Raises:
        ClientGone: The client has gone.
    """
    results: list[T] = []
    failure: BaseException | None = None

    async def watch(scope: trio.CancelScope) -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        scope.cancel(reason="the client has gone")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, nursery.cancel_scope)
        try:
            results.append(await work())
        except sc.SessionCoreError as error:
            failure = error
        nursery.cancel_scope.cancel(reason="the work is done")
    if failure is not None:
        raise failure
    if not results:
        raise ClientGone("the client has gone")
    return results[0]


def value_from(type_name: str, fields: bytes, expected: TypeForm[T]) -> T:
    """Read a value from its fields; the URL names its type.

    Raises:
        ProtocolError: The fields do not fit the type.
    """
    said = dict(sc.wire.decode(fields or b"{}", sc.JsonObject))
    if said.setdefault("type", type_name) != type_name:
        raise sc.ProtocolError("the type in the body differs from the one in the URL", field="$.type")
    return sc.wire.decode(sc.wire.encode(sc.JsonObject(said)), expected)


def execute_from(body: bytes) -> sc.wire.Execute:
    """Read an `Execute` with its command; for a bare command the error says where it belongs.

    Raises:
        ProtocolError: The body is something else.
    """
    said = sc.wire.decode(body or b"{}", sc.JsonObject)
    if "command" not in said and said.get("type", "execute") != "execute":
        raise sc.ProtocolError(
            'a command has to be wrapped here: {"command": {...}}; or send its fields to /v1/commands/{type}',
            field="$.command",
        )
    return value_from("execute", body, sc.wire.Execute)


def command_from_query(type_name: str, request: Request, **known: str) -> "sc.Command[Any]":
    """Read a command whose fields are in the query; each may be given once.

    Raises:
        InvalidInput: The query has an unknown field or an invalid value.
    """
    said: dict[str, Any] = {"type": type_name, **known}
    kinds = QUERY[type_name]
    for name, text in request.query_params.multi_items():
        if name not in kinds or name in said:
            raise sc.InvalidInput(f"the query field {name!r} is unknown or occurs twice", field=name)
        said[name] = _value(name, text, kinds[name])
    return sc.wire.from_json(said, sc.Command[Any])


QueryKind = Literal["whole", "text", "truth"]
QUERY: Final[dict[str, dict[str, QueryKind]]] = {
    "list_sessions": {"limit": "whole", "page": "text", "search": "text", "archived": "truth", "running": "truth"},
    "load_messages": {"before": "whole", "limit": "whole"},
}
"""The query fields of the commands that can be sent by GET; `null` matches any value."""

_TRUTHS: Final = {"true": True, "false": False, "null": None}


def _value(name: str, text: str, kind: QueryKind) -> object:
    if kind == "whole":
        if not text.removeprefix("-").isdecimal() or not text.isascii() or len(text) > 16:
            raise sc.InvalidInput(f"{name} must be a whole number, not {text[:40]!r}", field=name)
        return int(text)
    if kind == "truth":
        if text not in _TRUTHS:
            raise sc.InvalidInput(f"{name} must be true, false or null, not {text[:40]!r}", field=name)
        return _TRUTHS[text]
    return text


def cursor_from(request: Request) -> sc.Cursor | None:
    """Read where a feed should resume: the Last-Event-ID that browsers send automatically, or `?after=`.

    Raises:
        InvalidInput: It does not have the form `epoch:seq`.
    """
    text = request.headers.get("last-event-id") or request.query_params.get("after")
    if not text:
        return None
    epoch, _, seq = text.rpartition(":")
    if not epoch or len(text) > 200 or not (seq.isascii() and seq.isdecimal() and len(seq) <= 16):
        raise sc.InvalidInput("a cursor has the form epoch:seq", field="after")
    return sc.Cursor(epoch=sc.Epoch(epoch), seq=int(seq))
