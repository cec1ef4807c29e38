"""How the worker talks to the service, and how an interrupt reaches the code of cells. Standard library only."""

import json
import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Interrupts:
    """Lets an interrupt reach only the code of cells; one that comes at a bad moment waits."""

    def __init__(self) -> None:
        self._allowed = False
        self._waiting = False

    def install(self) -> None:
        """Install the handler, whatever a cell has done before; drops an interrupt that came too late."""
        self._waiting = False
        signal.signal(signal.SIGINT, self._on_signal)

    def _on_signal(self, _number: int, _frame: Any) -> None:
        if self._allowed:
            self._waiting = False
            raise KeyboardInterrupt
        self._waiting = True

    def call(self, function: Callable[[], Any]) -> Any:
        """Call the code of a cell."""
        try:
            self._allowed = True
            if self._waiting:
                self._on_signal(0, None)
            return function()
        finally:
            self._allowed = False

    @contextmanager
    def hold_back(self) -> Iterator[None]:
        """Delay interrupts within the block, for a step that must complete on behalf of a cell."""
        if threading.current_thread() is not threading.main_thread() or not self._allowed:
            yield
            return
        self._allowed = False
        try:
            yield
        finally:
            self._allowed = True
        if self._waiting:
            self._on_signal(0, None)


class Wire:
    """JSON lines to and from the service; threads of a cell may use it concurrently."""

    def __init__(self, interrupts: Interrupts) -> None:
        self._reading, self._writing = os.dup(0), os.dup(1)
        self.output = os.dup(2)
        self._interrupts = interrupts
        self._buffer = bytearray()
        self._sending = threading.Lock()
        self._news = threading.Condition()
        self._somebody_reads = False
        self._inbox: dict[Any, Any] = {}

    def send(self, frame: dict[str, Any]) -> None:
        """Send a frame."""
        data = memoryview(json.dumps(frame, allow_nan=False).encode() + b"\n")
        with self._interrupts.hold_back(), self._sending:
            while data:
                data = data[os.write(self._writing, data) :]

    def receive(self, key: Any) -> Any:
        """Wait for the next order (`order`), or for the answer to a call (its number)."""
        while True:
            with self._news:
                while key not in self._inbox and self._somebody_reads:
                    self._news.wait()
                if key in self._inbox:
                    return self._inbox.pop(key)
                self._somebody_reads = True
            try:
                frame = self._read()
                with self._news:
                    self._inbox[frame["call"] if frame["do"] == "answer" else "order"] = frame
            finally:
                with self._news:
                    self._somebody_reads = False
                    self._news.notify_all()

    def forget_answers(self) -> None:
        """Drop answers to calls of interrupted cells."""
        with self._news:
            for key in [key for key in self._inbox if key != "order"]:
                del self._inbox[key]

    def _read(self) -> Any:
        while b"\n" not in self._buffer:
            select.select([self._reading], [], [])
            with self._interrupts.hold_back():
                piece = os.read(self._reading, 1_000_000)
                self._buffer += piece
            if not piece:
                os._exit(0)  # the service is gone
        line, _, rest = bytes(self._buffer).partition(b"\n")
        with self._interrupts.hold_back():
            self._buffer = bytearray(rest)
        return json.loads(line)
