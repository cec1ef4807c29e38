"""The cost of the tool runner: schema, hooks, permissions, a durable start, events, one result."""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import trio

from bench.measure import Result, collector_off
from bench.store_material import add_session, open_core, scratch_directory
from session_core.agent.hooks import HookName
from session_core.agent.tool_runner import ToolConfig, ToolRunner
from session_core.ids import CallId, MessageId, SessionId, TurnId, new_id, now_ms
from session_core.session.session import Work
from session_core.session.turn_handle import TurnHandle
from session_core.storage.memory import MemoryStore
from session_core.tools.base import Tool, ToolContext, ToolOutput
from session_core.tools.read import ReadTool
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import Message, ToolCallPart, ToolResultPart
from session_core.vocabulary.tools import Effect, ToolSpec

STEPS = 50
ROUNDS = 10
AT_ONCE = 8  # calls of a step that run side by side
ARGUMENTS = JsonObject({"path": "src/some/module.py", "lines": 400})
DONE = ToolOutput(text="done")


class NoOp:
    """A tool with the parameters of a real one that does nothing at all."""

    spec: ToolSpec = ReadTool.spec
    effects: frozenset[Effect] = frozenset({"read"})

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Do nothing."""
        return DONE


class Onlooker:
    """An extension with hooks before and after each call that change nothing."""

    def handles(self, hook: HookName) -> bool:
        """Handle the hooks around calls."""
        return hook in {"tool_call", "tool_result"}

    async def run(self, hook: HookName, session_id: SessionId, value: JsonObject) -> JsonObject:
        """Change nothing."""
        return value


class Bench:
    """A session in the middle of a turn, whose model calls tools."""

    def __init__(self, handle: TurnHandle) -> None:
        self.handle = handle

    def called(self, tool: str, calls: int) -> Message:
        """Record an answer in which the model calls a tool `calls` times."""
        handle, message_id = self.handle, MessageId(new_id("msg"))
        parts = tuple(
            ToolCallPart(call_id=CallId(new_id("call")), name=tool, arguments=ARGUMENTS) for _ in range(calls)
        )
        parent = handle.state.head
        message = Message(
            message_id=message_id,
            parent_id=parent,
            role="assistant",
            parts=parts,
            created_at=now_ms(),
            turn_id=handle.turn_id,
            model="m",
        )
        handle.record(ev.MessageStarted(message_id=message_id, parent_id=parent, turn_id=handle.turn_id, model="m"))
        handle.record(ev.MessageCompleted(message=message))
        return message

    def record_only(self, message: Message) -> None:
        """Record the events of the calls in a message without running anything."""
        for call in message.tool_calls:
            self.handle.record(ev.ToolCallStarted(call_id=call.call_id, name=call.name, arguments=call.arguments))
        for call in message.tool_calls:
            result = ToolResultPart(call_id=call.call_id, name=call.name, status="success", text=DONE.text)
            self.handle.record(ev.ToolCallFinished(result=result))
        self.handle.record(
            ev.ToolResultsCommitted(
                message_id=MessageId(new_id("msg")),
                parent_id=message.message_id,
                turn_id=self.handle.turn_id,
                call_ids=tuple(call.call_id for call in message.tool_calls),
            )
        )

    def context(self) -> ToolContext:
        """The context of a tool that is called directly."""
        settings = self.handle.state.settings
        return ToolContext(
            call_id=CallId("call"), cwd=settings.cwd, sandbox=settings.sandbox, report=lambda _text: None
        )


@asynccontextmanager
async def open_bench(cwd: str) -> AsyncGenerator[Bench]:
    """Start a turn in a session in memory."""
    async with open_core(MemoryStore()) as core:
        session = add_session(core, cwd=cwd)
        work = Work(kind="turn", turn_id=TurnId(new_id("turn")))
        session.record(ev.TurnStarted(turn_id=work.turn_id))
        session.work = work
        yield Bench(TurnHandle(session, work, approval_timeout_ms=1_000))


def measure_dispatch() -> Result:
    """Running a tool call through the runner costs little more than recording its events."""
    return trio.run(_dispatch, STEPS, ROUNDS)


async def _dispatch(steps: int, rounds: int) -> Result:
    with scratch_directory() as place:
        file = place / "src" / "some" / "module.py"
        file.parent.mkdir(parents=True)
        file.write_text("x = 1\n" * 100, encoding="utf-8")
        async with open_bench(str(place)) as bench:
            us = await _times(bench, steps, rounds)
    return Result(
        name="dispatch",
        title="a tool call through the runner, with a tool that does nothing / recording its events alone",
        ratio=us["through the runner"] / us["events alone"],
        target=5,
        comparison="at most",
        details={
            "the tool called directly, µs of CPU": us["direct"],
            "its events recorded without running anything, µs of CPU": us["events alone"],
            "a call through the runner, µs of CPU": us["through the runner"],
            "8 calls of one step through the runner, µs of CPU per call": us["side by side"] / AT_ONCE,
            "a call through the runner with an extension that watches, µs of CPU": us["with an extension"],
            "reading a small file directly, µs of CPU": us["read"],
            "reading a small file through the runner, µs of CPU": us["read through the runner"],
            "reading a small file, through the runner / directly": us["read through the runner"] / us["read"],
        },
    )


async def _times(bench: Bench, steps: int, rounds: int) -> Mapping[str, float]:
    """Return the best time of a step's calls for each variant, in µs."""
    no_op, read = NoOp(), ReadTool()
    context = bench.context()
    plain, real = _runner(bench, no_op), _runner(bench, read)
    watched = _runner(bench, no_op, ToolConfig(hooks=Onlooker()))

    async def direct(_message: Message) -> None:
        await no_op.run(ARGUMENTS, context)

    async def read_directly(_message: Message) -> None:
        await read.run(ARGUMENTS, context)

    async def events_alone(message: Message) -> None:
        bench.record_only(message)

    ways: list[tuple[str, Callable[[Message], Awaitable[None]], int]] = [
        ("direct", direct, 1),
        ("events alone", events_alone, 1),
        ("through the runner", plain, 1),
        ("side by side", plain, AT_ONCE),
        ("with an extension", watched, 1),
        ("read", read_directly, 1),
        ("read through the runner", real, 1),
    ]
    best: dict[str, float] = {}
    for _ in range(rounds):
        for name, way, calls in ways:
            spent = await _time(bench, way, calls, steps)
            best[name] = min(spent, best.get(name, spent))
    return best


def _runner(bench: Bench, tool: Tool, config: ToolConfig | None = None) -> Callable[[Message], Awaitable[None]]:
    async def run(message: Message) -> None:
        await ToolRunner(bench.handle, {tool.spec.name: tool}, config).run(message, ())

    return run


async def _time(bench: Bench, way: Callable[[Message], Awaitable[None]], calls: int, steps: int) -> float:
    """Run steps with one variant and return the time of one step's calls, in µs of CPU, without the model's part."""
    spent = 0.0
    with collector_off():
        for _ in range(steps):
            message = bench.called(NoOp.spec.name, calls)
            started = time.process_time()
            await way(message)
            spent += time.process_time() - started
            if bench.handle.state.head == message.message_id:
                bench.record_only(message)  # a tool called directly leaves its call without an answer
            await trio.lowlevel.checkpoint()
    return spent / steps * 1e6
