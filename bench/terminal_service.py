"""The service behind a measured terminal: `python -m bench.terminal_service HOME`, driven as `server_process` is.

Terminals find it as the service of its home, so they are started as people start them. Each line it reads names a task
(`op`): `open` a session in the middle of an answer, `stream` such answers concurrently at a steady pace, or `talk`,
which is many short turns in one session. It answers each task with a line when it is done, and exits at the end of its
input.
"""

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import trio

import session_core as sc
from bench.material import ANSWER, TURN
from bench.store_material import Conversation, add_session
from frontends.server.server import Server, ServerSettings
from frontends.server.unix_listener import serve_unix
from frontends.shared.socket_path import prepare_run_folder, socket_path_of_home
from session_core.ids import SessionId
from session_core.rpc.line_frames import LineSplitter
from session_core.session.session import Session
from session_core.vocabulary import events as ev
from session_core.vocabulary.messages import TextPart

STAMPED_EVERY = 5
"""Every so many words, one contains the time, from a clock that all processes of a machine share."""
PARAGRAPH = 60
WORDS = ("the", "terminal", "draws", "`these`", "few", "words", "again", "and", "again,", "as", "**they**", "come")
_TURNS_AT_ONCE = 20
"""Turns between two pauses in which readers catch up; far fewer than their buffers hold."""


class Speaker:
    """Publishes much text in sessions, as their turns would: at a steady pace, or as fast as possible."""

    def __init__(self, service: sc.SessionService) -> None:
        self._core = service.core
        self._conversations: dict[SessionId, Conversation] = {}

    async def do(self, task: Mapping[str, Any]) -> Mapping[str, object]:
        """Run one task and return its answer."""
        match task["op"]:
            case "open":
                return {"session": self._open(task["name"])}
            case "stream":
                return {"seconds": await self._stream(task["sessions"], task["per_second"], task["seconds"])}
            case "talk":
                return {"session": await self._talk(task.get("session"), task["name"], task["messages"])}
            case unknown:
                raise ValueError(f"there is no {unknown}")

    def _open(self, name: str) -> SessionId:
        session = add_session(self._core, name=name)
        session.record(ev.TurnStarted(turn_id=TURN))
        session.record(ev.MessageStarted(message_id=ANSWER, parent_id=None, turn_id=TURN, model="m"))
        session.record(ev.PartStarted(message_id=ANSWER, kind="text"))
        session.record(ev.PartDelta(message_id=ANSWER, text=f"{last_words(name)}\n\n"))
        return session.state.session_id

    async def _stream(self, sessions: Sequence[str], per_second: float, seconds: float) -> float:
        """Stream words in these sessions, slightly staggered; return how many seconds it took."""
        every_s = 1 / per_second
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for place, session_id in enumerate(sessions):
                session = self._core.sessions[SessionId(session_id)]
                first = began + every_s * place / len(sessions)
                nursery.start_soon(self._speak, session, first, every_s, int(seconds * per_second))
        return trio.current_time() - began

    async def _speak(self, session: Session, due: float, every_s: float, words: int) -> None:
        for number in range(words):
            await trio.sleep_until(due)
            due += every_s
            session.record(ev.PartDelta(message_id=ANSWER, text=_word(number)))

    async def _talk(self, known: str | None, name: str, messages: int) -> SessionId:
        """Add messages to a session, or to a new one if `known` is None; the last question is `last_words`."""
        session = add_session(self._core, name=name) if known is None else self._core.sessions[SessionId(known)]
        session_id = session.state.session_id
        conversation = self._conversations.setdefault(session_id, Conversation())
        turns = messages // 2
        for number in range(turns):
            asked = last_words(name) if number == turns - 1 else f"And what about module {number}?"
            for event in conversation.turn((TextPart(text=asked),), (), pieces=4):
                session.record(event)
            session.close_work("completed")
            if number % _TURNS_AT_ONCE == 0:
                await session.wait_until_durable()
        await session.wait_until_durable()
        return session_id


def last_words(name: str) -> str:
    """Return the last text of a session with this name, which occurs nowhere else."""
    return f"This is the end of the {name} one."


def _word(number: int) -> str:
    if number % PARAGRAPH == PARAGRAPH - 1:
        return "\n\n"
    return f"at{time.monotonic_ns()}; " if number % STAMPED_EVERY == 0 else f"{WORDS[number % len(WORDS)]} "


async def main(home: Path) -> None:
    """Run the service of a home and the driver's tasks."""
    lock = sc.setup.HomeLock.acquire(prepare_run_folder(home))
    try:
        config = sc.ServiceConfig(store=sc.SqliteStore(home), cwd="/", tools=())
        async with sc.open_session_service(config) as service, trio.open_nursery() as nursery:
            server = Server(service, ServerSettings(home=str(home)))
            await nursery.start(serve_unix, server, socket_path_of_home(home))
            _say({"serving": str(home)})
            await _work(Speaker(service))
            server.end(sc.wire.Goodbye(reason="the measurement is over"))
            await server.say_goodbye()
            nursery.cancel_scope.cancel(reason="the measurement is over")
    finally:
        lock.release()


async def _work(speaker: Speaker) -> None:
    lines = LineSplitter()
    async with trio.lowlevel.FdStream(os.dup(0)) as orders:
        async for data in orders:
            for line in lines.feed(bytes(data)):
                assert isinstance(line, bytes), "a task is one short line"
                _say(await speaker.do(json.loads(line)))


def _say(what: Mapping[str, object]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]))
