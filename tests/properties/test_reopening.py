"""Any interleaving of commands, crashes and reopenings ends in the state of a fresh replay, with all that was promised.

A crash is a copy of the store's files, taken while the service runs and between two commits: what a kill would leave.
"""

import itertools
import shutil
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Literal

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from session_core import limits
from session_core.errors import NotFound
from session_core.ids import now_ms
from session_core.service.config import ServiceConfig
from session_core.service.idempotency import QUOTING
from session_core.service.service import SessionService, open_session_service
from session_core.storage.files import MARK_FILE, STORE_FILE
from session_core.storage.home import prepare_home
from session_core.storage.sqlite import SqliteStore
from session_core.storage.writer import Batch, Writer
from session_core.testing.scripted import (
    Hang,
    ScriptedAnswer,
    ScriptedProvider,
    ScriptedTool,
    TaskSwitch,
    text,
    tool_calls,
)
from session_core.vocabulary.events import WakeupFired
from tests.durability._clients import ACTIONS, Promises, RandomClient, Shared
from tests.durability._evidence import check_kept
from tests.durability._kept import check_at_rest, check_consistent, check_home, check_live, read_all

Turning = Literal["crash", "reopen", "pause"]
COMMANDS = sorted(set(ACTIONS) - {"ask"})  # a question would still be waiting when the next command is due


@attrs.frozen
class Move:
    """One thing that happens; what exactly is drawn from `pick`."""

    what: str
    pick: int


TURNINGS: Sequence[Turning] = ("crash", "reopen", "pause")
moves = st.builds(Move, st.sampled_from((*COMMANDS, *("send",) * 5, *TURNINGS)), st.integers(0, 255))
programs = st.lists(moves, max_size=14) | st.lists(moves, min_size=8, max_size=14)


class CopiedStore(SqliteStore):
    """A store whose files can be copied between two commits, as a crash would leave them."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self._quiet = threading.Lock()

    def _write(self, batch: Batch) -> None:
        with self._quiet:
            super()._write(batch)

    def _open_writer(self) -> Writer:
        writer = super()._open_writer()
        wipe = writer.wipe_traces

        def wipe_quietly() -> bool:
            with self._quiet:
                return wipe()

        writer.wipe_traces = wipe_quietly  # type: ignore[method-assign]
        return writer

    def crash_into(self, home: Path) -> None:
        """Make a home that holds what this one would hold if the process were gone now."""
        prepare_home(home)
        with self._quiet:
            for name in (STORE_FILE, f"{STORE_FILE}-wal", MARK_FILE):
                if (self.home / name).exists():
                    shutil.copyfile(self.home / name, home / name)


def answers() -> Iterator[ScriptedAnswer]:
    """Answers of all kinds, none of which takes time."""
    kinds: tuple[ScriptedAnswer, ...] = (
        text("a short answer", thinking="hm"),
        (*text("and then")[:1], TaskSwitch(), TaskSwitch(), *text(" it ends")),
        tool_calls(("look", {}), ("change", {})),
        (*text("never ")[:1], Hang()),
    )
    return itertools.islice(itertools.cycle(kinds), 200)


def config_on(store: SqliteStore, stay_ms: int) -> ServiceConfig:
    provider = ScriptedProvider(*answers())
    return ServiceConfig(
        models={"quick": provider, "other": provider},
        tools=(ScriptedTool("look"), ScriptedTool("change", effects=("write",))),
        cwd="/",
        store=store,
        session_stay_ms=stay_ms,
    )


class Lives:
    """A service that is crashed and reopened again and again, and what its one client was promised."""

    def __init__(self, homes: Iterator[Path], *, stay_ms: int) -> None:
        self._homes = homes
        self._home = next(homes)
        self._stay_ms = stay_ms
        self._shared = Shared()
        self.promises = Promises()

    async def play(self, program: Sequence[Move]) -> None:
        """Live through a program."""
        rest = iter(program)
        while (turning := await self._one_life(rest)) is not None:
            assert turning in TURNINGS

    async def _one_life(self, rest: Iterator[Move]) -> str | None:
        """Go on until the next crash or reopening; returns which it was, or None at the end."""
        store = CopiedStore(self._home)
        opened_at = now_ms()
        async with open_session_service(config_on(store, self._stay_ms)) as service:
            await self._check_opened(service, store, opened_at)
            client = RandomClient(service, "client", self._shared, self.promises)
            for move in rest:
                match move.what:
                    case "reopen":
                        return move.what
                    case "crash":
                        self._home = next(self._homes)
                        store.crash_into(self._home)
                        return move.what
                    case "pause":
                        for _ in range(move.pick % 16):
                            await trio.lowlevel.checkpoint()
                    case _:
                        await client.perform(move.what, Random(move.pick))
        return None

    async def _check_opened(self, service: SessionService, store: SqliteStore, opened_at: int) -> None:
        """Prove that all promises hold, that nothing runs but what was woken, and that a retry does nothing."""
        for sent, reply in self.promises.kept:
            if sent.key is not None:
                try:
                    again = await service.execute(sent.command, idempotency_key=sent.key, client_id=sent.client_id)
                except NotFound:  # what quotes a deleted session is deleted with it
                    assert isinstance(reply, QUOTING)
                else:
                    assert again == reply
        kept = await read_all(store)
        check_kept(self.promises, kept)
        for session in kept.values():
            if not any(isinstance(e.event, WakeupFired) and e.at >= opened_at for e in session.events):
                check_at_rest(session)
        await check_live(service, kept)
        self._shared.sessions = list(kept)

    async def check_end(self) -> None:
        """Prove that a fresh replay gives what every session goes on from, with all that was promised."""
        store = SqliteStore(self._home)
        async with store.open():
            kept = await check_consistent(store)
        check_kept(self.promises, kept)
        for session in kept.values():
            check_at_rest(session)
        check_home(self._home)


_numbers = itertools.count()


@given(program=programs, stay_ms=st.sampled_from([1, 60_000]), narrow=st.booleans(), rnd=st.random_module())
async def test_crashes_and_reopenings(
    *,
    program: list[Move],
    stay_ms: int,
    narrow: bool,
    rnd: object,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Commands, crashes and reopenings in any order: the state is the replay of the journal, and nothing is lost."""
    place = tmp_path / str(next(_numbers))
    lives = Lives((place / str(number) for number in itertools.count()), stay_ms=stay_ms)
    with monkeypatch.context() as patched:
        if narrow:  # so that states are saved, and messages leave memory, within a short program
            patched.setattr(limits, "WINDOW_MESSAGES", 6)
            patched.setattr(limits, "STATE_EVERY_EVENTS", 8)
        with trio.fail_after(300):  # an example takes a fraction of a second: who is not done by then hangs
            await lives.play(program)
            await lives.check_end()
    shutil.rmtree(place)
