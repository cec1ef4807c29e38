"""The standard streams of a program, and the terminal for questions, if there is one."""

import os
import sys
import termios
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial, wraps
from typing import Concatenate, ParamSpec

import attrs
import trio

from frontends.shared.output import Output
from frontends.shared.sanitise import one_line
from frontends.shared.style import stream_style

P = ParamSpec("P")

_LONGEST_ANSWER = 4096  # terminals accept no longer line
_LONGEST_REMARK = 4_096  # it may contain two long paths to be typed verbatim


@attrs.frozen(kw_only=True)
class StandardStreams:
    """The output streams, and the descriptor of the terminal for questions, if there is one."""

    out: Output
    err: Output
    keyboard: int | None = None

    @classmethod
    def standard(cls) -> "StandardStreams":
        """Return the streams this program was started with."""
        out, err = Output(sys.stdout), Output(sys.stderr)
        keyboard = None
        if sys.stdin is not None and sys.stdin.isatty() and err.tty:
            keyboard = sys.stdin.fileno()
        return cls(out=out, err=err, keyboard=keyboard)

    async def say(self, line: str) -> None:
        """Print a line on stdout; it must already be safe to print."""
        await self.out.write(f"{line}\n")

    async def remark(self, line: str) -> None:
        """Print a line on stderr; it must already be safe to print."""
        await self.err.write(f"{line}\n")

    async def confirm(self, question: str) -> bool:
        """Ask on the terminal, which must be there; anything but a clear yes is a no."""
        assert self.keyboard is not None, "there is a terminal to ask on"
        await self.err.write(f"{self.err.style.yellow('?')} {question[0].upper()}{question[1:]} [y/N] ")
        return (await read_answer(self.keyboard)).strip().lower() in {"y", "yes"}


def with_streams(command: Callable[Concatenate[StandardStreams, P], Awaitable[int]]) -> Callable[P, int]:
    """Make a command of an async function: it runs with the streams of this program, and returns the exit code."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> int:
        return trio.run(partial(command, StandardStreams.standard(), *args, **kwargs))

    return run


def remark(sentence: str | None) -> None:
    """Print a remark beside the output of a command, if there is one."""
    if sentence is not None:
        style = stream_style(sys.stderr)
        print(f"{style.yellow(style.symbol('●'))} {one_line(sentence, _LONGEST_REMARK)}", file=sys.stderr)


def discard_typed_input(fd: int) -> None:
    """Discard input typed before a question is shown: it cannot be an answer to it."""
    with suppress(termios.error, OSError):  # not a terminal
        termios.tcflush(fd, termios.TCIFLUSH)


async def read_answer(fd: int) -> str:
    """Wait for a line typed on a terminal.

    Cancellation: nothing that was typed is lost; it waits for the next reader.
    """
    await trio.lowlevel.wait_readable(fd)
    return os.read(fd, _LONGEST_ANSWER).decode("utf-8", "replace")
