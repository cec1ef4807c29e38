"""The measured server: `python -m bench.server_process HOME`, driven by `server_driver`.

It serves a real home on the unix socket and over HTTP, and prints both addresses in a line of JSON. Each line it reads
names a task (`op`): `open` a session in the middle of an answer, `publish` events in it within one tick, `fill` it with
long events, or `pace` single events at a fixed interval. It answers each task with a line when it is done, and exits at
the end of its input.
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
from frontends.server.http.listener import open_http_listener
from frontends.server.http.tokens import ensure_token
from frontends.server.server import Server, ServerSettings
from frontends.server.unix_listener import serve_unix
from frontends.shared.socket_path import socket_path_of_home
from session_core.ids import CallId, SessionId
from session_core.rpc.line_frames import LineSplitter
from session_core.session.session import Session
from session_core.vocabulary import events as ev

CALLS = (CallId("call_of_one_tool"), CallId("call_of_another"))


class Publisher:
    """Publishes events in sessions, as their turns would."""

    def __init__(self, service: sc.SessionService) -> None:
        self._core = service.core

    async def do(self, task: Mapping[str, Any]) -> Mapping[str, object]:
        """Run one task and return its answer."""
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
                await session.wait_until_durable()  # the next measurement must not include these writes
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
        """Publish words that contain the time, from a clock that all processes of a machine share."""
        due = trio.current_time()
        for _ in range(events):
            due += every_s
            await trio.sleep_until(due)
            session.record(ev.PartDelta(message_id=ANSWER, text=f"at{time.monotonic_ns()};"))


_MAKERS: Mapping[str, Callable[[int], ev.Event]] = {
    # Words of one answer, which are merged for a reader that gets many at once, or output of two tools in turns.
    "words": lambda _: DELTA,
    "tools": lambda number: ev.ToolOutputDelta(call_id=CALLS[number % 2], text="a line"),
}


async def main(home: Path) -> None:
    """Serve a home and run the driver's tasks."""
    config = sc.ServiceConfig(store=sc.SqliteStore(home), cwd="/", tools=())
    async with sc.open_session_service(config) as service, trio.open_nursery() as nursery:
        server = Server(service, ServerSettings(home=str(home)))
        socket = await nursery.start(serve_unix, server, socket_path_of_home(home))
        async with open_http_listener(server) as listener:
            token = await trio.to_thread.run_sync(ensure_token, home)
            say({"url": listener.url, "socket": str(socket), "token": token})
            await _work(Publisher(service))
            server.end(sc.wire.Goodbye(reason="the measurement is over"))
            await server.say_goodbye()
        nursery.cancel_scope.cancel(reason="the measurement is over")


async def _work(publisher: Publisher) -> None:
    lines = LineSplitter()
    async with trio.lowlevel.FdStream(os.dup(0)) as orders:
        async for data in orders:
            for line in lines.feed(bytes(data)):
                assert isinstance(line, bytes), "a task is one short line"
                say(await publisher.do(json.loads(line)))


def say(what: Mapping[str, object]) -> None:
    """Send the driver one line."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]))
