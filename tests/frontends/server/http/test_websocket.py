"""The WebSocket over a real socket: the same contract, and who may open one."""

import json
import socket as stdlib_socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from httpx2.websockets import WebSocketDisconnect, WebSocketUpgradeError
from trio.testing import MockClock
from wsproto.connection import Connection, ConnectionType
from wsproto.events import CloseConnection, Ping, Pong, TextMessage

import session_core as sc
from frontends.server.access import Access
from frontends.server.http.hypercorn_guards import _frame_head
from frontends.server.http.tokens import rotate, scoped_token
from session_core.session.session import Session
from session_core.testing.scripted import text
from tests.frontends.server.http._listener import RunningListener, open_listener, until
from tests.frontends.server.http.test_hostile import UPGRADE

NO_BOUND = 64 * 1024 * 1024


@attrs.define(eq=False)
class Socket:
    """A client's end, line by line."""

    session: Any
    lines: list[str] = attrs.field(factory=list)
    heard: list[dict[str, Any]] = attrs.field(factory=list)
    said: int = 0

    async def next(self) -> dict[str, Any]:
        """Return the next message."""
        while not self.lines:
            with trio.fail_after(60):
                self.lines = (await self.session.receive_text()).split("\n")
        found: dict[str, Any] = json.loads(self.lines.pop(0))
        return found

    async def ask(self, method: str, **params: Any) -> Any:
        """Send a request and return its answer, keeping what else comes."""
        self.said += 1
        await self.session.send_text(
            json.dumps({"jsonrpc": "2.0", "id": self.said, "method": method, "params": params})
        )
        while (answer := await self.next()).get("id") != self.said:
            self.heard.append(answer)
        return answer.get("result", answer.get("error"))

    async def closed(self) -> int:
        """Wait for the end and return its code."""
        try:
            while True:
                await self.next()
        except WebSocketDisconnect as end:
            return end.code

    async def until(self, method: str) -> dict[str, Any]:
        """Return the next notification of this name."""
        while True:
            message = self.heard.pop(0) if self.heard else await self.next()
            if message.get("method") == method:
                break
        found: dict[str, Any] = message["params"]
        return found


@asynccontextmanager
async def bare_socket(
    world: RunningListener, session_id: sc.SessionId
) -> AsyncGenerator[tuple[trio.SocketStream, Connection]]:
    """A WebSocket that reads only when it is told to, and follows a session."""
    async with await world.raw() as stream:
        stream.setsockopt(stdlib_socket.SOL_SOCKET, stdlib_socket.SO_RCVBUF, 65_536)
        await stream.send_all(world.head("/v1/ws", *UPGRADE))
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += await stream.receive_some(1)
        ends = Connection(ConnectionType.CLIENT)
        for number, (method, params) in enumerate([("hello", {}), ("follow", {"session_id": session_id})]):
            line = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            await stream.send_all(ends.send(TextMessage(data=line)))
        yield stream, ends


@asynccontextmanager
async def socket(world: RunningListener, token: str | None = "", **headers: str) -> AsyncGenerator[Socket]:
    """A WebSocket for the length of the block."""
    address = world.url.replace("http", "ws", 1) + "/v1/ws"
    async with world.client(token, headers=headers) as client:
        async with client.websocket(address, max_message_size_bytes=NO_BOUND) as session:
            yield Socket(session)


async def test_the_whole_contract_works_over_a_websocket(tmp_path: Path) -> None:
    """A client says hello, has a command run, follows a session, and what it gets folds to the state."""
    async with open_listener(tmp_path, text("one ", "two")) as world, socket(world) as client:
        early = await client.ask("status")
        welcome = sc.wire.from_json(await client.ask("hello", name="page", kind="web"), sc.wire.Welcome)
        made = await client.ask("execute", command={"type": "create_session", "name": "x"})
        followed = await client.ask("follow", session_id=made["session_id"])
        await client.ask(
            "execute", command={"type": "send_user_message", "session_id": made["session_id"], "text": "go"}
        )
        await world.service.wait_for_turn(made["session_id"])
        fresh = await world.service.load_session(made["session_id"])
        items: list[Any] = []
        batch = None
        while batch is None or batch.cursor.seq < fresh.cursor.seq:
            batch = sc.wire.from_json(await client.until("feed"), sc.wire.FeedBatch)
            items += batch.items

        assert "protocol_error" == early["data"]["code"]
        assert world.server.epoch == welcome.epoch
        assert "snapshot" == followed["answer"]
        assert fresh == sc.fold(items[0], items[1:])
        assert ["page"] == [each.name for each in (await world.service.load_service()).clients]


