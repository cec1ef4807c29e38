"""A queued message is never stranded: it is delivered once, or waits where its author can see it, or was given back."""

from collections import Counter
from contextlib import suppress

import attrs
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from session_core.errors import Conflict, InvalidInput, NotFound
from session_core.ids import MessageId, QueueItemId, SessionId
from session_core.service.service import SessionService
from session_core.testing.checked import open_checked_service
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.messages import TextPart, UserPart
from session_core.vocabulary.sessions import DeliverAs
from session_core.vocabulary.snapshots import SessionSnapshot
from tests.properties._world import SHORT_ANSWERS, AnswerKind, checkpoints, world_config


@attrs.frozen
class Doing:
    """One thing a client does, after some checkpoints."""

    what: str
    rest: int


KINDS: tuple[DeliverAs, ...] = ("steer", "follow_up", "next_turn")
SENDING = ("steer", "steer", "follow_up", "follow_up", "next_turn", "post", "sleep")
TAKING = (*SENDING, "take", "remove", "edit", "reorder")
STOPPING = (*TAKING, "stop", "stop_and_return", "compact", "wake_up")


def doings(whats: tuple[str, ...]) -> st.SearchStrategy[list[list[Doing]]]:
    one = st.lists(st.builds(Doing, st.sampled_from(whats), st.integers(0, 12)), max_size=8)
    return st.lists(one, min_size=1, max_size=3)


class Client:
    """Sends numbered messages and keeps count of those that were accepted and those it got back."""

    def __init__(self, service: SessionService, session_id: SessionId, name: int) -> None:
        self.service = service
        self.session_id = session_id
        self.name = name
        self.count = 0
        self.started: list[MessageId] = []
        self.queued: list[QueueItemId] = []
        self.given_back: list[QueueItemId] = []
        self.wakeups: list[str] = []

    async def run(self, plan: list[Doing]) -> None:
        for each in plan:
            await checkpoints(each.rest)
            if each.what in KINDS:
                await self._send(each.what)
            else:
                await getattr(self, f"_{each.what}")()

    def _text(self) -> str:
        self.count += 1
        return f"{self.name}.{self.count}"

    async def _send(self, deliver_as: DeliverAs) -> None:
        reply = await self.service.send_user_message(self.session_id, self._text(), deliver_as=deliver_as)
        if reply.message_id is not None:
            self.started.append(reply.message_id)
        if reply.queue_item_id is not None:
            self.queued.append(reply.queue_item_id)

    async def _post(self) -> None:
        reply = await self.service.post_message(self.session_id, self._text())
        if reply.message_id is not None:
            self.started.append(reply.message_id)
        if reply.queue_item_id is not None:
            self.queued.append(reply.queue_item_id)

    async def _sleep(self) -> None:
        await trio.sleep(0.01)

    async def _take(self) -> None:
        reply = await self.service.take_queue(self.session_id)
        self.given_back += [item.item_id for item in reply.items]

    async def _remove(self) -> None:
        for item in (await self.service.list_queue(self.session_id)).items[:1]:
            with suppress(NotFound):  # it was delivered meanwhile
                await self.service.remove_queue_item(self.session_id, item.item_id)
                self.given_back.append(item.item_id)

    async def _edit(self) -> None:
        for item in (await self.service.list_queue(self.session_id)).items[:1]:
            with suppress(NotFound):
                await self.service.edit_queue_item(self.session_id, item.item_id, self._text())

    async def _reorder(self) -> None:
        items = (await self.service.list_queue(self.session_id)).items
        if len(items) > 1:
            with suppress(InvalidInput):  # the queue has moved on
                await self.service.reorder_queue(self.session_id, tuple(item.item_id for item in items[::-1]))

    async def _stop(self) -> None:
        await self.service.request_stop(self.session_id)

    async def _stop_and_return(self) -> None:
        outcome = await self.service.request_stop(self.session_id, queue="return")
        self.given_back += [item.item_id for item in outcome.returned]

    async def _compact(self) -> None:
        with suppress(Conflict):  # something runs, or there is nothing to compact yet
            await self.service.compact_context(self.session_id)

    async def _wake_up(self) -> None:
        text = self._text()
        await self.service.schedule_wakeup(self.session_id, 1, text)
        self.wakeups.append(f"[scheduled wake-up] {text}")


def text_of(parts: tuple[UserPart, ...]) -> str:
    return "".join(part.text for part in parts if isinstance(part, TextPart))


