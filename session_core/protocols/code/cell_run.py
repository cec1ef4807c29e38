"""One cell, from its start until the service has all of its results.

1. The cell's clock runs only while none of its tool calls does: a person may take long to approve one.
2. When its time is over, the cell is interrupted and keeps what it has done; if it continues, the process is abandoned.
3. Frames of other cells are skipped: threads that a cell left behind may still send some. All of them count: a process
   that sends too many is abandoned, as reading them keeps other sessions waiting.
4. Arguments and results of a cell's calls are bounded: they are part of the session's state until the cell ends.
"""

import json
import math
from base64 import b64decode
from collections.abc import Mapping
from typing import Any, Final, Literal

import attrs
import trio

from session_core import limits
from session_core.protocols.code.cell_output import CellImages, CellText
from session_core.protocols.code.instructions import function_names, parameter_order, render_documentation
from session_core.protocols.code.saved_state import (
    MOST_LOST,
    SavedVariables,
    VariablePart,
    find_bounds_problem,
    is_part_name,
    read_losses,
)
from session_core.protocols.code.worker_process import Worker, WorkerGone
from session_core.protocols.execution import Execution
from session_core.vocabulary.frozen import JsonObject, JsonValue, freeze_json, thaw_json
from session_core.vocabulary.tools import ToolSpec

_GRACE: Final = limits.CELL_GRACE_MS / 1000
_KEEPING: Final = limits.CELL_KEEP_MS / 1000
_MOST_NEWS: Final = 20
_MOST_TEXT: Final = 10_000
"""The limit of a traceback, or of the names of variables."""

_TOO_MUCH: Final = (
    f"the tools of a cell are given and give back at most {limits.MAX_CELL_CALL_CHARS:,} characters together; go on in "
    "another cell"
)

CellEndKind = Literal["ended", "interrupted", "gave_up"]


@attrs.define(kw_only=True)
class CellEnd:
    """The outcome of a cell.

    Attributes:
        how: Whether it ended, was interrupted after its time, or continued nevertheless and was abandoned.
        variables: The variables after it.
        news: The variables it has left that cannot be saved, and why.
    """

    how: CellEndKind = "ended"
    error: str | None = None
    finished: bool = False
    value: JsonValue = None
    variables: SavedVariables = attrs.field(factory=SavedVariables)
    news: list[tuple[str, str]] = attrs.field(factory=list)
    tool_calls: int = 0


class CellNotStarted(WorkerGone):
    """The process was gone before the cell began, so another one can safely run it."""


