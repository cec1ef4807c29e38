"""From a block to rows: the only entry point for drawing a conversation."""

from typing import Final

from textual.strip import Strip

from frontends.shared.conversation import blocks
from frontends.shared.conversation.messages import describe_attachment
from frontends.terminal.look.sanitised_text import sanitise_line
from frontends.terminal.look.styles import Look
from frontends.terminal.transcript.rendering.entries import entry_rows
from frontends.terminal.transcript.rendering.growing_markdown import Flow
from frontends.terminal.transcript.rendering.lines import cut_row
from frontends.terminal.transcript.rendering.tools import tool_rows
from frontends.terminal.transcript.rendering.user_messages import (
    remark_rows,
    summary_rows,
    thinking_rows,
    user_message_rows,
)

_MOST_FLOWS: Final = 8
"""The most answers that grow at the same time; usually one or two."""


class Drawer:
    """Draws blocks, and caches the drawn part of growing ones."""

    def __init__(self) -> None:
        self._flows: dict[str, Flow] = {}

    def draw(self, block: blocks.Block, width: int, look: Look, *, expanded: bool, now_ms: int) -> list[Strip]:
        """Return a block as rows of at most `width` cells."""
        match block:
            case blocks.AnswerBlock():
                return self._answer(block, width, look)
            case blocks.ToolBlock():
                return tool_rows(block, width, look, expanded=expanded, now_ms=now_ms)
            case blocks.ThinkingBlock():
                return thinking_rows(block, width, look, expanded=expanded)
            case blocks.UserMessageBlock():
                return user_message_rows(block, width, look, expanded=expanded)
            case blocks.AttachmentBlock(attachment=attachment):
                return [cut_row([(sanitise_line(describe_attachment(attachment)), look.dim)], width)]
            case blocks.SummaryBlock():
                return summary_rows(block, width, look, expanded=expanded)
            case blocks.RemarkBlock():
                return remark_rows(block, width, look)
            case blocks.EntryBlock():
                return entry_rows(block.entry, block.template, width, look)

    def _answer(self, block: blocks.AnswerBlock, width: int, look: Look) -> list[Strip]:
        flow = self._flows.get(block.key)
        if flow is None or flow.width != width or flow.look is not look:
            flow = Flow(width, look)
        rows = flow.draw(block.text, growing=block.growing)
        if block.growing:
            self._flows[block.key] = flow
            while len(self._flows) > _MOST_FLOWS:
                del self._flows[next(iter(self._flows))]
        else:
            self._flows.pop(block.key, None)
        if block.source is None:
            return rows
        return [cut_row([(f"{sanitise_line(block.source, 60)}:", look.accent)], width), *rows]


def changes_with_time(block: blocks.Block) -> bool:
    """Return whether a block has to be redrawn although nothing happened: it shows an elapsed time."""
    return isinstance(block, blocks.ToolBlock) and block.live is not None and block.result is None


def is_expandable(block: blocks.Block) -> bool:
    """Return whether a block may have more than its collapsed form shows."""
    return isinstance(block, blocks.ToolBlock | blocks.ThinkingBlock | blocks.SummaryBlock | blocks.UserMessageBlock)
