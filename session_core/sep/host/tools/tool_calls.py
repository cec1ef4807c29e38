"""Open calls of extensions' tools: their progress, and how long they may stay silent.

An extension may report progress as often as it likes. It is shown at most every `limits.EXTENSION_PROGRESS_EVERY_MS`;
reports in between are merged, and the last one is shown before the result.
"""

import math
from collections.abc import Callable
from itertools import count
from typing import Any, Final, NoReturn, Self

import trio

from session_core import limits
from session_core.ids import new_id
from session_core.rpc.deadlines import ExtendableTimeout
from session_core.vocabulary.frozen import freeze_json
from session_core.vocabulary.messages import ToolProgress

_SILENT_S: Final = limits.EXTENSION_TOOL_MS / 1000
_TOTAL_S: Final = limits.EXTENSION_TOOL_TOTAL_MS / 1000
_EVERY_S: Final = limits.EXTENSION_PROGRESS_EVERY_MS / 1000

Show = Callable[[ToolProgress], None]


class OpenCall(ExtendableTimeout):
    """A call, until its block is left; it is abandoned if it is silent for too long, or takes too long in total."""

    __slots__ = ("_calls", "_last", "_show", "_show_at", "_waiting", "call_id", "extension")

    def __init__(self, calls: "ToolCalls", call_id: str, extension: str, show: Show) -> None:
        super().__init__(_SILENT_S)
        self.extension = extension
        self.call_id = call_id
        self._calls = calls
        self._show = show
        self._waiting: ToolProgress | None = None
        self._show_at = -math.inf
        self._last = self.until - _SILENT_S + _TOTAL_S

    @property
    def why_given_up(self) -> str:
        """Which of its two time limits has passed, for people and models."""
        if self.until >= self._last:
            return f"it took longer than {_TOTAL_S:g} s"
        return f"no word of it for {_SILENT_S:g} s"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and self._waiting is not None:
                self.show_waiting()
        finally:
            self._calls.end(self)

    def update_progress(self, news: ToolProgress) -> None:
        """Merge a progress report; omitted fields stay as they were."""
        now = trio.current_time()
        self.extend_until(min(now + _SILENT_S, self._last))
        before = self._waiting or ToolProgress()
        self._waiting = ToolProgress(
            message=before.message if news.message is None else news.message,
            progress=before.progress if news.progress is None else news.progress,
            details=before.details if news.details is None else news.details,
        )
        if now >= self._show_at:
            self.show_waiting()
        else:
            self._calls.show_soon(self)

    def show_waiting(self) -> None:
        """Show progress that has not been shown yet."""
        if (news := self._waiting) is not None:
            self._waiting = None
            self._show_at = trio.current_time() + _EVERY_S
            self._show(news)


class ToolCalls:
    """All open calls of all extensions."""

    def __init__(self) -> None:
        self._open: dict[str, OpenCall] = {}
        self._numbers = count(1)
        self._prefix = new_id("call")
        self._due: dict[str, OpenCall] = {}
        self._news = trio.Event()

    def __len__(self) -> int:
        return len(self._open)

    def open(self, extension: str, show: Show) -> OpenCall:
        """Accept progress of a new call for the length of the block; unshown progress is shown at its end.

        The call has its own id on the wire, because call ids from models may repeat.
        """
        call_id = f"{self._prefix}_{next(self._numbers)}"
        call = self._open[call_id] = OpenCall(self, call_id, extension, show)
        return call

    def end(self, call: OpenCall) -> None:
        """Stop accepting progress of a call."""
        del self._open[call.call_id]
        if self._due:
            self._due.pop(call.call_id, None)

    def update(
        self, extension: str, call_id: str, *, message: str | None, progress: float | None, details: Any
    ) -> None:
        """Handle the progress of a call; ignores one that is unknown, over or another extension's."""
        call = self._open.get(call_id)
        if call is not None and call.extension == extension:
            share = progress if progress is not None and math.isfinite(progress) else None
            call.update_progress(ToolProgress(message=message, progress=share, details=freeze_json(details)))

    def show_soon(self, call: OpenCall) -> None:
        """Show a call's progress a moment later, together with whatever comes until then."""
        self._due[call.call_id] = call
        self._news.set()

    async def keep_showing(self) -> NoReturn:
        """Show delayed progress until cancelled; one task serves all calls."""
        while True:
            await self._news.wait()
            self._news = trio.Event()
            await trio.sleep(_EVERY_S)
            due, self._due = self._due, {}
            for call in due.values():
                call.show_waiting()
