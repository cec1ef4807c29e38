"""One server: connecting, listing its tools, requests, disconnects, and reconnecting.

1. A connection lives in its own task; only callers of the server wait for it.
2. When it is lost, open requests end at once with the reason. A server that was ready is retried immediately, then with
   growing pauses, and after several failures in a row only on request.
3. The tools of a lost server stay listed, so they do not come and go; their calls say what is wrong.
4. All exceptions of the SDK end here: callers get only `McpFailed` and `Cancelled`.
"""

import math
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import trio

from session_core._version import __version__
from session_core.limits import MAX_ERROR_CHARS
from session_core.mcp.config import ServerConfig, StdioServer
from session_core.mcp.content import MAX_DESCRIPTION_CHARS, RemoteTool, ServerState, ServerStatus
from session_core.mcp.diagnostics import Diagnostics
from session_core.mcp.remote import open_remote
from session_core.mcp.results import cut, remote_tools
from session_core.mcp.sdk import load_sdk
from session_core.mcp.sdk_calls import describe_exception, fetch_all_pages, greet, has_resources
from session_core.mcp.stdio import open_stdio
from session_core.mcp.transport import McpFailed, TransportStreams

if TYPE_CHECKING:
    import mcp_types as types
    from mcp import ClientSession
    from mcp.client.session import IncomingMessage

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class ConnectionTiming:
    """Timeouts and pauses for servers, in seconds.

    Attributes:
        connecting: How long a server may take to become ready; some are downloaded first.
        first_pause: The pause before a failed server is retried; each further one is twice as long.
        longest_pause: The longest such pause.
        attempts: Failures in a row after which a server is retried only on request.
        settled: How long a server has to be ready until earlier failures are forgotten.
        patience: How long a call waits for a server that is being connected.
        listing: The pause between two listings of a server that keeps reporting changed tools.
    """

    connecting: float = 60
    first_pause: float = 1
    longest_pause: float = 60
    attempts: int = 8
    settled: float = 30
    patience: float = 10
    listing: float = 0.1


WITHOUT_SDK = "the package for MCP is missing; install it with: pip install 'session-core[mcp]'"


