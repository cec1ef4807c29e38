"""The measurements of the store: their material is what a service really makes, and each case measures something."""

import math
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from bench import __main__ as program
from bench import executor_state, journal, store_growth, store_material, store_reading
from bench.measure import Result
from bench.store_material import PIECE, PIECES, Conversation, add_session, open_core, write_long_session
from session_core.providers.base import ModelFinished, TextChunk, ToolCallChunk, ToolCallOpened
from session_core.service.config import ServiceConfig
from session_core.service.service import open_session_service
from session_core.session.restore import restore
from session_core.storage.base import StoredSession
from session_core.storage.memory import MemoryStore
from session_core.storage.sqlite import SqliteStore
from session_core.storage.sqlite_reader import SqliteReader
from session_core.testing.scripted import ScriptedProvider, ScriptedTool
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.messages import TextPart


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep everything that is measured within the test's own folder."""
    place = tmp_path / "scratch"
    monkeypatch.setattr(store_material, "SCRATCH", place)
    return place


def files_in(place: Path) -> list[Path]:
    """List a folder."""
    return list(place.iterdir())


class ListeningStore(MemoryStore):
    """Notes the kind of every event, passing ones too."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []

    def append(self, event: SessionEvent) -> None:
        """Take an event over."""
        super().append(event)
        self.heard.append(type(event.event).__name__)


async def test_turns_are_those_of_an_agent() -> None:
    """A made-up turn leaves the same kinds of events in the same order as an agent's turn of this shape."""
    words = (TextChunk(text=PIECE),) * PIECES
    call = (ToolCallOpened(name="read_file"), ToolCallChunk(text='{"path": '), ToolCallChunk(text='"x"}'))
    model = ScriptedProvider((*words, *call, ModelFinished()), (*words, ModelFinished()))
    real, made = ListeningStore(), ListeningStore()
    config = ServiceConfig(models={"m": model}, tools=(ScriptedTool("read_file"),), store=real, cwd="/")
    async with open_session_service(config) as service:
        session_id = (await service.create_session()).session_id
        sent = await service.send_user_message(session_id, "Look at this.")
        await service.wait_for_turn(session_id, sent.turn_id)
    async with open_core(made) as core:
        session = add_session(core)
        for event in Conversation().turn((TextPart(text="Look at this."),), ["done"]):
            session.record(event)
        session.close_work("completed")

    assert real.heard == made.heard
    assert "TurnEnded" in made.heard


async def test_long_sessions_are_whole(tmp_path: Path) -> None:
    """A long session is as large as it should be, at rest, and reads back with every message in one line."""
    turns = 2
    async with open_core(SqliteStore(tmp_path)) as core:
        session_id = await write_long_session(core, turns)
        left = core.sessions[session_id].state
    reader = SqliteReader(tmp_path)
    async with reader.open_reader():
        events = [event async for page in reader.journal(session_id) for event in page]
    state = restore(session_id, StoredSession(snapshot=None, events=tuple(events)))

    assert list(state.messages) == list(left.messages)
    assert len(state.transcript) == turns * 2 * (1 + store_material.TOOL_CALLS)
    assert ("idle", None) == (state.activity.name, state.turn)
    assert store_reading.read_file(tmp_path / "sessions.sqlite3") > turns * 300_000


async def test_plain_rows_are_durable_one_by_one(tmp_path: Path) -> None:
    """What durable commands are compared with writes exactly the rows it should, with a log as the store has it."""
    file = tmp_path / "plain.sqlite3"
    async with journal.plain_inserts(file, 7) as insert:
        await insert()
        await insert()
        with closing(sqlite3.connect(file)) as onlooker:
            found = onlooker.execute("SELECT count(*), min(length(payload)) FROM kept").fetchone()
            mode = onlooker.execute("PRAGMA journal_mode").fetchone()

    assert (14, "wal") == (found[0], mode[0])
    assert found[1] > 150


def test_files_are_listed_with_their_sizes(tmp_path: Path) -> None:
    """The list that a store's is compared with names every file and has looked at each."""
    for number in (2, 1):
        (tmp_path / f"{number}").write_bytes(b"x" * number)

    assert [("1", 1), ("2", 2)] == [(name, size) for name, size, _ in store_reading.scan_files(tmp_path)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "case"),
    [
        ("journal", partial(journal._journal, 2, 1)),
        ("durable", partial(journal._durable, 100, 1)),
        ("reopen", partial(store_reading._reopen, 2, 1)),
        ("listing", partial(store_reading._listing, 20, 1)),
        ("steps", partial(store_growth._steps, 100, 1)),
        ("executor_state", partial(executor_state._commits, 20, 3)),
    ],
)
async def test_cases_measure_something(name: str, case: Callable[[], Awaitable[Result]], scratch: Path) -> None:
    """Each case, in small, gives a ratio and figures that were really measured, and leaves no file behind."""
    result = await case()

    assert (name, True) == (result.name, name in program.CASES)
    assert all(figure > 0 and math.isfinite(figure) for figure in (result.ratio, *result.details.values()))
    assert [] == files_in(scratch)


@pytest.mark.slow
def test_sessions_that_left_weigh_less() -> None:
    """The scales for memory see that a session takes much more while it is in memory than after it left."""
    weight = store_growth._traced(20)

    assert weight.resident > 10_000
    assert weight.resident > 3 * weight.away > 0
