"""A small server whose every fault is planned: it keeps the contract, except where a test wants it not to."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import attrs

import session_core as sc
from frontends.client import SessionClient, open_client
from frontends.shared.socket_path import short_socket_name
from session_core.rpc.line_frames import LineSplitter
from session_core.rpc.messages import encode_failure, encode_notification, encode_success, parse
from session_core.vocabulary.client_protocol import ResyncReason

SESSION = sc.SessionId("ses_0123456789abcdefghjkmnpqrs")


def empty_session(epoch: str, seq: int = 0) -> sc.SessionSnapshot:
    """A session in which nothing has happened yet."""
    return sc.SessionSnapshot(
        session_id=SESSION,
        cursor=sc.Cursor(epoch=sc.Epoch(epoch), seq=seq),
        sseq=0,
        name="new",
        created_at=0,
        updated_at=0,
        archived=False,
        deleted=False,
        parent_id=None,
        forked_from=None,
        settings=sc.Settings(model="m", cwd="/"),
        activity=sc.Activity(name="idle"),
        messages=sc.Vector(()),
        head=None,
        partial=None,
        tools=(),
        turn=None,
        last_outcome=None,
        stop=None,
        queue=(),
        approvals=(),
        dialogs=(),
        grants=(),
        wakeups=(),
        usage=sc.Usage(),
    )


@attrs.define(eq=False)
class Connection:
    """One client that is connected."""

    stream: anyio.abc.ByteStream
    budget: int | None  # bytes that are still sent before the line is cut
    feeds: dict[int, int] = attrs.field(factory=dict)  # number to the seq that was sent
    sent: list[bytes] = attrs.field(factory=list)
    cut: bool = False
    lock: anyio.Lock = attrs.field(factory=anyio.Lock)


@attrs.define(eq=False)
class ScriptedServer:
    """Keeps one session, whose events are renamings.

    Attributes:
        cuts: After how many bytes each connection is cut, one after the other; those that follow are never cut.
        done: The names that commands have set, in order: nothing may be in it twice.
        asked: The methods that came in.
        heartbeat_ms: What clients are told, and how often they hear from us if `beats`.
        answer: Answers a method in place of the server, if it wants to: returns frames to send.
        doctor: Changes what is sent of a feed: takes a batch, returns frames.
    """

    path: Path
    epoch: str = "run_a"
    base: int = 0
    events: list[sc.SessionEvent] = attrs.field(factory=list)
    cuts: list[int] = attrs.field(factory=list)
    done: list[str] = attrs.field(factory=list)
    asked: list[str] = attrs.field(factory=list)
    params: list[dict[str, Any]] = attrs.field(factory=list)
    hellos: list[sc.wire.Hello] = attrs.field(factory=list)
    keys: dict[str, sc.Cursor] = attrs.field(factory=dict)
    connections: list[Connection] = attrs.field(factory=list)
    heartbeat_ms: int = 60_000
    keeps_from: int = 0  # events before this are no longer kept
    answer: Callable[["ScriptedServer", Connection, sc.wire.Request], list[bytes] | None] | None = None
    doctor: Callable[[sc.wire.FeedBatch], list[bytes]] | None = None
    greeting: bytes = b""
    _last_feed: int = 0

    # --- its state ----------------------------------------------------------------------------------------------------

    @property
    def cursor(self) -> sc.Cursor:
        """Where it stands."""
        return sc.Cursor(epoch=sc.Epoch(self.epoch), seq=self.base + len(self.events))

    @property
    def state(self) -> sc.SessionSnapshot:
        """The truth."""
        return sc.fold(self.start, self.events)

    @property
    def start(self) -> sc.SessionSnapshot:
        """The session before its first event of this run."""
        return empty_session(self.epoch, self.base)

    def happen(self, name: str) -> sc.Cursor:
        """Let an event happen."""
        number = len(self.events) + 1
        self.events.append(
            sc.SessionEvent(
                seq=self.base + number,
                sseq=number,
                session_id=SESSION,
                at=number,
                event=sc.events.SessionRenamed(name=name),
            )
        )
        return self.cursor

    def restart(self, epoch: str) -> None:
        """Become another run, which has forgotten what happened before."""
        self.epoch = epoch
        self.events.clear()

    # --- serving ------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Listen for the length of the block."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.unlink(missing_ok=True)
        async with await listen(self.path) as listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, self._serve)
            yield
            tasks.cancel_scope.cancel()

    async def _serve(self, stream: anyio.abc.ByteStream) -> None:
        connection = Connection(stream, self.cuts.pop(0) if self.cuts else None)
        self.connections.append(connection)
        lines = LineSplitter()
        async with stream:
            try:
                if self.greeting:
                    await self.send(connection, self.greeting)
                while not connection.cut:
                    for line in lines.feed(await stream.receive()):
                        assert isinstance(line, bytes)
                        message = parse(line)
                        self.asked.append(getattr(message, "method", "?"))
                        self.params.append(getattr(message, "params", {}))
                        if isinstance(message, sc.wire.Request):
                            await self._answer(connection, message)
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                connection.cut = True

    async def send(self, connection: Connection, frame: bytes) -> None:
        """Send a frame, or as much of it as the budget allows, and cut the line there."""
        async with connection.lock:
            if connection.cut:
                return
            if connection.budget is not None and len(frame) >= connection.budget:
                frame, connection.cut = frame[: connection.budget], True
            elif connection.budget is not None:
                connection.budget -= len(frame)
            connection.sent.append(frame)
            try:
                if frame:
                    await connection.stream.send(frame)
                if connection.cut:
                    await connection.stream.aclose()
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                connection.cut = True

    async def _answer(self, connection: Connection, request: sc.wire.Request) -> None:
        frames = self.answer(self, connection, request) if self.answer is not None else None
        if frames is None:
            frames = self._frames_for(connection, request)
        for frame in frames:
            await self.send(connection, frame)
        await self.flush(connection)

    def _frames_for(self, connection: Connection, request: sc.wire.Request) -> list[bytes]:
        match request.method:
            case "hello":
                hello = sc.wire.from_json(request.params, sc.wire.Hello)
                self.hellos.append(hello)
                return [self.reply(request, self.welcome(hello))]
            case "execute":
                return self._execute(request, sc.wire.from_json(request.params, sc.wire.Execute))
            case "follow":
                return self._follow(connection, request, sc.wire.from_json(request.params, sc.wire.Follow))
            case "unfollow":
                connection.feeds.pop(request.params["feed"], None)
                return [encode_success(request.id, {})]
            case "shutdown":
                return [encode_success(request.id, {}), goodbye("the service was shut down", retry=False)]
            case _:
                return [refuse(request, sc.InvalidInput("no such method"))]

    def welcome(self, hello: sc.wire.Hello) -> sc.wire.Welcome:
        """What a client is told first."""
        return sc.wire.Welcome(
            contract=sc.wire.CONTRACT,
            version="1",
            epoch=sc.Epoch(self.epoch),
            client_id=hello.client_id or sc.ClientId("client_given"),
            role=hello.role,
            heartbeat_ms=self.heartbeat_ms,
        )

    @staticmethod
    def reply(request: sc.wire.Request, value: object) -> bytes:
        """The answer to a request."""
        return encode_success(request.id, sc.wire.to_json(value))

    def _execute(self, request: sc.wire.Request, asked: sc.wire.Execute) -> list[bytes]:
        match asked.command:
            case sc.commands.LoadSession():
                return [self.reply(request, self.state)]
            case sc.commands.RenameSession(name=name):
                key = asked.idempotency_key or ""
                if key not in self.keys:
                    self.done.append(name)
                    self.keys[key] = self.happen(name)
                return [self.reply(request, sc.replies.Acknowledged(cursor=self.keys[key]))]
            case sc.commands.WaitForTurn():
                return []  # for ever
            case _:
                return [refuse(request, sc.NotFound("there is no such session", field="session_id"))]

    def _follow(self, connection: Connection, request: sc.wire.Request, asked: sc.wire.Follow) -> list[bytes]:
        self._last_feed += 1
        number, after = self._last_feed, asked.after
        reason: ResyncReason | None = None
        if after is None:
            reason = "initial"
        elif after.epoch != self.epoch:
            reason = "foreign_epoch"
        elif after.seq > self.cursor.seq:
            reason = "future"
        elif after.seq < self.keeps_from:
            reason = "expired"
        if reason is None:
            assert after is not None
            connection.feeds[number] = after.seq
            return [self.reply(request, sc.wire.Followed(feed=number, answer="replaying", after=after))]
        connection.feeds[number] = self.cursor.seq
        batch = sc.wire.FeedBatch(feed=number, items=(self.state,), cursor=self.cursor, resync=reason)
        followed = sc.wire.Followed(feed=number, answer="snapshot", reason=reason)
        return [self.reply(request, followed), *self.frames(batch)]

    def frames(self, batch: sc.wire.FeedBatch) -> list[bytes]:
        """A batch as it is sent."""
        return self.doctor(batch) if self.doctor is not None else [tell("feed", batch)]

    async def flush(self, connection: Connection) -> None:
        """Send each feed what has happened."""
        for number, seq in list(connection.feeds.items()):
            items = tuple(event for event in self.events if event.seq > seq)
            if items and number in connection.feeds:
                connection.feeds[number] = items[-1].seq
                batch = sc.wire.FeedBatch(feed=number, items=items, cursor=self.cursor)
                for frame in self.frames(batch):
                    await self.send(connection, frame)

    async def flush_all(self) -> None:
        """Send everybody what has happened."""
        for connection in self.connections:
            if not connection.cut:
                await self.flush(connection)

    async def cut_all(self) -> None:
        """Cut all lines."""
        for connection in self.connections:
            if not connection.cut:
                connection.cut = True
                await connection.stream.aclose()

    def client(self, **more: Any) -> Any:
        """A client of this server that tries again at once."""
        return open_client(address=self.path, **{"pause_before": lambda _: 0.0, **more})


async def listen(path: Path) -> anyio.abc.SocketListener:
    """Listen at a path, however long it is."""
    with short_socket_name(path) as name:
        return await anyio.create_unix_listener(name)


def tell(method: str, value: object) -> bytes:
    """A notification."""
    return encode_notification(method, sc.wire.to_json(value))


def goodbye(reason: str, *, retry: bool) -> bytes:
    """The last thing a server says."""
    return tell("goodbye", sc.wire.Goodbye(reason=reason, retry=retry))


def refuse(request: sc.wire.Request, error: sc.SessionCoreError) -> bytes:
    """An error for an answer."""
    return encode_failure(request.id, -32000, error.message, sc.wire.to_json(sc.wire.error_info(error)))


def run(backend: str, test: Callable[[], Awaitable[None]]) -> None:
    """Run a test on one of the loops; none may hang."""

    async def limited() -> None:
        with anyio.fail_after(300):
            await test()

    anyio.run(limited, backend=backend)


class Mirror:
    """Folds what a feed gives, as a frontend would, and checks that each item fits to the one before."""

    def __init__(self) -> None:
        self.state: sc.SessionSnapshot | None = None
        self.snapshots = 0

    def take(self, items: list[sc.FeedItem]) -> None:
        """Take what was received."""
        for item in items:
            if isinstance(item, sc.SessionEvent):
                assert self.state is not None, "a snapshot comes first"
                assert item.sseq == self.state.sseq + item.merged, "no event is missing, and none comes twice"
                self.state = sc.apply(self.state, item)
            else:
                assert isinstance(item, sc.SessionSnapshot)
                self.state = item
                self.snapshots += 1

    async def follow(self, feed: Any, until: Callable[[sc.SessionSnapshot], bool]) -> sc.SessionSnapshot:
        """Read until the state is as wanted."""
        while self.state is None or not until(self.state):
            self.take(await feed.receive_batch())
        return self.state


async def until_phase(client: SessionClient, phase: str) -> None:
    """Wait until a client is in this phase."""
    while client.state.phase != phase:
        await client.state_change()


async def until(condition: Callable[[], object]) -> None:
    """Poll until a condition holds; `run` stops it if it never does."""
    while not condition():  # noqa: ASYNC110 - there is nothing to wait for but the thing itself
        await anyio.sleep(0.001)
