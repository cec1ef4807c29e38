"""Drawing blocks in tests: a look, texts of rows, made-up results, and texts that want to be more than text."""

from typing import Any

from hypothesis import strategies as st
from textual.strip import Strip
from textual.theme import BUILTIN_THEMES

import session_core as sc
from frontends.shared.conversation.blocks import Block, ToolBlock
from frontends.terminal.look.styles import Look
from frontends.terminal.transcript.rendering.draw import Drawer

LOOK = Look.from_theme(BUILTIN_THEMES["textual-dark"], colour=True)
PLAIN = Look.from_theme(BUILTIN_THEMES["textual-dark"], colour=False)
NOW = 100_000

FRAGMENTS = (
    *(
        "word",
        "two words",
        "a_b_c",
        "x" * 30,
        "1. ",
        "- ",
        "* ",
        "+ ",
        "> ",
        "# ",
        "###### ",
        "---",
        "===",
        "***",
        "\\",
    ),
    *("```", "```python", "~~~", "`", "``", "*", "**", "_", "~~", "[", "](", ")", "![", "<", ">", "<b>", "[x] ", ": "),
    *("|", "| a | b |", "|---|---|", "|-", "    ", "  ", "\t", "\n", "\n", "\n\n", "\r\n", "\r", "http://x.y/z"),
    *("&#x202e;", "&#27;[2J", "&#0;", "&lt;", "&zwj;", "&#10;", "&nbsp;", "&Tab;", "&NewLine;", "&ZeroWidthSpace;"),
    *("\x1b[31m", "\x1b]0;t\x07", "\x1b]8;;http://e\x1b\\", "\x1b", "\x9b2J", "\x07", "\x08\x08", "\x00", "\x7f"),
    *("\u202e", "\u2066", "\u200b", "\u200d", "\ufeff", "\u2028", "\xad", "\U000e0041", "\ud800", "\ufe0f"),
    *(
        "汉字",
        "한글",
        "é",
        "e\u0301",
        "\u0301",
        "z\u0335\u0336\u0337\u0338\u0321",
        "👩\u200d🦰",
        "👍🏽",
        "🇩🇪",
        "☺️",
        "ｗ",
    ),
    *("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "@@ -1 +1 @@\n", "+", "-", "{{title}}", '"', "{", "}", "\\n"),
)

foreign = st.lists(st.sampled_from(FRAGMENTS), max_size=40).map("".join)


def texts(rows: list[Strip]) -> list[str]:
    """Return what rows say."""
    return [row.text for row in rows]


def draw(block: Block, width: int, look: Look, *, expanded: bool, now_ms: int = NOW) -> list[Strip]:
    """Draw a block, without remembering anything of it."""
    return Drawer().draw(block, width, look, expanded=expanded, now_ms=now_ms)


def drawn(block: Block, width: int = 60, look: Look = LOOK, *, expanded: bool = False) -> list[str]:
    """Draw a block and return what its rows say."""
    return texts(draw(block, width, look, expanded=expanded, now_ms=NOW))


def result(name: str, text: str, status: Any = "success", **details: Any) -> sc.ToolResultPart:
    """Make the result of a call."""
    given = sc.JsonObject(details) if details else None
    return sc.ToolResultPart(call_id=sc.CallId("c"), name=name, status=status, text=text, details=given)


def call(name: str, arguments: dict[str, Any], ended: sc.ToolResultPart | None = None, **more: Any) -> ToolBlock:
    """Make the block of a call."""
    return ToolBlock(key="k", name=name, arguments=sc.JsonObject(arguments), result=ended, **more)


def live(name: str, output: str = "", started_at: int = NOW - 12_000, **more: Any) -> sc.LiveTool:
    """Make a call that runs."""
    return sc.LiveTool(
        call_id=sc.CallId("c"), name=name, arguments=sc.JsonObject(), started_at=started_at, output=output, **more
    )
