"""Stores with one fault each, to prove that the conformance suite finds it."""

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs

from session_core.errors import InvalidInput, ProtocolError
from session_core.ids import MessageId, SessionId
from session_core.storage.base import MessagePage, OpenedStore, StoredReply, StoredSession
from session_core.storage.memory import MemoryStore
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import TRANSIENT_EVENTS, SessionEvent
from session_core.vocabulary.messages import Message
from session_core.vocabulary.replies import SearchHit
from session_core.vocabulary.snapshots import SessionSummary
from session_core.wire.codec import encode


class LosesTheLastEvent(MemoryStore):
    @asynccontextmanager
    async def open(self) -> AsyncGenerator[OpenedStore]:
        async with super().open() as opened:
            yield opened
        for events in self._events.values():
            events.pop()


class Reorders(MemoryStore):
    async def journal(self, session_id: SessionId) -> AsyncIterator[tuple[SessionEvent, ...]]:
        events = self.events_of(session_id)
        yield (*events[:-2], *reversed(events[-2:]))


class _HoldsBack(MemoryStore):
    """Hands events on only when somebody waits for them."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[SessionEvent] = []

    def let_go(self, keep: int = 0) -> None:
        while len(self.held) > keep:
            super().append(self.held.pop(0))

    async def wait_durable(self, seq: int) -> None:
        self.let_go()
        await super().wait_durable(seq)


class HalvesSteps(_HoldsBack):
    def append(self, event: SessionEvent) -> None:
        self.held.append(event)
        self.let_go(keep=1)


class SaysDurableTooEarly(_HoldsBack):
    def append(self, event: SessionEvent) -> None:
        self.held.append(event)
        self.durable_seq = event.seq

    async def wait_durable(self, seq: int) -> None:
        await MemoryStore.wait_durable(self, seq)


class RemembersLate(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.late: list[StoredReply] = []

    def remember(self, reply: StoredReply) -> None:
        self.late.append(reply)

    async def wait_durable(self, seq: int) -> None:
        for reply in self.late:
            super().remember(reply)
        await super().wait_durable(seq)


class CountsOn(MemoryStore):
    @asynccontextmanager
    async def open(self) -> AsyncGenerator[OpenedStore]:
        before = self.durable_seq
        async with super().open() as opened:
            self.durable_seq = before
            yield opened


class DropsUnfinishedText(MemoryStore):
    def append(self, event: SessionEvent) -> None:
        if not isinstance(event.event, TRANSIENT_EVENTS):
            super().append(event)


class KeepsFinishedText(MemoryStore):
    def append(self, event: SessionEvent) -> None:
        unfinished = [*self._unfinished.get(event.session_id or SessionId(""), ())]
        super().append(event)
        if event.session_id is not None and unfinished and not isinstance(event.event, TRANSIENT_EVENTS):
            self._unfinished[event.session_id] = unfinished


class SwallowsWhatItCannotWrite(MemoryStore):
    def append(self, event: SessionEvent) -> None:
        try:
            encode(event)
        except ProtocolError:
            return
        super().append(event)


class KeepsTheFirstReply(MemoryStore):
    def remember(self, reply: StoredReply) -> None:
        self._replies.setdefault((reply.client_id, reply.key), reply)


class FindsDeletedText(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.everything: list[SearchHit] = []

    async def search(self, text: str, *, limit: int) -> tuple[SearchHit, ...]:
        return tuple(self.everything) + await super().search(text, limit=limit)

    def append(self, event: SessionEvent) -> None:
        super().append(event)
        if isinstance(event.event, ev.MessageAdded) and event.session_id is not None:
            self.everything.append(
                SearchHit(
                    session_id=event.session_id,
                    session_name="",
                    message_id=event.event.message.message_id,
                    role="user",
                    created_at=0,
                    excerpt="",
                )
            )


class ForgetsOnlyWhenAlone(MemoryStore):
    """Deletes at the end of a step, and so also what has come back within it."""

    def __init__(self) -> None:
        super().__init__()
        self.doomed: set[SessionId] = set()

    def forget(self, session_id: SessionId) -> None:
        self.doomed.add(session_id)

    async def wait_durable(self, seq: int) -> None:
        for session_id in self.doomed:
            super().forget(session_id)
        self.doomed.clear()
        await super().wait_durable(seq)


class PagesOffByOne(MemoryStore):
    async def load_messages(self, session_id: SessionId, *, before: int, limit: int) -> MessagePage:
        return await super().load_messages(session_id, before=before - 1, limit=limit)


class PathsPassSummaries(MemoryStore):
    def _messages(self, session_id: SessionId) -> list[Message]:
        return [attrs.evolve(message, role="user") for message in super()._messages(session_id)]


class PathsKnowNoSize(MemoryStore):
    async def load_path(self, session_id: SessionId, message_id: MessageId, *, max_chars: int) -> tuple[Message, ...]:
        return await super().load_path(session_id, message_id, max_chars=10**9)


class FindsNoLeaves(MemoryStore):
    async def newest_leaf(self, session_id: SessionId, message_id: MessageId) -> MessageId | None:
        return message_id if await super().newest_leaf(session_id, message_id) is not None else None


class FindsAnyWord(MemoryStore):
    async def search(self, text: str, *, limit: int) -> tuple[SearchHit, ...]:
        hits = [hit for word in text.split() for hit in await super(FindsAnyWord, self).search(word, limit=limit)]
        return tuple(dict.fromkeys(hits))[:limit]


class ChokesOnQuotes(MemoryStore):
    async def search(self, text: str, *, limit: int) -> tuple[SearchHit, ...]:
        if text.count('"') % 2:
            raise ValueError("unterminated string")
        return await super().search(text, limit=limit)


class KnowsNamesByTheirSound(MemoryStore):
    async def load(self, session_id: SessionId) -> StoredSession | None:
        return await super().load(SessionId(session_id.strip().lower()))


class KeepsAnOldList(MemoryStore):
    async def list_sessions(self) -> tuple[SessionSummary, ...]:
        return tuple(attrs.evolve(summary, queued=0) for summary in await super().list_sessions())


class ListsNewestFirst(MemoryStore):
    def _list(self) -> tuple[SessionSummary, ...]:
        return tuple(reversed(super()._list()))


class ListsLate(MemoryStore):
    async def list_sessions(self) -> tuple[SessionSummary, ...]:
        return (await super().list_sessions())[:-1]


class LoadsAnOldState(MemoryStore):
    async def load(self, session_id: SessionId) -> StoredSession | None:
        stored = await super().load(session_id)
        return attrs.evolve(stored, events=stored.events[: len(stored.events) // 50 * 50 or None]) if stored else None


class CutsLongTexts(MemoryStore):
    async def journal(self, session_id: SessionId) -> AsyncIterator[tuple[SessionEvent, ...]]:
        yield tuple(event for event in self.events_of(session_id) if len(encode(event)) < 1_000_000)


class LosesResultsOfEarlierRuns(MemoryStore):
    @asynccontextmanager
    async def open(self) -> AsyncGenerator[OpenedStore]:
        for session_id, events in self._events.items():
            self._events[session_id] = [each for each in events if not isinstance(each.event, ev.ToolCallFinished)]
        async with super().open() as opened:
            yield opened


class SharesValues(MemoryStore):
    async def kv_get(self, owner: str, key: str) -> Any:
        found = [await super(SharesValues, self).kv_get(each, key) for each in self._values]
        return next((each for each in found if each is not None), None)


class MatchesAnywhere(MemoryStore):
    async def kv_list(self, owner: str, prefix: str = "") -> tuple[str, ...]:
        return tuple(key for key in await super().kv_list(owner) if prefix in key.casefold())


class SaysKeptTooEarly(MemoryStore):
    async def kv_set(self, owner: str, key: str, value: Any) -> None:
        await super().kv_set(owner, key, value)
        self.late = self._values.pop(owner)


class LosesParallelChanges(MemoryStore):
    """Reads all values of an owner, changes one, and writes all of them back."""

    async def kv_set(self, owner: str, key: str, value: Any) -> None:
        before = dict(self._values.get(owner, {}))
        await super().kv_set(owner, key, value)
        self._values[owner] = {**before, key: self._values[owner][key]}


class SharesLeaves(MemoryStore):
    async def load_leaves(self, session_id: SessionId, digests: Collection[str]) -> Mapping[str, bytes]:
        found = [await super(SharesLeaves, self).load_leaves(each, digests) for each in self._leaves]
        return {digest: data for each in found for digest, data in each.items()}


class KeepsLeavesForGood(MemoryStore):
    def append(self, event: SessionEvent) -> None:
        kept = {session_id: dict(leaves) for session_id, leaves in self._leaves.items()}
        super().append(event)
        self._leaves = kept


class BringsSessionsBackByLeaves(MemoryStore):
    def keep_leaves(self, session_id: SessionId, leaves: Mapping[str, bytes]) -> None:
        super().keep_leaves(session_id, leaves)
        self._leaves.setdefault(session_id, {}).update(leaves)


class BelievesDigests(MemoryStore):
    def keep_leaves(self, session_id: SessionId, leaves: Mapping[str, bytes]) -> None:
        self._leaves.setdefault(session_id, {}).update(leaves)


class KeepsLeavesLate(MemoryStore):
    """Holds leaves back until somebody waits, when the event that names them is long durable."""

    def __init__(self) -> None:
        super().__init__()
        self.late: list[tuple[SessionId, Mapping[str, bytes]]] = []

    def keep_leaves(self, session_id: SessionId, leaves: Mapping[str, bytes]) -> None:
        self.late.append((session_id, leaves))

    async def wait_durable(self, seq: int) -> None:
        for session_id, leaves in self.late:
            super().keep_leaves(session_id, leaves)
        self.late.clear()
        await super().wait_durable(seq)


class KeepsAnyNumber(MemoryStore):
    async def kv_set(self, owner: str, key: str, value: Any) -> None:
        try:
            await super().kv_set(owner, key, value)
        except InvalidInput as error:
            if "delete some" not in error.message:
                raise
