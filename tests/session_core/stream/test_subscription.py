"""A subscription read in both ways at once: event by event and in batches."""

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from session_core.errors import ServiceClosed
from session_core.stream.subscription import Subscription
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.snapshots import Bookmark
from tests.session_core.stream._events import A, B, at, numbers, publish, stream_of

Act = st.sampled_from(["publish", "publish elsewhere", "one", "batch"])


def pending(reader: Subscription) -> list[SessionEvent]:
    """What a reader that has just begun would get."""
    return reader._ring.events_from(reader._position)


async def test_a_batch_after_single_events_is_the_rest() -> None:
    """What the iterator had taken and not handed out comes with the next batch, in order, and then the news."""
    stream = stream_of()
    reader = stream.subscribe(A)
    publish(stream, 3)
    assert 1 == (await anext(reader)).seq
    publish(stream, 2)
    assert [2, 3] == numbers(await reader.receive_batch())
    assert [4, 5] == numbers(await reader.receive_batch())
    publish(stream, 1)
    assert 6 == (await anext(reader)).seq


async def test_a_cancelled_batch_after_single_events_has_taken_nothing() -> None:
    """Cancelling the call that would have given the rest loses nothing of it."""
    stream = stream_of()
    reader = stream.subscribe(A)
    publish(stream, 3)
    await anext(reader)
    with trio.CancelScope() as scope:
        scope.cancel()
        await reader.receive_batch()
    assert scope.cancelled_caught
    assert at(1) == reader.cursor
    assert [2, 3] == numbers(await reader.receive_batch())


async def test_two_tasks_ask_for_the_rest() -> None:
    """Of two tasks that ask at once one gets the rest, and the other what comes next instead of an accident."""
    stream = stream_of()
    reader = stream.subscribe(A)
    publish(stream, 3)
    await anext(reader)
    received: list[list[int]] = []

    async def receive() -> None:
        received.append(numbers(await reader.receive_batch()))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive)
        nursery.start_soon(receive)
        await wait_all_tasks_blocked()
        assert [[2, 3]] == received
        publish(stream, 1)
    assert [[2, 3], [4]] == received


async def test_closing_while_the_rest_is_asked_for() -> None:
    """A subscription closed before the rest was handed over says that it is closed."""
    stream = stream_of()
    reader = stream.subscribe(A)
    publish(stream, 3)
    await anext(reader)

    async def receive() -> None:
        with pytest.raises(ServiceClosed):
            await reader.receive_batch()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive)
        reader.close()


@given(acts=st.lists(Act, max_size=25), rnd=st.random_module())
async def test_the_cursor_resumes_at_every_moment(acts: list[str], rnd: object) -> None:
    """However reading is mixed, the cursor of every moment resumes right after what was handed out."""
    stream = stream_of()
    reader = stream.subscribe(A)
    published: list[int] = []
    received: list[int] = []
    for act in acts:
        if act == "publish":
            published += numbers(publish(stream, 1))
        elif act == "publish elsewhere":
            publish(stream, 1, B)
        elif len(received) < len(published):
            events = [await anext(reader)] if act == "one" else await reader.receive_batch()
            received += numbers(events)
        assert published[: len(received)] == received
        with_cursor = stream.subscribe(A, after=reader.cursor)
        assert published[len(received) :] == numbers(pending(with_cursor))
        with_cursor.close()


async def test_a_bookmark_is_the_place_of_the_reader() -> None:
    """A bookmark names the reader's cursor: behind what it has not read, and with everybody once it has it all."""
    stream = stream_of()
    reader = stream.subscribe(A)
    assert Bookmark(cursor=at(0)) == reader.bookmark()
    publish(stream, 2)
    publish(stream, 3, B)
    assert Bookmark(cursor=at(0)) == reader.bookmark()
    await anext(reader)
    assert Bookmark(cursor=at(1)) == reader.bookmark()
    await reader.receive_batch()
    assert Bookmark(cursor=at(5)) == reader.bookmark()
    publish(stream, 1, B)
    assert Bookmark(cursor=at(6)) == reader.bookmark()
