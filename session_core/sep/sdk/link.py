"""The connection from an extension to its host: requests, notifications, and calling async or plain handlers.

Plain functions run in threads, so they may block. Their notifications are encoded at once, because the values may
change afterwards, and then handed to the connection's own thread.
"""

import inspect
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

import attrs
import trio

from session_core import limits
from session_core.errors import InvalidInput
from session_core.foreign_faults import flatten_group
from session_core.rpc.connection import RpcConnection
from session_core.rpc.failures import RpcFailed
from session_core.rpc.messages import encode_notification
from session_core.sep.protocol.names import INTERNAL_ERROR, Capability
from session_core.sep.sdk.failures import ContextExpired, HostError, HostGone, InvalidRequest, host_error

# --- errors of handlers, normalized so that only the handler ends -----------------------------------------------------
_OURS = (KeyboardInterrupt, GeneratorExit)  # these concern the whole program, wherever they are raised


def normalize_error(error: BaseException) -> BaseException:
    """Return the exception to raise in place of one that a handler raised.

    A nursery wraps exceptions: a single one is unwrapped. If a handler was cancelled, only the cancellation counts.
    Anything that is not an `Exception`, such as the exit of a command-line parser or an asyncio cancellation, would end
    the whole extension, so it is converted to one.
    """
    leaves = flatten_group(error)
    if any(isinstance(each, _OURS) for each in leaves):
        return error
    for each in leaves:
        if isinstance(each, trio.Cancelled):
            return each
    found = leaves[0] if len(leaves) == 1 else error
    if isinstance(found, Exception):
        return found
    how = f"called sys.exit({found.code!r})" if isinstance(found, SystemExit) else f"has raised {found!r}"
    made = RuntimeError(f"a handler {how}")
    made.__cause__ = error
    return made


# --- link -------------------------------------------------------------------------------------------------------------

log = logging.getLogger("session_core.sep.sdk")

THREADS: Final = limits.MAX_RPC_REQUESTS
"""Plain handlers at once: one for each request that may run. A cancelled one keeps its thread until it ends."""
MOST_HANDED_OVER: Final = limits.RPC_WAIT_FRAMES // 2
"""Notifications from other threads that may wait for the connection's own thread."""

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class HostInfo:
    """What the host said about itself in the handshake."""

    name: str = ""
    version: str = ""
    mode: str = "headless"
    workspace: str = ""
    """The folder that people work in, as an absolute path."""
    trusted: bool = False
    """Whether people trust the contents of that folder."""
    ui_kinds: frozenset[str] = frozenset()
    flags: Mapping[str, Any] = attrs.field(factory=dict)
    disabled: frozenset[Capability] = frozenset()
    """What the host will refuse, whatever the manifest says."""


