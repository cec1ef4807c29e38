"""A line of the contract has a longest length, and whatever there is to be sent arrives all the same."""

import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

import session_core as sc
from frontends.client import RemoteFeed, SessionClient, open_client
from frontends.server import frames, size_limits
from frontends.server.http.listener import open_http_listener
from frontends.server.http.tokens import ensure_token
from frontends.server.server import Server, ServerSettings
from frontends.server.text_truncation import shorten_to_fit
from frontends.server.unix_listener import serve_unix
from frontends.shared.socket_path import socket_path_of_home
from session_core import limits
from session_core.ids import MessageId, TurnId
from session_core.session.session import Session
from session_core.session.state import SessionState
from tests._mostly_slow import mostly_slow

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


async def next_snapshot(feed: RemoteFeed) -> sc.SessionSnapshot:
    """Wait for a snapshot."""
    with trio.fail_after(300):
        item = await anext(feed)
    assert isinstance(item, sc.SessionSnapshot)
    return item


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


async def test_what_waits_in_a_session_does_not_keep_it_from_arriving(tmp_path: Path) -> None:
    """A queue that no line can hold comes with all its items, each of them shortened."""
    async with connected(tmp_path, "socket") as (service, client):
        session_id = (await service.create_session()).session_id
        session = service.core.sessions[session_id]
        last = say(session, "the last")
        for number in range(8):
            parts = (sc.TextPart(text="\x01" * 900_000),)
            item = sc.QueueItem(
                item_id=sc.QueueItemId(f"item_{number}"), parts=parts, deliver_as="next_turn", queued_at=0
            )
            session.record(sc.events.MessageQueued(item=item))
        async with client.follow(session_id) as feed:
            got = await next_snapshot(feed)
        assert [f"item_{number}" for number in range(8)] == [item.item_id for item in got.queue]
        for item in got.queue:
            (part,) = item.parts
            assert isinstance(part, sc.TextPart)
            assert part.text.endswith(" more characters were too long to be sent)")
        assert (last,) == tuple(got.messages)


# --- without a socket -------------------------------------------------------------------------------------------------


_TEXTS = st.lists(st.text(st.sampled_from('ab\x01\N{GRINNING FACE}"'), max_size=3_000), max_size=12)


