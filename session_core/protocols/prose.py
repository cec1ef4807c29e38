"""What people see of a model's text: one rule for streamed and for complete text.

A projector divides text into parts for people and parts for the protocol, such as a cell of code. It is fed pieces as
they arrive, and may hold back the end of a piece while it could be the beginning of a marker.
"""

from typing import Literal, Protocol

Span = tuple[Literal["text", "code"], str]
"""A piece of visible text, or of text that only the protocol reads."""


class ProseStream(Protocol):
    """One answer as it streams in."""

    def feed(self, text: str) -> tuple[Span, ...]:
        """Add a piece and return the spans known by now; all spans together are the text, nothing added or lost."""
        ...

    def close(self) -> tuple[Span, ...]:
        """End the answer and return what was held back."""
        ...


class ProseProjector(Protocol):
    """Divides the answers of a protocol."""

    def open(self) -> ProseStream:
        """Begin an answer."""
        ...


def project_text(projector: ProseProjector, text: str) -> tuple[Span, ...]:
    """Divide complete text by the same rule."""
    stream = projector.open()
    spans: list[Span] = []
    for kind, piece in (*stream.feed(text), *stream.close()):
        if spans and spans[-1][0] == kind:
            spans[-1] = (kind, spans[-1][1] + piece)
        elif piece:
            spans.append((kind, piece))
    return tuple(spans)
