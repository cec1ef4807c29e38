"""A small world for the laws: scripted models, readers that fold what they get, and programs of random commands."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Literal

import attrs
import trio
from hypothesis import strategies as st

from session_core.errors import Conflict, InvalidInput, NotFound, Overloaded, Unavailable
from session_core.ids import SessionId
from session_core.service.config import ServiceConfig
from session_core.service.extension_api import extension_client
from session_core.service.feed import Feed
from session_core.service.service import SessionService
from session_core.session.state import apply
from session_core.storage.memory import MemoryStore
from session_core.stream.follower import FeedItem, Snapshot
from session_core.testing.scripted import (
    Hang,
    ScriptedProvider,
    ScriptedTool,
    ScriptItem,
    TaskSwitch,
    failure,
    text,
    tool_calls,
)
from session_core.tools.base import ToolContext
from session_core.vocabulary import commands as c
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import Message
from session_core.vocabulary.sessions import DeliverAs

REFUSALS = (Conflict, InvalidInput, NotFound, Overloaded, Unavailable)
"""What a random command may well be answered with; anything else fails the test."""

AnswerKind = Literal["text", "long", "tools", "unknown_tool", "retry", "failure", "hang"]
ANSWERS: tuple[AnswerKind, ...] = ("text", "long", "tools", "unknown_tool", "retry", "failure", "hang")
SHORT_ANSWERS: tuple[AnswerKind, ...] = ("text", "text", "long", "tools")


def answer_of(kind: AnswerKind) -> Sequence[ScriptItem]:
    match kind:
        case "text":
            return (TaskSwitch(), *text("a short answer", thinking="hm"))
        case "long":
            return tuple(item for piece in text(*"a longer answer") for item in (piece, TaskSwitch()))
        case "tools":
            return tool_calls(("look", {}), ("look", {}), ("change", {}))
        case "unknown_tool":
            return tool_calls(("nothing", "{not json"))
        case "retry":
            return (*text("half an ans")[:1], *failure("rate_limited", retry_after_ms=50))
        case "failure":
            return failure("auth")
        case "hang":
            return (*text("and then")[:1], Hang())


class RandomProvider(ScriptedProvider):
    """Plays drawn answers; when they are used up it says something short, so that every program comes to rest."""

    def __init__(self, kinds: Sequence[AnswerKind]) -> None:
        super().__init__(*(answer_of(kind) for kind in kinds))


async def _look(_: JsonObject, context: ToolContext) -> str:
    context.report("one ")
    await trio.lowlevel.checkpoint()
    context.report("two")
    return "looked"


def world_config(
    kinds: Sequence[AnswerKind] = (),
    *,
    ring: int = 2_048,
    mailbox: int = 1_024,
    approval_timeout_ms: int = 60_000,
    provider: ScriptedProvider | None = None,
) -> ServiceConfig:
    async def compactor(messages: tuple[Message, ...]) -> str:
        await trio.sleep(0.01)
        return f"{len(messages)} messages"

    return ServiceConfig(
        models={"m": provider or RandomProvider(kinds), "other": ScriptedProvider()},
        tools=(ScriptedTool("look", run=_look), ScriptedTool("change", effects=("write",))),
        cwd="/",
        compactor=compactor,
        stream_capacity=ring,
        session_stream_capacity=ring,
        mailbox_capacity=mailbox,
        approval_timeout_ms=approval_timeout_ms,
        store=MemoryStore(),
        now=lambda: int(trio.current_time() * 1000),
    )


async def checkpoints(count: int) -> None:
    for _ in range(count):
        await trio.lowlevel.checkpoint()


class FoldingReader:
    """A frontend in small: follows one session, or all, and keeps nothing but the fold of what it got."""

    def __init__(self, service: SessionService, session_id: SessionId | None, *, delay: int = 0) -> None:
        self.session_id = session_id
        self.state: Snapshot | None = None
        self.items: list[FeedItem] = []
        self.ended = False
        self._delay = delay
        self._feed: Feed = service.follow(session_id)

    async def run(self) -> None:
        """Read on until the end, with a rest after each batch."""
        async with self._feed:
            while True:
                try:
                    batch = await self._feed.receive_batch()
                except trio.EndOfChannel:
                    self.ended = True
                    return
                for item in batch:
                    self.take(item)
                await checkpoints(self._delay)

    def take(self, item: FeedItem) -> None:
        """Fold one item."""
        self.items.append(item)
        if not isinstance(item, SessionEvent):
            self.state = item
        else:
            assert self.state is not None, "a snapshot comes first"
            self.state = apply(self.state, item)

    async def check(self, service: SessionService) -> None:
        """Prove that the fold is what a fresh look gives; to be called when nothing moves."""
        if self.ended:
            return
        fresh: Snapshot = (
            await service.load_service() if self.session_id is None else await service.load_session(self.session_id)
        )
        assert self.state is not None
        assert attrs.evolve(self.state, cursor=fresh.cursor) == fresh


# --- programs of random commands --------------------------------------------------------------------------------------


@attrs.frozen
class Move:
    """One command of a program: what, in which session, with which choice, and how many checkpoints before it."""

    action: str
    session: int
    choice: int
    delay: int


def programs(actions: Sequence[str], *, sessions: int, max_size: int) -> st.SearchStrategy[list[Move]]:
    """Random programs over these actions; repeated names make an action likelier."""
    move = st.builds(Move, st.sampled_from(actions), st.integers(0, sessions - 1), st.integers(0, 3), st.integers(0, 6))
    # Lists are short on average; the second kind makes sure of long programs, the first lets failures shrink.
    return st.lists(move, max_size=max_size) | st.lists(move, min_size=max_size // 2, max_size=max_size)


@attrs.define
class Actor:
    """Carries out the steps of programs; what is refused is simply refused."""

    service: SessionService
    sessions: list[SessionId]
    said: int = 0

    async def perform(self, move: Move) -> None:
        await checkpoints(move.delay)
        with suppress(*REFUSALS):
            await getattr(self, move.action)(self.sessions[move.session], move.choice)

    def next_text(self) -> str:
        self.said += 1
        return f"message {self.said}"

    async def _send(self, session: SessionId, deliver_as: DeliverAs) -> None:
        await self.service.send_user_message(session, self.next_text(), deliver_as=deliver_as)

    async def send(self, session: SessionId, choice: int) -> None:
        kinds: tuple[DeliverAs, ...] = ("follow_up", "follow_up", "steer", "next_turn")
        await self._send(session, kinds[choice])

    async def stop(self, session: SessionId, choice: int) -> None:
        await self.service.request_stop(
            session, scope=("turn", "turn", "subtree", "session")[choice], queue="return" if choice == 1 else "keep"
        )

    async def _some(self, session: SessionId, choice: int, pick: Callable[[Message], bool]) -> Message:
        snapshot = await self.service.load_session(session)
        found = [message for message in snapshot.messages if pick(message)]
        if not found:
            raise NotFound("nothing said yet")
        return found[choice % len(found)]

    async def edit(self, session: SessionId, choice: int) -> None:
        message = await self._some(session, choice, lambda message: message.role == "user")
        await self.service.edit_message(session, message.message_id, self.next_text())

    async def switch_branch(self, session: SessionId, choice: int) -> None:
        message = await self._some(session, choice, lambda message: True)
        await self.service.switch_branch(session, message.message_id)

    async def queue(self, session: SessionId, choice: int) -> None:
        """Edit, reorder, remove or take."""
        waiting = [item.item_id for item in (await self.service.list_queue(session)).items]
        if choice == 1:
            await self.service.reorder_queue(session, tuple(reversed(waiting)))
        elif waiting and choice == 0:
            await self.service.edit_queue_item(session, waiting[-1], self.next_text())
        elif waiting and choice == 2:
            await self.service.remove_queue_item(session, waiting[0])
        elif waiting:
            await self.service.take_queue(session)

    async def settings(self, session: SessionId, choice: int) -> None:
        """Rename, switch the model, change the mode."""
        if choice == 0:
            await self.service.rename_session(session, self.next_text())
        elif choice == 1:
            await self.service.switch_model(session, ("m", "other")[self.said % 2])
        else:
            await self.service.change_permission_mode(session, "full" if choice == 2 else "ask_all")

    async def rest(self, session: SessionId, choice: int) -> None:
        """What is allowed at rest: resume, dismiss, clear, compact."""
        if choice == 0:
            await self.service.resume_session(session)
        elif choice == 1:
            await self.service.dismiss_outcome(session)
        elif choice == 2:
            await self.service.clear_context(session)
        else:
            await self.service.compact_context(session)

    async def answer(self, session: SessionId, choice: int) -> None:
        snapshot = await self.service.load_session(session)
        for approval in snapshot.approvals:
            await self.service.answer_approval(
                session, approval.request_id, ("allow_once", "allow_once", "allow_session", "deny")[choice]
            )

    async def shelve(self, session: SessionId, choice: int) -> None:
        """Archive or restore, schedule a wake-up, or fork."""
        if choice == 0:
            await self.service.archive_session(session)
        elif choice == 1:
            await self.service.restore_session(session)
        elif choice == 2:
            await self.service.schedule_wakeup(session, 20, self.next_text())
        else:
            await self.service.fork_session(session)

    async def extend(self, session: SessionId, choice: int) -> None:
        """What an extension does: post a message, keep an entry, show something, take it away."""
        text = self.next_text()
        commands: tuple[c.Command[object], ...] = (
            c.PostMessage(session_id=session, text=text, role="assistant" if self.said % 3 else "user"),
            c.AppendEntry(session_id=session, entry=JsonObject({"text": text})),
            c.ShowDisplay(session_id=session, status=text),
            c.ShowDisplay(session_id=session),
        )
        await self.service.execute(commands[choice], client_id=extension_client("git"))

    async def let_time_pass(self, _session: SessionId, choice: int) -> None:
        await trio.sleep(0.03 * (choice + 1))
