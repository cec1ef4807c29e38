"""A program that is killed: a service on a real home, with clients that do random things and report every reply.

    python -m tests.durability._victim clients|stream HOME SEED EFFECTS

Standard output is the report, one JSON object per line and one system call per line: what stands there has happened.
`EFFECTS` is a file to which every tool call appends a line, as an effect on the world outside of the store.
"""

import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import trio

from session_core import limits
from session_core.ids import CallId, ClientId
from session_core.providers.base import (
    ModelFinished,
    ModelRequest,
    ProviderEvent,
    TextChunk,
    ToolCallChunk,
    ToolCallOpened,
)
from session_core.service.config import ServiceConfig
from session_core.service.service import SessionService, open_session_service
from session_core.storage.sqlite import SqliteStore
from session_core.testing.scripted import ScriptedTool
from session_core.tools.base import Tool, ToolContext
from session_core.vocabulary import commands as c
from session_core.vocabulary.commands import Command
from session_core.vocabulary.events import PartDelta
from session_core.vocabulary.frozen import JsonObject
from session_core.wire.codec import from_json, to_json
from tests.durability._clients import ACTIONS, RandomClient, Sent, Shared

CLIENTS = 3
COMMANDS = 60
PACE_S = 0.005
"""Between two words of the endless answer."""


def report(**line: object) -> None:
    """Write one line of the report, at once and in one piece."""
    os.write(1, json.dumps(line).encode() + b"\n")


class Reporter:
    """A notebook that a killed process leaves behind."""

    def sent(self, sent: Sent) -> None:
        report(sent=sent.number, client=sent.client_id, key=sent.key, command=to_json(sent.command))

    def replied(self, sent: Sent, reply: object) -> None:
        report(done=sent.number, reply=to_json(reply))

    def refused(self, sent: Sent) -> None:
        report(refused=sent.number)


def read_sent(line: dict[str, Any]) -> Sent:
    """Read back what `Reporter.sent` has written."""
    command: Command[Any] = from_json(line["command"], Command)
    return Sent(number=line["sent"], client_id=ClientId(line["client"]), key=line["key"], command=command)


def read_reply(line: dict[str, Any], sent: Sent) -> object:
    """Read back what `Reporter.replied` has written."""
    return from_json(line["reply"], c.reply_type(type(sent.command)))


class RestlessProvider:
    """Answers with a few words or some tool calls, by chance; with a brief pause now and then."""

    def __init__(self, random: Random) -> None:
        self._random = random

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[ProviderEvent]]:
        """Answer."""
        yield self._answer()

    async def _answer(self) -> AsyncIterator[ProviderEvent]:
        for event in self._events():
            await trio.sleep(self._random.choice((0, 0, 0.001, 0.004)))
            yield event

    def _events(self) -> Iterator[ProviderEvent]:
        for word in range(self._random.randrange(1, 6)):
            yield TextChunk(text=f"word {word} ")
        for _ in range(self._random.choice((0, 0, 1, 2))):
            yield ToolCallOpened(name=self._random.choice(("look", "change")))
            yield ToolCallChunk(text="{}")
        yield ModelFinished()


class CountingProvider:
    """Counts aloud at a steady pace, without end; the time that the disk takes does not count."""

    def __init__(self, store: SqliteStore) -> None:
        self._writing = store._writing

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[ProviderEvent]]:
        """Count."""
        yield self._answer()

    async def _answer(self) -> AsyncIterator[ProviderEvent]:
        number = 0
        while True:
            yield TextChunk(text=f"{number} ")
            number += 1
            await trio.sleep(PACE_S)
            while self._writing.borrowed_tokens:  # noqa: ASYNC110 - nobody tells when the disk is done
                await trio.sleep(PACE_S)


class Traces:
    """The effects of tools on the world outside of the store: a line in a file."""

    def __init__(self, path: Path) -> None:
        self.service: SessionService | None = None
        self._path = path

    def leave(self, call_id: CallId) -> None:
        """Write which call of which session this is."""
        assert self.service is not None
        (session_id,) = (
            session_id
            for session_id, session in self.service._core.sessions.items()
            if any(tool.call_id == call_id for tool in session.state.tools)
        )
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, f"{call_id} {session_id}\n".encode())
        os.close(descriptor)


def tools(traces: Traces, random: Random) -> tuple[Tool, ...]:
    """Tools that leave a trace as the first thing they do."""

    async def run(_: JsonObject, context: ToolContext) -> str:
        traces.leave(context.call_id)
        context.report("working")
        await trio.sleep(random.choice((0, 0.002, 0.02)))
        return "done"

    return ScriptedTool("look", run=run), ScriptedTool("change", effects=("write",), run=run)


async def be_client(service: SessionService, name: str, shared: Shared, seed: str) -> None:
    """Do one thing after the other; a question to people is left to wait while the client goes on."""
    random = Random(seed)
    client = RandomClient(service, name, shared, Reporter())
    async with trio.open_nursery() as nursery:
        for _ in range(COMMANDS):
            action = random.choice(ACTIONS)
            if action == "ask":
                nursery.start_soon(client.perform, action, Random(random.random()))
                await trio.lowlevel.checkpoint()
            else:
                await client.perform(action, random)
        nursery.cancel_scope.cancel()


async def live_with_clients(service: SessionService, seed: str) -> None:
    """Be busy with several clients until they have had enough."""
    shared = Shared(f"{seed}.")
    shared.sessions += [each.session_id for each in (await service.load_service()).sessions]
    async with trio.open_nursery() as nursery:
        for number in range(CLIENTS):
            nursery.start_soon(be_client, service, f"client {number}", shared, f"{seed} {number}")


async def count_aloud(service: SessionService) -> None:
    """Report every word of an endless answer as it is published."""
    session_id = (await service.create_session()).session_id
    async with service.subscribe(session_id) as events:
        await service.send_user_message(session_id, "count")
        length = 0
        while True:
            for event in await events.receive_batch():
                if isinstance(event.event, PartDelta):
                    length += len(event.event.text)
                    report(published=length)


async def main(kind: str, home: Path, seed: str, effects: Path) -> None:
    """Open, live, close."""
    limits.__dict__["STATE_EVERY_EVENTS"] = 16  # so that states are saved within a short life
    random = Random(f"{seed} world")
    traces = Traces(effects)
    store = SqliteStore(home)
    provider = CountingProvider(store) if kind == "stream" else RestlessProvider(random)
    config = ServiceConfig(
        models={"quick": provider, "other": provider},
        tools=tools(traces, random),
        cwd="/",
        store=store,
        session_stay_ms=200,
    )
    report(stage="opening")
    async with open_session_service(config) as service:
        traces.service = service
        report(stage="open")
        await (count_aloud(service) if kind == "stream" else live_with_clients(service, seed))
        report(stage="closing")
    report(stage="closed")


if __name__ == "__main__":
    trio.run(main, sys.argv[1], Path(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
