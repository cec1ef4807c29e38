"""Calls of extensions' tools that are under way: how far they are, and for how long they may go on without a word.

An extension may tell its progress as often as it likes. It is shown at most every `limits.EXTENSION_PROGRESS_EVERY_MS`;
what comes in between is put together, and the last of it is shown before the result.
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
    """One call, until its block is left; it is given up when it is silent for too long, or takes too long in all."""

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
        """Which of its two times was over, for people and models."""
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
        """Take what an extension says of its progress; what it leaves out stays as it was."""
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
        """Show what has not been shown yet."""
        if (news := self._waiting) is not None:
            self._waiting = None
            self._show_at = trio.current_time() + _EVERY_S
            self._show(news)


class ToolCalls:
    """All calls that are under way, of all extensions."""

    def __init__(self) -> None:
        self._open: dict[str, OpenCall] = {}
        self._numbers = count(1)
        self._prefix = new_id("call")
        self._due: dict[str, OpenCall] = {}
        self._news = trio.Event()

    def __len__(self) -> int:
        return len(self._open)

    def open(self, extension: str, show: Show) -> OpenCall:
        """Take progress of a new call for the length of the block; what is left of it is shown at its end.

        It has a name of its own on the wire, as ids that models give to their calls may come again.
        """
        call_id = f"{self._prefix}_{next(self._numbers)}"
        call = self._open[call_id] = OpenCall(self, call_id, extension, show)
        return call

    def end(self, call: OpenCall) -> None:
        """Take no more of its progress."""
        del self._open[call.call_id]
        if self._due:
            self._due.pop(call.call_id, None)

    def update(
        self, extension: str, call_id: str, *, message: str | None, progress: float | None, details: Any
    ) -> None:
        """Take the progress of a call; one that is unknown, over or another extension's is passed over."""
        call = self._open.get(call_id)
        if call is not None and call.extension == extension:
            share = progress if progress is not None and math.isfinite(progress) else None
            call.update_progress(ToolProgress(message=message, progress=share, details=freeze_json(details)))

    def show_soon(self, call: OpenCall) -> None:
        """Have what a call tells shown a moment later, with whatever comes until then."""
        self._due[call.call_id] = call
        self._news.set()

    async def keep_showing(self) -> NoReturn:
        """Show what has come too soon after something else, until cancelled; one task for all calls."""
        while True:
            await self._news.wait()
            self._news = trio.Event()
            await trio.sleep(_EVERY_S)
            due, self._due = self._due, {}
            for call in due.values():
                call.show_waiting()
