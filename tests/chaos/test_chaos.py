"""Everything at once: bad lines, slow readers, programs and a server that are killed."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

import attrs
import pytest
import trio

import session_core as sc
from frontends.client import SessionClient, open_client
from frontends.shared.socket_path import socket_path_of_home
from tests.chaos import _chaos_server
from tests.chaos._actors import Tempo, Watcher, Writer
from tests.chaos._proxy import FaultyProxy

ROOT = Path(__file__).parents[2]
SESSIONS = 3
_SETTLE_S = 600.0
_PATIENCE_S = 600.0


async def _start(home: Path) -> trio.Process:
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", _chaos_server.__name__, str(home)], cwd=ROOT, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert b"ready\n" == bytes(await process.stdout.receive_some(100))
    return process


async def _kill(process: trio.Process) -> None:
    process.kill()
    with trio.CancelScope(shield=True):
        await process.wait()
        assert process.stdout is not None
        await process.stdout.aclose()


@attrs.define(eq=False)
class _Victim:
    """The server, which is killed now and then."""

    home: Path
    process: trio.Process
    longest_life_s: float
    tempo: Tempo
    kills: int = 0

    async def suffer(self, random: Random, seconds: float, enough: Callable[[], bool]) -> None:
        """Be killed for so many seconds, and on a slow machine ever more slowly until it was enough."""
        end = trio.current_time() + seconds
        while True:
            pause = random.uniform(self.longest_life_s / 2, self.longest_life_s) * self.tempo.factor
            left = end - trio.current_time()
            if left <= pause and (enough() or left <= -_PATIENCE_S):
                return
            if left < 0:
                self.tempo.slow_down()
            await trio.sleep(pause)
            await _kill(self.process)
            self.kills += 1
            await trio.sleep(random.uniform(0, 0.5))
            self.process = await _start(self.home)


async def _at_rest(client: SessionClient, session_ids: list[sc.SessionId]) -> None:
    for session_id in session_ids:
        await client.request_stop(session_id, scope="session", queue="keep")


def _said(parts: Iterable[object]) -> str:
    return "".join(part.text for part in parts if isinstance(part, sc.TextPart))


async def _texts(client: SessionClient, session_id: sc.SessionId) -> Counter[str]:
    """All that was said in a session, with what still waits to be, and how often."""
    snapshot = await client.load_session(session_id)
    texts = Counter(_said(item.parts) for item in snapshot.queue)
    before: int | None = None
    while before != 0:
        page = await client.load_messages(session_id, before=before, limit=100)
        texts.update(_said(message.parts) for message in page.messages)
        before = page.first
    return texts


async def _converged(watcher: Watcher, client: SessionClient) -> None:
    """Wait until a watcher shows what the server has."""
    while True:
        fresh = (
            await client.load_service() if watcher.session_id is None else await client.load_session(watcher.session_id)
        )
        if watcher.state is not None and watcher.seen(fresh.cursor) == fresh:
            return
        await trio.sleep(0.1)


def lacking(victim: _Victim, proxy: FaultyProxy, writers: list[Writer], watchers: list[Watcher]) -> list[str]:
    """What has not happened yet, or not often enough."""
    reasons = sum((watcher.reasons for watcher in watchers), Counter[str]())
    happened = {
        "kills": victim.kills >= 2,
        "cuts": proxy.cuts > 5,
        "stalls": proxy.stalls > 5,
        "messages": sum(len(writer.acknowledged) for writer in writers) > 3 * victim.kills,
        "programs": sum(watcher.programs for watcher in watchers) > 2 * len(watchers),
        "replays": sum(watcher.replayed for watcher in watchers) > 0,
        **{reason: reasons[reason] > 0 for reason in ("initial", "lagged", "foreign_epoch")},
    }
    return [what for what, has in happened.items() if not has]


async def _chaos(folder: Path, seed: int, *, seconds: float, watchers_count: int, longest_life_s: float) -> None:
    random, home, proxied = Random(seed), folder / "home", folder / "proxied"
    tempo = Tempo()
    victim = _Victim(home, await _start(home), longest_life_s, tempo)
    proxy = FaultyProxy(socket_path_of_home(home), Random(random.random()))
    try:
        async with (
            open_client(home=home, wait_s=_PATIENCE_S, patience_s=_PATIENCE_S) as direct,
            trio.open_nursery() as nursery,
        ):
            await nursery.start(proxy.serve, proxied)
            sessions = [(await direct.create_session(name=f"session {n}")).session_id for n in range(SESSIONS)]
            writers = [Writer(proxied, session_id) for session_id in sessions]
            chosen: list[sc.SessionId | None] = [None, *sessions]
            watchers = [
                Watcher(
                    proxied,
                    chosen[n % len(chosen)],
                    Random(random.random()),
                    tempo,
                    longest_life_s if n % 8 < 4 else 60.0,
                )
                for n in range(watchers_count)
            ]
            async with trio.open_nursery() as writing:
                for writer in writers:
                    writing.start_soon(writer.run)
                for watcher in watchers:
                    nursery.start_soon(watcher.run)
                await victim.suffer(random, seconds, lambda: not lacking(victim, proxy, writers, watchers))
                for calm in (*(writer.calm for writer in writers), *(watcher.calm for watcher in watchers)):
                    calm.set()
                proxy.healed.set()
            with trio.fail_after(_SETTLE_S):
                await _at_rest(direct, sessions)
                for watcher in watchers:
                    await _converged(watcher, direct)
                for writer in writers:
                    texts = await _texts(direct, writer.session_id)
                    assert dict.fromkeys(writer.acknowledged, 1) == {each: texts[each] for each in writer.acknowledged}
            nursery.cancel_scope.cancel(reason="all is well")
    finally:
        await _kill(victim.process)  # noqa: ASYNC102 - it shields itself
    assert [] == lacking(victim, proxy, writers, watchers), "the world was bad enough to prove something"


@pytest.mark.slow
async def test_every_client_is_right_in_the_end(tmp_path: Path) -> None:
    """Through bad lines, killed clients and a killed server, every client's folded state ends as the server's."""
    await _chaos(tmp_path, int(os.environ.get("CHAOS_SEED", "1")), seconds=6, watchers_count=10, longest_life_s=3.0)


@pytest.mark.slow
async def test_every_client_is_right_in_the_long_run(tmp_path: Path) -> None:
    """The same for ten minutes, with more clients."""
    await _chaos(tmp_path, int(os.environ.get("CHAOS_SEED", "2")), seconds=600, watchers_count=20, longest_life_s=8.0)
