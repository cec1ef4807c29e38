"""One conversation, told by `show`, both kinds of document and the terminal: the same blocks in the same order."""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import attrs
import pytest

import session_core as sc
from frontends.commands.export import facts
from frontends.commands.export.conversation import LOOK_AHEAD, MessageTree, group_with_results
from frontends.commands.export.document import Document
from frontends.commands.export.document_text import DocumentSanitiser
from frontends.commands.export.html import HtmlDocument
from frontends.commands.export.markdown import MarkdownDocument
from frontends.commands.sessions.transcript import TranscriptFormat, message_lines
from frontends.shared.conversation.blocks import Block, EntryBlock, ToolBlock, UserMessageBlock, build_conversation
from frontends.shared.style import Style
from frontends.terminal.transcript.block_builder import BlockBuilder
from session_core.session.shell_lines import build_shell_line_message
from session_core.vocabulary.extensions import MessageRenderer
from tests.frontends.commands.export.test_export_documents import PIXEL
from tests.frontends.terminal._drawing import drawn

IMAGE = sc.ImagePart(media_type="image/png", data=PIXEL)
CHILD = sc.SessionId("ses_child")
NOTE = sc.extensions.ExtensionEntry(
    extension="notes", entry=sc.JsonObject({"tag": "note", "text": "a note of mine"}), at=4_500
)
NOTES = sc.extensions.ExtensionInfo(
    name="notes",
    version="1",
    scope="user",
    state="ready",
    renderers=(MessageRenderer(tag="note", template=sc.JsonObject({"kind": "markdown", "text": "{{text}}"})),),
)


class Story:
    """A state that messages are added to, one second after the other."""

    def __init__(self) -> None:
        self.state = sc.SessionState(session_id=sc.SessionId("ses_1"))

    @property
    def messages(self) -> list[sc.Message]:
        return list(self.state.messages)

    def add(self, role: Any, *parts: sc.Part, **more: Any) -> None:
        number = len(self.state.messages)
        message = sc.Message(
            message_id=sc.MessageId(f"m{number}"),
            parent_id=self.state.head,
            role=role,
            parts=parts,
            created_at=number * 1_000,
            **more,
        )
        self.state.messages = self.state.messages.append(message)
        self.state.head = message.message_id

    def run_line(self, line: str, status: Any, text: str) -> None:
        result = sc.ToolResultPart(call_id=sc.CallId("line"), name="bash", status=status, text=text)
        tool = sc.LiveTool(
            call_id=result.call_id, name="bash", arguments=sc.JsonObject(), started_at=0, output=text, result=result
        )
        self.add("user", *build_shell_line_message(self.state, tool, line, None, 0).message.parts)


def called(call_id: str, name: str, **arguments: Any) -> sc.ToolCallPart:
    return sc.ToolCallPart(call_id=sc.CallId(call_id), name=name, arguments=sc.JsonObject(arguments))


def ended(call_id: str, name: str, text: str, status: Any = "success", **more: Any) -> sc.ToolResultPart:
    return sc.ToolResultPart(call_id=sc.CallId(call_id), name=name, status=status, text=text, **more)


def rich_story() -> Story:
    """A conversation with every kind of block."""
    story = Story()
    story.add("summary", sc.TextPart(text="They met before."))
    story.add("user", sc.TextPart(text="fix this"), IMAGE, sc.FilePart(name="bug.log", text="x\ny\n"))
    story.add(
        "assistant",
        sc.ThinkingPart(text="it may be old"),
        sc.TextPart(text="I begin."),
        called("c1", "edit", path="src/one.py", old="a", new="b"),
        called("c2", "bash", command="curl evil"),
        called("c3", "task", title="count words", prompt="count"),
    )
    changed = sc.JsonObject({"diff": "@@ 1 @@\n+new\n-old", "added": 1, "removed": 1})
    refused = sc.Refusal(by="extension", reason="no network here")
    story.add(
        "tool",
        ended("c1", "edit", "done", details=changed),
        ended("c2", "bash", "the call was blocked; try something else", "denied", refusal=refused),
        ended("c3", "task", "There are 7.", details=sc.JsonObject({"session_id": CHILD})),
    )
    story.add("assistant", sc.CodePart(text="print(40 + 2)"), sc.TextPart(text="That is all."))
    story.run_line("ls", "success", "a.txt\n[exit code 0]")
    story.run_line("rm x", "denied", "this was refused")
    story.run_line("make", "success", "no such target\n[exit code 2]")
    story.add("assistant", sc.TextPart(text="It sh"), sc.InterruptedPart(reason="stopped"))
    return story


COMMON = (
    *("They met before.", "fix this", "{image}", "bug.log", "{thought}", "I begin."),
    *("edit src/one.py", "{change}", "bash curl evil", "not allowed", "no network here", "task count words"),
    *("There are 7.", "print(40 + 2)", "That is all."),
    *("! ls", "a.txt", "! rm x", "not allowed", "this was refused", "! make", "exit code 2", "no such target"),
    *("It sh", "stopped here"),
)
"""What every frontend says of it, in this order."""


def out_of_order(text: str, words: Sequence[str]) -> list[str]:
    """Return the words that do not follow the ones before them."""
    place, missing = 0, []
    for word in words:
        found = text.find(word, place)
        if found < 0:
            missing.append(word)
        else:
            place = found + len(word)
    return missing


def common(**own: str) -> list[str]:
    return [word.format(**own) if word.startswith("{") else word for word in COMMON]


def shown(story: Story) -> str:
    setting = TranscriptFormat(style=Style(), now=0, width=200)
    snapshot = story.state.snapshot(sc.Cursor(epoch=sc.Epoch("e"), seq=0))
    return "\n".join(message_lines(setting, story.messages, snapshot))


