"""A session as a document, in pieces that are written as they are read."""

from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Literal, Protocol

import session_core as sc
from frontends.exporting.cleaning import Cleaning, known_secrets
from frontends.exporting.html import HtmlDocument
from frontends.exporting.markdown import MarkdownDocument
from frontends.exporting.reading import read_tree, shown_messages
from frontends.exporting.telling import about
from frontends.stored.home import Kept
from frontends.stored.reading import stored_snapshot

Kind = Literal["markdown", "html"]


class Document(Protocol):
    """What writes a session down, in this order; every piece may be written as it is."""

    def head(self) -> Iterator[str]:
        """Begin."""
        ...

    def message(self, message: sc.Message, branch: int = 0) -> Iterator[str]:
        """Write the next message."""
        ...

    def unfinished(self, partial: sc.PartialMessage) -> Iterator[str]:
        """Write the answer that is not whole."""
        ...

    def running(self, tool: sc.LiveTool) -> Iterator[str]:
        """Write a call that has no place in the conversation yet."""
        ...

    def end(self) -> Iterator[str]:
        """End."""
        ...


async def document(kept: Kept, session_id: sc.SessionId, kind: Kind) -> AsyncGenerator[bytes]:
    """Give a session as a document, piece by piece.

    Raises:
        NotFound: It was deleted meanwhile; what was given so far is not all of it.
        StoreDamaged: Something of it cannot be read.
    """
    assert kept.reader is not None, "a home without a store has no sessions to find"
    snapshot = await stored_snapshot(kept.reader, session_id)
    tree = await read_tree(kept.reader, snapshot)
    cleaning = Cleaning(secrets=known_secrets(kept.home, Path(snapshot.settings.cwd)))
    told = about(tree, kept.sessions, cleaning, abandoned=kept.abandoned)
    writer: Document = (HtmlDocument if kind == "html" else MarkdownDocument)(about=told, cleaning=cleaning)
    for piece in writer.head():
        yield _bytes(piece)
    async for message in shown_messages(kept.reader, tree):
        for piece in writer.message(message, tree.branches.get(message.message_id, 0)):
            yield _bytes(piece)
    if snapshot.partial is not None:
        for piece in writer.unfinished(snapshot.partial):
            yield _bytes(piece)
    for tool in snapshot.tools:
        for piece in writer.running(tool):
            yield _bytes(piece)
    for piece in writer.end():
        yield _bytes(piece)


def _bytes(piece: str) -> bytes:
    return piece.encode("utf-8", "replace")
