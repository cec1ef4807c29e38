"""A conversation as blocks."""

from typing import Any

import pytest

import session_core as sc
from frontends.shared.conversation.blocks import (
    AnswerBlock,
    Block,
    EntryBlock,
    RemarkBlock,
    SummaryBlock,
    ThinkingBlock,
    ToolBlock,
    UserMessageBlock,
)
from frontends.terminal.transcript.block_builder import BlockBuilder
from session_core.session.cells import build_cell_message
from session_core.session.shell_lines import build_shell_line_message
from session_core.vocabulary.extensions import MessageRenderer
from session_core.vocabulary.frozen import Rope


class Conversation:
    """A state that messages are added to, and its blocks."""

    def __init__(self) -> None:
        self.state = sc.SessionState(session_id=sc.SessionId("s"))
        self.blocks = BlockBuilder()

    def add(self, role: Any, *parts: sc.Part, at: int = 0, **more: Any) -> sc.MessageId:
        """Add a message behind the head."""
        number = len(self.state.messages)
        message = sc.Message(
            message_id=sc.MessageId(f"m{number}"),
            parent_id=more.pop("parent_id", self.state.head),
            role=role,
            parts=parts,
            created_at=at or number,
            **more,
        )
        self.state.messages = self.state.messages.append(message)
        self.state.head = message.message_id
        return message.message_id

    def of(self, *extensions: sc.extensions.ExtensionInfo) -> tuple[Block, ...]:
        """Return the blocks as they are now."""
        return self.blocks.build_blocks(self.state, extensions)


def text(words: str) -> sc.TextPart:
    """Make a part."""
    return sc.TextPart(text=words)


def called(call_id: str, name: str = "read", **arguments: Any) -> sc.ToolCallPart:
    """Make a call."""
    return sc.ToolCallPart(call_id=sc.CallId(call_id), name=name, arguments=sc.JsonObject(arguments))


def ended(call_id: str, words: str, name: str = "read", **details: Any) -> sc.ToolResultPart:
    """Make a result."""
    return sc.ToolResultPart(
        call_id=sc.CallId(call_id), name=name, status="success", text=words, details=sc.JsonObject(details)
    )


def running(call_id: str, name: str = "read", **more: Any) -> sc.LiveTool:
    """Make a call that runs."""
    return sc.LiveTool(call_id=sc.CallId(call_id), name=name, arguments=sc.JsonObject(), started_at=100, **more)


def test_every_kind_of_message_has_its_blocks() -> None:
    """What is said, thought, answered, called, cut short and summed up stands in its order, with keys of its own."""
    talk = Conversation()
    picture = sc.ImagePart(media_type="image/png", data="")
    talk.add("summary", text("before"))
    file = sc.FilePart(name="a.py", text="x")
    talk.add("user", text("hi"), picture, file)
    thinking, empty = sc.ThinkingPart(text="hm"), sc.ThinkingPart(text="")
    talk.add("assistant", thinking, empty, text("look"), called("c1", path="x"), sc.InterruptedPart(reason="stopped"))
    talk.add("tool", ended("c1", "found"))
    summary, said, thought, answer, tool, cut = talk.of()
    assert isinstance(summary, SummaryBlock)
    assert isinstance(said, UserMessageBlock)
    assert (said.text, said.attachments, said.branches) == ("hi", (picture, file), 1)
    assert isinstance(thought, ThinkingBlock)
    assert isinstance(answer, AnswerBlock)
    assert (answer.text, answer.growing) == ("look", False)
    assert isinstance(tool, ToolBlock)
    assert tool.result is not None
    assert (tool.name, tool.result.text, tool.live) == ("read", "found", None)
    assert isinstance(cut, RemarkBlock)
    assert [each.key for each in talk.of()] == ["m0", "m1", "m2/0", "m2/2", "m2/3", "m2/4"]


