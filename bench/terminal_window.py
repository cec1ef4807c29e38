"""A window: a pseudo terminal with a program in it, whose pictures are read, counted and timed.

When Textual asks, it confirms that it supports synchronized output. From then on each picture is enclosed in two
marks, so counting the marks counts the pictures a person would see.
"""

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.server_driver import PATIENCE_S, ROOT, Program, check_there_is_proc

COLUMNS, ROWS = 110, 36
SESSION_CORE: Final = "from frontends.entry import main; raise SystemExit(main())"
"""The installed `session-core` command, without installing it."""

_ASKED: Final = b"\x1b[?2026$p"
_ANSWER: Final = b"\x1b[?2026;2$y"
_PICTURE: Final = b"\x1b[?2026h"
_TORN: Final = max(len(_ASKED), len(_PICTURE)) - 1
_AT_ONCE: Final = 65_536
_END_S: Final = 10.0
_SHOWN_BYTES: Final = 2_000

Heard = Callable[[bytes], object]


class Window:
    """An open window; created by `opened`.

    Attributes:
        began: When its program was started, by `time.perf_counter`.
        pictures: How many it has drawn since synchronized output was confirmed.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", descriptor: int, began: float) -> None:  # noqa: TID251
        self.process = process
        self.began = began
        self.pictures = 0
        self._weighed = Program(process)
        self._descriptor = descriptor
        self._drawn = b""  # output that no search has consumed yet
        self._torn = b""
        self._closed = False

    @property
    def cpu_s(self) -> float:
        """The CPU time of its program so far."""
        return self._weighed.cpu_s

    @property
    def memory_kib(self) -> float:
        """The private memory of its program."""
        return self._weighed.memory_kib

    def press(self, keys: bytes) -> float:
        """Send the bytes of pressed keys; return the time, by `time.perf_counter`."""
        os.write(self._descriptor, keys)
        return time.perf_counter()

    def until_shown(self, text: str) -> float:
        """Wait until this text is drawn in one piece; return the time, by `time.perf_counter`.

        Output before the text is not searched again.

        Raises:
            RuntimeError: The program has ended, or the text does not appear in time.
        """
        (when,) = self.until_all_shown(text)
        return when

    def until_all_shown(self, *texts: str) -> list[float]:
        """Wait for several texts in any order; return when each was first drawn."""
        found: dict[str, float] = {}
        give_up_at, now = time.monotonic() + PATIENCE_S, time.perf_counter()
        searched = end = 0
        while True:
            for text in set(texts) - found.keys():
                wanted = text.encode()
                if (at := self._drawn.find(wanted, max(0, searched - len(wanted)))) >= 0:
                    found[text] = now
                    end = max(end, at + len(wanted))
            if len(found) == len(texts):
                self._drawn = self._drawn[end:]
                return [found[text] for text in texts]
            if time.monotonic() > give_up_at:
                missing = ", ".join(repr(text) for text in texts if text not in found)
                raise RuntimeError(f"{missing} was not drawn; the last output is: {self._drawn[-_SHOWN_BYTES:]!r}")
            searched = len(self._drawn)
            self._drawn += self._read(give_up_at)
            now = time.perf_counter()

    def look_on(self, seconds: float, heard: Heard = lambda _: None) -> None:
        """Observe for some seconds; output is passed to `heard` as it comes, and not kept."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            heard(self._read(until))
        self._drawn = b""

    def end(self) -> None:
        """Ask the program to end, and kill it if it does not; does nothing if it has already ended."""
        if self._closed:
            return
        self._closed = True
        self.process.send_signal(signal.SIGTERM)
        give_up_at = time.monotonic() + _END_S
        while self.process.poll() is None and time.monotonic() < give_up_at:
            try:  # it draws one last time, and must not block on a full terminal
                self._read(time.monotonic() + 0.05)
            except RuntimeError:
                break
        try:
            self.process.wait(max(0.0, give_up_at - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self._descriptor)

    def _read(self, until: float) -> bytes:
        """Return the next output, or nothing if that takes too long."""
        waiting = select.poll()
        waiting.register(self._descriptor, select.POLLIN)
        if not waiting.poll(max(0.0, until - time.monotonic()) * 1000):
            return b""
        try:
            piece = os.read(self._descriptor, _AT_ONCE)
        except OSError:  # Linux reports this way that the other end is closed
            raise RuntimeError(f"the program in the window ended early: {self._drawn[-_SHOWN_BYTES:]!r}") from None
        with_torn = self._torn + piece
        if _ASKED in with_torn:
            os.write(self._descriptor, _ANSWER)
            with_torn = with_torn.replace(_ASKED, b"")
        self.pictures += with_torn.count(_PICTURE) - self._torn.count(_PICTURE)
        self._torn = with_torn[-_TORN:]
        return piece


@contextmanager
def opened(home: Path, *command: str) -> Generator[Window]:
    """Run a Python program, given by its arguments, in a window; it has ended after the block."""
    check_there_is_proc()
    ours, its = pty.openpty()
    termios.tcsetwinsize(its, (ROWS, COLUMNS))
    began = time.perf_counter()
    try:
        process = subprocess.Popen(  # noqa: TID251 - there is no event loop here that it could block
            [sys.executable, *command],
            stdin=its,
            stdout=its,
            stderr=its,
            cwd=ROOT,
            env=environment(home),
            start_new_session=True,
        )
    finally:
        os.close(its)
    window = Window(process, ours, began)
    try:
        yield window
    finally:
        window.end()


def environment(home: Path) -> dict[str, str]:
    """Return the environment of a program in a window: a full-colour terminal, this home, and no keys."""
    return {
        "SESSION_CORE_HOME": str(home),
        "SESSION_CORE_MODEL": "demo",
        "HOME": str(home.parent),
        "PATH": os.defpath,
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "LANG": "C.UTF-8",
    }
