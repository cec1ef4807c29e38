"""Homes, turns and long sessions for measurements of the store."""

import random
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import trio

from session_core import limits
from session_core.ids import CallId, MessageId, SessionId, TurnId, new_id, new_session_id, now_ms
from session_core.protocols.options import Materialization, PluginOptions
from session_core.service.config import ServiceConfig
from session_core.service.core import ServiceCore
from session_core.session.session import Session
from session_core.storage.base import SessionStore
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ImagePart, Message, TextPart, ToolCallPart, ToolResultPart, UserPart
from session_core.vocabulary.sessions import Settings

SCRATCH = Path(__file__).parent.parent / "build"
"""Next to the code, because temporary folders are often in memory, where durability costs nothing."""

PIECE = "twenty characters.. "
PIECES = 40
LINE = '    if found is None or found.size < {}:  # looked at "{}" before'


@contextmanager
def scratch_directory() -> Generator[Path]:
    """Create an empty directory on a real disk for the block."""
    SCRATCH.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=SCRATCH) as name:
        yield Path(name)


@asynccontextmanager
async def open_core(
    store: SessionStore, *, now: Callable[[], int] = now_ms, stream_capacity: int = limits.STREAM_CAPACITY
) -> AsyncGenerator[ServiceCore]:
    """Run the core of a service on a store, with its pumps, so `Session.record` works as in a service."""
    async with store.open() as opened, trio.open_nursery() as nursery:
        config = ServiceConfig(store=store, cwd="/", now=now, stream_capacity=stream_capacity)
        core = ServiceCore(config, nursery)
        await nursery.start(store.run, core)
        await core.recover(opened)
        for part in (core.stream.run, core.loaded_sessions.run):
            await nursery.start(part)
        yield core
        nursery.cancel_scope.cancel()


def add_session(
    core: ServiceCore, session_id: SessionId | None = None, *, name: str = "measured", cwd: str = "/"
) -> Session:
    """Make a session at rest."""
    created = ev.SessionCreated(name=name, settings=Settings(model="m", cwd=cwd))
    opening = Materialization(opening="create", session_id=session_id or new_session_id())
    protocol = core.protocols.decide(opening, name=None, stated=PluginOptions())
    return core.add_session(protocol, created, None)


# --- turns ------------------------------------------------------------------------------------------------------------


class Conversation:
    """Makes the events of successive turns as the agent records them, except for derived ones.

    `Session.record` adds the changes of activity, and `Session.close_work` the end of the turn.
    """

    def __init__(self) -> None:
        self._head: MessageId | None = None

    def turn(self, parts: tuple[UserPart, ...], outputs: Sequence[str], *, pieces: int = PIECES) -> list[ev.Event]:
        """Make a turn: a user message, a tool call for each of `outputs`, and an answer.

        Each answer of the model is a text in `pieces` pieces.
        """
        turn_id = TurnId(new_id("turn"))
        asked = self._message("user", parts, turn_id)
        events: list[ev.Event] = [ev.TurnStarted(turn_id=turn_id), ev.MessageAdded(message=asked)]
        for output in outputs:
            events += self._step_with_tool(turn_id, output, pieces)
        return events + self._answer(turn_id, pieces, None)

    def _step_with_tool(self, turn_id: TurnId, output: str, pieces: int) -> Iterable[ev.Event]:
        arguments = JsonObject({"path": "src/some/module.py", "limit": 400})
        call = ToolCallPart(call_id=CallId(new_id("call")), name="read_file", arguments=arguments)
        result = ToolResultPart(call_id=call.call_id, name=call.name, status="success", text=output)
        yield from self._answer(turn_id, pieces, call)
        yield ev.ToolCallStarted(call_id=call.call_id, name=call.name, arguments=arguments)
        yield ev.ToolCallFinished(result=result)
        parent, self._head = self._head, MessageId(new_id("msg"))
        yield ev.ToolResultsCommitted(
            message_id=self._head, parent_id=parent, turn_id=turn_id, call_ids=(call.call_id,)
        )

    def _answer(self, turn_id: TurnId, pieces: int, call: ToolCallPart | None) -> list[ev.Event]:
        parent = self._head
        text = TextPart(text=PIECE * pieces)
        message = self._message("assistant", (text,) if call is None else (text, call), turn_id)
        message_id = message.message_id
        return [
            ev.MessageStarted(message_id=message_id, parent_id=parent, turn_id=turn_id, model="m"),
            ev.PartStarted(message_id=message_id, kind="text"),
            *(ev.PartDelta(message_id=message_id, text=PIECE) for _ in range(pieces)),
            *(_streamed_call(message_id, call) if call is not None else ()),
            ev.MessageCompleted(message=message),
        ]

    def _message(self, role: str, parts: tuple[UserPart | ToolCallPart, ...], turn_id: TurnId) -> Message:
        assistant = role == "assistant"
        parent, self._head = self._head, MessageId(new_id("msg"))
        return Message(
            message_id=self._head,
            parent_id=parent,
            role="assistant" if assistant else "user",
            parts=parts,
            created_at=1_700_000_000_000,
            turn_id=turn_id,
            model="m" if assistant else None,
        )


def _streamed_call(message_id: MessageId, call: ToolCallPart) -> Iterable[ev.Event]:
    yield ev.PartStarted(message_id=message_id, kind="tool_call", tool_name=call.name)
    yield ev.PartDelta(message_id=message_id, text='{"path": "src/some/module.py", ')
    yield ev.PartDelta(message_id=message_id, text='"limit": 400}')


# --- long sessions ----------------------------------------------------------------------------------------------------

TURNS = 160
TOOL_CALLS = 8
OUTPUT_CHARS = (20_000, 90_000)
IMAGE_EVERY = 4  # turns
IMAGE_CHARS = 240_000


async def write_long_session(core: ServiceCore, turns: int = TURNS) -> SessionId:
    """Write a session with tool outputs of tens of kilobytes and some images; half a megabyte per turn."""
    rng = random.Random(turns)
    session = add_session(core, name="long")
    conversation = Conversation()
    book = _book(rng)
    for number in range(turns):
        asked: tuple[UserPart, ...] = (TextPart(text=f"Look at module {number} and mend what is broken there."),)
        if number % IMAGE_EVERY == 0:
            asked += (ImagePart(media_type="image/png", data=rng.randbytes(IMAGE_CHARS // 2).hex()),)
        outputs = [_page(rng, book) for _ in range(TOOL_CALLS)]
        for event in conversation.turn(asked, outputs, pieces=20):
            session.record(event)
        session.close_work("completed")
        await session.wait_until_durable()
    return session.state.session_id


def _book(rng: random.Random) -> str:
    return "\n".join(LINE.format(rng.randrange(10**6), rng.randbytes(8).hex()) for _ in range(20_000))


def _page(rng: random.Random, book: str) -> str:
    """Cut a text out of a long one; its unique first line makes it a separate blob."""
    start, length = rng.randrange(len(book) // 2), rng.randint(*OUTPUT_CHARS)
    return f"page {rng.randbytes(8).hex()}\n{book[start : start + length]}"
