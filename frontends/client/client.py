"""A service in another process, with the same methods as one in this process.

Rules:
1. One task keeps one connection: it opens it, serves it, and after a loss opens the next one, after a pause.
2. Unanswered requests are resent on the next connection. That is safe: a command that changes something carries an
   idempotency key, and the client keeps its name, so the server knows that it has already run the command.
3. A request waits a limited time for a lost connection (`patience_s`); feeds wait as long as the client lives.
4. The client ends once, with a reason: its block is left, or the server refuses it.
"""

from collections.abc import Callable
from functools import partial
from secrets import token_hex
from typing import Any, Final, TypeVar

import anyio
import attrs

import session_core as sc
from frontends.client.address import Address
from frontends.client.feed import RemoteFeed
from frontends.client.link import LinkLost, ServerLink
from frontends.client.remote_methods import RemoteMethods, error_of, reply_to, result_of
from frontends.client.state import ConnectionState, Phase, StateBoard, StateHandler
from frontends.client.transport import TransportLost, open_transport

R = TypeVar("R")

PATIENCE_S: Final = 30.0
"""How long a request waits for a connection; after that, people have given up, and programs want an error."""
STEADY_S: Final = 5.0
"""A connection that has lasted this long counts as successful."""
_PASSING_CODES: Final = {"closed", "overloaded", "internal", "disconnected"}
"""Refusals that may be temporary: the server is about to end, or is overloaded."""
_SENT_ONCE: Final = {"shutdown"}
"""Requests that are not sent again on another connection: it may lead to the next server."""


