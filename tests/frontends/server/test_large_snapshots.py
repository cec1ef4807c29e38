"""Whatever a session holds, its snapshot arrives as it is: over every transport, and though it is longer than a line to
the service may be."""

import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import get_args

import pytest
import trio

import session_core as sc
from frontends.client import RemoteFeed, SessionClient, open_client
from frontends.server import frames
from frontends.server.daemon.attached_client import open_talk
from frontends.server.http.listener import open_http_listener
from frontends.server.http.tokens import ensure_token
from frontends.server.server import MAX_CONNECTIONS, Server, ServerSettings
from frontends.server.unix_listener import serve_unix
from frontends.shared.socket_path import socket_path_of_home
from session_core import limits
from session_core.ids import MessageId, TurnId
from session_core.service.validation import has_queue_room
from session_core.session.session import Session
from session_core.vocabulary.extensions import UiKind
from tests._mostly_slow import mostly_slow
from tests.frontends.server.http._listener import open_listener
from tests.session_core.session.test_snapshot_bounds import WORST_FIELDS

TURN = TurnId("turn_1")


@asynccontextmanager
async def connected(home: Path, transport: str) -> AsyncGenerator[tuple[sc.SessionService, SessionClient]]:
    """A service with a client at one of its real listeners."""
    config = sc.ServiceConfig(store=sc.MemoryStore(), tools=(), cwd="/")
    async with sc.open_session_service(config) as service, trio.open_nursery() as nursery:
        server = Server(service, ServerSettings(home=str(home)))
        if transport == "socket":
            await nursery.start(serve_unix, server, socket_path_of_home(home))
            async with open_client(home) as client:
                yield service, client
        else:
            async with open_http_listener(server) as opened:
                url = opened.url.replace("http", "ws", 1) + "/v1/ws"
                async with open_client(address=url, token=ensure_token(home)) as client:
                    yield service, client
        nursery.cancel_scope.cancel(reason="the test is over")


def say(session: Session, text: str) -> sc.Message:
    """Have somebody say something in a session."""
    number = session.state.earlier + len(session.state.messages)
    message = sc.Message(
        message_id=MessageId(f"msg_{number}"),
        parent_id=session.state.head,
        role="user",
        parts=(sc.TextPart(text=text),),
        created_at=number,
    )
    session.record(sc.events.MessageAdded(message=message))
    return message


def begin_answer(session: Session, text: str) -> None:
    """Have a model be in the middle of its answer."""
    answer = MessageId("msg_answer")
    session.record(sc.events.TurnStarted(turn_id=TURN))
    session.record(sc.events.MessageStarted(message_id=answer, parent_id=session.state.head, turn_id=TURN, model="m"))
    session.record(sc.events.PartStarted(message_id=answer, kind="text"))
    session.record(sc.events.PartDelta(message_id=answer, text=text))


def fill(session: Session) -> None:
    """Let a session hold more than a line to the service may hold: a long window, and a full queue."""
    for _ in range(3):
        say(session, "\x01" * 900_000)
    parts = (sc.TextPart(text="\N{GRINNING FACE}" * 900_000),)
    for number in range(3):
        assert has_queue_room(session, parts)
        item = sc.QueueItem(item_id=sc.QueueItemId(f"item_{number}"), parts=parts, deliver_as="next_turn", queued_at=0)
        session.record(sc.events.MessageQueued(item=item))


async def next_snapshot(feed: RemoteFeed) -> sc.SessionSnapshot:
    """Wait for a snapshot."""
    with trio.fail_after(300):
        item = await anext(feed)
    assert isinstance(item, sc.SessionSnapshot)
    return item


@pytest.mark.parametrize("transport", ["socket", "WebSocket"])
async def test_a_snapshot_longer_than_any_message_arrives(tmp_path: Path, transport: str) -> None:
    """A client gets all that a session holds, by a feed and by a command, and what follows folds."""
    async with connected(tmp_path, transport) as (service, client):
        session_id = (await service.create_session()).session_id
        session = service.core.sessions[session_id]
        fill(session)
        begin_answer(session, "x" * 900_000)
        whole = await service.load_session(session_id)
        assert len(sc.wire.encode(whole)) > limits.MAX_FRAME_BYTES
        async with client.follow(session_id) as feed:
            got = await next_snapshot(feed)
            assert whole == got
            assert got == await client.load_session(session_id)
            say(session, "and more")
            event = await anext(feed)
            assert isinstance(event, sc.SessionEvent)
            assert sc.fold(got, [event]) == session.state.snapshot(session.cursor)
        if transport == "socket":
            async with open_talk(tmp_path) as talk:
                assert session.snapshot() == await talk.load_session(session_id)


