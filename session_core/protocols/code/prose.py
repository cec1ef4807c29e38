"""What people see of an answer with a cell: the prose before it, and nothing of the cell or of what follows."""

from session_core.protocols.code.cells import OpeningWatch
from session_core.protocols.prose import Span


class CellStream:
    """One answer on its way."""

    def __init__(self) -> None:
        self._watch = OpeningWatch()

    def feed(self, text: str) -> tuple[Span, ...]:
        """Take a piece; the start of a line is held back while it could become a fence."""
        return _spans(*self._watch.feed(text))

    def close(self) -> tuple[Span, ...]:
        """Return what was held back."""
        return _spans(*self._watch.close())


class CellProjector:
    """Divides answers by the rule of `cells`."""

    def open(self) -> CellStream:
        """Begin with an answer."""
        return CellStream()


def _spans(prose: str, code: str) -> tuple[Span, ...]:
    spans: list[Span] = []
    if prose:
        spans.append(("text", prose))
    if code:
        spans.append(("code", code))
    return tuple(spans)