class CellRun:
    """Runs one cell."""

    def __init__(
        self,
        worker: Worker,
        execution: Execution,
        before: SavedVariables,
        text: CellText,
        images: CellImages,
        *,
        seconds: float,
    ) -> None:
        self._worker = worker
        self._execution = execution
        self._before = before
        self._text = text
        self._images = images
        self._clock = _CellClock(seconds)
        self._names = function_names(execution.tools)
        self._number: int | None = None
        self._ran_through = False
        self._frames = 0
        self._call_chars = 0
        self._changed: dict[str, VariablePart] = {}
        self._calls = trio.CapacityLimiter(limits.MAX_TOOLS_AT_ONCE)
        self._end = CellEnd()

    async def run(self, code: str) -> CellEnd:
        """Run the cell.

        Raises:
            CellNotStarted: The process was gone before.
            WorkerGone: The process has ended, or misbehaves.

        Cancellation: the process is left running; the caller ends it.
        """
        order: dict[str, Any] = {"do": "run", "code": code}
        if self._worker.tools != tuple(self._execution.tools):  # there may be many, and they seldom change
            order["tools"] = [self._describe_tool(tool) for tool in self._execution.tools]
            self._worker.tools = tuple(self._execution.tools)
        problem: WorkerGone | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read_printed)
            try:
                await self._worker.send(order)
                await self._wait_until_done(nursery)
            except WorkerGone as gone:
                problem = gone
            nursery.cancel_scope.cancel()
        self._text.feed(self._worker.read_printed_now(), final=True)
        if problem is not None:
            raise (CellNotStarted(str(problem)) if self._number is None else problem) from problem
        return self._end

    async def _wait_until_done(self, nursery: trio.Nursery) -> None:
        with self._clock.scope:
            return await self._read_frames(nursery)
        if not self._ran_through:
            self._end.how = "interrupted"
        await self._worker.interrupt()
        with self._clock.grant_grace(_GRACE):
            return await self._read_frames(nursery)
        self._end.how = "gave_up"
        return None

    async def _read_printed(self) -> None:
        while piece := await self._worker.receive_printed():
            self._text.feed(piece)

    # --- frames -------------------------------------------------------------------------------------------------------

    async def _read_frames(self, nursery: trio.Nursery) -> None:
        while True:
            frame = await self._worker.receive()
            self._frames += 1
            if self._frames > limits.MAX_CELL_FRAMES:
                raise WorkerGone("it exceeded the size limit")
            if frame.get("say") == "began" and isinstance(frame.get("cell"), int) and self._number is None:
                self._number = frame["cell"]
            if self._number is None or frame.get("cell") != self._number:
                continue
            match frame.get("say"):
                case "call":
                    nursery.start_soon(self._call_tool, await self._admit_call(frame))
                case "image":
                    self._images.add(frame.get("type"), frame.get("data"))
                case "ran":
                    self._handle_ran(frame)
                case "part":
                    await self._take_part(frame)
                case "done":
                    return self._handle_done(frame)
                case _:
                    pass

    def _handle_ran(self, frame: Mapping[str, Any]) -> None:
        """Note how the code has ended, once; its variables are still to come."""
        if self._ran_through:
            return  # a cell that repeats this would have unlimited time
        error = frame.get("error")
        self._end.error = error[:_MOST_TEXT] if isinstance(error, str) else None
        if self._end.error is None and frame.get("finished") is True:
            self._end.finished, self._end.value = True, freeze_json(frame.get("value"))
        self._ran_through = True
        self._clock.restart(_KEEPING)

    async def _take_part(self, frame: Mapping[str, Any]) -> None:
        name, data = frame.get("name"), frame.get("data")
        if not is_part_name(name) or not isinstance(name, str) or not isinstance(data, str):
            raise WorkerGone("it sent an invalid variable")
        try:
            with trio.CancelScope(shield=True):  # otherwise it would be lost
                self._changed[name] = await _decode_part(data)
        except ValueError as error:
            raise WorkerGone("it sent an invalid variable") from error
        if (problem := find_bounds_problem(self._changed)) is not None:
            raise WorkerGone(f"it sent {problem}")

    def _handle_done(self, frame: Mapping[str, Any]) -> None:
        names, parts = frame.get("kept"), dict[str, VariablePart]()
        for name in names if isinstance(names, list) else ():
            part = self._changed.get(name) or self._before.parts.get(name) if isinstance(name, str) else None
            if part is None:
                raise WorkerGone("it named an unknown variable")
            parts[name] = part
        if (problem := find_bounds_problem(parts)) is not None:
            raise WorkerGone(f"it kept {problem}")
        lost = frame.get("lost")
        named = [each for each in lost if isinstance(each, str)] if isinstance(lost, list) else []
        self._end.variables = SavedVariables(parts=parts, lost=tuple(each[:200] for each in named[:MOST_LOST]))
        self._end.news = [(name[:200], why) for name, why in read_losses(frame.get("news"), _MOST_NEWS)]

    # --- tools --------------------------------------------------------------------------------------------------------

    def _describe_tool(self, tool: ToolSpec) -> dict[str, Any]:
        function = self._names[tool.name]
        return {
            "name": tool.name,
            "function": function,
            "parameters": parameter_order(tool),
            "documentation": render_documentation(tool, function),
        }

    async def _admit_call(self, frame: dict[str, Any]) -> "_CellToolCall":
        """Wait until the call may begin; concurrent calls are limited, and further frames stay unread."""
        call = _CellToolCall(
            number=frame.get("call"),
            tool=frame.get("tool"),
            arguments=frame.get("arguments"),
            size=self._worker.newest_size,
        )
        await self._calls.acquire_on_behalf_of(call)
        self._clock.pause()
        return call

    async def _call_tool(self, call: "_CellToolCall") -> None:
        try:
            ok, text, details = await self._run_call(call)
        finally:
            self._calls.release_on_behalf_of(call)
            self._clock.resume()
        answer = {"do": "answer", "call": call.number, "ok": ok, "text": text, "details": details}
        with trio.move_on_after(_GRACE, shield=True):  # half an answer would make the process unusable
            try:
                await self._worker.send(answer)
            except WorkerGone:
                return  # the reader of its frames notices it too

    async def _run_call(self, call: "_CellToolCall") -> tuple[bool, str, Any]:
        if self._end.tool_calls >= limits.MAX_CELL_CALLS:
            return False, f"a cell calls at most {limits.MAX_CELL_CALLS} tools; go on in another cell", None
        arguments = call.arguments
        if not isinstance(call.tool, str) or call.tool not in self._names or not isinstance(arguments, dict):
            return False, "there is no such tool", None
        self._call_chars += call.size
        if self._call_chars > limits.MAX_CELL_CALL_CHARS:
            return False, _TOO_MUCH, None
        self._end.tool_calls += 1
        result = await self._execution.call_tool(call.tool, JsonObject(arguments))
        self._call_chars += len(result.text) + sum(len(image.data) for image in result.images)
        details = thaw_json(result.details)
        self._call_chars += 0 if details is None else len(json.dumps(details))
        self._images.add_parts(result.images)
        return result.status == "success", result.text, details


@attrs.frozen(kw_only=True, eq=False)
class _CellToolCall:
    """A call as the worker requested it."""

    number: object
    tool: object
    arguments: object
    size: int
    """The size of the request as received."""


class _CellClock:
    """The clock of a cell, which pauses while its tools run."""

    def __init__(self, seconds: float) -> None:
        self.scope = trio.CancelScope(deadline=trio.current_time() + seconds)
        self._remaining_s = seconds
        self._pauses = 0

    def grant_grace(self, seconds: float) -> trio.CancelScope:
        """Give the cell a last chance."""
        self._remaining_s = seconds
        self.scope = trio.CancelScope(deadline=trio.current_time() + seconds)
        return self.scope

    def pause(self) -> None:
        self._pauses += 1
        if self._pauses == 1:
            self._remaining_s = self.scope.deadline - trio.current_time()
            self.scope.deadline = math.inf

    def resume(self) -> None:
        self._pauses -= 1
        if not self._pauses:
            self.scope.deadline = trio.current_time() + self._remaining_s

    def restart(self, seconds: float) -> None:
        """Start the time for saving variables; calls no longer pause it."""
        self._remaining_s = seconds
        self.scope.deadline = trio.current_time() + seconds


async def _decode_part(data: str) -> VariablePart:
    if len(data) < 65_536:
        return VariablePart.from_data(b64decode(data, validate=True))
    return await trio.to_thread.run_sync(lambda: VariablePart.from_data(b64decode(data, validate=True)))