async def test_several_lines_in_one_message(tmp_path: Path) -> None:
    """One message may hold several lines, in text or in bytes, and each of them is answered."""
    async with open_listener(tmp_path) as world, socket(world) as client:
        lines = [json.dumps({"jsonrpc": "2.0", "id": number, "method": "hello", "params": {}}) for number in (1, 2)]
        await client.session.send_text("\n".join(lines))
        await client.session.send_bytes(b'{"jsonrpc":"2.0","id":3,"method":"status"}\n')
        answers = [await client.next() for _ in range(3)]

        assert {1, 2, 3} == {answer["id"] for answer in answers}
        assert 1 == sum("error" in answer for answer in answers)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"host": "evil.example"}, 421),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": ""}, 401),
    ],
)
async def test_a_page_of_another_site_gets_no_websocket(tmp_path: Path, headers: dict[str, str], status: int) -> None:
    """A cross-site, rebound or tokenless WebSocket is refused before it becomes one."""
    async with open_listener(tmp_path) as world:
        with pytest.raises(Exception) as refused:
            async with socket(world, **headers):
                raise AssertionError("it was let in")

        assert status == status_of(refused.value)
        assert 0 == world.server.connections


def status_of(error: BaseException) -> int:
    """The status of the answer that was not a WebSocket."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, WebSocketUpgradeError)
    return error.response.status_code


async def test_a_cookie_opens_a_websocket_only_from_our_own_page(tmp_path: Path) -> None:
    """With a cookie, an exact Origin is needed; then the page is let in."""
    async with open_listener(tmp_path) as world, world.client(None) as browser:
        await browser.get(world.listener.login_link())
        address = world.url.replace("http", "ws", 1) + "/v1/ws"
        with pytest.raises(Exception) as refused:
            async with browser.websocket(address):
                raise AssertionError("it was let in")
        async with browser.websocket(address, headers={"origin": world.url}) as session:
            welcome = await Socket(session).ask("hello")

        assert 403 == status_of(refused.value)
        assert "welcome" == welcome["type"]


async def test_a_token_of_one_session_follows_no_other(tmp_path: Path) -> None:
    """Over a WebSocket too, a token of one session reaches neither another one nor the list, with or without cursor."""
    async with open_listener(tmp_path) as world:
        ours = (await world.service.create_session(name="A")).session_id
        other = (await world.service.create_session(name="B")).session_id
        access = Access(role="observer", sessions=frozenset({ours}))
        cursor = sc.wire.to_json(sc.Cursor(epoch=world.server.epoch, seq=0))
        async with socket(world, scoped_token(tmp_path, access, expires_at=sc.now_ms() + 60_000)) as client:
            welcome = await client.ask("hello", role="controller")
            refused = [
                await client.ask("follow", session_id=other, after=cursor),
                await client.ask("follow", after=cursor),
                await client.ask("execute", command={"type": "load_session", "session_id": other}),
                await client.ask("shutdown", force=True),
            ]
            acted = await client.ask("execute", command={"type": "delete_session", "session_id": ours})
            followed = await client.ask("follow", session_id=ours)

        assert "observer" == welcome["role"]
        assert ["access_denied"] * 4 == [each["data"]["code"] for each in refused]
        assert "forbidden" == acted["data"]["code"]
        assert "snapshot" == followed["answer"]
        assert not world.server.closing


async def test_a_token_that_is_changed_elsewhere_ends_websockets(tmp_path: Path) -> None:
    """When another process changes the token, open WebSockets of the old one are closed within moments."""
    async with open_listener(tmp_path) as world, socket(world) as client:
        await client.ask("hello")
        rotate(tmp_path)

        assert 1008 == await client.closed()


async def test_a_token_that_grows_old_ends_its_websocket(tmp_path: Path, mock_clock: MockClock) -> None:
    """A WebSocket lasts no longer than the token it was opened with."""
    mock_clock.rate = 1
    async with open_listener(tmp_path) as world:
        now = world.server.now()
        world.server.now = lambda: now  # the token has an hour, however long it takes to connect
        token = scoped_token(tmp_path, Access(), expires_at=now + 3_600_000)
        async with socket(world, token) as client:
            await client.ask("hello")
            mock_clock.jump(3_600)
            assert 1008 == await client.closed()


async def test_the_end_of_the_server_is_told(tmp_path: Path) -> None:
    """A client hears goodbye, and its WebSocket is closed as going away."""
    async with open_listener(tmp_path) as world, socket(world) as client:
        await client.ask("hello")
        world.server.end(sc.wire.Goodbye(reason="enough"))
        await world.server.say_goodbye()
        goodbye = await client.until("goodbye")

        assert "enough" == goodbye["reason"]
        assert 1001 == await client.closed()


# --- what goes out past hypercorn -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536, 70_000])
def test_a_message_of_any_length_can_be_read(size: int) -> None:
    """The head of a message says how long it is, in each of the three ways there are."""
    reader = Connection(ConnectionType.CLIENT)
    reader.receive_data(_frame_head(size) + b"x" * size)

    (message,) = reader.events()

    assert TextMessage(data="x" * size, message_finished=True) == message


async def test_messages_and_pongs_do_not_get_into_each_other(tmp_path: Path) -> None:
    """A client that reads nothing for a while, and asks whether the server lives, then gets everything whole."""
    async with open_listener(tmp_path) as world:
        session_id = (await world.service.create_session()).session_id
        session = world.service.core.sessions[session_id]
        async with bare_socket(world, session_id) as (stream, ends):
            await until(lambda: world.service.statistics().stream.waiting)
            for number in range(30):
                session.record(sc.events.SessionRenamed(name=f"{number} " + "x" * 99_000))
                await stream.send_all(ends.send(Ping(payload=b"%d" % number)))
            session.record(sc.events.SessionRenamed(name="the last"))
            texts, pongs, said = [""], 0, ""
            with trio.fail_after(60):
                while pongs < 30 or '"the last"' not in said:
                    ends.receive_data(bytes(await stream.receive_some(65_536)))
                    for event in ends.events():
                        assert isinstance(event, TextMessage | Pong), event
                        if isinstance(event, TextMessage):
                            texts[-1] += event.data
                            if event.message_finished:
                                said = texts[-1]
                                texts.append("")
                        else:
                            pongs += 1
            lines = [json.loads(line) for text in texts for line in text.splitlines()]
            told = [item for line in lines if line.get("method") == "feed" for item in line["params"]["items"]]
            assert "the last" == told[-1]["event"]["name"]


async def test_nothing_comes_after_the_end(tmp_path: Path) -> None:
    """Once a client has closed its WebSocket, it is told so, and of what goes on meanwhile nothing comes after that."""
    async with open_listener(tmp_path) as world:
        session_id = (await world.service.create_session()).session_id
        session = world.service.core.sessions[session_id]
        async with bare_socket(world, session_id) as (stream, ends), trio.open_nursery() as nursery:
            await until(lambda: world.service.statistics().stream.waiting)
            nursery.start_soon(_talk, session)
            await stream.send_all(ends.send(CloseConnection(code=1000)))
            came = []
            with trio.fail_after(60):
                while data := await stream.receive_some(65_536):
                    ends.receive_data(bytes(data))
                    came += [type(event) for event in ends.events()]
            nursery.cancel_scope.cancel()
        assert CloseConnection == came[-1]
        assert 1 == came.count(CloseConnection)


async def _talk(session: Session) -> None:
    while True:
        session.record(sc.events.SessionRenamed(name="x"))
        await trio.lowlevel.checkpoint()
