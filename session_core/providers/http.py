"""Calls to providers over HTTP: one POST, answered by a stream of events or by a `ModelFailed`.

Whatever the server does, a call raises only `Cancelled`, no buffer grows without bound, no call takes forever, and the
key is sent only to the configured address. httpx2 is imported on first use, in a thread, because that is slow.
"""

import math
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Protocol, Self
from urllib.parse import urlsplit

import attrs
import trio

from session_core._version import __version__
from session_core.errors import InvalidInput
from session_core.httpx2_workaround import hold_body
from session_core.providers.base import ModelFailed, ModelFinished, ProviderEvent
from session_core.providers.endpoint import Endpoint, is_loopback
from session_core.providers.failures import build_failure, failure_from_event, failure_from_status
from session_core.providers.secrets import Secret
from session_core.providers.sse import SseEvent, SseEventTooLarge, SseParser
from session_core.vocabulary.messages import Usage

if TYPE_CHECKING:
    import httpx2

MAX_ERROR_BODY_BYTES: Final = 64 * 1024
"""An error is a few sentences; only the beginning of a longer body is read."""
_RETRIES_IF_NOBODY_IS_THERE: Final = 1
"""A server on this machine that does not run will not run in ten seconds either."""
_ERROR_BODY_S: Final = 10
_CLOSE_S: Final = 2
_DRAIN_S: Final = 0.2
_DRAINED_EVENTS: Final = 4
_LAST_WORD_S: Final = 5
"""How long a server may take to report the usage once the answer is complete."""


class HttpStream:
    """An answer that has begun. Iterate it: events, then the end, or a `ModelFailed` as the last item."""

    def __init__(self, endpoint: Endpoint, response: "httpx2.Response") -> None:
        self.headers: Mapping[str, str] = _lower_headers(response)
        self._endpoint = endpoint
        self._pieces = response.aiter_bytes()
        self._parser = SseParser(endpoint.max_event_bytes)
        self._waiting: deque[SseEvent | ModelFailed] = deque()
        self._ended = False
        self._bytes = self._events = 0
        self._progress_at = trio.current_time()
        self._ends_at = self._progress_at + endpoint.timeouts.total_s

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SseEvent | ModelFailed:
        while not self._waiting:
            if self._ended:
                raise StopAsyncIteration
            await self._read()
        return self._waiting.popleft()

    async def aclose(self) -> None:
        """Close the response; data that was read ahead is dropped."""
        self._ended = True
        self._waiting.clear()
        await self._pieces.aclose()

    async def _read(self) -> None:
        piece: bytes | None = None
        try:
            with trio.CancelScope(
                deadline=min(self._progress_at + self._endpoint.timeouts.progress_s, self._ends_at)
            ) as patience:
                piece = await anext(self._pieces, None)
        except Exception as error:  # noqa: BLE001 - as above: any failure of a call is an event
            self._end(_failure_from_exception(self._endpoint, error))
            return
        if piece is not None:
            self._take(piece)
        elif patience.cancelled_caught:
            self._end(_stall_failure(self._endpoint, in_all=trio.current_time() >= self._ends_at))
        else:
            self._end(None)

    def _take(self, piece: bytes) -> None:
        self._bytes += len(piece)
        try:
            events = self._parser.feed(piece)
            failure = None
        except SseEventTooLarge as error:
            events = error.events
            failure = build_failure("malformed", f"{self._endpoint.host} sent an event that is too large")
        if any(event.event != "ping" for event in events):
            self._progress_at = trio.current_time()
        self._events += len(events)
        self._waiting.extend(events)
        if self._bytes > self._endpoint.max_stream_bytes or self._events > self._endpoint.max_events:
            failure = build_failure("malformed", f"The answer of {self._endpoint.host} is too long")
        if failure is not None:
            self._end(failure)

    def _end(self, failure: ModelFailed | None) -> None:
        self._ended = True
        if failure is not None:
            self._waiting.append(failure)


@asynccontextmanager
async def open_stream(
    endpoint: Endpoint,
    path: str,
    body: bytes,
    headers: Mapping[str, str] | None = None,
    *,
    key_header: str = "authorization",
) -> AsyncIterator[HttpStream | ModelFailed]:
    """Send one JSON body and open the stream of events that answers it; leaving closes the connection."""
    response: httpx2.Response | None = None
    opened: HttpStream | ModelFailed
    try:
        try:
            with trio.move_on_after(endpoint.timeouts.progress_s):
                client = await endpoint.client()
                request = _build_request(
                    client, endpoint, path, body, _merge_headers(endpoint, headers or {}, key_header)
                )
                response = await client.send(request, stream=True, follow_redirects=False)
                hold_body(response)
            if response is None:
                opened = _stall_failure(endpoint, in_all=False)
            else:
                opened = await _find_failure(endpoint, response) or HttpStream(endpoint, response)
        except Exception as error:  # noqa: BLE001 - any exception of a foreign library is a failed call (law 10)
            opened = _failure_from_exception(endpoint, error)
        try:
            yield opened
        finally:
            if isinstance(opened, HttpStream):
                await _close(opened)  # noqa: ASYNC102 - it shields itself
    finally:
        if response is not None:
            await _close(response)  # noqa: ASYNC102 - it shields itself


