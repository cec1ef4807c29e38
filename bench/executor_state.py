"""How much is written to save an executor's state when one small part of a large state has changed."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import trio

from bench.measure import Result
from bench.store_material import add_session, open_core, scratch_directory
from session_core.protocols.execution import StateCapture, split_state
from session_core.session.session import Session
from session_core.storage.files import store_file
from session_core.storage.sqlite import SqliteStore
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.protocols import ExecutorState

STATE_BYTES = 1024 * 1024
PARTS = 300
CHANGED_BYTES = 1024
ALLOWED_BYTES = 64 * 1024
COMMITS = 40
"""Enough commits to include some that also save the session's state, about one in a few dozen."""


def measure_executor_state() -> Result:
    """Saving a large state with a small change writes little."""
    return trio.run(_commits, PARTS, COMMITS)


async def _commits(parts: int, commits: int) -> Result:
    written: list[int] = []
    with scratch_directory() as home:
        async with open_core(SqliteStore(home)) as core:
            session, state = add_session(core), _State(parts)
            first = await _written_by(home, session, state.capture())
            for _ in range(commits):
                state.change()
                written.append(await _written_by(home, session, state.capture()))
    return Result(
        name="executor_state",
        title="bytes written to keep a state of 1 MiB of which 1 KiB has changed / bytes of the state",
        ratio=sum(written) / len(written) / STATE_BYTES,
        target=ALLOWED_BYTES / STATE_BYTES,
        comparison="at most",
        details={
            "parts of the state": parts,
            "the first time, bytes": first,
            "after a change, bytes": sum(written) / len(written),
            "after a change, most bytes": max(written),
        },
    )


class _State:
    """The state of an executor: many constant parts, and a small one that changes."""

    def __init__(self, parts: int) -> None:
        self._random = random.Random(1)
        each = (STATE_BYTES - CHANGED_BYTES) // (parts - 1)
        self._parts = {f"variable_{number}": self._random.randbytes(each) for number in range(1, parts)}
        self._known: frozenset[str] = frozenset()
        self.change()

    def change(self) -> None:
        """Change the small part."""
        self._parts["counter"] = self._random.randbytes(CHANGED_BYTES)

    def capture(self) -> StateCapture:
        """Capture the current state."""
        _, leaves, new = split_state(self._parts, self._known)
        self._known = frozenset(leaf.digest for leaf in leaves)
        return StateCapture(
            state=ExecutorState(engine="measured", version=1, root=JsonObject(), leaves=leaves), new=new
        )


async def _written_by(home: Path, session: Session, capture: StateCapture) -> int:
    """Save a state as the end of a turn does; return how many bytes the write-ahead log has grown."""
    await trio.to_thread.run_sync(_empty_log, home)
    session.keep_leaves(capture.new)
    session.record(ev.ExecutorStateSaved(state=capture.state))
    await session.wait_until_durable()
    log = trio.Path(f"{store_file(home)}-wal")
    return (await log.stat()).st_size


def _empty_log(home: Path) -> None:
    with closing(sqlite3.connect(store_file(home), isolation_level=None)) as connection:
        (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert not busy
