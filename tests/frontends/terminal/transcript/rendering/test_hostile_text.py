"""Foreign text in every field of every block: harmless, and within its width."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

import session_core as sc
from frontends.shared.conversation.blocks import (
    AnswerBlock,
    AttachmentBlock,
    Block,
    EntryBlock,
    RemarkBlock,
    SummaryBlock,
    ThinkingBlock,
    ToolBlock,
    UserMessageBlock,
)
from frontends.terminal.look.sanitised_text import _UNDRAWABLE
from frontends.terminal.look.styles import Look
from session_core.vocabulary.messages import ToolProgress
from tests._mostly_slow import mostly_slow
from tests.frontends._hostile import _PAYLOADS
from tests.frontends.terminal._drawing import LOOK, NOW, PLAIN, draw, foreign, live

ID, CALL = sc.MessageId("m"), sc.CallId("c")
TOOLS = ("bash", "shell", "read", "grep", "edit", "task", "plan", "cell", "job_output", "mcp__x")


def blocks_with(text: str) -> Iterator[Block]:
    """Yield blocks of every kind that hold this text wherever a text may be."""
    file = sc.FilePart(name=text, text=text)
    image = sc.ImagePart(media_type=text, data=text)  # type: ignore[arg-type]
    yield UserMessageBlock(key="a", message_id=ID, text=text, created_at=0, attachments=(file, image))
    yield AttachmentBlock(key="a", attachment=file)
    yield AttachmentBlock(key="a", attachment=image)
    yield AnswerBlock(key="a", text=text, code=True, source=text)
    yield UserMessageBlock(key="a", message_id=ID, text=text, created_at=0, source=text)
    yield UserMessageBlock(key="a", message_id=ID, text=text, created_at=0, command=text, ended=text)
    yield AnswerBlock(key="a", text=text, source=text)
    yield AnswerBlock(key="a", text=f"- {text}\n\n> {text}\n\n```{text}\n{text}", growing=True)
    yield AnswerBlock(key="a", text=f"[{text}]({text}) | {text} |\n\n|a|\n|-|\n|{text}|")
    yield ThinkingBlock(key="t", text=text, growing=True)
    yield ThinkingBlock(key="t", text=text)
    yield SummaryBlock(key="s", text=text)
    yield RemarkBlock(key="r", text=text, level="error")
    arguments = sc.JsonObject({text: text, "path": text, "command": text, "code": text, "title": text, "prompt": text})
    progress = ToolProgress(message=text, progress=0.5)
    for name in (*TOOLS, text):
        yield ToolBlock(key="k", name=name, arguments=arguments, live=live(name, text, progress=progress))
        for status in ("success", "error", "denied"):
            ended = sc.ToolResultPart(call_id=CALL, name=name, status=status, text=text)
            yield ToolBlock(key="k", name=name, arguments=arguments, result=ended)
    changed = sc.ToolResultPart(
        call_id=CALL, name="edit", status="success", text=text, details=sc.JsonObject({"diff": text, "exit_code": 1})
    )
    yield ToolBlock(key="k", name="edit", arguments=arguments, result=changed)
    yield ToolBlock(key="k", name=text, writing=text)
    yield ToolBlock(key="k", name="bash", writing=f'{{"command": "{text}')
    kept = sc.extensions.ExtensionEntry(extension=text, entry=sc.JsonObject({"x": text, text: text}), at=0)
    rows = ({"key": text, "value": "{{x}}"},)
    yield EntryBlock(key="e", entry=kept, template=sc.JsonObject({"kind": "keyvalue", "rows": rows}))
    yield EntryBlock(key="e", entry=kept, template=sc.JsonObject({"kind": "markdown", "text": "{{x}} " + text}))


def check(block: Block, width: int, *, expanded: bool, look: Look = LOOK) -> None:
    """Draw a block and look at every row."""
    for row in draw(block, width, look, expanded=expanded, now_ms=NOW):
        assert row.cell_length == cell_len(row.text) <= width
        assert _UNDRAWABLE.search(row.text) is None
        assert all(each.control is None for each in row)
        assert all(each.style is None or each.style.link is None for each in row)


@given(foreign, st.integers(2, 90), st.booleans(), st.integers(0, 8))
def test_whatever_is_drawn_is_harmless_and_fits(text: str, width: int, expanded: bool, which: int) -> None:  # noqa: FBT001
    """In every block and at every width, rows hold no control character, nothing invisible, no link."""
    for block in list(blocks_with(text))[which::9]:
        check(block, width, expanded=expanded, look=PLAIN if which % 2 else LOOK)


@pytest.mark.parametrize(
    "several",
    mostly_slow(((_PAYLOADS[at : at + 12],) for at in range(0, len(_PAYLOADS), 12)), quick=4),
    ids=lambda several: repr(several[0])[:20],
)
def test_known_tricks_are_only_text(several: tuple[str, ...]) -> None:
    """What attacks pages, Markdown and terminals elsewhere does nothing here, in any field of any block."""
    for block in blocks_with("\n".join(several)):
        check(block, 30, expanded=True)


@pytest.mark.parametrize(
    "piece",
    ["x", "汉", "\x1b[31mx\u202e", pytest.param("a\n", marks=pytest.mark.slow)],
    ids=["letters", "wide", "escapes", "lines"],
)
def test_enormous_texts_are_drawn_in_part(piece: str) -> None:
    """Of a megabyte in any field a bounded number of rows is drawn, and what is missing is said."""
    for block in list(blocks_with(piece * (1_000_000 // len(piece))))[::7]:
        rows = draw(block, 80, LOOK, expanded=True, now_ms=NOW)
        assert len(rows) <= 3_002
        assert max(row.cell_length for row in rows) <= 80