def test_the_longest_list_fits() -> None:
    """The list of all sessions with all extensions, and as many clients as a server takes, fits into a line."""
    kinds: tuple[UiKind, ...] = get_args(UiKind)
    client = sc.ClientPresence(
        client_id=sc.ClientId("\x01" * limits.MAX_NAME_CHARS),
        role="controller",
        ui=kinds,
        name="\x01" * limits.MAX_NAME_CHARS,
        kind="terminal",
    )
    clients = MAX_CONNECTIONS * (len(sc.wire.encode(client)) + 1)
    others = limits.MAX_LISTED_EXTENSIONS_BYTES + clients + 4_096
    assert limits.MAX_LIST_BYTES + others <= limits.MAX_SNAPSHOT_BYTES


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["socket", "WebSocket"])
async def test_the_longest_snapshot_arrives(tmp_path: Path, transport: str) -> None:
    """A client gets a snapshot in which every field is at its bound."""
    async with connected(tmp_path, transport) as (service, client):
        session_id = (await service.create_session()).session_id
        session = service.core.sessions[session_id]
        before, session.state = session.state, sc.SessionState(session_id=session_id)
        for name, build in WORST_FIELDS.items():
            setattr(session.state, name, session_id if name == "session_id" else build())
        whole = await service.load_session(session_id)
        async with client.follow(session_id) as feed:
            assert whole == await next_snapshot(feed)
        assert whole == await client.load_session(session_id)
        session.state = before


async def test_a_snapshot_longer_than_any_message_arrives_by_http(tmp_path: Path) -> None:
    """The same for server-sent events, and for a command over HTTP."""
    async with open_listener(tmp_path) as world:
        session_id = (await world.service.create_session()).session_id
        fill(world.service.core.sessions[session_id])
        whole = await world.service.load_session(session_id)
        async with world.events(f"/v1/sessions/{session_id}/events") as source:
            await source.next()
            (got,) = sc.wire.from_json((await source.next()).data, sc.wire.FeedBatch).items
        async with world.client() as client:
            answer = await client.get(f"/v1/sessions/{session_id}")
        assert whole == got
        assert whole == sc.wire.decode(answer.content, sc.SessionSnapshot, max_bytes=limits.MAX_SNAPSHOT_LINE)


async def test_what_clients_send_stays_within_a_frame(tmp_path: Path) -> None:
    """Only what comes from the service may be longer: a longer command is refused before it is sent."""
    async with connected(tmp_path, "socket") as (service, client):
        session_id = (await service.create_session()).session_id
        with pytest.raises(sc.InvalidInput, match="more than 16,777,216 bytes"):
            await client.send_user_message(session_id, "x" * limits.MAX_FRAME_BYTES)
        assert session_id == (await client.load_session(session_id)).session_id


@pytest.mark.parametrize(
    ("transport", "character"),
    mostly_slow([("socket", "\N{GRINNING FACE}"), ("WebSocket", "\N{GRINNING FACE}"), ("socket", "\x01")], quick=1),
)
async def test_a_session_full_of_long_characters_arrives(tmp_path: Path, transport: str, character: str) -> None:
    """The window comes whole with the number of earlier messages, those come by the page, and what follows folds."""
    async with connected(tmp_path, transport) as (service, client):
        session_id = (await service.create_session()).session_id
        session = service.core.sessions[session_id]
        said = [say(session, f"{number}" + character * 900_000) for number in range(4)]
        begin_answer(session, character * 700_000)
        whole = await service.load_session(session_id)
        left = len(whole.messages)
        assert 0 < left < 4
        async with client.follow(session_id) as feed:
            got = await next_snapshot(feed)
            assert whole == got
            assert (tuple(said[-left:]), 4 - left) == (tuple(got.messages), got.earlier)
            assert got == await client.load_session(session_id)
            older, before = list[sc.Message](), got.earlier
            while before:
                page = await client.load_messages(session_id, before=before, limit=100)
                older, before = [*page.messages, *older], page.first
            assert said[:-left] == older
            more = say(session, "and more")
            event = await anext(feed)
            assert isinstance(event, sc.SessionEvent)
            assert sc.fold(got, [event]) == session.state.snapshot(session.cursor)
            assert more == session.state.find_message(session.state.head)


async def test_what_takes_long_to_write_is_written_in_a_thread_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of very many sessions keeps nobody waiting but those who want it, and these share it."""
    monkeypatch.setattr(frames, "MANY_SESSIONS", 3)
    threads, encode = list[int](), sc.wire.encode

    def noting(item: object) -> bytes:
        threads.append(threading.get_ident())
        return encode(item)

    monkeypatch.setattr(sc.wire, "encode", noting)
    summaries = [
        sc.SessionSummary(
            session_id=sc.SessionId(f"ses_{number}"),
            name="x",
            created_at=number,
            updated_at=number,
            archived=False,
            parent_id=None,
            cwd="/",
            model="m",
            activity=sc.Activity(name="idle"),
        )
        for number in range(4)
    ]
    cursor = sc.Cursor(epoch=sc.Epoch("run_1"), seq=1)
    encodings, got = frames.Encodings(), list[Sequence[frames.Piece]]()

    async def read() -> None:
        snapshot = sc.ServiceSnapshot(cursor=cursor, sessions=tuple(summaries))
        got.append(await encodings.encode_pieces([snapshot], cursor.epoch))

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(read)
    assert (1, 1, 5) == (len(threads), encodings.made, len(got))
    assert threading.get_ident() not in threads
    assert all(pieces is got[0] for pieces in got)