def test_what_has_not_changed_is_the_very_same_object() -> None:
    """New words, new output and new messages leave all other blocks as they were."""
    talk = Conversation()
    talk.add("user", text("hi"))
    talk.add("assistant", text("first"), called("c1"), called("c2"))
    one = talk.of()
    assert talk.of() is one
    talk.state.tools = (running("c2", output="a"),)
    two = talk.of()
    assert [before is now for before, now in zip(one, two, strict=True)] == [True, True, True, False]
    talk.add("tool", ended("c1", "x"), ended("c2", "y"))
    talk.state.tools = ()
    three = talk.of()
    assert [before is now for before, now in zip(two, three, strict=True)] == [True, True, False, False]
    talk.add("assistant", called("c1"))
    assert talk.of()[:4] == three
    talk.add("user", text("more"))
    assert talk.of()[:4] == three


def test_a_growing_answer_keeps_its_key_and_the_parts_before_it() -> None:
    """Only the last part is made anew with each delta, and the finished message has the same keys."""
    talk = Conversation()
    talk.add("user", text("hi"))
    parts = (
        sc.PartialPart(kind="thinking", text=Rope("hm")),
        sc.PartialPart(kind="text", text=Rope("one")),
    )
    talk.state.partial = sc.PartialMessage(
        message_id=sc.MessageId("m1"),
        parent_id=talk.state.head,
        turn_id=sc.TurnId("t"),
        model="m",
        started_at=0,
        parts=parts,
    )
    talk.state.growing = Rope("one")
    one = talk.of()
    talk.state.growing = talk.state.growing.append(" two")
    two = talk.of()
    assert two[:2] == one[:2]
    growing = two[2]
    assert isinstance(growing, AnswerBlock)
    assert (growing.text, growing.growing, growing.key) == ("one two", True, "m1/1")
    assert talk.of() is two
    talk.state.partial, talk.state.growing = None, None
    talk.add("assistant", sc.ThinkingPart(text="hm"), text("one two three"))
    assert [each.key for each in talk.of()] == [each.key for each in two]


def test_a_call_that_is_written_is_shown_with_what_is_there_of_its_arguments() -> None:
    """The name and the JSON so far are known before there is a call."""
    talk = Conversation()
    part = sc.PartialPart(kind="tool_call", text=Rope(), tool_name="write")
    talk.state.partial = sc.PartialMessage(
        message_id=sc.MessageId("p"), parent_id=None, turn_id=sc.TurnId("t"), model="m", started_at=0, parts=(part,)
    )
    talk.state.growing = Rope('{"path": "a')
    (block,) = talk.of()
    assert isinstance(block, ToolBlock)
    assert (block.name, block.writing, block.arguments) == ("write", '{"path": "a', None)


def test_an_id_that_comes_again_has_the_result_of_its_own_message() -> None:
    """Results belong to the calls before them, whatever later calls are named."""
    talk = Conversation()
    for words in ("one", "two"):
        talk.add("assistant", called("c1"))
        talk.add("tool", ended("c1", words))
    talk.add("assistant", called("c1"))
    talk.state.tools = (running("c1", output="three"),)
    tools = [each for each in talk.of() if isinstance(each, ToolBlock)]
    assert [each.result.text if each.result else None for each in tools] == ["one", "two", None]
    assert [each.live.output if each.live else None for each in tools] == [None, None, "three"]


def test_calls_tell_how_they_stand_and_how_long_they_took() -> None:
    """Asked, running, done: the time is that between the start and the result."""
    talk = Conversation()
    talk.add("assistant", called("c1"), called("c2"))
    asked = sc.Approval(
        request_id=sc.RequestId("r"),
        call_id=sc.CallId("c1"),
        tool_name="read",
        summary="",
        arguments=sc.JsonObject(),
        requested_at=0,
        expires_at=1,
    )
    talk.state.approvals = (asked,)
    first = talk.of()[0]
    assert isinstance(first, ToolBlock)
    assert first.asked
    talk.state.approvals = ()
    talk.state.tools = (running("c1"), running("c2"))
    talk.of()
    talk.state.tools = (running("c1", result=ended("c1", "x")), running("c2"))
    talk.state.updated_at = 350
    done, still = talk.of()
    assert isinstance(done, ToolBlock)
    assert isinstance(still, ToolBlock)
    assert done.result is not None
    assert (done.took_ms, done.asked, still.took_ms) == (250, False, None)
    talk.state.tools = ()
    talk.add("tool", ended("c1", "x"), ended("c2", "y"), at=900)
    assert [each.took_ms for each in talk.of() if isinstance(each, ToolBlock)] == [250, 800]


