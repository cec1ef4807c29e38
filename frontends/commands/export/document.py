"""A session as a document, in pieces that are written as they are read."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Literal

import session_core as sc
from frontends.commands.export.conversation import group_with_results, read_tree, shown_messages
from frontends.commands.export.document_text import DocumentSanitiser, known_secrets
from frontends.commands.export.facts import build_document_facts
from frontends.commands.export.html import HtmlDocument
from frontends.commands.export.markdown import MarkdownDocument
from frontends.shared.conversation.blocks import build_conversation
from frontends.shared.home import StoredHome, stored_snapshot

Kind = Literal["markdown", "html"]
Document = HtmlDocument | MarkdownDocument


async def document(stored_home: StoredHome, session_id: sc.SessionId, kind: Kind) -> AsyncGenerator[bytes]:
    """Yield a session as a document, piece by piece.

    Raises:
        NotFound: It was deleted meanwhile; the pieces so far are incomplete.
        StoreDamaged: Part of it cannot be read.
    """
    assert stored_home.reader is not None, "a home without a store has no sessions to find"
    snapshot = await stored_snapshot(stored_home.reader, session_id)
    tree = await read_tree(stored_home.reader, snapshot)
    cleaning = DocumentSanitiser(secrets=known_secrets(stored_home.home, Path(snapshot.settings.cwd)))
    facts = build_document_facts(tree, stored_home.sessions, cleaning, abandoned=stored_home.abandoned)
    writer: Document = (HtmlDocument if kind == "html" else MarkdownDocument)(about=facts, cleaning=cleaning)
    for piece in writer.head():
        yield _bytes(piece)
    async for group in group_with_results(shown_messages(stored_home.reader, tree)):
        for message, blocks in build_conversation(group):
            for piece in writer.message(message, blocks, tree.branches.get(message.message_id, 0)):
                yield _bytes(piece)
    if snapshot.partial is not None:
        for piece in writer.render_partial(snapshot.partial):
            yield _bytes(piece)
    for tool in snapshot.tools:
        for piece in writer.render_running_tool(tool):
            yield _bytes(piece)
    for piece in writer.end():
        yield _bytes(piece)


def _bytes(piece: str) -> bytes:
    return piece.encode("utf-8", "replace")
