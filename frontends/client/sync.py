"""A client without `await`, for scripts and notebooks.

    with connect(name="report") as client:
        session_id = client.create_session(name="nightly").session_id
        client.send_user_message(session_id, "hello")
        for item in client.follow(session_id):
            ...

It runs a loop in a thread of its own, so that it works where a loop is running already, as in Jupyter. An interrupt
(Ctrl-C) ends whatever waits, and the client can be used on.
"""

import inspect
import weakref
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

import anyio

import session_core as sc
from frontends.client.blocking import BlockingMethods
from frontends.client.client import SessionClient
from frontends.client.feed import RemoteFeed
from frontends.client.opening import open_client
from frontends.client.portal import LoopThread
from frontends.client.state import ConnectionState

P = ParamSpec("P")
R = TypeVar("R")


def _with_arguments_of(model: Callable[P, object]) -> Callable[[Callable[..., R]], Callable[P, R]]:
    def shown(function: Callable[..., R]) -> Callable[P, R]:
        signature = inspect.signature(model).replace(return_annotation="SyncClient")
        function.__signature__ = signature  # type: ignore[attr-defined]  # for people who ask a notebook for help
        return function

    return shown


@_with_arguments_of(open_client)
def connect(*args: Any, **kwargs: Any) -> "SyncClient":
    """Connect to a server; takes what `open_client` takes.

    Leave it as a block, or by `close`.

    Raises:
        Disconnected: No server answers.
        NotAllowed, Conflict, InvalidInput, ProtocolError: The server does not take this client.
    """
    return SyncClient(LoopThread(lambda: open_client(*args, **kwargs)))


class SyncClient(BlockingMethods):
    """The methods of a `SessionClient`, each of which waits for its reply; may be used by several threads."""

    def __init__(self, thread: LoopThread) -> None:
        self._thread = thread
        self._client: SessionClient = thread.inner()
        self._close = weakref.finalize(self, thread.stop)  # for those who forget to close it

    @property
    def state(self) -> ConnectionState:
        """How it is connected."""
        return self._client.state

    @property
    def client_id(self) -> sc.ClientId:
        """What it is called in events."""
        return self._client.client_id

    def follow(self, session_id: sc.SessionId | None = None, *, after: sc.Cursor | None = None) -> "SyncFeed":
        """Follow one session, or the list of all; see `SessionClient.follow`."""
        return SyncFeed(self, self._thread, self._thread.call_now(lambda: self._client.follow(session_id, after=after)))

    def status(self) -> sc.ServiceStatus:
        """Ask what the server is doing."""
        return self._thread.call(self._client.status)

    def shutdown(self, *, force: bool = False) -> None:
        """End the server; see `SessionClient.shutdown`."""
        self._thread.call(self._client.shutdown, force=force)

    def close(self) -> None:
        """Leave the server, whose work goes on."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _call(self, method: Callable[..., Awaitable[R]], *args: Any, **kwargs: Any) -> R:
        return self._thread.call(method, self._client, *args, **kwargs)


class SyncFeed:
    """An iterator of snapshots and events; made by `SyncClient.follow`."""

    def __init__(self, client: SyncClient, thread: LoopThread, feed: RemoteFeed) -> None:
        self._client = client  # which lives as long as this
        self._thread = thread
        self._feed = feed

    @property
    def cursor(self) -> sc.Cursor | None:
        """Where to resume: everything up to here was read. None while a snapshot is due."""
        return self._feed.cursor

    @property
    def resyncs(self) -> int:
        """How many snapshots were read, the first included."""
        return self._feed.resyncs

    @property
    def last_resync(self) -> sc.Resync | None:
        """Why the newest snapshot was given."""
        return self._feed.last_resync

    def receive_batch(self, timeout_s: float | None = None) -> list[sc.FeedItem]:
        """Wait until there is something, then return all of it; nothing if that takes longer than so many seconds.

        Raises:
            EOFError: The session was deleted, and everything was received.
            Disconnected: The client has ended, and this is why.
        """

        async def receive() -> list[sc.FeedItem]:
            with anyio.move_on_after(timeout_s):
                return await self._feed.receive_batch()
            return []

        try:
            return self._thread.call(receive)
        except anyio.EndOfStream:
            raise EOFError("the session was deleted") from None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> sc.FeedItem:
        item = self._feed.take_ready()
        if item is not None:
            return item  # without the way to the other thread and back
        try:
            return self._thread.call(self._feed.__anext__)
        except StopAsyncIteration:
            raise StopIteration from None

    def close(self) -> None:
        """Stop following."""
        self._thread.call_now(self._feed.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
