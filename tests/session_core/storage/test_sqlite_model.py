"""Random conversations, kept by the SQLite store and by a naive model: both must tell the same."""

import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import Literal, get_args

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from session_core import limits
from session_core.ids import CallId, SessionId
from session_core.storage.sqlite import SqliteStore
from session_core.testing.check_store_world import LiveSessions, check_loads, open_live_sessions, read_journal
from session_core.vocabulary import events as ev

FEW = max(settings.default.max_examples // 10, 10) if settings.default else 10  # each writes to a disk
Kind = Literal["say", "answer", "compact", "switch", "clear", "import", "edit", "stream", "pause", "durable"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@attrs.frozen(kw_only=True)
class Move:
    """One thing that happens in one of the sessions; `pick` and `size` choose among what there is."""

    kind: Kind
    session: int
    pick: int
    size: int


moves = st.builds(
    Move,
    kind=st.sampled_from(KINDS),
    session=st.integers(0, 1),
    pick=st.integers(0, 100),
    size=st.integers(0, 40),
)
runs = st.lists(st.lists(moves, max_size=25), min_size=1, max_size=3)
"""Several runs of a service, one after the other on the same store."""


class Player:
    """Plays moves in the sessions of one run."""

    def __init__(self, live: LiveSessions, sessions: list[SessionId]) -> None:
        self.live = live
        self.sessions = sessions

    async def play(self, move: Move) -> None:
        """Let it happen, if it can happen now."""
        live, session_id = self.live, self.sessions[move.session]
        if move.kind == "pause":
            await trio.lowlevel.checkpoint()
        elif move.kind == "durable":
            await live.wait_durable()
        elif calls := self.open_calls(session_id):
            self._work(session_id, move, calls)
        else:
            self._talk(session_id, move)

    def open_calls(self, session_id: SessionId) -> list[CallId]:
        """The calls of the head that wait for their results; nothing else happens in a session meanwhile."""
        state = self.live.states[session_id]
        head = state.find_message(state.head)
        return [call.call_id for call in head.tool_calls] if head is not None and head.role == "assistant" else []

    def _work(self, session_id: SessionId, move: Move, calls: list[CallId]) -> None:
        finished = {tool.call_id: tool.result for tool in self.live.states[session_id].tools if tool.result is not None}
        missing = [call for call in calls if call not in finished]
        if missing:
            self.live.finish_call(session_id, missing[move.pick % len(missing)], "word " * move.size)
        else:
            self.live.commit_results(session_id, [finished[call] for call in calls])

    def _talk(self, session_id: SessionId, move: Move) -> None:
        live, messages, text = self.live, self.live.messages[session_id], "word " * move.size
        match move.kind:
            case "compact":
                live.say(session_id, text, role="summary")
            case "answer":
                live.answer(session_id, text, calls=[f"c{number}" for number in range(move.pick % 4)])
            case "switch" if messages:
                live.go_to(session_id, messages[move.pick % len(messages)].message_id)
            case "clear":
                live.record(session_id, ev.ContextCleared())
            case "import" | "edit" if messages:
                chosen = messages[move.pick % len(messages)].message_id
                live.bring_back(session_id, live.path(session_id, chosen, 50 * move.size))
                if move.kind == "edit":
                    live.say(session_id, text)
            case "stream":
                message_id = live.start_answer(session_id)
                live.record(session_id, ev.PartDelta(message_id=message_id, text=text))
                live.answer(session_id, text, message_id=message_id)
            case _:
                live.say(session_id, text)

    async def check(self, pick: int) -> None:
        """Compare everything that can be asked with the model."""
        live, store = self.live, self.live.store
        for session_id in self.sessions:
            await check_loads(live, session_id)
            assert live.expected_journal(session_id) == await read_journal(store, session_id)
            everything = tuple(live.messages[session_id])
            for before, limit in ((len(everything), 5), (pick, 3), (len(everything) // 2, 100), (pick, pick)):
                page = await store.load_messages(session_id, before=before, limit=limit)
                end = min(before, len(everything))
                assert everything[max(0, end - limit) : end] == page.messages
            for message in everything:
                found = await store.load_path(session_id, message.message_id, max_chars=pick * 5)
                assert live.path(session_id, message.message_id, pick * 5) == found
                leaf = await store.newest_leaf(session_id, message.message_id)
                assert live.newest_leaf(session_id, message.message_id) == leaf


@given(runs, st.integers(0, 60), st.random_module())
@settings(max_examples=FEW)
async def test_the_store_tells_what_the_model_tells(play: list[list[Move]], pick: int, rnd: object) -> None:
    """Whatever happens in several runs, loading, pages and paths are what a naive reading of all events gives."""
    home = Path(mkdtemp())
    earlier: LiveSessions | None = None
    sessions: list[SessionId] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "STATE_EVERY_EVENTS", 7)
        patch.setattr(limits, "WINDOW_MESSAGES", 6)
        try:
            for run in play:
                async with open_live_sessions(SqliteStore(home)) as live:
                    if earlier is None:
                        sessions = [live.create("one"), live.create("two")]
                    else:
                        for session_id in sessions:
                            await live.load_session(session_id, earlier)
                    player = Player(live, sessions)
                    for move in run:
                        await player.play(move)
                    await player.check(pick)
                    earlier = live
        finally:
            shutil.rmtree(home)
