"""A progress line for slow work."""

import sys
from collections.abc import Callable
from threading import Event, Thread
from time import monotonic
from types import TracebackType
from typing import Self

from frontends.shared.figures import format_count
from frontends.shared.sanitise import one_line
from frontends.shared.style import stream_style
from frontends.shared.text_width import columns, cut

PATIENCE_S = 1.0
EVERY_S = 0.25
ERASE_LINE = "\r\x1b[K"
_LONGEST = 200


class ProgressLine:
    """Shows the current work on a terminal, once it takes longer than people like to wait.

    A separate thread shows it, because the work may be one long call without progress reports.
    """

    def __init__(self, write: Callable[[str], object] | None, *, patience_s: float = PATIENCE_S) -> None:
        self._write = write
        self._patience_s = patience_s
        self._doing = "working"
        self._done = Event()
        self._thread: Thread | None = None

    @classmethod
    def on_stderr(cls) -> "ProgressLine":
        """Show it on stderr if that is a terminal."""
        stream = sys.stderr
        if stream is None or not stream_style(stream).colours:
            return cls(None)

        def write(text: str) -> None:
            stream.write(text)
            stream.flush()

        return cls(write)

    def __call__(self, doing: str) -> None:
        """Set the description of the current work."""
        self._doing = doing

    def __enter__(self) -> Self:
        if self._write is not None:
            self._thread = Thread(target=self._show, args=(self._write,), name="progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()

    def _show(self, write: Callable[[str], object]) -> None:
        begun, wait = monotonic(), self._patience_s
        is_displayed = False
        try:
            while not self._done.wait(wait):
                wait, is_displayed = EVERY_S, True
                seconds = f" ({format_count(int(monotonic() - begun), 'second')})"
                write(
                    ERASE_LINE + cut(one_line(self._doing, _LONGEST), columns(sys.stderr) - len(seconds) - 1) + seconds
                )
            if is_displayed:
                write(ERASE_LINE)
        except (OSError, ValueError):  # the terminal is gone; the work is not
            pass