def test_a_helper_can_be_found_while_it_works_and_afterwards() -> None:
    """The session that does the work of a call is known from its start, and from its result."""
    talk = Conversation()
    talk.add("assistant", called("c1", "task"))
    talk.state.tools = (running("c1", "task", child_id=sc.SessionId("child")),)
    talk.add("user", text("meanwhile"))
    blocks = [each for each in talk.of() if isinstance(each, ToolBlock)]
    assert [each.child_id for each in blocks] == ["child"]
    later = Conversation()
    later.add("assistant", called("c1", "task"))
    later.add("tool", ended("c1", "found", "task", session_id="child"))
    (block,) = later.of()
    assert isinstance(block, ToolBlock)
    assert block.child_id == "child"


def test_calls_that_no_message_has_made_stand_at_the_end() -> None:
    """A line that a person runs is seen while it runs, and afterwards as the command with its output."""
    talk = Conversation()
    talk.add("user", text("hi"))
    line = sc.LiveTool(
        call_id=sc.CallId("x"), name="bash", arguments=sc.JsonObject({"command": "ls"}), started_at=1, output="a\n"
    )
    talk.state.tools = (line,)
    last = talk.of()[-1]
    assert isinstance(last, ToolBlock)
    assert (last.key, last.live) == ("call/x", line)
    said = build_shell_line_message(talk.state, line, "ls", None, 5).message
    talk.state.tools = ()
    talk.add("user", *said.parts)
    now = talk.of()[-1]
    assert isinstance(now, UserMessageBlock)
    assert (now.command, now.text, now.ended) == ("ls", "a\n\n[it was ended before it was done]", "")


def test_a_line_that_was_not_allowed_says_so() -> None:
    """How a command of a person ended is part of its block."""
    talk = Conversation()
    denied = sc.ToolResultPart(call_id=sc.CallId("x"), name="bash", status="denied", text="no")
    line = running("x", "bash", result=denied)
    talk.add("user", *build_shell_line_message(talk.state, line, "rm x", None, 5).message.parts)
    (block,) = talk.of()
    assert isinstance(block, UserMessageBlock)
    assert (block.command, block.text, block.ended) == ("rm x", "no", "not allowed")


def test_what_a_cell_printed_is_not_taken_for_a_persons_words() -> None:
    """It names the protocol as its source."""
    talk = Conversation()
    cell = running("x", "cell", result=ended("x", "42", "cell"))
    message = build_cell_message(talk.state, cell, None, 5).message
    talk.add("user", *message.parts, source="code")
    (block,) = talk.of()
    assert isinstance(block, UserMessageBlock)
    assert (block.source, block.text) == ("code", "[Output of the cell]\n42")


def test_what_was_said_in_several_ways_tells_which_one_this_is() -> None:
    """Branches are counted at their place, and only the way to the head is shown."""
    talk = Conversation()
    root = talk.add("user", text("hi"))
    talk.add("user", text("one"), parent_id=root)
    talk.add("user", text("two"), parent_id=root)
    _, block = talk.of()
    assert isinstance(block, UserMessageBlock)
    assert (block.text, block.branch, block.branches) == ("two", 2, 2)
    talk.state.head = sc.MessageId("m1")
    _, other = talk.of()
    assert isinstance(other, UserMessageBlock)
    assert (other.text, other.branch) == ("one", 1)


def test_older_messages_stand_before_the_window() -> None:
    """What was loaded from before joins on, as far as it leads to what is shown."""
    talk = Conversation()
    ids = [talk.add("user", text(f"say {number}")) for number in range(4)]
    messages = list(talk.state.messages)
    talk.state.messages, talk.state.earlier = sc.Vector(messages[2:]), 2
    assert len(talk.of()) == 2
    talk.blocks.older[:0] = messages[:2]
    assert [each.key for each in talk.of()] == ids


