"""Run a program to its end, with bounded output, and leave no process behind when it is stopped."""

import codecs
import math
from collections import deque
from collections.abc import Callable
from typing import Final

import attrs
import trio

from session_core.limits import KILL_GRACE_MS, MAX_TOOL_OUTPUT_CHARS
from session_core.processes.child import Child, ChildOptions, Launch, OnBytes, open_child

_GRACE: Final = KILL_GRACE_MS / 1000
"""How long processes that a program left running may go on writing."""


@attrs.frozen(kw_only=True)
class ProcessOutcome:
    """How a program ended; `output` is the tail of its output, and a negative `exit_code` names a signal.

    `error_output` holds stderr if it was read separately.
    """

    exit_code: int
    output: str
    truncated: bool
    timed_out: bool = False
    error_output: str = ""
    error_truncated: bool = False


async def run_in_group(
    launch: Launch,
    *,
    on_output: Callable[[str], None],
    output_limit: int = MAX_TOOL_OUTPUT_CHARS,
    timeout_ms: int | None = None,
    on_start: Callable[[Child], None] | None = None,
    on_error_output: Callable[[str], None] | None = None,
) -> ProcessOutcome:
    """Run a program to its end, without input; stdout and stderr are one stream unless `on_error_output` is given.

    Processes that the program left running get a moment to finish their output and are then ended too.

    Args:
        launch: What to run; a sandbox is ended as a whole.
        on_output: Gets the output piece by piece as it arrives; must not block.
        output_limit: How many characters of the tail of the output the outcome keeps.
        timeout_ms: After this time the program is ended as by a cancellation, and the outcome says so.
        on_start: Called once, when the program runs, with the child to send signals to.
        on_error_output: Gets stderr, which is then a separate stream with the same bound.

    Raises:
        ProcessNotStarted: The program could not be started.

    Cancellation: the whole group gets SIGTERM, then SIGKILL after `KILL_GRACE_MS`, and is gone when `Cancelled`
        propagates. Output written after the cancellation is read and discarded.
    """
    output = _Output(on_output, output_limit)
    errors = _Output(on_error_output or on_output, output_limit)
    timed_out = False
    options = ChildOptions(with_input=False, joined_output=on_error_output is None)
    async with open_child(launch, options) as child:
        if on_start is not None:
            on_start(child)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_pump, child.stdout, output.feed)
            if on_error_output is not None:
                nursery.start_soon(_pump, child.stderr, errors.feed)
            with trio.move_on_after(math.inf if timeout_ms is None else timeout_ms / 1000) as limit:
                await child.wait()
            timed_out = limit.cancelled_caught
            # The rest of the group may still be writing, for example a `tee` behind the program.
            nursery.cancel_scope.deadline = trio.current_time() + (0 if timed_out else _GRACE)
    output.feed(b"", final=True)
    errors.feed(b"", final=True)
    return ProcessOutcome(
        exit_code=await child.wait(),
        output=output.tail.text,
        truncated=output.tail.truncated,
        timed_out=timed_out,
        error_output=errors.tail.text,
        error_truncated=errors.tail.truncated,
    )


class OutputTail:
    """The end of a program's output, at most `limit` characters; `truncated` says whether there was more."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: deque[str] = deque()
        self._retained_chars = 0
        self.truncated = False

    def add(self, text: str) -> None:
        """Add the next piece of output."""
        self._pieces.append(text)
        self._retained_chars += len(text)
        self.truncated = self.truncated or self._retained_chars > self._limit
        while self._pieces and self._retained_chars - len(self._pieces[0]) >= self._limit:
            self._retained_chars -= len(self._pieces.popleft())

    @property
    def text(self) -> str:
        """The text that was kept."""
        text = "".join(self._pieces)
        return text[max(0, len(text) - self._limit) :]


class _Output:
    """Decodes output as it arrives, and keeps its tail."""

    def __init__(self, on_output: Callable[[str], None], limit: int) -> None:
        self.tail = OutputTail(limit)
        self._on_output = on_output
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def feed(self, chunk: bytes | bytearray, *, final: bool = False) -> None:
        if text := self._decoder.decode(chunk, final):
            self.tail.add(text)
            self._on_output(text)


async def _pump(stream: trio.lowlevel.FdStream, feed: OnBytes) -> None:
    while chunk := await stream.receive_some():
        feed(chunk)
