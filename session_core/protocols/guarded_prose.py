"""A protocol's projector, called so that its faults are those of the protocol, and no text is lost or made up by it."""

from collections.abc import Callable
from typing import TypeVar

from session_core.foreign_faults import FOREIGN_FAULTS, passes_through
from session_core.protocols.faults import ProtocolFault
from session_core.protocols.prose import ProseProjector, ProseStream, Span

T = TypeVar("T")


class GuardedProse:
    """Wraps the projector of a plugin."""

    def __init__(self, prose: ProseProjector, plugin: str) -> None:
        self._prose = prose
        self._plugin = plugin

    def open(self) -> ProseStream:
        """Begin with an answer."""
        return _GuardedStream(_guarded(self._plugin, self._prose.open), self._plugin)


class _GuardedStream:
    def __init__(self, stream: ProseStream, plugin: str) -> None:
        self._stream = stream
        self._plugin = plugin
        self._held = ""
        """What was fed and is not told yet."""

    def feed(self, text: str) -> tuple[Span, ...]:
        self._held += text
        return self._checked(lambda: self._stream.feed(text))

    def close(self) -> tuple[Span, ...]:
        spans = self._checked(lambda: self._stream.close())  # noqa: PLW0108 - there may be no such method
        if self._held:
            raise ProtocolFault(self._plugin, "prose", "it has lost a part of an answer")
        return spans

    def _checked(self, call: Callable[[], tuple[Span, ...]]) -> tuple[Span, ...]:
        spans: tuple[Span, ...] = _guarded(self._plugin, lambda: tuple(call()))
        for span in spans:
            if not _is_span(span):
                raise ProtocolFault(self._plugin, "prose", "it divided an answer into something that is no text")
            if not self._held.startswith(span[1]):
                raise ProtocolFault(self._plugin, "prose", "it told something else than the answer said")
            self._held = self._held[len(span[1]) :]
        return spans


def _is_span(span: object) -> bool:
    return isinstance(span, tuple) and len(span) == 2 and span[0] in {"text", "code"} and isinstance(span[1], str)


def _guarded(plugin: str, call: Callable[[], T]) -> T:
    try:
        return call()
    except FOREIGN_FAULTS as error:
        if passes_through(error):
            raise
        raise ProtocolFault(plugin, "prose", f"{type(error).__name__}: {error}") from error
