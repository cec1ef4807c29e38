"""The standard streams of a program, and the terminal for questions, if there is one."""

import os
import sys
import termios
from contextlib import suppress

import attrs
import trio

from frontends.shared.output import Output

_LONGEST_ANSWER = 4096  # terminals accept no longer line


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