class SessionClient(RemoteMethods):
    """A client of a server; created by `open_client`. The methods are those of `sc.SessionMethods`.

    Args:
        address: Where the server is.
        hello: Its greeting; the server may give it a name.
        patience_s: How long its requests wait for a connection.
        pause_before: Returns the pause before a connection attempt, counted from 1.
        on_state: Called at each change of the connection's state; must not block.

    Attributes:
        feeds_by_number: The feeds that the server knows, by its own numbers.
    """

    def __init__(
        self,
        address: Address,
        hello: sc.wire.Hello,
        *,
        patience_s: float,
        pause_before: Callable[[int], float],
        on_state: StateHandler | None,
    ) -> None:
        self.feeds_by_number: dict[int, RemoteFeed] = {}
        self.pause_before = pause_before
        self._address = address
        self._hello = hello
        self._patience_s = patience_s
        self._board = StateBoard(on_state)
        self._link: ServerLink | None = None
        self._useful = False  # whether the last connection was
        self._feeds: dict[RemoteFeed, None] = {}
        self._last_error: sc.SessionCoreError | None = None
        self._end: sc.SessionCoreError | None = None

    # --- state --------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> ConnectionState:
        """The state of the connection."""
        return self._board.current

    async def state_change(self, known: ConnectionState | None = None) -> ConnectionState:
        """Wait until the state differs from `known`, and return it."""
        known = known or self._board.current
        while self._board.current == known:
            await self._board.changed.wait()
        return self._board.current

    @property
    def client_id(self) -> sc.ClientId:
        """Its id in events; empty until the server has assigned one."""
        return self._hello.client_id

    @property
    def link(self) -> ServerLink | None:
        """The connection, while there is one."""
        return self._link if self._link is not None and self._link.ended is None else None

    # --- requests -----------------------------------------------------------------------------------------------------

    async def execute(self, command: sc.Command[R], *, idempotency_key: str | None = None) -> R:
        """Run a command and return its reply, or raise one typed error.

        A command that changes something gets an idempotency key if it has none, so it runs once, however often it is
        sent.

        Raises:
            Disconnected: There was no connection for too long; the command may or may not have run.
            ProtocolError: The server's reply is invalid; the command may or may not have run.
            SessionCoreError: The service refuses.

        Cancellation: the server is told; a command that has started takes effect anyway.
        """
        if idempotency_key is None and not getattr(command, "reads_only", True):
            idempotency_key = token_hex(16)
        return await super().execute(command, idempotency_key=idempotency_key)

    async def execute_now(self, command: sc.Command[R]) -> R:
        """Run a command over the current connection: it waits for no other one, and is never sent again.

        For what must not happen later, when nobody expects it any more.

        Raises:
            Disconnected: There is no connection, so nothing was sent; or it was lost before the reply, so the command
                may or may not have run.
            SessionCoreError: The service refuses.

        Cancellation: the server is told; a command that has started takes effect anyway.
        """
        link = self.link
        if link is None:
            raise self._disconnected()
        try:
            reply = await link.request("execute", sc.wire.to_json(sc.wire.Execute(command=command)))
        except LinkLost:
            raise self._disconnected() from None
        return reply_to(command, result_of("execute", reply))

    def follow(self, session_id: sc.SessionId | None = None, *, after: sc.Cursor | None = None) -> RemoteFeed:
        """Follow one session, or the list of all: a snapshot first, then events, a new snapshot after a lag.

        With `after`, it resumes there without a snapshot if possible, and with exactly one otherwise. If the server
        refuses, the first read raises the error.
        """
        sc.wire.Follow(session_id=session_id, after=after)  # refuses wrong types
        if self._end is not None:
            raise self._end.fresh_copy()
        feed = RemoteFeed(self, session_id, after)
        self._feeds[feed] = None
        feed.begin()
        return feed

    def forget(self, feed: RemoteFeed) -> None:
        """Drop a closed feed."""
        self._feeds.pop(feed, None)

    async def _ask(self, method: str, params: dict[str, Any]) -> Any:
        lost_at: float | None = None
        while True:
            link = await self._until_linked(lost_at)
            began = anyio.current_time()
            try:
                return result_of(method, await link.request(method, params))
            except LinkLost:
                now = anyio.current_time()
                if lost_at is None or now - began > STEADY_S:
                    lost_at = now
                if method in _SENT_ONCE:
                    if link.goodbye is not None:
                        return {}
                    raise self._disconnected() from None

    async def _until_linked(self, lost_at: float | None) -> ServerLink:
        deadline = (anyio.current_time() if lost_at is None else lost_at) + self._patience_s
        while True:
            if self._end is not None:
                raise self._end.fresh_copy()
            if anyio.current_time() > deadline:
                raise self._disconnected()
            if self.link is not None:
                return self.link
            with anyio.move_on_at(deadline):
                await self._board.changed.wait()

    def _disconnected(self) -> sc.Disconnected:
        why = self._last_error.message if self._last_error is not None else "there is no answer yet"
        return sc.Disconnected(f"the connection to the server is lost: {why}")

    # --- the connection -----------------------------------------------------------------------------------------------

    async def keep_connected(self) -> None:
        """Keep a connection until the client ends."""
        attempt = 0
        while self._end is None:
            useful = await self._connect()
            if self._end is None:
                attempt = 1 if useful else attempt + 1
                reason = self._last_error.message if self._last_error is not None else ""
                phase: Phase = "connecting" if self.state.welcome is None else "lost"
                self._board.show(attrs.evolve(self.state, phase=phase, reason=reason, attempt=attempt))
                await anyio.sleep(self.pause_before(attempt))

    async def _connect(self) -> bool:
        """Open and serve one connection; return whether it was successful."""
        self._useful = False
        try:
            async with open_transport(self._address) as transport:
                await self._serve(ServerLink(transport, self._handle_notification))
        except TransportLost as lost:
            self._lose(lost.error, final=lost.final)
        return self._useful

    async def _serve(self, link: ServerLink) -> None:
        link.ask("hello", sc.wire.to_json(self._hello), partial(self._on_hello_reply, link))
        try:
            await link.run()
        finally:
            assert link.ended is not None
            self._useful = link.useful
            self._lose(link.ended, final=link.final)

    def _on_hello_reply(self, link: ServerLink, reply: sc.wire.SuccessReply | sc.wire.FailureReply | None) -> None:
        if reply is None:
            return
        if isinstance(reply, sc.wire.FailureReply):
            error = error_of("hello", reply)
            link.end(error, final=error.code not in _PASSING_CODES)
            return
        try:
            welcome = sc.wire.from_json(reply.result, sc.wire.Welcome)
        except sc.ProtocolError as error:
            link.end(error, final=True)
            return
        if welcome.contract != sc.wire.CONTRACT or not welcome.client_id:
            link.end(sc.ProtocolError("the server speaks another version; use programs of one release"), final=True)
            return
        link.welcome(welcome.heartbeat_ms)
        # With the id it is the same client after a reconnect.
        self._hello = attrs.evolve(self._hello, client_id=welcome.client_id)  # type: ignore[misc]  # an attrs class
        self._link = link
        self._board.show(ConnectionState(phase="connected", welcome=welcome))
        for feed in tuple(self._feeds):
            feed.begin()

    def _lose(self, error: sc.SessionCoreError, *, final: bool) -> None:
        self._link = None
        self._last_error = error
        self.feeds_by_number.clear()
        for feed in self._feeds:
            feed.lose_link()
        if final:
            self.end(error)

    def end(self, error: sc.SessionCoreError) -> None:
        """End for good."""
        if self._end is None:
            self._end = error
            self._board.show(attrs.evolve(self.state, phase="ended", reason=error.message))
            for feed in tuple(self._feeds):
                feed.finish(error.fresh_copy)

    # --- notifications ------------------------------------------------------------------------------------------------

    def _handle_notification(self, link: ServerLink, notification: sc.wire.Notification, size: int) -> None:
        try:
            match notification.method:
                case "feed":
                    self._handle_batch(notification.params, size)
                case "feed_ended":
                    ended = sc.wire.from_json(notification.params, sc.wire.FeedEnded)
                    if (feed := self.feeds_by_number.get(ended.feed)) is not None:
                        feed.take_end(ended)
                case "heartbeat":
                    for place in sc.wire.from_json(notification.params, sc.wire.Heartbeat).feeds:
                        if (feed := self.feeds_by_number.get(place.feed)) is not None:
                            feed.move_on(place.cursor)
                case "goodbye":
                    link.goodbye = sc.wire.from_json(notification.params, sc.wire.Goodbye)
                    error = sc.Disconnected(f"the server has ended the connection: {link.goodbye.reason}")
                    link.end(error, final=not link.goodbye.retry)
                case _:
                    pass  # of a later version
        except sc.ProtocolError as error:
            link.end(error)

    def _handle_batch(self, params: dict[str, Any], size: int) -> None:
        number = params.get("feed")
        feed = self.feeds_by_number.get(number) if type(number) is int else None
        if feed is not None:  # else it was sent before we unfollowed, or for an unknown feed
            feed.take_batch(params, size)

    async def wait_connected(self, wait_s: float) -> None:
        """Wait for the first connection.

        Raises:
            SessionCoreError: There is none after one attempt, nor after `wait_s` seconds.
        """
        with anyio.move_on_after(wait_s if wait_s > 0 else None):
            while self.state.phase != "connected":
                if self._end is not None:
                    raise self._end.fresh_copy()
                if self.state.attempt and wait_s <= 0:
                    break
                await self._board.changed.wait()
        if self.state.phase != "connected":
            raise self._last_error.fresh_copy() if self._last_error is not None else self._disconnected()
