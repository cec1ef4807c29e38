"""What people see of what a model writes: one rule, for text that streams in and for text that is whole.

A projector divides text into what is meant for people and what is meant for the protocol, such as a cell of code. It is
fed pieces as they come, and may hold back the end of a piece while it could be the beginning of a mark.
"""

from typing import Literal, Protocol

Span = tuple[Literal["text", "code"], str]
"""A piece of visible text, or of what only the protocol reads."""


class ProseStream(Protocol):
    """One answer on its way."""

    def feed(self, text: str) -> tuple[Span, ...]:
        """Take a piece, and return what can be told by now; all spans together are the text, nothing added or lost."""
        ...

    def close(self) -> tuple[Span, ...]:
        """Return what was held back, as the answer has ended."""
        ...


class ProseProjector(Protocol):
    """Divides the answers of a protocol."""

    def open(self) -> ProseStream:
        """Begin with an answer."""
        ...


def project_text(projector: ProseProjector, text: str) -> tuple[Span, ...]:
    """Divide a text that is whole, by the same rule."""
    stream = projector.open()
    spans: list[Span] = []
    for kind, piece in (*stream.feed(text), *stream.close()):
        if spans and spans[-1][0] == kind:
            spans[-1] = (kind, spans[-1][1] + piece)
        elif piece:
            spans.append((kind, piece))
    return tuple(spans)
