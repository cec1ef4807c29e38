"""Messages from before the window: none is shown twice, none is lost, and there is an end to them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast
from unittest.mock import patch

import anyio
import anyio.lowlevel
import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import session_core as sc
from frontends.client import RemoteFeed, SessionClient
from frontends.terminal.feeds import OLDER_AT_ONCE, TerminalState, ViewedSession
from frontends.terminal.transcript import older_messages
from session_core import limits

SESSION = sc.SessionId("ses_1")
CURSOR = sc.Cursor(epoch=sc.Epoch("e"), seq=1)


def message(number: int) -> sc.Message:
    """A message of a conversation without branches."""
    parent = sc.MessageId(f"m{number - 1}") if number else None
    said = sc.TextPart(text=f"say {number}")
    return sc.Message(
        message_id=sc.MessageId(f"m{number}"), parent_id=parent, role="user", parts=(said,), created_at=number
    )


@attrs.define(eq=False)
class Feed:
    """A feed that says why it begins anew."""

    last_resync: sc.Resync = attrs.field(factory=lambda: sc.Resync(reason="lagged", missed=3))
    cuts: int = 0


@attrs.define(eq=False)
class Service:
    """A service with one session: it tells what is said, and hands out pages when it is let."""

    said: list[sc.Message] = attrs.field(factory=list)
    state: sc.SessionState = attrs.field(factory=lambda: sc.SessionState(session_id=SESSION))
    asked: list[int] = attrs.field(factory=list)
    may_answer: anyio.Event | None = None

    async def load_messages(self, session_id: sc.SessionId, before: int, limit: int) -> sc.replies.MessagesReply:
        """Hand out a page."""
        self.asked.append(before)
        await anyio.lowlevel.checkpoint()
        if self.may_answer is not None:
            await self.may_answer.wait()
        first = max(0, before - limit)
        return sc.replies.MessagesReply(first=first, messages=tuple(self.said[first:before]), cursor=CURSOR)

    def say(self, count: int) -> sc.SessionEvent:
        """Say so many things at once."""
        new = tuple(message(len(self.said) + number) for number in range(count))
        self.said += new
        event = sc.events.MessagesImported(messages=new, head=new[-1].message_id)
        told = sc.SessionEvent(seq=1, sseq=1, session_id=SESSION, at=1, event=event)
        self.state.apply(told)
        return told


class Scene:
    """A terminal at this service."""

    def __init__(self) -> None:
        self.service = Service()
        self.desk = TerminalState(lambda _: None)
        self.desk.client = cast(SessionClient, self.service)
        self.viewed = ViewedSession(SESSION)
        self.feed = cast(RemoteFeed, Feed())
        self.resync()

    def hear(self, items: Sequence[sc.FeedItem]) -> None:
        """Fold what the service tells."""
        self.desk._fold(list(items), self.viewed, self.feed)

    def say(self, *counts: int) -> None:
        """Have things said, and hear of them."""
        self.hear([self.service.say(count) for count in counts])

    def resync(self) -> None:
        """Begin anew."""
        self.hear([self.service.state.snapshot(CURSOR)])

    @property
    def shown(self) -> list[str]:
        """What is on the screen."""
        assert self.viewed.state is not None
        return [each.key for each in self.viewed.blocks.build_blocks(self.viewed.state)]


@contextmanager
def small_window(messages: int = 8) -> Iterator[None]:
    """Have the state hold few messages."""
    with patch.object(limits, "WINDOW_MESSAGES", messages):
        yield


def newest(count: int, of: int) -> list[str]:
    """The keys of the newest messages."""
    return [f"m{number}" for number in range(of - count, of)]


async def test_what_leaves_the_window_stays_on_the_screen() -> None:
    """When the window moves on while somebody looks, what was shown is still shown, whole."""
    with small_window():
        scene = Scene()
        scene.say(*[1] * 30)
        assert scene.viewed.state is not None
        assert scene.viewed.state.earlier > 0
        assert scene.shown == newest(30, of=30)


async def test_older_ones_are_asked_for_from_the_oldest_that_is_known() -> None:
    """After the window has moved, the next page ends where the shown part begins."""
    with small_window():
        scene = Scene()
        scene.service.say(300)
        scene.resync()
        before = len(scene.shown)
        scene.say(*[1] * 10)
        await scene.desk.load_older(scene.viewed)
        assert scene.service.asked == [300 - before]
        assert scene.shown == newest(10 + before + OLDER_AT_ONCE, of=310)


async def test_one_page_is_loaded_at_a_time() -> None:
    """Whoever asks twice gets a page once."""
    with small_window():
        scene = Scene()
        scene.say(*[300] * 3)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(scene.desk.load_older, scene.viewed)
            tasks.start_soon(scene.desk.load_older, scene.viewed)
        assert len(scene.service.asked) == 1
        assert scene.shown == newest(len(scene.shown), of=900)


async def test_a_page_that_fits_no_more_is_thrown_away() -> None:
    """A page that comes after the conversation has begun anew elsewhere leaves no hole."""
    with small_window():
        scene = Scene()
        scene.say(300)
        scene.service.may_answer = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(scene.desk.load_older, scene.viewed)
            await anyio.wait_all_tasks_blocked()
            scene.service.say(50)
            scene.resync()
            scene.service.may_answer.set()
        assert scene.shown == newest(len(scene.shown), of=350)
        scene.service.may_answer = None
        while scene.viewed.has_older:
            await scene.desk.load_older(scene.viewed)
        assert scene.shown == newest(350, of=350)


async def test_there_is_a_bound() -> None:
    """As many older messages are kept as there is room for, what is beyond is not loaded, and people are told."""
    with small_window(), patch.object(older_messages, "MOST_MESSAGES", 20):
        scene = Scene()
        scene.say(*[1] * 60)
        assert len(scene.viewed.older) == 20
        assert scene.shown == newest(len(scene.shown), of=60)
        with pytest.raises(sc.InvalidInput, match="/export"):
            await scene.desk.load_older(scene.viewed)
    with small_window(), patch.object(older_messages, "MOST_CHARS", 50):
        scene = Scene()
        scene.say(*[1] * 60)
        assert len(scene.viewed.older) == 50 // len("say 10")


@given(st.lists(st.sampled_from(["say", "say many", "say unheard", "resync", "load"]), max_size=25), st.random_module())
async def test_nothing_is_lost_or_shown_twice(steps: list[str], schedule: object) -> None:
    """Whatever is said, skipped and loaded: what is shown is the end of what was said, and loading shows all of it."""
    with small_window():
        scene = Scene()
        for step in steps:
            match step:
                case "say":
                    scene.say(1)
                case "say many":
                    scene.say(1, 12, 1)
                case "say unheard":
                    scene.service.say(3)
                    scene.resync()
                case "resync":
                    scene.resync()
                case _:
                    await scene.desk.load_older(scene.viewed)
            assert scene.shown == newest(len(scene.shown), of=len(scene.service.said))
        while scene.viewed.has_older:
            await scene.desk.load_older(scene.viewed)
        assert scene.shown == newest(len(scene.service.said), of=len(scene.service.said))
