"""Conversations longer than memory: older messages, search, and old branches."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from session_core import limits
from session_core.errors import InvalidInput, NotFound
from session_core.ids import MessageId, SessionId
from session_core.providers.base import ModelRequest, ProviderEvent, TextChunk
from session_core.service.service import SessionService
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import ScriptedProvider, ScriptedTool, text, tool_call
from session_core.vocabulary import commands as c
from session_core.vocabulary.messages import Message
from tests.session_core.service._helpers import new_session, said, say, scripted

WINDOW = 8


@pytest.fixture(autouse=True)
def small_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let states hold few messages, so that short conversations are long."""
    monkeypatch.setattr(limits, "WINDOW_MESSAGES", WINDOW)


class Provider(ScriptedProvider):
    """Answers with the number of messages it was given."""

    def __init__(self) -> None:
        super().__init__(*[[self.count] for _ in range(100)])

    @staticmethod
    def count(request: ModelRequest) -> ProviderEvent:
        return TextChunk(text=f"heard {len(request.messages)}")


@asynccontextmanager
async def long_session(turns: int = 10) -> AsyncGenerator[tuple[SessionService, SessionId, Provider, list[Message]]]:
    """A session of more turns than its state holds, and all its messages."""
    provider = Provider()
    async with open_checked_service(scripted(provider)) as service:
        session_id = await new_session(service)
        for turn in range(turns):
            await say(service, session_id, f"question {turn}")
        messages = list((await service.load_messages(session_id, limit=500)).messages)
        yield service, session_id, provider, messages


async def test_a_snapshot_holds_the_end_and_pages_give_the_rest() -> None:
    """Going backwards page by page from what a snapshot holds gives every message once, in order."""
    async with long_session() as (service, session_id, _, messages):
        snapshot = await service.load_session(session_id)
        assert 20 == len(messages) == snapshot.earlier + len(snapshot.messages)
        assert len(snapshot.messages) <= WINDOW
        seen, before = list(snapshot.messages), snapshot.earlier
        while before:
            page = await service.load_messages(session_id, before=before, limit=3)
            assert page.first + len(page.messages) == before
            seen, before = [*page.messages, *seen], page.first
        assert messages == seen


async def test_the_model_gets_the_whole_conversation() -> None:
    """What has left memory is still part of what the model is told."""
    async with long_session() as (_, _, provider, messages):
        assert tuple(messages[:-1]) == provider.requests[-1].messages


async def test_an_old_message_can_be_edited() -> None:
    """Editing a message that has left memory starts a turn after the messages before it, and those only."""
    async with long_session() as (service, session_id, provider, messages):
        reply = await service.edit_message(session_id, messages[4].message_id, "asked differently")
        await service.wait_for_turn(session_id)
        shown = (await service.load_session(session_id)).transcript
        expected = [*said(tuple(messages[:4])), ("user", "asked differently"), ("assistant", "heard 5")]
        assert expected == said(shown)
        assert messages[4].parent_id == next(m for m in shown if m.message_id == reply.message_id).parent_id
        assert expected[:-1] == said(provider.requests[-1].messages)


async def test_the_first_message_can_be_edited() -> None:
    """Editing the very first message, long gone from memory, starts a conversation of its own."""
    async with long_session() as (service, session_id, _, messages):
        await service.edit_message(session_id, messages[0].message_id, "from the start")
        await service.wait_for_turn(session_id)
        shown = said((await service.load_session(session_id)).transcript)
        assert [("user", "from the start"), ("assistant", "heard 1")] == shown


async def test_switching_to_an_old_branch_and_back() -> None:
    """A branch whose messages have all left memory can be shown again, and the newer one after it."""
    async with long_session(turns=2) as (service, session_id, _, first):
        await service.edit_message(session_id, first[0].message_id, "other")
        await service.wait_for_turn(session_id)
        for turn in range(8):
            await say(service, session_id, f"more {turn}")
        newer = (await service.load_session(session_id)).transcript
        await service.switch_branch(session_id, first[0].message_id)
        assert said(tuple(first)) == said((await service.load_session(session_id)).transcript)
        await service.switch_branch(session_id, newer[-1].message_id)
        assert said(newer[-2:]) == said((await service.load_session(session_id)).transcript[-2:])