class Decoder(Protocol):
    """Turns the events of one kind of provider into ours, without I/O."""

    @property
    def usage(self) -> Usage:
        """The usage of the answer, as far as the server has reported it."""
        ...

    @property
    def complete(self) -> bool:
        """Whether the answer is complete although its end mark is missing: a broken connection is then no failure."""
        ...

    def decode(self, event: SseEvent) -> list[ProviderEvent]:
        """Decode an event; a `ModelFinished` or `ModelFailed` is the last item."""
        ...

    def finish(self) -> list[ProviderEvent]:
        """Return the remaining events at the end of the stream, the last a `ModelFinished` or `ModelFailed`."""
        ...


@asynccontextmanager
async def stream_answer(
    endpoint: Endpoint,
    path: str,
    body: bytes,
    decoder: Decoder,
    headers: Mapping[str, str] | None = None,
    *,
    key_header: str = "authorization",
) -> AsyncIterator[AsyncIterator[ProviderEvent]]:
    """Run a whole model call; the implementation of `Provider.stream`."""
    async with (
        open_stream(endpoint, path, body, headers, key_header=key_header) as opened,
        aclosing(_answer(opened, decoder)) as events,
    ):
        yield events


async def _answer(opened: HttpStream | ModelFailed, decoder: Decoder) -> AsyncGenerator[ProviderEvent, None]:
    if isinstance(opened, ModelFailed):
        await trio.lowlevel.checkpoint()
        yield opened
        return
    ended = False
    while not ended:
        item: SseEvent | ModelFailed | None = None
        with trio.move_on_after(_LAST_WORD_S if decoder.complete else math.inf):
            item = await anext(opened, None)
        if isinstance(item, ModelFailed) and not decoder.complete:
            yield attrs.evolve(item, usage=decoder.usage)
            return
        ended = not isinstance(item, SseEvent)
        for event in decoder.decode(item) if isinstance(item, SseEvent) else decoder.finish():
            if isinstance(event, ModelFinished):
                await _drain(opened)  # before the last event, because the consumer stops reading there
            yield event
            if isinstance(event, ModelFinished | ModelFailed):
                return


async def _drain(opened: HttpStream) -> None:
    """Read the rest after the last event, usually a few bytes, so the connection can be reused."""
    with trio.move_on_after(_DRAIN_S):
        for _ in range(_DRAINED_EVENTS):
            if await anext(opened, None) is None:
                return


async def _find_failure(endpoint: Endpoint, response: "httpx2.Response") -> ModelFailed | None:
    """Return the failure of a response by its status and headers, and by its body if that is not a stream."""
    status, headers = response.status_code, _lower_headers(response)
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if 300 <= status < 400:
        sentence = (
            f"{endpoint.host} answered with a redirect (status {status}), which is not followed, as the key must not "
            "go to another address; if the provider has moved, change its address in the settings"
        )
        return build_failure("refused", sentence, headers.get("location", ""), secrets=endpoint.secrets)
    if status != 200:
        body = await _read_beginning(response)
        return failure_from_status(status, headers, body, secrets=endpoint.secrets, key_hint=endpoint.key_hint)
    if media_type == "application/json":
        event = SseEvent(data=(await _read_beginning(response)).decode("utf-8", errors="replace"))
        found = event.json_object() or {}
        if "error" in found:
            return failure_from_event(found, secrets=endpoint.secrets)
    if media_type in {"application/json", "text/html"}:
        return build_failure("malformed", f"{endpoint.host} answered with {media_type} instead of a stream of events")
    return None


async def _read_beginning(response: "httpx2.Response") -> bytes:
    """Read the useful beginning of an error's body; it may break off."""
    body = bytearray()
    pieces = response.aiter_bytes()
    with trio.move_on_after(_ERROR_BODY_S):
        try:
            while len(body) < MAX_ERROR_BODY_BYTES and (piece := await anext(pieces, None)) is not None:
                body += piece
        except Exception:  # noqa: BLE001, S110 - the status is enough
            pass
    await _close(pieces)
    return bytes(body[:MAX_ERROR_BODY_BYTES])


class _Closable(Protocol):
    def aclose(self) -> Coroutine[Any, Any, None]: ...


