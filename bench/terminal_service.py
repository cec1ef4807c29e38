"""The service behind a measured terminal: `python -m bench.terminal_service HOME`, driven as `server_process` is.

It is the service of its home for whoever looks for one, so that a terminal is started as people start it. Each line
that it reads names what to do (`op`): `open` a session whose model is in the middle of its answer, `stream` such
answers at a steady pace, side by side, or `talk`, which is many short turns in one session. Each is answered with a
line when it is done, and the program ends when there are no more.
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
from frontends.server.unix_door import serve_unix
from frontends.shared.socket_path import prepare_run_folder, socket_path_of_home
from session_core.ids import SessionId
from session_core.rpc.line_frames import LineSplitter
from session_core.session.session import Session
from session_core.vocabulary import events as ev
from session_core.vocabulary.messages import TextPart

STAMPED_EVERY = 5
"""One word of so many says when it was said, which all processes of a machine read off the same clock."""
PARAGRAPH = 60
WORDS = ("the", "terminal", "draws", "`these`", "few", "words", "again", "and", "again,", "as", "**they**", "come")
_TURNS_AT_ONCE = 20
"""Turns after which those who watch are let read; what these are is far less than their buffers hold."""


class Speaker:
    """Has sessions say much, as their turns would: at a steady pace, or as fast as it goes."""

    def __init__(self, service: sc.SessionService) -> None:
        self._core = service.core
        self._conversations: dict[SessionId, Conversation] = {}

    async def do(self, task: Mapping[str, Any]) -> Mapping[str, object]:
        """Do one thing; returns what there is to say about it."""
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
        """Have these sessions stream words, not all in the same moment; returns how many seconds it took."""
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
        """Have so many messages said in a session, a new one if none is known; the last one asked is `last_words`."""
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
    """What is said at the end of a session with this name, and nowhere else."""
    return f"This is the end of the {name} one."


def _word(number: int) -> str:
    if number % PARAGRAPH == PARAGRAPH - 1:
        return "\n\n"
    return f"at{time.monotonic_ns()}; " if number % STAMPED_EVERY == 0 else f"{WORDS[number % len(WORDS)]} "


async def main(home: Path) -> None:
    """Be the service of a home, and do what is asked for."""
    lock = sc.setup.HomeLock.acquire(prepare_run_folder(home))
    try:
        config = sc.ServiceConfig(store=sc.SqliteStore(home), cwd="/", tools=())
        async with sc.open_session_service(config) as service, trio.open_nursery() as nursery:
            server = Server(service, ServerSettings(home=str(home)))
            await nursery.start(serve_unix, server, socket_path_of_home(home))
            _say({"serving": str(home)})
            await _work(Speaker(service))
            server.end(sc.wire.Goodbye(reason="all is measured"))
            await server.say_goodbye()
            nursery.cancel_scope.cancel(reason="all is measured")
    finally:
        lock.release()


async def _work(speaker: Speaker) -> None:
    lines = LineSplitter()
    async with trio.lowlevel.FdStream(os.dup(0)) as orders:
        async for data in orders:
            for line in lines.feed(bytes(data)):
                assert isinstance(line, bytes), "an order is short"
                _say(await speaker.do(json.loads(line)))


def _say(what: Mapping[str, object]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]))
