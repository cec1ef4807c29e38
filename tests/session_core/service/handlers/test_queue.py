"""The queue of waiting messages: list, edit, reorder, remove, take."""

import pytest

from session_core.errors import InvalidInput, NotFound
from session_core.ids import QueueItemId, SessionId
from session_core.service.service import SessionService
from session_core.testing.checked import open_checked_service
from session_core.vocabulary import commands as c
from session_core.vocabulary import events as ev
from session_core.vocabulary.messages import TextPart
from tests.session_core.service._helpers import new_session, recorded, scripted


async def filled(service: SessionService) -> tuple[SessionId, list[QueueItemId]]:
    """A session with three waiting messages."""
    session_id = await new_session(service)
    for text in "abc":
        await service.send_user_message(session_id, text, deliver_as="next_turn")
    return session_id, [item.item_id for item in (await service.list_queue(session_id)).items]


async def waiting(service: SessionService, session_id: SessionId) -> list[str]:
    items = (await service.list_queue(session_id)).items
    return [part.text for item in items for part in item.parts if isinstance(part, TextPart)]


async def test_each_change_is_an_event_with_the_cursor_of_the_reply() -> None:
    """Editing, reordering, removing and taking change the queue, and everybody is told."""
    async with open_checked_service(scripted()) as service:
        session_id, (a, b, d) = await filled(service)
        edited = await service.edit_queue_item(session_id, b, "B")
        assert ["a", "B", "c"] == await waiting(service, session_id)
        reordered = await service.reorder_queue(session_id, (d, a, b))
        assert ["c", "a", "B"] == await waiting(service, session_id)
        removed = await service.remove_queue_item(session_id, a)
        assert ["c", "B"] == await waiting(service, session_id)
        taken = await service.take_queue(session_id, b)
        assert [b] == [item.item_id for item in taken.items]
        rest = await service.take_queue(session_id)
        assert [d] == [item.item_id for item in rest.items]
        assert [] == await waiting(service, session_id)

        events = recorded(service, session_id)[-5:]
        assert [
            ev.QueueItemEdited(item_id=b, parts=(TextPart(text="B"),)),
            ev.QueueReordered(item_ids=(d, a, b)),
            ev.QueueItemRemoved(item_id=a, because="removed"),
            ev.QueueItemRemoved(item_id=b, because="taken"),
            ev.QueueItemRemoved(item_id=d, because="taken"),
        ] == [event.event for event in events]
        cursors = [reply.cursor.seq for reply in (edited, reordered, removed, taken, rest)]
        assert [event.seq for event in events] == cursors


async def test_items_that_do_not_wait() -> None:
    """An item that is not in the queue is not found by edit, remove and take."""
    async with open_checked_service(scripted()) as service:
        session_id, _ = await filled(service)
        gone = QueueItemId("item_x")
        for attempt in (
            c.EditQueueItem(session_id=session_id, item_id=gone, text="t"),
            c.RemoveQueueItem(session_id=session_id, item_id=gone),
            c.TakeQueue(session_id=session_id, item_id=gone),
        ):
            with pytest.raises(NotFound) as caught:
                await service.execute(attempt)
            assert "item_id" == caught.value.field
        assert ["a", "b", "c"] == await waiting(service, session_id)


async def test_an_order_names_every_item_once() -> None:
    """An order that leaves an item out, names one twice or an unknown one is refused."""
    async with open_checked_service(scripted()) as service:
        session_id, (a, b, d) = await filled(service)
        for order in ((), (a, b), (a, b, d, d), (a, a, b), (a, b, QueueItemId("item_x"))):
            with pytest.raises(InvalidInput) as caught:
                await service.reorder_queue(session_id, order)
            assert "item_ids" == caught.value.field
        assert ["a", "b", "c"] == await waiting(service, session_id)