class HostLink:
    """A connection to a host, as contexts use it."""

    def __init__(self, connection: RpcConnection) -> None:
        self._connection = connection
        self._asking = trio.Semaphore(limits.MAX_RPC_REQUESTS)  # one more would be refused
        self._token = trio.lowlevel.current_trio_token()
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._handed_over: list[bytes] = []
        self._handed_bytes = 0
        self.host = HostInfo()
        self.cleanups: list[Callable[[], Any]] = []

    async def ask(self, method: str, params: Mapping[str, Any]) -> Any:
        """Send a request to the host and return its result; waits while as many as a host takes have no answer yet.

        Raises:
            HostError: The host refused; the subclass says why.

        Cancellation: the host is told that the request was cancelled.
        """
        try:
            self._asking.acquire_nowait()
        except trio.WouldBlock:
            await self._asking.acquire()
        try:
            return await self._connection.request(method, params)
        except RpcFailed as failed:
            raise _with_advice(host_error(failed), params.get("context")) from failed
        except InvalidInput as error:
            raise InvalidRequest(-32602, f"{method}: {error.message}") from error
        finally:
            self._asking.release()

    async def tell(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification that must arrive; waits while the host is not reading.

        Raises:
            HostError: The connection has ended, or the params cannot be written as JSON.
        """
        try:
            await self._connection.notify(method, params)
        except RpcFailed as failed:
            raise host_error(failed) from failed
        except InvalidInput as error:
            raise InvalidRequest(-32602, f"{method}: {error.message}") from error

    def tell_now(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification that may get lost, from any thread; it is dropped while the host is not reading."""
        try:
            frame = encode_notification(method, params)
        except InvalidInput as error:
            log.warning("%s was not sent: %s", method, error.message)
            return
        if threading.get_ident() == self._thread:
            self._connection.send_now(frame)
        elif self._hand_over(frame):
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._send_handed_over)

    def _hand_over(self, frame: bytes) -> bool:
        """Hand over a frame; returns whether the connection's thread needs a wake-up, because none is pending."""
        with self._lock:
            first = not self._handed_over
            full = len(self._handed_over) >= MOST_HANDED_OVER or self._handed_bytes >= limits.RPC_WAIT_BYTES
            if not full:
                self._handed_over.append(frame)
                self._handed_bytes += len(frame)
            return first

    def _send_handed_over(self) -> None:
        with self._lock:
            frames, self._handed_over, self._handed_bytes = self._handed_over, [], 0
        for frame in frames:
            self._connection.send_now(frame)

    def wait(self, function: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Call an async function from any other thread, and wait for it.

        Raises:
            HostGone: The connection has ended.
        """
        token: trio.lowlevel.TrioToken | None = None
        try:
            trio.from_thread.check_cancelled()
        except RuntimeError:  # not a thread of trio
            token = self._token
        try:
            return trio.from_thread.run(function, *args, trio_token=token)
        except trio.RunFinishedError:
            raise HostGone(INTERNAL_ERROR, "the extension has ended") from None


def _with_advice(error: HostError, context: object) -> HostError:
    """Extend the host's message where the context explains the refusal."""
    if not isinstance(error, ContextExpired) or not isinstance(context, Mapping) or context.get("tier") != "event":
        return error
    advice = "event handlers cannot act in a session; do it in a command, a tool or a hook"
    return ContextExpired(error.code, f"{error.message}: {advice}", error.data)


async def call(handler: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Call a handler, async or not; a plain one runs in a thread.

    Cancellation: a thread cannot be stopped; it runs on, and its result is dropped.
    """
    return await call_in(_threads(), partial(handler, *args, **named))


async def call_in(threads: trio.CapacityLimiter, handler: "partial[Any]") -> Any:
    """Call a handler; a plain one takes one of these threads."""
    try:
        if inspect.iscoroutinefunction(handler.func):
            return _check_awaited(handler, await handler())
        # In a tuple, because trio refuses functions that return a coroutine, as undecorated wrappers of async functions
        # do.
        (returned,) = await trio.to_thread.run_sync(lambda: (handler(),), abandon_on_cancel=True, limiter=threads)
        return _check_awaited(handler, await returned) if inspect.isawaitable(returned) else returned
    except BaseException as error:
        instead = normalize_error(error)
        if instead is error:
            raise
        raise instead from instead.__cause__  # noqa: ASYNC104 - where it was cancelled, that is what is raised


def _check_awaited(handler: "partial[Any]", returned: Any) -> Any:
    if not inspect.isawaitable(returned):
        return returned
    if inspect.iscoroutine(returned):
        returned.close()  # otherwise Python warns about it later, somewhere else
    name = getattr(handler.func, "__name__", "a handler")
    raise TypeError(f"{name} returned something that was never awaited: an `await` is missing in it")


_THREADS: trio.lowlevel.RunVar[trio.CapacityLimiter] = trio.lowlevel.RunVar("_THREADS")


def _threads() -> trio.CapacityLimiter:
    try:
        return _THREADS.get()
    except LookupError:
        made = trio.CapacityLimiter(THREADS)
        _THREADS.set(made)
        return made