def test_entries_stand_where_they_were_made_if_their_extension_says_how() -> None:
    """By time among the messages; without a template they are the extension's own business."""
    talk = Conversation()
    talk.add("user", text("a"), at=10)
    talk.add("assistant", text("b"), at=30)
    note = sc.extensions.ExtensionEntry(extension="notes", entry=sc.JsonObject({"tag": "note"}), at=20)
    other = sc.extensions.ExtensionEntry(extension="notes", entry=sc.JsonObject({"tag": "secret"}), at=20)
    late = sc.extensions.ExtensionEntry(extension="notes", entry=sc.JsonObject({"tag": "note"}), at=40)
    talk.state.entries = (note, other, late)
    template = sc.JsonObject({"kind": "markdown", "text": "{{x}}"})
    renderer = MessageRenderer(tag="note", template=template)
    info = sc.extensions.ExtensionInfo(name="notes", version="1", scope="user", state="ready", renderers=(renderer,))
    assert len(talk.of()) == 2
    blocks = talk.of(info)
    assert [type(each) for each in blocks] == [UserMessageBlock, EntryBlock, AnswerBlock, EntryBlock]
    assert talk.of(info) is blocks
    talk.add("user", text("c"), at=50)
    assert talk.of(info)[:4] == blocks
    early = sc.extensions.ExtensionEntry(extension="notes", entry=sc.JsonObject({"tag": "note"}), at=5)
    talk.state.entries = (early, *talk.state.entries)
    assert isinstance(talk.of(info)[0], EntryBlock)
    talk.state.earlier = 7  # it belongs somewhere among messages that are not there
    assert talk.of(info)[:4] == blocks


@pytest.mark.parametrize(
    ("status", "error", "said"),
    [
        ("stopped", None, "Stopped."),
        ("failed", "no key", "This turn failed: no key"),
        ("interrupted", None, "The service ended in the middle of this turn."),
        ("limit_reached", "too many steps", "A limit was reached: too many steps"),
    ],
)
def test_a_turn_that_did_not_end_well_says_so_until_the_next_one(status: Any, error: str | None, said: str) -> None:
    """The remark stands at the end, and goes when a new turn begins."""
    talk = Conversation()
    talk.add("user", text("hi"))
    talk.state.last_outcome = sc.TurnOutcome(turn_id=sc.TurnId("t"), status=status, error=error)
    last = talk.of()[-1]
    assert isinstance(last, RemarkBlock)
    assert last.text == said
    assert talk.of()[-1] is last
    talk.state.turn = sc.RunningTurn(turn_id=sc.TurnId("u"), started_at=0)
    assert len(talk.of()) == 1


@pytest.mark.parametrize("how", ["stopped", "interrupted"])
def test_an_end_is_told_once(how: Any) -> None:
    """Where the answer itself says that it was stopped, or that the service ended, no remark repeats it."""
    talk = Conversation()
    talk.add("assistant", text("half"), sc.InterruptedPart(reason=how))
    talk.state.last_outcome = sc.TurnOutcome(turn_id=sc.TurnId("t"), status=how)
    assert [type(each) for each in talk.of()] == [AnswerBlock, RemarkBlock]


def test_only_what_can_have_changed_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Output of a tool and words of an answer look at no message that is over."""
    talk = Conversation()
    for _ in range(20):
        talk.add("assistant", text("look"), called("c1"), called("c2"))
        talk.add("tool", ended("c1", "x"), ended("c2", "y"))
    talk.add("assistant", called("c1"))
    before = talk.of()
    monkeypatch.setattr(BlockBuilder, "_build_message", None)
    monkeypatch.setattr(BlockBuilder, "_path", None)
    talk.state.tools = (running("c1", output="more"),)
    now = talk.of()
    assert now[:-1] == before[:-1]
    assert now[-1] is not before[-1]