@given(texts=_TEXTS, room=st.integers(4_000, 40_000))
def test_whatever_is_fitted_fits(texts: list[str], room: int) -> None:
    """A snapshot is cut to any room, stays what it was but for its oldest messages, and none is left out in vain."""
    messages = [_message(number, text) for number, text in enumerate(texts)]
    whole = attrs.evolve(_EMPTY, messages=sc.Vector(messages), earlier=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(size_limits, "ITEM_BYTES", room)
        data = size_limits.encode_to_fit(whole)
    assert len(data) <= room
    got = sc.wire.decode(data, sc.SessionSnapshot)
    dropped = got.earlier - 3
    assert len(texts) == dropped + len(got.messages)
    if len(got.messages) > 1 or not dropped:
        kept = attrs.evolve(whole, messages=sc.Vector(messages[dropped:]), earlier=got.earlier)
        if dropped or len(sc.wire.encode(whole)) <= room:
            assert kept == got
    if dropped:
        one_more = attrs.evolve(whole, messages=sc.Vector(messages[dropped - 1 :]), earlier=got.earlier - 1)
        assert len(sc.wire.encode(one_more)) > room - 2


_ACTIVITIES = st.sampled_from([sc.Activity(name="idle"), sc.Activity(name="streaming")])


@given(
    sessions=st.lists(st.tuples(st.text(max_size=40), st.integers(0, 99), _ACTIVITIES), max_size=40),
    room=st.integers(2_000, 12_000),
)
def test_a_list_of_too_many_sessions_loses_those_unused_for_longest(
    sessions: list[tuple[str, int, sc.Activity]], room: int
) -> None:
    """Those at rest go first, then those at work, by when they were last used, and all that are gone are counted."""
    summaries = [_summary(number, *each) for number, each in enumerate(sessions)]
    whole = sc.ServiceSnapshot(cursor=_EMPTY.cursor, sessions=tuple(summaries), earlier=2)
    listed = sc.replies.ListSessionsReply(
        sessions=tuple(summaries), next_page="next", total=len(summaries), cursor=_EMPTY.cursor
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(size_limits, "ITEM_BYTES", room)
        data = size_limits.encode_to_fit(whole)
        reply = sc.wire.from_json(size_limits.shrink_reply(whole), sc.ServiceSnapshot)
        patch.setattr(size_limits, "ITEM_BYTES", room + 4_096)
        page = sc.wire.from_json(size_limits.shrink_reply(listed), sc.replies.ListSessionsReply)
    assert page.sessions == tuple(summaries[: len(page.sessions)])
    if len(page.sessions) == len(summaries):
        assert listed == page
    else:
        assert (page.sessions[-1].session_id, listed.total) == (page.next_page, page.total)
    got = sc.wire.decode(data, sc.ServiceSnapshot)
    assert got == reply
    assert len(data) <= room
    gone = [each for each in summaries if each not in got.sessions]
    assert attrs.evolve(whole, sessions=got.sessions, earlier=2 + len(gone)) == got
    assert got.sessions == tuple(each for each in summaries if each not in gone)
    order = [(not each.activity.is_at_rest, each.updated_at) for each in gone]
    stayed = [(not each.activity.is_at_rest, each.updated_at) for each in got.sessions]
    assert not gone or not stayed or max(order) <= min(stayed)
    if not gone:
        assert sc.wire.encode(whole) == data


def test_sessions_at_work_that_are_too_many_are_counted() -> None:
    """If no line can hold even those at work, the ones go that were not heard of for longest, and that is told."""
    at_work = [_summary(number, "x", -number, sc.Activity(name="streaming")) for number in range(100)]
    resting = _summary(100, "x", 1, sc.Activity(name="idle"))
    whole = sc.ServiceSnapshot(cursor=_EMPTY.cursor, sessions=(*at_work, resting), earlier=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(size_limits, "ITEM_BYTES", 10_000)
        data = size_limits.encode_to_fit(whole)
        reply = sc.wire.from_json(size_limits.shrink_reply(whole), sc.ServiceSnapshot)
    got = sc.wire.decode(data, sc.ServiceSnapshot)
    many = len(got.sessions)
    assert 9_000 < len(data) <= 10_000
    assert got == reply == attrs.evolve(whole, sessions=tuple(at_work[:many]), earlier=2 + 101 - many)


def test_a_session_that_was_left_out_is_counted_until_it_is_deleted() -> None:
    """What happens in a session that was left out changes nothing but the count, when it is deleted."""
    state = sc.SessionListState.from_snapshot(sc.ServiceSnapshot(cursor=_EMPTY.cursor, sessions=(), earlier=2))
    for event in (sc.events.SessionRenamed(name="x"), sc.events.SessionDeleted()):
        state.apply(sc.SessionEvent(seq=2, sseq=9, session_id=sc.SessionId("ses_x"), at=1, event=event))
    assert sc.ServiceSnapshot(cursor=_EMPTY.cursor, sessions=(), earlier=1) == state.snapshot(_EMPTY.cursor)


@pytest.mark.parametrize("queued", [8, 64])
def test_what_is_much_too_long_is_not_written_again_and_again(queued: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much too long something is, what is written on the way depends on the room that there is for it."""
    monkeypatch.setattr(size_limits, "ITEM_BYTES", 200_000)
    items = [
        sc.QueueItem(
            item_id=sc.QueueItemId(f"item_{number}"),
            parts=(sc.TextPart(text="\x01" * 9_000),),
            deliver_as="next_turn",
            queued_at=0,
        )
        for number in range(queued)
    ]
    whole = attrs.evolve(_EMPTY, queue=tuple(items))
    written, encode = list[int](), sc.wire.encode

    def counting(value: object) -> bytes:
        data = encode(value)
        written.append(len(data))
        return data

    monkeypatch.setattr(sc.wire, "encode", counting)
    data = size_limits.encode_to_fit(whole)
    assert 180_000 < len(data) <= 200_000
    assert sum(written) < 12 * 200_000  # of which six for characters that take six bytes each


async def test_what_takes_long_to_write_is_written_in_a_thread_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of very many sessions keeps nobody waiting but those who want it, and these share it."""
    monkeypatch.setattr(size_limits, "MANY_SESSIONS", 3)
    threads: list[int] = []

    def noting(item: sc.FeedItem) -> bytes:
        threads.append(threading.get_ident())
        return size_limits.encode_to_fit(item)

    monkeypatch.setattr(frames, "encode_to_fit", noting)
    many = tuple(_summary(number, "x", number, sc.Activity(name="idle")) for number in range(4))
    encodings, got = frames.Encodings(), list[Sequence[frames.Piece]]()

    async def read() -> None:
        snapshot = sc.ServiceSnapshot(cursor=_EMPTY.cursor, sessions=many)
        got.append(await encodings.encode_pieces([snapshot], sc.Epoch("run_1")))

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(read)
    assert (1, 1, 5) == (len(threads), encodings.made, len(got))
    assert threading.get_ident() not in threads
    assert all(pieces is got[0] for pieces in got)


def test_pictures_and_long_lists_are_cut_so_that_they_can_be_read() -> None:
    """Base64 stays base64, and open JSON of many small things loses the first ones."""
    image = sc.ImagePart(media_type="image/png", data="QUJD" * 10_000)
    call = sc.ToolCallPart(
        call_id=sc.CallId("call_1"), name="x", arguments=sc.JsonObject({"many": list(range(10_000))})
    )
    message = attrs.evolve(_message(0, "a picture"), parts=(image, call))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(size_limits, "ITEM_BYTES", 5_000)
        data = size_limits.encode_to_fit(attrs.evolve(_EMPTY, messages=sc.Vector([message])))
    assert len(data) <= 5_000
    (got,) = sc.wire.decode(data, sc.SessionSnapshot).messages
    picture, asked = got.parts
    assert isinstance(picture, sc.ImagePart)
    assert isinstance(asked, sc.ToolCallPart)
    assert picture.data == "QUJD" * (len(picture.data) // 4)
    many = asked.arguments["many"]
    assert isinstance(many, tuple)
    assert list(range(10_000 - len(many), 10_000)) == list(many)


def _event_with(arguments: Any, output: Any = None) -> sc.SessionEvent:
    """An event with open JSON in it: the arguments of a tool, and what a turn puts out."""
    part = sc.ToolCallPart(call_id=sc.CallId("call_1"), name="x", arguments=sc.JsonObject(arguments))
    message = attrs.evolve(_message(0, ""), role="assistant", parts=(part,))
    outcome = sc.TurnOutcome(turn_id=TURN, status="completed", output=sc.JsonObject({"": output})[""])
    event: sc.Event = sc.events.MessageAdded(message=message)
    if output is not None:
        event = sc.events.TurnEnded(outcome=outcome)
    return sc.SessionEvent(seq=1, sseq=1, at=0, session_id=sc.SessionId("ses_1"), event=event)


_CHARACTERS = st.sampled_from("a\x01")
_LENGTHS = st.sampled_from([1, 200, 256, 257, 3_000])
_WORDS = st.builds(lambda character, chars: character * chars, _CHARACTERS, _LENGTHS)
_OPEN_JSON = st.recursive(
    _WORDS | st.integers(0, 9),
    lambda inner: (
        st.lists(inner, max_size=8)
        | st.dictionaries(_WORDS, inner, max_size=4)
        | st.tuples(inner, st.sampled_from([2, 40, 100])).map(lambda each: [each[0]] * each[1])
    ),
    max_leaves=12,
)


@given(arguments=st.dictionaries(_WORDS, _OPEN_JSON, max_size=4), room=st.integers(2_000, 20_000))
def test_open_json_of_any_shape_fits(arguments: dict[str, Any], room: int) -> None:
    """Whatever a model has made up as arguments, or as its output, the event that has it fits and can be read."""
    for event in (_event_with(arguments), _event_with({}, arguments), _event_with({}, [arguments])):
        data = sc.wire.encode(shorten_to_fit(event, room))
        got = sc.wire.decode(data, sc.SessionEvent)
        assert len(data) <= room
        assert (event.seq, type(event.event)) == (got.seq, type(got.event))
        if len(sc.wire.encode(event)) <= room:
            assert event == got


def test_a_name_that_no_line_can_hold_is_shortened() -> None:
    """A tool call with a name of millions of characters in it comes with its beginning, and says what is missing."""
    data = sc.wire.encode(shorten_to_fit(_event_with({"\x01" * 4_000_000: 1, "short": 2}), size_limits.ITEM_BYTES))
    assert len(data) <= size_limits.ITEM_BYTES
    event = sc.wire.decode(data, sc.SessionEvent).event
    assert isinstance(event, sc.events.MessageAdded)
    (part,) = event.message.parts
    assert isinstance(part, sc.ToolCallPart)
    told = "\x01" * 176 + "… (3,999,824 more characters were too long to be sent)"
    assert {told: 1, "short": 2} == dict(part.arguments)


def test_open_json_of_very_many_small_things_says_that_it_is_missing() -> None:
    """Where neither a text nor a list is long and all together is, that stands there, and what is small stays."""
    nested: list[Any] = ["x" * 200] * 20
    for _ in range(2):
        nested = [nested] * 20
    event = _event_with({"nested": nested}).event
    assert isinstance(event, sc.events.MessageAdded)
    small = sc.ToolCallPart(call_id=sc.CallId("call_2"), name="x", arguments=sc.JsonObject({"small": 1}))
    both = attrs.evolve(event.message, parts=(*event.message.parts, small))
    got = sc.wire.from_json(shorten_to_fit(both, 100_000), sc.Message)
    found = [part.arguments for part in got.parts if isinstance(part, sc.ToolCallPart)]
    assert [{"…": "what was here was too long to be sent"}, {"small": 1}] == list(map(dict, found))


def test_a_line_is_as_long_as_the_contract_says() -> None:
    """What is fitted leaves room for its envelope in the longest line that clients read."""
    assert limits.MAX_RPC_LINE == size_limits.LINE_BYTES
    assert size_limits.ITEM_BYTES + 2_000 < size_limits.LINE_BYTES


def _summary(number: int, name: str, updated_at: int, activity: sc.Activity) -> sc.SessionSummary:
    return sc.SessionSummary(
        session_id=sc.SessionId(f"ses_{number:03d}"),
        name=name,
        created_at=number,
        updated_at=updated_at,
        archived=False,
        parent_id=None,
        cwd="/",
        model="m",
        activity=activity,
    )


def _message(number: int, text: str) -> sc.Message:
    return sc.Message(
        message_id=MessageId(f"msg_{number}"),
        parent_id=None,
        role="user",
        parts=(sc.TextPart(text=text),),
        created_at=number,
    )


_EMPTY = SessionState(session_id=sc.SessionId("ses_1")).snapshot(sc.Cursor(epoch=sc.Epoch("run_1"), seq=1))