async def test_a_fork_of_an_old_message() -> None:
    """A fork at a message that has left memory holds the conversation up to it."""
    async with long_session() as (service, session_id, _, messages):
        for at, expected in ((messages[5], messages[:6]), (messages[-1], messages)):
            forked = (await service.fork_session(session_id, at_message_id=at.message_id)).session_id
            page = await service.load_messages(forked, limit=500)
            assert tuple(expected) == page.messages


NOBODY = MessageId("msg_nobody")


@pytest.mark.parametrize(
    "make",
    [
        lambda session_id: c.EditMessage(session_id=session_id, message_id=NOBODY, text="x"),
        lambda session_id: c.SwitchBranch(session_id=session_id, message_id=NOBODY),
        lambda session_id: c.ForkSession(session_id=session_id, at_message_id=NOBODY),
    ],
)
async def test_a_message_that_never_was(make: Callable[[SessionId], c.Command[object]]) -> None:
    """Naming a message that is neither in memory nor in the store is refused, and nothing has changed."""
    async with long_session() as (service, session_id, _, _messages):
        before = await service.load_session(session_id)
        with pytest.raises(NotFound) as refused:
            await service.execute(make(session_id))
        assert refused.value.field in {"message_id", "at_message_id"}
        assert before == await service.load_session(session_id)


async def test_the_context_never_begins_with_a_result() -> None:
    """Where a conversation is cut because it is endless, the model never gets a tool result without its call."""
    provider = ScriptedProvider(*[each for _ in range(12) for each in (tool_call("look"), text("done"))])
    async with open_checked_service(scripted(provider, tools=(ScriptedTool("look"),))) as service:
        session_id = await new_session(service)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(limits, "CONVERSATION_CHARS", 120)
            for turn in range(12):
                await say(service, session_id, f"question {turn}")
    assert len(provider.requests[-1].messages) < 40  # of 47
    assert all("tool" != request.messages[0].role for request in provider.requests)


async def test_search(autojump_clock: trio.abc.Clock) -> None:
    """Messages are found in all sessions by all of their words, also those that have left memory."""
    async with long_session() as (service, session_id, _, messages):
        other = await new_session(service, name="other")
        await say(service, other, "question of another kind")
        hits = (await service.search_messages("question 3")).hits
        assert [(session_id, messages[6].message_id, "user", "question 3")] == [
            (hit.session_id, hit.message_id, hit.role, hit.excerpt) for hit in hits
        ]
        assert [other] == [hit.session_id for hit in (await service.search_messages("another KIND")).hits]
        assert 3 == len((await service.search_messages("question", limit=3)).hits)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [({"before": -1}, "before"), ({"before": 21}, "before"), ({"limit": 0}, "limit"), ({"limit": 501}, "limit")],
)
async def test_pages_that_cannot_be(arguments: dict[str, int], field: str) -> None:
    """A page beyond the conversation or of no sensible size is refused, naming the field."""
    async with long_session() as (service, session_id, _, _messages):
        with pytest.raises(InvalidInput) as refused:
            await service.load_messages(session_id, **arguments)
        assert field == refused.value.field


async def test_a_page_fits_into_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that would be too long begins later, and says where; it holds at least one message."""
    async with long_session() as (service, session_id, _, messages):
        monkeypatch.setattr(limits, "MAX_MESSAGE_BYTES", 3 * 4_800)
        page = await service.load_messages(session_id, before=10, limit=8)
        assert (7, tuple(messages[7:10])) == (page.first, page.messages)
        monkeypatch.setattr(limits, "MAX_MESSAGE_BYTES", 1)
        page = await service.load_messages(session_id, before=10, limit=8)
        assert (9, tuple(messages[9:10])) == (page.first, page.messages)


async def test_a_key_counts_while_its_command_is_under_way() -> None:
    """A command that takes time and is sent twice with one key is carried out once, and both get the same reply."""
    async with long_session() as (service, session_id, _, messages):
        command = c.ForkSession(session_id=session_id, at_message_id=messages[5].message_id)
        replies: list[object] = []

        async def fork() -> None:
            replies.append(await service.execute(command, idempotency_key="once"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fork)
            nursery.start_soon(fork)
        assert [replies[0]] * 2 == replies
        assert 2 == (await service.list_sessions()).total
