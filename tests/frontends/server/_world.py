"""What tests of the server share: a service with a scripted model behind a listener in memory, and plain clients."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import attrs
import trio
from trio.testing import memory_stream_pair

import session_core as sc
from frontends.server.access import EVERYTHING, Access
from frontends.server.connection import TransportName, serve_connection
from frontends.server.server import Server, ServerSettings
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import ScriptedAnswer, ScriptedProvider

T = TypeVar("T")


@attrs.define(eq=False)
class PlainClient:
    """A client that keeps all that it hears."""

    connection: sc.wire.RpcConnection
    heard: list[sc.wire.Notification]
    news: trio.Event = attrs.field(factory=trio.Event)

    async def ask(self, method: str, **params: Any) -> Any:
        """Send a request and return its result; a typed error is raised as such."""
        try:
            return await self.connection.request(method, params)
        except sc.wire.RpcFailed as failed:
            if not isinstance(failed.data, dict):
                raise
            raise sc.wire.error_from_info(sc.wire.from_json(failed.data, sc.wire.ErrorInfo)) from None

    async def hello(self, **about: Any) -> sc.wire.Welcome:
        """Say who this is."""
        return sc.wire.from_json(await self.ask("hello", **about), sc.wire.Welcome)

    async def run(self, command: sc.Command[T], **more: Any) -> T:
        """Have a command run."""
        reply = await self.ask("execute", command=sc.wire.to_json(command), **more)
        expected: Any = sc.wire.reply_type(type(command))
        read: T = sc.wire.from_json(reply, expected)
        return read

    async def follow(self, session_id: sc.SessionId | None, after: sc.Cursor | None = None) -> sc.wire.Followed:
        """Begin a feed."""
        told = await self.ask("follow", session_id=session_id, after=None if after is None else sc.wire.to_json(after))
        return sc.wire.from_json(told, sc.wire.Followed)

    def batches(self, feed: int) -> list[sc.wire.FeedBatch]:
        """What has come in a feed so far."""
        found = [sc.wire.from_json(each.params, sc.wire.FeedBatch) for each in self.heard if each.method == "feed"]
        return [batch for batch in found if batch.feed == feed]

    def items(self, feed: int) -> list[sc.FeedItem]:
        """All items of a feed, in order."""
        return [item for batch in self.batches(feed) for item in batch.items]

    async def until_heard(self, method: str, count: int = 1) -> list[sc.wire.Notification]:
        """Wait for some notifications."""
        while True:
            found = [each for each in self.heard if each.method == method]
            if len(found) >= count:
                return found
            self.news = trio.Event()
            await self.news.wait()

    async def until_at(self, feed: int, seq: int) -> list[sc.FeedItem]:
        """Wait until a feed has come as far as this, and return its items."""
        while True:
            batches = self.batches(feed)
            if batches and batches[-1].cursor.seq >= seq:
                return self.items(feed)
            self.news = trio.Event()
            await self.news.wait()


@attrs.define(eq=False)
class World:
    """A server with listeners in memory."""

    server: Server
    service: sc.SessionService
    nursery: trio.Nursery

    @asynccontextmanager
    async def connected(
        self, access: Access = EVERYTHING, *, transport: TransportName = "socket"
    ) -> AsyncGenerator[PlainClient]:
        """Connect a client that has not said anything yet."""
        ours, theirs = memory_stream_pair()
        self.nursery.start_soon(self._attend, theirs, access, transport)
        async with ours:
            heard: list[sc.wire.Notification] = []
            client: PlainClient | None = None

            def handle_notification(notification: sc.wire.Notification) -> None:
                heard.append(notification)
                if client is not None:
                    client.news.set()

            async with sc.wire.open_connection(ours, ours, handle_notification=handle_notification) as connection:
                client = PlainClient(connection, heard)
                yield client

    @asynccontextmanager
    async def client(
        self, access: Access = EVERYTHING, *, transport: TransportName = "socket", **about: Any
    ) -> AsyncGenerator[PlainClient]:
        """Connect a client that has said hello."""
        async with self.connected(access, transport=transport) as client:
            await client.hello(**about)
            yield client

    async def _attend(self, stream: trio.StapledStream[Any, Any], access: Access, transport: TransportName) -> None:
        async with stream:
            await serve_connection(self.server, stream, stream, access=access, transport=transport)


@asynccontextmanager
async def open_world(*answers: ScriptedAnswer | ScriptedProvider, **settings: Any) -> AsyncGenerator[World]:
    """Run a checked service whose only model plays these answers, with a server before it."""
    first = answers[0] if answers else None
    provider = first if isinstance(first, ScriptedProvider) else ScriptedProvider(*answers)  # type: ignore[arg-type]
    usual = {"models": {"m": provider}, "tools": (), "cwd": "/", "store": sc.MemoryStore()}
    config = sc.ServiceConfig(**{**usual, **settings.pop("config", {})})
    async with open_checked_service(config) as service, trio.open_nursery() as nursery:
        server = Server(service, ServerSettings(home="/home/of/nobody", **settings))
        yield World(server, service, nursery)
        nursery.cancel_scope.cancel(reason="the test is over")