@attrs.frozen(kw_only=True)
class Story:
    """What the clients did in one session, everything that happened, and how it lies at rest."""

    session_id: SessionId
    clients: list[Client]
    events: list[SessionEvent]
    rest: SessionSnapshot

    @property
    def waiting(self) -> list[QueueItemId]:
        return [item.item_id for item in self.rest.queue]

    def check_each_is_somewhere_once(self) -> None:
        """Prove that no message was lost or doubled."""
        queued = [each.event.item for each in self.events if isinstance(each.event, ev.MessageQueued)]
        added = [each.event for each in self.events if isinstance(each.event, ev.MessageAdded)]
        delivered = [event.queue_item_id for event in added if event.queue_item_id is not None]
        given_back = [item_id for client in self.clients for item_id in client.given_back]
        assert Counter(item.item_id for item in queued) == Counter([*delivered, *self.waiting, *given_back])
        assert {item_id for client in self.clients for item_id in client.queued} <= {item.item_id for item in queued}
        in_tree = Counter(message.message_id for message in self.rest.messages)
        assert set(in_tree.values()) <= {1}
        assert {event.message.message_id for event in added} <= set(in_tree)
        assert {message_id for client in self.clients for message_id in client.started} <= set(in_tree)
        came = Counter([text_of(item.parts) for item in queued])
        came += Counter([event.message.text for event in added if event.queue_item_id is None])
        assert all(came[text] == 1 for client in self.clients for text in client.wakeups)


async def play(service: SessionService, plans: list[list[Doing]]) -> Story:
    """Let the clients do what they plan, and wait until everything lies still."""
    session_id = (await service.create_session(permission_mode="full")).session_id
    clients = [Client(service, session_id, number) for number in range(len(plans))]
    async with service.subscribe(session_id) as events:
        async with trio.open_nursery() as nursery:
            for client, plan in zip(clients, plans, strict=True):
                nursery.start_soon(client.run, plan)
        await trio.sleep(1_000)
        await service.rename_session(session_id, "at rest")  # at least one event to receive
        rest = await service.load_session(session_id)
        return Story(session_id=session_id, clients=clients, events=await events.receive_batch(), rest=rest)


@given(plans=doings(SENDING), kinds=st.lists(st.sampled_from(SHORT_ANSWERS), max_size=6), rnd=st.random_module())
async def test_a_completed_turn_leaves_nothing_behind(
    plans: list[list[Doing]], kinds: list[AnswerKind], rnd: object, autojump_clock: MockClock
) -> None:
    """However sending races with the end of turns, nothing waits at rest but what asked for the next turn."""
    async with open_checked_service(world_config(kinds)) as service:
        story = await play(service, plans)

    assert story.rest.activity.name == "idle"
    assert {item.deliver_as for item in story.rest.queue} <= {"next_turn"}
    story.check_each_is_somewhere_once()


@given(
    plans=doings(STOPPING),
    kinds=st.lists(st.sampled_from((*SHORT_ANSWERS, "failure", "retry")), max_size=6),
    rnd=st.random_module(),
)
async def test_every_message_is_somewhere(
    plans: list[list[Doing]], kinds: list[AnswerKind], rnd: object, autojump_clock: MockClock
) -> None:
    """Stops, failures, edits and taking back: each accepted message is delivered, waiting or given back, once."""
    async with open_checked_service(world_config(kinds)) as service:
        story = await play(service, plans)
        await service.send_user_message(story.session_id, "the last")
        await service.wait_for_turn(story.session_id)
        final = await service.load_session(story.session_id)

    assert story.rest.activity.is_at_rest
    story.check_each_is_somewhere_once()
    waited = [text_of(item.parts) for item in story.rest.queue]
    said = [message.text for message in final.messages[len(story.rest.messages) :] if message.role == "user"]
    assert said == [*waited, "the last"], "what waited comes first, in its order"
    assert final.queue == ()


@given(plans=doings((*SENDING, "compact", "wake_up")), rnd=st.random_module())
async def test_compacting_leaves_nothing_behind(
    plans: list[list[Doing]], rnd: object, autojump_clock: MockClock
) -> None:
    """A message sent while the conversation is being summarised is delivered when that is done."""
    async with open_checked_service(world_config()) as service:
        story = await play(service, plans)

    assert story.rest.activity.name == "idle"
    assert {item.deliver_as for item in story.rest.queue} <= {"next_turn"}
    story.check_each_is_somewhere_once()