async def _close(what: _Closable) -> None:
    """Close even when cancelled, or the connection would stay open; ignores errors."""
    with trio.CancelScope(shield=True), trio.move_on_after(_CLOSE_S):
        with suppress(Exception):
            await what.aclose()


def _lower_headers(response: "httpx2.Response") -> dict[str, str]:
    return {name.lower(): text for name, text in response.headers.items()}


def _build_request(
    client: "httpx2.AsyncClient", endpoint: Endpoint, path: str, body: bytes, headers: dict[str, str]
) -> "httpx2.Request":
    request = client.build_request("POST", endpoint.base_url.rstrip("/") + path, content=body, headers=headers)
    checked = urlsplit(endpoint.base_url)
    if (request.url.scheme, request.url.host.lower()) != (checked.scheme, (checked.hostname or "").lower()):
        # Two URL parsers may disagree about odd addresses; the key is sent only where both agree.
        raise InvalidInput("The address of the provider is ambiguous.", field="base_url")
    return request


def _merge_headers(endpoint: Endpoint, headers: Mapping[str, str], key_header: str) -> dict[str, str]:
    together = {
        "content-type": "application/json",
        "accept": "text/event-stream",
        "accept-encoding": "identity",
        "user-agent": f"session-core/{__version__}",
    }
    together.update((name.lower(), text) for name, text in headers.items())
    for name, content in endpoint.headers.items():
        together[name.lower()] = content.reveal() if isinstance(content, Secret) else content
    if endpoint.key is not None:
        name = (endpoint.key_header or key_header).lower()
        together[name] = f"Bearer {endpoint.key.reveal()}" if name == "authorization" else endpoint.key.reveal()
    return together


def _stall_failure(endpoint: Endpoint, *, in_all: bool) -> ModelFailed:
    if in_all:
        return build_failure(
            "network", f"The answer of {endpoint.host} took more than {endpoint.timeouts.total_s:g} seconds"
        )
    return build_failure("network", f"{endpoint.host} sent nothing new for {endpoint.timeouts.progress_s:g} seconds")


def _failure_from_exception(endpoint: Endpoint, error: Exception) -> ModelFailed:
    """Describe an exception of the HTTP client in plain words."""
    host = endpoint.host
    name = _name_in_httpx(error)
    match name:
        case "ConnectTimeout":
            return build_failure(
                "network", f"{host} could not be reached within {endpoint.timeouts.connect_s:g} seconds"
            )
        case "PoolTimeout":
            return build_failure("network", f"There are too many calls to {host} at once")
        case "ReadTimeout" | "WriteTimeout":
            return build_failure("network", f"{host} was silent for {endpoint.timeouts.read_s:g} seconds")
        case "ConnectError" if _is_connection_refused(endpoint, error):
            message = f"Nothing answers at {endpoint.base_url}: {endpoint.absent_hint}"
            return ModelFailed(kind="network", message=message, most_retries=_RETRIES_IF_NOBODY_IS_THERE)
        case "ConnectError" | "ProxyError":
            return build_failure("network", f"No connection to {host}", _reason(error), secrets=endpoint.secrets)
        case "RemoteProtocolError" if "disconnected" not in str(error) and "closed" not in str(error):
            return build_failure("malformed", f"The answer of {host} is not HTTP")
        case "DecodingError":
            return build_failure("malformed", f"The answer of {host} cannot be decompressed")
        case "NetworkError" | "ReadError" | "WriteError" | "CloseError" | "RemoteProtocolError" | "OSError":
            return build_failure("network", f"The connection to {host} broke off")
        case _:
            return build_failure("internal", f"The call to {host} failed", _reason(error), secrets=endpoint.secrets)


def _name_in_httpx(error: Exception) -> str:
    if isinstance(error, OSError | trio.BrokenResourceError | trio.ClosedResourceError):
        return "OSError"
    return type(error).__name__ if type(error).__module__.partition(".")[0] in {"httpx2", "httpcore2"} else ""


def _is_connection_refused(endpoint: Endpoint, error: Exception) -> bool:
    """Return whether no program listens at an address of this machine; a remote server may just be restarting."""
    return is_loopback(urlsplit(endpoint.base_url).hostname or "") and isinstance(
        _innermost(error), ConnectionRefusedError
    )


def _innermost(error: BaseException) -> BaseException:
    for _ in range(8):
        inner = error.__cause__ or error.__context__
        if isinstance(error, BaseExceptionGroup):
            inner = error.exceptions[0]
        if inner is None:
            break
        error = inner
    return error


def _reason(error: BaseException) -> str:
    """Return the innermost cause, the most useful one: an unknown host name, an untrusted certificate."""
    error = _innermost(error)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