class Connection:
    """The connection to one server."""

    def __init__(self, config: ServerConfig, pace: ConnectionTiming, on_change: Callable[[ServerStatus], None]) -> None:
        self.config = config
        self.diagnostics = Diagnostics()
        self.tools: tuple[RemoteTool, ...] = ()
        self.offers_resources = False
        state: ServerState = "disabled" if config.disabled else "connecting"
        reason = "it is disabled in its mcp.json" if config.disabled else ""
        self.status = ServerStatus(name=config.name, origin=config.origin, state=state, reason=reason)
        self._pace = pace
        self._on_change = on_change
        self._session: ClientSession | None = None
        self._end_reason: str | None = None
        self._wake = trio.Event()
        self._changed = trio.Event()
        self._reconnect_requested = trio.Event()

    async def run(self) -> None:
        """Keep the server connected until cancelled; raises nothing else."""
        if self.config.disabled:
            return
        try:
            await load_sdk()
        except ImportError:
            self._set(state="failed", reason=WITHOUT_SDK, attempts=1, gave_up=True)
            return
        failures = 0
        while True:
            begun = trio.current_time()
            was_ready, reason = await self._live()
            if was_ready and trio.current_time() - begun >= self._pace.settled:
                failures = 0
            failures += 1
            # Rule 2: the first loss of a ready server is followed by an immediate attempt.
            if failures == 1 and was_ready:
                self._set(state="connecting", reason=reason, attempts=failures)
                continue
            gave_up = failures >= self._pace.attempts
            self._set(state="failed", reason=reason, attempts=failures, gave_up=gave_up)
            if await self._pause(failures, for_ever=gave_up):
                failures = 0
            self._set(state="connecting", gave_up=False)

    def connect_now(self) -> None:
        """Retry a failed server without waiting any longer."""
        self._reconnect_requested.set()

    async def wait_for_status(self, condition: Callable[[ServerStatus], bool]) -> ServerStatus:
        """Wait until the status meets the condition."""
        while not condition(self.status):
            await self._changed.wait()
        return self.status

    async def request(self, ask: Callable[["ClientSession"], Awaitable[T]]) -> T:
        """Send a request to the server.

        Raises:
            McpFailed: The server is not there, did not answer in time, or answered with an error.

        Cancellation: the server is told to stop; the connection stays usable.
        """
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED

        session, seconds = await self._ready_session(), self.config.timeout_ms / 1000
        who = f"the MCP server {self.config.name!r}"
        try:
            with trio.fail_after(seconds):
                return await ask(session)
        except trio.TooSlowError as error:
            raise McpFailed(f"{who} did not answer within {seconds:g} seconds, and was told to stop") from error
        except MCPError as error:
            message = cut(error.error.message, MAX_ERROR_CHARS)
            if error.code == CONNECTION_CLOSED:
                if self._session is session:
                    self._on_lost(message)
                raise McpFailed(f"{who} was lost before it answered: {self._describe_loss(message)}") from error
            raise McpFailed(f"{who} refused: {message}") from error
        except McpFailed:
            raise
        except Exception as error:  # foreign code, which must not end a turn
            raise McpFailed(f"{who} sent an answer that cannot be used: {describe_exception(error)}") from error

    async def _ready_session(self) -> "ClientSession":
        with trio.move_on_after(self._pace.patience):
            await self.wait_for_status(lambda status: status.state != "connecting")
        if self._session is None:
            why = self.status.reason or "it has not been reached yet"
            raise McpFailed(f"the MCP server {self.config.name!r} is not available: {why}")
        return self._session

    async def _live(self) -> tuple[bool, str]:
        """Connect, and return when the connection is lost: whether the server was ready, and why it no longer is."""
        from mcp import ClientSession
        from mcp_types import Implementation

        self._end_reason, self._wake = None, trio.Event()
        self.diagnostics.begin()
        was_ready, failure = False, ""
        try:
            async with self._link() as link:
                async with ClientSession(
                    link.read,
                    link.write,
                    message_handler=self._on_message,
                    client_info=Implementation(name="session-core", version=__version__),
                ) as session:
                    with trio.fail_after(self._pace.connecting):
                        await greet(session)
                        await self._list(session)
                    was_ready = True
                    self._session = session
                    instructions = cut(session.instructions or "", MAX_DESCRIPTION_CHARS)
                    self._set(state="ready", reason="", attempts=0, pid=link.pid, instructions=instructions)
                    await self._serve_until_lost(session)
        except* trio.TooSlowError:
            failure = f"it did not become ready within {self._pace.connecting:g} seconds"
        except* Exception as group:  # noqa: BLE001  foreign code; its error becomes the reason
            failure = describe_exception(group)
        finally:
            self._session = None
        return was_ready, self._describe_loss(failure)

    def _link(self) -> AbstractAsyncContextManager[TransportStreams]:
        if isinstance(self.config, StdioServer):
            return open_stdio(self.config, self.diagnostics, self._on_lost)
        return open_remote(self.config, self.diagnostics, self._on_lost)

    async def _on_message(self, message: "IncomingMessage") -> None:
        from mcp_types import ResourceListChangedNotification, ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification | ResourceListChangedNotification):
            self._wake.set()

    async def _serve_until_lost(self, session: "ClientSession") -> None:
        while self._end_reason is None:
            await self._wake.wait()
            self._wake = trio.Event()
            if self._end_reason is None:
                try:
                    with trio.fail_after(self._pace.connecting):
                        await self._list(session)
                except Exception as error:  # noqa: BLE001  foreign code; the tools stay as they were
                    self.diagnostics.note(f"what it offers could not be listed again: {describe_exception(error)}")
                self._set()
                await trio.sleep(self._pace.listing)

    async def _list(self, session: "ClientSession") -> None:
        offers = session.server_capabilities
        listed: list[types.Tool] = []
        if offers is not None and offers.tools is not None:
            listed = await fetch_all_pages(
                lambda page_params: session.list_tools(params=page_params), lambda page: page.tools
            )
        self.offers_resources = offers is not None and offers.resources is not None and await has_resources(session)
        found, notes = remote_tools(self.config, listed)
        self.tools = tuple(found)
        self.status = attrs.evolve(self.status, tools=len(found), notes=tuple(notes))

    def _on_lost(self, reason: str) -> None:
        if self._end_reason is None:
            self._end_reason = reason
        if self._session is not None:
            # From now on, calls wait for the next connection instead of failing on this one.
            self._session = None
            self._set(state="connecting", reason=self._describe_loss(reason))
        self._wake.set()

    def _describe_loss(self, failure: str) -> str:
        reason, last = self._end_reason or failure or "the connection was closed", self.diagnostics.last()
        return cut(f"{reason}; it last wrote: {last}" if last else reason, MAX_ERROR_CHARS)

    async def _pause(self, failures: int, *, for_ever: bool) -> bool:
        """Wait before the next attempt; returns whether the attempt was requested."""
        self._reconnect_requested = trio.Event()
        seconds = min(self._pace.longest_pause, self._pace.first_pause * 2.0 ** min(failures - 1, 32))
        with trio.move_on_after(math.inf if for_ever else seconds):
            await self._reconnect_requested.wait()
            return True
        return False

    def _set(self, **changes: Any) -> None:
        if changes.get("state", "ready") != "ready":
            changes["pid"] = None
        self.status = attrs.evolve(self.status, **changes)
        self._changed.set()
        self._changed = trio.Event()
        self._on_change(self.status)
