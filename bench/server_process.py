"""The server that is measured: `python -m bench.server_process HOME`, started and told what to do by `server_driver`.

It serves a real home at both doors and says in a line of JSON where. Then each line that it reads names what to do
(`op`): `open` a session whose model is in the middle of its answer, `publish` events in it within one tick, `fill` it
with long ones, or keep `pace`, which is one event at a time. Each is answered with a line when it is done, and the
program ends when there are no more.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import trio

import session_core as sc
from bench.material import ANSWER, DELTA, TURN
from bench.store_material import add_session
from frontends.server.http.door import open_http_door
from frontends.server.http.tokens import ensure_token
from frontends.server.server import Server, ServerSettings
from frontends.server.unix_door import serve_unix
from frontends.shared.socket_path import socket_path_of_home
from session_core.ids import CallId, SessionId
from session_core.rpc.line_frames import LineSplitter
from session_core.session.session import Session
from session_core.vocabulary import events as ev

CALLS = (CallId("call_of_one_tool"), CallId("call_of_another"))


class Publisher:
    """Publishes in sessions of a service as their turns would."""

    def __init__(self, service: sc.SessionService) -> None:
        self._core = service.core

    async def do(self, task: Mapping[str, Any]) -> Mapping[str, object]:
        """Do one thing; returns what there is to say about it."""
        match task["op"]:
            case "open":
                return {"session": self._open()}
            case "publish":
                session = self._core.sessions[SessionId(task["session"])]
                make = _MAKERS[task["kind"]]
                for number in range(task["events"]):
                    session.record(make(number))
            case "fill":
                session = self._core.sessions[SessionId(task["session"])]
                text = "." * task["chars"]
                for _ in range(task["events"]):
                    session.record(ev.PartDelta(message_id=ANSWER, text=text))
                    await trio.lowlevel.checkpoint()
                await session.wait_until_durable()  # writing it down is not what is measured next
            case "pace":
                session = self._core.sessions[SessionId(task["session"])]
                await self._keep_pace(session, task["events"], task["every_s"])
            case unknown:
                raise ValueError(f"there is no {unknown}")
        return {"seq": self._core.stream.seq}

    def _open(self) -> SessionId:
        session = add_session(self._core)
        session.record(ev.TurnStarted(turn_id=TURN))
        session.record(ev.MessageStarted(message_id=ANSWER, parent_id=None, turn_id=TURN, model="m"))
        session.record(ev.PartStarted(message_id=ANSWER, kind="text"))
        return session.state.session_id

    async def _keep_pace(self, session: Session, events: int, every_s: float) -> None:
        """Publish words that say when, which all processes of a machine read off the same clock."""
        due = trio.current_time()
        for _ in range(events):
            due += every_s
            await trio.sleep_until(due)
            session.record(ev.PartDelta(message_id=ANSWER, text=f"at{time.monotonic_ns()};"))


_MAKERS: Mapping[str, Callable[[int], ev.Event]] = {
    # Words of one answer, which are merged for a reader who gets many at once, and what two tools say in turns.
    "words": lambda _: DELTA,
    "tools": lambda number: ev.ToolOutputDelta(call_id=CALLS[number % 2], text="a line"),
}


async def main(home: Path) -> None:
    """Serve a home, and do what is asked for."""
    config = sc.ServiceConfig(store=sc.SqliteStore(home), cwd="/", tools=())
    async with sc.open_session_service(config) as service, trio.open_nursery() as nursery:
        server = Server(service, ServerSettings(home=str(home)))
        socket = await nursery.start(serve_unix, server, socket_path_of_home(home))
        async with open_http_door(server) as door:
            token = await trio.to_thread.run_sync(ensure_token, home)
            say({"url": door.url, "socket": str(socket), "token": token})
            await _work(Publisher(service))
            server.end(sc.wire.Goodbye(reason="all is measured"))
            await server.say_goodbye()
        nursery.cancel_scope.cancel(reason="all is measured")


async def _work(publisher: Publisher) -> None:
    lines = LineSplitter()
    async with trio.lowlevel.FdStream(os.dup(0)) as orders:
        async for data in orders:
            for line in lines.feed(bytes(data)):
                assert isinstance(line, bytes), "an order is short"
                say(await publisher.do(json.loads(line)))


def say(what: Mapping[str, object]) -> None:
    """Tell the driver something, in a line."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]))