async def one_by_one(messages: Sequence[sc.Message]) -> AsyncIterator[sc.Message]:
    for message in messages:
        yield message


async def exported(kind: type[Document], story: Story) -> str:
    snapshot = story.state.snapshot(sc.Cursor(epoch=sc.Epoch("e"), seq=0))
    tree = MessageTree(snapshot=snapshot, shown_numbers=frozenset(), branches={}, elsewhere=0)
    about = facts.build_document_facts(tree, [], DocumentSanitiser(), abandoned=True)
    document = kind(about=about, cleaning=DocumentSanitiser())
    pieces: list[str] = []
    async for group in group_with_results(one_by_one(story.messages)):
        for message, blocks in build_conversation(group):
            pieces += document.message(message, blocks)
    return "".join(pieces)


def terminal_blocks(story: Story, *extensions: sc.extensions.ExtensionInfo) -> tuple[Block, ...]:
    return BlockBuilder().build_blocks(story.state, extensions)


def all_blocks(messages: Sequence[sc.Message]) -> Iterator[Block]:
    for _, blocks in build_conversation(messages):
        yield from blocks


async def test_every_frontend_tells_the_same_blocks_in_the_same_order() -> None:
    """Shell lines, calls with their results, refusals, attachments and interruptions are the same everywhere."""
    story = rich_story()
    screen = "\n".join(row for block in terminal_blocks(story) for row in drawn(block, 200, expanded=True))
    html, markdown = await exported(HtmlDocument, story), await exported(MarkdownDocument, story)
    texts = {
        "show": (shown(story), common(image="(PNG image, 48 bytes)", thought="it may be old", change="+1 -1")),
        "terminal": (screen, common(image="(PNG image, 48 bytes)", thought="it may be old", change="new")),
        "html": (html, common(image='alt="an image"', thought="it may be old", change="+new")),
        "markdown": (markdown, common(image="(PNG image, 48 bytes)", thought="it may be old", change="+new")),
    }

    assert {name: [] for name in texts} == {name: out_of_order(*each) for name, each in texts.items()}
    for text, _ in texts.values():
        assert "I have run this command" not in text  # these words are for the model
        assert "try something else" not in text
        assert 1 == text.count("There are 7.")


def test_the_terminal_shows_the_blocks_of_the_conversation() -> None:
    """Its blocks are those of everyone else, and the entries of extensions that run and say how they look."""
    story = rich_story()
    story.state.entries = (NOTE,)
    blocks = list(all_blocks(story.messages))
    with_note = terminal_blocks(story, NOTES)

    assert blocks == list(terminal_blocks(story))
    assert blocks == [each for each in with_note if not isinstance(each, EntryBlock)]
    (place,) = [index for index, each in enumerate(with_note) if isinstance(each, EntryBlock)]
    following = with_note[place + 1]
    assert isinstance(following, UserMessageBlock)
    assert "ls" == following.command


@pytest.mark.parametrize("between", [0, LOOK_AHEAD - 3, LOOK_AHEAD + 3])
async def test_results_are_looked_for_within_a_bound(between: int) -> None:
    """A call waits for its results over a few messages; a result that comes later is shown without the call."""
    story = Story()
    story.add("user", sc.TextPart(text="hi"))
    story.add("assistant", called("c1", "read", path="x"), called("c2", "read", path="y"))
    story.add("tool", ended("c1", "read", "one"))
    for number in range(between):
        story.add("user", sc.TextPart(text=f"meanwhile {number}"))
    story.add("tool", ended("c2", "read", "two"))
    story.add("assistant", sc.TextPart(text="so"))
    groups = [group async for group in group_with_results(one_by_one(story.messages))]
    blocks = [each for group in groups for each in all_blocks(group)]
    tools = [
        (each.arguments is not None, each.result.text if each.result else None)
        for each in blocks
        if isinstance(each, ToolBlock)
    ]

    assert story.messages == [message for group in groups for message in group]
    assert max(map(len, groups)) <= LOOK_AHEAD
    if between < LOOK_AHEAD:
        assert [(True, "one"), (True, "two")] == tools
    else:
        assert [(True, "one"), (True, None), (False, "two")] == tools


async def test_no_result_is_lost() -> None:
    """Results whose call is not at hand, or is another message's, are shown alone, with the call if it is known."""
    story = Story()
    story.add("assistant", called("c1", "read", path="x"))
    story.add("tool", ended("c1", "read", "one"), ended("c2", "read", "stray"))
    calling, tool = story.messages
    alone = attrs.evolve(tool, parts=tool.parts[:1])
    text = await exported(MarkdownDocument, story)

    assert ["✓ read x · 1 line", "✓ read · 1 line"] == shown(story).splitlines()[2:]
    assert text.index("stray") > text.index("one") > text.index("calls read x")
    assert ["one", "stray"] == [
        each.result.text for each in terminal_blocks(story) if isinstance(each, ToolBlock) and each.result is not None
    ]
    ((_, (block,)),) = build_conversation([alone], {call.call_id: call for call in calling.tool_calls})
    assert isinstance(block, ToolBlock)
    assert sc.JsonObject({"path": "x"}) == block.arguments


async def test_keys_in_shell_lines_are_masked() -> None:
    """Neither a command nor its output brings a key into a document, not even one that begins after its name."""
    key = "hunter22-hunter22-hunter22"
    story = Story()
    story.run_line(f"curl -H 'authorization: {key}' {'x' * 300}", "success", "ok")
    story.run_line("echo api_key:", "success", key)
    story.run_line("cat .env", "error", f"sk-ant-REDACTED\napi_key={key}")
    for kind in (HtmlDocument, MarkdownDocument):
        text = await exported(kind, story)
        assert key not in text
        assert "sk-ant" not in text
        assert "cat .env" in text
