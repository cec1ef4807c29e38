"""A conversation as blocks, rebuilt from the session's state as it changes.

Rules:
1. An unchanged block is the same object as before, so drawing can compare by identity; if no block has changed, the
   tuple of all is the same too.
2. Every block has a key that stays the same while it grows: a streaming text and the finished text are one block.
3. Only what can have changed is rebuilt: growing text, running calls, new messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from operator import is_
from typing import Final, TypeVar

import attrs

import session_core as sc
from frontends.shared.conversation.blocks import (
    AnswerBlock,
    Block,
    EntryBlock,
    Results,
    ToolBlock,
    build_ending,
    build_message_blocks,
    find_siblings,
    growing_block,
    pair_results,
)

B = TypeVar("B", bound=Block)


@attrs.frozen(kw_only=True)
class _CallTime:
    """When a call began, and when it ended if that was observed."""

    started_at: int
    ended_at: int | None = None


@attrs.define(eq=False)
class _MessageBlocks:
    """The blocks of one message, and what they were built from."""

    message: sc.Message
    branches: tuple[sc.MessageId, ...]
    results: Results
    blocks: tuple[Block, ...]


@attrs.define(eq=False)
class _History:
    """The messages up to the head as blocks, split around the newest one that calls tools.

    Attributes:
        known: What it was built from.
        calling: The newest message with tool calls; its blocks depend on the state of those calls.
        results: The results of its calls that are part of the conversation, since `answered_at`.
    """

    known: tuple[object, ...]
    before: tuple[Block, ...] = ()
    calling: sc.Message | None = None
    results: Results = attrs.field(factory=dict)
    answered_at: int = 0
    after: tuple[Block, ...] = ()


class BlockBuilder:
    """Builds the blocks of one session; `older` are the messages before its window, oldest first."""

    def __init__(self) -> None:
        self.older: list[sc.Message] = []
        self._made: dict[sc.MessageId, _MessageBlocks] = {}
        self._history = _History(())
        self._live: tuple[tuple[object, ...], tuple[Block, ...], tuple[Block, ...]] = ((), (), ())
        self._times: dict[sc.CallId, _CallTime] = {}
        self._known_blocks: dict[str, Block] = {}
        self._all: tuple[Block, ...] = ()

    def build_blocks(
        self, state: sc.SessionState, extensions: Sequence[sc.extensions.ExtensionInfo] = ()
    ) -> tuple[Block, ...]:
        """Return all blocks, oldest first; `extensions` provide the templates of their entries."""
        history = self._build_history(state, extensions)
        calling, alone = self._build_tools(state, history)
        ending = build_ending(state)
        last = (*self._build_partial(state), *(() if ending is None else (ending,)))
        blocks = (*history.before, *calling, *history.after, *alone, *map(self._keep, last))
        if len(blocks) != len(self._all) or not all(map(is_, blocks, self._all)):
            self._all = blocks
        return self._all

    def _keep(self, block: B) -> B:
        """Return the block with this key that was built before, if it is equal."""
        before = self._known_blocks.get(block.key)
        if isinstance(before, type(block)) and before == block:
            return before
        self._known_blocks[block.key] = block
        return block

    # --- messages -----------------------------------------------------------------------------------------------------

    def _build_history(self, state: sc.SessionState, extensions: Sequence[sc.extensions.ExtensionInfo]) -> _History:
        templates = _templates(extensions)
        known = (state.head, state.messages, len(self.older), state.entries, state.earlier, *templates.values())
        before = self._history.known
        if len(known) == len(before) and known[0] == before[0] and all(map(_is_same, known, before)):
            return self._history
        self._known_blocks = {each.key: each for each in self._all}  # forget those that are shown no more
        path = self._path(state)
        branches = find_siblings(chain(self.older, state.messages))
        calling = next((index for index in range(len(path) - 1, -1, -1) if path[index].tool_calls), None)
        answered = pair_results(path)
        history = _History(known)
        if calling is not None:
            history.calling, history.results = path[calling], answered.get(path[calling].message_id, {})
            history.answered_at = max((each.created_at for each in path[calling:] if each.role == "tool"), default=0)
        entries = iter(self._build_entries(state, templates, path))
        entry = next(entries, None)
        pieces: list[Block] = []
        made: dict[sc.MessageId, _MessageBlocks] = {}
        # Merge entries and messages by time. The calling message is skipped: `_build_tools` makes its blocks each time.
        for index, message in enumerate(path):
            while entry is not None and entry.entry.at < message.created_at:
                pieces.append(entry)
                entry = next(entries, None)
            if index == calling:
                history.before, pieces = tuple(pieces), []
                continue
            each = self._build_message(message, branches, answered)
            made[message.message_id] = each
            pieces += each.blocks
        pieces += [] if entry is None else [entry, *entries]
        if calling is None:
            history.before = tuple(pieces)
        else:
            history.after = tuple(pieces)
        self._made, self._history = made, history
        return history

    def _build_message(
        self,
        message: sc.Message,
        branches: Mapping[sc.MessageId | None, tuple[sc.MessageId, ...]],
        answered: Mapping[sc.MessageId, Results],
    ) -> _MessageBlocks:
        siblings = branches.get(message.parent_id, ()) if message.role == "user" else ()
        results = answered.get(message.message_id, {})
        cached = self._made.get(message.message_id)
        if cached is not None and cached.message is message and cached.branches == siblings:
            if cached.results.keys() == results.keys():
                return cached
        built = build_message_blocks(message, results, branches=siblings)
        made = (self._follow_call(each, {}, frozenset()) for each in built)
        return _MessageBlocks(message, siblings, results, tuple(map(self._keep, made)))

    def _path(self, state: sc.SessionState) -> tuple[sc.Message, ...]:
        path = state.transcript
        if not self.older or (state.head is not None and not path):
            return path
        wanted, before = (path[0].parent_id if path else None), list[sc.Message]()
        for message in reversed(self.older):
            if wanted is not None and message.message_id == wanted:
                before.append(message)
                wanted = message.parent_id
        return (*reversed(before), *path)

    def _build_entries(
        self, state: sc.SessionState, templates: Mapping[tuple[str, str], sc.JsonObject], path: Sequence[sc.Message]
    ) -> Iterator[EntryBlock]:
        """Yield entries that have a template, by time; those older than the loaded messages are left out."""
        since = path[0].created_at if path and state.earlier > len(self.older) else None
        count: dict[tuple[str, int], int] = {}
        for entry in sorted(state.entries, key=lambda each: each.at):
            tag = entry.entry.get("tag")
            template = templates.get((entry.extension, tag)) if isinstance(tag, str) else None
            if template is None or (since is not None and entry.at < since):
                continue
            number = count[entry.extension, entry.at] = count.get((entry.extension, entry.at), 0) + 1
            key = f"entry/{entry.extension}/{entry.at}/{number}"
            yield self._keep(EntryBlock(key=key, entry=entry, template=template))

    # --- running calls ------------------------------------------------------------------------------------------------

    def _build_tools(self, state: sc.SessionState, history: _History) -> tuple[tuple[Block, ...], tuple[Block, ...]]:
        """Return the blocks of the newest message with calls, and those of calls that belong to no message."""
        known = (history, state.tools, state.approvals)
        if len(self._live[0]) == len(known) and all(map(is_, known, self._live[0])):
            return self._live[1:]
        asked = {each.call_id for each in state.approvals if each.session_id is None}
        live = {each.call_id: each for each in state.tools}
        self._note_times(state, history, live)
        calling = () if history.calling is None else build_message_blocks(history.calling, history.results)
        of_calling = tuple(self._keep(self._follow_call(each, live, asked)) for each in calling)
        called = () if history.calling is None else {call.call_id for call in history.calling.tool_calls}
        others = (
            ToolBlock(key=f"call/{tool.call_id}", name=tool.name, call_id=tool.call_id, arguments=tool.arguments)
            for tool in state.tools
            if tool.call_id not in called or tool.call_id in history.results
        )
        alone = tuple(self._keep(self._follow_call(each, live, asked)) for each in others)
        self._live = (known, of_calling, alone)
        return of_calling, alone

    def _follow_call(self, block: Block, live: Mapping[sc.CallId, sc.LiveTool], asked: AbstractSet[sc.CallId]) -> Block:
        """Add to a call without a result how it stands now, and to one that was observed how long it took."""
        if not isinstance(block, ToolBlock) or block.call_id is None:
            return block
        tool = live.get(block.call_id) if block.result is None else None
        result = block.result if tool is None else tool.result
        time = self._times.get(block.call_id)
        took = time.ended_at - time.started_at if time is not None and time.ended_at is not None else None
        return attrs.evolve(
            block,
            live=tool,
            result=result,
            asked=block.result is None and block.call_id in asked,
            took_ms=None if took is None or result is None else max(0, took),
            child_id=block.child_id if tool is None else tool.child_id,
        )

    def _note_times(self, state: sc.SessionState, history: _History, live: Mapping[sc.CallId, sc.LiveTool]) -> None:
        """Record when calls began and ended, as their results do not say."""
        if len(self._times) > _MAX_REMEMBERED_CALLS:
            self._times.clear()
        for call_id, tool in live.items():
            time = self._times.get(call_id)
            if time is None or time.started_at != tool.started_at:
                time = self._times[call_id] = _CallTime(started_at=tool.started_at)
            if tool.result is not None and time.ended_at is None:
                self._times[call_id] = _CallTime(started_at=tool.started_at, ended_at=state.updated_at)
        for call_id in history.results:
            time = self._times.get(call_id)
            if time is not None and time.ended_at is None:
                self._times[call_id] = _CallTime(started_at=time.started_at, ended_at=history.answered_at)

    # --- streaming text -----------------------------------------------------------------------------------------------

    def _build_partial(self, state: sc.SessionState) -> Iterator[Block]:
        if state.partial is None:
            return
        last = len(state.partial.parts) - 1
        for index, part in enumerate(state.partial.parts):
            text = str(state.growing if index == last and state.growing is not None else part.text)
            block = growing_block(f"{state.partial.message_id}/{index}", part, text, growing=index == last)
            if text or not isinstance(block, AnswerBlock):
                yield block


_MAX_REMEMBERED_CALLS: Final = 5_000
"""The most call times kept; then all are dropped."""


def _is_same(one: object, other: object) -> bool:
    return one is other or (isinstance(one, int | str) and one == other)


def _templates(extensions: Sequence[sc.extensions.ExtensionInfo]) -> dict[tuple[str, str], sc.JsonObject]:
    return {(each.name, renderer.tag): renderer.template for each in extensions for renderer in each.renderers}
